"""Disk attributes of block_device_mapping_v2, for every kind of disk.

A local disk is on the host; a volume is in a block storage service.
"""
from collections.abc import Iterator
from collections.abc import Mapping
import re

from nova import exception

DISK, CDROM, FLOPPY, LUN = 'disk', 'cdrom', 'floppy', 'lun'
TYPES = (DISK, CDROM, FLOPPY, LUN)
BUSES = ('virtio', 'scsi', 'sata', 'usb', 'ide', 'fdc')
CDROM_BUSES = ('ide', 'sata', 'scsi', 'usb')
SWAP = 'swap'
# file systems of ephemeral disks
FORMATS = ('ext2', 'ext3', 'ext4', 'vfat', 'xfs')
DEFAULT_FORMAT = 'ext4'
# file name of a volume: without a path, so that the file cannot be outside of the volumes' directory
FILE_NAME = re.compile(r'[0-9A-Za-z_][0-9A-Za-z._+-]{0,254}\Z', re.ASCII)
FILE_NAME_RULE = 'a name of letters, digits and ._+-, without directories'
RAW, QCOW2 = 'raw', 'qcow2'
# kind of a volume's snapshot: a full copy, as a qcow2 file or, for an encrypted volume, a LUKS file
COPY = 'copy'
MAPPING = 'block_device_mapping'         # property of an image that consists of volume snapshots
CHAINS = ('local', 'nfs')                # volume connection types that may have chains of qcow2 files
# limits of a disk, with the names of libvirt's iotune
LIMITS = (*(f'{what}_{unit}_sec{end}' for end in ('', '_max', '_max_length')
            for unit in ('bytes', 'iops') for what in ('total', 'read', 'write')), 'size_iops_sec')
MAX_LIMIT = 10**15                       # maximum of QEMU for a limit, and for a burst: limit × length


def limits_refusal(limits: Mapping[str, int], prefix: str = '') -> str | None:
    """Return a sentence with the reason why QEMU refuses limits of a disk, or None.

    :param limits: {one of LIMITS: number}; 0 means unlimited
    :param prefix: text before the names in the sentence
    """
    return next(_limit_refusals({name: limits.get(name, 0) for name in LIMITS}, prefix), None)


def _limit_refusals(limits: Mapping[str, int], prefix: str) -> Iterator[str]:
    for unit in ('bytes', 'iops'):
        for end in ('', '_max'):
            total, read, write = (f'{what}_{unit}_sec{end}' for what in ('total', 'read', 'write'))
            if limits[total] and (limits[read] or limits[write]):
                yield (f'{prefix}{total} cannot be combined with {prefix}{read} or {prefix}{write}. Remove one of '
                       'them.')
        for what in ('total', 'read', 'write'):
            name = f'{prefix}{what}_{unit}_sec'
            usual, burst, seconds = (limits[f'{what}_{unit}_sec{end}'] for end in ('', '_max', '_max_length'))
            if burst and not 0 < usual < burst:
                yield f'{name}_max must be more than {name}, which must be set.'
            if seconds and not burst:
                yield f'{name}_max_length needs {name}_max.'
            if max(usual, burst) > MAX_LIMIT:
                yield f'{name} and {name}_max must be at most {MAX_LIMIT}.'
            if burst * seconds > MAX_LIMIT:
                yield f'{name}_max multiplied by {name}_max_length must be at most {MAX_LIMIT}.'
    if limits['size_iops_sec'] > MAX_LIMIT:
        yield f'{prefix}size_iops_sec must be at most {MAX_LIMIT}.'
    if limits['size_iops_sec'] and not any(limits[f'{what}_iops_sec'] for what in ('total', 'read', 'write')):
        yield f'{prefix}size_iops_sec needs {prefix}total_iops_sec, {prefix}read_iops_sec or {prefix}write_iops_sec.'


def is_pc(machine: str) -> bool:
    """Tell whether a machine type is a PC with the chipset i440FX."""
    return machine == 'pc' or machine.startswith('pc-i440fx')


def has_bus(machine: str, bus: str) -> bool:
    """Tell whether guests of a machine type can have disks on a bus."""
    if bus == 'ide':
        return is_pc(machine)
    return bus != 'fdc' or not machine.startswith('virt')


def refusal(source: str, destination: str, kind: str | None, bus: str | None, form: str | None) -> str | None:
    """Return a message if block devices with these attributes are not supported, or None.

    :param source: 'blank', 'image', 'snapshot' or 'volume'
    :param destination: 'local' or 'volume'
    :param kind: device_type of the device
    :param bus: disk_bus of the device
    :param form: guest_format of the device
    """
    for name, value, known in (('device_type', kind, TYPES), ('disk_bus', bus, BUSES)):
        if value and value not in known:
            return f'{name} {value[:40]!r} is unknown; it may be {", ".join(known)}.'
    if form and (source != 'blank' or destination != 'local'):
        return 'guest_format is supported for blank local disks only. Remove it.'
    if form and form not in (SWAP, *FORMATS):
        return f'guest_format {form[:40]!r} is unknown; it may be {", ".join((SWAP, *FORMATS))}.'
    if destination == 'local' and kind not in (None, '', DISK) and (source, kind) != ('image', CDROM):
        return (f'the device_type {kind} is not supported for a local device with the source {source}. Use a volume '
                'instead.')
    if destination == 'local' and bus == 'fdc':
        return 'a local disk cannot use the bus fdc. Select another bus.'
    if bus and (kind == FLOPPY) != (bus == 'fdc'):
        return 'a floppy needs the bus fdc, and other devices cannot use it. Select another bus or device_type.'
    if bus and kind == CDROM and bus not in CDROM_BUSES:
        return f'a cdrom needs one of the buses {", ".join(CDROM_BUSES)}.'
    if bus and kind == LUN and bus != 'scsi':
        return 'a lun needs the bus scsi.'
    return None


def check_data(image: Mapping[str, object]) -> None:
    """Check that an image has data for the disk of a guest or for a volume.

    :raises ImageInactive: no data was uploaded
    :raises ImageUnacceptable: the uploaded data is empty, and the image does not refer to volumes
    """
    properties = image['properties']
    if image['status'] != 'active':
        raise exception.ImageInactive(image_id=image['id'])
    if image['size'] == 0 and not (isinstance(properties, Mapping) and properties.get(MAPPING)):
        raise exception.ImageUnacceptable(image_id=image['id'], reason='it has no data, so a guest cannot boot from it')
