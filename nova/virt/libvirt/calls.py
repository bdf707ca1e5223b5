"""Calls of libvirt for one domain. The first parameter of each function is libvirt's connection or domain.

``Host.run`` and ``Host.guest`` call these functions. The functions take no lock, write no log, and are idempotent.
"""
import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as etree

import libvirt

from nova.objects import pci
from nova.objects.counters import Counters
from nova.virt.libvirt.domain import addresses
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.domain import mediated

_UNDEFINE = (libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
             | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA)
# flags of undefine that remove or keep UEFI variables and TPM state
_REMOVE = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_TPM
_KEEP = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM
_COUNTERS = (libvirt.VIR_DOMAIN_STATS_CPU_TOTAL | libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK
             | libvirt.VIR_DOMAIN_STATS_INTERFACE)
# libvirt's error codes if the kernel does not provide a counter, or the device was removed
_UNREADABLE = (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_INTERNAL_ERROR,
               libvirt.VIR_ERR_SYSTEM_ERROR)
KILL_ATTEMPTS = 3                        # a call of domain.destroy() waits up to 15 s for the end of the process


@contextlib.contextmanager
def suppressed(*codes: int) -> Iterator[None]:
    """Suppress libvirtError with these error codes in the block."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in codes:
            raise


def define(connection: libvirt.virConnect, _uuid: str, text: str) -> None:
    connection.defineXML(text)


def define_and_start(connection: libvirt.virConnect, _uuid: str, text: str) -> None:
    domain = connection.defineXML(text)
    if not domain.isActive():
        domain.create()


def define_and_pause(connection: libvirt.virConnect, _uuid: str, text: str) -> None:
    """Define a guest and start it in the paused state, so that its devices exist before its first instruction."""
    domain = connection.defineXML(text)
    if not domain.isActive():
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)


def start(domain: libvirt.virDomain) -> None:
    """Start a domain, from its saved memory if it was suspended. Resume a paused domain."""
    if not domain.isActive():
        domain.create()
    elif domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()


def start_paused(domain: libvirt.virDomain) -> None:
    """Start a domain in the paused state, from its saved memory if it was suspended."""
    if not domain.isActive():
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)


def stop(domain: libvirt.virDomain) -> None:
    """Power a domain off immediately."""
    for attempt in range(1, KILL_ATTEMPTS + 1):
        if not domain.isActive():
            return
        try:
            domain.destroy()
        except libvirt.libvirtError:
            if attempt == KILL_ATTEMPTS and domain.isActive():
                raise


def stop_and_forget(domain: libvirt.virDomain) -> None:
    """Power a domain off and delete its saved memory, so that it boots at its next start."""
    stop(domain)
    if domain.hasManagedSaveImage():
        domain.managedSaveRemove()


def undefine(domain: libvirt.virDomain, keep_state: bool = False) -> None:
    """Stop and undefine a domain. Do nothing for a domain that another program created and that was not adopted."""
    if not _has_owner(domain):
        return
    stop(domain)
    domain.undefineFlags(_UNDEFINE | (_KEEP if keep_state else _REMOVE))


def _has_owner(domain: libvirt.virDomain) -> bool:
    with suppressed(libvirt.VIR_ERR_NO_DOMAIN_METADATA):
        return bool(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, identity.OWNER_NAMESPACE))
    return False


def described(domain: libvirt.virDomain) -> tuple[str, str | None]:
    """Return (definition as XML, reason why adoption is impossible or None) of another program's guest."""
    why = (None if domain.isPersistent() else 'it is transient: make it persistent with virsh define')
    if why is None and _has_owner(domain):
        why = 'it belongs to a deployment of this system already'
    if why is None and (domain.snapshotNum() or domain.listAllCheckpoints()):
        why = 'it has snapshots or checkpoints'
    return domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), why


def mark(domain: libvirt.virDomain, namespace: str, text: str | None) -> None:
    """Set the owner in the metadata of a domain, and disable its autostart.

    :param text: the owner element as XML; None removes the owner
    """
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG | (libvirt.VIR_DOMAIN_AFFECT_LIVE if domain.isActive() else 0)
    if text is None and not _has_owner(domain):
        return
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, 'owner' if text else None, namespace, flags)
    if text is not None:
        domain.setAutostart(0)


def forget(connection: libvirt.virConnect, _uuid: str, text: str) -> None:
    """Define a guest and undefine it, so that libvirt removes the TPM state that it keeps for this guest."""
    undefine(connection.defineXML(text))


def ask_to_shut_down(domain: libvirt.virDomain) -> None:
    """Request a shutdown through ACPI or the guest agent. Do nothing if the domain is off."""
    with contextlib.suppress(libvirt.libvirtError):
        domain.shutdown()


