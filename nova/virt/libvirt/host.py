"""Connection to libvirt: keepalive, reconnection after a restart of libvirtd, and events."""
import contextlib
import dataclasses
import enum
import errno
import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar
from xml.etree import ElementTree as etree

import libvirt
from oslo_config import cfg

from nova import exception
from nova import states
from nova.objects import pci
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.virt import traits
from nova.virt.libvirt import calls
from nova.virt.libvirt import capabilities
from nova.virt.libvirt import xml

LOG = logging.getLogger(__name__)
_P = ParamSpec('_P')
_Result = TypeVar('_Result')

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5, 3
RECONNECT_MIN, RECONNECT_MAX = 0.5, 10   # seconds between two attempts to connect, randomly varied
RESTARTS_S = 30                          # seconds until an operation fails if libvirtd does not respond
RECONNECT_GRACE_S = 5                               # seconds without libvirtd until the host is disabled
KVM_API, KVM_GET_API_VERSION = 12, 0xAE00

POWER_STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: states.NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: states.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: states.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: states.POWER_PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: states.RUNNING,         # shutting down; libvirt sends an event when the guest is off
    libvirt.VIR_DOMAIN_SHUTOFF: states.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: states.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: states.POWER_SUSPENDED,
}
DISK_ERRORS = {libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE: 'its storage is full'}
DENIED = (libvirt.VIR_ERR_AUTH_FAILED, libvirt.VIR_ERR_AUTH_CANCELLED, libvirt.VIR_ERR_AUTH_UNAVAILABLE,
          libvirt.VIR_ERR_ACCESS_DENIED, libvirt.VIR_ERR_OPERATION_DENIED)
CONTAINER = 'exe'                        # libvirt's OS type of containers, which have no managed save image
_Signal = enum.Enum('_Signal', ('CLOSED', 'STOP'))
# (lifecycle event, its detail): label of metrics.GUESTS_FAILED
_FAILURES = {(libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED): 'crashed',
             (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED): 'failed',
             (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR): 'paused'}
FAILURE_TEXTS = {'crashed': 'ended: its QEMU is gone', 'failed': 'ended: its QEMU failed',
                 'paused': 'paused after a failed write to its disk'}


# ``capabilities`` is the root element of libvirt's capabilities
Facts = TypedDict('Facts', {'version': int, 'vcpus': int, 'memory_mb': int, 'capabilities': etree.Element})


@dataclasses.dataclass(frozen=True)
class Failure:
    """Event: a guest crashed, failed or was paused, and no request caused this."""

    uuid: str
    how: str


Event = str | Failure | _Signal          # the uuid of a changed guest, a failure, or a change of this connection


