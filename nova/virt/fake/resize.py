"""Cold migration and resize of fake guests."""
from __future__ import annotations

import copy
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import states

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt import driver
    from nova.virt.fake.machine import Machine


class Resize:
    """Cold migration of guests. The machine stores the state for a revert in a separate file."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def accept_guest(self, context: RequestContext, instance: Instance, flavor: dict[str, Any]) -> None:
        with self.machine.operation('accept_guest'):
            pass

    def send_guest(self, context: RequestContext, instance: Instance, dest_host: str | None,
                   network_info: list[dict[str, Any]], timeout: int) -> dict[str, Any]:
        with self.machine.operation('send_guest'), self.machine.lock:
            guest = self.machine.guests.get(instance.uuid)
            if guest is not None:
                self.machine.keep(instance.uuid, {**guest, 'power_state': states.SHUTDOWN})
                del self.machine.guests[instance.uuid]
                self.machine.save()
            if instance.uuid not in self.machine.kept:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return copy.deepcopy(self.machine.kept[instance.uuid])

    def finish_migration(self, context: RequestContext, instance: Instance, guest: dict[str, Any],
                         request: driver.SpawnRequest, power_on: bool) -> None:
        with self.machine.lock:
            self.machine.note_arriving(instance.uuid, True)
        with self.machine.operation('finish_migration'), self.machine.lock:
            self.machine.guests[instance.uuid] = copy.deepcopy(guest)
            self.machine.put(instance, states.RUNNING if power_on else states.SHUTDOWN, request.network_info, 'moved')
            self.machine.keep_volumes(instance, request.block_devices)
            self.machine.note_arriving(instance.uuid, False)

    def drop_migrated(self, context: RequestContext, instance: Instance, network_info: list[dict[str, Any]]) -> None:
        with self.machine.operation('drop_migrated'), self.machine.lock:
            self.machine.guests.pop(instance.uuid, None)
            self.machine.save()
            self.machine.note_arriving(instance.uuid, False)

    def finish_revert_migration(self, context: RequestContext, instance: Instance, network_info: list[dict[str, Any]],
                                block_devices: list[dict[str, Any]], power_on: bool) -> None:
        with self.machine.operation('finish_revert_migration'), self.machine.lock:
            self.machine.bring_back(instance.uuid)
            self.machine.guest(instance)
            self.machine.put(instance, states.RUNNING if power_on else states.SHUTDOWN, network_info, 'moved back')
            self.machine.keep_volumes(instance, block_devices)
            self.machine.forget_kept(instance.uuid)

    def confirm_migration(self, context: RequestContext, instance: Instance,
                          network_info: list[dict[str, Any]]) -> None:
        with self.machine.operation('confirm_migration'), self.machine.lock:
            self.machine.forget_kept(instance.uuid)

    def resize_backups(self) -> list[str]:
        with self.machine.lock:
            return sorted(self.machine.kept)


class Growth:
    """Change the size of running guests."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def grow(self, instance: Instance, flavor: dict[str, Any]) -> None:
        with self.machine.operation('grow'), self.machine.lock:
            self.machine.guest(instance).update(vcpus=flavor['vcpus'], memory_mb=flavor['memory_mb'])
            self.machine.save()
