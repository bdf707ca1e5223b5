"""Documents of the Block Storage API v3."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import utils
from nova.volume import api

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeAttachmentsRow
    from nova.db.tables.rows import VolumeBackupsRow
    from nova.db.tables.rows import VolumeSnapshotsRow
    from nova.db.tables.rows import VolumesRow
    from nova.db.tables.rows import VolumeTransfersRow
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.objects.image import Image
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store import rows
    from nova.volume.store.services import Service
    from nova.volume.store.types import Type

MAX_VERSION = 68             # minor
# field -> minor version that introduced it
_VOLUME_SINCE = {'group_id': 13, 'provider_id': 21, 'service_uuid': 48, 'shared_targets': 48, 'cluster_name': 61,
                 'volume_type_id': 63, 'encryption_key_id': 64, 'consumes_quota': 65}
_SNAPSHOT_SINCE = {'group_snapshot_id': 14, 'user_id': 41, 'consumes_quota': 65}
_BACKUP_SINCE = {'os-backup-project-attr:project_id': 18, 'metadata': 43, 'user_id': 56, 'encryption_key_id': 64}
_SERVICE_SINCE = {'cluster': 7, 'backend_state': 49}
# fields missing in the answer to a create
_NOT_YET = ('os-vol-tenant-attr:tenant_id', 'os-vol-mig-status-attr:migstat', 'os-vol-mig-status-attr:name_id',
            'os-vol-host-attr:host', 'volume_image_metadata')


def version(url: str) -> JsonObject:
    return {'id': 'v3.0', 'status': 'CURRENT', 'version': f'3.{MAX_VERSION}', 'min_version': '3.0',
            'updated': '2023-08-31T00:00:00Z', 'links': [{'rel': 'self', 'href': f'{url}/v3/'}],
            'media-types': [{'base': 'application/json', 'type': 'application/vnd.openstack.volume+json;version=3'}]}


def _times(row: rows.Volume | VolumeSnapshotsRow | VolumeBackupsRow) -> dict[str, str | None]:
    return {'created_at': utils.exact_time(row['created_at']), 'updated_at': utils.exact_time(row['updated_at'])}


def links(url: str, project_id: str | None, kind: str, ident: str) -> list[Json]:
    path = f'{project_id}/{kind}/{ident}' if project_id else f'{kind}/{ident}'
    return [{'rel': 'self', 'href': f'{url}/v3/{path}'}, {'rel': 'bookmark', 'href': f'{url}/{path}'}]


def _at(version: int, since: dict[str, int], shown: JsonObject) -> JsonObject:
    """Select the fields of a microversion."""
    return {name: value for name, value in shown.items() if since.get(name, 0) <= version}


def new_volume(row: rows.Volume, request: VolumeRequest) -> JsonObject:
    """Return a volume for the answer to a create."""
    return {name: value for name, value in volume(row, request).items() if name not in _NOT_YET}


def volume(row: rows.Volume, request: VolumeRequest) -> JsonObject:
    """Return a volume for show and detail."""
    shown: JsonObject = {
        'id': row['id'], 'name': row['name'] or '', 'description': row['description'], 'status': row['status'],
        'size': row['size'], 'availability_zone': row['availability_zone'], 'volume_type': row['volume_type'],
        'bootable': str(bool(row['bootable'])).lower(), 'multiattach': bool(row['multiattach']),
        'encrypted': row['encrypted'], 'snapshot_id': row['snapshot_id'], 'source_volid': row['source_volume_id'],
        'metadata': {**row['metadata'], 'readonly': 'True'} if row['readonly'] else row['metadata'],
        'user_id': row['user_id'], 'os-vol-tenant-attr:tenant_id': row['project_id'], 'replication_status': None,
        'consistencygroup_id': None, 'group_id': None, 'provider_id': None, 'service_uuid': None,
        'volume_type_id': row['volume_type_id'], 'shared_targets': False,
        'consumes_quota': True, **_times(row),
        'links': links(request.root_url, request.context.project_id, 'volumes', row['id']),
        'attachments': [attachment_of_volume(each, row) for each in row['attachments'] if each['status'] == 'attached']}
    if row['encrypted']:
        shown['encryption_key_id'] = row['key_id']
    if row['image_metadata']:
        shown['volume_image_metadata'] = row['image_metadata']
    if request.context.is_admin:
        shown.update({'os-vol-mig-status-attr:migstat': None, 'os-vol-mig-status-attr:name_id': None,
                      'os-vol-host-attr:host': 'nova@embedded#default', 'migration_status': None,
                      'cluster_name': None})
    return _at(request.microversion, _VOLUME_SINCE, shown)


_UPLOAD_SINCE = {'visibility': 1, 'protected': 1}


def upload(row: rows.Volume, image: Image, request: VolumeRequest) -> JsonObject:
    """Return the document of an image in creation from a volume."""
    kind: JsonObject = {'id': row['volume_type_id'], 'name': row['volume_type'], 'description': None, 'extra_specs': {},
            'is_public': True, 'qos_specs_id': None}
    return _at(request.microversion, _UPLOAD_SINCE, {
        'id': row['id'], 'updated_at': utils.exact_time(row['updated_at']), 'status': row['status'],
        'display_description': row['description'], 'size': row['size'], 'volume_type': kind, 'image_id': image['id'],
        'container_format': image['container_format'], 'disk_format': image['disk_format'],
        'image_name': image['name'], 'visibility': image['visibility'], 'protected': image['protected']})


def volume_encryption(found: JsonObject) -> JsonObject:
    """Return a volume's encryption, from EmbeddedVolumes.encryption."""
    if not found:
        return {'encryption_key_id': None}
    shown = {name: found[name] for name in ('provider', 'cipher', 'key_size', 'control_location',
                                            'encryption_key_id')}
    return {**shown, api.KEEPER: api.BLOCK_STORAGE}


