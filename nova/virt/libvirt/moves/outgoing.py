"""Outgoing live migration: libvirt calls, limits, and detection of the result.

Source and destination communicate directly (peer to peer), so a migration continues when nova-compute stops.
https://libvirt.org/migration.html
"""
import os
import threading
import time

import libvirt
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova import states
from nova.virt.libvirt import calls
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.moves import migration_xml

OPERATION = 'migrate the guest'
Parameters = dict[str, str | int | list[str]]            # of migrateToURI3
GIB = 1 << 30
_BASE = (libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER | libvirt.VIR_MIGRATE_PERSIST_DEST
         | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE)


class Job:
    """One live migration: state and error of its call of migrateToURI3."""

    def __init__(self) -> None:
        self.done, self.aborted = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.begun = False

    def run(self, hypervisor: Host, uuid: str, uri: str, parameters: Parameters, flags: int) -> None:
        """Send the guest; runs on a separate thread."""
        try:
            hypervisor.guest(OPERATION, uuid, self._send, uri, parameters, flags)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def _send(self, domain: libvirt.virDomain, uri: str, parameters: Parameters, flags: int) -> None:
        if self.begun:       # Host.run repeats this call after a connection error; a migration must begin only once
            raise exception.VirtError(operation=OPERATION, reason='the connection to libvirt was lost')
        self.begun = True
        domain.migrateToURI3(uri, parameters, flags)


class Limits:
    """Limits on the duration of a migration and on the time without progress.

    :param seconds: seconds allowed for each GiB of memory and disks; 0: no limit
    :param progress_s: seconds in which the remaining data must reach a new minimum; 0: no limit
    """

    def __init__(self, seconds: float, progress_s: float) -> None:
        self._seconds, self._progress_s = seconds, progress_s
        self._began = self._lowered_at = time.monotonic()
        self._least: int | None = None

    def passed(self, values: dict[str, int]) -> str:
        """Return why a limit ends the migration now, as a part of a sentence; '' if it may continue."""
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


def flags(options: ConfigOpts.GroupAttr, copied: bool, incremental: bool, tls: bool, seen: bool) -> int:
    """Return the flags of migrateToURI3.

    :param copied: local disks are copied
    :param incremental: copy only the data above the images, which the destination has
    :param seen: other disks are safe: both hosts access the same data, without a page cache
    """
    found = _BASE
    if copied:
        found |= libvirt.VIR_MIGRATE_NON_SHARED_INC if incremental else libvirt.VIR_MIGRATE_NON_SHARED_DISK
    for wanted, flag in ((options.live_migration_permit_auto_converge, libvirt.VIR_MIGRATE_AUTO_CONVERGE),
                         (options.live_migration_permit_post_copy, libvirt.VIR_MIGRATE_POSTCOPY),
                         (options.live_migration_parallel_connections > 1, libvirt.VIR_MIGRATE_PARALLEL),
                         # without this flag, libvirt refuses shared file systems that it does not know
                         (seen, libvirt.VIR_MIGRATE_UNSAFE),
                         (tls, libvirt.VIR_MIGRATE_TLS)):
        found |= flag if wanted else 0
    return found


def parameters(options: ConfigOpts.GroupAttr, running: str, there: str, address: str, copied: list[str],
               tls: bool) -> Parameters:
    """Return the parameters of migrateToURI3.

    :param running: XML of the guest here
    :param there: the destination's definition
    :param address: address of the destination for the migration data
    :param copied: targets of the copied disks; volumes are not copied
    """
    host = f'[{address}]' if ':' in address else address
    found: Parameters = {
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


# ---- operations on the domain; each runs through Host.guest -------------------------

def running_xml(domain: libvirt.virDomain) -> str:
    return domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE)


def progress(domain: libvirt.virDomain) -> dict[str, int] | None:
    """Return the progress as the driver interface defines it, or None if libvirt reports none."""
    stats = domain.jobStats()
    if stats.get('type', libvirt.VIR_DOMAIN_JOB_NONE) == libvirt.VIR_DOMAIN_JOB_NONE or 'memory_total' not in stats:
        return None
    return {f'{part}_{name}_bytes': stats.get(f'{part}_{name}', 0)
            for part in ('memory', 'disk') for name in ('total', 'processed', 'remaining')}


