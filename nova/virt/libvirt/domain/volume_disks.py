"""Records of local disks and of volumes, and the volumes' part of the domain XML: pure functions.

https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms describes every element.
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

# limits of a disk per second, with the names of libvirt and QoS specs
LIMITS = words.LIMITS
OLD_MACHINES = ('pc', 'pc-i440fx')       # machine types with IDE as the default of a CD-ROM
NETWORK = 'network'


class StorageSecret(typing.TypedDict):
    """Secret for the login at a storage, with the text that names it in libvirt."""

    usage: str
    value: str
    base64: bool


class DiskSource(typing.TypedDict, total=False):
    """QEMU's source of a disk, as a connector returns it.

    type         'file', 'block' or 'network'
    path         of a file or a block device
    protocol     of a network source, with ``name``; ``hosts``: [[host, port]], or ``socket``: path of a socket
    auth         {'username', 'type', 'uuid' or 'usage'}: login at the storage with a libvirt secret
    secret       the value of that secret, if libvirt does not have it
    luks         id of the LUKS secret
    format       qcow2 for a chain of files (chain.py)
    backing_files  [[name, format]] of the backing files of the active one
    limits       of the block storage; ``volume`` moves them to the Volume
    encrypted    whether the disk is encrypted; a connection replaces it by ``luks``
    connection   {'driver_volume_type', 'data', 'device'} of an initiator of the host's kernel
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
    """Disk of a guest. ``format`` is the format it was created with and never detected from its content.

    ``source``: QEMU's source if the disk is not a file; ``file`` always has the name of the disk.
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

    target      libvirt's name of the device
    source      result of a connector
    boot_order  1: the guest boots from it; None: never
    cache       QEMU's cache mode
    limits      {name of LIMITS: number}, set by the block storage
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
    """Configuration of all volumes.

    cache    {type of a source: cache mode}
    """

    cache: dict[str, str]
    detect_zeroes: str = 'off'


def volume(device: VolumeDevice, source: DiskSource, properties: dict[str, str], machine: str, taken: set[str],
           choices: Choices) -> Volume:
    """Return the Volume of a device.

    :param source: source that the volume's connector returned
    :param properties: properties of the server's image
    :param taken: targets that the guest already uses
    :raises VirtError: the guest does not support such a device
    """
    kind = device.get('device_type') or 'disk'
    if kind not in words.TYPES:
        raise _refused(f'{kind!r:.40} is not a supported device_type')
    bus = device.get('disk_bus') or _bus(kind, properties, machine)
    if bus not in TARGET_PREFIXES:
        raise _refused(f'{bus!r:.40} is not a supported disk_bus')
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
    """Return whether a source may get SCSI commands; for a host block device, the device decides."""
    return source['type'] == 'block' or source.get('protocol') == 'iscsi'


def _bus(kind: str, properties: dict[str, str], machine: str) -> str:
    if kind == words.CDROM:
        return cdrom_bus(properties, machine)
    if kind == 'floppy':
        return 'fdc'
    return 'scsi' if kind == 'lun' else str(properties.get('hw_disk_bus') or 'virtio')


def cdrom_bus(properties: dict[str, str], machine: str) -> str:
    old = machine == 'pc' or machine.startswith(OLD_MACHINES[1])
    return str(properties.get('hw_cdrom_bus') or ('ide' if old else 'sata'))


def _target(name: str | None, bus: str, taken: set[str]) -> str:
    """Return a target with the letter of the requested name, if it is free."""
    letter = (name or '')[-1:]
    wanted = TARGET_PREFIXES[bus] + letter
    if letter and letter in TARGET_LETTERS and wanted not in taken:
        return wanted
    found = free_target(bus, taken)
    if found is None:
        raise _refused('all letters of device names are in use')
    return found


def _refused(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='attach the volume', reason=reason)


# ---- XML -----------------------------------------------------------------------

def element(disk: Volume) -> etree.Element:
    """Return the element of a volume in a domain."""
    root = etree.Element('disk', type=disk.source['type'], device=disk.device)
    etree.SubElement(root, 'driver', driver(disk.source.get('format', chain.RAW), disk, disk.readonly))
    root.append(source_element(disk.source))
    _below(root, disk.source)
    etree.SubElement(root, 'target', dev=disk.target, bus=disk.bus)
    if disk.device != 'lun':                         # a lun has the serial number of its storage
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
    """Add all backing files: libvirt and QEMU search for no others and probe no format."""
    for name, form in source.get('backing_files', ()):
        parent = etree.SubElement(parent, 'backingStore', type=source['type'])
        etree.SubElement(parent, 'format', type=form)
        parent.append(_source(named(source, name)))
    etree.SubElement(parent, 'backingStore')


def files_of(source: DiskSource) -> list[chain.File]:
    """Return the files of a file source or a chain, active file first."""
    place = source['path'] if source['type'] == 'file' else source['name']
    return [(os.path.basename(place), source.get('format', chain.RAW)),
            *((name, form) for name, form in source.get('backing_files', ()))]


def with_files(source: DiskSource, files: list[chain.File]) -> DiskSource:
    """Return the source with these files in the same directory."""
    (name, form), *rest = files
    made = named(source, name)
    if form == chain.RAW:
        made.pop('format', None)
        made.pop('backing_files', None)
        return made
    return {**made, 'format': form, 'backing_files': [list(each) for each in rest]}


def named(source: DiskSource, name: str) -> DiskSource:
    """Return the source for another file in the same directory."""
    if source['type'] == 'file':
        return {**source, 'path': os.path.join(os.path.dirname(source['path']), name)}
    return {**source, 'name': os.path.join(os.path.dirname(source['name']), name)}


def snapshot(target: str, source: DiskSource, others: typing.Iterable[str]) -> str:
    """Return the XML that switches a guest to an overlay of its active file.

    https://libvirt.org/formatsnapshot.html
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
    """Return a Volume as the only disk of a machine."""
    return Volume(volume.volume_id, 'vda', 'virtio', volume.source, cache=volume.cache)


