"""libvirt domain XML of a container (https://libvirt.org/drvlxc.html): pure functions."""
from xml.etree import ElementTree as etree

from nova.virt.libvirt import xml
from nova.virt.libvirt.container_root import users
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.domain.tree import add

INIT = '/sbin/init'
PERIOD = 100_000                         # microseconds: default period of the CPU quota
# {version of the control groups: (CPU weight for each vCPU, which is the default of a control group; maximum weight)}
SHARES = {1: (1024, 262_144), 2: (100, 10_000)}


def domain(guest: xml.Guest, root: str, uids: tuple[users.Range, ...], gids: tuple[users.Range, ...],
           cgroups: int) -> str:
    """Return the domain XML of a container.

    The container has a private network namespace even without a port. Its default CPU quota is one CPU per vCPU.
    :param root: directory of the container's file system on the host
    :param cgroups: version of the host's control groups
    """
    element = etree.Element('domain', type='lxc')
    add(element, 'name', guest.identity.name)
    add(element, 'uuid', guest.uuid)
    identity.metadata(element, guest.identity)
    add(element, 'memory', guest.resources.memory_mb, unit='MiB')
    add(element, 'currentMemory', guest.resources.memory_mb, unit='MiB')
    add(element, 'vcpu', guest.resources.vcpus)
    _tuning(element, guest, cgroups)
    boot = add(element, 'os')
    add(boot, 'type', 'exe')
    add(boot, 'init', INIT)
    add(boot, 'initenv', 'lxc-libvirt', name='container')
    mapped = add(element, 'idmap')
    for name, ranges in (('uid', uids), ('gid', gids)):
        for each in ranges:
            add(mapped, name, start=each.guest, target=each.host, count=each.count)
    add(add(element, 'features'), 'privnet')
    add(element, 'on_poweroff', 'destroy')
    add(element, 'on_reboot', 'restart')
    add(element, 'on_crash', 'destroy')
    devices = add(element, 'devices')
    system = add(devices, 'filesystem', type='mount', accessmode='passthrough')
    add(system, 'source', dir=root)
    add(system, 'target', dir='/')
    for interface in guest.interfaces:
        _port(devices, interface)
    add(add(devices, 'console', type='pty'), 'target', type='lxc')
    return etree.tostring(element, encoding='unicode')


def port(interface: xml.Interface) -> str:
    """Return the XML of one network device."""
    return etree.tostring(_port(etree.Element('devices'), interface), encoding='unicode')


def _tuning(root: etree.Element, guest: xml.Guest, cgroups: int) -> None:
    settings, (weight, most) = guest.hardware.settings, SHARES[cgroups]
    element = add(root, 'cputune')
    add(element, 'shares', settings.get('quota_cpu_shares') or min(weight * guest.resources.vcpus, most))
    period = int(settings.get('quota_cpu_period') or PERIOD)
    add(element, 'period', period)
    add(element, 'quota', settings.get('quota_cpu_quota') or period * guest.resources.vcpus)


def _port(devices: etree.Element, interface: xml.Interface) -> etree.Element:
    element = add(devices, 'interface', type='bridge')
    add(element, 'mac', address=interface.mac)
    add(element, 'source', bridge=interface.bridge)
    add(element, 'target', dev=interface.devname)
    if interface.mtu:
        add(element, 'mtu', size=interface.mtu)
    return element