def hurry(domain: libvirt.virDomain, post_copy: bool) -> None:
    """Switch to post-copy, or pause the guest until all memory is copied."""
    if post_copy:
        domain.migrateStartPostCopy()
    elif domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
        domain.suspend()


def run_on(domain: libvirt.virDomain) -> None:
    """Resume a migrated guest: it arrives paused if ``hurry`` paused it before libvirt began the migration."""
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in (libvirt.VIR_DOMAIN_PAUSED_USER,
                                                         libvirt.VIR_DOMAIN_PAUSED_MIGRATION):
        domain.resume()


def went_ahead(domain: libvirt.virDomain) -> bool:
    """Return whether post-copy has begun, after which the guest cannot resume here, even if post-copy fails."""
    state, reason = domain.state()
    return state == libvirt.VIR_DOMAIN_PAUSED and reason in (libvirt.VIR_DOMAIN_PAUSED_POSTCOPY,
                                                             libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED)


def settled(domain: libvirt.virDomain) -> bool:
    """Return whether no migration is in progress; a migration in progress is aborted."""
    if not domain.isActive():            # a domain that is not active does not migrate
        return True
    if domain.jobStats().get('operation', 0) != libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT:
        return True
    calls.abort_job(domain)
    return False


def arrived(domain: libvirt.virDomain) -> bool:
    """Return whether the domain is active and not in an incoming migration."""
    if not domain.isActive():
        return False
    # libvirt refuses this call on the destination of a migration in progress
    with calls.suppressed(libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_OPERATION_INVALID):
        domain.jobStats()
        return True
    return False


def cpu_features(connection: libvirt.virConnect, virt_type: str, cpu: str | None = None) -> list[str] | None:
    """Return the CPU features of a processor, including the features of its model; None: libvirt does not know them.

    :param cpu: XML of a guest's <cpu>; None: the default of guests on this host
    """
    text = connection.getDomainCapabilities(None, None, None, virt_type, 0)
    cpu = cpu or migration_xml.host_cpu(text)
    if cpu is None:
        return None
    with calls.suppressed(libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_CONFIG_UNSUPPORTED):
        return migration_xml.features(connection.baselineHypervisorCPU(
            None, None, None, virt_type, [cpu], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES))
    return None


def is_at(uri: str, uuid: str, coming: bool = False) -> bool:
    """Return whether a guest has arrived on the host of a libvirt URI.

    :param coming: also return True for an incoming migration
    :raises libvirtError: libvirt is unreachable
    """
    connection = libvirt.open(uri)
    try:
        with calls.suppressed(libvirt.VIR_ERR_NO_DOMAIN):
            domain = connection.lookupByUUIDString(uuid)
            return bool(domain.isActive()) if coming else arrived(domain)
    finally:
        connection.close()
    return False


ACTIVE = (states.RUNNING, states.POWER_PAUSED)


TLS_DIRECTORY = '/etc/pki/qemu'          # default of qemu.conf
TLS_DIRECTORIES = ('migrate_tls_x509_cert_dir', 'default_tls_x509_cert_dir')
# https://libvirt.org/kbase/secureusage.html: a host is the server for incoming guests and the client for outgoing ones
TLS_FILES = ('ca-cert.pem', 'server-cert.pem', 'server-key.pem', 'client-cert.pem', 'client-key.pem')


def can_encrypt(wanted: bool | None, settings: dict[str, str]) -> bool:
    """Return whether this host can send and receive guests with TLS.

    :param wanted: [libvirt] live_migration_with_native_tls
    :param settings: the readable settings of qemu.conf
    """
    if wanted is not None:
        return wanted
    places = [settings[name].strip() for name in TLS_DIRECTORIES if settings.get(name, '').strip()]
    return all(os.path.exists(os.path.join((*places, TLS_DIRECTORY)[0], name)) for name in TLS_FILES)


def agree_on_tls(wanted: bool | None, here: bool, demanded: bool, there: bool) -> bool:
    """Return whether a migration is encrypted, which requires that both hosts support TLS.

    :param wanted: the option of this host
    :param here: whether this host supports encryption
    :param demanded: whether the destination requires encryption
    :param there: whether the destination supports encryption
    :raises MigrationPreCheckError: one host requires encryption and the other does not support it
    """
    if (wanted or demanded) and not (here and there):
        raise exception.MigrationPreCheckError(
            reason='one of the hosts has [libvirt] live_migration_with_native_tls = true, but the other host has it '
                   'off or lacks the certificates')
    return here and there
