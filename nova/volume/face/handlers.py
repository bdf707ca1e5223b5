"""What the operations of the face do: rows and handlers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.projects import storage_quotas
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volume_transfers
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.face import backups
from nova.volume.face import listing
from nova.volume.face import schemas
from nova.volume.face import views
from nova.volume.store import rows as rows_of
from nova.volume.store import types
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Table
    from nova.db.tables.rows import VolumeAttachmentsRow
    from nova.volume.face.app import VolumeRequest

ZONE = {'zoneState': {'available': True}}
ALWAYS_FORCED = 66       # microversion that makes snapshots of volumes in use without being forced to
ONLINE_EXTEND = 42       # microversion that lets a volume in use grow


# Policy of what belongs to a server in use: administrators and services.
TRUSTED = 'trusted'


# ---- what may come in --------------------------------------------------------

Given, _object, _NAME, _METADATA = schemas.Given, schemas.of, schemas.NAME, schemas.METADATA
_ID = {'type': ['string', 'null'], 'maxLength': 255}
_SIZE = {'type': ['integer', 'string', 'null'], 'pattern': '^[0-9]{1,9}$', 'maximum': 999999999}


_VOLUME = _object(name=_NAME, display_name=_NAME, description=_NAME, display_description=_NAME, size=_SIZE,
                  metadata=_METADATA, imageRef=_ID, image_id=_ID, snapshot_id=_ID, source_volid=_ID, volume_type=_ID,
                  availability_zone=_NAME, multiattach={'type': ['boolean', 'string', 'null']})
_SNAPSHOT = {**_object(name=_NAME, display_name=_NAME, description=_NAME, volume_id={'type': 'string'},
                       force={'type': ['boolean', 'string', 'null']}, metadata=_METADATA), 'required': ['volume_id']}
_ATTACHMENT = {**_object(volume_uuid={'type': 'string'}, instance_uuid={'type': 'string', 'maxLength': 36},
                         connector={'type': ['object', 'null']}), 'required': ['volume_uuid', 'instance_uuid']}
_CONNECTOR = {**_object(connector={'type': 'object'}), 'required': ['connector']}
_EXTEND = {**_object(new_size={**_SIZE, 'type': ['integer', 'string']}), 'required': ['new_size']}
_REIMAGE = {**_object(image_id={'type': 'string', 'maxLength': 36}, reimage_reserved={'type': ['boolean', 'string']}),
            'required': ['image_id']}
_BOOTABLE = {**_object(bootable={'type': ['boolean', 'string']}), 'required': ['bootable']}
_STATUS = {**_object(status={'enum': ['available', 'error', 'in-use', 'attaching', 'detaching', 'reserved', 'creating',
                                      'deleting']}), 'required': ['status']}
_SNAPSHOT_RESET = {**_object(status={'enum': ['available', 'error']}), 'required': ['status']}
_RETYPE = {**_object(new_type={'type': 'string', 'minLength': 1, 'maxLength': 255},
                     migration_policy={'enum': ['never', 'on-demand', None]}), 'required': ['new_type']}
_READONLY = {**_object(readonly={'type': ['boolean', 'string']}), 'required': ['readonly']}
_IMAGE_METADATA = {**_object(metadata={**_METADATA, 'type': 'object'}), 'required': ['metadata']}
_KEY = {**_object(key={'type': 'string', 'maxLength': 255}), 'required': ['key']}
_SNAPSHOT_STATUS = {**_object(status={'enum': ['creating', 'error']}, progress={
    'type': ['string', 'null'], 'maxLength': 16}), 'required': ['status']}
_ITEMS = {**_METADATA, 'type': 'object'}
_DESCRIPTION = _object(name=_NAME, display_name=_NAME, description=_NAME, display_description=_NAME,
                       metadata=_METADATA)


_NO_QUOTA = {'groups': 0}                # there are none here
_QUOTAS = {'type': 'object', 'minProperties': 1, 'additionalProperties': False, 'properties': dict.fromkeys(
    storage_quotas.VOLUMES, {'type': ['integer', 'string'], 'pattern': '^(-1|[0-9]{1,9})$', 'minimum': -1,
                             'maximum': 2147483647})}


# first part of a path, or key of a body: the table whose id follows
_IDENTS = {'volumes': volumes, 'snapshots': volume_snapshots, 'attachments': volume_attachments,
           'backups': volume_backups, 'os-volume-transfer': volume_transfers, 'volume-transfers': volume_transfers,
           'volume_id': volumes, 'source_volid': volumes, 'volume_uuid': volumes, 'snapshot_id': volume_snapshots}


_NOT_FOUND: dict[Table, Callable[[str], exception.NovaException]] = {
    volumes: lambda ident: exception.VolumeNotFound(volume_id=ident),
    volume_snapshots: lambda ident: exception.VolumeSnapshotNotFound(snapshot_id=ident),
    volume_attachments: lambda ident: exception.VolumeAttachmentNotFound(attachment_id=ident),
    volume_backups: lambda ident: exception.VolumeBackupNotFound(backup_id=ident),
    volume_transfers: lambda ident: exception.VolumeTransferNotFound(transfer_id=ident)}


def check_shown(request: VolumeRequest, row: Route, parts: dict[str, str]) -> None:
    """Volumes of administrative servers, and what belongs to them, do not exist for users.

    :raises VolumeNotFound, VolumeSnapshotNotFound, VolumeAttachmentNotFound: the request names one
    """
    named = request.body.items() if isinstance(request.body, dict) else ()
    for key, value in (*zip([row.path.split('/')[1]], parts.values()), *named):
        if key in _IDENTS and value:
            with request.store.db.reader() as conn:
                if db.of_administrative(conn, _IDENTS[key], str(value)[:64]):
                    raise _NOT_FOUND[_IDENTS[key]](str(value)[:64])


def _named(given: dict[str, Any]) -> dict[str, Any]:
    """name and description under either of their keys; only those that came."""
    found = {}
    for name in ('name', 'description'):
        for key in (name, f'display_{name}'):
            if key in given:
                found[name] = given[key]
    return found


# ---- volumes -----------------------------------------------------------------

_VOLUME_FILTERS = {'name': 'name', 'status': 'status', 'id': 'id', 'display_name': 'name',
                   'availability_zone': 'availability_zone', 'volume_type': 'volume_type', 'size': 'size',
                   'bootable': 'bootable', 'multiattach': 'multiattach', 'source_volid': 'source_volume_id',
                   'snapshot_id': 'snapshot_id'}


def list_volumes(request: VolumeRequest) -> dict[str, Any]:
    return listing.page(request, volumes, 'volumes', lambda conn, rows: [views.brief(row, request) for row in rows],
                 _VOLUME_FILTERS)


def list_volumes_in_detail(request: VolumeRequest) -> dict[str, Any]:
    return listing.page(request, volumes, 'volumes', lambda conn, rows: [
        views.volume(row, request) for row in rows_of.with_attachments(conn, rows)], _VOLUME_FILTERS)


def show_volume(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'volume': views.volume(request.store.get(request.context, ident), request)}


def create_volume(request: VolumeRequest) -> dict[str, Any]:
    given = request.body
    sources = [given.get(name) for name in ('snapshot_id', 'source_volid')] + [_image(given)]
    if sum(bool(source) for source in sources) > 1:
        raise exception.InvalidInput(reason='May specify only one of snapshot, imageRef or source volume.')
    if given.get('size') in (None, '') and not (sources[0] or sources[1]):
        raise exception.InvalidInput(reason='size must be given.')
    try:
        made = request.store.create(
            request.context, int(given['size']) if given.get('size') not in (None, '') else None,
            **{'name': '', 'description': None, **_named(given)}, image_id=sources[2], snapshot_id=sources[0],
            volume_type=given.get('volume_type'), source_volume_id=sources[1],
            availability_zone=given.get('availability_zone'), multiattach=listing.true(given.get('multiattach')),
            metadata=given.get('metadata'))
    except (exception.ImageNotFound, exception.VolumeTypeNotFound) as error:
        raise type(error)(error.message) from None
    return {'volume': views.new_volume(made, request)}


def _image(given: dict[str, Any]) -> str | None:
    return given.get('imageRef') or given.get('image_id')


def update_volume(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body
    values = _named(given)
    if given.get('metadata') is not None:
        values['metadata'] = given['metadata']
    return {'volume': views.volume(request.store.update(request.context, ident, lambda row: values), request)}


def delete_volume(request: VolumeRequest, ident: str) -> None:
    request.store.delete(request.context, ident, cascade=listing.true(request.query.get('cascade', '')))


# ---- metadata of volumes -----------------------------------------------------

def show_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'metadata': request.store.get(request.context, ident)['metadata']}


def add_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body

    def change(row: dict[str, Any]) -> dict[str, Any]:
        merged = {**row['metadata'], **given}
        if len(merged) > 128:
            raise exception.BadRequest('A volume has at most 128 metadata items.')
        return {'metadata': merged}
    return {'metadata': request.store.update(request.context, ident, change)['metadata']}


def replace_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body
    return {'metadata': request.store.update(request.context, ident, lambda row: {'metadata': given})['metadata']}


def delete_metadata(request: VolumeRequest, ident: str, key: str) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if key not in row['metadata']:
            raise exception.MetadataItemNotFound(key=key[:255])
        return {'metadata': {name: value for name, value in row['metadata'].items() if name != key}}
    request.store.update(request.context, ident, change)


# ---- actions on volumes ------------------------------------------------------

def extend(request: VolumeRequest, ident: str) -> None:
    request.store.extend(request.context, ident, int(request.body['new_size']),
                         online=request.microversion >= ONLINE_EXTEND)


def set_bootable(request: VolumeRequest, ident: str) -> None:
    wanted = listing.true(request.body['bootable'])
    request.store.update(request.context, ident, lambda row: {'bootable': wanted})


def set_readonly(request: VolumeRequest, ident: str) -> None:
    wanted = listing.true(request.body['readonly'])

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row['status'] != 'available':
            raise exception.InvalidVolume(reason=f'status must be available, but it is {row["status"]}.')
        return {'readonly': wanted}
    request.store.update(request.context, ident, change)


def retype(request: VolumeRequest, ident: str) -> None:
    """The types differ in nothing but whether several servers may have a volume at once."""
    row, check = request.store.get(request.context, ident), request.store.check_type
    if check(request.context, request.body['new_type']) != check(request.context, row['volume_type']):
        raise exception.BadRequest('A volume keeps its type here: its blocks have one place. Make a volume of the '
                                   'other type from it (source volume) in its stead.')


def force_delete(request: VolumeRequest, ident: str) -> None:
    request.store.delete(request.context, ident, force=True)


def set_image_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body['metadata']

    def change(row: dict[str, Any]) -> dict[str, Any]:
        merged = {**row['image_metadata'], **given}
        if len(merged) > 128:
            raise exception.BadRequest('A volume has at most 128 items of image metadata.')
        return {'image_metadata': merged}
    return {'metadata': request.store.update(request.context, ident, change)['image_metadata']}


def unset_image_metadata(request: VolumeRequest, ident: str) -> None:
    key = request.body['key']

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if key not in row['image_metadata']:
            raise exception.MetadataItemNotFound(key=key)
        return {'image_metadata': {name: value for name, value in row['image_metadata'].items() if name != key}}
    request.store.update(request.context, ident, change)


def show_image_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'metadata': request.store.get(request.context, ident)['image_metadata']}


def reset_status(request: VolumeRequest, ident: str) -> None:
    status = request.body['status']
    request.store.update(request.context, ident, lambda row: {'status': status})


def reimage(request: VolumeRequest, ident: str) -> None:
    """A volume that a server has reserved is for services and administrators: they rebuild the server."""
    reserved = listing.true(request.body.get('reimage_reserved', False))
    if reserved and not request.trusted:
        raise exception.PolicyDenied(rule='volume:reimage_reserved')
    request.store.reimage(request.context, ident, request.body['image_id'], reserved)


def begin_detaching(request: VolumeRequest, ident: str) -> None:
    request.store.begin_detaching(request.context, ident)


def roll_detaching(request: VolumeRequest, ident: str) -> None:
    request.store.roll_detaching(request.context, ident)


# ---- snapshots ---------------------------------------------------------------

_SNAPSHOT_FILTERS = {'name': 'name', 'status': 'status', 'volume_id': 'volume_id', 'display_name': 'name'}


def list_snapshots(request: VolumeRequest) -> dict[str, Any]:
    return listing.page(request, volume_snapshots, 'snapshots',
                 lambda conn, rows: [views.snapshot(row, request) for row in rows], _SNAPSHOT_FILTERS)


def show_snapshot(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'snapshot': views.snapshot(request.store.snapshots.get(request.context, ident), request)}


def create_snapshot(request: VolumeRequest) -> dict[str, Any]:
    given = request.body
    made = request.store.snapshots.create(
        request.context, given['volume_id'], _named(given).get('name'), _named(given).get('description'),
        # openstackclient leaves the word out, and asks for the version before that
        force=request.microversion >= ALWAYS_FORCED or listing.true(given.get('force', True)),
        metadata=given.get('metadata'))
    return {'snapshot': views.new_snapshot(made, request)}


def update_snapshot(request: VolumeRequest, ident: str) -> dict[str, Any]:
    values = _named(request.body)
    return {'snapshot': views.snapshot(request.store.snapshots.update(request.context, ident, lambda row: values),
                                       request)}


def delete_snapshot(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.delete(request.context, ident)


def show_snapshot_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'metadata': request.store.snapshots.get(request.context, ident)['metadata']}


def add_snapshot_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        merged = {**row['metadata'], **request.body}
        if len(merged) > 128:
            raise exception.BadRequest('A snapshot has at most 128 metadata items.')
        return {'metadata': merged}
    return {'metadata': request.store.snapshots.update(request.context, ident, change)['metadata']}


def replace_snapshot_metadata(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'metadata': request.store.snapshots.update(
        request.context, ident, lambda row: {'metadata': request.body})['metadata']}


def delete_snapshot_metadata(request: VolumeRequest, ident: str, key: str) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if key not in row['metadata']:
            raise exception.MetadataItemNotFound(key=key[:255])
        return {'metadata': {name: value for name, value in row['metadata'].items() if name != key}}
    request.store.snapshots.update(request.context, ident, change)


def reset_snapshot_status(request: VolumeRequest, ident: str) -> None:
    request.store.snapshots.update(request.context, ident, lambda row: {'status': request.body['status']})


def update_snapshot_status(request: VolumeRequest, ident: str) -> None:
    """What a compute that copies a volume reports; see EmbeddedVolumes."""
    request.store.snapshots.get(request.context, ident)
    request.store.snapshots.copied(ident, request.body['status'])


# ---- attachments -------------------------------------------------------------

def list_attachments(request: VolumeRequest) -> dict[str, Any]:
    filters = {'volume_id': 'volume_id', 'instance_id': 'instance_uuid', 'status': 'status'}
    query = {'sort': 'created_at:asc,id:asc', **request.query}
    request.query = query
    return listing.page(request, volume_attachments, 'attachments',
                 lambda conn, rows: [views.attachment(row) for row in rows], filters)


def _attachment(request: VolumeRequest, ident: str) -> VolumeAttachmentsRow:
    with request.store.db.reader() as conn:
        return rows_of.attachment(conn, request.context, ident)


def show_attachment(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'attachment': views.attachment(_attachment(request, ident))}


def create_attachment(request: VolumeRequest) -> dict[str, Any]:
    given = request.body
    ident = request.store.attach(request.context, given['volume_uuid'], given['instance_uuid'])
    info = None
    if given.get('connector'):
        info = request.store.connect(request.context, ident, given['connector'], _mountpoint(given))
    return {'attachment': views.attachment(_attachment(request, ident), info)}


def update_attachment(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body
    info = request.store.connect(request.context, ident, given['connector'], _mountpoint(given))
    return {'attachment': views.attachment(_attachment(request, ident), info)}


def _mountpoint(given: dict[str, Any]) -> str | None:
    return str(given['connector'].get('mountpoint') or '')[:255] or None


def complete_attachment(request: VolumeRequest, ident: str) -> None:
    request.store.complete(request.context, ident)


def delete_attachment(request: VolumeRequest, ident: str) -> dict[str, Any]:
    _attachment(request, ident)
    request.store.detach(request.context, ident)
    return {'attachments': []}


# ---- types, limits and other requests of clients -------------------------------

def list_types(request: VolumeRequest) -> dict[str, Any]:
    return {'volume_types': [views.volume_type(row) for row in types.TYPES]}


def show_type(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'volume_type': views.volume_type(types.find(
        None if ident == 'default' else ident))}


def show_extra_specs(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'extra_specs': types.find(ident)['extra_specs']}


def _limits(request: VolumeRequest, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """({resource: limit}, {resource: number in use}) of a project."""
    with request.store.db.reader() as conn:
        return request.store.limits.of(conn, project_id), db.used(conn, project_id)


def limits(request: VolumeRequest) -> dict[str, Any]:
    most, used = _limits(request, request.context.project_id or '')
    return {'limits': {'rate': [], 'absolute': {
        'maxTotalVolumes': most['volumes'], 'maxTotalSnapshots': most['snapshots'],
        'maxTotalVolumeGigabytes': most['gigabytes'], 'maxTotalBackups': most['backups'],
        'maxTotalBackupGigabytes': most['backup_gigabytes'],
        'totalVolumesUsed': used['volumes'], 'totalSnapshotsUsed': used['snapshots'],
        'totalGigabytesUsed': used['gigabytes'], 'totalBackupsUsed': used['backups'],
        'totalBackupGigabytesUsed': used['backup_gigabytes']}}}


def quotas(request: VolumeRequest, project_id: str) -> dict[str, Any]:
    if project_id != request.context.project_id and not request.context.is_admin:
        raise exception.NotFound()
    most, used = _limits(request, project_id)
    shown: dict[str, Any] = {**most, **_NO_QUOTA}
    if listing.true(request.query.get('usage', '')):
        shown = {name: {'limit': limit, 'in_use': used.get(name, 0), 'reserved': 0} for name, limit in shown.items()}
    return {'quota_set': {'id': project_id, **shown}}


def default_quotas(request: VolumeRequest, project_id: str) -> dict[str, Any]:
    with request.store.db.reader() as conn:
        return {'quota_set': {'id': project_id, **request.store.limits.defaults(conn), **_NO_QUOTA}}


def update_quotas(request: VolumeRequest, project_id: str) -> dict[str, Any]:
    _check_administrator(request, project_id)
    wanted = {name: int(limit) for name, limit in request.body.items()}
    most = request.store.limits.set(project_id, wanted, listing.true(request.query.get('skip_validation', 'true')))
    return {'quota_set': {**most, **_NO_QUOTA}}


def delete_quotas(request: VolumeRequest, project_id: str) -> None:
    _check_administrator(request, project_id)
    request.store.limits.delete(project_id)


def _check_administrator(request: VolumeRequest, project_id: str) -> None:
    if not request.context.is_admin:
        raise exception.PolicyDenied(rule='volume_extension:quotas:update')
    if len(project_id) > 255:
        raise exception.BadRequest('A project id has 255 characters at most.')


def zones(request: VolumeRequest) -> dict[str, Any]:
    name = request.store.conf.default_availability_zone
    return {'availabilityZoneInfo': [{'zoneName': name, **ZONE}]}


def nothing(key: str) -> Callable[[VolumeRequest], dict[str, Any]]:
    """A list of what this service has none of."""
    def empty(request: VolumeRequest) -> dict[str, Any]:
        return {key: []}
    return empty


# ---- rows --------------------------------------------------------------------

def _action(noun: str, name: str, handler: Callable[..., Any], status: int = 202, admin: bool = False,
            schema: dict[str, Any] | None = None) -> Route:
    return Route('POST', f'/{noun}/{{ident}}/action', handler, TRUSTED if admin else None, status=status, action=name,
                 body=schema and Given(name, schema))


ROUTES = (
    Route('GET', '/volumes', list_volumes),
    Route('GET', '/volumes/detail', list_volumes_in_detail),
    Route('POST', '/volumes', create_volume, status=202, body=Given('volume', _VOLUME)),
    Route('GET', '/volumes/{ident}', show_volume),
    Route('PUT', '/volumes/{ident}', update_volume, body=Given('volume', _DESCRIPTION)),
    Route('DELETE', '/volumes/{ident}', delete_volume, status=202),
    Route('GET', '/volumes/{ident}/metadata', show_metadata),
    Route('POST', '/volumes/{ident}/metadata', add_metadata, body=Given('metadata', _ITEMS)),
    Route('PUT', '/volumes/{ident}/metadata', replace_metadata, body=Given('metadata', _ITEMS)),
    Route('DELETE', '/volumes/{ident}/metadata/{key}', delete_metadata),
    _action('volumes', 'os-extend', extend, schema=_EXTEND),
    _action('volumes', 'os-set_bootable', set_bootable, 200, schema=_BOOTABLE),
    _action('volumes', 'os-reset_status', reset_status, admin=True, schema=_STATUS),
    _action('volumes', 'os-reimage', reimage, schema=_REIMAGE),
    _action('volumes', 'os-update_readonly_flag', set_readonly, schema=_READONLY),
    _action('volumes', 'os-retype', retype, schema=_RETYPE),
    _action('volumes', 'os-force_delete', force_delete, admin=True),
    _action('volumes', 'os-set_image_metadata', set_image_metadata, 200, schema=_IMAGE_METADATA),
    _action('volumes', 'os-unset_image_metadata', unset_image_metadata, 200, schema=_KEY),
    _action('volumes', 'os-show_image_metadata', show_image_metadata, 200),
    _action('volumes', 'os-begin_detaching', begin_detaching, admin=True),
    _action('volumes', 'os-roll_detaching', roll_detaching, admin=True),
    Route('GET', '/snapshots', list_snapshots),
    Route('GET', '/snapshots/detail', list_snapshots),
    Route('POST', '/snapshots', create_snapshot, status=202, body=Given('snapshot', _SNAPSHOT)),
    Route('GET', '/snapshots/{ident}', show_snapshot),
    Route('PUT', '/snapshots/{ident}', update_snapshot, body=Given('snapshot', _DESCRIPTION)),
    Route('DELETE', '/snapshots/{ident}', delete_snapshot, status=202),
    Route('GET', '/snapshots/{ident}/metadata', show_snapshot_metadata),
    Route('POST', '/snapshots/{ident}/metadata', add_snapshot_metadata, body=Given('metadata', _ITEMS)),
    Route('PUT', '/snapshots/{ident}/metadata', replace_snapshot_metadata, body=Given('metadata', _ITEMS)),
    Route('DELETE', '/snapshots/{ident}/metadata/{key}', delete_snapshot_metadata),
    _action('snapshots', 'os-reset_status', reset_snapshot_status, admin=True, schema=_SNAPSHOT_RESET),
    _action('snapshots', 'os-update_snapshot_status', update_snapshot_status, admin=True, schema=_SNAPSHOT_STATUS),
    Route('GET', '/attachments', list_attachments),
    Route('GET', '/attachments/detail', list_attachments),
    Route('POST', '/attachments', create_attachment, policy=TRUSTED, body=Given('attachment', _ATTACHMENT)),
    Route('GET', '/attachments/{ident}', show_attachment),
    Route('PUT', '/attachments/{ident}', update_attachment, policy=TRUSTED, body=Given('attachment', _CONNECTOR)),
    Route('DELETE', '/attachments/{ident}', delete_attachment, TRUSTED),
    _action('attachments', 'os-complete', complete_attachment, 204, admin=True),
    Route('GET', '/types', list_types),
    Route('GET', '/types/{ident}', show_type),
    Route('GET', '/types/{ident}/extra_specs', show_extra_specs),
    Route('GET', '/limits', limits),
    Route('GET', '/os-quota-sets/{project_id}', quotas),
    Route('GET', '/os-quota-sets/{project_id}/defaults', default_quotas),
    Route('PUT', '/os-quota-sets/{project_id}', update_quotas, policy=TRUSTED, body=Given('quota_set', _QUOTAS)),
    Route('DELETE', '/os-quota-sets/{project_id}', delete_quotas, TRUSTED),
    Route('GET', '/os-availability-zone', zones),
    *backups.ROUTES,
    *(Route('GET', path, nothing(key)) for path, key in (
        ('/extensions', 'extensions'), ('/groups/detail', 'groups'), ('/qos-specs', 'qos_specs'),
        ('/os-services', 'services'))),
)
