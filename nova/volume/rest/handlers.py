"""Operations on volumes: routes and handlers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volume_transfers
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.rest import attachments
from nova.volume.rest import backends
from nova.volume.rest import backups
from nova.volume.rest import items
from nova.volume.rest import limits
from nova.volume.rest import listing
from nova.volume.rest import managed
from nova.volume.rest import qos
from nova.volume.rest import schemas
from nova.volume.rest import snapshots
from nova.volume.rest import type_access
from nova.volume.rest import types
from nova.volume.rest.resources import UPLOAD
from nova.volume.rest.resources import VOLUME
from nova.volume.rest.schemas import route
from nova.volume.store import rows as rows_of
from nova.volume.store import types as type_rows
from nova.volume.store import uploads
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import Schema
from nova.web.resource import shape
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Table
    from nova.db.tables.rows import VolumesRow
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.objects.image import Image
    from nova.volume.embedded import EmbeddedVolumes
    from nova.volume.rest.request import VolumeRequest

ONLINE_EXTEND = 42       # first microversion that extends volumes in use
OF_BACKUP = 47           # first microversion that creates volumes from backups
OF_SERVER_IMAGE = 46     # first microversion with volumes from images that have no data but name a snapshot
SUMMARY, SUMMARY_METADATA = 12, 36       # first microversions with the summary, and with metadata in the summary
IMAGE_FIELDS = 1         # first microversion with the keys visibility and protected of os-volume_upload_image
CLOSED = 53              # first microversion that refuses unknown attributes of new volumes
# rules that are checked only for some requests of an operation
CREATE_FROM_IMAGE, FORCE_DELETE = 'volume:create_from_image', 'volume:force_delete'
EXTEND_ATTACHED, REIMAGE_RESERVED = 'volume:extend_attached_volume', 'volume:reimage_reserved'
UPLOAD_PUBLIC = 'volume_extension:volume_actions:upload_public'
SAME_HOST = 'same_host'        # scheduler hint that is always met, because there is only one backend
_WORD: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
STATUSES = ['available', 'error', 'in-use', 'attaching', 'detaching', 'reserved', 'creating', 'deleting']

# {name before an id: table of the resource}; a name is a path segment, or a key of a request body
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


def owned_table(row: Route) -> Table | None:
    """Return the table of a path's resource; None if the path has no owned resource or accepts a transfer."""
    return _IDENTS.get(row.path.split('/')[1]) if '{ident}' in row.path and not row.path.endswith('/accept') else None


def check_shown(request: VolumeRequest, row: Route, parts: dict[str, str]) -> None:
    """Hide from users the volumes of servers that only administrators see, and the resources of these volumes.

    :raises VolumeNotFound, VolumeSnapshotNotFound, VolumeAttachmentNotFound: the request names a hidden resource
    """
    named = request.body.items() if isinstance(request.body, dict) else ()
    for key, value in (*zip([row.path.split('/')[1]], parts.values()), *named):
        if key in _IDENTS and value:
            with request.store.db.reader() as conn:
                if db.of_administrative(conn, _IDENTS[key], str(value)[:64]):
                    raise _NOT_FOUND[_IDENTS[key]](str(value)[:64])


def _unmet_hints(hints: Json) -> str:
    """Return why scheduler hints are refused, or '' to accept them."""
    unmet = [name for name, value in hints.items() if name != SAME_HOST and value] if isinstance(hints, dict) else ['?']
    return f'{unmet[0][:80]} is not supported: there is one backend. Supported is {SAME_HOST}.' if unmet else ''


_HINTS = dict.fromkeys(('OS-SCH-HNT:scheduler_hints', 'scheduler_hints'), _unmet_hints)


# ---- volumes -----------------------------------------------------------------

class _Summary(Document):
    """Number and total size of volumes; later microversions include their metadata."""

    def schema(self, version: int) -> Schema:
        shown: dict[str, Schema] = {'total_count': schemas.INTEGER, 'total_size': schemas.INTEGER}
        if version >= SUMMARY_METADATA:
            shown['metadata'] = {'type': 'object', 'additionalProperties': {'type': 'array', 'items': schemas.TEXT}}
        return closed('volume-summary', **{'volume-summary': shape(**shown)})


