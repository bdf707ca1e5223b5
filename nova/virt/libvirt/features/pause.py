"""Pause and resume virtual machines and containers, and suspend virtual machines to disk."""
from collections.abc import Callable

from nova import exception
from nova.context import RequestContext
from nova.objects.instance import Instance
from nova.virt.driver import NetworkInfo
from nova.virt.libvirt import calls
from nova.virt.libvirt.guest_power import GuestPower
from nova.virt.libvirt.guests import Guests


class Pause:
    """Feature Pause.

    :param resumed: function that is called with the uuid of a guest after the guest was resumed
    """

    def __init__(self, guests: GuestPower, resumed: Callable[[str], None] | None = None) -> None:
        self._guests, self._hypervisor, self._resumed = guests, guests.hypervisor, resumed

    def pause(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('pause the guest', instance.uuid, calls.pause)

    def unpause(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('unpause the guest', instance.uuid, calls.unpause)
            if self._resumed is not None:
                self._resumed(instance.uuid)


class Suspend:
    """Feature Suspend.

    :param resumed: as in Pause
    """

    def __init__(self, guests: Guests, resumed: Callable[[str], None]) -> None:
        self._guests, self._hypervisor, self._resumed = guests, guests.hypervisor, resumed

    def suspend(self, instance: Instance) -> None:
        if any(disk.secret for disk in self._guests.record(instance.uuid).disks):
            raise exception.VirtError(operation='suspend the guest', reason='its disks are encrypted, but the file of '
                                      'its memory would not be; stop the server instead')
        with self._guests.operation(instance.uuid):
            self._hypervisor.guest('suspend the guest', instance.uuid, calls.save)

    def resume(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        with self._guests.operation(instance.uuid):
            self._guests.power_on(instance.uuid, network_info)
        self._resumed(instance.uuid)
