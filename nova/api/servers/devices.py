"""The block devices of a new server: from the body of the request to rows of block_device_mappings.

``parse`` is pure; ``read`` gets what is named from the block storage and the images, ``fitted`` judges that.
"""
import re
import typing

from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import schemas as server_schemas
from nova.db.cells import cells as db_cells
from nova.db.servers import block_devices
from nova.web import json_text

Device = dict[str, typing.Any]               # a row of block_device_mappings
Source = dict[str, typing.Any] | None        # a volume, a snapshot, an image
Image = dict[str, typing.Any] | None

Invalid = exception.InvalidBlockDevice
_SEQUENCE = 'Boot sequence for the instance and image/block device mapping combination is not valid.'
_LETTERS = 'abcdefghijklmnopqrstuvwxyz'
ROOT = '/dev/vda'
DEVICE_PATH = re.compile(r'/dev/x?[a-z]?d?[a-z]{1,8}[0-9]{0,3}\Z')
MAPPING = 'block_device_mapping'           # property of an image that is made of volume snapshots
# what the metadata of a volume's image has besides its properties, and what is about other volumes than these
_NO_PROPERTIES = frozenset({MAPPING, 'bdm_v2', 'container_format', 'disk_format', 'min_disk', 'min_ram', 'size',
                            'checksum', 'image_id', 'image_name', 'signature_verified'})


def parse(server: dict[str, typing.Any], image: Image, flavor: dict[str, typing.Any], most_local: int = -1
          ) -> list[Device]:
    """Rows of block_device_mappings of one server: its root disk first, the local disks, the other volumes.

    :param image: the image of imageRef, None without one
    :param most_local: local disks that may be requested at most; -1: no limit
    :raises BadRequest: they contradict each other, or the flavor
    """
    old, new = server.get('block_device_mapping'), server.get('block_device_mapping_v2')
    if old and new:
        raise exception.BadRequest('Using different block_device_mapping syntaxes is not allowed in the same '
                                   'request.')
    root_name = root_device(image)
    given = _old_devices(old, root_name, image) if old else [
        _device(each) for each in new or () if not each.get('no_device')]
    backed = bool(image and (image['properties'] or {}).get(MAPPING))
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


def root_device(image: Image) -> str:
    """Name of the root disk."""
    name = ((image or {}).get('properties') or {}).get('root_device_name') or ''
    return name if DEVICE_PATH.match(name) and name[-1].isalpha() else ROOT


SWAP, FILE_SYSTEM = 'swap', 'ext4'           # what hosts put on the local disks that they make
_LOCAL = {'device_type': 'Only volumes are anything else than disks.',
          'guest_format': f'Blank ones have {FILE_SYSTEM}, or are {SWAP}.',
          'disk_bus': 'All are on the bus that hw_disk_bus of the image names.'}


def row(source_type: str, **values: typing.Any) -> Device:
    return {'source_type': source_type, 'destination_type': 'local', 'device_name': None, 'device_type': None,
            'disk_bus': None, 'guest_format': None, 'boot_index': None, 'image_id': None, 'volume_id': None,
            'snapshot_id': None, 'volume_size': None, 'volume_type': None, 'delete_on_termination': True,
            'tag': None, **values}


# ---- one device --------------------------------------------------------------

def _old_devices(given: list[Device], root_name: str, image: Image) -> list[Device]:
    """The first form of a mapping: always volumes; the one that is named as the root disk is it."""
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
    """The second form."""
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
    for name, length in (('device_type', 16), ('disk_bus', 16), ('guest_format', 16)):
        if len(text := values[name] or '') > length:
            raise Invalid(reason=f'{name} {text[:40]!r} is unknown.')
    boot_index = device.get('boot_index')
    destination = device.get('destination_type') or (
        'volume' if source in ('volume', 'snapshot') else 'local')
    return row(source, destination_type=destination,
               boot_index=boot_index if boot_index is None or boot_index >= 0 else -1,
               delete_on_termination=device.get('delete_on_termination', destination == 'local'), **values)


def _path(name: str | None) -> str | None:
    """/dev/vdb of vdb; None without a name.

    :raises InvalidBlockDevice: it is no name of a disk
    """
    if not name:
        return None
    path = name if name.startswith('/') else f'/dev/{name}'
    if not DEVICE_PATH.match(path):
        raise Invalid(reason=f'device_name {name[:40]!r} is no device.')
    return path


