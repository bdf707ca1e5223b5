"""Snapshots of volumes: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.db.tables.volume import volume_snapshots
from nova.volume.rest import items
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest import views
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

ALWAYS_FORCED = 66       # microversion in which force is implied
_SNAPSHOT = schemas.of('volume_id', **schemas.NAMES, volume_id={'type': 'string'},
                       force={'type': ['boolean', 'string', 'null']}, metadata=schemas.METADATA)
_SNAPSHOT_RESET = schemas.of('status', status={'enum': ['available', 'error']})
_SNAPSHOT_STATUS = schemas.of('status', status={'enum': ['creating', 'error']},
                              progress={'type': ['string', 'null'], 'maxLength': 16})
_ITEMS = schemas.Body('metadata', schemas.ITEMS)
_SNAPSHOT_FILTERS = {'name': 'name', 'status': 'status', 'volume_id': 'volume_id', 'display_name': 'name',
                     'id': 'id', 'user_id': 'user_id', 'description': 'description', 'volume_size': 'size'}


def list_snapshots(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volume_snapshots, 'snapshots',
                        listing.each(request, views.snapshot), _SNAPSHOT_FILTERS)


def show_snapshot(request: VolumeRequest, ident: str) -> JsonObject:
    return {'snapshot': views.snapshot(request.store.snapshots.get(request.context, ident), request)}


def create_snapshot(request: VolumeRequest) -> JsonObject:
    given = request.body
    made = request.store.snapshots.create(
        request.context, given['volume_id'], schemas.named(given).get('name'), schemas.named(given).get('description'),
        # openstackclient omits it with earlier microversions
        force=request.microversion >= ALWAYS_FORCED or listing.flag('force', given.get('force'), default=True),
        metadata=items.replaced(given.get('metadata')))
    return {'snapshot': views.new_snapshot(made, request)}


def update_snapshot(request: VolumeRequest, ident: str) -> JsonObject:
    values: JsonObject = {**schemas.named(request.body)}
    if request.body.get('metadata') is not None:
        values['metadata'] = {**items.replaced(request.body['metadata'])}
    return {'snapshot': views.snapshot(request.store.snapshots.update(request.context, ident, lambda row: values),
                                       request)}


def delete_snapshot(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.delete(request.context, ident)


def show_snapshot_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    return {'metadata': request.store.snapshots.get(request.context, ident)['metadata']}


def add_snapshot_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    change = items.added('metadata', request.body, f'A snapshot has at most {schemas.MOST_ITEMS} metadata items.')
    return {'metadata': request.store.snapshots.update(request.context, ident, change)['metadata']}


def replace_snapshot_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    given = items.replaced(request.body)
    return {'metadata': request.store.snapshots.update(
        request.context, ident, lambda row: {'metadata': {**given}})['metadata']}


def delete_snapshot_metadata(request: VolumeRequest, ident: str, key: str) -> None:
    request.store.snapshots.update(request.context, ident, items.removed('metadata', key))


def reset_snapshot_status(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.update(request.context, ident, lambda row: {'status': request.body['status']})


def update_snapshot_status(request: VolumeRequest, ident: str) -> None:
    """Handle a compute host's report on a copy; see EmbeddedVolumes."""
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.copied(ident, request.body['status'])


ROUTES = (
    Route('GET', '/snapshots', list_snapshots),
    Route('GET', '/snapshots/detail', list_snapshots),
    Route('POST', '/snapshots', create_snapshot, status=202, body=schemas.Body('snapshot', _SNAPSHOT)),
    Route('GET', '/snapshots/{ident}', show_snapshot),
    Route('PUT', '/snapshots/{ident}', update_snapshot, body=schemas.Body('snapshot', schemas.DESCRIPTION)),
    Route('DELETE', '/snapshots/{ident}', delete_snapshot, status=202),
    Route('GET', '/snapshots/{ident}/metadata', show_snapshot_metadata),
    Route('POST', '/snapshots/{ident}/metadata', add_snapshot_metadata, body=_ITEMS),
    Route('PUT', '/snapshots/{ident}/metadata', replace_snapshot_metadata, body=_ITEMS),
    Route('DELETE', '/snapshots/{ident}/metadata/{key}', delete_snapshot_metadata),
    schemas.action('snapshots', 'os-force_delete', delete_snapshot, policy=schemas.ADMIN),
    schemas.action('snapshots', 'os-reset_status', reset_snapshot_status, policy=schemas.ADMIN, schema=_SNAPSHOT_RESET),
    schemas.action('snapshots', 'os-update_snapshot_status', update_snapshot_status, policy=schemas.TRUSTED,
                   schema=_SNAPSHOT_STATUS),
)
