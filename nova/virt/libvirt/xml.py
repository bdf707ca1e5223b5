"""Guest records, and the libvirt domain XML generated from them.

Pure functions: a Guest in, text out. Each group of devices is a module of domain/. The XML is built as a tree, so
user-chosen names cannot become markup. https://libvirt.org/formatdomain.html describes every element.
"""
from __future__ import annotations

import dataclasses
import re
from typing import Any
from xml.etree import ElementTree as etree

from nova import utils
from nova.hardware import cpus
from nova.hardware import disks as disk_words
from nova.hardware import growth
from nova.objects import numa
from nova.objects import pci
from nova.virt.libvirt import graphics
from nova.virt.libvirt import vifs
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import devices as small
from nova.virt.libvirt.domain import disks
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.domain import machine
from nova.virt.libvirt.domain import mediated
from nova.virt.libvirt.domain import memory
from nova.virt.libvirt.domain import placement
from nova.virt.libvirt.domain import ports
from nova.virt.libvirt.domain import processors
from nova.virt.libvirt.domain import rescued as rescues
from nova.virt.libvirt.domain import shares
from nova.virt.libvirt.domain import targets
from nova.virt.libvirt.domain import virtio
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.domain.tree import add as _add

NAMESPACE, OWNER_NAMESPACE, owner_of = identity.NAMESPACE, identity.OWNER_NAMESPACE, identity.owner_of

# Image properties that select hardware, and their valid values.
DISK_BUSES = tuple(bus for bus in targets.PREFIXES if bus != 'fdc')
VIF_MODELS = ('virtio', 'e1000', 'e1000e', 'rtl8139', 'ne2k_pci', 'pcnet', 'vmxnet3')
MACHINE_TYPE = re.compile(r'(pc|q35|virt|(pc-i440fx|pc-q35|virt)-[0-9]+\.[0-9]+)\Z')
DEFAULT_MACHINE = 'pc'
MACHINES = {'aarch64': 'virt'}          # of processors other than x86
Q35 = re.compile(r'(pc-)?q35')
IDE_DISKS = 4
PCIE_PORTS = 24            # on q35 each device takes a port; hot-plug needs ports from the start

CPU_MODES = {'kvm': 'host-model', 'qemu': 'maximum'}


@dataclasses.dataclass
class Disk:
    """Disk of a guest. ``format`` is the format it was created with and never detected from its content.

    ``source``: QEMU's source as of a volume_disks.Volume if the disk is no file; ``file`` is always its name.
    ``secret``: id of the libvirt secret for LUKS; None: not encrypted. ``device``: 'disk' or 'cdrom'.
    """

    file: str
    format: str
    target: str
    bus: str = 'virtio'
    readonly: bool = False
    cache: str = 'writeback'
    backing_file: str | None = None
    backing_format: str | None = None
    source: dict[str, Any] | None = None
    secret: str | None = None
    device: str = 'disk'
    detect_zeroes: str = 'off'
    iothread: int | None = None
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)

    @property
    def keeps_size(self) -> bool:
        return self.readonly or self.device == disk_words.CDROM


@dataclasses.dataclass
class Interface:
    """Network device of a guest.

    bridge   in which libvirt creates the tap; '' for types of vifs.py that need none
    port     values of the plugged vifs.Port; None if nothing is plugged
    device   the host's virtual function: the result of vifs.device and, for a macvtap, its ``name``
    """

    mac: str
    bridge: str
    devname: str
    model: str = 'virtio'
    mtu: int | None = None
    port: dict[str, Any] | None = None
    device: dict[str, Any] | None = None
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)