def summarize_volumes(request: VolumeRequest) -> JsonObject:
    with request.store.db.reader() as conn:
        count, size, metadata = db.summary(conn, listing.asked_of(request), request.trusted)
    shown: dict[str, Any] = {'total_count': count, 'total_size': size}
    if request.version >= SUMMARY_METADATA:
        shown['metadata'] = {key: sorted(values) for key, values in sorted(metadata.items())}
    return {'volume-summary': shown}


def create_volume(request: VolumeRequest) -> rows_of.Volume:
    given = VOLUME.given(request.body)
    snapshot_id, source_id, backup_id = sources = [
        given.get(name) or None for name in ('snapshot_id', 'source_volid', 'backup_id')]
    image_id = given.get('imageRef') or given.get('image_id')
    if backup_id and request.version < OF_BACKUP:
        raise exception.BadRequest(f'Creating volumes from backups requires microversion 3.{OF_BACKUP}.')
    if sum(bool(source) for source in (*sources, image_id)) > 1:
        raise exception.InvalidInput(reason='May specify only one of snapshot, imageRef, source volume or backup.')
    if given.get('size') is None and not any(sources):
        raise exception.InvalidInput(reason='size must be given.')
    try:
        for rule, asked in ((CREATE_FROM_IMAGE, image_id), (type_rows.MULTIATTACH, given.get('multiattach'))):
            if asked:
                request.authorize(rule)
        return request.store.create(
            request.context, given.get('size'), name=given.get('name', ''), description=given.get('description'),
            image_id=image_id, snapshot_id=snapshot_id, volume_type=given.get('volume_type'),
            source_volume_id=source_id, backup_id=backup_id, availability_zone=given.get('availability_zone'),
            multiattach=bool(given.get('multiattach')), metadata=items.replaced(given.get('metadata')),
            of_server_images=request.version >= OF_SERVER_IMAGE, may_share=request.allows(type_rows.MULTIATTACH))
    except (exception.ImageNotFound, exception.VolumeTypeNotFound) as error:
        raise type(error)(error.message) from None


def update_volume(request: VolumeRequest, ident: str) -> rows_of.Volume:
    values = items.changed(VOLUME, request.body)
    return request.store.update(request.context, ident, lambda row: values)


def delete_volume(request: VolumeRequest, ident: str) -> None:
    force = schemas.flag('force', request.query.get('force'))
    if force:
        request.authorize(FORCE_DELETE, request.store.get(request.context, ident))
    request.store.delete(request.context, ident, force=force,
                         cascade=schemas.flag('cascade', request.query.get('cascade')))


# ---- actions on volumes ------------------------------------------------------

def extend(request: VolumeRequest, ident: str) -> None:
    online = request.version >= ONLINE_EXTEND
    if online:
        row = request.store.get(request.context, ident)
        if row['status'] == 'in-use':
            request.authorize(EXTEND_ATTACHED, row)
    request.store.extend(request.context, ident, request.body['new_size'], online=online)


def set_bootable(request: VolumeRequest, ident: str) -> None:
    request.store.update(request.context, ident, lambda row: {'bootable': request.body['bootable']})


def set_readonly(request: VolumeRequest, ident: str) -> None:
    def change(row: VolumesRow) -> JsonObject:
        if row['status'] != 'available':
            raise exception.InvalidVolume(reason=f'status must be available, but it is {row["status"]}.')
        return {'readonly': request.body['readonly']}
    request.store.update(request.context, ident, change)


def retype(request: VolumeRequest, ident: str) -> None:
    """Change the type. migration_policy is ignored, because there is only one backend."""
    row = request.store.get(request.context, ident)
    if not row['multiattach'] and type_rows.is_multiattach(types.find(request, request.body['new_type'])):
        request.authorize(type_rows.MULTIATTACH, row)
    request.store.retypes.retype(request.context, ident, request.body['new_type'])


