"""Attach ports to and detach ports from running and stopped guests."""
from __future__ import annotations

import contextlib
import time
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.libvirt.guests import Guests
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.local_disks.storage import Storage
    from nova.virt.libvirt.privileged.remote import RemoteSteps
    from nova.virt.libvirt.privileged.steps import LocalSteps

UNPLUG_SECONDS = 60          # the guest OS must release a device; a booting one ignores the request
UNPLUG_RETRY_S = 5           # seconds after which the request is repeated
POLL = 0.2


def _plugged(guest: xml.Guest, vif: dict[str, Any]) -> list[xml.Interface]:
    """Return the interfaces of a port in the guest. For a port that is a host device, they come from the record.

    The host may not show the device's network interface, and the VIF may lack other data of the port.
    """
    if vif.get('pci_slot'):
        return [known for known in guest.interfaces if known.device and known.device['address'] == vif['pci_slot']]
    return spec.interfaces([vif], guest)


class Interfaces:
    """Features Interfaces and PortDevices."""

    def __init__(self, guests: Guests, storage: Storage, hypervisor: Host, steps: LocalSteps | RemoteSteps) -> None:
        self._guests, self._storage, self._hypervisor, self._steps = guests, storage, hypervisor, steps

    def attach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            interface, = spec.interfaces([vif], guest)
            guest.interfaces = [*(known for known in guest.interfaces if known.mac != interface.mac), interface]
            if instance.obj_attr_is_set('pci_devices'):
                guest.hostdevs = instance.devices()
            self._storage.save(guest)
            if interface.port:
                self._steps.plug(instance.uuid, interface.port)
            with contextlib.suppress(exception.GuestNotFound):     # the next start defines the guest with all its ports
                self._hypervisor.guest('plug the port', instance.uuid, calls.plug, xml.interface(interface, guest),
                                       calls.interface_path(interface.mac))

    def detach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if guest is None:
                return
            for interface in _plugged(guest, vif):
                with contextlib.suppress(exception.GuestNotFound):
                    self._unplug(instance.uuid, xml.interface(interface, guest),
                                 calls.interface_path(interface.mac))
                if interface.port:
                    self._steps.unplug(instance.uuid, interface.port)
                guest.interfaces = [known for known in guest.interfaces if known.mac != interface.mac]
            guest.hostdevs = [device for device in guest.hostdevs if device.request_id != vif['id']]
            self._storage.save(guest)

    def _unplug(self, uuid: str, text: str, path: str) -> None:
        """Unplug a device and wait for its release.

        :raises VirtError: the guest does not release the device
        """
        deadline, ask_at = time.monotonic() + UNPLUG_SECONDS, 0.0
        operation = 'unplug the port'
        while self._hypervisor.guest(operation, uuid, calls.holds_device, path):
            if time.monotonic() > deadline:
                raise exception.VirtError(operation=operation, reason='the guest does not let it go')
            if time.monotonic() >= ask_at:
                self._hypervisor.guest(operation, uuid, calls.ask_to_unplug, text, path)
                ask_at = time.monotonic() + UNPLUG_RETRY_S
            time.sleep(POLL)
        self._hypervisor.guest(operation, uuid, calls.undefine_device, text, path)
