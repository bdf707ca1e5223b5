"""A guest on its way to another host: the calls of libvirt, their limits, and how it is found out what became of it.

Source and destination talk to each other (peer to peer), so that the end of nova-compute ends no migration.
https://libvirt.org/migration.html
"""
from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import libvirt

from nova import exception
from nova import states
from nova.virt.libvirt.moves import migration_xml

OPERATION = 'migrate the guest'
GIB = 1 << 30
_BASE = (libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER | libvirt.VIR_MIGRATE_PERSIST_DEST
         | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE)


class Job:
    """One migration: what was requested of it meanwhile, and how it ended."""

    def __init__(self) -> None:
        self.done, self.aborted = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.begun = False

    def run(self, hypervisor: Any, uuid: str, uri: str, parameters: dict[str, Any], flags: int) -> None:
        """Send the guest; on a thread of its own."""
        try:
            hypervisor.guest(OPERATION, uuid, self._send, uri, parameters, flags)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def _send(self, domain: Any, uri: str, parameters: dict[str, Any], flags: int) -> None:
        if self.begun:       # called again, because the connection broke: what became of the first call is looked up
            raise exception.VirtError(operation=OPERATION, reason='the connection to libvirt was lost')
        self.begun = True
        domain.migrateToURI3(uri, parameters, flags)


class Limits:
    """When a migration has taken too long, or stands still.

    :param seconds: for each GiB of memory and disks; 0: no limit
    :param progress_s: without less being left than ever before; 0: no limit
    """

    def __init__(self, seconds: float, progress_s: float) -> None:
        self._seconds, self._progress_s = seconds, progress_s
        self._began = self._lowered_at = time.monotonic()
        self._least: int | None = None

    def passed(self, values: dict[str, int]) -> str:
        """Why it is to end now, as a part of a sentence; '' when it may go on."""
        now = time.monotonic()
        left = values['memory_remaining_bytes'] + values['disk_remaining_bytes']
        if self._least is None or left < self._least:
            self._least, self._lowered_at = left, now
        size = max(1, (values['memory_total_bytes'] + values['disk_total_bytes']) / GIB)
        if self._seconds and now - self._began > self._seconds * size:
            return 'it took too long'
        if self._progress_s and now - self._lowered_at > self._progress_s:
            return 'it made no progress'
        return ''


def flags(options: Any, copied: bool, incremental: bool, tls: bool, seen: bool) -> int:
    """Of migrateToURI3.

    :param options: [libvirt]
    :param copied: local disks go along
    :param incremental: of them only what lies above their images, which the destination has
    :param seen: both hosts see the same content of what is not copied, and neither caches it
    """
    found = _BASE
    if copied:
        found |= libvirt.VIR_MIGRATE_NON_SHARED_INC if incremental else libvirt.VIR_MIGRATE_NON_SHARED_DISK
    for wanted, flag in ((options.live_migration_permit_auto_converge, libvirt.VIR_MIGRATE_AUTO_CONVERGE),
                         (options.live_migration_permit_post_copy, libvirt.VIR_MIGRATE_POSTCOPY),
                         (options.live_migration_parallel_connections > 1, libvirt.VIR_MIGRATE_PARALLEL),
                         # libvirt goes by its list of file systems, and takes any other for a local one
                         (seen, libvirt.VIR_MIGRATE_UNSAFE),
                         (tls, libvirt.VIR_MIGRATE_TLS)):
        found |= flag if wanted else 0
    return found