def _check(device: Device, image: Image) -> None:
    """:raises InvalidBlockDevice: source and destination do not fit"""
    source, destination = device['source_type'], device['destination_type']
    if destination == 'local' and source in ('volume', 'snapshot'):
        raise Invalid(reason=f'Mapping {source} to local is not supported.')
    if destination == 'local' and source == 'image' and (
            device['boot_index'] != 0 or image is None or device['image_id'] != image['id']):
        raise Invalid(reason='Mapping image to local is only supported for a root disk that is made of imageRef.')
    if destination == 'local' and source == 'blank' and device['boot_index'] == 0:
        raise Invalid(reason='a local root disk is made from an image.')
    if destination == 'volume' and source == 'image' and not device['volume_size']:
        raise Invalid(reason="Images with destination_type 'volume' need to have a non-zero size specified")
    if destination == 'volume' and source == 'blank' and not device['volume_size']:
        raise Invalid(reason="Blank volumes (source: 'blank', dest: 'volume') need to have a non-zero size")
    if device['volume_type'] and (source == 'volume' or destination == 'local'):
        raise Invalid(reason='Specified volume_type is only supported for new volumes.')
    if destination == 'volume' and device['guest_format']:
        raise Invalid(reason='guest_format is for local disks; volumes are given to the guest as they are.')
    if destination == 'local':
        _check_local(device, image)


def _check_local(device: Device, image: Image) -> None:
    """:raises InvalidBlockDevice: hosts make no local disk of that kind"""
    formats = (SWAP, FILE_SYSTEM) if device['source_type'] == 'blank' else ()
    bus = ((image or {}).get('properties') or {}).get('hw_disk_bus', 'virtio') if image else None
    for name, value, known in (('device_type', device['device_type'], ('disk',)),
                               ('guest_format', device['guest_format'], formats),
                               ('disk_bus', device['disk_bus'], (bus,))):
        if value and value not in known:
            raise Invalid(reason=f'{name} {value!r} is none of a local disk here. {_LOCAL[name]}')


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
    """The device that the server boots from; the image's disk when none is named."""
    roots = [device for device in given if device['boot_index'] == 0]
    if len(roots) > 1:
        raise Invalid(reason=_SEQUENCE)
    if roots:
        return roots[0]
    if image is None:
        raise Invalid(reason=_SEQUENCE) if given else exception.BadRequest('Invalid imageRef provided.')
    return row('image', image_id=image['id'], boot_index=0, device_type='disk')


def _local_disks(given: list[Device], flavor: dict[str, typing.Any]) -> list[Device]:
    """Ephemeral disks and swap: the requested ones, else those of the flavor."""
    swaps = [device for device in given if device['guest_format'] == SWAP]
    others = [device for device in given if device['guest_format'] != SWAP]
    if len(swaps) > 1 or sum(device['volume_size'] or 0 for device in swaps) > flavor['swap']:
        raise Invalid(reason='Swap drive requested is larger than instance type allows.')
    for device in others:
        device['volume_size'] = device['volume_size'] or flavor['ephemeral_gb']
    if sum(device['volume_size'] for device in others) > flavor['ephemeral_gb'] or (
            others and not flavor['ephemeral_gb']):
        raise Invalid(reason='Ephemeral disks requested are larger than the instance type allows.')
    if not others and flavor['ephemeral_gb']:
        others = [row('blank', volume_size=flavor['ephemeral_gb'], boot_index=-1)]
    if not swaps and flavor['swap']:
        swaps = [row('blank', volume_size=flavor['swap'], guest_format=SWAP, boot_index=-1)]
    for device in swaps:
        device['volume_size'] = device['volume_size'] or flavor['swap']
    return others + swaps


# ---- images that are made of volumes -----------------------------------------

