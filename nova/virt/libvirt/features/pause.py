"""Pause guests, and suspend them to disk."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.virt.libvirt import calls

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.libvirt.features.agent import Agent
    from nova.virt.libvirt.guests import Guests
    from nova.virt.libvirt.host import Host


class Pause:
    """Features Pause and Suspend."""

    def __init__(self, guests: Guests, hypervisor: Host, agent: Agent) -> None:
        self._guests, self._hypervisor, self._agent = guests, hypervisor, agent

    def pause(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('pause the guest', instance.uuid, calls.pause)

    def unpause(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('unpause the guest', instance.uuid, calls.unpause)
            self._agent.set_clock(instance.uuid)

    def suspend(self, instance: Instance) -> None:
        if any(disk.secret for disk in self._guests.record(instance.uuid).disks):
            raise exception.VirtError(operation='suspend the guest', reason='its disks are encrypted, and the file of '
                                      'its memory would not be')
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('suspend the guest', instance.uuid, calls.save)

    def resume(self, context: RequestContext, instance: Instance, network_info: Any) -> None:
        with self._guests.operation(instance.uuid):
            self._guests.power_on(instance.uuid, network_info)
        self._agent.set_clock(instance.uuid)
