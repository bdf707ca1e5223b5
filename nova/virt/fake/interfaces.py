"""Ports that guests of the fake driver get and lose."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.virt import driver
from nova.virt.fake import machine
from nova.virt.fake import pci

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance


class Interfaces(machine.Feature, driver.Interfaces, driver.PortDevices):
    """A guest's ports are ids in ``networks``, in the order in which they were plugged."""

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
