"""Convert objects of the compute service to values for libvirt, and reverse: pure functions."""
import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypedDict
from xml.etree import ElementTree as etree

from nova import exception
from nova.hardware import architectures
from nova.hardware import cpu_topology
from nova.hardware import disks as disk_words
from nova.hardware import guest_options
from nova.objects import numa
from nova.objects.image import Image
from nova.objects.instance import Instance
from nova.runtime import versioned_records
from nova.virt import driver
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.domain import machine as machine_parts
from nova.virt.libvirt.domain import ports
from nova.virt.libvirt.local_disks.storage import Storage

DEFAULT_CMDLINE = 'root=/dev/{root} console={console}'
NVRAM = 'disk.nvram'                     # UEFI variables, next to the disks
MACHINE = 'machine.json'                 # hardware of a guest, stored while a rebuild replaces the record
MachineRecord = TypedDict('MachineRecord', {'arch': str | None, 'settings': dict[str, str]})
MACHINE_FORMAT = versioned_records.RecordFormat[MachineRecord](
    name='record of a machine', fields=frozenset(MachineRecord.__annotations__),
    required=frozenset(MachineRecord.__annotations__))
MEMORY_MINIMUM = 16                      # MiB: QEMU's minimum


def guest(instance: Instance, request: driver.SpawnRequest, virt_type: str, storage: Storage, disks: list[xml.Disk],
          boot_files: dict[str, str], traits: Collection[str] = frozenset(),
          volumes: Callable[[str], list[Any]] | None = None) -> xml.Guest:
    """Return the Guest of an instance.

    :param boot_files: {'kernel': path, 'ramdisk': path}, empty if the root disk is bootable
    :param traits: available guest options (domain/offered.py)
    :param volumes: function(machine type) that returns the guest's volumes; None if the guest has no volumes
    :raises ImageUnacceptable: the image requests unknown hardware
    """
    image_id, properties = _described(instance, request.image)
    vif_model = _known(image_id, properties, 'hw_vif_model', 'virtio', xml.VIF_MODELS.__contains__)
    arch, settings = architectures.emulated(instance.image_properties), _settings(instance, traits)
    machine = machine_of(instance, request.image, traits)
    missing = next((disk.bus for disk in disks if not disk_words.has_bus(machine, disk.bus)), None)
    if missing:
        raise exception.ImageUnacceptable(image_id=image_id, reason=f'a {machine} machine has no {missing} disks')
    flavor, topology = instance.flavor or {}, instance.numa_topology
    made = xml.Guest(
        instance.uuid, identity_of(instance, storage.directory, image_id),
        machine_parts.Hardware(virt_type, machine, arch, vif_model,
                               settings.get('qemu_guest_agent') == guest_options.TRUE, settings),
        cells.Resources(
            instance.vcpus, instance.memory_mb if topology else max(instance.memory_mb, MEMORY_MINIMUM),
            cpu_topology.choose(instance.vcpus, flavor.get('extra_specs'), instance.image_properties,
                                numa.load_guest(topology) if topology else None), topology),
        storage.path(instance.uuid, 'console.log'), machine_parts.Boot(nvram=storage.path(instance.uuid, NVRAM)),
        disks=disks, hostdevs=instance.devices())
    made.interfaces = interfaces(request.network_info, made)
    made.volumes = volumes(machine) if volumes else []
    if 'kernel' in boot_files:
        made.boot.kernel, made.boot.ramdisk = boot_files['kernel'], boot_files.get('ramdisk')
        made.boot.cmdline = properties.get('os_command_line') or cmdline(disks[0].target, arch)
    return made


def machine_of(instance: Instance, image: Image | None, traits: Collection[str] = frozenset()) -> str:
    """Return the machine type of an instance's guest on a host with these traits.

    :param image: image of the root disk, or None if the server boots from a volume
    :raises ImageUnacceptable: the machine type is unknown
    """
    image_id, properties = _described(instance, image)
    usual = guest_options.machine(_settings(instance, traits), xml.DEFAULT_MACHINE,
                                  architectures.emulated(instance.image_properties))
    return _known(image_id, properties, 'hw_machine_type', usual, xml.MACHINE_TYPE.match)


def _described(instance: Instance, image: Image | None) -> tuple[str, Mapping[str, str]]:
    """Return (id, properties) of an image; without an image ('', the properties of the root volume)."""
    return (image['id'], image.get('properties') or {}) if image else ('', instance.image_properties or {})


