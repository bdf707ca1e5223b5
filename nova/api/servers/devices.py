"""Block devices of a new server: conversion of the request body to rows of block_device_mappings.

The functions are pure. device_sources.py looks up and reserves the sources of devices.
"""
from collections.abc import Mapping
import re
import typing

from nova import exception
from nova.api.servers import schemas as server_schemas
from nova.hardware import disks
from nova.objects.flavor import Flavor
from nova.objects.image import StoredImage
from nova.web import json_text

Device = dict[str, typing.Any]               # row of block_device_mappings
Image = StoredImage | None

Invalid = exception.InvalidBlockDevice
_SEQUENCE = 'Boot sequence for the instance and image/block device mapping combination is not valid.'
_NO_TYPE = 'Specified volume_type is only supported for new volumes.'
_LETTERS = 'abcdefghijklmnopqrstuvwxyz'
ROOT = '/dev/vda'
DEVICE_PATH = re.compile(r'/dev/x?[a-z]?d?[a-z]{1,8}[0-9]{0,3}\Z')


def parse(server: server_schemas.ServerValues, image: Image, flavor: Flavor, most_local: int = -1
          ) -> list[Device]:
    """Return rows of block_device_mappings of one server: root disk, local disks, other volumes.

    :param image: image of imageRef, or None
    :param most_local: maximum number of local disks; -1: unlimited
    :raises BadRequest: the devices are inconsistent, or do not fit the flavor
    """
    old, new = server.get('block_device_mapping'), server.get('block_device_mapping_v2')
    if old and new:
        raise exception.BadRequest('Using different block_device_mapping syntaxes is not allowed in the same '
                                   'request.')
    root_name = root_device(image and image['properties'])
    given = _old_devices(old, root_name, image) if old else [
        _device(each) for each in new or () if not each.get('no_device')]
    backed = bool(image and (image['properties'] or {}).get(disks.MAPPING))
    if backed and image is not None:
        given = _with_those_of(image, given)
    root = _root(given, None if backed else image)
    others = [device for device in given if device is not root]
    for device in given:
        _check(device, image)
    _check_all(given)
    local = [device for device in others if device['destination_type'] == 'local']
    number = len(local) + (root['destination_type'] == 'local')
    if 0 <= most_local < number:
        raise Invalid(reason='You specified more local devices than the limit allows')
    volumes = [device for device in others if device['destination_type'] == 'volume']
    found = [root, *_local_disks(local, flavor), *volumes]
    _name(found, root_name)
    return found


def root_device(properties: Mapping[str, str] | None) -> str:
    """Return the device name of the root disk of an image with these properties."""
    name = (properties or {}).get('root_device_name') or ''
    return name if DEVICE_PATH.match(name) and name[-1].isalpha() else ROOT


def row(source_type: str, **values: object) -> Device:
    return {'source_type': source_type, 'destination_type': 'local', 'device_name': None, 'device_type': None,
            'disk_bus': None, 'guest_format': None, 'boot_index': None, 'image_id': None, 'volume_id': None,
            'snapshot_id': None, 'volume_size': None, 'volume_type': None, 'delete_on_termination': True,
            'tag': None, **values}


# ---- one device --------------------------------------------------------------

def _old_devices(given: list[Device], root_name: str, image: Image) -> list[Device]:
    """Convert block_device_mapping: volumes only; the volume with the root device name is the root disk."""
    found = []
    for device in given:
        if device.get('no_device'):
            continue
        source = 'snapshot' if device.get('snapshot_id') else 'volume'
        if not (device.get('snapshot_id') or device.get('volume_id')):
            raise Invalid(reason='a device has neither volume_id nor snapshot_id.')
        name = _path(device.get('device_name'))
        found.append(row(source, destination_type='volume', volume_id=None if source == 'snapshot' else
                         device['volume_id'], snapshot_id=device.get('snapshot_id'),
                         volume_size=device.get('volume_size'), device_name=name,
                         boot_index=0 if name == root_name else -1,
                         delete_on_termination=device.get('delete_on_termination', False)))
    if found and image is None and not any(device['boot_index'] == 0 for device in found):
        found[0]['boot_index'] = 0
    return found


