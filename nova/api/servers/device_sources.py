"""What the block devices of a server are made of: volumes, snapshots and images, read, judged and reserved."""
import typing

from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import devices as server_devices
from nova.db.cells import cells as db_cells
from nova.db.servers import block_devices
from nova.hardware import disks

Device = server_devices.Device
Source = dict[str, typing.Any] | None        # a volume, a snapshot, an image

Invalid = exception.InvalidBlockDevice
# what the metadata of a volume's image has besides its properties, and what is about other volumes than these
_NO_PROPERTIES = frozenset({disks.MAPPING, 'bdm_v2', 'container_format', 'disk_format', 'min_disk', 'min_ram',
                            'size', 'checksum', 'image_id', 'image_name', 'signature_verified'})


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
        found = server_category.find_volume(req, device['volume_id'])
        check_multiattach(req, found)
    elif source == 'snapshot':
        found = server_category.find_snapshot(req, device['snapshot_id'])
        if device['boot_index'] == 0 and 'bootable' not in found:            # of Cinder: its volume knows
            found = {**found, 'bootable': volumes.get(req.context, found['volume_id'])['bootable']}
    elif source == 'image':
        found = server_category.find_image(req, device['image_id'])
    if device['volume_type']:                # of a new volume, see devices.py
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
    """
    if volume['multiattach'] and not req.has('multiattach'):
        raise exception.BadRequest('Multiattach volumes are only supported starting with compute API version 2.60.')


def _size_of_snapshot(device: Device, snapshot: dict[str, typing.Any], root: bool) -> int:
    if root and not snapshot.get('bootable', True):
        raise Invalid(reason=f'Snapshot {snapshot["id"]} is of a volume that is not bootable.')
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