class _Attempt:
    """Attempt to open a connection. When ``done`` is set, ``connection`` or ``error`` has the result."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.connection: libvirt.virConnect | None = None
        self.error: Exception | None = None


class Host:
    """Connection to libvirt with reconnection.

    :param uri: libvirt's connection URI
    :param owner: directory of the deployment's guests; other guests are ignored
    :param on_change: called on a Python thread with the uuid of a guest that may have changed
    :param on_answer: called with a reason when libvirt has not responded for RECONNECT_GRACE_S, and with '' when it
        responds again
    """

    def __init__(self, uri: str, owner: str, on_change: Callable[[str], None],
                 on_answer: Callable[[str], None] = lambda reason: None) -> None:
        self._uri, self._owner, self._on_change, self._on_answer = uri, owner, on_change, on_answer
        self._lock = threading.Lock()
        self._connection = None
        self._attempt: _Attempt | None = None    # the attempt in progress
        self._mailbox: Any = None                # a Mailbox, set by connect()
        self._stopped = False

    def connect(self) -> None:
        """Open the connection and subscribe to events.

        :raises HypervisorUnreachable: libvirt does not respond
        """
        start_loop()
        self._mailbox = concurrency.Mailbox[Event]()
        self._stopped = False
        self.run('connect to libvirt', lambda connection: connection.getVersion())
        concurrency.spawn('libvirt-events', self._listen)

    def close(self) -> None:
        self._stopped = True
        if self._mailbox:
            self._mailbox.put(_Signal.STOP)
        with self._lock:
            connection, self._connection = self._connection, None
        if connection:
            concurrency.blocking(_close, connection)

    def run(self, operation: str, function: Callable[Concatenate[libvirt.virConnect, _P], _Result], *args: _P.args,
            **kwargs: _P.kwargs) -> _Result:
        """Run ``function(connection, *args)``, which may make many libvirt calls, outside the green threads.

        The function must take no lock and write no log. If the connection breaks during the call, ``run`` waits until
        libvirtd is back and calls the function once more.
        :raises GuestNotFound: libvirt has no such guest
        :raises HypervisorUnreachable: libvirt does not respond
        :raises VirtError: any other libvirt error
        """
        until, broken = time.monotonic() + RESTARTS_S, False
        while True:
            connection = None
            try:
                connection = self._open(operation, until)
                return concurrency.blocking(function, connection, *args, **kwargs)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    raise exception.GuestNotFound(instance_id=args[0] if args else '') from error
                if connection is None:
                    again = time.monotonic() + RECONNECT_MIN < until and not self._stopped
                else:
                    gone = not concurrency.blocking(_alive, connection)
                    again, broken = gone and not broken, gone
                if not again:
                    lost = connection is None or broken
                    raise (exception.HypervisorUnreachable if lost else exception.VirtError)(
                        operation=operation, reason=error.get_error_message()) from error
            if connection is None:
                time.sleep(RECONNECT_MIN)

    def _open(self, operation: str, until: float) -> libvirt.virConnect:
        """Return the connection. A separate thread opens a missing connection: libvirt.open hangs if libvirtd hangs.

        :raises libvirtError: opening failed
        :raises HypervisorUnreachable: the connection is not open at the time ``until``
        """
        connection = self._connection
        if connection is not None and concurrency.blocking(_alive, connection):
            return connection
        with self._lock:
            if self._connection is not connection:       # another thread has reopened the connection
                return self._connection
            attempt = self._attempt
            if attempt is None:
                attempt = _Attempt()
                if not concurrency.try_spawn('libvirt-open', self._try_to_open, attempt):
                    raise exception.HypervisorUnreachable(operation=operation, reason='no thread can start')
                self._attempt = attempt
        if not attempt.done.wait(max(RECONNECT_MIN, until - time.monotonic())):
            raise exception.HypervisorUnreachable(operation=operation, reason='libvirt does not answer')
        if attempt.error is not None:
            raise attempt.error
        return attempt.connection

    def _try_to_open(self, attempt: _Attempt) -> None:
        try:
            attempt.connection = concurrency.blocking(_open, self._uri, self._mailbox)
        except Exception as error:
            attempt.error = error
        with self._lock:
            self._attempt = None
            if attempt.connection is not None:
                self._connection = attempt.connection
        attempt.done.set()

    # ---- events ---------------------------------------------------------------------

    def _listen(self) -> None:
        while True:
            item = self._mailbox.get()
            if item is _Signal.STOP or self._stopped:
                return
            if item is _Signal.CLOSED:
                self._reconnect()
            elif isinstance(item, Failure):
                metrics.GUESTS_FAILED.labels(item.how).inc()
                LOG.warning('The guest %s has %s.', item.uuid, FAILURE_TEXTS[item.how])
            else:
                self._changed(item)

    def _changed(self, uuid: str) -> None:
        try:
            self._on_change(uuid)
        except Exception:
            LOG.exception('An event of guest %s was not handled.', uuid)

    def report_state(self, uuid: str) -> None:
        """Schedule ``on_change`` for a guest on the event thread."""
        self._mailbox.put(uuid)

    def _reconnect(self) -> None:
        """Reopen the connection and report the state of every guest, because events were lost."""
        LOG.warning('The connection to libvirt closed.')
        wait, lost_at, is_lost = RECONNECT_MIN, time.monotonic() + RECONNECT_GRACE_S, False
        while not self._stopped:
            try:
                self._open('connect to libvirt', max(lost_at, time.monotonic()))
                found = self.guests()
            except (exception.VirtError, libvirt.libvirtError) as error:
                if not is_lost and time.monotonic() >= lost_at:
                    is_lost = True
                    self._on_answer(f'libvirt does not answer ({_sentence(error)})')
                time.sleep(wait * random.uniform(0.5, 1.5))
                wait = min(wait * 2, RECONNECT_MAX)
                continue
            LOG.info('Connected to libvirt again.')
            if is_lost:
                self._on_answer('')
            for uuid in found:
                self._changed(uuid)
            return

    # ---- queries ----------------------------------------------------------------------

    def guests(self) -> dict[str, int]:
        """Return {uuid: power state} of the deployment's guests."""
        return self.run('list the guests', _guests, self._owner)

    def guest_state(self, uuid: str) -> int | None:
        """Return the power state of a guest, or None if ``guests()`` does not include the guest."""
        try:
            found: int | None = self.run('read the power state', _guest_state, uuid, self._owner)
        except exception.GuestNotFound:
            return None
        return found

    def power_state(self, uuid: str) -> int:
        return self.run('read the power state', lambda connection, uuid: state_of(_find(connection, uuid)), uuid)

    def disk_errors(self, uuid: str) -> dict[str, str]:
        """Return {target: reason, such as full storage} of the disks with errors that made QEMU pause a guest."""
        found = self.guest('look at the disks', uuid, lambda domain: domain.diskErrors())
        return {target: DISK_ERRORS.get(code, 'it cannot be read or written') for target, code in found.items()}

    def guest(self, operation: str, uuid: str, function: Callable[Concatenate[libvirt.virDomain, _P], _Result],
              *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        """Run ``function(domain, *args)`` on the guest's domain; see ``run``."""
        return self.run(operation, lambda connection, uuid: function(_find(connection, uuid), *args, **kwargs), uuid)

    def facts(self) -> Facts:
        return self.run('describe the host', _facts)

    def domain_capabilities(self, virt_type: str) -> list[etree.Element]:
        """Return the domain capabilities (root elements) of a virt_type for the machine types pc and q35."""
        return self.run('describe what guests can have', _domain_capabilities, virt_type)

    def pci_devices(self) -> list[pci.Device]:
        """Return [objects.pci.Device] of the PCI devices that the host can assign to guests."""
        return self.run('list the PCI devices', _pci_devices)

    def mediated_devices(self, types: Sequence[str]) -> list[pci.Device]:
        """Return [objects.pci.Device] of the mediated devices of the given types."""
        return self.run('list the mediated devices', _mediated_devices, types)


def address(conf: cfg.ConfigOpts) -> str:
    """Return the configured libvirt URI, which differs between virtual machines and containers (virt_type lxc)."""
    options = conf.libvirt
    return options.lxc_connection_uri if options.virt_type == 'lxc' else options.connection_uri


def refusal(uri: str) -> str:
    """Return why libvirt denies access to this process's user, as a sentence; '' if it allows access or is down."""
    libvirt.registerErrorHandler(lambda *_: None, None)
    try:
        libvirt.open(uri).close()
    except libvirt.libvirtError as error:
        closed = error.get_error_code() == libvirt.VIR_ERR_SYSTEM_ERROR and error.get_int1() in (
            errno.EACCES, errno.EPERM)
        if closed or error.get_error_code() in DENIED:
            return f'libvirt does not let that user in ({error.get_error_message()}).'
    return ''


def kvm_offered(capabilities: etree.Element) -> bool:
    """Return whether KVM is usable: CPU support, access to /dev/kvm, and libvirt's support."""
    if capabilities.find("./guest/arch/domain[@type='kvm']") is None:
        return False
    if not {'vmx', 'svm'}.intersection(traits.local_flags()):
        return False
    with contextlib.suppress(OSError):
        fd = os.open('/dev/kvm', os.O_RDWR | os.O_CLOEXEC)
        try:
            return fcntl.ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API
        finally:
            os.close(fd)
    return False


def state_of(domain: libvirt.virDomain) -> int:
    """Return the power state of a domain; a domain that is off and has saved memory is suspended."""
    state = domain.state()[0]
    if state == libvirt.VIR_DOMAIN_SHUTOFF and domain.OSType() != CONTAINER and domain.hasManagedSaveImage():
        return states.POWER_SUSPENDED
    return POWER_STATES.get(state, states.NOSTATE)


def _open(uri: str, mailbox: concurrency.Mailbox[Event]) -> libvirt.virConnect:
    connection = libvirt.open(uri)
    connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
    connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, _lifecycle, mailbox)
    connection.registerCloseCallback(_closed, mailbox)
    return connection


