"""Operations of the API: routes and handlers."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volume_transfers
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.rest import attachments
from nova.volume.rest import backups
from nova.volume.rest import items
from nova.volume.rest import limits
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest import snapshots
from nova.volume.rest import type_access
from nova.volume.rest import types
from nova.volume.rest import views
from nova.volume.store import rows as rows_of
from nova.volume.store import uploads
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.engine import Table
    from nova.db.tables.rows import VolumesRow
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

ONLINE_EXTEND = 42       # microversion for extending volumes in use
OF_BACKUP = 47           # microversion for volumes from backups
OF_SERVER_IMAGE = 46     # microversion for volumes from images without data that refer to a snapshot
SUMMARY, SUMMARY_METADATA = 12, 36       # microversions of the summary, and of its metadata
IMAGE_FIELDS = 1         # microversion with visibility and protected for images of volumes
CLOSED = 53              # microversion that refuses unknown attributes of new volumes

# ---- request bodies ----------------------------------------------------------

_ID = {'type': ['string', 'null'], 'maxLength': 255}
_SIZE = {'type': ['integer', 'string', 'null'], 'pattern': '^[0-9]{1,9}$', 'maximum': 999999999}
_FLAG = {'type': ['boolean', 'string']}
_VOLUME: dict[str, Mapping[str, object]] = {
    **schemas.NAMES, 'size': _SIZE, 'metadata': schemas.METADATA, 'imageRef': _ID, 'image_id': _ID, 'snapshot_id': _ID,
    'source_volid': _ID, 'backup_id': _ID, 'group_id': _ID, 'consistencygroup_id': _ID, 'volume_type': _ID,
    'availability_zone': schemas.NAME, 'multiattach': {'type': ['boolean', 'string', 'null']}}
_NO_GROUPS = 'Volume groups are not supported.'
_REFUSED = {'group_id': _NO_GROUPS, 'consistencygroup_id': _NO_GROUPS}
_HINTS = dict.fromkeys(('OS-SCH-HNT:scheduler_hints', 'scheduler_hints'),
                       'Scheduler hints are not supported: there is one backend.')
_EXTEND = schemas.of('new_size', new_size={**_SIZE, 'type': ['integer', 'string']})
_REIMAGE = schemas.of('image_id', image_id={'type': 'string', 'maxLength': 36}, reimage_reserved=_FLAG)
_BOOTABLE = schemas.of('bootable', bootable=_FLAG)
_STATUS = schemas.of('status', status={'enum': [
    'available', 'error', 'in-use', 'attaching', 'detaching', 'reserved', 'creating', 'deleting']})
_RETYPE = schemas.of('new_type', new_type={'type': 'string', 'minLength': 1, 'maxLength': 255},
                     migration_policy={'enum': ['never', 'on-demand', None]})
_READONLY = schemas.of('readonly', readonly=_FLAG)
_IMAGE_METADATA = schemas.of('metadata', metadata=schemas.ITEMS)
_KEY = schemas.of('key', key={'type': 'string', 'maxLength': 255})

_UPLOAD = schemas.of(
    'image_name', image_name={'type': 'string', 'minLength': 1, 'maxLength': 255}, force={'type': [
        'boolean', 'string', 'null']}, container_format=schemas.NAME, disk_format=schemas.NAME,
    visibility=schemas.NAME, protected={'type': ['boolean', 'string', 'null']})

# first path segment, or body key: table of the following id
_IDENTS = {'volumes': volumes, 'snapshots': volume_snapshots, 'attachments': volume_attachments,
           'backups': volume_backups, 'os-volume-transfer': volume_transfers, 'volume-transfers': volume_transfers,
           'volume_id': volumes, 'source_volid': volumes, 'volume_uuid': volumes, 'snapshot_id': volume_snapshots,
           'backup_id': volume_backups}

_NOT_FOUND: dict[Table, Callable[[str], exception.NovaException]] = {
    volumes: lambda ident: exception.VolumeNotFound(volume_id=ident),
    volume_snapshots: lambda ident: exception.VolumeSnapshotNotFound(snapshot_id=ident),
    volume_attachments: lambda ident: exception.VolumeAttachmentNotFound(attachment_id=ident),
    volume_backups: lambda ident: exception.VolumeBackupNotFound(backup_id=ident),
    volume_transfers: lambda ident: exception.VolumeTransferNotFound(transfer_id=ident)}


def check_shown(request: VolumeRequest, row: Route, parts: dict[str, str]) -> None:
    """Hide volumes of administrative servers, and their resources, from users.

    :raises VolumeNotFound, VolumeSnapshotNotFound, VolumeAttachmentNotFound: the request names one
    """
    named = request.body.items() if isinstance(request.body, dict) else ()
    for key, value in (*zip([row.path.split('/')[1]], parts.values()), *named):
        if key in _IDENTS and value:
            with request.store.db.reader() as conn:
                if db.of_administrative(conn, _IDENTS[key], str(value)[:64]):
                    raise _NOT_FOUND[_IDENTS[key]](str(value)[:64])


# ---- volumes -----------------------------------------------------------------

_VOLUME_FILTERS = {'name': 'name', 'status': 'status', 'id': 'id', 'display_name': 'name',
                   'availability_zone': 'availability_zone', 'volume_type': 'volume_type', 'size': 'size',
                   'bootable': 'bootable', 'multiattach': 'multiattach', 'source_volid': 'source_volume_id',
                   'snapshot_id': 'snapshot_id', 'user_id': 'user_id', 'description': 'description'}


def list_volumes(request: VolumeRequest) -> JsonObject:
    return listing.page(request, volumes, 'volumes', listing.each(request, views.brief), _VOLUME_FILTERS)


def list_volumes_in_detail(request: VolumeRequest) -> JsonObject:
    def view(conn: Connection, rows: list[VolumesRow]) -> list[JsonObject]:
        return [views.volume(row, request) for row in rows_of.with_attachments(conn, rows)]
    return listing.page(request, volumes, 'volumes', view, _VOLUME_FILTERS)


def summarize_volumes(request: VolumeRequest) -> JsonObject:
    if request.microversion < SUMMARY:
        raise exception.NotFound()
    listing.check(request, listing.EVERYONE)
    with request.store.db.reader() as conn:
        count, size, metadata = db.summary(conn, listing.asked_of(request), request.trusted)
    shown: dict[str, Any] = {'total_count': count, 'total_size': size}
    if request.microversion >= SUMMARY_METADATA:
        shown['metadata'] = {key: sorted(values) for key, values in sorted(metadata.items())}
    return {'volume-summary': shown}


def show_volume(request: VolumeRequest, ident: str) -> JsonObject:
    return {'volume': views.volume(request.store.get(request.context, ident), request)}


def create_volume(request: VolumeRequest) -> JsonObject:
    given = request.body
    schemas.refuse(given, _REFUSED)
    if request.microversion >= CLOSED:
        schemas.check_known(given, _VOLUME, 'volume')
    snapshot_id, source_id, backup_id = sources = [
        given.get(name) or None for name in ('snapshot_id', 'source_volid', 'backup_id')]
    image_id = given.get('imageRef') or given.get('image_id')
    if backup_id and request.microversion < OF_BACKUP:
        raise exception.BadRequest(f'Creating volumes from backups requires microversion 3.{OF_BACKUP}.')
    if sum(bool(source) for source in (*sources, image_id)) > 1:
        raise exception.InvalidInput(reason='May specify only one of snapshot, imageRef, source volume or backup.')
    if given.get('size') in (None, '') and not any(sources):
        raise exception.InvalidInput(reason='size must be given.')
    try:
        made = request.store.create(
            request.context, int(given['size']) if given.get('size') not in (None, '') else None,
            **{'name': '', 'description': None, **schemas.named(given)}, image_id=image_id, snapshot_id=snapshot_id,
            volume_type=given.get('volume_type'), source_volume_id=source_id, backup_id=backup_id,
            availability_zone=given.get('availability_zone'),
            multiattach=listing.flag('multiattach', given.get('multiattach')),
            metadata=items.replaced(given.get('metadata')), of_server_images=request.microversion >= OF_SERVER_IMAGE)
    except (exception.ImageNotFound, exception.VolumeTypeNotFound) as error:
        raise type(error)(error.message) from None
    return {'volume': views.new_volume(made, request)}


def update_volume(request: VolumeRequest, ident: str) -> JsonObject:
    given = request.body
    values: JsonObject = {**schemas.named(given)}
    if given.get('metadata') is not None:
        values['metadata'] = {**items.replaced(given['metadata'])}
    return {'volume': views.volume(request.store.update(request.context, ident, lambda row: values), request)}


def delete_volume(request: VolumeRequest, ident: str) -> None:
    force = listing.flag('force', request.query.get('force'))
    if force and not request.context.is_admin:
        raise exception.PolicyDenied(rule='volume:force_delete')
    request.store.delete(request.context, ident, force=force,
                         cascade=listing.flag('cascade', request.query.get('cascade')))


# ---- metadata of volumes -----------------------------------------------------

def show_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    return {'metadata': request.store.get(request.context, ident)['metadata']}


def add_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    change = items.added('metadata', request.body, f'A volume has at most {schemas.MOST_ITEMS} metadata items.')
    return {'metadata': request.store.update(request.context, ident, change)['metadata']}


def replace_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    given = items.replaced(request.body)
    return {'metadata': request.store.update(request.context, ident, lambda row: {'metadata': {**given}})['metadata']}


def delete_metadata(request: VolumeRequest, ident: str, key: str) -> None:
    request.store.update(request.context, ident, items.removed('metadata', key))


# ---- actions on volumes ------------------------------------------------------

def extend(request: VolumeRequest, ident: str) -> None:
    request.store.extend(request.context, ident, int(request.body['new_size']),
                         online=request.microversion >= ONLINE_EXTEND)


def set_bootable(request: VolumeRequest, ident: str) -> None:
    wanted = listing.flag('bootable', request.body['bootable'])
    request.store.update(request.context, ident, lambda row: {'bootable': wanted})


def set_readonly(request: VolumeRequest, ident: str) -> None:
    wanted = listing.flag('readonly', request.body['readonly'])

    def change(row: VolumesRow) -> JsonObject:
        if row['status'] != 'available':
            raise exception.InvalidVolume(reason=f'status must be available, but it is {row["status"]}.')
        return {'readonly': wanted}
    request.store.update(request.context, ident, change)


def retype(request: VolumeRequest, ident: str) -> None:
    """Change the type. migration_policy is ignored: there is one backend."""
    request.store.retypes.retype(request.context, ident, request.body['new_type'])


def force_delete(request: VolumeRequest, ident: str) -> None:
    request.store.delete(request.context, ident, force=True)


def set_image_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    change = items.added('image_metadata', request.body['metadata'],
                         f'A volume has at most {schemas.MOST_ITEMS} items of image metadata.')
    return {'metadata': request.store.update(request.context, ident, change)['image_metadata']}


def unset_image_metadata(request: VolumeRequest, ident: str) -> None:
    request.store.update(request.context, ident, items.removed('image_metadata', request.body['key']))


def show_image_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    return {'metadata': request.store.get(request.context, ident)['image_metadata']}


def reset_status(request: VolumeRequest, ident: str) -> None:
    status = request.body['status']
    request.store.update(request.context, ident, lambda row: {'status': status})


def reimage(request: VolumeRequest, ident: str) -> None:
    """Write an image. Only services and administrators may do so for a reserved volume, during a rebuild."""
    reserved = listing.flag('reimage_reserved', request.body.get('reimage_reserved'))
    if reserved and not request.trusted:
        raise exception.PolicyDenied(rule='volume:reimage_reserved')
    request.store.reimage(request.context, ident, request.body['image_id'], reserved)


def upload_image(request: VolumeRequest, ident: str) -> JsonObject:
    """Create an image. ``force`` is validated only: an upload of a volume in use would not be consistent."""
    given, since = request.body, request.microversion >= IMAGE_FIELDS
    disk_format, container_format = given.get('disk_format') or 'raw', given.get('container_format') or 'bare'
    if disk_format not in uploads.FORMATS or container_format != 'bare':
        raise exception.InvalidInput(reason=f'disk_format must be {" or ".join(uploads.FORMATS)} and container_format '
                                            f'bare, not {disk_format[:40]} in {container_format[:40]}.')
    listing.flag('force', given.get('force'))
    if not since and (given.get('visibility') or given.get('protected') is not None):
        raise exception.BadRequest(f'visibility and protected require microversion 3.{IMAGE_FIELDS}.')
    visibility, protected = given.get('visibility') or 'private', listing.flag('protected', given.get('protected'))
    row, image = request.store.uploads.begin(request.context, ident, disk_format, {
        'name': given['image_name'], 'visibility': visibility, 'protected': protected})
    return {'os-volume_upload_image': views.upload(row, image, request)}


def begin_detaching(request: VolumeRequest, ident: str) -> None:
    request.store.begin_detaching(request.context, ident)


def roll_detaching(request: VolumeRequest, ident: str) -> None:
    request.store.roll_detaching(request.context, ident)


ROUTES = (
    Route('GET', '/volumes', list_volumes),
    Route('GET', '/volumes/detail', list_volumes_in_detail),
    Route('POST', '/volumes', create_volume, status=202, body=schemas.Body(
        'volume', {**schemas.of(**_VOLUME), 'additionalProperties': True}, _HINTS)),
    Route('GET', '/volumes/summary', summarize_volumes),
    Route('GET', '/volumes/{ident}', show_volume),
    Route('PUT', '/volumes/{ident}', update_volume, body=schemas.Body('volume', schemas.DESCRIPTION)),
    Route('DELETE', '/volumes/{ident}', delete_volume, status=202),
    Route('GET', '/volumes/{ident}/metadata', show_metadata),
    Route('POST', '/volumes/{ident}/metadata', add_metadata, body=schemas.Body('metadata', schemas.ITEMS)),
    Route('PUT', '/volumes/{ident}/metadata', replace_metadata, body=schemas.Body('metadata', schemas.ITEMS)),
    Route('DELETE', '/volumes/{ident}/metadata/{key}', delete_metadata),
    schemas.action('volumes', 'os-extend', extend, schema=_EXTEND),
    schemas.action('volumes', 'os-set_bootable', set_bootable, 200, schema=_BOOTABLE),
    schemas.action('volumes', 'os-reset_status', reset_status, policy=schemas.ADMIN, schema=_STATUS),
    schemas.action('volumes', 'os-reimage', reimage, schema=_REIMAGE),
    schemas.action('volumes', 'os-update_readonly_flag', set_readonly, schema=_READONLY),
    schemas.action('volumes', 'os-retype', retype, schema=_RETYPE),
    schemas.action('volumes', 'os-force_delete', force_delete, policy=schemas.ADMIN),
    schemas.action('volumes', 'os-set_image_metadata', set_image_metadata, 200, schema=_IMAGE_METADATA),
    schemas.action('volumes', 'os-unset_image_metadata', unset_image_metadata, 200, schema=_KEY),
    schemas.action('volumes', 'os-show_image_metadata', show_image_metadata, 200),
    schemas.action('volumes', 'os-volume_upload_image', upload_image, schema=_UPLOAD),
    schemas.action('volumes', 'os-begin_detaching', begin_detaching, policy=schemas.TRUSTED),
    schemas.action('volumes', 'os-roll_detaching', roll_detaching, policy=schemas.TRUSTED),
    *snapshots.ROUTES,
    *attachments.ROUTES,
    *types.ROUTES,
    *type_access.ROUTES,
    *limits.ROUTES,
    *backups.ROUTES,
)
