"""More CPUs and memory for a guest that runs: https://libvirt.org/formatdomain.html#memory-devices.

Its definition has room for them from its start (xml.py, by nova/hardware/growth.py). Memory comes as one module for
each resize; at the next start all is one piece again. It comes first, because it can be taken back as long as the guest
has not taken it up.
"""
from __future__ import annotations

from collections.abc import Iterator
import contextlib
import time
from typing import Any, TYPE_CHECKING
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.hardware import growth
from nova.virt.libvirt import spec
from nova.virt.libvirt.domain import disks
from nova.virt.libvirt.domain import tree

if TYPE_CHECKING:
    from nova.virt.libvirt.guests import Guests
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.local_disks.storage import Storage

TAKE_BACK_S = 10                         # that a guest has to give back memory of a resize that failed
POLL_S = 0.2
OPERATION = 'give the guest more'
NO_ROOM = 'it was started without room for so many CPUs, or so much memory'
LIMITS = 'quota_disk_'
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE    # the definition is made again at each start


class Growth:
    """A guest that is off gets its CPUs and memory at its next start."""

    def __init__(self, guests: Guests, storage: Storage, hypervisor: Host) -> None:
        self._guests, self._storage, self._hypervisor = guests, storage, hypervisor

    def grow(self, instance: Any, flavor: Any) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            guest = self._guests.record(uuid)
            vcpus, memory_mb = flavor['vcpus'], max(flavor['memory_mb'], spec.MEMORY_MINIMUM)
            most, targets = growth.maximum(guest.settings), [disk.target for disk in guest.disks]
            settings = {**{name: value for name, value in guest.settings.items() if not name.startswith(LIMITS)},
                        **growth.limits(flavor)}
            if vcpus > max(guest.vcpus, most[0]) or memory_mb > max(guest.memory_mb, most[1]):
                raise exception.VirtError(operation=OPERATION, reason=NO_ROOM)
            with contextlib.suppress(exception.GuestNotFound):
                refusal = self._hypervisor.guest(OPERATION, uuid, _refusal, vcpus, memory_mb)
                if refusal:
                    raise exception.VirtError(operation=OPERATION, reason=refusal)
                with self._limited(uuid, targets, disks.limits(guest.settings), disks.limits(settings)):
                    plugged = self._hypervisor.guest(OPERATION, uuid, plug, memory_mb)
                    try:
                        self._hypervisor.guest(OPERATION, uuid, _set_vcpus, vcpus)
                    except exception.VirtError:
                        self.take_back(uuid, plugged)
                        raise
            guest.vcpus, guest.memory_mb, guest.settings = vcpus, memory_mb, settings
            guest.facts['flavor'] = flavor['name']
            self._storage.save(guest)

    @contextlib.contextmanager
    def _limited(self, uuid: str, targets: list[str], old: dict[str, int], new: dict[str, int]) -> Iterator[None]:
        """Bound the local disks as the new flavor says; as the old one does again when the block fails."""
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
        """Have the guest give back what ``plug`` gave.

        :raises VirtError: the guest keeps the memory
        """
        if module is None:
            return
        self._hypervisor.guest('take memory back', uuid, _unplug, module)
        until = time.monotonic() + TAKE_BACK_S
        while self._hypervisor.guest('look at the guest', uuid, _has, module):
            if time.monotonic() > until:
                raise exception.VirtError(operation=OPERATION, reason=(
                    'it has got the memory and no CPUs, and does not give the memory back before its next start'))
            time.sleep(POLL_S)


def set_limits(domain: libvirt.virDomain, targets: list[str], limits: dict[str, int]) -> None:
    """
    :param limits: {name of domain.volume_disks.LIMITS: number}, 0: no limit
    """
    if domain.isActive():
        # the length of a burst is none without the burst, and libvirt refuses it
        given = {name: value for name, value in limits.items() if value or not name.endswith('_max_length')}
        for target in targets:
            domain.setBlockIoTune(target, given, LIVE)


def _live(domain: libvirt.virDomain) -> etree.Element:
    return etree.fromstring(domain.XMLDesc(0))


def _modules(domain: libvirt.virDomain) -> dict[str, etree.Element]:
    """{address: element} of the memory that was plugged."""
    found = {}
    for element in _live(domain).findall('./devices/memory'):
        address = element.find('address')
        if address is not None:
            found[etree.tostring(address, encoding='unicode').strip()] = element
    return found


def _missing(root: etree.Element, memory_mb: int) -> int:
    return memory_mb - int(root.findtext('memory') or 0) // 1024


def _refusal(domain: libvirt.virDomain, vcpus: int, memory_mb: int) -> str | None:
    """Why it cannot have so much, before anything is changed; None: it can."""
    if not domain.isActive():
        return None
    root = _live(domain)
    missing, most = _missing(root, memory_mb), int(root.findtext('maxMemory') or 0) // 1024
    if vcpus > int(root.findtext('vcpu') or 0) or missing > 0 and memory_mb > most:
        return NO_ROOM
    if missing > 0 and len(root.findall('./devices/memory')) >= growth.SLOTS:
        return f'it has got memory {growth.SLOTS} times since its start; a hard reboot makes it one piece'
    return None


def plug(domain: libvirt.virDomain, memory_mb: int) -> str | None:
    """Plug what is missing; the address of the module, None: nothing is, or it is off."""
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
