"""Operations on attachments of volumes: routes and handlers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.volumes import volumes as db
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import ATTACHMENT
from nova.volume.rest.schemas import route
from nova.volume.store import rows as rows_of
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.tables.rows import VolumeAttachmentsRow
    from nova.json_types import JsonObject
    from nova.volume import api
    from nova.volume.rest.request import VolumeRequest

MULTIATTACH_BOOTABLE = 'volume:multiattach_bootable_volume'


def _with_mode(conn: Connection, rows: list[VolumeAttachmentsRow]) -> list[dict[str, Any]]:
    """Add the read-only flags of their volumes to rows of attachments."""
    readonly = db.readonly(conn, {row['volume_id'] for row in rows})
    return [{**row, 'readonly': row['volume_id'] in readonly} for row in rows]


def _attachment(request: VolumeRequest, ident: str, connection: api.Connection | None = None) -> dict[str, Any]:
    """Return the row of an attachment with its connection, if given."""
    with request.store.db.reader() as conn:
        row = rows_of.attachment(conn, request.context, ident)
        return {**_with_mode(conn, [row])[0], 'connection': connection}


def show_attachment(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return _attachment(request, ident)


def create_attachment(request: VolumeRequest) -> dict[str, Any]:
    given = request.body
    volume = request.store.get(request.context, given['volume_uuid'])
    if volume['multiattach'] and volume['bootable'] and volume['attachments']:
        request.authorize(MULTIATTACH_BOOTABLE, volume)
    check_mode(given.get('mode'), volume)
    ident = request.store.attach(request.context, given['volume_uuid'], given['instance_uuid'])
    info = None
    if given.get('connector'):
        info = request.store.connect(request.context, ident, given['connector'], _mountpoint(given))
    return _attachment(request, ident, info)


def check_mode(mode: str | None, volume: rows_of.Volume) -> None:
    """Check the access mode of a new attachment; raises BadRequest."""
    if mode == 'ro' and not volume['readonly']:
        raise exception.BadRequest('Mode ro requires a read-only volume. Set the volume to read-only first.')


def update_attachment(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body
    return _attachment(request, ident, request.store.connect(
        request.context, ident, given['connector'], _mountpoint(given)))


def _mountpoint(given: dict[str, JsonObject]) -> str | None:
    return str(given['connector'].get('mountpoint') or '')[:255] or None


def complete_attachment(request: VolumeRequest, ident: str) -> None:
    request.store.complete(request.context, ident)


def delete_attachment(request: VolumeRequest, ident: str) -> JsonObject:
    _attachment(request, ident)
    request.store.detach(request.context, ident)
    return {'attachments': []}


_ONE = One(ATTACHMENT, 'show')
ROUTES = (
    listing.listed('/attachments', 'list_attachments', None, ATTACHMENT, first='asc', prepare=_with_mode),
    listing.listed('/attachments/detail', 'list_attachments', None, ATTACHMENT, first='asc', prepare=_with_mode),
    route('POST', '/attachments', create_attachment, 'volume:attachment_create', (MULTIATTACH_BOOTABLE,),
          body=ATTACHMENT.body('create'), answer=_ONE),
    route('GET', '/attachments/{ident}', show_attachment, answer=_ONE),
    route('PUT', '/attachments/{ident}', update_attachment, 'volume:attachment_update', answer=_ONE,
          body=Body('attachment', closed('connector', connector={'type': 'object'}))),
    route('DELETE', '/attachments/{ident}', delete_attachment, 'volume:attachment_delete',
          answer=Document({'attachments': schemas.EMPTY_LIST})),
    schemas.action('attachments', 'os-complete', complete_attachment, 'volume:attachment_complete', 204),
)