def parameters(options: Any, running: str, there: str, address: str, copied: list[str], tls: bool) -> dict[str, Any]:
    """Of migrateToURI3.

    :param running: XML of the guest here, and there: the definition that the destination made
    :param address: of the destination, for the data
    :param copied: targets of the disks that go with the guest; volumes are none of them, they stay where they are
    """
    host = f'[{address}]' if ':' in address else address
    found: dict[str, Any] = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: migration_xml.for_destination(running, there),
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: migration_xml.for_later(there, running),
        libvirt.VIR_MIGRATE_PARAM_URI: f'tcp://{host}',
    }
    if copied:
        found |= {libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS: copied,
                  libvirt.VIR_MIGRATE_PARAM_DISKS_URI: f'tcp://{host}'}
    if options.live_migration_bandwidth:
        found[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = options.live_migration_bandwidth
    if options.live_migration_parallel_connections > 1:
        found[libvirt.VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS] = options.live_migration_parallel_connections
    if tls:
        found[libvirt.VIR_MIGRATE_PARAM_TLS_DESTINATION] = address
    return found


# ---- what is done to the domain; each runs through Host.guest -----------------------

def running_xml(domain: Any) -> str:
    return domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE)


def set_downtime(domain: Any, milliseconds: int) -> None:
    domain.migrateSetMaxDowntime(milliseconds)


def progress(domain: Any) -> dict[str, int] | None:
    """The figures of the driver contract; None while there are none."""
    stats = domain.jobStats()
    if stats.get('type', libvirt.VIR_DOMAIN_JOB_NONE) == libvirt.VIR_DOMAIN_JOB_NONE or 'memory_total' not in stats:
        return None
    return {f'{part}_{name}_bytes': stats.get(f'{part}_{name}', 0)
            for part in ('memory', 'disk') for name in ('total', 'processed', 'remaining')}


def abort(domain: Any) -> None:
    with contextlib.suppress(libvirt.libvirtError):
        domain.abortJob()


def hurry(domain: Any, post_copy: bool) -> None:
    """Run the guest at the destination already, or pause it until all is copied."""
    if post_copy:
        domain.migrateStartPostCopy()
    elif domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
        domain.suspend()


def run_on(domain: Any) -> None:
    """Let a guest that has come run. Where ``hurry`` paused it before libvirt began, it came as a paused one."""
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in (libvirt.VIR_DOMAIN_PAUSED_USER,
                                                         libvirt.VIR_DOMAIN_PAUSED_MIGRATION):
        domain.resume()


def went_ahead(domain: Any) -> bool:
    """Whether it runs at its destination already while memory is missing there (post-copy), also when the connection
    has broken: what is left here could not run on."""
    state, reason = domain.state()
    return state == libvirt.VIR_DOMAIN_PAUSED and reason in (libvirt.VIR_DOMAIN_PAUSED_POSTCOPY,
                                                             libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED)


def settled(domain: Any) -> bool:
    """Whether no migration of it is under way; one that is gets the request to end."""
    if not domain.isActive():            # gone, by a migration whose end was not seen
        return True
    if domain.jobStats().get('operation', 0) != libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT:
        return True
    abort(domain)
    return False


def arrived(domain: Any) -> bool:
    """Whether it is active, and not on its way to here."""
    if not domain.isActive():
        return False
    try:
        domain.jobStats()
    except libvirt.libvirtError as error:                # it reports a migration at its source alone
        if error.get_error_code() in (libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_OPERATION_INVALID):
            return False
        raise
    return True


def cpu_features(connection: Any, virt_type: str, cpu: str | None = None) -> list[str] | None:
    """Features of a processor, those of its model included; None where libvirt cannot say.

    :param cpu: XML of a guest's; None: the one that guests of this host can have
    """
    text = connection.getDomainCapabilities(None, None, None, virt_type, 0)
    cpu = cpu or migration_xml.host_cpu(text)
    if cpu is None:
        return None
    try:
        return migration_xml.features(connection.baselineHypervisorCPU(
            None, None, None, virt_type, [cpu], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES))
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_CONFIG_UNSUPPORTED):
            return None
        raise


def is_at(uri: str, uuid: str, coming: bool = False) -> bool:
    """Whether the guest has arrived where that libvirt is.

    :param coming: or is on its way to there
    :raises libvirtError: it cannot be reached
    """
    connection = libvirt.open(uri)
    try:
        domain = connection.lookupByUUIDString(uuid)
        return bool(domain.isActive()) if coming else arrived(domain)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return False
    finally:
        connection.close()


ACTIVE = (states.RUNNING, states.POWER_PAUSED)
