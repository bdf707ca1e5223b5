"""Requests to the QEMU guest agent: password, freeze and thaw of file systems, clock, network interfaces.

A guest has an agent channel if its image has hw_qemu_guest_agent=yes, but the guest OS may not run an agent. Each
request times out after AGENT_SECONDS.

Processes of a guest with frozen file systems block when they write. Before the freeze, the driver creates a mark file.
If this process crashes, it finds the file after its restart and thaws the guest.
"""
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator

import libvirt
from oslo_utils import strutils

from nova import exception
from nova.objects.instance import Instance
from nova.runtime import durable_files
from nova import states
from nova.disk_files import files
from nova.virt import driver
from nova.virt.libvirt import xml
from nova.virt.libvirt.features import guest_network
from nova.virt.libvirt.guests import Guests

LOG = logging.getLogger(__name__)

AGENT_SECONDS = 10
FACTS_SECONDS = 3            # timeout of requests for data that an API response may omit
MARK = 'frozen'              # mark file in the directory of a guest that must be thawed
ADMINISTRATORS = {'windows': 'Administrator'}        # {os_type: name of the administrator}; the default is root
_PAUSED = 'the guest is paused or off, so its agent does not run'
_BY_AGENT = libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT
# libvirt's error codes if the agent does not run or does not respond
_SILENT = (libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_AGENT_UNSYNCED)


class Agent:
    """Features Password and Quiesce, and further requests to the guest agent."""

    def __init__(self, guests: Guests) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def set_admin_password(self, instance: Instance, password: str) -> None:
        properties = instance.image_properties or {}
        user = properties.get('os_admin_user') or ADMINISTRATORS.get(str(properties.get('os_type')), 'root')
        operation = 'set the password'
        check(operation, self._guests.record(instance.uuid))
        self._ask(operation, instance.uuid, lambda domain: domain.setUserPassword(user, password, 0))

    def quiesce(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._freeze(self._guests.record(instance.uuid))

    def unquiesce(self, instance: Instance) -> None:
        with self._guests.operation(instance.uuid):
            self._thaw(instance.uuid)

    @contextlib.contextmanager
    def quiet(self, instance: Instance, guest: xml.Guest) -> Iterator[None]:
        """If the guest has an agent, freeze its file systems during the block.

        :raises VirtError: the freeze failed, and the image has os_require_quiesce
        """
        required = strutils.bool_from_string((instance.image_properties or {}).get('os_require_quiesce'))
        try:
            try:
                if required or guest.hardware.agent:
                    self._freeze(guest)
            except exception.VirtError as error:
                if required:
                    raise
                LOG.warning('The file systems of %s are not quiesced while its disk is copied: %s', guest.uuid,
                            error.message)
            yield
        finally:
            self._thaw_if_marked(guest.uuid)

    def network_facts(self, guest: xml.Guest) -> list[driver.GuestInterface]:
        """Return the network interfaces that the agent reports, or [] if no agent responds."""
        operation = 'read the addresses'
        found: list[driver.GuestInterface] = []

        def read(domain: libvirt.virDomain) -> None:
            found.extend(guest_network.described(domain.interfaceAddresses(_BY_AGENT)))
        if guest.hardware.agent:
            with contextlib.suppress(exception.VirtError):
                self._hypervisor.guest(operation, guest.uuid, _bounded, operation, read, FACTS_SECONDS)
        return found

    def set_clock(self, uuid: str) -> None:
        """After a pause, set the guest's clock through its agent. Do nothing for a guest without an agent."""
        self._thaw_if_marked(uuid)
        guest = self._storage.load(uuid)
        if guest is None or not guest.hardware.agent:
            return
        try:
            self._ask('set the time', uuid, _set_time)
        except exception.VirtError as error:
            LOG.warning('Cannot set the clock of guest %s: %s', uuid, error.message)

    def thaw_all(self) -> None:
        """Thaw all guests with a mark file: this service crashed while they were frozen."""
        for guest in self._storage.guests():
            self._thaw_if_marked(guest.uuid)

    def _freeze(self, guest: xml.Guest) -> None:
        operation = 'freeze the file systems'
        check(operation, guest)
        if self._hypervisor.power_state(guest.uuid) == states.POWER_PAUSED:
            raise exception.GuestAgentUnavailable(operation=operation, reason=_PAUSED)
        durable_files.replace(self._storage.path(guest.uuid, MARK), b'')
        self._ask(operation, guest.uuid, lambda domain: domain.fsFreeze())

    def _thaw_if_marked(self, uuid: str) -> None:
        """Thaw a guest if it has a mark file. Errors are only logged: the next start of this service retries."""
        if os.path.exists(self._storage.path(uuid, MARK)):
            try:
                self._thaw(uuid)
            except (exception.VirtError, exception.GuestNotFound) as error:
                LOG.warning('Guest %s is not thawed: %s', uuid, error.message)

    def _thaw(self, uuid: str) -> None:
        operation, guest = 'thaw the file systems', self._guests.record(uuid)
        check(operation, guest)
        if self._hypervisor.power_state(uuid) in (states.RUNNING, states.POWER_PAUSED):
            self._ask(operation, uuid, lambda domain: domain.fsThaw())
        files.remove(self._storage.path(uuid, MARK))  # a guest that is off has no frozen file system

    def _ask(self, operation: str, uuid: str, request: Callable[[libvirt.virDomain], object]) -> None:
        self._hypervisor.guest(operation, uuid, _bounded, operation, request)


def check(operation: str, guest: xml.Guest) -> None:
    """Check that a guest has an agent channel.

    :raises GuestAgentUnavailable: the guest has no agent channel
    """
    if not guest.hardware.agent:
        raise exception.GuestAgentUnavailable(
            operation=operation, reason='the guest has no agent: set the image property hw_qemu_guest_agent=yes')


def _bounded(domain: libvirt.virDomain, operation: str, request: Callable[[libvirt.virDomain], object],
             seconds: int = AGENT_SECONDS) -> None:
    """Run a request with a timeout. Convert errors of the agent to VirtErrors that tell users what to do."""
    try:
        if domain.state()[0] not in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED):
            raise exception.GuestAgentUnavailable(operation=operation, reason=_PAUSED)
        domain.agentSetResponseTimeout(min(seconds, AGENT_SECONDS), 0)
        request(domain)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in _SILENT:
            raise
        raise exception.GuestAgentUnavailable(
            operation=operation,
            reason='the agent in the guest does not respond: the guest may still boot, or run no agent') from error


def _set_time(domain: libvirt.virDomain) -> None:
    now = time.time()
    domain.setTime({'seconds': int(now), 'nseconds': int(now % 1 * 10 ** 9)})
