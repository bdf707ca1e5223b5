"""Guest record that a host sends to another host. The receiver derives its own record from the sent record.

The receiver accepts the guest's properties, but uses its own directories, owners and network backends. It uses only the
file name of each path, which must be a name that this driver creates.
"""
import dataclasses
import os
import re
from typing import Any

from nova import exception
from nova.hardware import architectures
from nova.hardware import guest_options
from nova.objects.network_info import Vif
from nova.runtime import versioned_records
from nova.virt.driver import GuestLocation
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import storage

DISK = re.compile(r'disk(\.[a-z0-9]{1,20})?\Z')
# file name of a cached image, or of the copy of an image that is sent with a guest
BASE = re.compile(r'([0-9A-Za-z][0-9A-Za-z_-]{0,63}\.(raw|qcow2)|disk\.base)\Z')
TARGET = re.compile(r'[a-z]{2}[a-z]\Z')
FORMATS = ('raw', 'qcow2')
DISKS = 26                               # maximum number of disks; a guest with only volumes has none
# Fields that each host derives from the conductor's data and its own options. If they came from another host,
# a volume path, a device address or the program of a share could give that host access to this one.
OWN = ('volumes', 'consoles', 'rescued', 'hostdevs', 'interfaces', 'adopted', 'shares', 'memory_source')
NOT_KEPT = ('size', 'pooled', 'source')
SETTING = 255                            # maximum number of characters of a setting
BOOT_FILES = ('kernel', 'ramdisk')
SIZES = range(1 << 50)                   # valid sizes of a disk in bytes
_DISK_FIELDS = versioned_records.fields_of(xml.Disk).union(NOT_KEPT)


def packed(guest: xml.Guest, directory: str | None = None) -> dict[str, Any]:
    """Return the record as JSON-able data with the size of each disk, which is read from the disk's header.

    :param directory: current directory of the disks; None: as recorded
    """
    # send known fields only: the other host refuses unknown fields, and this host cannot interpret them
    values = {name: value for name, value in known(guest.to_record()).items() if name not in OWN}
    for disk in values['disks']:
        path = os.path.join(directory, os.path.basename(disk['file'])) if directory else disk['file']
        # a disk in a pool is not sent: if the hosts do not share the pool, the move is refused
        disk['size'] = 0 if disk['source'] else local_files.size_of(path, disk['format'])
        if disk.pop('source'):
            disk['pooled'] = True
    return values


def sizes(values: dict[str, Any]) -> dict[str, int]:
    """Return {name of the disk's file: bytes}.

    :raises VirtError: as in ``unpacked``
    """
    found = {os.path.basename(str(disk.get('file'))): disk.get('size') for disk in values.get('disks', ())}
    if any(type(size) is not int or size not in SIZES for size in found.values()):
        raise _refusal()
    return found


def known(values: dict[str, Any]) -> dict[str, Any]:
    """Select the fields of a guest and its disks that this release knows."""
    return {**{name: value for name, value in values.items() if name in xml.FIELDS},
            'disks': [{name: value for name, value in disk.items() if name in _DISK_FIELDS}
                      for disk in values['disks']]}


def unpacked(values: dict[str, Any], uuid: str, stored: storage.Storage, virt_type: str,
             network_info: list[Vif]) -> xml.Guest:
    """Return the Guest with the paths and networks of this host.

    :param values: result of ``packed`` on the other host
    :raises VirtError: the values are invalid
    """
    try:
        if values != known(values):      # this host must not ignore a field that it does not know
            raise _refusal()
        sent = {name: value for name, value in values.items() if name not in OWN}
        guest = xml.Guest.from_dict({**sent, 'interfaces': [], 'disks': [
            {name: value for name, value in disk.items() if name not in NOT_KEPT} for disk in values['disks']]})
        pooled = [disk.get('pooled') is True for disk in values['disks']]
        disks = [_own(disk, uuid, stored, each) for disk, each in zip(guest.disks, pooled, strict=True)]
    except (KeyError, TypeError, AttributeError):
        raise _refusal() from None
    hardware = guest.hardware
    machine, model = str(hardware.machine), str(hardware.vif_model)
    if (guest.uuid != uuid or len(disks) > DISKS or not xml.MACHINE_TYPE.match(machine)
            or model not in xml.VIF_MODELS or len({disk.file for disk in disks}) < len(disks)
            or not _are_settings(hardware.settings) or hardware.arch not in (None, *architectures.MACHINES)
            or hardware.serial_ports not in range(1, guest_options.MAX_SERIAL_PORTS + 1)):
        raise _refusal()
    guest.boot.nvram = stored.path(uuid, spec.NVRAM)
    for part in BOOT_FILES:
        setattr(guest.boot, part, stored.path(uuid, part) if getattr(guest.boot, part) else None)
    guest.identity.owner, hardware.virt_type, guest.disks = stored.directory, virt_type, disks
    guest.console_log = stored.path(uuid, 'console.log')
    guest.interfaces = spec.interfaces(network_info, guest)
    guest.resources.cell = guest.resources.cpuset = None
    guest.ownership = xml.Ownership()
    return guest


def place(source: GuestLocation, uuid: str) -> tuple[str, str]:
    """Return (address of the other host's libvirt, directory of the guest's files there).

    :param source: {'address', 'directory'} reported by that host
    :raises VirtError: the directory may belong to another guest, because its name does not contain ``uuid``
    """
    given = source if isinstance(source, dict) else {}
    address, directory = given.get('address'), given.get('directory')
    names = directory.split('/') if isinstance(directory, str) else []
    if not isinstance(address, str) or len(names) < 2 or names[0] or '..' in names or names[-1] not in (
            uuid, uuid + storage.BACKUP):
        raise _refusal()
    return address, '/'.join(names)


def check_disk(disk: xml.Disk) -> None:
    """Check the data file of a received disk.

    :raises VirtError: the disk names another file of this host for its data
    """
    if disk.format == 'qcow2' and image_cache.has_data_file(disk.file):
        raise _refusal()


def check_image(path: str, disk_format: str | None) -> None:
    """Check a received image.

    :raises VirtError: the image's format differs from the declared format, or the image names another file of this host
    """
    if image_cache.header_refusal(path, disk_format or ''):
        raise _refusal()


def _are_settings(settings: object) -> bool:
    return isinstance(settings, dict) and all(
        isinstance(value, str) and len(value) <= SETTING for pair in settings.items() for value in pair)


def _own(disk: xml.Disk, uuid: str, stored: storage.Storage, pooled: bool) -> xml.Disk:
    name, base = os.path.basename(disk.file), os.path.basename(disk.backing_file or '')
    if base and (not BASE.match(base) or disk.backing_format is None):
        raise _refusal()
    if not DISK.match(name) or disk.format not in FORMATS or disk.bus not in xml.DISK_BUSES or not TARGET.match(
            disk.target) or disk.backing_format not in (None, *FORMATS) or disk.secret not in (None, uuid) or (
            disk.secret and pooled):
        raise _refusal()
    if pooled:                           # this host's own configuration locates the pool
        return stored.backends.pooled(disk, stored.path(uuid, name))
    # The cache mode depends on the file system of this host.
    cache = disk.cache if disk.readonly else stored.backends.files.cache
    return dataclasses.replace(
        disk, file=stored.path(uuid, name), cache=cache,
        backing_file=stored.cache.path_of(base) if base else None)


def _refusal() -> exception.VirtError:
    return exception.VirtError(operation='accept the guest', reason='the record from its host is not valid')
