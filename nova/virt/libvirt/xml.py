"""Guest records, and the libvirt domain XML generated from them.

Pure functions that convert a Guest to text; modules of domain/ make the elements. The XML is built as a tree, so
user-chosen names cannot become markup. https://libvirt.org/formatdomain.html describes every element.
"""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova import utils
from nova.hardware import cpus
from nova.hardware import disks as disk_words
from nova.hardware import growth
from nova.objects import numa
from nova.objects import pci
from nova.runtime import versioned_records
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
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.domain.tree import add as _add

NAMESPACE, OWNER_NAMESPACE, owner_of = identity.NAMESPACE, identity.OWNER_NAMESPACE, identity.owner_of

# Image properties that select hardware, and their valid values.
DISK_BUSES = tuple(bus for bus in volume_disks.TARGET_PREFIXES if bus != 'fdc')
VIF_MODELS = ('virtio', 'e1000', 'e1000e', 'rtl8139', 'ne2k_pci', 'pcnet', 'vmxnet3')
MACHINE_TYPE = re.compile(r'(pc|q35|virt|(pc-i440fx|pc-q35|virt)-[0-9]+\.[0-9]+)\Z')
DEFAULT_MACHINE = machine.DEFAULT
Q35 = re.compile(r'(pc-)?q35')
PCIE = re.compile(r'(pc-)?q35|virt')    # machine types with PCI Express
PCIE_PORTS = 24            # number of PCIe ports: each device needs one, also devices hot-plugged later

CPU_MODES = {'kvm': 'host-model', 'qemu': 'maximum'}


Disk = volume_disks.Disk
Interface = ports.Interface


@dataclasses.dataclass
class Ownership:
    """Present, next and previous host that owns a guest's files (moves/shared_storage.py).

    source_directory  directory of the files on the source host of a cold migration
    """

    host: str | None = None
    successor: str | None = None
    previous_host: str | None = None
    source_directory: str | None = None


# Fields of a Guest that are objects. A record has the fields of these objects at the top level.
PARTS: dict[str, type[Any]] = {'identity': identity.Identity, 'hardware': machine.Hardware, 'boot': machine.Boot,
                               'resources': cells.Resources, 'ownership': Ownership}


@dataclasses.dataclass(slots=True)
class Guest:
    """Complete description of a domain, stored next to the disks, so that the domain can be redefined.

    console_log     file with the output of the first serial port
    rescued         disks and boot files during a rescue; None: the guest uses its own disks
    adopted         adopted files outside of the directory: features/adoption.py
    hostdevs        assigned devices of the host
    shares          shared file systems: features/shares.py
    unknown_fields  fields that another release has written to the record
    """

    uuid: str
    identity: identity.Identity
    hardware: machine.Hardware
    resources: cells.Resources
    console_log: str
    boot: machine.Boot = dataclasses.field(default_factory=machine.Boot)
    ownership: Ownership = dataclasses.field(default_factory=Ownership)
    disks: list[Disk] = dataclasses.field(default_factory=list)
    volumes: list[volume_disks.Volume] = dataclasses.field(default_factory=list)
    rescued: rescues.Rescued | None = None
    adopted: list[str] = dataclasses.field(default_factory=list)
    interfaces: list[Interface] = dataclasses.field(default_factory=list)
    hostdevs: list[pci.Device] = dataclasses.field(default_factory=list)
    shares: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    consoles: graphics.Record = dataclasses.field(default_factory=dict)
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)

    def ports(self) -> list[dict[str, str | int]]:
        """Return the ports to plug, as values of vifs.Port."""
        return [interface.port for interface in self.interfaces if interface.port]

    def devices(self) -> list[Disk | volume_disks.Volume]:
        """Return the guest's own disks and its volumes."""
        return [*self.disks, *self.volumes]

    def volume(self, volume_id: str) -> volume_disks.Volume | None:
        return next((each for each in self.volumes if each.volume_id == volume_id), None)

    def files(self) -> list[Disk]:
        """Return all disks, including those of a rescue, without duplicates."""
        found = {disk.file: disk for disk in [*self.disks, *(self.rescued.disks if self.rescued else ())]}
        return list(found.values())

    def booted(self) -> Guest:
        """Return the Guest as it boots: during a rescue with the disks and boot files of the rescue."""
        found = self.rescued
        if found is None:
            return self
        boot = machine.Boot(found.kernel, found.ramdisk, found.cmdline, self.boot.nvram)
        return dataclasses.replace(self, disks=found.disks, boot=boot, volumes=self.volumes if found.target else [])

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Guest:
        """Return a Guest with the fields of a record. Unknown fields, for example of another release, are preserved.

        :param values: the fields, with objects for disks and devices
        """
        parts = {name: utils.from_known(kind, values) for name, kind in PARTS.items()}
        own = {name: value for name, value in values.items() if name in OWN_FIELDS}
        return cls(**parts, **own, unknown_fields={
            name: value for name, value in values.items() if name not in FIELDS})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guest:
        """Return a Guest from its record."""
        return cls.of({**values, 'disks': [utils.from_known(Disk, disk) for disk in values['disks']],
                       'interfaces': [_interface(interface) for interface in values['interfaces']],
                       'hostdevs': pci.load_devices(values.get('hostdevs', ())),
                       'volumes': [utils.from_known(volume_disks.Volume, each) for each in values.get('volumes', ())],
                       'rescued': rescues.load(values.get('rescued'))})

    def to_record(self) -> dict[str, Any]:
        """Return the values of the record."""
        record = utils.to_record(self)
        for name in PARTS:
            record.update(record.pop(name))
        return record


