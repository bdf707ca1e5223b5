"""Start and remove containers, write their console files, and attach ports."""
import contextlib
import logging
import os

import libvirt

from nova import exception
from nova.objects.network_info import DeletedPort
from nova.objects.network_info import Vif
from nova import states
from nova.context import RequestContext
from nova.objects.instance import Instance
from nova.virt.driver import NetworkInfo
from nova.virt.libvirt import calls
from nova.virt.libvirt import guest_power
from nova.virt.libvirt import spec
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.container_root import users
from nova.virt.libvirt.containers import consoles
from nova.virt.libvirt.containers import domain
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.privileged import steps
from nova.virt.libvirt.privileged.remote import HostSteps
from nova.virt.libvirt.xml import Guest

LOG = logging.getLogger(__name__)
Ids = tuple['users.Range', ...]
UNIFIED = '/sys/fs/cgroup/cgroup.controllers'          # exists only if all control groups are of version 2


class ContainerGuests(guest_power.GuestPower):
    """Lifecycle of containers.

    :param uids, gids: [libvirt] uid_maps and gid_maps
    """

    def __init__(self, storage: Storage, hypervisor: Host, host_steps: HostSteps, uids: Ids, gids: Ids) -> None:
        super().__init__(storage, hypervisor)
        self._steps, self._uids, self._gids = host_steps, uids, gids
        self._consoles = consoles.Consoles(hypervisor, lambda uuid: storage.path(uuid, steps.CONSOLE_LOG))

    def read_consoles(self) -> None:
        """Begin to read the consoles of the containers that are already running or paused."""
        for uuid, state in self.hypervisor.guests().items():
            if state in (states.RUNNING, states.POWER_PAUSED):
                self._consoles.add(uuid)
        self._consoles.start()

    def stop_consoles(self) -> None:
        self._consoles.stop()

    def refresh(self, uuid: str, network_info: NetworkInfo) -> Guest:
        """Store the present ports in the record of a container. Return the record.

        :raises GuestNotFound: the container has no record
        """
        guest = self.record(uuid)
        guest.interfaces = spec.interfaces(network_info, guest)
        self.storage.save(guest)
        return guest

    def start(self, guest: Guest) -> None:
        """Define a container and start it."""
        text = domain.domain(guest, self.storage.path(guest.uuid, unpack.ROOT), self._uids, self._gids,
                             cgroups=2 if os.path.exists(UNIFIED) else 1)
        self.hypervisor.run('start the guest', calls.define_and_start, guest.uuid, text)
        self._consoles.add(guest.uuid)

    def power_off(self, uuid: str, timeout: float = 0) -> None:
        with self.operation(uuid):
            super().power_off(uuid, timeout)
            self._consoles.remove(uuid)

    def remove(self, uuid: str, keep_disks: bool = False) -> None:
        """Stop a container, and remove its definition and files; no error if it does not exist."""
        self._consoles.remove(uuid)
        with contextlib.suppress(exception.GuestNotFound):
            self.hypervisor.guest('remove the guest', uuid, _undefine)
        if not keep_disks and self.storage.exists(uuid):
            self._steps.remove_root(uuid)
            self.storage.remove(uuid)

    def undo(self, uuid: str) -> None:
        """Remove the container of a failed build. Log errors instead of raising them."""
        try:
            self.remove(uuid)
        except (exception.VirtError, OSError):
            LOG.exception('Cannot clean up after the failed build of %s.', uuid)


def _undefine(found: libvirt.virDomain) -> None:
    calls.stop(found)
    found.undefine()


PORTS = 'containers support only ports on bridges of the embedded network service'


class Interfaces:
    """Feature Interfaces for containers. Their network devices are ports of bridges."""

    def __init__(self, guests: ContainerGuests) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def attach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            if vif['type'] != 'bridge':
                raise exception.VirtError(operation='plug the port', reason=PORTS)
            interface, = spec.interfaces([vif], guest)
            guest.interfaces = [*(known for known in guest.interfaces if known.mac != interface.mac), interface]
            self._storage.save(guest)
            with contextlib.suppress(exception.GuestNotFound):   # a stopped container gets its ports at its next start
                self._hypervisor.guest('plug the port', instance.uuid, calls.plug, domain.port(interface),
                                       calls.interface_path(interface.mac))

    def detach_interface(self, context: RequestContext, instance: Instance, vif: Vif | DeletedPort) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if guest is None:
                return
            for interface in [known for known in guest.interfaces if known.mac == vif['address']]:
                with contextlib.suppress(exception.GuestNotFound):
                    for step in (calls.ask_to_unplug, calls.undefine_device):
                        self._hypervisor.guest('unplug the port', instance.uuid, step, domain.port(interface),
                                               calls.interface_path(interface.mac))
                guest.interfaces.remove(interface)
            self._storage.save(guest)
