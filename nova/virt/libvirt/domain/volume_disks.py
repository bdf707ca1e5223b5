"""Classes for local disks and volumes, and functions that create the domain XML of volumes. Pure functions.

https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms describes the elements.
"""
import dataclasses
import os
import string
import typing
from collections.abc import Container, Mapping
from xml.etree import ElementTree as etree

from nova import exception
from nova.hardware import disks as words
from nova.objects.block_device import Connection
from nova.objects.block_device import VolumeDevice
from nova.virt.libvirt.domain import chain

# names of I/O limits per second; libvirt and QoS specs of volumes use the same names
LIMITS = words.LIMITS
NETWORK = 'network'


class StorageSecret(typing.TypedDict):
    """Password for a storage system; ``usage`` is the name under which libvirt stores it as a secret."""

    usage: str
    value: str
    base64: bool


class DiskSource(typing.TypedDict, total=False):
    """Source of a disk for QEMU, as a connector returns it.

    type         'file', 'block' or 'network'
    path         path of a file or a block device
    protocol     protocol of a network source, with ``name`` and the address ``hosts`` ([[host, port]]) or ``socket``
    auth         {'username', 'type', 'uuid' or 'usage'}: user of the storage and libvirt's secret with the password
    secret       StorageSecret that the driver must create in libvirt before a guest uses the source
    luks         id of the libvirt secret with the LUKS passphrase
    format       'qcow2' for a chain of files (chain.py)
    backing_files  [[name, format]] of the backing files of the active file
    limits       I/O limits that Block Storage sets; the function ``volume`` moves them to the Volume
    encrypted    whether the volume is encrypted; replaced by ``luks`` when the volume is connected
    connection   {'driver_volume_type', 'data', 'device'} of a volume that the host's kernel attaches
    """

    type: str
    path: str
    protocol: str
    name: str
    hosts: list[list[typing.Any]]
    socket: str
    tls: bool
    tls_hostname: str | None
    initiator: str
    reconnect_s: int
    auth: dict[str, str]
    secret: StorageSecret
    luks: str
    format: str
    backing_files: list[list[str]]
    readonly: bool
    shareable: bool
    encrypted: bool
    limits: dict[str, int]
    connection: Connection


@dataclasses.dataclass
class Disk:
    """Local disk of a guest.

    file    path of the disk, or its name if it is not a file
    format  format with which the disk was created; it is never detected from the content of the disk
    source  DiskSource if the disk is not a file
    secret  id of the libvirt secret with the LUKS passphrase, or None if the disk is not encrypted
    device  'disk' or 'cdrom'
    """

    file: str
    format: str
    target: str
    bus: str = 'virtio'
    readonly: bool = False
    cache: str = 'writeback'
    backing_file: str | None = None
    backing_format: str | None = None
    source: DiskSource | None = None
    secret: str | None = None
    device: str = 'disk'
    detect_zeroes: str = 'off'
    iothread: int | None = None
    unknown_fields: dict[str, typing.Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False,
                                                            compare=False)

    @property
    def keeps_size(self) -> bool:
        return self.readonly or self.device == words.CDROM


@dataclasses.dataclass
class Volume:
    """Volume of a guest.

    target      name of the device in libvirt, such as vdb
    source      result of a connector
    boot_order  1 if the guest boots from the volume, otherwise None
    cache       cache mode of QEMU
    limits      {name of LIMITS: number}, I/O limits that Block Storage sets
    """

    volume_id: str
    target: str
    bus: str
    source: DiskSource
    device: str = 'disk'
    boot_order: int | None = None
    readonly: bool = False
    shareable: bool = False
    cache: str = 'none'
    detect_zeroes: str = 'off'
    iothread: int | None = None
    tag: str | None = None
    limits: dict[str, int] = dataclasses.field(default_factory=dict)
    unknown_fields: dict[str, typing.Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False,
                                                            compare=False)

    @property
    def path(self) -> str:
        """Return the path of the volume's element in a domain's XML."""
        return f"./devices/disk/target[@dev='{self.target}']"


