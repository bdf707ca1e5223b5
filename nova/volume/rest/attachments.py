"""Operations on attachments of volumes: routes and handlers."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nova import exception
from nova.db.tables import rows as db_rows
from nova.db.volumes import volumes as db
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import ATTACHMENT
from nova.volume.rest.schemas import route
from nova.volume.store import rows as rows_of
from nova.web.resource import Body
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.json_types import JsonObject
    from nova.volume import api
    from nova.volume.rest.request import VolumeRequest

LOG = logging.getLogger(__name__)

MULTIATTACH_BOOTABLE = 'volume:multiattach_bootable_volume'


class Attachment(db_rows.VolumeAttachmentsRow):
    """Row of an attachment, with the read-only flag of the volume, and the connection if a host is connected."""

    readonly: bool
    connection: api.Connection | None


def _with_mode(conn: Connection, rows: list[db_rows.VolumeAttachmentsRow],
               connection: api.Connection | None = None) -> list[Attachment]:
    readonly = db.readonly(conn, {row['volume_id'] for row in rows})
    return [{**row, 'readonly': row['volume_id'] in readonly, 'connection': connection} for row in rows]


def _attachment(request: VolumeRequest, ident: str, connection: api.Connection | None = None) -> Attachment:
    with request.store.db.reader() as conn:
        return _with_mode(conn, [rows_of.attachment(conn, request.context, ident)], connection)[0]


def create_attachment(request: VolumeRequest) -> Attachment:
    given = request.body
    volume = request.store.get(request.context, given['volume_uuid'])
    if volume['multiattach'] and volume['bootable'] and volume['attachments']:
        request.authorize(MULTIATTACH_BOOTABLE, volume)
    check_mode(given.get('mode'), volume)
    ident = request.store.attach(request.context, given['volume_uuid'], given['instance_uuid'])
    info = None
    if given.get('connector'):
        try:
            info = request.store.connect(request.context, ident, given['connector'], _mountpoint(given))
        except Exception:                # the response has no id with which the client could delete the attachment
            try:
                request.store.detach(request.context, ident)
            except exception.NovaException as error:
                LOG.warning('Cannot remove attachment %s after its connection was refused: %s', ident, error)
            raise
    return _attachment(request, ident, info)


def check_mode(mode: str | None, volume: rows_of.Volume) -> None:
    """Check the access mode of a new attachment; raises BadRequest."""
    if mode == 'ro' and not volume['readonly']:
        raise exception.BadRequest('Mode ro requires a read-only volume. Set the volume to read-only first.')


def update_attachment(request: VolumeRequest, ident: str) -> Attachment:
    given = request.body
    return _attachment(request, ident, request.store.connect(
        request.context, ident, given['connector'], _mountpoint(given)))


def _mountpoint(given: dict[str, JsonObject]) -> str | None:
    return str(given['connector'].get('mountpoint') or '')[:255] or None


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
    route('GET', '/attachments/{ident}', _attachment, answer=_ONE, name='show_attachment'),
    route('PUT', '/attachments/{ident}', update_attachment, 'volume:attachment_update', answer=_ONE,
          body=Body('attachment', shape(connector={'type': 'object'}))),
    route('DELETE', '/attachments/{ident}', delete_attachment, 'volume:attachment_delete',
          answer=Document({'attachments': schemas.EMPTY_LIST})),
    schemas.action('attachments', 'os-complete', schemas.forward(lambda store: store.complete),
                   'volume:attachment_complete', 204, name='complete_attachment'),
)