def pause(domain: libvirt.virDomain) -> None:
    if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
        domain.suspend()


def unpause(domain: libvirt.virDomain) -> None:
    if domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()


def save(domain: libvirt.virDomain) -> None:
    """Save the memory to disk and stop the domain. A domain that is suspended already is unchanged.

    :raises libvirtError: the domain is off, and has no saved memory
    """
    if domain.isActive() or not domain.hasManagedSaveImage():
        domain.managedSave()


def renew_saved_devices(domain: libvirt.virDomain, paths: Mapping[str, str]) -> None:
    """Set the paths of block devices with which a domain starts from its saved memory.

    :param paths: {target name: path}
    """
    root = etree.fromstring(domain.managedSaveGetXMLDesc(libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE))
    for target, path in paths.items():
        source = root.find(f"./devices/disk/target[@dev='{target}']/../source")
        if source is not None:
            source.set('dev', path)
    domain.managedSaveDefineXML(etree.tostring(root, encoding='unicode'))


def device_addresses(domain: libvirt.virDomain) -> dict[str, list[str]]:
    """Return the addresses of guest devices: {MAC address, serial number or device name: [bus, address]}."""
    return addresses.read(domain.XMLDesc(0))


def interface_path(mac: str) -> str:
    """Return the XPath of a network device in a domain's XML, for the parameter ``path`` of the functions below."""
    return f"./devices/interface/mac[@address='{mac.lower()}']"


def plug(domain: libvirt.virDomain, text: str, path: str) -> None:
    """Add a device to the definition and, if the guest runs, to the running guest.

    :param text: the XML of the device
    :param path: XPath of the device in the domain's XML, which shows whether the guest already has the device
    """
    for flag, described in _places(domain):
        if not _has(domain, described, path):
            domain.attachDeviceFlags(text, flag)


def attach_live(domain: libvirt.virDomain, text: str) -> None:
    """Attach a device to a running guest but not to its definition."""
    domain.attachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def requests(domain: libvirt.virDomain, target: str) -> tuple[int, int]:
    """Return the numbers of (reads, writes) that a running guest has requested from a disk."""
    reads, _read, writes, *_more = domain.blockStats(target)
    return reads, writes


def ask_to_unplug(domain: libvirt.virDomain, text: str, path: str) -> None:
    """Request that a running guest releases a device. Ignore errors: the previous request may be in progress."""
    if holds_device(domain, path):
        with contextlib.suppress(libvirt.libvirtError):
            domain.detachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def holds_device(domain: libvirt.virDomain, path: str) -> bool:
    """Return whether the guest runs and has the device."""
    return bool(domain.isActive()) and _has(domain, 0, path)


def undefine_device(domain: libvirt.virDomain, text: str, path: str) -> None:
    """Remove a device from the definition."""
    if _has(domain, libvirt.VIR_DOMAIN_XML_INACTIVE, path):
        domain.detachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_CONFIG)


def _has(domain: libvirt.virDomain, described: int, path: str) -> bool:
    return etree.fromstring(domain.XMLDesc(described)).find(path) is not None


def _places(domain: libvirt.virDomain) -> list[tuple[int, int]]:
    """Return [(flag to change, flag to read XML)] for the definition and, if the guest runs, for the running guest."""
    places = [(libvirt.VIR_DOMAIN_AFFECT_CONFIG, libvirt.VIR_DOMAIN_XML_INACTIVE)]
    return places + [(libvirt.VIR_DOMAIN_AFFECT_LIVE, 0)] if domain.isActive() else places


def begin_backup(domain: libvirt.virDomain, text: str, flags: int = 0) -> None:
    """Begin a backup job of a disk. If an earlier process left a job, abort that job first."""
    if _has_job(domain):
        domain.abortJob()
    domain.backupBegin(text, None, flags)


def _has_job(domain: libvirt.virDomain) -> bool:
    return bool(domain.jobStats().get('type', libvirt.VIR_DOMAIN_JOB_NONE) != libvirt.VIR_DOMAIN_JOB_NONE)


def backup_done(domain: libvirt.virDomain) -> bool | None:
    """Return None while the backup job runs. Afterwards return whether the job succeeded."""
    if _has_job(domain):
        return None
    ended = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
    return ended.get('type') == libvirt.VIR_DOMAIN_JOB_COMPLETED and bool(ended.get('success', True))


