"""Sources of the block devices of servers: volumes, snapshots and images. Lookup, validation, reservation."""
from collections.abc import Iterator, Mapping
import typing

from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import devices as server_devices
from nova.db.cells import cells as db_cells
from nova.db.servers import block_devices
from nova.db.tables.rows import InstancesRow
from nova.hardware import disks
from nova.objects.image import StoredImage
from nova.volume.api import Volume

Device = server_devices.Device
Source = Mapping[str, typing.Any] | None          # volume, snapshot or image

Invalid = exception.InvalidBlockDevice
# keys in a volume's image metadata that are not properties of the image, or that describe other volumes
_NO_PROPERTIES = frozenset({disks.MAPPING, 'bdm_v2', 'container_format', 'disk_format', 'min_disk', 'min_ram',
                            'size', 'checksum', 'image_id', 'image_name', 'signature_verified'})


def read(req: api_request.Request, devices: list[Device]) -> list[Source]:
    """Look up the source of each device; None for local disks and blank devices.

    :raises BadRequest: a volume, snapshot, image or volume type is not visible to the caller
    """
    try:
        return [_read(req, device) if device['destination_type'] == 'volume' else None for device in devices]
    except exception.NotFound as error:
        raise Invalid(reason=error.message) from None


def _read(req: api_request.Request, device: Device) -> Source:
    volumes, source = req.services.volumes, device['source_type']
    found: Source = None
    if source == 'volume':
        found = server_category.find_volume(req, device['volume_id'])
        check_multiattach(req, found)
    elif source == 'snapshot':
        found = server_category.find_snapshot(req, device['snapshot_id'])
        if device['boot_index'] == 0 and 'bootable' not in found:            # Cinder's snapshots lack this key
            found = {**found, 'bootable': volumes.get(req.context, found['volume_id'])['bootable']}
    elif source == 'image':
        found = server_category.bootable_image(req, device['image_id'])
    if source != 'volume':
        volumes.check_create(req.context, image_id=device['image_id'] if source == 'image' else None,
                             snapshot_id=device['snapshot_id'] if source == 'snapshot' else None,
                             volume_type=device['volume_type'])
    if device['volume_type']:                # only new volumes may name a type; see devices.py
        volumes.check_type(req.context, device['volume_type'])
    return found


def properties_of(devices: list[Device], sources: list[Source], image: StoredImage | None) -> dict[str, str]:
    """Return the image properties of a server: from its root volume, or from the image."""
    root, source = devices[0], sources[0]
    found = None
    if root['destination_type'] == 'volume' and source is not None:
        found = source['properties'] if root['source_type'] == 'image' else source.get('image_metadata')
    properties = found or image and image['properties'] or {}
    return {key: value for key, value in properties.items() if key not in _NO_PROPERTIES}


def fitted(devices: list[Device], sources: list[Source], image: StoredImage | None
           ) -> tuple[dict[str, str], list[Device]]:
    """Return (properties of the root disk, devices with sizes).

    :raises BadRequest: a device does not fit its source
    """
    found = []
    for number, (device, source) in enumerate(zip(devices, sources, strict=True)):
        # if imageRef is set too, the volume need not be bootable
        size = _SIZES[device['source_type']](device, source, number == 0 and image is None) if source else None
        found.append({**device, 'volume_size': size or device['volume_size']})
    return properties_of(devices, sources, image), found


def _size_of_volume(device: Device, volume: Mapping[str, typing.Any], root: bool) -> int:
    if root and not volume['bootable']:
        raise Invalid(reason=f'Volume {volume["id"]} is not bootable.')
    if volume['status'] != 'available' and not (volume['multiattach'] and volume['status'] == 'in-use'):
        raise exception.InvalidVolume(reason=f"volume '{volume['id']}' status must be 'available'. Currently in "
                                             f"'{volume['status']}'")
    return volume['size']


def check_multiattach(req: api_request.Request, volume: Volume) -> None:
    """If a volume is multiattach, check that the version of the request supports this.

    :raises BadRequest: this version does not support multiattach volumes
    """
    if volume['multiattach'] and not req.has('multiattach'):
        raise exception.BadRequest('Multiattach volumes are only supported starting with compute API version 2.60.')


def _size_of_snapshot(device: Device, snapshot: Mapping[str, typing.Any], root: bool) -> int:
    if root and not snapshot.get('bootable', True):
        raise Invalid(reason=f'Snapshot {snapshot["id"]} belongs to a volume that is not bootable.')
    if device['volume_size'] and device['volume_size'] < snapshot['size']:
        raise Invalid(reason=f'The volume of snapshot {snapshot["id"]} needs {snapshot["size"]} GB at least.')
    return device['volume_size'] or snapshot['size']


def _size_of_image(device: Device, image: Mapping[str, typing.Any], root: bool) -> int:
    disks.check_data(image)
    if device['volume_size'] < (image.get('min_disk') or 0):
        raise exception.FlavorTooSmall('Volume size is smaller than the minimum size specified in image metadata. '
                                       f'Volume size is {device["volume_size"]} GB, minimum size is '
                                       f'{image["min_disk"]} GB.')
    return device['volume_size']


# source type -> function that returns the size of the volume in GB. A blank root volume has no source; the server boots
# from another disk, the network or a rescue image.
_SIZES = {'volume': _size_of_volume, 'snapshot': _size_of_snapshot, 'image': _size_of_image}


def check_rebuild(req: api_request.Request, cell: db_cells.Cell, server: InstancesRow, image: StoredImage
                  ) -> bool:
    """Return True if a rebuild with this image replaces the content of the root volume.

    :raises BadRequest: not supported at this version, or the image does not fit
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
    req.services.volumes.check_reimage(req.context, root['volume_id'])
    return True


def reserve(req: api_request.Request, devices: list[Device], server_id: str) -> Iterator[Device]:
    """Reserve existing volumes for a new server one by one; yield the devices of volumes with their attachments.

    :raises InvalidVolume: the volume was attached elsewhere meanwhile
    :raises Unavailable: the volume may be reserved
    """
    for device in devices:
        if device['volume_id']:
            try:
                attachment_id = req.services.volumes.attach(req.context, device['volume_id'], server_id)
            except exception.NotFound as error:
                raise Invalid(reason=error.message) from None
            yield {**device, 'attachment_id': attachment_id}
        elif device['destination_type'] == 'volume':
            yield {**device, 'attachment_id': None}