@dataclasses.dataclass(frozen=True)
class Choices:
    """Options of this host for all volumes.

    cache    {DiskSource.type: cache mode}
    """

    cache: dict[str, str]
    detect_zeroes: str = 'off'


def volume(device: VolumeDevice, source: DiskSource, properties: dict[str, str], machine: str, taken: set[str],
           choices: Choices) -> Volume:
    """Return the Volume for a block device mapping.

    :param source: result of the volume's connector
    :param properties: properties of the server's image
    :param taken: targets that the guest already uses
    :raises VirtError: the guest does not support the type or bus of the device
    """
    kind = device.get('device_type') or 'disk'
    if kind not in words.TYPES:
        raise _refused(f'{kind!r:.40} is not a supported device_type')
    bus = device.get('disk_bus') or _bus(kind, properties, machine)
    if bus not in TARGET_PREFIXES:
        raise _refused(f'{bus!r:.40} is not a supported disk_bus')
    if not words.has_bus(machine, bus):
        raise _refused(f'a {machine} machine has no {bus} disks')
    if kind == words.CDROM and bus not in words.CDROM_BUSES:
        raise _refused(f'a cdrom cannot use the bus {bus}')
    if kind == 'lun' and bus != 'scsi':
        raise _refused(f'a lun needs the bus scsi, not {bus}')
    if kind == 'lun' and not _is_scsi(source):
        raise _refused('a lun needs block storage with SCSI devices (block devices of the host, and iSCSI): SCSI '
                       f'commands do not pass through {source.get("protocol") or "a file"}')
    index = device.get('boot_index')
    shareable = bool(source.get('shareable'))
    limits = source.pop('limits', {})
    cache = 'none' if shareable else choices.cache[source['type']]
    return Volume(device['volume_id'], _target(device.get('device_name'), bus, taken), bus, source, kind,
                  index + 1 if index is not None and index >= 0 else None,
                  kind == 'cdrom' or bool(source.get('readonly')), shareable, cache, choices.detect_zeroes,
                  tag=device.get('tag'), limits=limits)


def _is_scsi(source: DiskSource) -> bool:
    """Return whether the guest may send SCSI commands to a source. A block device may still refuse the commands."""
    return source['type'] == 'block' or source.get('protocol') == 'iscsi'


def _bus(kind: str, properties: dict[str, str], machine: str) -> str:
    if kind == words.CDROM:
        return cdrom_bus(properties, machine)
    if kind == 'floppy':
        return 'fdc'
    return 'scsi' if kind == 'lun' else str(properties.get('hw_disk_bus') or 'virtio')


def cdrom_bus(properties: Mapping[str, str], machine: str) -> str:
    """Return the bus of a CD-ROM drive: that of the image, or the usual bus of the machine type."""
    usual = 'ide' if words.is_pc(machine) else 'scsi' if machine.startswith('virt') else 'sata'
    return str(properties.get('hw_cdrom_bus') or usual)


def _target(name: str | None, bus: str, taken: set[str]) -> str:
    """Return a free target name, with the last letter of the requested device name if possible."""
    letter = (name or '')[-1:]
    wanted = TARGET_PREFIXES[bus] + letter
    if letter and letter in letters_of(bus) and wanted not in taken:
        return wanted
    found = free_target(bus, taken)
    if found is None:
        raise _refused(f'all letters of device names on the bus {bus} are in use')
    return found


def _refused(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='attach the volume', reason=reason)


# ---- XML -----------------------------------------------------------------------