def _with_those_of(image: dict[str, typing.Any], given: list[Device]) -> list[Device]:
    """The devices that the image names, those of the request in the place of the ones they override."""
    try:
        listed = json_text.parse(image['properties'][MAPPING])
        listed = [server_schemas.DEVICE_V2.validate(
            {key: value for key, value in each.items() if key in _NAMED and value is not None}, _VERSION)
            for each in listed[:server_schemas.MAX_DEVICES]]
    except (ValueError, TypeError, AttributeError, exception.BadRequest):
        raise exception.ImageUnacceptable(image_id=image['id'], reason='its block_device_mapping is not usable'
                                          ) from None
    own = [_device(each) for each in listed]
    if any(device['boot_index'] == 0 for device in own):
        # openstackclient names the image of --image as a local root disk, too; this one has no data for that
        given = [device for device in given if (device['source_type'], device['destination_type'], device['image_id'])
                 != ('image', 'local', image['id'])]
    names = {device['device_name'] for device in given} - {None}
    booted = any(device['boot_index'] == 0 for device in given)
    return [*(device for device in own if device['device_name'] not in names
              and not (booted and device['boot_index'] == 0)), *given]


_NAMED = ('source_type', 'destination_type', 'snapshot_id', 'volume_size', 'boot_index', 'device_name', 'device_type',
          'disk_bus', 'delete_on_termination', 'tag')
_VERSION = 67                # where a mapping may have all of these


# ---- names -------------------------------------------------------------------

def _name(devices: list[Device], root_name: str) -> None:
    """Give names to those that have none: the root disk the first one, every other the next free letter."""
    devices[0]['device_name'] = devices[0]['device_name'] or root_name
    taken = {device['device_name'] for device in devices}
    for device in devices[1:]:
        device['device_name'] = device['device_name'] or next_name(taken, root_name)
        taken.add(device['device_name'])


def next_name(taken: set[str | None], root_name: str) -> str:
    """The first device name with a letter that no other has.

    :raises TooManyDiskDevices: every letter is taken
    """
    used = {name[-1] for name in taken if name}
    for letter in _LETTERS[1:]:
        if letter not in used:
            return root_name[:-1] + letter
    raise exception.TooManyDiskDevices(maximum=len(_LETTERS))


# ---- what is there -----------------------------------------------------------

def is_volume_backed(devices: list[Device]) -> bool:
    return devices[0]['destination_type'] == 'volume'


def check_number(devices: list[Device], count: int, most: int) -> None:
    """
    :param count: servers that are made at most
    :param most: devices that a server may have
    :raises BadRequest, TooManyDiskDevices: there are too many of them
    """
    if count > 1 and any(device['volume_id'] for device in devices):
        raise exception.BadRequest('Cannot attach one or more volumes to multiple instances')
    if len(devices) > most:
        raise exception.TooManyDiskDevices(maximum=most)


def read(req: api_request.Request, devices: list[Device]) -> list[Source]:
    """What each device is made of, as the block storage or the image service has it; None for local disks and blanks.

    :raises BadRequest: a volume, a snapshot, an image or a type is not there, or not for the caller
    """
    try:
        return [_read(req, device) if device['destination_type'] == 'volume' else None for device in devices]
    except exception.NotFound as error:
        raise Invalid(reason=error.message) from None


def _read(req: api_request.Request, device: Device) -> Source:
    volumes, source, found = req.services.volumes, device['source_type'], None
    if source == 'volume':
        found = volumes.get(req.context, device['volume_id'])
        check_multiattach(req, found)
    elif source == 'snapshot':
        found = volumes.get_snapshot(req.context, device['snapshot_id'])
    elif source == 'image':
        found = server_category.find_image(req, device['image_id'])
    if device['volume_type']:                # of a new volume, see ``_check``
        volumes.check_type(req.context, device['volume_type'])
    return found


def properties_of(devices: list[Device], sources: list[Source], image: Source) -> dict[str, typing.Any]:
    """The properties that a server takes from its root volume, else from the image."""
    root, source = devices[0], sources[0]
    found = None
    if root['destination_type'] == 'volume' and source is not None:
        found = source['properties'] if root['source_type'] == 'image' else source.get('image_metadata')
    properties = found or (image or {}).get('properties') or {}
    return {key: value for key, value in properties.items() if key not in _NO_PROPERTIES}


def fitted(devices: list[Device], sources: list[Source], image: Source
           ) -> tuple[dict[str, typing.Any], list[Device]]:
    """(properties of the root disk, the devices with the sizes of what they are made of).

    :raises BadRequest: what a device is made of does not fit
    """
    found = []
    for number, (device, source) in enumerate(zip(devices, sources, strict=True)):
        # with an image named besides, the volume may be one that does not boot yet
        size = _SIZES[device['source_type']](device, source, number == 0 and image is None) if source else None
        found.append({**device, 'volume_size': size or device['volume_size']})
    return properties_of(devices, sources, image), found


