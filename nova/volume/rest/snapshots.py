"""Operations on snapshots: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.volume.rest import items
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import SNAPSHOT
from nova.volume.rest.schemas import route
from nova.web.resource import closed
from nova.web.resource import One
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeSnapshotsRow
    from nova.volume.rest.request import VolumeRequest

STATUSES = ['available', 'error', 'creating', 'deleting']     # statuses that a reset may set
ALWAYS_FORCED = 66       # first microversion in which force is always true
UNASKED = 65             # first microversion in which an omitted force is true, for openstackclient


def create_snapshot(request: VolumeRequest) -> VolumeSnapshotsRow:
    given = SNAPSHOT.given(request.body)
    return request.store.snapshots.create(
        request.context, given['volume_id'], given.get('name'), given.get('description'),
        force=request.version >= ALWAYS_FORCED or schemas.flag('force', given.get('force'),
                                                               default=request.version >= UNASKED),
        metadata=items.replaced(given.get('metadata')))


def update_snapshot(request: VolumeRequest, ident: str) -> VolumeSnapshotsRow:
    values = items.changed(SNAPSHOT, request.body)
    return request.store.snapshots.update(request.context, ident, lambda row: values)


def delete_snapshot(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.delete(request.context, ident)


def reset_snapshot_status(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.update(request.context, ident, lambda row: {'status': request.body['status']})


def update_snapshot_status(request: VolumeRequest, ident: str) -> None:
    """Handle the report of a compute host on the copy for a snapshot; see Snapshots.copied."""
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.copied(ident, request.body['status'])


_ONE, _METADATA = One(SNAPSHOT, 'show'), 'volume:{}_snapshot_metadata'
_ADMIN_ACTION = 'volume_extension:snapshot_admin_actions:'
ROUTES = (
    listing.listed('/snapshots', 'list_snapshots', 'volume:get_all_snapshots', SNAPSHOT),
    listing.listed('/snapshots/detail', 'list_snapshots', 'volume:get_all_snapshots', SNAPSHOT),
    route('POST', '/snapshots', create_snapshot, 'volume:create_snapshot', status=202,
          body=SNAPSHOT.body('create'), answer=One(SNAPSHOT, 'create')),
    route('GET', '/snapshots/{ident}', schemas.forward(lambda store: store.snapshots.get), 'volume:get_snapshot',
          answer=_ONE, name='show_snapshot'),
    route('PUT', '/snapshots/{ident}', update_snapshot, 'volume:update_snapshot', body=SNAPSHOT.body('update'),
          answer=_ONE),
    route('DELETE', '/snapshots/{ident}', delete_snapshot, 'volume:delete_snapshot', status=202),
    *items.routes('snapshots', 'snapshot_metadata', (_METADATA.format('get'), *[_METADATA.format('update')] * 2,
                                                       _METADATA.format('delete')), lambda store: store.snapshots),
    schemas.action('snapshots', 'os-force_delete', delete_snapshot, _ADMIN_ACTION + 'force_delete'),
    schemas.action('snapshots', 'os-reset_status', reset_snapshot_status, _ADMIN_ACTION + 'reset_status',
                   schema=shape(status={'enum': STATUSES})),
    schemas.action('snapshots', 'os-update_snapshot_status', update_snapshot_status,
                   'snapshot_extension:snapshot_actions:update_snapshot_status', schema=closed(
                       'status', status={'enum': ['creating', 'available', 'error']},
                       progress={'type': ['string', 'null'], 'maxLength': 16})),
)
