"""Hot-plug of CPUs and memory: https://libvirt.org/formatdomain.html#memory-devices.

Each start of a guest defines its maximum CPUs and memory (xml.py, nova/hardware/growth.py).
Each resize plugs one memory module. The next start defines the guest without modules and with more base memory. Memory
is plugged before CPUs, because the guest can release unused memory if the resize fails.
"""
from collections.abc import Iterator
import contextlib
import time
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.hardware import growth
from nova.objects.flavor import Flavor
from nova.objects.instance import Instance
from nova.virt.libvirt import spec
from nova.virt.libvirt.domain import disks
from nova.virt.libvirt.domain import tree
from nova.virt.libvirt.guests import Guests

MEMORY_RELEASE_TIMEOUT_S = 10  # seconds that a guest has to release the memory of a failed resize
POLL_S = 0.2
OPERATION = 'plug CPUs or memory into the guest'
NO_ROOM = 'its definition at the last start has a lower maximum of CPUs or memory'
LIMITS = 'quota_disk_'
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE    # change only the running guest: the next start generates the definition


class Growth:
    """Feature Growth for running guests. A stopped guest gets the CPUs and memory of the flavor at its next start."""

    def __init__(self, guests: Guests) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def grow(self, instance: Instance, flavor: Flavor) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            guest = self._guests.record(uuid)
            vcpus, memory_mb = flavor['vcpus'], max(flavor['memory_mb'], spec.MEMORY_MINIMUM)
            before, resources = guest.hardware.settings, guest.resources
            most, targets = growth.maximum(before), [disk.target for disk in guest.disks]
            settings = {**{name: value for name, value in before.items() if not name.startswith(LIMITS)},
                        **growth.limits(flavor)}
            if vcpus > max(resources.vcpus, most[0]) or memory_mb > max(resources.memory_mb, most[1]):
                raise exception.VirtError(operation=OPERATION, reason=NO_ROOM)
            with contextlib.suppress(exception.GuestNotFound):
                refusal = self._hypervisor.guest(OPERATION, uuid, _refusal, vcpus, memory_mb)
                if refusal:
                    raise exception.VirtError(operation=OPERATION, reason=refusal)
                with self._limited(uuid, targets, disks.limits(before), disks.limits(settings)):
                    plugged = self._hypervisor.guest(OPERATION, uuid, plug, memory_mb)
                    try:
                        self._hypervisor.guest(OPERATION, uuid, _set_vcpus, vcpus)
                    except exception.VirtError:
                        self.take_back(uuid, plugged)
                        raise
            resources.vcpus, resources.memory_mb, guest.hardware.settings = vcpus, memory_mb, settings
            guest.identity.facts['flavor'] = flavor['name']
            self._storage.save(guest)

    @contextlib.contextmanager
    def _limited(self, uuid: str, targets: list[str], old: dict[str, int], new: dict[str, int]) -> Iterator[None]:
        """Set the I/O limits of the new flavor before the block. If the block fails, restore the old limits."""
        if old == new:
            yield
            return
        self._hypervisor.guest(OPERATION, uuid, set_limits, targets, new)
        try:
            yield
        except exception.VirtError:
            self._hypervisor.guest(OPERATION, uuid, set_limits, targets, old)
            raise

    def take_back(self, uuid: str, module: str | None) -> None:
        """Unplug the memory module that ``plug`` added.

        :param module: result of ``plug``
        :raises VirtError: the guest does not release the memory
        """
        if module is None:
            return
        self._hypervisor.guest('take memory back', uuid, _unplug, module)
        until = time.monotonic() + MEMORY_RELEASE_TIMEOUT_S
        while self._hypervisor.guest('look at the guest', uuid, _has, module):
            if time.monotonic() > until:
                raise exception.VirtError(operation=OPERATION, reason=(
                    'it got the new memory but not the new CPUs, and keeps the memory until its next start'))
            time.sleep(POLL_S)


def set_limits(domain: libvirt.virDomain, targets: list[str], limits: dict[str, int]) -> None:
    """Set the I/O limits of local disks.

    :param limits: {name of domain.volume_disks.LIMITS: number}, 0: no limit
    """
    if domain.isActive():
        # omit *_max_length 0: libvirt accepts a burst length only together with a burst limit
        given = {name: value for name, value in limits.items() if value or not name.endswith('_max_length')}
        for target in targets:
            domain.setBlockIoTune(target, given, LIVE)


def _live(domain: libvirt.virDomain) -> etree.Element:
    return etree.fromstring(domain.XMLDesc(0))


def _modules(domain: libvirt.virDomain) -> dict[str, etree.Element]:
    """Return {address: XML element} of the hot-plugged memory modules."""
    found = {}
    for element in _live(domain).findall('./devices/memory'):
        address = element.find('address')
        if address is not None:
            found[etree.tostring(address, encoding='unicode').strip()] = element
    return found


def _missing(root: etree.Element, memory_mb: int) -> int:
    return memory_mb - int(root.findtext('memory') or 0) // 1024


def _refusal(domain: libvirt.virDomain, vcpus: int, memory_mb: int) -> str | None:
    """Return why the guest cannot get the CPUs or memory, or None if it can. Called before any change."""
    if not domain.isActive():
        return None
    root = _live(domain)
    missing, most = _missing(root, memory_mb), int(root.findtext('maxMemory') or 0) // 1024
    if vcpus > int(root.findtext('vcpu') or 0) or missing > 0 and memory_mb > most:
        return NO_ROOM
    if missing > 0 and len(root.findall('./devices/memory')) >= growth.SLOTS:
        return f'all {growth.SLOTS} memory slots are used; a hard reboot frees them'
    return None


def plug(domain: libvirt.virDomain, memory_mb: int) -> str | None:
    """Plug the missing memory. Return the module's address, or None if the guest is off or has enough memory."""
    missing = _missing(_live(domain), memory_mb) if domain.isActive() else 0
    if missing <= 0:
        return None
    before = _modules(domain)
    module = etree.Element('memory', model='dimm')
    target = tree.add(module, 'target')
    tree.add(target, 'size', missing, unit='MiB')
    tree.add(target, 'node', 0)
    domain.attachDeviceFlags(etree.tostring(module, encoding='unicode'), LIVE)
    return next(iter(_modules(domain).keys() - before.keys()), None)


def _set_vcpus(domain: libvirt.virDomain, vcpus: int) -> None:
    count = _live(domain).find('vcpu')
    if domain.isActive() and count is not None and int(count.get('current', vcpus)) < vcpus:
        domain.setVcpusFlags(vcpus, LIVE)


def _has(domain: libvirt.virDomain, module: str) -> bool:
    return bool(domain.isActive()) and module in _modules(domain)


def _unplug(domain: libvirt.virDomain, module: str) -> None:
    element = _modules(domain).get(module)
    if element is not None:
        domain.detachDeviceFlags(etree.tostring(element, encoding='unicode'), LIVE)