OWN_FIELDS = versioned_records.fields_of(Guest) - PARTS.keys()
FIELDS = OWN_FIELDS.union(*map(versioned_records.fields_of, PARTS.values()))         # field names of a record


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
    guest = guest.booted()
    hardware, resources, settings = guest.hardware, guest.resources, guest.hardware.settings
    topology = cells.placed(host, resources) if resources.numa else None
    root = etree.Element('domain', type=hardware.virt_type)
    _add(root, 'name', guest.identity.name)
    _add(root, 'uuid', guest.uuid)
    identity.metadata(root, guest.identity)
    most_vcpus, most_mb = growth.maximum(settings)
    if most_mb > resources.memory_mb:
        _add(root, 'maxMemory', most_mb, unit='MiB', slots=growth.SLOTS)
    _add(root, 'memory', resources.memory_mb, unit='MiB')
    _add(root, 'currentMemory', resources.memory_mb, unit='MiB')
    cpuset = cpus.parse(resources.cpuset) if resources.cpuset and not topology else None
    root.append(placement.vcpu(resources.vcpus, cpuset, most_vcpus))
    if topology and host:
        root.extend(placement.elements(host, topology))
    machine.tuning(root, hardware)
    machine.memory(root, hardware)
    memory.backing(root, resources.memory_source)
    if guest.shares or any(port['kind'] == 'vhostuser' for port in guest.ports()):
        memory.share(root)
    identity.sysinfo(root, guest.uuid)
    machine.boot(root, hardware, guest.boot, any(disk.device == disk_words.CDROM for disk in guest.disks))
    machine.features(root, hardware)
    if hardware.arch:
        processor = processors.Processor()               # the options are for processors of the host's architecture
    mode = processor.mode or CPU_MODES[hardware.virt_type]
    vcpus = max(resources.vcpus, most_vcpus)
    root.append(placement.cpu(resources.processor or {'sockets': vcpus, 'cores': 1, 'threads': 1}, topology,
                              None if mode == 'none' else mode))
    if most_mb > resources.memory_mb:
        placement.one_node(root[-1], vcpus, resources.memory_mb)
    processors.add(root[-1], processor)
    machine.processor(root[-1], hardware)
    machine.clock(root, hardware)
    _add(root, 'on_poweroff', 'destroy')
    _add(root, 'on_reboot', 'restart')
    _add(root, 'on_crash', 'destroy')
    devices = _add(root, 'devices')
    _devices(devices, guest)
    machine.launch_security(root, hardware)
    volume_disks.arrange(root, guest.volumes, guest.disks)
    disks.controller(devices, settings, resources.vcpus)
    small.complete_virtio(devices, settings)
    rescues.order(root, guest.rescued)
    return etree.tostring(root, encoding='unicode')


def interface(port: Interface, guest: Guest) -> str:
    """Return the XML of one network device (an Interface) of a Guest."""
    return _alone(ports.port(
        etree.Element('devices'), port, guest.hardware.settings, guest.resources.vcpus), guest)


def volume(disk: volume_disks.Volume, guest: Guest) -> str:
    """Return the XML of one volume of a Guest."""
    return _alone(volume_disks.element(disk), guest)


def local_disk(disk: Disk, guest: Guest) -> str:
    """Return the XML of one local disk of a Guest."""
    devices = etree.Element('devices')
    disks.local(devices, disk, guest.hardware.settings)
    return _alone(devices[0], guest)


def _alone(device: etree.Element, guest: Guest) -> str:
    small.complete_virtio([device], guest.hardware.settings)
    return etree.tostring(device, encoding='unicode')


def _devices(devices: etree.Element, guest: Guest) -> None:
    hardware = guest.hardware
    for disk in guest.disks:
        disks.local(devices, disk, hardware.settings)
    if PCIE.match(hardware.machine):
        _add(devices, 'controller', type='pci', index=0, model='pcie-root')
        for index in range(1, PCIE_PORTS + 1):
            _add(devices, 'controller', type='pci', index=index, model='pcie-root-port')
    for interface in guest.interfaces:
        ports.port(devices, interface, hardware.settings, guest.resources.vcpus)
    devices.extend(mediated.hostdev(guest.uuid, device) if device.dev_type == pci.MEDIATED else
                   placement.hostdev(device) for device in guest.hostdevs
                   if not (device.request_id and device.dev_type == pci.VIRTUAL))       # a port's VF is an <interface>
    small.filesystems(devices, guest.shares)
    graphics.add(devices, guest.consoles, guest.console_log)
    if hardware.agent:
        if small.virtio_attributes(hardware.settings):     # libvirt would add a controller without attributes
            _add(devices, 'controller', type='virtio-serial', index=0)
        channel = _add(devices, 'channel', type='unix')
        _add(channel, 'target', type='virtio', name='org.qemu.guest_agent.0')
    machine.iommu(devices, hardware)
    for add in small.ALL:
        add(devices, hardware)
