"""Pause and suspend of fake guests."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import states

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.fake.machine import Machine


class Pause:
    """Pause and Suspend: set the power state of the guest."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def pause(self, instance: Instance) -> None:
        with self.machine.operation('pause'):
            self.machine.set_state(instance, states.POWER_PAUSED, 'paused')

    def unpause(self, instance: Instance) -> None:
        with self.machine.operation('unpause'):
            self.machine.set_state(instance, states.RUNNING, 'unpaused')

    def suspend(self, instance: Instance) -> None:
        with self.machine.operation('suspend'):
            self.machine.set_state(instance, states.POWER_SUSPENDED, 'suspended')

    def resume(self, context: RequestContext, instance: Instance, network_info: list[dict[str, str]]) -> None:
        with self.machine.operation('resume'):
            self.machine.set_state(instance, states.RUNNING, 'resumed')