def alone(uuid: str, volume: Volume) -> str:
    """Return the XML of a permanently paused machine with one disk, whose files its QEMU merges."""
    root = etree.Element('domain', type='qemu')
    etree.SubElement(root, 'name').text = f'merge-{uuid}'
    etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(root, 'memory', unit='MiB').text = '64'
    etree.SubElement(root, 'vcpu').text = '1'
    etree.SubElement(etree.SubElement(root, 'os'), 'type').text = 'hvm'
    etree.SubElement(root, 'devices').append(element(volume))
    return etree.tostring(root, encoding='unicode')


def driver(form: str, disk: Disk | Volume, readonly: bool) -> dict[str, str]:
    """Return QEMU's driver options for a disk."""
    made = {'name': 'qemu', 'type': form, 'cache': disk.cache, 'discard': 'unmap'}
    if disk.detect_zeroes != 'off':
        made['detect_zeroes'] = disk.detect_zeroes
    if disk.iothread is not None:
        made['iothread'] = str(disk.iothread)
    if readonly:
        del made['discard']
    return made


def limit(root: etree.Element, limits: Mapping[str, int]) -> None:
    """Add the limits of a disk."""
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
    """Return the I/O thread with the fewest of a guest's other disks for a Volume, or None."""
    used = [each.iothread for each in found if each.iothread]
    if volume.bus != 'virtio' or not used:
        return None
    return min(range(1, max(used) + 1), key=used.count)


def source_element(source: DiskSource) -> etree.Element:
    """Return the source element of a disk with the id of its secret."""
    made = _source(source)
    if source.get('luks'):
        _encryption(made, source['luks'])
    return made


def _encryption(parent: etree.Element, secret: str) -> None:
    """Select encryption by QEMU: libvirt 11.3 assumes it for a domain's disks but not for a backup target."""
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
    """Add the volumes to a finished domain, and set the boot order.

    :param disks: local disks; one is named 'disk' if the guest boots from it
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
    for boot in system.findall('boot'):              # libvirt accepts only one kind of boot order
        system.remove(boot)
    for local in disks:
        found = devices.find(f"disk/target[@dev='{local.target}']/..")
        if os.path.basename(local.file) == 'disk' and found is not None:
            etree.SubElement(found, 'boot', order='1')
        elif local.device == words.CDROM and found is not None:
            etree.SubElement(found, 'boot', order=str(2 + max(each.boot_order or 0 for each in volumes)))


def copy_of(target: str, path: str, others: list[str], secret: str | None = None) -> str:
    """Return the XML of a backup job: a full copy of one disk of a running guest into a qcow2 file.

    A raw file would allocate space for all zeros (https://libvirt.org/formatbackup.html).

    :param secret: id of the secret of the file, which is then a LUKS file
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
    """Return the XML of a secret with the passphrase of encrypted disks."""
    root = etree.Element('secret', ephemeral='yes', private='yes')
    etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(etree.SubElement(root, 'usage', type='volume'), 'volume').text = f'disks of {uuid}'
    return etree.tostring(root, encoding='unicode')


def secret(usage_type: str, usage: str, uuid: str | None = None) -> str:
    """Return the XML of a libvirt secret that clients cannot read and that is lost when libvirtd stops."""
    root = etree.Element('secret', ephemeral='yes', private='yes')
    if uuid:
        etree.SubElement(root, 'uuid').text = uuid
    etree.SubElement(etree.SubElement(root, 'usage', type=usage_type),
                     'name' if usage_type == 'ceph' else 'target').text = usage
    return etree.tostring(root, encoding='unicode')


# prefix of the names on each bus
TARGET_PREFIXES = {'virtio': 'vd', 'scsi': 'sd', 'sata': 'sd', 'usb': 'sd', 'ide': 'hd', 'fdc': 'fd'}
TARGET_LETTERS = string.ascii_lowercase


def free_target(bus: str, names: Container[str], letters: Container[str] = ()) -> str | None:
    """Return the first disk name on a bus outside ``names`` and ``letters``, or None if all are taken.

    Buses may share names.
    """
    return next((name for letter in TARGET_LETTERS
                 if letter not in letters and (name := TARGET_PREFIXES[bus] + letter) not in names), None)