@dataclasses.dataclass
class Guest:
    """Complete description of a domain, stored next to the disks, so that the domain can be redefined.

    memory_mb   MiB
    owner       directory of the deployment's guests, which identifies the owner
    facts       {'name', 'flavor', 'project_id', 'user_id', 'image_id'} for the metadata element
    hostdevs    [objects.pci.Device], assigned devices of the host
    processor   visible {'sockets', 'cores', 'threads'} (hardware.cpu_topology); None: one core a socket
    numa        serialized GuestTopology on the host; None: it has none
    settings    machine settings of its flavor and image (hardware.guest_options.settings)
    nvram       file of its UEFI variables
    arch        libvirt's name of its architecture; None: that of the host
    cell, cpuset   for a guest without a topology: its NUMA node, and its CPUs as text (cells.py)
    consoles    its consoles (graphics.py)
    rescued     disks and boot files while it is rescued; None: its own disks
    host, successor, taken_from   its owner, next owner and previous owner: moves/shared_storage.py
    moved_from     source host of a cold migration
    adopted        files of its adopted disks outside the directory: features/adoption.py
    shares         its shared file systems: features/shares.py
    memory_source  memory backing since its start (domain/memory.py)
    unknown_fields     fields that another release has in the record
    """

    uuid: str
    name: str
    owner: str
    virt_type: str
    vcpus: int
    memory_mb: int
    console_log: str
    disks: list[Any] = dataclasses.field(default_factory=list)
    interfaces: list[Any] = dataclasses.field(default_factory=list)
    vif_model: str = 'virtio'
    machine: str = DEFAULT_MACHINE
    kernel: str | None = None
    ramdisk: str | None = None
    cmdline: str | None = None
    agent: bool = False
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    hostdevs: list[Any] = dataclasses.field(default_factory=list)
    processor: dict[str, Any] | None = None
    numa: str | None = None
    cell: int | None = None
    cpuset: str | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    nvram: str | None = None
    arch: str | None = None
    consoles: dict[str, Any] = dataclasses.field(default_factory=dict)
    volumes: list[Any] = dataclasses.field(default_factory=list)
    rescued: rescues.Rescued | None = None
    host: str | None = None
    successor: str | None = None
    taken_from: str | None = None
    moved_from: str | None = None
    adopted: list[Any] = dataclasses.field(default_factory=list)
    shares: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    memory_source: str = memory.ANONYMOUS
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)

    @property
    def serial_ports(self) -> int:
        """Return the number of serial ports; 0 if another host's value is no number."""
        count = self.settings.get('serial_port_count', '1')
        return int(count) if count.isascii() and count.isdecimal() else 0

    def ports(self) -> list[dict[str, Any]]:
        """Return the values of vifs.Port of the interfaces with a plugged port."""
        return [interface.port for interface in self.interfaces if interface.port]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guest:
        """Return a Guest from its record. Unknown fields, for example of another release, are preserved."""
        values = dict(values, disks=[utils.from_known(Disk, disk) for disk in values['disks']],
                      interfaces=[_interface(interface) for interface in values['interfaces']],
                      hostdevs=pci.load_devices(values.get('hostdevs', ())),
                      volumes=[utils.from_known(volume_disks.Volume, volume) for volume in values.get('volumes', ())],
                      rescued=rescues.load(values.get('rescued'), Disk))
        return utils.from_known(cls, values)


def _interface(values: dict[str, Any]) -> Interface:
    found = utils.from_known(Interface, values)
    if found.port:
        found.port = dataclasses.asdict(utils.from_known(vifs.Port, found.port))
    return found


