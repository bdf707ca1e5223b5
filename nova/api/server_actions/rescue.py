"""The actions rescue and unrescue."""
from typing import cast

from nova import actions
from nova import exception
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import category as server_category
from nova.api.servers import image_references
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.tables.rows import InstancesRow
from nova.hardware import disks
from nova.json_types import JsonDocument
from nova.web.params import Object
from nova.web.params import Param

RESCUE = Object(Param('adminPass', server_schemas.PASSWORD), Param('rescue_image_ref', server_schemas.IMAGE_REF),
                nullable=True)

# allowed values of the rescue image's disk properties
DEVICES = ('cdrom', 'disk', 'floppy')
BUSES = ('scsi', 'virtio', 'ide', 'usb')


def rescue(req: api_request.Request, id: str) -> JsonDocument:
    """Rescue a server; the response has the administrator password of the rescue guest."""
    wanted, action = req.body['rescue'] or {}, actions.ACTIONS['rescue']
    cell = server_lookup.cell_of(req, id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, action)
        image_id = cast(str, wanted.get('rescue_image_ref') or row['image_id'])      # checked by _check_volume_backed
        if not row['image_id']:
            _check_volume_backed(req, conn, row, wanted)
    parts = _check_image(req, row, image_id)
    password = wanted.get('adminPass') or server_spec.password()
    arguments = {'image_id': image_id, 'admin_password': password, 'clean_shutdown': True}
    row = server_actions.begin(req, cell, id, action, {**arguments, 'image_parts': parts})
    server_actions.cast(req, cell, row, action, **arguments)
    return server_spec.shown_password(req.services.conf, password)


def _check_volume_backed(req: api_request.Request, conn: engine.Connection, row: InstancesRow,
                         wanted: api_request.Document) -> None:
    """Check that a server that boots from a volume can be rescued.

    :raises NotRescuable: version, request or host do not support it
    """
    if not req.has('rescue_volume_backed'):
        raise exception.NotRescuable(instance_id=row['uuid'], reason='it boots from a volume')
    if not wanted.get('rescue_image_ref'):
        raise exception.NotRescuable(instance_id=row['uuid'],
                                     reason='it boots from a volume, so rescue_image_ref is required')
    if not server_actions.capable(conn, row, 'stable_rescue'):
        raise exception.NotRescuable(instance_id=row['uuid'],
                                     reason='its host cannot rescue servers that boot from volumes')


def _check_image(req: api_request.Request, row: InstancesRow, image_id: str) -> list[str]:
    """Return the IDs of the kernel and ramdisk of a rescue image.

    :raises BadRequest: the image is unknown, not active or unsuitable
    """
    with exception.AsBadRequest(exception.ImageNotFound):
        image = server_category.bootable_image(req, image_id)
    disks.check_data(image)
    properties = image['properties'] or {}
    image_references.check(req, properties)
    for name, allowed in (('hw_rescue_device', DEVICES), ('hw_rescue_bus', BUSES)):
        if properties.get(name, allowed[0]) not in allowed:
            raise exception.ImageUnacceptable(image_id=image_id, reason=f'its {name} is not one of '
                                              f'{", ".join(allowed)}')
    if not row['image_id'] and not properties.keys() & {'hw_rescue_device', 'hw_rescue_bus'}:
        raise exception.NotRescuable(instance_id=row['uuid'], reason='it boots from a volume, and the image has '
                                     'neither hw_rescue_device nor hw_rescue_bus')
    return image_references.named(properties)


ROUTES = (
    server_actions.route('rescue', rescue, (RESCUE, 1, None), status=200, errors=(400, 401, 403, 404, 409, 501)),
    server_actions.route('unrescue', server_actions.plain('unrescue'), errors=(401, 403, 404, 409, 501)),
)
