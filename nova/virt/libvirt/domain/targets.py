"""Names of disks in guests (the ``target`` of libvirt): a prefix of the bus and a letter."""
from __future__ import annotations

import string
from collections.abc import Container

# prefix of the names on each bus
PREFIXES = {'virtio': 'vd', 'scsi': 'sd', 'sata': 'sd', 'usb': 'sd', 'ide': 'hd', 'fdc': 'fd'}
LETTERS = string.ascii_lowercase


def free(bus: str, names: Container[str], letters: Container[str] = ()) -> str | None:
    """Return the first disk name on a bus outside ``names`` and ``letters``, or None if all are taken.

    Buses may share names.
    """
    return next((name for letter in LETTERS if letter not in letters and (name := PREFIXES[bus] + letter) not in names),
                None)
