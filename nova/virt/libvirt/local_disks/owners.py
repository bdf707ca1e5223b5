"""Owners of disks in a pool: a record in the pool itself, for hosts that share the pool but no directory.

    <uuid>_record      an image without content; its metadata contain the PoolRecord

The record in a directory names the owner of the files there (moves/shared_storage.py). The PoolRecord names the owner
of the images. The owner writes both records. An evacuation finds only the PoolRecord, because the directory is on the
failed host.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import typing

from nova import exception
from nova import utils
from nova.json_types import JsonObject
from nova.runtime import durable_files
from nova.runtime import versioned_records
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import base

# fields of a guest's record that the pool does not store: each host has its own values, or the values are secret
OWN = ('volumes', 'consoles', 'rescued', 'hostdevs', 'interfaces', 'adopted', 'host', 'successor', 'previous_host',
       'source_directory', 'cell', 'cpuset', 'owner', 'console_log', 'nvram')
IN_MIGRATION = 'in-migration'            # file in the guest's directory while another host still owns the disks


@dataclasses.dataclass(frozen=True)
class PoolRecord:
    """Owner of a guest's disks in the pool.

    host           host that owns the disks
    previous_host  host that owned the disks before, or None
    successor      destination of the live migration in progress, or None
    guest          the guest's record without the fields of OWN; disks in the pool are marked ``pooled``
    """

    host: str
    previous_host: str | None
    successor: str | None
    guest: dict[str, typing.Any]
    unknown_fields: dict[str, typing.Any] = dataclasses.field(default_factory=dict)

    @property
    def disks(self) -> set[str]:
        """Return the names of the guest's disks in the pool."""
        return {os.path.basename(disk['file']) for disk in self.guest['disks'] if disk.get('pooled')}

    @property
    def digest(self) -> str:
        """Return a hash of the record. Two hosts get the same value only if they use the same pool."""
        return hashlib.sha256(json.dumps(utils.to_record(self), sort_keys=True).encode()).hexdigest()


def _from_version_1(values: JsonObject) -> JsonObject:
    return {'previous_host' if name == 'before' else name: value for name, value in values.items()}


# Upgrades convert stored files but not pools. So version 1, which calls previous_host ``before``, must be readable.
FORMAT = versioned_records.RecordFormat[JsonObject](
    name='record of the owner of disks in the pool', version=2, readable_by=2, upgrades={1: _from_version_1},
    fields=frozenset({'host', 'previous_host', 'successor', 'guest'}),
    required=frozenset({'host', 'previous_host', 'successor', 'guest'}))


class Owners:
    """Reader and writer of PoolRecords.

    :param pool: a base.SharedPlace; None: disks are files, and there are no records
    :param host: name of this host
    """

    def __init__(self, pool: base.SharedPlace | None, host: str | None) -> None:
        self._pool, self._host = pool, host
        self._written: dict[str, PoolRecord] = {}

    def read(self, uuid: str) -> PoolRecord | None:
        """Return the record in the pool, or None if there is none.

        :raises VirtError: Ceph does not respond, or the record is unreadable
        """
        if self._pool is None or self._host is None:
            return None
        text = self._pool.note(uuid)
        if text is None:
            return None
        try:
            found = FORMAT.made(FORMAT.decode(text, uuid),
                                lambda values: utils.from_known(PoolRecord, values), uuid)
        except exception.RecordUnreadable as error:
            raise exception.VirtError(operation='find the owner of the disks', reason=error.message) from None
        self._written[uuid] = found
        return found

    def write(self, guest: xml.Guest, directory: str) -> None:
        """Record this host as the owner; does nothing without disks in the pool or during an incoming migration.

        :param directory: directory of the guest
        """
        if self._pool is None or self._host is None or not any(disk.source for disk in guest.disks) or is_in_migration(
                directory):
            return
        values = {name: value for name, value in guest.to_record().items() if name not in OWN}
        for disk in values['disks']:
            disk['file'] = os.path.basename(disk['file'])
            disk['backing_file'] = disk['backing_file'] and os.path.basename(disk['backing_file'])
            disk['pooled'] = bool(disk.pop('source'))
        for part in ('kernel', 'ramdisk'):
            values[part] = values[part] and os.path.basename(values[part])
        known = self._written.get(guest.uuid)
        if known is None or known.host != self._host:
            known = self.read(guest.uuid)
        previous = None if known is None else known.host if known.host != self._host else known.previous_host
        self._put(guest.uuid, PoolRecord(self._host, previous, guest.ownership.successor,
                                         json.loads(json.dumps(values)), known.unknown_fields if known else {}))

    def promise(self, uuid: str, successor: str | None) -> None:
        """Record the destination of a live migration if this host owns the disks; None removes the entry."""
        note = self.read(uuid)
        if note is not None and note.host == self._host and note.successor != successor:
            self._put(uuid, dataclasses.replace(note, successor=successor))

    def give_back(self, uuid: str) -> None:
        """Return the disks to their previous host; does nothing if this host does not own the disks."""
        note = self.read(uuid)
        if note is not None and note.host == self._host and note.previous_host is not None:
            self._put(uuid, dataclasses.replace(note, host=note.previous_host, previous_host=None, successor=None))
            self._written.pop(uuid, None)

    def forget(self, uuid: str) -> None:
        self._written.pop(uuid, None)

    def are_others(self, uuid: str, directory: str) -> bool:
        """Return whether another host owns a guest's disks in the pool."""
        if is_in_migration(directory):
            return True
        note = self.read(uuid)
        if note is None:    # no record in the pool: the owner is in the directory's record
            return False
        return (note.successor or note.host) != self._host

    def _put(self, uuid: str, note: PoolRecord) -> None:
        if self._written.get(uuid) != note:
            self._pool.put_note(  # type: ignore[union-attr]
                uuid, json.dumps(FORMAT.with_header(utils.to_record(note)), sort_keys=True))
            self._written[uuid] = note


def is_in_migration(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, IN_MIGRATION))


def mark_in_migration(directory: str, marked: bool) -> None:
    """Mark an arriving guest: another host still owns its disks in the pool. ``marked`` False removes the mark."""
    path = os.path.join(directory, IN_MIGRATION)
    if marked:
        durable_files.replace(path, b'')
    elif os.path.exists(path):
        os.unlink(path)
