"""What of a running guest's XML is its host's, replaced by what the destination says: pure functions.

libvirt insists that the machine which the guest sees is the same on both sides. So the running definition goes with the
guest, and only what lies behind the devices is the destination's: files, bridges, taps, CPUs and NUMA nodes.
"""
from __future__ import annotations

import copy
from xml.etree import ElementTree as etree

from nova import exception
from nova.virt.libvirt import xml

# Elements of the root that name CPUs and memory of the host.
PLACEMENT = ('vcpu', 'cputune', 'numatune')
BOOT_FILES = ('kernel', 'initrd')
LOOPBACK = '127.0.0.1'
VARIABLES = 'nvram'                      # of UEFI: a file of the host, whose content goes with the guest


def for_destination(running: str, there: str) -> str:
    """The XML of a running guest as the destination shall start it.

    :param running: what the source's libvirt gives of it, in a form that can migrate
    :param there: the definition that the destination has made (xml.domain)
    :raises VirtError: a disk or a port of the guest is not in the destination's definition
    """
    root, other = etree.fromstring(running), etree.fromstring(there)
    for name in PLACEMENT:
        _replace(root, root.find(name), other.find(name))
    for name in (*BOOT_FILES, VARIABLES):
        here = root.find(f'./os/{name}')
        if here is not None:
            here.text = _wanted(other.find(f'./os/{name}'), name).text
    owner = f'./metadata/{{{xml.OWNER_NAMESPACE}}}owner'
    mine = root.find(owner)
    if mine is not None:
        mine.attrib.update(_wanted(other.find(owner), 'owner').attrib)
    _devices(root, other, 'disk', './target', 'dev', ('source', 'backingStore', 'driver'))
    _devices(root, other, 'interface', './mac', 'address', ('source', 'target', 'mtu'))
    _consoles(root, other)
    for log in root.findall('./devices/*/log'):          # the console has the same log as its serial port
        log.attrib.update(_wanted(other.find('./devices/serial/log'), 'log').attrib)
    return etree.tostring(root, encoding='unicode')


def for_later(there: str, running: str) -> str:
    """The definition that the destination has made, with the passwords of the guest's consoles."""
    root = etree.fromstring(there)
    for kind, password in _passwords(etree.fromstring(running)).items():
        element = root.find(f"./devices/graphics[@type='{kind}']")
        if element is not None:
            element.set('passwd', password)
    return etree.tostring(root, encoding='unicode')


def _passwords(root: etree.Element) -> dict[str, str]:
    return {element.get('type', ''): element.get('passwd', '')
            for element in root.findall('./devices/graphics[@passwd]')}


def _consoles(root: etree.Element, other: etree.Element) -> None:
    """The guest keeps its passwords, and listens where the destination says: on loopback where that has no such
    console. A guest does not see what its serial ports lead to."""
    passwords = _passwords(root)
    for element in root.findall('./devices/graphics'):
        kind = element.get('type', '')
        theirs = other.find(f"./devices/graphics[@type='{kind}']")
        element.attrib.clear()
        element.attrib.update(theirs.attrib if theirs is not None else {
            'type': kind, 'autoport': 'yes', 'listen': LOOPBACK})
        element.attrib.pop('passwd', None)
        if kind in passwords:
            element.set('passwd', passwords[kind])
        for listen in element.findall('listen'):
            element.remove(listen)
        etree.SubElement(element, 'listen', type='address', address=element.get('listen', LOOPBACK))
    ports = other.findall('./devices/serial')
    for tag in ('serial', 'console'):
        for mine, port in zip(root.findall(f'./devices/{tag}'), ports, strict=False):
            mine.set('type', port.get('type', ''))
            for part in ('source', 'protocol'):
                _replace(mine, mine.find(part), port.find(part))


def cpu_of(text: str) -> str | None:
    """The <cpu> of a running guest as it was chosen at its start; None: it is whatever its host has."""
    found = etree.fromstring(text).find('cpu')
    if found is None or found.find('model') is None:
        return None
    made = etree.Element('cpu', mode='custom', match='exact')
    made.extend(copy.deepcopy(child) for child in found if child.tag in ('model', 'vendor', 'feature'))
    return etree.tostring(made, encoding='unicode')


def host_cpu(capabilities: str) -> str | None:
    """The host's processor as libvirt would give it to guests, of its domain capabilities."""
    found = etree.fromstring(capabilities).find("./cpu/mode[@name='host-model'][@supported='yes']")
    if found is None:
        return None
    made = etree.Element('cpu', mode='custom', match='exact')
    made.extend(child for child in found if child.tag in ('model', 'vendor', 'feature'))
    return etree.tostring(made, encoding='unicode')


def features(cpu: str) -> list[str]:
    """Names of the features of an expanded <cpu>."""
    return sorted(element.get('name', '') for element in etree.fromstring(cpu).findall('feature')
                  if element.get('policy', 'require') in ('require', 'force'))


def _devices(root: etree.Element, other: etree.Element, tag: str, key: str, attribute: str,
             parts: tuple[str, ...]) -> None:
    known = {element.find(key).get(attribute): element                       # type: ignore[union-attr]
             for element in other.findall(f'./devices/{tag}')}
    for device in root.findall(f'./devices/{tag}'):
        name = device.find(key).get(attribute)                               # type: ignore[union-attr]
        theirs = _wanted(known.get(name), f'{tag} {name}')
        for part in parts:
            _replace(device, device.find(part), theirs.find(part))


def _replace(parent: etree.Element, old: etree.Element | None, new: etree.Element | None) -> None:
    if new is not None:
        new = copy.deepcopy(new)
        if old is not None:
            parent.insert(list(parent).index(old), new)
        else:
            parent.append(new)
    if old is not None:
        parent.remove(old)


def _wanted(element: etree.Element | None, name: str) -> etree.Element:
    if element is None:
        raise exception.VirtError(operation='migrate the guest', reason=f'the destination has not made its {name}')
    return element