def set_image_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    change = items.added('image_metadata', request.body['metadata'],
                         f'A volume has at most {schemas.MAX_METADATA_ITEMS} items of image metadata.')
    return {'metadata': request.store.update(request.context, ident, change)['image_metadata']}


def unset_image_metadata(request: VolumeRequest, ident: str) -> None:
    request.store.update(request.context, ident, items.removed('image_metadata', request.body['key']))


def show_image_metadata(request: VolumeRequest, ident: str) -> JsonObject:
    return {'metadata': request.store.get(request.context, ident)['image_metadata']}


def reset_status(request: VolumeRequest, ident: str) -> None:
    request.store.update(request.context, ident, lambda row: {'status': request.body['status']})


def reimage(request: VolumeRequest, ident: str) -> None:
    """Write an image to a volume. A separate rule permits this for reserved volumes, as in a rebuild."""
    reserved = request.body.get('reimage_reserved', False)
    if reserved:
        request.authorize(REIMAGE_RESERVED, request.store.get(request.context, ident))
    request.store.reimage(request.context, ident, request.body['image_id'], reserved)


def upload_image(request: VolumeRequest, ident: str) -> tuple[rows_of.Volume, Image]:
    """Create an image from a volume. ``force`` is ignored: the image of a volume in use could be inconsistent."""
    given, since = request.body, request.version >= IMAGE_FIELDS
    disk_format, container_format = given.get('disk_format') or 'raw', given.get('container_format') or 'bare'
    if disk_format not in uploads.FORMATS or container_format != 'bare':
        raise exception.InvalidInput(reason=f'disk_format must be {" or ".join(uploads.FORMATS)} and container_format '
                                            f'bare, not {disk_format[:40]} in {container_format[:40]}.')
    if not since and (given.get('visibility') or given.get('protected') is not None):
        raise exception.BadRequest(f'visibility and protected require microversion 3.{IMAGE_FIELDS}.')
    if given.get('visibility') == 'public':
        request.authorize(UPLOAD_PUBLIC, request.store.get(request.context, ident))
    return request.store.uploads.begin(request.context, ident, disk_format, {
        'name': given['image_name'], 'visibility': given.get('visibility') or 'private',
        'protected': given.get('protected') or False})


def attach(request: VolumeRequest, ident: str) -> None:
    """Record that a client has attached a volume to a server."""
    given = request.body
    attachments.check_mode(given.get('mode'), request.store.get(request.context, ident))
    request.store.attachments.attach(request.context, ident, given['instance_uuid'], given.get('mountpoint'), False)


def detach(request: VolumeRequest, ident: str) -> None:
    """End an attachment.

    :raises InvalidVolume: the request does not select exactly one attachment
    """
    held, named = request.store.get(request.context, ident)['attachments'], request.body.get('attachment_id')
    found = [each['id'] for each in held if named in (None, each['id'])]
    if len(found) != 1:
        raise exception.InvalidVolume(reason='attachment_id must name one of its attachments.')
    request.store.detach(request.context, found[0])


# {action without parameters: method of the backend}
_FORWARDED: dict[str, Callable[[EmbeddedVolumes], Callable[..., None]]] = {
    'begin_detaching': lambda store: store.begin_detaching, 'roll_detaching': lambda store: store.roll_detaching,
    'reserve': lambda store: store.attachments.reserve, 'unreserve': lambda store: store.attachments.unreserve}
