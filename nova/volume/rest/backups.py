"""Operations on backups and transfers of volumes: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import BACKUP
from nova.volume.rest.resources import TRANSFER
from nova.volume.rest.resources import VOLUME
from nova.volume.rest.schemas import forward
from nova.volume.rest.schemas import route
from nova.web import routes
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeBackupsRow
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store.transfers import Offer


# ---- backups -----------------------------------------------------------------

def create_backup(request: VolumeRequest) -> VolumeBackupsRow:
    given = request.body
    if given.get('incremental'):
        raise exception.BadRequest('Incremental backups are not supported.')
    if given.get('container'):
        raise exception.BadRequest('Backup containers are not supported: omit the container.')
    zone = given.get('availability_zone')
    with request.store.db.reader() as conn:
        if zone and zone not in request.store.zones(conn):
            raise exception.InvalidInput(reason=f"Availability zone '{zone}' is invalid.")
    return request.store.backups.create(
        request.context, given['volume_id'], given.get('snapshot_id') or None, name=given.get('name'),
        description=given.get('description'), metadata=given.get('metadata') or {},
        force=schemas.flag('force', given.get('force')))


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

def create_transfer(request: VolumeRequest) -> Offer:
    given = request.body
    return request.store.transfers.create(request.context, given['volume_id'], given.get('name'),
                                          schemas.flag('no_snapshots', given.get('no_snapshots')))


def _transfers(path: str) -> tuple[routes.Route, ...]:
    """Return the routes of transfers below a path; the API has two paths for them."""
    shown = One(TRANSFER, 'show')
    return (listing.listed(path, 'list_transfers', 'volume:get_all_transfers', TRANSFER, volume=VOLUME),
            listing.listed(f'{path}/detail', 'list_transfers', 'volume:get_all_transfers', TRANSFER, volume=VOLUME),
            route('POST', path, create_transfer, 'volume:create_transfer', status=202,
                  body=TRANSFER.body('create'), answer=One(TRANSFER, 'create')),
            route('GET', f'{path}/{{ident}}', forward(lambda store: store.transfers.get), 'volume:get_transfer',
                  answer=shown, name='show_transfer'),
            route('DELETE', f'{path}/{{ident}}', forward(lambda store: store.transfers.delete),
                  'volume:delete_transfer', status=202, name='delete_transfer'),
            route('POST', f'{path}/{{ident}}/accept',
                  lambda req, ident: req.store.transfers.accept(req.context, ident, req.body['auth_key']),
                  'volume:accept_transfer', status=202, answer=shown,
                  body=Body('accept', shape(auth_key={'type': 'string', 'maxLength': 255})), name='accept_transfer'))


_ADMIN_ACTION = 'volume_extension:backup_admin_actions:'
_CHANGED = One(BACKUP, 'create')
ROUTES = (
    listing.listed('/backups', 'list_backups', 'backup:get_all', BACKUP, 'list'),
    listing.listed('/backups/detail', 'list_backups_in_detail', 'backup:get_all', BACKUP),
    route('POST', '/backups', create_backup, 'backup:create', status=202, body=BACKUP.body('create'),
          answer=_CHANGED),
    route('GET', '/backups/{ident}', forward(lambda store: store.backups.get), 'backup:get', answer=One(BACKUP, 'show'),
          name='show_backup'),
    route('PUT', '/backups/{ident}', lambda req, ident: req.store.backups.update(req.context, ident, req.body),
          'backup:update', body=BACKUP.body('update'), answer=_CHANGED, name='update_backup'),
    route('DELETE', '/backups/{ident}', forward(lambda store: store.backups.delete), 'backup:delete', status=202,
          name='delete_backup'),
    schemas.action('backups', 'os-force_delete', forward(lambda store: store.backups.delete, force=True),
                   _ADMIN_ACTION + 'force_delete', name='force_delete_backup'),
    schemas.action('backups', 'os-reset_status',
                   lambda req, ident: req.store.backups.reset(req.context, ident, req.body['status']),
                   _ADMIN_ACTION + 'reset_status', schema=shape(status={'enum': ['available', 'error']}),
                   name='reset_backup_status'),
    route('POST', '/backups/{ident}/restore', restore_backup, 'backup:restore', status=202,
          body=Body('restore', closed(volume_id=schemas.SHORT_ID, name=schemas.NAME)),
          answer=Document({'restore': shape(
              backup_id=schemas.UUID, volume_id=schemas.UUID, volume_name=schemas.TEXT_OR_NULL)})),
    *_transfers('/os-volume-transfer'), *_transfers('/volume-transfers'),
)