def identity_of(instance: Instance, directory: str, image_id: str) -> identity.Identity:
    """Return the identity of an instance's guest; ``directory`` is the directory of all guests."""
    return identity.Identity(instance.name, directory, {
        'name': instance.display_name, 'flavor': (instance.flavor or {}).get('name', ''),
        'project_id': instance.project_id, 'user_id': instance.user_id, 'image_id': image_id})


def cmdline(root: str, arch: str | None) -> str:
    """Return the default kernel command line of an image.

    :param root: name of the root disk
    :param arch: a non-PC architecture; None: a PC
    """
    return DEFAULT_CMDLINE.format(root=root, console='ttyAMA0' if arch else 'ttyS0')


def machine_files(kept: bool) -> tuple[str, ...]:
    """Return the names of the files that a rebuild keeps with the machine; empty if ``kept`` is False."""
    return (NVRAM, MACHINE) if kept else ()


def has_same_machine(machine: MachineRecord, instance: Instance, traits: Collection[str]) -> bool:
    """Return whether an instance, possibly with a new image, can reuse the firmware variables and TPM of its guest."""
    settings = _settings(instance, traits)
    return machine['arch'] == architectures.emulated(instance.image_properties) and all(
        settings.get(name) == machine['settings'].get(name) for name in ('firmware_type', 'secure_boot', 'tpm_version'))


def _settings(instance: Instance, traits: Collection[str]) -> dict[str, str]:
    """Return the settings of an instance's guest on a host with these traits."""
    settings, arch = guest_options.settings_of(instance), architectures.emulated(instance.image_properties)
    _decide_secure_boot(settings, traits, arch)
    if arch:
        settings.setdefault('firmware_type', 'uefi')         # default firmware of architectures other than x86
    return settings


def _decide_secure_boot(settings: dict[str, str], traits: Collection[str], arch: str | None) -> None:
    """Replace secure_boot ``optional`` by ``required`` if host and machine support it, else by ``disabled``."""
    if settings.get('secure_boot') == 'optional':
        able = settings.get('firmware_type') == 'uefi' and 'COMPUTE_SECURITY_UEFI_SECURE_BOOT' in traits
        modern = arch is None and xml.Q35.match(settings.get('machine_type') or 'q35')
        fits = disk_words.has_bus('q35', settings.get('disk_bus', ''))
        settings['secure_boot'] = 'required' if able and modern and fits else 'disabled'


def interfaces(network_info: driver.NetworkInfo, guest: xml.Guest) -> list[xml.Interface]:
    """Return an Interface of a Guest for each VIF (nova/objects/network_info.py).

    :raises VirtError: this driver does not support the type of a VIF
    """
    made, queues = [], ports.queues(guest.hardware.settings, guest.resources.vcpus)
    for vif in network_info or ():
        network, port, device = vif['network'], vifs.port(vif, queues > 1), vifs.device(vif)
        if device and device['macvtap']:
            device['name'] = vifs.interface_of(device['address'])
        made.append(xml.Interface(
            mac=vif['address'], bridge=network['bridge'] if vif['type'] == 'bridge' else '', devname=vif['devname'],
            model=guest.hardware.vif_model, mtu=network.get('mtu'), port=dataclasses.asdict(port) if port else None,
            device=device))
    return made


def _known(image_id: str, properties: Mapping[str, str], name: str, default: str,
           is_known: Callable[[str], object]) -> str:
    value = properties.get(name) or default
    if not is_known(value):
        raise exception.ImageUnacceptable(image_id=image_id, reason=f'its {name} is not supported')
    return value


def cpu_info(capabilities: etree.Element) -> driver.CpuInfo:
    """Return the host's processor for hypervisor details."""
    cpu = capabilities.find('./host/cpu')
    if cpu is None:
        return {}
    topology = cpu.find('topology')
    return {
        'arch': cpu.findtext('arch'),
        'model': cpu.findtext('model'),
        'vendor': cpu.findtext('vendor'),
        'topology': {name: int(topology.attrib[name]) for name in ('sockets', 'cores', 'threads')}
        if topology is not None else {},
        'features': sorted(feature.attrib['name'] for feature in cpu.findall('feature')),
    }


def supported_instances(capabilities: etree.Element, virt_type: str) -> list[list[str]]:
    """Return [[arch, hypervisor type, vm mode]] of supported guests."""
    found = []
    for element in capabilities.findall('./guest'):
        arch = element.find('arch')
        mode = element.findtext('os_type', '')
        if arch is not None and arch.find(f"./domain[@type='{virt_type}']") is not None:
            found.append([arch.attrib['name'], virt_type, mode])
    return found
