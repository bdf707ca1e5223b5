"""Attach and detach ports of running and stopped guests."""
import contextlib

from nova import exception
from nova.context import RequestContext
from nova.objects.instance import Instance
from nova.objects.network_info import DeletedPort
from nova.objects.network_info import Vif
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.privileged.remote import HostSteps


def _plugged(guest: xml.Guest, vif: Vif | DeletedPort) -> list[xml.Interface]:
    """Return the interfaces for a port in the record of a guest.

    The VIF does not tell how the port was plugged. Its binding may have failed or changed since, the host may not show
    the network interface of a device, and the VIF of a deleted port has few fields.
    """
    if slot := vif.get('pci_slot'):
        return [known for known in guest.interfaces if known.device and known.device['address'] == slot]
    return [known for known in guest.interfaces if known.mac == vif['address']]


class Interfaces:
    """Features Interfaces and PortDevices."""

    def __init__(self, guests: Guests, steps: HostSteps) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._steps = steps

    def attach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            interface, = spec.interfaces([vif], guest)
            guest.interfaces = [*(known for known in guest.interfaces if known.mac != interface.mac), interface]
            if instance.obj_attr_is_set('pci_devices'):
                guest.hostdevs = instance.devices()
            self._storage.save(guest)
            if interface.port:
                self._steps.plug(instance.uuid, interface.port)
            with contextlib.suppress(exception.GuestNotFound):     # a stopped guest gets its ports at its next start
                self._hypervisor.guest('plug the port', instance.uuid, calls.plug, xml.interface(interface, guest),
                                       calls.interface_path(interface.mac))

    def detach_interface(self, context: RequestContext, instance: Instance, vif: Vif | DeletedPort) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if guest is None:
                return
            for interface in _plugged(guest, vif):
                with contextlib.suppress(exception.GuestNotFound):
                    self._guests.unplug('unplug the port', instance.uuid, xml.interface(interface, guest),
                                        calls.interface_path(interface.mac))
                if interface.port:
                    self._steps.unplug(instance.uuid, interface.port)
                guest.interfaces = [known for known in guest.interfaces if known.mac != interface.mac]
            guest.hostdevs = [device for device in guest.hostdevs if device.request_id != vif['id']]
            self._storage.save(guest)
