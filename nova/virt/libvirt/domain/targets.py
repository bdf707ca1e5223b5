"""Names of disks in guests (the ``target`` of libvirt): a prefix of the bus and a letter."""
from __future__ import annotations

import string
from collections.abc import Container

PREFIXES = {'virtio': 'vd', 'scsi': 'sd', 'sata': 'sd', 'usb': 'sd', 'ide': 'hd', 'fdc': 'fd'}      # of each bus
LETTERS = string.ascii_lowercase


def free(bus: str, names: Container[str], letters: Container[str] = ()) -> str | None:
    """The first name of a disk on a bus that is none of ``names`` and has none of ``letters``; None: all are taken.

    Buses may share names.
    """
    return next((name for letter in LETTERS if letter not in letters and (name := PREFIXES[bus] + letter) not in names),
                None)
