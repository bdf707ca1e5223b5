"""The record of a guest: a file in its directory that says what its disks are."""
from __future__ import annotations

import dataclasses
import os
import re

from nova.disk_files import files
from nova.virt.libvirt import xml

RECORD = 'guest.json'
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')


Stamp = tuple[int, int, int]             # inode, time of the last change in nanoseconds, size


def stamp(directory: str) -> Stamp | None:
    """What tells a record from those before it, which are other files; None: there is none."""
    try:
        status = os.stat(os.path.join(directory, RECORD))
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read(directory: str) -> xml.Guest | None:
    """The recorded Guest, or None."""
    values = files.read_json(os.path.join(directory, RECORD))
    return xml.Guest.from_dict(values) if values else None


def write(directory: str, guest: xml.Guest) -> None:
    files.write_json(os.path.join(directory, RECORD), dataclasses.asdict(guest))


def elsewhere(guest: xml.Guest | None) -> list[xml.Disk]:
    """[Disk] of a guest (or None) that lie outside of its directory, where another program has made them."""
    return [disk for disk in guest.disks if disk.file in guest.adopted] if guest else []
