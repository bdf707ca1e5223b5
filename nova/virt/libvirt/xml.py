"""A guest as data, and the libvirt domain XML made from it.

Pure functions: a Guest in, text out. The XML is built as a tree, so that no name that a user chose can become
markup. https://libvirt.org/formatdomain.html describes every element.
"""
import dataclasses
import re
from xml.etree import ElementTree as etree

from nova.hardware import cpus
from nova.objects import pci
from nova.virt.libvirt import cells
from nova.virt.libvirt import placement

# Monitoring agents that know servers of the compute API read the first; ours alone is the second: it says whose
# guest it is when several deployments share one hypervisor.
NAMESPACE = 'http://openstack.org/xmlns/libvirt/nova/1.1'
OWNER_NAMESPACE = 'urn:nova:libvirt:owner:1'
etree.register_namespace('nova', NAMESPACE)
etree.register_namespace('owner', OWNER_NAMESPACE)

# Image properties that choose hardware, and what they may say.
DISK_BUSES = {'virtio': 'vd', 'scsi': 'sd', 'sata': 'sd', 'usb': 'sd', 'ide': 'hd'}     # bus: device name prefix
VIF_MODELS = ('virtio', 'e1000', 'e1000e', 'rtl8139', 'ne2k_pci', 'pcnet', 'vmxnet3')
MACHINE_TYPE = re.compile(r'(pc|q35|pc-(i440fx|q35)-[0-9]+\.[0-9]+)\Z')
DEFAULT_MACHINE = 'pc'
Q35 = re.compile(r'(pc-)?q35')
IDE_DISKS = 4
PCIE_PORTS = 24            # on q35 each device takes one, and only what is there from the start takes later ones

CPU_MODES = {'kvm': 'host-model', 'qemu': 'maximum'}
_NOT_XML = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


@dataclasses.dataclass
class Disk:
    """One file of the guest. ``format`` is what we made it as, never what its bytes look like."""

    file: str
    format: str
    target: str
    bus: str = 'virtio'
    readonly: bool = False
    cache: str = 'writeback'
    backing_file: str | None = None
    backing_format: str | None = None


@dataclasses.dataclass
class Interface:
    mac: str
    bridge: str
    devname: str
    model: str = 'virtio'
    mtu: int | None = None


@dataclasses.dataclass
class Guest:
    """Everything that the domain is made of; kept next to the disks, so that it can be defined again.

    memory_mb   MiB
    owner       directory of the deployment's guests: whose guest it is
    facts       {'name', 'flavor', 'project_id', 'user_id', 'image_id'} for the metadata element
    hostdevs    [objects.pci.Device] of the host that it is given
    processor   {'sockets', 'cores', 'threads'} that it sees (hardware.cpu_topology); None: one core a socket
    numa        its GuestTopology on the host, as text; None: it has none
    cell, cpuset   of a guest without a topology: the NUMA node that it is kept in, and the CPUs as text (cells.py)
    """

    uuid: str
    name: str
    owner: str
    virt_type: str
    vcpus: int
    memory_mb: int
    console_log: str
    disks: list = dataclasses.field(default_factory=list)
    interfaces: list = dataclasses.field(default_factory=list)
    vif_model: str = 'virtio'
    machine: str = DEFAULT_MACHINE
    kernel: str | None = None
    ramdisk: str | None = None
    cmdline: str | None = None
    agent: bool = False
    facts: dict = dataclasses.field(default_factory=dict)
    hostdevs: list = dataclasses.field(default_factory=list)
    processor: dict | None = None
    numa: str | None = None
    cell: int | None = None
    cpuset: str | None = None

    @classmethod
    def from_dict(cls, values):
        values = dict(values, disks=[Disk(**disk) for disk in values['disks']],
                      interfaces=[Interface(**interface) for interface in values['interfaces']],
                      hostdevs=pci.load_devices(values.get('hostdevs', ())))
        return cls(**values)


def domain(guest, host=None, cpu_mode=None):
    """The domain XML of a Guest.

    :param host: HostTopology, needed for a guest with a topology
    :param cpu_mode: of [libvirt]; None: the best for its kind of machine
    :raises VirtError: the host is another one than that which it was placed on
    """
    topology = cells.placed(host, guest) if guest.numa else None
    root = etree.Element('domain', type=guest.virt_type)
    _add(root, 'name', guest.name)
    _add(root, 'uuid', guest.uuid)
    _metadata(root, guest)
    _add(root, 'memory', guest.memory_mb, unit='MiB')
    _add(root, 'currentMemory', guest.memory_mb, unit='MiB')
    root.append(placement.vcpu(guest.vcpus, None if topology else cpus.parse(guest.cpuset) if guest.cpuset else None))
    if topology:
        root.extend(placement.elements(host, topology))
    _sysinfo(root, guest)
    _boot(root, guest)
    features = _add(root, 'features')
    _add(features, 'acpi')
    _add(features, 'apic')
    mode = CPU_MODES[guest.virt_type] if cpu_mode is None else cpu_mode
    processor = guest.processor or {'sockets': guest.vcpus, 'cores': 1, 'threads': 1}
    root.append(placement.cpu(processor, topology, None if mode == 'none' else mode))
    _clock(root, guest)
    _add(root, 'on_poweroff', 'destroy')
    _add(root, 'on_reboot', 'restart')
    _add(root, 'on_crash', 'destroy')
    _devices(_add(root, 'devices'), guest)
    return etree.tostring(root, encoding='unicode')


def interface(port):
    """The XML of one network device (an Interface)."""
    return etree.tostring(_interface(etree.Element('devices'), port), encoding='unicode')


