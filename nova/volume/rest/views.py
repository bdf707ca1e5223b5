"""Documents of the Block Storage API v3."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova import utils
from nova.volume import api

if TYPE_CHECKING:
    from nova.volume.rest.app import VolumeRequest

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


def version(url: str) -> dict[str, Any]:
    return {'id': 'v3.0', 'status': 'CURRENT', 'version': f'3.{MAX_VERSION}', 'min_version': '3.0',
            'updated': '2023-08-31T00:00:00Z', 'links': [{'rel': 'self', 'href': f'{url}/v3/'}],
            'media-types': [{'base': 'application/json', 'type': 'application/vnd.openstack.volume+json;version=3'}]}


def _times(row: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: utils.exact_time(row[name]) for name in ('created_at', 'updated_at')}


def links(url: str, project_id: str | None, kind: str, ident: str) -> list[dict[str, str]]:
    path = f'{project_id}/{kind}/{ident}' if project_id else f'{kind}/{ident}'
    return [{'rel': 'self', 'href': f'{url}/v3/{path}'}, {'rel': 'bookmark', 'href': f'{url}/{path}'}]


def _at(version: int, since: dict[str, int], shown: dict[str, Any]) -> dict[str, Any]:
    """Select the fields of a microversion."""
    return {name: value for name, value in shown.items() if since.get(name, 0) <= version}


def new_volume(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    """Return a volume for the answer to a create."""
    return {name: value for name, value in volume(row, request).items() if name not in _NOT_YET}


def volume(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    """Return a volume for show and detail."""
    shown = {
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


def upload(row: Mapping[str, Any], image: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    """Return the document of an image in creation from a volume."""
    kind = {'id': row['volume_type_id'], 'name': row['volume_type'], 'description': None, 'extra_specs': {},
            'is_public': True, 'qos_specs_id': None}
    return _at(request.microversion, _UPLOAD_SINCE, {
        'id': row['id'], 'updated_at': utils.exact_time(row['updated_at']), 'status': row['status'],
        'display_description': row['description'], 'size': row['size'], 'volume_type': kind, 'image_id': image['id'],
        'container_format': image['container_format'], 'disk_format': image['disk_format'],
        'image_name': image['name'], 'visibility': image['visibility'], 'protected': image['protected']})


def volume_encryption(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a volume's encryption, from EmbeddedVolumes.encryption."""
    if not found:
        return {'encryption_key_id': None}
    shown = {name: found[name] for name in ('provider', 'cipher', 'key_size', 'control_location',
                                            'encryption_key_id')}
    return {**shown, api.KEEPER: api.BLOCK_STORAGE}


def brief(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    return {'id': row['id'], 'name': row['name'] or '',
            'links': links(request.root_url, request.context.project_id, 'volumes', row['id'])}


def attachment_of_volume(attachment: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attachment for its volume's document."""
    return {'id': row['id'], 'attachment_id': attachment['id'], 'volume_id': row['id'],
            'server_id': attachment['instance_uuid'], 'host_name': attachment['host'],
            'device': attachment['device'], 'attached_at': utils.exact_time(attachment['attached_at'])}


_SNAPSHOT_LATER = 'os-extended-snapshot-attributes:'


def new_snapshot(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    """Return a snapshot for the answer to a create."""
    return {name: value for name, value in snapshot(row, request).items() if not name.startswith(_SNAPSHOT_LATER)}


def snapshot(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    return _at(request.microversion, _SNAPSHOT_SINCE, {
        'id': row['id'], 'name': row['name'], 'description': row['description'], 'volume_id': row['volume_id'],
        'status': row['status'], 'size': row['size'], 'metadata': row['metadata'], 'user_id': row['user_id'],
        **_times(row), 'group_snapshot_id': None,
        'consumes_quota': True, _SNAPSHOT_LATER + 'project_id': row['project_id'],
        _SNAPSHOT_LATER + 'progress': '100%' if row['status'] == 'available' else '0%'})


def brief_backup(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    return {'id': row['id'], 'name': row['name'],
            'links': links(request.root_url, request.context.project_id, 'backups', row['id'])}


def backup(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    return _at(request.microversion, _BACKUP_SINCE, {
        **brief_backup(row, request), 'description': row['description'], 'volume_id': row['volume_id'],
        'snapshot_id': None if row['temporary'] else row['snapshot_id'], 'status': row['status'], 'size': row['size'],
        'object_count': 0, 'container': None, 'availability_zone': None, 'is_incremental': False,
        'has_dependent_backups': False, 'fail_reason': None, **_times(row),
        'data_timestamp': utils.exact_time(row['created_at']),
        'metadata': row['metadata'], 'user_id': row['user_id'], 'encryption_key_id': row['key_id'],
        'os-backup-project-attr:project_id': row['project_id']})


def transfer(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    shown = {'id': row['id'], 'name': row['name'], 'volume_id': row['volume_id'],
             'created_at': utils.exact_time(row['created_at']),
             'links': links(request.root_url, request.context.project_id, 'os-volume-transfer', row['id'])}
    return {**shown, 'auth_key': row['auth_key']} if 'auth_key' in row else shown


def service(row: Mapping[str, Any], request: VolumeRequest) -> dict[str, Any]:
    state = 'up' if row['up'] else 'down'
    return _at(request.microversion, _SERVICE_SINCE, {
        'binary': row['binary'], 'host': row['host'], 'zone': row['availability_zone'], 'state': state,
        'status': 'disabled' if row['disabled'] else 'enabled', 'disabled_reason': row['disabled_reason'],
        'updated_at': utils.exact_time(row['last_seen_at']), 'cluster': None, 'backend_state': state,
        'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False})


def volume_type(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**new_volume_type(row), 'qos_specs_id': None}


def new_volume_type(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type for the answer to a create."""
    return {**changed_volume_type(row), 'os-volume-type-access:is_public': row['is_public']}


def changed_volume_type(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type for the answer to an update."""
    return {name: row[name] for name in ('id', 'name', 'description', 'extra_specs', 'is_public')}


def new_encryption(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type's encryption for the answer to a create."""
    shown = {name: kind['encryption'][name] for name in ('encryption_id', 'provider', 'cipher', 'key_size',
                                                         'control_location')}
    return {**shown, 'volume_type_id': kind['id']}


def encryption(kind: Mapping[str, Any]) -> dict[str, Any]:
    return {**new_encryption(kind), 'created_at': kind['encryption']['created_at'],
            'updated_at': kind['encryption']['updated_at'], 'deleted': False, 'deleted_at': None}


def attachment(row: Mapping[str, Any], readonly: bool, info: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {'id': row['id'], 'volume_id': row['volume_id'], 'instance': row['instance_uuid'], 'status': row['status'],
            'attach_mode': 'ro' if readonly else 'rw',
            'attached_at': utils.exact_time(row['attached_at']) or '', 'detached_at': '',
            'connection_info': {'driver_volume_type': info['driver_volume_type'], **info['data'],
                                'attachment_id': row['id']} if info else {}}