def domain(guest: Guest, host: numa.HostTopology | None = None,
           processor: processors.Processor = processors.Processor()) -> str:
    """Return the domain XML of a Guest.

    :param host: HostTopology, needed for a guest with a topology
    :param processor: the processors.Processor visible to the guest
    :raises VirtError: the guest's placement is for another host
    """
    guest = rescues.booted(guest)
    topology = cells.placed(host, guest) if guest.numa else None
    root = etree.Element('domain', type=guest.virt_type)
    _add(root, 'name', guest.name)
    _add(root, 'uuid', guest.uuid)
    identity.metadata(root, guest)
    most_vcpus, most_mb = growth.maximum(guest.settings)
    if most_mb > guest.memory_mb:
        _add(root, 'maxMemory', most_mb, unit='MiB', slots=growth.SLOTS)
    _add(root, 'memory', guest.memory_mb, unit='MiB')
    _add(root, 'currentMemory', guest.memory_mb, unit='MiB')
    root.append(placement.vcpu(guest.vcpus, None if topology else cpus.parse(guest.cpuset) if guest.cpuset else None,
                               most_vcpus))
    if topology and host:
        root.extend(placement.elements(host, topology))
    machine.tuning(root, guest)
    machine.memory(root, guest)
    memory.backing(root, guest)
    if guest.shares or any(port['kind'] == 'vhostuser' for port in guest.ports()):
        memory.share(root)
    identity.sysinfo(root, guest)
    machine.boot(root, guest)
    machine.features(root, guest)
    mode = processor.mode or CPU_MODES[guest.virt_type]
    vcpus = max(guest.vcpus, most_vcpus)
    root.append(placement.cpu(guest.processor or {'sockets': vcpus, 'cores': 1, 'threads': 1}, topology,
                              None if mode == 'none' else mode))
    if most_mb > guest.memory_mb:
        placement.one_node(root[-1], vcpus, guest.memory_mb)
    processors.add(root[-1], processor)
    machine.processor(root[-1], guest)
    machine.clock(root, guest)
    _add(root, 'on_poweroff', 'destroy')
    _add(root, 'on_reboot', 'restart')
    _add(root, 'on_crash', 'destroy')
    devices = _add(root, 'devices')
    _devices(devices, guest)
    machine.launch_security(root, guest)
    volume_disks.arrange(root, guest.volumes, guest.disks)
    disks.controller(devices, guest)
    virtio.complete(devices, guest)
    rescues.order(root, guest)
    return etree.tostring(root, encoding='unicode')


def interface(port: Interface, guest: Guest) -> str:
    """Return the XML of one network device (an Interface) of a Guest."""
    return _alone(ports.port(etree.Element('devices'), port, guest), guest)


def volume(disk: volume_disks.Volume, guest: Guest) -> str:
    """Return the XML of one volume of a Guest."""
    return _alone(volume_disks.element(disk), guest)


def local_disk(disk: Disk, guest: Guest) -> str:
    """Return the XML of one local disk of a Guest."""
    devices = etree.Element('devices')
    disks.local(devices, disk, guest)
    return _alone(devices[0], guest)


def _alone(device: etree.Element, guest: Guest) -> str:
    virtio.complete([device], guest)
    return etree.tostring(device, encoding='unicode')


def backup(disk: Disk, others: list[Disk], target: str) -> str:
    """Return the XML of a backup job: a full copy of one disk of a running guest as a qcow2 file.

    https://libvirt.org/formatbackup.html
    """
    root = etree.Element('domainbackup', mode='push')
    copied = _add(root, 'disks')
    element = _add(copied, 'disk', name=disk.target, backup='yes', type='file')
    _add(element, 'driver', type='qcow2')
    _add(element, 'target', file=target)
    for other in others:
        _add(copied, 'disk', name=other.target, backup='no')
    return etree.tostring(root, encoding='unicode')


def _devices(devices: etree.Element, guest: Guest) -> None:
    disks.disks(devices, guest)
    if Q35.match(guest.machine):
        _add(devices, 'controller', type='pci', index=0, model='pcie-root')
        for index in range(1, PCIE_PORTS + 1):
            _add(devices, 'controller', type='pci', index=index, model='pcie-root-port')
    for interface in guest.interfaces:
        ports.port(devices, interface, guest)
    devices.extend(mediated.hostdev(guest.uuid, device) if device.dev_type == pci.MEDIATED else
                   placement.hostdev(device) for device in guest.hostdevs
                   if not (device.request_id and device.dev_type == pci.VIRTUAL))       # belongs to a port
    shares.filesystems(devices, guest)
    graphics.add(devices, guest)
    if guest.agent:
        if virtio.attributes(guest):     # otherwise libvirt adds the controller
            _add(devices, 'controller', type='virtio-serial', index=0)
        channel = _add(devices, 'channel', type='unix')
        _add(channel, 'target', type='virtio', name='org.qemu.guest_agent.0')
    machine.iommu(devices, guest)
    for add in small.ALL:
        add(devices, guest)
