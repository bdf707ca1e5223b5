"""Mediated devices of a guest: created before its start and removed with it. Each function runs through ``Host.run``.

libvirt creates them with mdevctl; they are missing after a host reboot until their guest starts.
"""
from __future__ import annotations

from xml.etree import ElementTree as etree

import libvirt

from nova.objects import pci
from nova.virt.libvirt.domain import mediated


def ensure(connection: libvirt.virConnect, guest: str, devices: list[pci.Device]) -> None:
    """Create the missing mediated devices of a guest.

    :raises libvirtError: the host's driver has no more instances of a type
    """
    for device in _of(devices):
        if _find(connection, mediated.id_of(guest, device)) is None:
            connection.nodeDeviceCreateXML(mediated.request(guest, device, mediated.parent_name(device)))


def remove(connection: libvirt.virConnect, guest: str, devices: list[pci.Device]) -> None:
    """Remove the devices created by ``ensure``; the guest is off."""
    for device in _of(devices):
        found = _find(connection, mediated.id_of(guest, device))
        if found is not None:
            found.destroy()


def needed(devices: list[pci.Device]) -> bool:
    return bool(_of(devices))


def _of(devices: list[pci.Device]) -> list[pci.Device]:
    return [device for device in devices if device.dev_type == pci.MEDIATED]


def _find(connection: libvirt.virConnect, wanted: str) -> libvirt.virNodeDevice | None:
    for device in connection.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV):
        try:
            if mediated.id_made(etree.fromstring(device.XMLDesc())) == wanted:
                return device
        except libvirt.libvirtError as error:        # disappeared after the listing
            if error.get_error_code() != libvirt.VIR_ERR_NO_NODE_DEVICE:
                raise
    return None