def backup(disk, others, target):
    """The XML that asks for a full copy of one disk of a running guest as a qcow2 file
    (https://libvirt.org/formatbackup.html)."""
    root = etree.Element('domainbackup', mode='push')
    disks = _add(root, 'disks')
    element = _add(disks, 'disk', name=disk.target, backup='yes', type='file')
    _add(element, 'driver', type='qcow2')
    _add(element, 'target', file=target)
    for other in others:
        _add(disks, 'disk', name=other.target, backup='no')
    return etree.tostring(root, encoding='unicode')


def owner_of(metadata):
    """The owner named in a guest's owner element, as libvirt gives it back."""
    return etree.fromstring(metadata).get('directory')


def _add(parent, tag, text=None, **attributes):
    element = etree.SubElement(parent, tag, {name: _clean(value) for name, value in attributes.items()})
    if text is not None:
        element.text = _clean(text)
    return element


def _clean(value):
    """Text without the characters that XML cannot represent."""
    return _NOT_XML.sub('', str(value))


def _metadata(root, guest):
    metadata = _add(root, 'metadata')
    instance = _add(metadata, f'{{{NAMESPACE}}}instance')
    facts = guest.facts
    _add(instance, f'{{{NAMESPACE}}}name', facts.get('name', ''))
    _add(instance, f'{{{NAMESPACE}}}flavor', name=facts.get('flavor', ''))
    owner = _add(instance, f'{{{NAMESPACE}}}owner')
    _add(owner, f'{{{NAMESPACE}}}user', uuid=facts.get('user_id', ''))
    _add(owner, f'{{{NAMESPACE}}}project', uuid=facts.get('project_id', ''))
    if facts.get('image_id'):
        _add(instance, f'{{{NAMESPACE}}}root', type='image', uuid=facts['image_id'])
    _add(metadata, f'{{{OWNER_NAMESPACE}}}owner', directory=guest.owner)


def _sysinfo(root, guest):
    """cloud-init recognises the cloud by the product's name
    (https://cloudinit.readthedocs.io/en/latest/reference/datasources/openstack.html)."""
    system = _add(_add(root, 'sysinfo', type='smbios'), 'system')
    for name, value in (('manufacturer', 'OpenStack Foundation'), ('product', 'OpenStack Nova'),
                        ('serial', guest.uuid), ('uuid', guest.uuid), ('family', 'Virtual Machine')):
        _add(system, 'entry', value, name=name)


def _boot(root, guest):
    os_ = _add(root, 'os')
    _add(os_, 'type', 'hvm', machine=guest.machine)
    if guest.kernel:
        _add(os_, 'kernel', guest.kernel)
        if guest.ramdisk:
            _add(os_, 'initrd', guest.ramdisk)
        _add(os_, 'cmdline', guest.cmdline)
    else:
        _add(os_, 'boot', dev='hd')
    _add(os_, 'smbios', mode='sysinfo')


def _clock(root, guest):
    clock = _add(root, 'clock', offset='utc')
    if guest.virt_type == 'kvm':
        _add(clock, 'timer', name='pit', tickpolicy='delay')
        _add(clock, 'timer', name='rtc', tickpolicy='catchup')
        _add(clock, 'timer', name='hpet', present='no')


def _devices(devices, guest):
    for disk in guest.disks:
        _disk(devices, disk)
    if any(disk.bus == 'scsi' for disk in guest.disks):
        _add(devices, 'controller', type='scsi', index=0, model='virtio-scsi')
    if Q35.match(guest.machine):
        _add(devices, 'controller', type='pci', index=0, model='pcie-root')
        for index in range(1, PCIE_PORTS + 1):
            _add(devices, 'controller', type='pci', index=index, model='pcie-root-port')
    for interface in guest.interfaces:
        _interface(devices, interface)
    devices.extend(placement.hostdev(device) for device in guest.hostdevs)
    serial = _add(devices, 'serial', type='pty')
    _add(serial, 'log', file=guest.console_log, append='on')
    _add(serial, 'target', port=0)
    if guest.agent:
        channel = _add(devices, 'channel', type='unix')
        _add(channel, 'target', type='virtio', name='org.qemu.guest_agent.0')
    _add(_add(devices, 'rng', model='virtio'), 'backend', '/dev/urandom', model='random')
    _add(devices, 'memballoon', model='virtio')


def _disk(devices, disk):
    element = _add(devices, 'disk', type='file', device='disk')
    _add(element, 'driver', name='qemu', type=disk.format, cache=disk.cache, discard='unmap')
    _add(element, 'source', file=disk.file)
    # The chain is named to its end: libvirt must not look into the files for more of it.
    backing = _add(element, 'backingStore')
    if disk.backing_file:
        backing.set('type', 'file')
        _add(backing, 'format', type=disk.backing_format)
        source = _add(backing, 'source', file=disk.backing_file)
        # Else libvirt makes the image that many guests share the property of QEMU's user, who could then write it.
        _add(source, 'seclabel', model='dac', relabel='no')
        _add(backing, 'backingStore')
    _add(element, 'target', dev=disk.target, bus=disk.bus)
    if disk.readonly:
        _add(element, 'readonly')


def _interface(devices, interface):
    element = _add(devices, 'interface', type='bridge')
    _add(element, 'mac', address=interface.mac)
    _add(element, 'source', bridge=interface.bridge)
    _add(element, 'target', dev=interface.devname)
    _add(element, 'model', type=interface.model)
    if interface.mtu:
        _add(element, 'mtu', size=interface.mtu)
    return element
