"""Hot-plug of ports of fake guests."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.virt.fake import pci

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.fake.machine import Machine


class Interfaces:
    """Record ports of guests in ``networks``: ids in the order of their plugging."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def attach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, str]) -> None:
        with self.machine.operation('attach_interface'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest['pci_devices'] = pci.given(instance, self.machine.guests)
            if vif['id'] not in guest['networks']:
                guest['networks'] = [*guest['networks'], vif['id']]
            self.machine.save()

    def detach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, str]) -> None:
        with self.machine.operation('detach_interface'), self.machine.lock:
            try:
                guest = self.machine.guest(instance)
            except exception.GuestNotFound:
                return
            guest['networks'] = [ident for ident in guest['networks'] if ident != vif['id']]
            guest['pci_devices'] = [each for each in guest.get('pci_devices') or () if each != vif.get('pci_slot')]
            self.machine.save()
