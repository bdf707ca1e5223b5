"""Ownership of a guest's directory, if several hosts share the directory of all guests.

The record names the guest's host and, during a live migration on shared disks, its destination. The record determines
which host may remove the files:

* a host removes only a directory with a record that names it and no successor;
* a directory with another host's record belongs to that host, or is on storage that both share.

To detect shared storage, both hosts read the record and compare it; neither writes.

The destination also has its own connections to the guest's volumes. While the record belongs to the source, they are in
a file next to it that is named after the destination.
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
# why an adopted guest (features/adoption.py) stays on its host
ELSEWHERE = ('its disks lie where the program put them that made it; a resize on its host brings them to where the '
             'others are')
MIXED = ('some of its disks lie in a pool of Ceph and others are files of its host, which does not share the '
         'directory of the guests')


def record_fingerprint(stored: storage.Storage, uuid: str) -> list[str | int] | None:
    """Return a value that is equal on two hosts only for the same file; None if there is no file."""
    try:
        with open(stored.path(uuid, records.RECORD), 'rb') as file:
            status, data = os.fstat(file.fileno()), file.read()
    except FileNotFoundError:
        return None
    return [status.st_ino, status.st_mtime_ns, hashlib.sha256(data).hexdigest()]


def _coming(stored: storage.Storage, uuid: str, host: str) -> str:
    return stored.path(uuid, f'coming.{host}.json')


def note_incoming(stored: storage.Storage, guest: xml.Guest, host: str) -> None:
    """Store the guest as ``host`` will have it, when it arrives on shared disks."""
    records.write_file(_coming(stored, guest.uuid, host), guest)


def incoming(stored: storage.Storage, uuid: str, host: str) -> xml.Guest | None:
    """Return the guest stored by ``note_incoming``."""
    return records.read_file(_coming(stored, uuid, host))


def forget_incoming(stored: storage.Storage, uuid: str, host: str) -> None:
    files.remove(_coming(stored, uuid, host))


def list_incoming(stored: storage.Storage, host: str) -> list[str]:
    """Return uuids of the guests that ``note_incoming`` has stored for ``host``."""
    return [uuid for uuid in sorted(os.listdir(stored.directory))
            if records.UUID.match(uuid) and os.path.exists(_coming(stored, uuid, host))]


def may_remove(guest: xml.Guest | None, host: str) -> bool:
    """Return whether a host may remove the files of a guest, according to the guest's record."""
    return guest is None or guest.ownership.host in (None, host) and guest.ownership.successor is None


def hand_over(stored: storage.Storage, guest: xml.Guest, successor: str | None) -> None:
    """Record the host that takes over the guest's disks when the guest leaves; None if the guest does not move."""
    if guest.ownership.successor != successor:
        stored.save(dataclasses.replace(guest, ownership=dataclasses.replace(guest.ownership, successor=successor)))


def was_taken_over(guest: xml.Guest | None, owner: str, host: str) -> bool:
    """Return whether ``host`` shares the disks of a guest of another host, ``owner``.

    A stale record of a guest that ``host`` had earlier does not name ``owner``. The record of an interrupted takeover
    by ``host`` counts.
    """
    if guest is None:
        return False
    if guest.ownership.host == host:
        return guest.ownership.taken_from == owner
    return guest.ownership.host == owner