_ACTION, _ADMIN_ACTION = 'volume_extension:volume_actions:', 'volume_extension:volume_admin_actions:'
_IMAGE_ITEMS = 'volume_extension:volume_image_metadata:'
_ONE, _FORCE = One(VOLUME, 'show'), listing.Query('force', 'cascade', refuses=False)
ROUTES: tuple[Route, ...] = (
    listing.listed('/volumes', 'list_volumes', 'volume:get_all', VOLUME, 'list'),
    listing.listed('/volumes/detail', 'list_volumes_in_detail', 'volume:get_all', VOLUME,
                   prepare=rows_of.with_attachments),
    route('POST', '/volumes', create_volume, 'volume:create', (CREATE_FROM_IMAGE, type_rows.MULTIATTACH), status=202,
          body=VOLUME.body('create', CLOSED, _HINTS), answer=One(VOLUME, 'create')),
    route('GET', '/volumes/summary', summarize_volumes, 'volume:get_all', since=SUMMARY,
          query=listing.Query(*listing.EVERYONE), answer=_Summary({})),
    route('GET', '/volumes/{ident}', schemas.forward(lambda store: store.get), 'volume:get', answer=_ONE,
          name='show_volume'),
    route('PUT', '/volumes/{ident}', update_volume, 'volume:update', body=VOLUME.body('update'), answer=_ONE),
    route('DELETE', '/volumes/{ident}', delete_volume, 'volume:delete', (FORCE_DELETE,), status=202,
          query=_FORCE),
    *items.routes('volumes', 'metadata', [f'volume:{verb}_volume_metadata' for verb in (
        'get', 'create', 'update', 'delete')], lambda store: store),
    schemas.action('volumes', 'os-extend', extend, 'volume:extend', checks=(EXTEND_ATTACHED,),
                   schema=shape(new_size=schemas.SIZE_REQUIRED)),
    schemas.action('volumes', 'os-set_bootable', set_bootable, 'volume:update', 200,
                   schema=shape(bootable=schemas.FLAG)),
    schemas.action('volumes', 'os-reset_status', reset_status, _ADMIN_ACTION + 'reset_status',
                   schema=shape(status={'enum': STATUSES})),
    schemas.action('volumes', 'os-reimage', reimage, 'volume:reimage', checks=(REIMAGE_RESERVED,),
                   schema=closed('image_id', image_id=schemas.ID, reimage_reserved=schemas.FLAG)),
    schemas.action('volumes', 'os-update_readonly_flag', set_readonly, 'volume:update_readonly_flag',
                   schema=shape(readonly=schemas.FLAG)),
    schemas.action('volumes', 'os-retype', retype, 'volume:retype', checks=(type_rows.MULTIATTACH,), schema=closed(
        'new_type', new_type=_WORD, migration_policy={'enum': ['never', 'on-demand', None]})),
    schemas.action('volumes', 'os-force_delete', schemas.forward(lambda store: store.delete, force=True),
                   _ADMIN_ACTION + 'force_delete', name='force_delete'),
    schemas.action('volumes', 'os-set_image_metadata', set_image_metadata, _IMAGE_ITEMS + 'set', 200,
                   schema=shape(metadata=schemas.ITEMS), answer=schemas.METADATA_ANSWER),
    schemas.action('volumes', 'os-unset_image_metadata', unset_image_metadata, _IMAGE_ITEMS + 'remove', 200,
                   schema=shape(key={'type': 'string', 'maxLength': 255})),
    schemas.action('volumes', 'os-show_image_metadata', show_image_metadata, 'volume:get_volume_metadata', 200,
                   answer=schemas.METADATA_ANSWER),
    schemas.action('volumes', 'os-volume_upload_image', upload_image, _ACTION + 'upload_image',
                   checks=(UPLOAD_PUBLIC,), answer=One(UPLOAD, 'show'), schema=closed(
        'image_name', image_name=_WORD, force=schemas.FLAG_OR_NULL, container_format=schemas.NAME,
        disk_format=schemas.NAME, visibility=schemas.NAME, protected=schemas.FLAG_OR_NULL)),
    *(schemas.action('volumes', f'os-{name}', schemas.forward(method), _ACTION + name, name=name)
      for name, method in _FORWARDED.items()),
    schemas.action('volumes', 'os-attach', attach, _ACTION + 'attach', schema=closed(
        'instance_uuid', instance_uuid=schemas.ID, mountpoint=schemas.NAME, mode={'enum': ['rw', 'ro', None]})),
    schemas.action('volumes', 'os-detach', detach, _ACTION + 'detach', schema=closed(
        attachment_id=schemas.SHORT_ID)),
    *snapshots.ROUTES,
    *attachments.ROUTES,
    *types.ROUTES,
    *type_access.ROUTES,
    *qos.ROUTES,
    *managed.ROUTES,
    *limits.ROUTES,
    *backends.ROUTES,
    *backups.ROUTES,
)
