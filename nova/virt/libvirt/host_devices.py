"""PCI device data from this host's kernel."""
from __future__ import annotations

import pathlib

from nova import exception

DEVICES = pathlib.Path('/sys/bus/pci/devices')


def interface_of(address: str, devices: pathlib.Path = DEVICES) -> str:
    """Return the current network interface name of a device; it may change at each boot.

    :raises VirtError: the device has no interface, for example while a guest driver is bound to it
    """
    names = sorted(path.name for path in (devices / address / 'net').glob('*'))
    if not names:
        raise exception.VirtError(operation='plug a port', reason=(
            f'device {address} has no network interface on the host: its driver is not loaded, or a guest has it'))
    return names[0]