def _lifecycle(_connection: libvirt.virConnect, domain: libvirt.virDomain, event: int, detail: int,
               mailbox: concurrency.Mailbox[Event]) -> None:
    """Forward an event to the mailbox. libvirt calls this on its native thread."""
    if (event, detail) in _FAILURES:
        mailbox.put(Failure(domain.UUIDString(), _FAILURES[event, detail]))
    if event not in (libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_UNDEFINED):
        mailbox.put(domain.UUIDString())


def _closed(_connection: libvirt.virConnect, reason: int, mailbox: concurrency.Mailbox[Event]) -> None:
    if reason != libvirt.VIR_CONNECT_CLOSE_REASON_CLIENT:
        mailbox.put(_Signal.CLOSED)


def _close(connection: libvirt.virConnect) -> None:
    with contextlib.suppress(libvirt.libvirtError):
        connection.unregisterCloseCallback()
    with contextlib.suppress(libvirt.libvirtError):
        connection.close()


def _sentence(error: Exception) -> str:
    return str(error.kwargs.get('reason', error)) if isinstance(error, exception.NovaException) else str(error)


def _alive(connection: libvirt.virConnect) -> bool:
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _find(connection: libvirt.virConnect, uuid: str) -> libvirt.virDomain:
    return connection.lookupByUUIDString(uuid)