def _size_of_volume(device: Device, volume: dict[str, typing.Any], root: bool) -> int:
    if root and not volume['bootable']:
        raise Invalid(reason=f'Volume {volume["id"]} is not bootable.')
    if volume['status'] != 'available' and not (volume['multiattach'] and volume['status'] == 'in-use'):
        raise exception.InvalidVolume(reason=f"volume '{volume['id']}' status must be 'available'. Currently in "
                                             f"'{volume['status']}'")
    return volume['size']


def check_multiattach(req: api_request.Request, volume: dict[str, typing.Any]) -> None:
    """
    :raises BadRequest: this version does not know volumes of several servers
    :raises VolumeNotFound: an administrative server has it, and the caller is no administrator
    """
    if volume['multiattach'] and not req.has('multiattach'):
        raise exception.BadRequest('Multiattach volumes are only supported starting with compute API version 2.60.')
    if volume['multiattach']:
        server_category.check_volume(req, volume)


def _size_of_snapshot(device: Device, snapshot: dict[str, typing.Any], root: bool) -> int:
    if device['volume_size'] and device['volume_size'] < snapshot['size']:
        raise Invalid(reason=f'The volume of snapshot {snapshot["id"]} needs {snapshot["size"]} GB at least.')
    return device['volume_size'] or snapshot['size']


def _size_of_image(device: Device, image: dict[str, typing.Any], root: bool) -> int:
    if image['status'] != 'active':
        raise exception.ImageInactive(image_id=image['id'])
    if device['volume_size'] < (image.get('min_disk') or 0):
        raise exception.FlavorTooSmall('Volume size is smaller than the minimum size specified in image metadata. '
                                       f'Volume size is {device["volume_size"]} GB, minimum size is '
                                       f'{image["min_disk"]} GB.')
    return device['volume_size']


# of a new volume, or one that is there: size in GB. A blank root volume is made of nothing: what boots then is another
# disk, the network or a rescue image.
_SIZES = {'volume': _size_of_volume, 'snapshot': _size_of_snapshot, 'image': _size_of_image}


def check_rebuild(req: api_request.Request, cell: db_cells.Cell, server: api_request.Row,
                  image: dict[str, typing.Any]) -> bool:
    """Whether the root volume of a server gets other contents by a rebuild with this image.

    :raises BadRequest: that is not possible at this version, or the image does not fit
    """
    with cell.db.reader() as conn:
        root = next((row for row in block_devices.by_instance(conn, server['uuid']) if row['boot_index'] == 0), None)
    if root is None or not root['volume_id']:
        raise exception.InstanceNotReady(instance_id=server['uuid'])
    volume = req.services.volumes.get(req.context, root['volume_id'])
    if volume['image_metadata'].get('image_id') == image['id']:
        return False
    if not req.has('rebuild_volume_backed'):
        raise exception.BadRequest('Unable to rebuild with a different image for a volume-backed server.')
    needed = max(image.get('min_disk') or 0, -(-(image.get('size') or 0) // 2 ** 30))
    if volume['size'] < needed:
        raise exception.FlavorTooSmall(f'The root volume has {volume["size"]} GB, the image needs {needed} GB.')
    return True


# ---- holding them ------------------------------------------------------------

def reserve(req: api_request.Request, devices: list[Device], server_id: str) -> list[Device]:
    """Reserve the volumes that are there for a new server; the devices with their attachments.

    :raises InvalidVolume: another server was faster
    """
    held = []
    try:
        for device in devices:
            if device['volume_id']:
                held.append({**device, 'attachment_id': req.services.volumes.attach(
                    req.context, device['volume_id'], server_id)})
            elif device['destination_type'] == 'volume':
                held.append({**device, 'attachment_id': None})
    except exception.NovaException as error:
        release(req, held)
        if isinstance(error, exception.NotFound):
            raise Invalid(reason=error.message) from None
        raise
    return held


def release(req: api_request.Request, devices: list[Device]) -> None:
    """Take back what ``reserve`` did."""
    for device in devices:
        if device.get('attachment_id'):
            req.services.volumes.detach(req.context, device['attachment_id'])
