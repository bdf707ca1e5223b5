"""The elements of a domain that say where on the host a guest is: pure functions, used by xml.py.

https://libvirt.org/formatdomain.html describes them. Each returns an element of ElementTree; None for one that is
not needed.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova import exception
from nova.hardware import cpus
from nova.objects import numa
from nova.objects import pci

REALTIME_PRIORITY = 1              # the lowest above ordinary threads; the host's own real-time work stays ahead
_ADDRESS = re.compile(r'([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z')


def vcpu(count: int, cell_cpus: Iterable[int] | None = None, most: int = 0) -> etree.Element:
    """The number of vCPUs, and for a guest without topology the CPUs that they may run on (usage.floating_cell).

    :param most: that it may get while it runs
    """
    element = etree.Element('vcpu', placement='static')
    if cell_cpus:
        element.set('cpuset', cpus.show(cell_cpus))
    if most > count:
        element.set('current', str(count))
    element.text = str(max(count, most))
    return element


def elements(host: numa.HostTopology, guest: numa.GuestTopology) -> list[etree.Element]:
    """Those of a guest with a topology that its domain has next to the processor's.

    :param host: HostTopology, guest: GuestTopology placed on it
    """
    made = (cputune(host, guest), numatune(guest), memory_backing(host, guest))
    return [element for element in made if element is not None]


def cputune(host: numa.HostTopology, guest: numa.GuestTopology) -> etree.Element:
    """Where the vCPUs and the emulator's threads run, and which are real-time.

    :param host: HostTopology, guest: GuestTopology placed on it
    """
    root = etree.Element('cputune')
    places = _places(host, guest)
    for number, place in sorted(places.items()):
        _add(root, 'vcpupin', vcpu=number, cpuset=cpus.show(place))
    _add(root, 'emulatorpin', cpuset=cpus.show(_emulator(host, guest, places)))
    if guest.realtime:
        _add(root, 'vcpusched', vcpus=cpus.show(guest.realtime), scheduler='fifo', priority=REALTIME_PRIORITY)
    return root


def cpu(topology: Mapping[str, int], guest: numa.GuestTopology | None = None, mode: str | None = None) -> etree.Element:
    """The processor that the guest sees.

    :param topology: {'sockets', 'cores', 'threads'} (hardware.cpu_topology)
    """
    root = etree.Element('cpu', {'mode': mode} if mode else {})
    _add(root, 'topology', **topology)
    if guest is not None:
        nodes = _add(root, 'numa')
        for number, cell in enumerate(guest.cells):
            _add(nodes, 'cell', id=number, cpus=cpus.show(cell.cpuset), memory=cell.memory * 1024)
    return root


def one_node(processor: etree.Element, vcpus: int, memory_mb: int) -> None:
    """Let a guest see one NUMA node with all that it has or may get: libvirt plugs memory into a node alone."""
    _add(_add(processor, 'numa'), 'cell', id=0, cpus=f'0-{vcpus - 1}', memory=memory_mb * 1024)


def numatune(guest: numa.GuestTopology) -> etree.Element:
    """From which nodes of the host the guest's memory is: strictly from those."""
    root = etree.Element('numatune')
    _add(root, 'memory', mode='strict', nodeset=cpus.show({cell.id for cell in guest.cells}))
    for number, cell in enumerate(guest.cells):
        _add(root, 'memnode', cellid=number, mode='strict', nodeset=cell.id)
    return root


def memory_backing(host: numa.HostTopology, guest: numa.GuestTopology) -> etree.Element | None:
    """Large pages, and memory that never leaves: None for a guest that needs neither."""
    sizes: dict[Any, set[int]] = {}
    for number, cell in enumerate(guest.cells):
        smallest = min((pages.size_kb for pages in _on(host, cell).mempages), default=0)
        size: Any = cell.pagesize                # KiB: it is placed
        if size and size > smallest:
            sizes.setdefault(size, set()).add(number)
    if not sizes and not guest.realtime:
        return None
    root = etree.Element('memoryBacking')
    if sizes:
        pages = _add(root, 'hugepages')
        for size, nodes in sorted(sizes.items()):
            _add(pages, 'page', size=size, nodeset=cpus.show(nodes), unit='KiB')
    if guest.realtime:
        _add(root, 'nosharepages')
        _add(root, 'locked')
    return root


def hostdev(device: pci.Device) -> etree.Element:
    """A PCI device of the host (pci.Device) given to the guest. libvirt takes it from the host's driver and back,
    unless its tag ``managed`` says that the host does not."""
    root = etree.Element('hostdev', mode='subsystem', type='pci',
                         managed='no' if device.tags.get('managed') == 'false' else 'yes')
    _add(root, 'source').append(address(device.address))
    return root


def address(text: str) -> etree.Element:
    """Where a PCI device is on the host."""
    match = _ADDRESS.match(text)
    if match is None:
        raise ValueError(f'{text} is no address of a PCI device')
    domain, bus, slot, function = match.groups()
    return etree.Element('address', domain=f'0x{domain}', bus=f'0x{bus}', slot=f'0x{slot}', function=f'0x{function}')


def _on(host: numa.HostTopology, cell: numa.GuestCell) -> numa.HostCell:
    """The cell of the host that a cell of the guest is on.

    :raises VirtError: the host has it no more
    """
    found = host.cell(cell.id)
    if found is None:
        raise exception.VirtError(operation='place the guest', reason=f'the host has no NUMA node {cell.id} for guests')
    return found


def _places(host: numa.HostTopology, guest: numa.GuestTopology) -> dict[int, frozenset[int]]:
    """{vCPU: CPUs of the host that it may run on}."""
    found: dict[int, frozenset[int]] = {}
    for cell in guest.cells:
        shared = _on(host, cell).cpuset
        pinned = cell.cpu_pinning or {}
        for number in cell.cpuset:
            found[number] = frozenset({pinned[number]}) if number in cell.pcpuset else shared
    return found


def _emulator(host: numa.HostTopology, guest: numa.GuestTopology, places: dict[int, frozenset[int]]) -> frozenset[int]:
    """Its own CPUs, or the host's for guests that share, or those of the vCPUs, real-time ones left out."""
    if guest.emulator_threads_policy == 'isolate':
        return frozenset().union(*(cell.reserved_cpus for cell in guest.cells))
    if guest.emulator_threads_policy == 'share':
        shared = frozenset().union(*(cell.cpuset for cell in host.cells if cell.pcpuset is not None))
        if shared:
            return shared
    ordinary = [place for number, place in places.items() if number not in guest.realtime]
    return frozenset().union(*(ordinary or places.values()))


def _add(parent: etree.Element, tag: str, **attributes: Any) -> etree.Element:
    return etree.SubElement(parent, tag, {name: str(value) for name, value in attributes.items()})