def _device(device: dict[str, typing.Any]) -> Device:
    """Convert one element of block_device_mapping_v2."""
    source = device.get('source_type')
    if source is None:
        raise Invalid(reason='source_type is missing.')
    uuid = device.get('uuid')
    if source == 'blank':
        if uuid:
            raise Invalid(reason='a blank device has no uuid.')
    elif not (uuid or device.get(f'{source}_id')):
        raise Invalid(reason=f'a device of type {source} needs a uuid.')
    values = {name: device.get(name) for name in ('device_type', 'disk_bus', 'guest_format', 'volume_size', 'tag')}
    values.update(device_name=_path(device.get('device_name')), volume_type=device.get('volume_type') or None)
    if source != 'blank':
        values[f'{source}_id'] = uuid or device[f'{source}_id']
    boot_index = device.get('boot_index')
    destination = device.get('destination_type') or (
        'volume' if source in ('volume', 'snapshot') else 'local')
    refusal = disks.refusal(source, destination, values['device_type'], values['disk_bus'], values['guest_format'])
    if refusal:
        raise Invalid(reason=refusal)
    return row(source, destination_type=destination,
               boot_index=boot_index if boot_index is None or boot_index >= 0 else -1,
               delete_on_termination=device.get('delete_on_termination', destination == 'local'), **values)


def _path(name: str | None) -> str | None:
    """Complete a device name: vdb becomes /dev/vdb. None stays None.

    :raises InvalidBlockDevice: the name is not a disk's name
    """
    if not name:
        return None
    path = name if name.startswith('/') else f'/dev/{name}'
    if not DEVICE_PATH.match(path):
        raise Invalid(reason=f'device_name {name[:40]!r} is not a device name.')
    return path


def _check(device: Device, image: Image) -> None:
    """Check the combination of a device's source and destination.

    :raises InvalidBlockDevice: unsupported combination
    """
    check = _CHECKS[device['destination_type']]
    check(device, device['source_type'], image)


def _check_local(device: Device, source: str, image: Image) -> None:
    if source in ('volume', 'snapshot'):
        raise Invalid(reason=f'Mapping {source} to local is not supported.')
    is_root = device['boot_index'] == 0
    if source == 'image' and not (is_root and image is not None and device['image_id'] == image['id']):
        raise Invalid(reason='Mapping image to local is only supported for a root disk that is made of imageRef.')
    if source == 'blank' and is_root:
        raise Invalid(reason='a local root disk is made from an image.')
    if device['volume_type']:
        raise Invalid(reason=_NO_TYPE)


def _check_volume(device: Device, source: str, _image: Image) -> None:
    if source == 'image' and not device['volume_size']:
        raise Invalid(reason="Images with destination_type 'volume' need to have a non-zero size specified")
    if source == 'blank' and not device['volume_size']:
        raise Invalid(reason="Blank volumes (source: 'blank', dest: 'volume') need to have a non-zero size")
    if source == 'volume' and device['volume_type']:
        raise Invalid(reason=_NO_TYPE)


_CHECKS: dict[str, typing.Callable[[Device, str, Image], None]] = {'local': _check_local, 'volume': _check_volume}


def _check_all(given: list[Device]) -> None:
    for name, reason in (('tag', 'Two devices have the same tag.'), ('volume_id', 'A volume is named twice.'),
                         ('device_name', 'Two devices have the same device_name.')):
        values = [device[name] for device in given if device[name]]
        if len(values) != len(set(values)):
            raise Invalid(reason=reason)
    order = sorted(device['boot_index'] for device in given if (device['boot_index'] or 0) > 0)
    if order != list(range(1, len(order) + 1)):
        raise Invalid(reason=_SEQUENCE)


def _root(given: list[Device], image: Image) -> Device:
    """Return the boot device; default: the disk of the image."""
    roots = [device for device in given if device['boot_index'] == 0]
    if len(roots) > 1:
        raise Invalid(reason=_SEQUENCE)
    if roots:
        return roots[0]
    if image is None:
        raise Invalid(reason=_SEQUENCE) if given else exception.BadRequest('Invalid imageRef provided.')
    return row('image', image_id=image['id'], boot_index=0, device_type='disk')


