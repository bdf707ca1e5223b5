"""Attachments of volumes: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.db.tables.volume import volume_attachments
from nova.db.volumes import volumes as db
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest import views
from nova.volume.store import rows as rows_of
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.tables.rows import VolumeAttachmentsRow
    from nova.json_types import JsonObject
    from nova.volume import api
    from nova.volume.rest.request import VolumeRequest

_ATTACHMENT = schemas.Body('attachment', schemas.of(
    'volume_uuid', 'instance_uuid', volume_uuid={'type': 'string'}, instance_uuid={'type': 'string', 'maxLength': 36},
    connector={'type': ['object', 'null']}, mode={'enum': ['rw', 'ro', None]}))
_FILTERS = {'id': 'id', 'volume_id': 'volume_id', 'instance_id': 'instance_uuid', 'status': 'status',
            'attach_status': 'status'}
_CONNECTOR = schemas.Body('attachment', schemas.of('connector', connector={'type': 'object'}))


def list_attachments(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volume_attachments, 'attachments',
                        _shown, _FILTERS, direction='asc')


def _shown(conn: Connection, rows: list[VolumeAttachmentsRow]) -> list[JsonObject]:
    readonly = db.readonly(conn, {row['volume_id'] for row in rows})
    return [views.attachment(row, row['volume_id'] in readonly) for row in rows]


def _attachment(request: VolumeRequest, ident: str, info: api.Connection | None = None) -> JsonObject:
    """Return the document of an attachment.

    :param info: its connection
    """
    with request.store.db.reader() as conn:
        row = rows_of.attachment(conn, request.context, ident)
        return {'attachment': views.attachment(row, bool(db.readonly(conn, {row['volume_id']})), info)}


def show_attachment(request: VolumeRequest, ident: str) -> JsonObject:
    return _attachment(request, ident)


def create_attachment(request: VolumeRequest) -> JsonObject:
    given = request.body
    if given.get('mode') == 'ro' and not request.store.get(request.context, given['volume_uuid'])['readonly']:
        raise exception.BadRequest('Mode ro requires a read-only volume. Set the volume to read-only first.')
    ident = request.store.attach(request.context, given['volume_uuid'], given['instance_uuid'])
    info = None
    if given.get('connector'):
        info = request.store.connect(request.context, ident, given['connector'], _mountpoint(given))
    return _attachment(request, ident, info)


def update_attachment(request: VolumeRequest, ident: str) -> JsonObject:
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


ROUTES = (
    Route('GET', '/attachments', list_attachments),
    Route('GET', '/attachments/detail', list_attachments),
    Route('POST', '/attachments', create_attachment, policy=schemas.TRUSTED, body=_ATTACHMENT),
    Route('GET', '/attachments/{ident}', show_attachment),
    Route('PUT', '/attachments/{ident}', update_attachment, policy=schemas.TRUSTED, body=_CONNECTOR),
    Route('DELETE', '/attachments/{ident}', delete_attachment, schemas.TRUSTED),
    schemas.action('attachments', 'os-complete', complete_attachment, 204, policy=schemas.TRUSTED),
)
