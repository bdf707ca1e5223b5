"""Whose a guest's directory is, where several hosts may share the directory of all guests.

The record names the host that the guest belongs to, and while it leaves for one that shares its disks the one that it
goes to. From that follows who may remove the files:

* a host removes only a directory whose record names it, and names no host that comes after it;
* a directory with the record of another host is that host's, or stands on storage that both share.

Nothing is written to find out whether two hosts share: both look at the record, and see the same file or not.

How the destination reaches the guest's volumes is its own knowledge, too. While the record is the source's it stands
next to that one, in a file that is named after the destination.
"""
from __future__ import annotations

import dataclasses
import hashlib
import os

from nova.disk_files import files
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage


RECORD_NEEDED = ('its disks lie in a pool of Ceph, and the other host neither finds its record there nor shares the '
                 'directory of the guests')
# why a guest that was adopted (features/adoption.py) stays on its host
ELSEWHERE = ('its disks lie where the program put them that made it; a resize on its host brings them to where the '
             'others are')
MIXED = ('some of its disks lie in a pool of Ceph and others are files of its host, which does not share the '
         'directory of the guests')


def record_fingerprint(stored: storage.Storage, uuid: str) -> list[str | int] | None:
    """What two hosts see as equal only where it is the same file; None where there is no file."""
    try:
        with open(stored.path(uuid, records.RECORD), 'rb') as file:
            status, data = os.fstat(file.fileno()), file.read()
    except FileNotFoundError:
        return None
    return [status.st_ino, status.st_mtime_ns, hashlib.sha256(data).hexdigest()]


def _coming(stored: storage.Storage, uuid: str, host: str) -> str:
    return stored.path(uuid, f'coming.{host}.json')


def note_incoming(stored: storage.Storage, guest: xml.Guest, host: str) -> None:
    """Note the guest as ``host`` will have it, when it comes to the disks that it shares."""
    records.write_file(_coming(stored, guest.uuid, host), guest)


def incoming(stored: storage.Storage, uuid: str, host: str) -> xml.Guest | None:
    """What ``expect`` noted."""
    return records.read_file(_coming(stored, uuid, host))


def forget_incoming(stored: storage.Storage, uuid: str, host: str) -> None:
    files.remove(_coming(stored, uuid, host))


def list_incoming(stored: storage.Storage, host: str) -> list[str]:
    """Uuids of the guests that ``expect`` has noted for ``host``."""
    return [uuid for uuid in sorted(os.listdir(stored.directory))
            if records.UUID.match(uuid) and os.path.exists(_coming(stored, uuid, host))]


def may_remove(guest: xml.Guest | None, host: str) -> bool:
    """Whether a host may remove the files of a guest, by their record."""
    return guest is None or guest.host in (None, host) and guest.successor is None


def hand_over(stored: storage.Storage, guest: xml.Guest, successor: str | None) -> None:
    """Note for whom the guest's disks are kept when it goes from here; None: it stays."""
    if guest.successor != successor:
        stored.save(dataclasses.replace(guest, successor=successor))


def was_taken_over(guest: xml.Guest | None, owner: str, host: str) -> bool:
    """Whether ``host`` sees the disks of a guest of another host, ``owner``, because they share them.

    The record that this host has kept of a guest that it had long ago is none of ``owner``. One that it has taken over
    already, in an attempt that did not come to its end, is.
    """
    if guest is None:
        return False
    if guest.host == host:
        return guest.taken_from == owner
    return guest.host == owner
