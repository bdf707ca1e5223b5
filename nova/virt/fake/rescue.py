"""Rescue of fake guests."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import states

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.fake.machine import Machine


class Rescue:
    """Record the image and the volumes of a rescue in a guest's ``rescue``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def rescue(self, context: RequestContext, instance: Instance, network_info: list[dict[str, str]],
               image: dict[str, str], admin_password: str, block_devices: list[Any],
               config_drive: dict[str, bytes] | None = None) -> None:
        with self.machine.operation('rescue'), self.machine.lock:
            self.machine.put(instance, states.RUNNING, network_info, 'booted from the rescue image')
            self.machine.guest(instance)['rescue'] = {'image': image['id'], 'volumes': sorted(
                device['volume_id'] for device in block_devices if device.get('volume_id'))}
            self.machine.save()

    def unrescue(self, context: RequestContext, instance: Instance, network_info: list[dict[str, str]]) -> None:
        with self.machine.operation('unrescue'), self.machine.lock:
            self.machine.guest(instance).pop('rescue', None)
            self.machine.put(instance, states.RUNNING, network_info, 'booted')
