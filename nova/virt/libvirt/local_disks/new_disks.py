"""Creation of guests' disks: root disks from images, empty disks, config drives, kernels."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
import dataclasses
import logging
import os
import subprocess

from nova import exception
from nova.context import RequestContext
from nova.disk_files import qemu_img
from nova.hardware import disks as disk_words
from nova.hardware import guest_options
from nova.objects.block_device import BlockDevice
from nova.objects.image import Image
from nova.objects.instance import Instance
from nova.runtime import disk_space
from nova.runtime import progress
from nova.virt import driver
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.local_disks import configdrive
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks.base import Place
from nova.virt.libvirt.local_disks.storage import Storage

LOG = logging.getLogger(__name__)

# command that creates an empty disk of each format; the path is appended
MAKE = {'swap': ['mkswap', '-q'],
        **{each: [f'mkfs.{each}', '-q', '-F', '-L', '{label}'] for each in ('ext2', 'ext3', 'ext4')},
        'vfat': ['mkfs.vfat', '-n', '{label}'], 'xfs': ['mkfs.xfs', '-q', '-L', '{label}']}
MEDIUM = 'disk.cdrom'                    # CD-ROM of a server that boots from an ISO image
MAX_BOOT_FILE = qemu_img.GIB              # bytes of a kernel or ramdisk: no flavor limits their size
FETCHED, MADE = 70, 90                   # progress of a build in percent after the download, and after the root disk


def create(stored: Storage, context: RequestContext, instance: Instance, request: driver.SpawnRequest,
           machine: str = xml.DEFAULT_MACHINE) -> tuple[list[xml.Disk], dict[str, str]]:
    """Create all files of a guest in a new directory.

    :param context: context of the task, for the ImageSource
    :param machine: machine type of the guest
    :returns: (disks, paths): [Disk], and {'kernel': path, 'ramdisk': path} if there are such images
    :raises ImageUnacceptable: the image cannot be used
    :raises BuildFailed: this host cannot meet the request
    """
    uuid, encrypted = instance.uuid, guest_options.encrypts(instance)
    stored.backends.new.check_new(uuid)
    stored.make_directory(uuid, exist_ok=True)         # exists in a rebuild that keeps files
    # Use the kernel in the instance's row, which the API has checked: the image may have named another kernel since.
    paths = boot_files(stored, context, uuid, request.image, {
        part: (getattr(instance, f'{part}_id', None), part) for part in ('kernel', 'ramdisk')})
    bus = _bus(request.image.get('properties') if request.image else instance.image_properties, request.image)
    wanted, target = _requested(request.block_devices), _targets(volume_letters(request.block_devices))
    place = stored.backends.of_new(uuid, encrypted)
    disks = [*_boot_disks(stored, context, instance, request.image, machine, wanted, target, bus, request.report)
             ] if request.image else []
    for name, size, row in _blanks(instance, wanted):
        own = row and row.get('disk_bus') or bus
        disks.append(_blank(stored, place, uuid, name, size, target(own), own, row and row.get('guest_format')))
    if request.config_drive is not None:
        disks.append(config_drive(stored, uuid, request.config_drive, target(bus), bus, encrypted=encrypted))
    return disks, paths


def _boot_disks(stored: Storage, context: RequestContext, instance: Instance, image: Image, machine: str,
                wanted: Wanted, target: Callable[[str], str], bus: str, report: progress.Report) -> Iterator[xml.Disk]:
    """Yield the boot disks in boot order.

    An ISO image becomes a CD-ROM behind a blank root disk, on which an OS can be installed. Any other image becomes
    the root disk or, if the request selects a CD-ROM, a CD-ROM of the image size.
    """
    row, is_iso = wanted.root, image.get('disk_format') == image_cache.ISO
    cdrom = is_iso or row is not None and row.get('device_type') == disk_words.CDROM
    if is_iso and instance.root_gb:
        place = stored.backends.of_new(instance.uuid, guest_options.encrypts(instance))
        path = stored.path(instance.uuid, 'disk')
        with open(path, 'xb') as file:
            file.truncate(instance.root_gb * qemu_img.GIB)
        yield place.from_file(path, target(bus), bus)
    if cdrom:
        bus = volume_disks.cdrom_bus(image.get('properties') or {}, machine)
    bus = row and row.get('disk_bus') or bus
    if bus not in (disk_words.CDROM_BUSES if cdrom else xml.DISK_BUSES):
        raise exception.ImageUnacceptable(image_id=image['id'], reason=f'its disk cannot use the bus {bus}')
    disk = image_disk(stored, context, instance, image, target(bus), bus, MEDIUM if is_iso else 'disk',
                      root_gb=0 if cdrom else None, report=report)
    disk.device = disk_words.CDROM if cdrom else disk_words.DISK
    yield disk


def image_disk(stored: Storage, context: RequestContext, instance: Instance, image: Image, target: str, bus: str,
               name: str = 'disk', root_gb: int | None = None, report: progress.Report = progress.ignore) -> xml.Disk:
    """Return the Disk of a new file made from an image.

    :param root_gb: GiB to grow to; 0: as large as the image; None: size of the server's root disk
    :param report: receives the progress of the whole build, of which this disk is a part
    :raises ImageUnacceptable: the image is larger than the server's root disk
    """
    limit = stored.backends.total_bytes()
    if image.get('disk_format') != image_cache.ISO:       # an ISO image is never copied to the root disk
        limit = instance.root_gb * qemu_img.GIB or limit
    base = stored.cache.fetch(context, image, progress.part(report, 0, FETCHED), limit)
    root_gb = instance.root_gb if root_gb is None else root_gb
    size = max(root_gb * qemu_img.GIB, _aligned(base.virtual_size))
    place = stored.backends.of_new(instance.uuid, guest_options.encrypts(instance))
    return place.from_image(stored.path(instance.uuid, name), image['id'], base, size, target, bus,
                            progress.part(report, FETCHED, MADE))


def blanks(stored: Storage, uuid: str, sizes: Mapping[str, int], present: Sequence[xml.Disk],
           volumes: Sequence[volume_disks.Volume] = (), taken: Collection[str] = (),
           encrypted: bool = False) -> list[xml.Disk]:
    """Create and return the disks of ``sizes`` ({file name: bytes}) that are missing in ``present`` (Disks).

    :param volumes: Volumes of the guest
    :param taken: letters of the names of the guest's future volumes
    """
    wanted = {name: size for name, size in sizes.items() if size and name not in {
        os.path.basename(disk.file) for disk in present}}
    if not wanted:
        return []
    devices: list[xml.Disk | volume_disks.Volume] = [*present, *volumes]
    bus = next((device.bus for device in devices), xml.Disk.bus)
    target = _targets(taken, {device.target for device in devices})
    place = stored.backends.of_new(uuid, encrypted)
    return [_blank(stored, place, uuid, name, size, target(bus), bus) for name, size in wanted.items()]


def _blank(stored: Storage, place: Place, uuid: str, name: str, size: int, target: str, bus: str,
           form: str | None = None) -> xml.Disk:
    """Create an empty disk.

    :param form: one of disk_words.FORMATS, or SWAP; None selects the default of such a disk
    """
    form = disk_words.SWAP if name == 'disk.swap' else form or disk_words.DEFAULT_FORMAT
    make = [word.format(label=name.removeprefix('disk.')) for word in MAKE[form]]
    path = stored.path(uuid, name)
    with open(path, 'xb') as file:
        file.truncate(size)
    environment = {'PATH': os.environ.get('PATH', os.defpath) + ':/usr/sbin:/sbin', 'LC_ALL': 'C'}
    try:
        done = subprocess.run([*make, path], stdin=subprocess.DEVNULL, capture_output=True, env=environment)
    except FileNotFoundError:
        raise exception.BuildFailed(instance_id=uuid, reason=f'this host cannot make a disk of the format {form}: '
                                                             f'it has no {make[0]}') from None
    if done.returncode:
        LOG.error('%s failed: %s', make[0], done.stderr.decode(errors='replace'))
        raise exception.BuildFailed(instance_id=uuid, reason=f'{make[0]} failed on {name}')
    return place.from_file(path, target, bus)


def config_drive(stored: Storage, uuid: str, contents: Mapping[str, bytes], target: str, bus: str,
                 name: str = 'disk.config', encrypted: bool = False) -> xml.Disk:
    """Return the Disk of a new config drive with {path: bytes}; raises BuildFailed if the files do not fit."""
    path, place = stored.path(uuid, name), stored.backends.of_new(uuid, encrypted)
    try:
        configdrive.write(path, contents)
    except ValueError as error:
        raise exception.BuildFailed(instance_id=uuid, reason=str(error)) from error
    return place.from_file(path, target, bus, readonly=True)


def renew_config_drive(stored: Storage, guest: xml.Guest, contents: Mapping[str, bytes]) -> None:
    """Recreate the config drive of a guest that has not run yet, with new content."""
    for number, disk in enumerate(guest.disks):
        if os.path.basename(disk.file) == 'disk.config':
            stored.backends.remove(disk.file)
            made = config_drive(stored, guest.uuid, contents, disk.target, disk.bus, encrypted=disk.secret is not None)
            made.iothread, made.detect_zeroes = disk.iothread, disk.detect_zeroes
            guest.disks[number] = made


def boot_files(stored: Storage, context: RequestContext, uuid: str, image: Image | None,
               wanted: Mapping[str, tuple[str | None, str]]) -> dict[str, str]:
    """Create a guest's kernel and ramdisk and return {'kernel' or 'ramdisk': path}.

    :param wanted: {'kernel' or 'ramdisk': (image id, file name)}; a file without an image id is omitted
    :raises ImageUnacceptable: an image is not the kernel or ramdisk or is over MAX_BOOT_FILE, or there is a ramdisk
        without a kernel
    :raises InsufficientStorage: there is no space
    """
    found = {}
    for part, (image_id, name) in wanted.items():
        if image_id:
            base = stored.cache.fetch(context, stored.images.show(context, image_id), most_bytes=MAX_BOOT_FILE)
            if base.format != 'raw':
                raise exception.ImageUnacceptable(image_id=image_id, reason=f'it is no {part}')
            found[part] = stored.path(uuid, name)
            # Copy the file, because libvirt changes its owner when the guest starts and stops.
            with stored.reserve.claimed(stored.directory, disk_space.used_bytes(base.path), found[part]):
                local_files.copy(base.path, found[part])
    if 'ramdisk' in found and 'kernel' not in found:
        raise exception.ImageUnacceptable(image_id=image and image.get('id'),
                                          reason='it has a ramdisk, but no kernel')
    return found


def _bus(properties: Mapping[str, str] | None, image: Image | None) -> str:
    bus = (properties or {}).get('hw_disk_bus', 'virtio')
    if bus not in xml.DISK_BUSES:
        raise exception.ImageUnacceptable(image_id=image['id'] if image else '',
                                          reason='its hw_disk_bus is not supported')
    return bus


@dataclasses.dataclass
class Wanted:
    """Rows of a server's local disks."""

    root: BlockDevice | None
    ephemerals: list[BlockDevice]
    swap: BlockDevice | None


