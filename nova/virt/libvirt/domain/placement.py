"""Elements of a domain for its placement on the host: pure functions, used by xml.py.

https://libvirt.org/formatdomain.html describes the elements. A function returns None for an element that is not needed.
"""
import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova import exception
from nova.hardware import cpus
from nova.objects import numa
from nova.objects import pci
from nova.virt.libvirt.domain.tree import add

REALTIME_PRIORITY = 1              # the lowest real-time priority, so that the host's real-time threads run first
_ADDRESS = re.compile(r'([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z')


def vcpu(count: int, cell_cpus: Iterable[int] | None = None, most: int = 0) -> etree.Element:
    """Return the element <vcpu>: the number of vCPUs, and the host CPUs on which all vCPUs may run.

    :param cell_cpus: host CPUs of a guest without NUMA topology (usage.floating_cell); None: any
    :param most: maximum number of vCPUs with hot-plug
    """
    element = etree.Element('vcpu', placement='static')
    if cell_cpus:
        element.set('cpuset', cpus.show(cell_cpus))
    if most > count:
        element.set('current', str(count))
    element.text = str(max(count, most))
    return element


def elements(host: numa.HostTopology, guest: numa.GuestTopology) -> list[etree.Element]:
    """Return the placement elements of a guest with a topology, except <vcpu> and <cpu>."""
    made = (cputune(host, guest), numatune(guest), memory_backing(host, guest))
    return [element for element in made if element is not None]


def cputune(host: numa.HostTopology, guest: numa.GuestTopology) -> etree.Element:
    """Return the pinning of vCPUs and emulator threads, and the real-time vCPUs."""
    root = etree.Element('cputune')
    places = _places(host, guest)
    for number, place in sorted(places.items()):
        add(root, 'vcpupin', vcpu=number, cpuset=cpus.show(place))
    add(root, 'emulatorpin', cpuset=cpus.show(_emulator(host, guest, places)))
    if guest.realtime:
        add(root, 'vcpusched', vcpus=cpus.show(guest.realtime), scheduler='fifo', priority=REALTIME_PRIORITY)
    return root


def cpu(topology: Mapping[str, int], guest: numa.GuestTopology | None = None, mode: str | None = None) -> etree.Element:
    """Return the guest-visible processor.

    :param topology: {'sockets', 'cores', 'threads'} (hardware.cpu_topology)
    """
    root = etree.Element('cpu', {'mode': mode} if mode else {})
    add(root, 'topology', **topology)
    if guest is not None:
        nodes = add(root, 'numa')
        for number, cell in enumerate(guest.cells):
            add(nodes, 'cell', id=number, cpus=cpus.show(cell.cpuset), memory=cell.memory * 1024)
    return root


def one_node(processor: etree.Element, vcpus: int, memory_mb: int) -> None:
    """Add one guest NUMA node with the maximum resources: libvirt plugs memory only into NUMA nodes of guests."""
    add(add(processor, 'numa'), 'cell', id=0, cpus=f'0-{vcpus - 1}', memory=memory_mb * 1024)


def numatune(guest: numa.GuestTopology) -> etree.Element:
    """Return the memory policy: strict allocation from the host's NUMA nodes on which the guest is placed."""
    root = etree.Element('numatune')
    add(root, 'memory', mode='strict', nodeset=cpus.show({cell.id for cell in guest.cells}))
    for number, cell in enumerate(guest.cells):
        add(root, 'memnode', cellid=number, mode='strict', nodeset=cell.id)
    return root


def memory_backing(host: numa.HostTopology, guest: numa.GuestTopology) -> etree.Element | None:
    """Return huge pages and locked memory, or None for a guest that needs neither."""
    sizes: dict[Any, set[int]] = {}
    for number, cell in enumerate(guest.cells):
        smallest = min((pages.size_kb for pages in _on(host, cell).mempages), default=0)
        size: Any = cell.pagesize        # the placement has replaced 'small', 'large' or 'any' by a number in KiB
        if size and size > smallest:
            sizes.setdefault(size, set()).add(number)
    if not sizes and not guest.realtime:
        return None
    root = etree.Element('memoryBacking')
    if sizes:
        pages = add(root, 'hugepages')
        for size, nodes in sorted(sizes.items()):
            add(pages, 'page', size=size, nodeset=cpus.show(nodes), unit='KiB')
    if guest.realtime:
        add(root, 'nosharepages')
        add(root, 'locked')
    return root


def hostdev(device: pci.Device) -> etree.Element:
    """Return the element of a passthrough PCI device (pci.Device).

    libvirt detaches the device from the host's driver and later reattaches it, unless the tag ``managed`` is 'false'.
    """
    root = etree.Element('hostdev', mode='subsystem', type='pci',
                         managed='no' if device.tags.get('managed') == 'false' else 'yes')
    add(root, 'source').append(address(device.address))
    return root


def address(text: str) -> etree.Element:
    """Return the host address of a PCI device."""
    match = _ADDRESS.match(text)
    if match is None:
        raise ValueError(f'{text} is no address of a PCI device')
    domain, bus, slot, function = match.groups()
    return etree.Element('address', domain=f'0x{domain}', bus=f'0x{bus}', slot=f'0x{slot}', function=f'0x{function}')


def _on(host: numa.HostTopology, cell: numa.GuestCell) -> numa.HostCell:
    """Return the host NUMA node on which a guest NUMA node is placed.

    :raises VirtError: the host no longer has the cell
    """
    found = host.cell(cell.id)
    if found is None:
        raise exception.VirtError(operation='place the guest', reason=f'the host has no NUMA node {cell.id} for guests')
    return found


def _places(host: numa.HostTopology, guest: numa.GuestTopology) -> dict[int, frozenset[int]]:
    """Return {vCPU: host CPUs on which the vCPU may run}."""
    found: dict[int, frozenset[int]] = {}
    for cell in guest.cells:
        shared = _on(host, cell).cpuset
        pinned = cell.cpu_pinning or {}
        for number in cell.cpuset:
            found[number] = frozenset({pinned[number]}) if number in cell.pcpuset else shared
    return found


def _emulator(host: numa.HostTopology, guest: numa.GuestTopology, places: dict[int, frozenset[int]]) -> frozenset[int]:
    """Return the host CPUs of the emulator threads.

    With the policy "isolate" they have reserved CPUs; with "share" they run on the host's shared CPUs if it has any.
    Otherwise they run on the CPUs of the vCPUs without real-time priority, or of all vCPUs if all have this priority.
    """
    if guest.emulator_threads_policy == 'isolate':
        return frozenset().union(*(cell.reserved_cpus for cell in guest.cells))
    if guest.emulator_threads_policy == 'share':
        shared = frozenset().union(*(cell.cpuset for cell in host.cells if cell.pcpuset is not None))
        if shared:
            return shared
    ordinary = [place for number, place in places.items() if number not in guest.realtime]
    return frozenset().union(*(ordinary or places.values()))