def _local_disks(given: list[Device], flavor: Flavor) -> list[Device]:
    """Return ephemeral disks and swap: the requested disks, or else the disks of the flavor."""
    swaps = [device for device in given if device['guest_format'] == 'swap']
    others = [device for device in given if device['guest_format'] != 'swap']
    if len(swaps) > 1 or sum(device['volume_size'] or 0 for device in swaps) > flavor['swap']:
        raise Invalid(reason='Swap drive requested is larger than instance type allows.')
    ephemerals = _sized(others, flavor['ephemeral_gb'], {})
    if others and not 0 < sum(device['volume_size'] for device in ephemerals) <= flavor['ephemeral_gb']:
        raise Invalid(reason='Ephemeral disks requested are larger than the instance type allows.')
    return [*ephemerals, *_sized(swaps, flavor['swap'], {'guest_format': 'swap'})]


def _sized(given: list[Device], size: int, form: dict[str, str]) -> list[Device]:
    """Return the requested disks of one kind with default sizes, or the disk of the flavor if none was requested.

    :param size: size in the flavor; 0: the flavor has no such disk
    :param form: additional fields of such a row
    """
    if not given and size:
        return [row('blank', volume_size=size, boot_index=-1, **form)]
    for device in given:
        device['volume_size'] = device['volume_size'] or size
    return given


# ---- images of volumes -------------------------------------------------------

def _with_those_of(image: StoredImage, given: list[Device]) -> list[Device]:
    """Return the image's devices that the request does not replace (by name or as boot device), and the request's."""
    try:
        listed = json_text.parse(image['properties'][disks.MAPPING])
        if not isinstance(listed, list):
            raise TypeError
        listed = [server_schemas.DEVICE_V2.validate(
            {key: value for key, value in each.items() if key in _NAMED and value is not None}, _VERSION)
            for each in listed[:server_schemas.MAX_DEVICES]]
    except (ValueError, TypeError, AttributeError, exception.BadRequest):
        raise exception.ImageUnacceptable(image_id=image['id'], reason='its block_device_mapping is not usable'
                                          ) from None
    own = [_device(each) for each in listed]
    if any(device['boot_index'] == 0 for device in own):
        # openstackclient also lists the image of --image as a local root disk, but this image has no data for a disk
        given = [device for device in given if (device['source_type'], device['destination_type'], device['image_id'])
                 != ('image', 'local', image['id'])]
    names = {device['device_name'] for device in given} - {None}
    booted = any(device['boot_index'] == 0 for device in given)
    return [*(device for device in own if device['device_name'] not in names
              and not (booted and device['boot_index'] == 0)), *given]


_NAMED = ('source_type', 'destination_type', 'snapshot_id', 'volume_size', 'boot_index', 'device_name', 'device_type',
          'disk_bus', 'delete_on_termination', 'tag')
_VERSION = 67                # first minor version at which block_device_mapping_v2 supports all keys of _NAMED


def is_volume_backed(devices: list[Device]) -> bool:
    return devices[0]['destination_type'] == 'volume'


# ---- device names ------------------------------------------------------------

def _name(devices: list[Device], root_name: str) -> None:
    """Assign missing device names: the root name to the first disk, the next free names to the others."""
    devices[0]['device_name'] = devices[0]['device_name'] or root_name
    taken = {device['device_name'] for device in devices}
    for device in devices[1:]:
        device['device_name'] = device['device_name'] or next_name(taken, root_name)
        taken.add(device['device_name'])


def next_name(taken: set[str | None], root_name: str) -> str:
    """Return the next free device name.

    :raises TooManyDiskDevices: all letters are in use
    """
    used = {name[-1] for name in taken if name}
    for letter in _LETTERS[1:]:
        if letter not in used:
            return root_name[:-1] + letter
    raise exception.TooManyDiskDevices(maximum=len(_LETTERS))


def check_number(devices: list[Device], count: int, most: int) -> None:
    """Check the number of devices.

    :param count: maximum number of servers
    :param most: maximum number of devices of a server
    :raises BadRequest, TooManyDiskDevices: too many devices, or a volume for several servers
    """
    if count > 1 and any(device['volume_id'] for device in devices):
        raise exception.BadRequest('Cannot attach one or more volumes to multiple instances')
    if len(devices) > most:
        raise exception.TooManyDiskDevices(maximum=most)