def element(disk: Volume) -> etree.Element:
    """Return the domain XML element of a volume."""
    root = etree.Element('disk', type=disk.source['type'], device=disk.device)
    etree.SubElement(root, 'driver', driver(disk.source.get('format', chain.RAW), disk, disk.readonly))
    root.append(source_element(disk.source))
    _below(root, disk.source)
    etree.SubElement(root, 'target', dev=disk.target, bus=disk.bus)
    if disk.device != 'lun':                         # the guest reads the serial number of a lun from the storage
        etree.SubElement(root, 'serial').text = disk.volume_id
    if disk.readonly:
        etree.SubElement(root, 'readonly')
    if disk.shareable:
        etree.SubElement(root, 'shareable')
    if disk.boot_order is not None:
        etree.SubElement(root, 'boot', order=str(disk.boot_order))
    limit(root, disk.limits)
    return root


def _below(parent: etree.Element, source: DiskSource) -> None:
    """Add the complete backing chain, so that libvirt and QEMU do not read backing files from the headers."""
    for name, form in source.get('backing_files', ()):
        parent = etree.SubElement(parent, 'backingStore', type=source['type'])
        etree.SubElement(parent, 'format', type=form)
        parent.append(_source(named(source, name)))
    etree.SubElement(parent, 'backingStore')


def files_of(source: DiskSource) -> list[chain.File]:
    """Return [(name, format)] of the files of a source, active file first."""
    place = source['path'] if source['type'] == 'file' else source['name']
    return [(os.path.basename(place), source.get('format', chain.RAW)),
            *((name, form) for name, form in source.get('backing_files', ()))]


def with_files(source: DiskSource, files: list[chain.File]) -> DiskSource:
    """Return a copy of the source that consists of other files in the same directory.

    :param files: the files, active file first
    """
    (name, form), *rest = files
    made = named(source, name)
    if form == chain.RAW:
        made.pop('format', None)
        made.pop('backing_files', None)
        return made
    return {**made, 'format': form, 'backing_files': [list(each) for each in rest]}


def named(source: DiskSource, name: str) -> DiskSource:
    """Return a copy of the source with another active file in the same directory."""
    if source['type'] == 'file':
        return {**source, 'path': os.path.join(os.path.dirname(source['path']), name)}
    return {**source, 'name': os.path.join(os.path.dirname(source['name']), name)}


def snapshot(target: str, source: DiskSource, others: typing.Iterable[str]) -> str:
    """Return the XML that switches a guest to an overlay, ``source``: https://libvirt.org/formatsnapshot.html.

    :param others: targets of the guest's other disks, which the snapshot excludes
    """
    root = etree.Element('domainsnapshot')
    disks = etree.SubElement(root, 'disks')
    changed = etree.SubElement(disks, 'disk', name=target, snapshot='external', type=source['type'])
    etree.SubElement(changed, 'driver', type=chain.QCOW2)
    changed.append(_source(source))
    for other in others:
        etree.SubElement(disks, 'disk', name=other, snapshot='no')
    return etree.tostring(root, encoding='unicode')


def alone_volume(volume: Volume) -> Volume:
    """Return a copy of a Volume as the only disk of the machine that ``alone`` defines."""
    return Volume(volume.volume_id, 'vda', 'virtio', volume.source, cache=volume.cache)


def alone(uuid: str, volume: Volume) -> str:
    """Return the domain XML of a machine that stays paused and in which QEMU merges the files of the only disk."""
    root = etree.Element('domain', type='qemu')
    etree.SubElement(root, 'name').text = f'merge-{uuid}'
    etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(root, 'memory', unit='MiB').text = '64'
    etree.SubElement(root, 'vcpu').text = '1'
    etree.SubElement(etree.SubElement(root, 'os'), 'type').text = 'hvm'
    etree.SubElement(root, 'devices').append(element(volume))
    return etree.tostring(root, encoding='unicode')