def backup_percent(domain: libvirt.virDomain) -> int | None:
    """Return the progress of the backup job in percent, or None if no job runs."""
    stats = domain.jobStats()
    total = int(stats.get('disk_total', 0))
    return min(100, 100 * int(stats.get('disk_processed', 0)) // total) if total else None


def abort_job(domain: libvirt.virDomain) -> None:
    with contextlib.suppress(libvirt.libvirtError):
        domain.abortJob()


def ensure_mediated(connection: libvirt.virConnect, guest: str, devices: list[pci.Device]) -> None:
    """Create the missing mediated devices of a guest.

    :raises libvirtError: the host has no free instance of a type
    """
    for device in _mediated(devices):
        if _find_mediated(connection, mediated.id_of(guest, device)) is None:
            connection.nodeDeviceCreateXML(mediated.request(guest, device))


def remove_mediated(connection: libvirt.virConnect, guest: str, devices: list[pci.Device]) -> None:
    """Remove the devices that ``ensure_mediated`` created. The guest must be off."""
    for device in _mediated(devices):
        found = _find_mediated(connection, mediated.id_of(guest, device))
        if found is not None:
            found.destroy()


def needs_mediated(devices: list[pci.Device]) -> bool:
    return bool(_mediated(devices))


def _mediated(devices: list[pci.Device]) -> list[pci.Device]:
    return [device for device in devices if device.dev_type == pci.MEDIATED]


def _find_mediated(connection: libvirt.virConnect, wanted: str) -> libvirt.virNodeDevice | None:
    for device in connection.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV):
        with suppressed(libvirt.VIR_ERR_NO_NODE_DEVICE):         # the device was removed after listAllDevices
            if mediated.id_made(etree.fromstring(device.XMLDesc())) == wanted:
                return device
    return None


# ---- counters

def counters(connection: libvirt.virConnect) -> dict[str, Counters]:
    """Return {uuid: Counters} of all running virtual machines, with one call of libvirt.

    If another operation on a guest is in progress, the values that libvirt cannot read without waiting are None.
    """
    found = connection.getAllDomainStats(_COUNTERS, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
                                         | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
    return {domain.UUIDString(): _counters(domain.ID(), stats) for domain, stats in found}


def _counters(run: int, stats: dict[str, Any]) -> Counters:
    memory = used_kib(stats) * 1024 if 'balloon.current' in stats else None
    return Counters(str(run), memory, stats.get('cpu.time'), *(_sum(stats, group, name) for group, name in (
        ('block', 'rd.bytes'), ('block', 'wr.bytes'), ('block', 'rd.reqs'), ('block', 'wr.reqs'),
        ('net', 'rx.bytes'), ('net', 'tx.bytes'), ('net', 'rx.pkts'), ('net', 'tx.pkts'))))


def _sum(stats: dict[str, Any], group: str, name: str) -> int | None:
    """Return the sum of a counter over the devices of a group, such as ``block``; None: libvirt reports no group."""
    if f'{group}.count' not in stats:
        return None
    return sum(stats.get(f'{group}.{number}.{name}', 0) for number in range(stats[f'{group}.count']))


def container_counters(connection: libvirt.virConnect) -> dict[str, Counters]:
    """Return {uuid: Counters} of the running containers. libvirt has no call that reads all containers."""
    found = {}
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        with suppressed(libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
            _state, _maximum, used_kib_now, _vcpus, cpu_ns = domain.info()
            found[domain.UUIDString()] = Counters(str(domain.ID()), used_kib_now * 1024, cpu_ns,
                                                  *_container_disk(domain), *_container_ports(domain))
    return found


def _container_disk(domain: libvirt.virDomain) -> tuple[int | None, ...]:
    """Return (bytes read, bytes written, reads, writes) of a container from its control group, or Nones if unknown.

    With control groups of version 1, some kernels count only if a limit is set. So zeros are treated as unknown.
    """
    with suppressed(*_UNREADABLE):
        reads, read_bytes, writes, written_bytes, _errors = domain.blockStats('')
        if reads or writes:
            return read_bytes, written_bytes, reads, writes
    return None, None, None, None


def _container_ports(domain: libvirt.virDomain) -> tuple[int | None, ...]:
    """Return (bytes received, bytes sent, packets received, packets sent) of a container, or Nones if unknown."""
    targets = etree.fromstring(domain.XMLDesc()).findall('./devices/interface/target[@dev]')
    with suppressed(*_UNREADABLE):
        stats = [domain.interfaceStats(target.get('dev')) for target in targets]
        return tuple(sum(row[place] for row in stats) for place in (0, 4, 1, 5))
    return None, None, None, None


def used_kib(stats: dict[str, int]) -> int:
    """Return the memory in use in KiB: reported by the guest OS, or otherwise the memory of the QEMU process."""
    available, unused = stats.get('balloon.available'), stats.get('balloon.unused')
    if available and unused is not None:
        return max(0, available - unused)
    return stats.get('balloon.rss', stats['balloon.current'])
