"""Guests of a fake host that another program created."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt import driver
    from nova.virt.fake.machine import Machine


class Adoption:
    """Take over guests among ``foreign_guests`` of the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def adopt(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        with self.machine.operation('adopt'), self.machine.lock:
            if instance.uuid in self.machine.guests:
                return
            if instance.uuid not in self.machine.foreign_guests:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            self.machine.put(instance, self.machine.foreign_guests[instance.uuid], request.network_info)

    def let_go(self, instance: Instance) -> None:
        with self.machine.operation('let_go'), self.machine.lock:
            self.machine.guests.pop(instance.uuid, None)
            self.machine.save()