def driver(form: str, disk: Disk | Volume, readonly: bool) -> dict[str, str]:
    """Return the attributes of the driver element of a disk: the options of QEMU's block driver."""
    made = {'name': 'qemu', 'type': form, 'cache': disk.cache, 'discard': 'unmap'}
    if disk.detect_zeroes != 'off':
        made['detect_zeroes'] = disk.detect_zeroes
    if disk.iothread is not None:
        made['iothread'] = str(disk.iothread)
    if readonly:
        del made['discard']
    return made


def limit(root: etree.Element, limits: Mapping[str, int]) -> None:
    """Add I/O limits to the element of a disk."""
    bounds = [(name, limits[name]) for name in LIMITS if int(limits.get(name) or 0)]
    if bounds:
        iotune = etree.SubElement(root, 'iotune')
        for name, value in bounds:
            etree.SubElement(iotune, name).text = str(value)


def spread(found: typing.Iterable[Disk | Volume], threads: int, choices: Choices) -> None:
    """Assign I/O threads round-robin to the virtio disks of a guest."""
    number = 0
    for each in found:
        each.iothread = None
        each.detect_zeroes = 'off' if each.readonly else choices.detect_zeroes
        if each.bus == 'virtio' and threads:
            each.iothread, number = number % threads + 1, number + 1


def quietest(volume: Volume, found: typing.Iterable[Disk | Volume]) -> int | None:
    """Return the I/O thread that has the fewest disks of ``found``, or None if the new volume needs no I/O thread."""
    used = [each.iothread for each in found if each.iothread]
    if volume.bus != 'virtio' or not used:
        return None
    return min(range(1, max(used) + 1), key=used.count)


def drivers(root: etree.Element) -> list[tuple[str, etree.Element]]:
    """Return [(target, driver element)] of the disks of a domain."""
    found = [(disk.find('target'), disk.find('driver')) for disk in root.findall('./devices/disk')]
    return [(target.get('dev', ''), driver) for target, driver in found if target is not None and driver is not None]


def threads(text: str) -> dict[str, int]:
    """Return {target: I/O thread} of the disks with an I/O thread in the XML of a domain."""
    return {target: int(driver.get('iothread', '')) for target, driver in drivers(etree.fromstring(text))
            if driver.get('iothread')}


def source_element(source: DiskSource) -> etree.Element:
    """Return the source element of a disk. If the disk is encrypted, the element has the id of its secret."""
    made = _source(source)
    if source.get('luks'):
        _encryption(made, source['luks'])
    return made


def _encryption(parent: etree.Element, secret: str) -> None:
    """Add the encryption by QEMU. libvirt 11.3 needs the attribute ``engine`` for the target of a backup."""
    encryption = etree.SubElement(parent, 'encryption', format='luks', engine='qemu')
    etree.SubElement(encryption, 'secret', type='passphrase', uuid=secret)


def _source(source: DiskSource) -> etree.Element:
    if source['type'] == 'file':
        return etree.Element('source', file=source['path'])
    if source['type'] == 'block':
        return etree.Element('source', dev=source['path'])
    made = etree.Element('source', protocol=source['protocol'])
    if source.get('name'):
        made.set('name', source['name'])
    if source.get('tls'):
        made.set('tls', 'yes')
        if host := source.get('tls_hostname'):
            made.set('tlsHostname', host)
    for host, port in source.get('hosts', ()):
        etree.SubElement(made, 'host', {'name': host, **({'port': str(port)} if port else {})})
    if source.get('socket'):
        etree.SubElement(made, 'host', transport='unix', socket=source['socket'])
    if source.get('initiator'):
        etree.SubElement(etree.SubElement(made, 'initiator'), 'iqn', name=source['initiator'])
    if source.get('reconnect_s'):
        etree.SubElement(made, 'reconnect', delay=str(source['reconnect_s']))
    auth = source.get('auth')
    if auth:
        secret = etree.SubElement(etree.SubElement(made, 'auth', username=auth['username']), 'secret',
                                  type=auth['type'])
        secret.set(*(('uuid', auth['uuid']) if auth.get('uuid') else ('usage', auth['usage'])))
    return made


