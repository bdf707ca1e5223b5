"""Backups and transfers of volumes: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_transfers
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest import views
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

_ID = {'type': ['string', 'null'], 'maxLength': 36}
_FLAG = {'type': ['boolean', 'string', 'null']}
_BACKUP = {**schemas.of(volume_id={'type': 'string', 'maxLength': 36}, name=schemas.NAME, description=schemas.NAME,
                        snapshot_id=_ID, metadata=schemas.METADATA, container=schemas.NAME,
                        availability_zone=schemas.NAME,
                        incremental=_FLAG, force=_FLAG),
           'required': ['volume_id']}
_CHANGED = schemas.of(name=schemas.NAME, description=schemas.NAME, metadata=schemas.METADATA)
_RESTORE = schemas.of(volume_id=_ID, name=schemas.NAME)
_RESET = schemas.of('status', status={'enum': ['available', 'error']})
_TRANSFER = {**schemas.of(volume_id={'type': 'string', 'maxLength': 36}, name=schemas.NAME,
                          no_snapshots={'type': ['boolean', 'string']}), 'required': ['volume_id']}
_ACCEPT = {**schemas.of(auth_key={'type': 'string', 'maxLength': 255}), 'required': ['auth_key']}
_FILTERS = {'name': 'name', 'status': 'status', 'volume_id': 'volume_id', 'id': 'id', 'snapshot_id': 'snapshot_id',
            'description': 'description', 'size': 'size'}


# ---- backups -----------------------------------------------------------------

def list_backups(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volume_backups, 'backups', listing.each(request, views.brief_backup), _FILTERS)


def list_backups_in_detail(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volume_backups, 'backups', listing.each(request, views.backup), _FILTERS)


def show_backup(request: VolumeRequest, ident: str) -> JsonObject:
    return {'backup': views.backup(request.store.backups.get(request.context, ident), request)}


def create_backup(request: VolumeRequest) -> JsonObject:
    given = request.body
    listing.flag('force', given.get('force'))
    if listing.flag('incremental', given.get('incremental')):
        raise exception.BadRequest('Incremental backups are not supported.')
    if given.get('container'):
        raise exception.BadRequest('Backup containers are not supported: omit the container.')
    zone = given.get('availability_zone')
    with request.store.db.reader() as conn:
        if zone and zone not in request.store.zones(conn):
            raise exception.InvalidInput(reason=f"Availability zone '{zone}' is invalid.")
    made = request.store.backups.create(
        request.context, given['volume_id'], given.get('snapshot_id') or None, name=given.get('name'),
        description=given.get('description'), metadata=given.get('metadata') or {})
    return {'backup': views.brief_backup(made, request)}


def update_backup(request: VolumeRequest, ident: str) -> JsonObject:
    values = {name: request.body[name] for name in ('name', 'description', 'metadata') if name in request.body}
    return {'backup': views.brief_backup(request.store.backups.update(request.context, ident, values), request)}


def delete_backup(request: VolumeRequest, ident: str) -> None:
    request.store.backups.delete(request.context, ident)


def force_delete_backup(request: VolumeRequest, ident: str) -> None:
    request.store.backups.delete(request.context, ident, force=True)


def reset_backup_status(request: VolumeRequest, ident: str) -> None:
    request.store.backups.reset(request.context, ident, request.body['status'])


def restore_backup(request: VolumeRequest, ident: str) -> JsonObject:
    given, store = request.body, request.store
    if given.get('volume_id'):
        volume = store.backups.restore(request.context, ident, given['volume_id'])
    else:
        backup = store.backups.get(request.context, ident)
        volume = store.create(request.context, None, backup_id=ident, description=backup['description'],
                              name=given.get('name') or backup['name'] or f'restore_backup_{ident}')
    return {'restore': {'backup_id': ident, 'volume_id': volume['id'], 'volume_name': volume['name']}}


# ---- transfers ---------------------------------------------------------------

def list_transfers(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volume_transfers, 'transfers', listing.each(request, views.transfer),
                        {'name': 'name', 'volume_id': 'volume_id', 'id': 'id'})


def show_transfer(request: VolumeRequest, ident: str) -> JsonObject:
    return {'transfer': views.transfer(request.store.transfers.get(request.context, ident), request)}


def create_transfer(request: VolumeRequest) -> JsonObject:
    # validated only: volumes with snapshots cannot be transferred
    listing.flag('no_snapshots', request.body.get('no_snapshots'))
    made = request.store.transfers.create(request.context, request.body['volume_id'], request.body.get('name'))
    return {'transfer': views.transfer(made, request, made['auth_key'])}


def accept_transfer(request: VolumeRequest, ident: str) -> JsonObject:
    return {'transfer': views.transfer(request.store.transfers.accept(request.context, ident, request.body['auth_key']),
                                       request)}


def delete_transfer(request: VolumeRequest, ident: str) -> None:
    request.store.transfers.delete(request.context, ident)


def _transfers(path: str) -> tuple[Route, ...]:
    """Return the routes below one of the two paths of transfers."""
    return (Route('GET', path, list_transfers), Route('GET', f'{path}/detail', list_transfers),
            Route('POST', path, create_transfer, status=202, body=schemas.Body('transfer', _TRANSFER)),
            Route('GET', f'{path}/{{ident}}', show_transfer),
            Route('DELETE', f'{path}/{{ident}}', delete_transfer, status=202),
            Route('POST', f'{path}/{{ident}}/accept', accept_transfer, status=202,
                  body=schemas.Body('accept', _ACCEPT)))


ROUTES = (
    Route('GET', '/backups', list_backups),
    Route('GET', '/backups/detail', list_backups_in_detail),
    Route('POST', '/backups', create_backup, status=202, body=schemas.Body('backup', _BACKUP)),
    Route('GET', '/backups/{ident}', show_backup),
    Route('PUT', '/backups/{ident}', update_backup, body=schemas.Body('backup', _CHANGED)),
    Route('DELETE', '/backups/{ident}', delete_backup, status=202),
    schemas.action('backups', 'os-force_delete', force_delete_backup, policy=schemas.ADMIN),
    schemas.action('backups', 'os-reset_status', reset_backup_status, policy=schemas.ADMIN, schema=_RESET),
    Route('POST', '/backups/{ident}/restore', restore_backup, status=202, body=schemas.Body('restore', _RESTORE)),
    *_transfers('/os-volume-transfer'), *_transfers('/volume-transfers'),
)
