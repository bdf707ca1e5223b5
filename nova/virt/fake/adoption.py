"""Guests of a fake host that another program has made."""
from __future__ import annotations

from typing import Any

from nova import exception
from nova.virt import driver
from nova.virt.fake import machine


class Adoption(machine.Feature, driver.Adoption):
    """``strangers`` of the machine are such guests."""

    def adopt(self, context: Any, instance: Any, request: Any) -> None:
        with self.machine.operation('adopt'), self.machine.lock:
            if instance.uuid in self.machine.guests:
                return
            if instance.uuid not in self.machine.strangers:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            self.machine.put(instance, self.machine.strangers[instance.uuid], request.network_info)

    def let_go(self, instance: Any) -> None:
        with self.machine.operation('let_go'), self.machine.lock:
            self.machine.guests.pop(instance.uuid, None)
            self.machine.save()