def _requested(block_devices: Iterable[BlockDevice]) -> Wanted:
    local = [row for row in block_devices if row.get('destination_type') == 'local']
    blank = [row for row in local if row.get('source_type') == 'blank']
    return Wanted(next((row for row in local if row.get('source_type') == 'image'), None),
                  [row for row in blank if row.get('guest_format') != disk_words.SWAP],
                  next((row for row in blank if row.get('guest_format') == disk_words.SWAP), None))


def _targets(letters: Collection[str], names: Collection[str] = ()) -> Callable[[str], str]:
    """Return a function(bus) that returns the next free disk name on a bus.

    Two names from one function have the same letter only if one of them is on the bus ide, which has few names.

    :param letters: excluded letters, except on the bus ide if it has no other free name
    :param names: excluded names
    """
    taken, used = set(letters), set(names)

    def target(bus: str) -> str:
        name = volume_disks.free_target(bus, used, taken)
        if name is None and bus == 'ide':
            name = volume_disks.free_target(bus, used)
        if name is None:
            raise exception.VirtError(operation='make the disks', reason='all letters of device names on the bus '
                                                                         f'{bus} are in use')
        taken.add(name[-1])
        used.add(name)
        return name
    return target


def _blanks(instance: Instance, wanted: Wanted) -> Iterator[tuple[str, int, BlockDevice | None]]:
    """Yield (file name, bytes, row or None) for each empty disk: as requested, or otherwise as in the flavor."""
    for number, row in enumerate(wanted.ephemerals or [None]):
        if gib := instance.ephemeral_gb if row is None else row['volume_size']:
            yield f'disk.ephemeral{number}', gib * qemu_img.GIB, row
    swap, most = wanted.swap, flavor_sizes(instance)['disk.swap']
    # after a resize to a flavor with less swap, the row still has the old size
    size = min(most, (swap and swap.get('volume_size') or 0) * disk_space.MIB or most)
    if size:
        yield 'disk.swap', size, swap


def _aligned(size: int) -> int:
    """Round up to whole sectors."""
    return (size + 511) // 512 * 512


def volume_letters(block_devices: Iterable[BlockDevice]) -> set[str]:
    """Return the last letter of the device name of each volume of a server, such as b for /dev/vdb."""
    return {(row.get('device_name') or ' ')[-1] for row in block_devices if row.get('destination_type') == 'volume'}


def flavor_sizes(instance: Instance) -> dict[str, int]:
    """Return {name of a disk's file: bytes} of the server's flavor; 0: the flavor has no size for the disk."""
    return {'disk': instance.root_gb * qemu_img.GIB, 'disk.ephemeral0': instance.ephemeral_gb * qemu_img.GIB,
            'disk.swap': int((instance.flavor or {}).get('swap') or 0) * disk_space.MIB}
