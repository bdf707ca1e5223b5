"""Ports of containers, on bridges."""
from __future__ import annotations

import contextlib
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt.containers import domain

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.libvirt.containers.guests import ContainerGuests
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.local_disks.storage import Storage

PORTS = 'containers have ports on bridges of the embedded network service alone'


class Interfaces:
    def __init__(self, guests: ContainerGuests, storage: Storage, hypervisor: Host) -> None:
        self._guests, self._storage, self._hypervisor = guests, storage, hypervisor

    def attach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            if vif['type'] != 'bridge':
                raise exception.VirtError(operation='plug the port', reason=PORTS)
            interface, = spec.interfaces([vif], guest)
            guest.interfaces = [*(known for known in guest.interfaces if known.mac != interface.mac), interface]
            self._storage.save(guest)
            with contextlib.suppress(exception.GuestNotFound):     # the next start defines all ports
                self._hypervisor.guest('plug the port', instance.uuid, calls.plug, domain.port(interface),
                                       calls.interface_path(interface.mac))

    def detach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if guest is None:
                return
            interface, = spec.interfaces([vif], guest)
            with contextlib.suppress(exception.GuestNotFound):
                for step in (calls.ask_to_unplug, calls.undefine_device):
                    self._hypervisor.guest('unplug the port', instance.uuid, step, domain.port(interface),
                                           calls.interface_path(interface.mac))
            guest.interfaces = [known for known in guest.interfaces if known.mac != interface.mac]
            self._storage.save(guest)
