"""Replace host-specific parts of a running guest's XML with parts of the destination's XML: pure functions.

libvirt requires the same guest-visible machine on both sides. So the source sends the XML of the running guest and
replaces only resources of the host: files, bridges, taps, CPUs and NUMA nodes. The I/O threads remain those of the
running guest, because the number of threads cannot change.
"""
import copy
from xml.etree import ElementTree as etree

from nova import exception
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import volume_disks

# Elements below <domain> that name CPUs and NUMA nodes of the host.
PLACEMENT = ('vcpu', 'cputune', 'numatune')
BOOT_FILES = ('kernel', 'initrd')
LOOPBACK = '127.0.0.1'
VARIABLES = 'nvram'                      # file of the host with UEFI variables; its content migrates with the guest


def for_destination(running: str, there: str) -> str:
    """Return the XML with which the destination starts a running guest.

    :param running: the source libvirt's migratable XML
    :param there: the destination's definition (xml.domain)
    :raises VirtError: a disk or a port of the guest is not in the destination's definition
    """
    root, other, threads = etree.fromstring(running), etree.fromstring(there), volume_disks.threads(running)
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
    _set_threads(root, threads)
    _devices(root, other, 'interface', './mac', 'address', ('source', 'target', 'mtu'))
    _consoles(root, other)
    for log in root.findall('./devices/*/log'):          # the <console> and <serial> of a port both contain the <log>
        log.attrib.update(_wanted(other.find('./devices/serial/log'), 'log').attrib)
    return etree.tostring(root, encoding='unicode')


def for_later(there: str, running: str) -> str:
    """Return the definition that the destination stores: ``there``, with console passwords and I/O threads from
    ``running``.
    """
    root, other = etree.fromstring(there), etree.fromstring(running)
    _replace(root, root.find('iothreads'), other.find('iothreads'))
    _set_threads(root, volume_disks.threads(running))
    for kind, password in _passwords(other).items():
        element = root.find(f"./devices/graphics[@type='{kind}']")
        if element is not None:
            element.set('passwd', password)
    return etree.tostring(root, encoding='unicode')


def _passwords(root: etree.Element) -> dict[str, str]:
    return {element.get('type', ''): element.get('passwd', '')
            for element in root.findall('./devices/graphics[@passwd]')}


def _set_threads(root: etree.Element, threads: dict[str, int]) -> None:
    """Set the I/O threads of all disks.

    :param threads: result of ``volume_disks.threads``
    """
    for target, driver in volume_disks.drivers(root):
        driver.attrib.pop('iothread', None)
        if target in threads:
            driver.set('iothread', str(threads[target]))


def _consoles(root: etree.Element, other: etree.Element) -> None:
    """Replace consoles by those of the destination (loopback if one is missing there), but keep their passwords.

    Backends of serial ports are replaced too, because a guest does not see them.
    """
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
    """Return the <cpu> that libvirt chose at the start of a guest, or None if it has no model (host-passthrough)."""
    found = etree.fromstring(text).find('cpu')
    if found is None or found.find('model') is None:
        return None
    return _custom_cpu(found)


def host_cpu(capabilities: str) -> str | None:
    """Return the guest-visible host processor from libvirt's domain capabilities."""
    found = etree.fromstring(capabilities).find("./cpu/mode[@name='host-model'][@supported='yes']")
    return None if found is None else _custom_cpu(found)


def _custom_cpu(found: etree.Element) -> str:
    made = etree.Element('cpu', mode='custom', match='exact')
    made.extend(child for child in found if child.tag in ('model', 'vendor', 'feature'))
    return etree.tostring(made, encoding='unicode')


def features(cpu: str) -> list[str]:
    """Return the feature names of an expanded <cpu>."""
    return sorted(element.get('name', '') for element in etree.fromstring(cpu).findall('feature')
                  if element.get('policy', 'require') in ('require', 'force'))


def _devices(root: etree.Element, other: etree.Element, tag: str, key: str, attribute: str,
             parts: tuple[str, ...]) -> None:
    known = {element.find(key).get(attribute): element                       # type: ignore[union-attr]
             for element in other.findall(f'./devices/{tag}')}
    for device in root.findall(f'./devices/{tag}'):
        name = device.find(key).get(attribute)                               # type: ignore[union-attr]
        theirs = _wanted(known.get(name), f'{tag} {name}')
        device.set('type', theirs.get('type', ''))       # a tap or a block device of the host, for example
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
        raise exception.VirtError(operation='migrate the guest', reason=f'the destination has not prepared its {name}')
    return element