def brief(row: VolumesRow, request: VolumeRequest) -> JsonObject:
    return {'id': row['id'], 'name': row['name'] or '',
            'links': links(request.root_url, request.context.project_id, 'volumes', row['id'])}


def attachment_of_volume(attachment: rows.Held, row: rows.Volume) -> JsonObject:
    """Return an attachment for its volume's document."""
    return {'id': row['id'], 'attachment_id': attachment['id'], 'volume_id': row['id'],
            'server_id': attachment['instance_uuid'], 'host_name': attachment['host'],
            'device': attachment['device'], 'attached_at': utils.exact_time(attachment['attached_at'])}


_SNAPSHOT_LATER = 'os-extended-snapshot-attributes:'


def new_snapshot(row: VolumeSnapshotsRow, request: VolumeRequest) -> JsonObject:
    """Return a snapshot for the answer to a create."""
    return {name: value for name, value in snapshot(row, request).items() if not name.startswith(_SNAPSHOT_LATER)}


def snapshot(row: VolumeSnapshotsRow, request: VolumeRequest) -> JsonObject:
    return _at(request.microversion, _SNAPSHOT_SINCE, {
        'id': row['id'], 'name': row['name'], 'description': row['description'], 'volume_id': row['volume_id'],
        'status': row['status'], 'size': row['size'], 'metadata': row['metadata'], 'user_id': row['user_id'],
        **_times(row), 'group_snapshot_id': None,
        'consumes_quota': True, _SNAPSHOT_LATER + 'project_id': row['project_id'],
        _SNAPSHOT_LATER + 'progress': '100%' if row['status'] == 'available' else '0%'})


def brief_backup(row: VolumeBackupsRow, request: VolumeRequest) -> JsonObject:
    return {'id': row['id'], 'name': row['name'],
            'links': links(request.root_url, request.context.project_id, 'backups', row['id'])}


def backup(row: VolumeBackupsRow, request: VolumeRequest) -> JsonObject:
    return _at(request.microversion, _BACKUP_SINCE, {
        **brief_backup(row, request), 'description': row['description'], 'volume_id': row['volume_id'],
        'snapshot_id': None if row['temporary'] else row['snapshot_id'], 'status': row['status'], 'size': row['size'],
        'object_count': 0, 'container': None, 'availability_zone': None, 'is_incremental': False,
        'has_dependent_backups': False, 'fail_reason': None, **_times(row),
        'data_timestamp': utils.exact_time(row['created_at']),
        'metadata': row['metadata'], 'user_id': row['user_id'], 'encryption_key_id': row['key_id'],
        'os-backup-project-attr:project_id': row['project_id']})


def transfer(row: VolumeTransfersRow, request: VolumeRequest, key: str | None = None) -> JsonObject:
    shown: JsonObject = {'id': row['id'], 'name': row['name'], 'volume_id': row['volume_id'],
             'created_at': utils.exact_time(row['created_at']),
             'links': links(request.root_url, request.context.project_id, 'os-volume-transfer', row['id'])}
    return {**shown, 'auth_key': key} if key else shown


def service(row: Service, request: VolumeRequest) -> JsonObject:
    state = 'up' if row['up'] else 'down'
    return _at(request.microversion, _SERVICE_SINCE, {
        'binary': row['binary'], 'host': row['host'], 'zone': row['availability_zone'], 'state': state,
        'status': 'disabled' if row['disabled'] else 'enabled', 'disabled_reason': row['disabled_reason'],
        'updated_at': utils.exact_time(row['last_seen_at']), 'cluster': None, 'backend_state': state,
        'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False})


def volume_type(row: Type) -> JsonObject:
    return {**new_volume_type(row), 'qos_specs_id': None}


def new_volume_type(row: Type) -> JsonObject:
    """Return a type for the answer to a create."""
    return {**changed_volume_type(row), 'os-volume-type-access:is_public': row['is_public']}


def changed_volume_type(row: Type) -> JsonObject:
    """Return a type for the answer to an update."""
    return {'id': row['id'], 'name': row['name'], 'description': row['description'],
            'extra_specs': {**row['extra_specs']}, 'is_public': row['is_public']}


def new_encryption(type_id: str, found: JsonObject) -> JsonObject:
    """Return a type's encryption for the answer to a create."""
    shown = {name: found[name] for name in ('encryption_id', 'provider', 'cipher', 'key_size', 'control_location')}
    return {**shown, 'volume_type_id': type_id}


def encryption(type_id: str, found: JsonObject) -> JsonObject:
    return {**new_encryption(type_id, found), 'created_at': found['created_at'], 'updated_at': found['updated_at'],
            'deleted': False, 'deleted_at': None}


def attachment(row: VolumeAttachmentsRow, readonly: bool, info: api.Connection | None = None) -> JsonObject:
    return {'id': row['id'], 'volume_id': row['volume_id'], 'instance': row['instance_uuid'], 'status': row['status'],
            'attach_mode': 'ro' if readonly else 'rw',
            'attached_at': utils.exact_time(row['attached_at']) or '', 'detached_at': '',
            'connection_info': {'driver_volume_type': info['driver_volume_type'], **info['data'],
                                'attachment_id': row['id']} if info else {}}