def _guests(connection: libvirt.virConnect, owner: str) -> dict[str, int]:
    found = {}
    for domain in connection.listAllDomains():
        with calls.suppressed(libvirt.VIR_ERR_NO_DOMAIN):        # the guest disappeared after the listing
            state = _state_of_ours(domain, owner)
            if state is not None:
                found[domain.UUIDString()] = state
    return found


def _guest_state(connection: libvirt.virConnect, uuid: str, owner: str) -> int | None:
    return _state_of_ours(_find(connection, uuid), owner)


def _state_of_ours(domain: libvirt.virDomain, owner: str) -> int | None:
    """Return the power state of a domain if its metadata names ``owner``, else None."""
    metadata = None
    with calls.suppressed(libvirt.VIR_ERR_NO_DOMAIN_METADATA):
        metadata = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, xml.OWNER_NAMESPACE)
    return state_of(domain) if metadata is not None and xml.owner_of(metadata) == owner else None


def _domain_capabilities(connection: libvirt.virConnect, virt_type: str) -> list[etree.Element]:
    return [etree.fromstring(connection.getDomainCapabilities(None, None, machine, virt_type))
            for machine in ('pc', 'q35')]


def _pci_devices(connection: libvirt.virConnect) -> list[pci.Device]:
    pci, net = ([etree.fromstring(text) for text in _descriptions(connection, kind)] for kind in (
        libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV, libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET))
    return capabilities.devices(pci, net)


def _mediated_devices(connection: libvirt.virConnect, types: Sequence[str]) -> list[pci.Device]:
    nodes, made = ([etree.fromstring(text) for text in _descriptions(connection, kind)] for kind in (
        libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES, libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV))
    return capabilities.mediated_devices(nodes, made, types)


def _descriptions(connection: libvirt.virConnect, kind: int) -> Iterator[str]:
    """Yield XML of the node devices of a kind, without devices that disappear during the listing."""
    for device in connection.listAllDevices(kind):
        with calls.suppressed(libvirt.VIR_ERR_NO_NODE_DEVICE):
            yield device.XMLDesc()


def _facts(connection: libvirt.virConnect) -> Facts:
    info = connection.getInfo()
    # libvirt's value, the sum of the NUMA cells, does not include hot-plugged memory
    memory_mb = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2 ** 20
    return {'version': connection.getVersion(), 'vcpus': info[2], 'memory_mb': memory_mb,
            'capabilities': etree.fromstring(connection.getCapabilities())}


_loop_lock = threading.Lock()
_loop_started = False


def start_loop() -> None:
    """Register libvirt's event loop and run it in one native thread; later calls do nothing.

    libvirt requires that a process registers the loop once, before it opens its first connection.
    """
    global _loop_started
    with _loop_lock:
        if _loop_started:
            return
        libvirt.registerErrorHandler(_quiet, None)   # libvirt would print errors in addition to raising them
        libvirt.virEventRegisterDefaultImpl()
        concurrency.spawn_native('libvirt-loop', _run_loop)
        _loop_started = True


def _run_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _quiet(_context: object, _error: object) -> None:
    pass
