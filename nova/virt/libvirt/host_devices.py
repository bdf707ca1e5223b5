"""What this host's kernel says of its PCI devices."""
from __future__ import annotations

import pathlib

from nova import exception

DEVICES = pathlib.Path('/sys/bus/pci/devices')


def interface_of(address: str, devices: pathlib.Path = DEVICES) -> str:
    """Name of the network interface that a device is now: it may change with each start of the host.

    :raises VirtError: it is none, as long as a driver of guests has the device
    """
    names = sorted(path.name for path in (devices / address / 'net').glob('*'))
    if not names:
        raise exception.VirtError(operation='plug a port', reason=(
            f'device {address} has no network interface on the host: its driver is not loaded, or a guest has it'))
    return names[0]
