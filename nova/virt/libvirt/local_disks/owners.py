"""Whose the disks of a guest in a pool are, said by the pool itself: for hosts that share the pool and no directory.

    <uuid>_record      an image without content; its metadata say the Note

The record in a directory says whose the files there are (moves/shared_storage.py), this one whose the images are. It is
written by the host that has them, with the guest's record: for an evacuation no other is left.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import typing

from nova import exception
from nova import utils
from nova.virt.libvirt import xml

if typing.TYPE_CHECKING:
    from nova.virt.libvirt.local_disks import base

# what each host makes for itself, and what has secrets: it is not for the pool
OWN = ('volumes', 'consoles', 'rescued', 'hostdevs', 'interfaces', 'adopted', 'host', 'successor', 'taken_from',
       'moved_from', 'cell', 'cpuset', 'owner', 'console_log', 'nvram')
LENT = 'lent'                            # in the guest's directory: the disks are another host's still


@dataclasses.dataclass(frozen=True)
class Note:
    """
    host         whose the disks are
    before       whose they were; None: no host's
    successor    to whom the running guest goes at this moment
    guest        its record without what is OWN; disks in the pool are marked ``pooled``
    """

    host: str
    before: str | None
    successor: str | None
    guest: dict[str, typing.Any]

    @property
    def disks(self) -> set[str]:
        """Names of its disks in the pool."""
        return {os.path.basename(disk['file']) for disk in self.guest['disks'] if disk.get('pooled')}

    @property
    def digest(self) -> str:
        """Equal on two hosts only where they look at the same pool."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()


class Owners:
    """
    :param pool: a base.Pool; None: disks are files, and nothing is noted
    :param host: name of this host
    """

    def __init__(self, pool: base.Pool | None, host: str | None) -> None:
        self._pool, self._host = pool, host
        self._written: dict[str, Note] = {}

    def read(self, uuid: str) -> Note | None:
        """What the pool says; None: nothing.

        :raises VirtError: Ceph does not answer, or it is not what our hosts write
        """
        if self._pool is None or self._host is None:
            return None
        text = self._pool.note(uuid)
        if text is None:
            return None
        try:
            found = utils.from_known(Note, json.loads(text))
        except (AttributeError, TypeError, ValueError):
            raise exception.VirtError(operation='find the owner of the disks', reason=(
                'the pool does not say it in a way that this release understands')) from None
        self._written[uuid] = found
        return found

    def write(self, guest: xml.Guest, directory: str) -> None:
        """Note that the disks are this host's; nothing when none is in the pool, or they are lent.

        :param directory: of the guest
        """
        if self._pool is None or self._host is None or not any(disk.source for disk in guest.disks) or is_lent(
                directory):
            return
        values = {name: value for name, value in dataclasses.asdict(guest).items() if name not in OWN}
        for disk in values['disks']:
            disk['file'] = os.path.basename(disk['file'])
            disk['backing_file'] = disk['backing_file'] and os.path.basename(disk['backing_file'])
            disk['pooled'] = bool(disk.pop('source'))
        for part in ('kernel', 'ramdisk'):
            values[part] = values[part] and os.path.basename(values[part])
        known = self._written.get(guest.uuid)
        if known is None or known.host != self._host:
            known = self.read(guest.uuid)
        before = None if known is None else known.host if known.host != self._host else known.before
        self._put(guest.uuid, Note(self._host, before, guest.successor,
                                   json.loads(json.dumps(values))))

    def promise(self, uuid: str, successor: str | None) -> None:
        """Note to whom the running guest goes, while the disks are this host's; None: it stays."""
        note = self.read(uuid)
        if note is not None and note.host == self._host and note.successor != successor:
            self._put(uuid, dataclasses.replace(note, successor=successor))

    def give_back(self, uuid: str) -> None:
        """Let the disks be the host's that they came from; nothing when they are not this host's."""
        note = self.read(uuid)
        if note is not None and note.host == self._host and note.before is not None:
            self._put(uuid, dataclasses.replace(note, host=note.before, before=None, successor=None))
            self._written.pop(uuid, None)

    def forget(self, uuid: str) -> None:
        self._written.pop(uuid, None)

    def are_others(self, uuid: str, directory: str) -> bool:
        """Whether this host has to leave the disks that the pool has of a guest."""
        if is_lent(directory):
            return True
        note = self.read(uuid)
        if note is None:                 # of an older release: the record in the directory decides
            return False
        if note.successor is not None:
            return note.successor != self._host
        return note.host != self._host

    def _put(self, uuid: str, note: Note) -> None:
        if self._written.get(uuid) != note:
            self._pool.put_note(uuid, json.dumps(dataclasses.asdict(note), sort_keys=True))  # type: ignore[union-attr]
            self._written[uuid] = note


def is_lent(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, LENT))


def lend(directory: str, lent: bool) -> None:
    """Mark the guest's disks in the pool as another host's, for a guest that comes and has not arrived."""
    path = os.path.join(directory, LENT)
    if lent:
        with open(path, 'wb'):
            pass
    elif os.path.exists(path):
        os.unlink(path)
