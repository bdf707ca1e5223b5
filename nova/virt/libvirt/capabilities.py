"""Read the host's hardware from libvirt's XML: pure functions.

https://libvirt.org/formatcaps.html and https://libvirt.org/formatnode.html describe the elements.
"""
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as etree

from nova.hardware import cpus
from nova.objects import numa
from nova.objects import pci
from nova.virt.libvirt.domain import mediated


def topology(capabilities: etree.Element) -> numa.HostTopology | None:
    """Return the HostTopology, in which no guest uses resources, or None if libvirt reports no NUMA cells.

    :param capabilities: root element of the host capabilities
    """
    cells = [_cell(element) for element in capabilities.findall('./host/topology/cells/cell')]
    cells = [cell for cell in cells if cell.cpuset]                   # omits memory-only nodes
    return numa.HostTopology(tuple(sorted(cells, key=lambda cell: cell.id))) if cells else None


def devices(nodes: Sequence[etree.Element], nets: Iterable[etree.Element]) -> list[pci.Device]:
    """Return the pci.Device of each PCI device that can be passed through to guests.

    :param nodes: root elements of the PCI node devices
    :param nets: root elements of the network interfaces
    """
    interfaces = {net.findtext('parent'): net.findtext("./capability[@type='net']/interface") for net in nets}
    names = {}
    for node in nodes:
        capability = node.find("./capability[@type='pci']")
        if capability is not None and node.findtext('name') in interfaces:
            names[_address(capability)] = interfaces[node.findtext('name')]
    found = (device(node, names) for node in nodes)
    return [each for each in found if each is not None]


def mediated_devices(nodes: Iterable[etree.Element], made: Iterable[etree.Element],
                     types: Sequence[str]) -> list[pci.Device]:
    """Return a pci.Device for each existing or possible mediated device of these types.

    :param nodes: root elements of the PCI node devices
    :param made: root elements of the node devices of existing mediated devices
    """
    parents = ((device(node), node) for node in nodes)
    return mediated.devices([(parent, node) for parent, node in parents if parent is not None], made, types)


def device(node: etree.Element, parents: Mapping[str, str | None] | None = None) -> pci.Device | None:
    """Return the pci.Device of a node device (root element), or None if it cannot be passed through.

    :param parents: {address of a physical function: name of its network interface}
    """
    capability = node.find("./capability[@type='pci']")
    if capability is None or capability.find("./capability[@type='pci-bridge']") is not None:
        return None
    address = _address(capability)
    physical = capability.find("./capability[@type='phys_function']/address")
    virtual = capability.find("./capability[@type='virt_functions']")
    parent = _address_of(physical) if physical is not None else None
    element = capability.find('numa')
    return pci.Device(
        address=address, vendor_id=_identifier(capability, 'vendor'), product_id=_identifier(capability, 'product'),
        dev_type=pci.VIRTUAL if parent else pci.PHYSICAL if virtual is not None else pci.PCI,
        numa_node=int(element.attrib['node']) if element is not None else None, parent_addr=parent,
        devname=(parents or {}).get(parent or address))


def _cell(element: etree.Element) -> numa.HostCell:
    memory = element.find('memory')
    listed = element.findall('./cpus/cpu')
    online = [cpu for cpu in listed if cpu.get('core_id') is not None] or listed
    sockets = {cpu.get('socket_id') for cpu in online}
    socket = sockets.pop() if len(sockets) == 1 else None
    groups = {cpus.parse(cpu.attrib['siblings']) for cpu in online if cpu.get('siblings')}
    pages = ((int(page.attrib['size']), int(page.text or '')) for page in element.findall('pages'))
    return numa.HostCell(
        id=int(element.attrib['id']), cpuset=frozenset(int(cpu.attrib['id']) for cpu in online),
        memory=int(memory.text or '') // 1024 if memory is not None else 0,
        siblings=tuple(sorted((group for group in groups if len(group) > 1), key=min)),
        mempages=tuple(numa.Pages(size_kb=size, total=total) for size, total in sorted(pages)),
        socket=int(socket) if socket is not None else None,
        distances={int(sibling.attrib['id']): int(sibling.attrib['value'])
                   for sibling in element.findall('./distances/sibling')})


def _address(capability: etree.Element) -> str:
    domain, bus, slot, function = (int(capability.findtext(part, '')) for part in ('domain', 'bus', 'slot', 'function'))
    return f'{domain:04x}:{bus:02x}:{slot:02x}.{function:x}'


def _address_of(element: etree.Element) -> str:
    domain, bus, slot, function = (int(element.attrib[part], 16) for part in ('domain', 'bus', 'slot', 'function'))
    return f'{domain:04x}:{bus:02x}:{slot:02x}.{function:x}'


def _identifier(capability: etree.Element, name: str) -> str:
    element = capability.find(name)
    return f'{int(element.attrib["id"] if element is not None else "", 16):04x}'