def arrange(root: etree.Element, volumes: list[Volume], disks: list[Disk]) -> None:
    """Add the volumes to a domain that already has all other devices, and set the boot order.

    :param disks: local disks. If the guest boots from a local disk, the name of its file is 'disk'
    """
    devices = root.find('devices')
    assert devices is not None
    for number, each in enumerate(volumes):
        devices.insert(len(disks) + number, element(each))
    every: list[Disk | Volume] = [*disks, *volumes]
    threads = max((each.iothread or 0 for each in every), default=0)
    if threads:
        etree.SubElement(root, 'iothreads').text = str(threads)
    system = root.find('os')
    if system is None or not any(each.boot_order for each in volumes):
        return
    for boot in system.findall('boot'):              # libvirt does not allow both <os><boot> and a disk's <boot>
        system.remove(boot)
    for local in disks:
        found = devices.find(f"disk/target[@dev='{local.target}']/..")
        if os.path.basename(local.file) == 'disk' and found is not None:
            etree.SubElement(found, 'boot', order='1')
        elif local.device == words.CDROM and found is not None:
            etree.SubElement(found, 'boot', order=str(2 + max(each.boot_order or 0 for each in volumes)))


def copy_of(target: str, path: str, others: list[str], secret: str | None = None) -> str:
    """Return the XML of a backup job: a full copy of one disk of a running guest into a qcow2 file.

    In a raw file, zeros would occupy space (https://libvirt.org/formatbackup.html).
    :param secret: id of the libvirt secret with the passphrase if the file is a LUKS file
    """
    root = etree.Element('domainbackup', mode='push')
    disks = etree.SubElement(root, 'disks')
    copied = etree.SubElement(disks, 'disk', name=target, backup='yes', type='file')
    etree.SubElement(copied, 'driver', type='raw' if secret else 'qcow2')
    file = etree.SubElement(copied, 'target', file=path)
    if secret:
        _encryption(file, secret)
    for other in others:
        etree.SubElement(disks, 'disk', name=other, backup='no')
    return etree.tostring(root, encoding='unicode')


def passphrase(uuid: str) -> str:
    """Return the XML of a libvirt secret for the passphrase of a guest's encrypted disks."""
    root = etree.Element('secret', ephemeral='yes', private='yes')
    etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(etree.SubElement(root, 'usage', type='volume'), 'volume').text = f'disks of {uuid}'
    return etree.tostring(root, encoding='unicode')


def secret(usage_type: str, usage: str, uuid: str | None = None) -> str:
    """Return the XML of a libvirt secret. Clients cannot read its value, which is lost when libvirtd stops."""
    root = etree.Element('secret', ephemeral='yes', private='yes')
    if uuid:
        etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(etree.SubElement(root, 'usage', type=usage_type),
                     'name' if usage_type == 'ceph' else 'target').text = usage
    return etree.tostring(root, encoding='unicode')


# {bus: prefix of the target names on this bus}
TARGET_PREFIXES = {'virtio': 'vd', 'scsi': 'sd', 'sata': 'sd', 'usb': 'sd', 'ide': 'hd', 'fdc': 'fd'}
TARGET_LETTERS = string.ascii_lowercase
# {bus whose only controller has few places: letters of target names on this bus}
_FEW_LETTERS = {'ide': 'abcd', 'fdc': 'ab'}


def letters_of(bus: str) -> str:
    """Return the last letters of valid target names on a bus."""
    return _FEW_LETTERS.get(bus, TARGET_LETTERS)


def free_target(bus: str, names: Container[str], letters: Container[str] = ()) -> str | None:
    """Return the first free target name on a bus, or None if all are in use.

    :param names: target names in use on all buses
    :param letters: last letters that must not be used
    """
    return next((name for letter in letters_of(bus)
                 if letter not in letters and (name := TARGET_PREFIXES[bus] + letter) not in names), None)
