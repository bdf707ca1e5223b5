"""Fields of the Block Storage API: a row for each field of each resource."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import utils
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volume_transfers
from nova.db.tables.volume import volumes
from nova.volume.rest import schemas as s
from nova.volume.rest.listing import Identified
from nova.volume.store import managed
from nova.volume.store import types
from nova.web.fields import ABSENT
from nova.web.fields import Constant
from nova.web.fields import exact_moment
from nova.web.resource import Field
from nova.web.resource import Getter
from nova.web.resource import Resource
from nova.web.resource import Schema
from nova.web.resource import View

if TYPE_CHECKING:
    from nova.json_types import Json
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store import rows

ALL = 'list show create'
CHANGED = 'create update'                # requests
NONE, NO, YES = Constant(None), Constant(False), Constant(True)
_NO_GROUPS = 'Volume groups are not supported.'
# rules of fields
_HOST, _TENANT, _MIGRATION = (f'volume_extension:volume_{what}_attribute' for what in ('host', 'tenant', 'mig_status'))
_SNAPSHOT = 'volume_extension:extended_snapshot_attributes'
NAMES: dict[str, Any] = {'write': CHANGED, 'accepts': s.NAME}


def _links(kind: str) -> Getter:
    def links(row: Identified, request: VolumeRequest) -> list[Json]:
        project_id, url = request.context.project_id, request.root_url
        path = f'{project_id}/{kind}/{row["id"]}' if project_id else f'{kind}/{row["id"]}'
        return [{'rel': 'self', 'href': f'{url}/v3/{path}'}, {'rel': 'bookmark', 'href': f'{url}/{path}'}]
    return links


def _time(name: str, doc: str, type_: Schema = s.TIME, views: str = 'show create') -> Field:
    return Field(name, type_, exact_moment(name), doc, views, column=name, filter=name, sort=True)


# ---- volumes -----------------------------------------------------------------

ATTACHED = View(                         # (attachment, its volume)
    Field('id', s.UUID, lambda held, volume: volume['id'], 'ID of the volume.'),
    Field('attachment_id', s.UUID, 'id', 'ID of the attachment.'),
    Field('volume_id', s.UUID, lambda held, volume: volume['id'], 'ID of the volume.'),
    Field('server_id', s.UUID, 'instance_uuid', 'ID of the server.'),
    Field('host_name', s.TEXT_OR_NULL, 'host', 'Host of the server.'),
    Field('device', s.TEXT_OR_NULL, 'device', 'Device name in the guest.'),
    Field('attached_at', s.TIME_OR_NULL, exact_moment('attached_at'), 'Time of the attachment.'),
)
_attached = ATTACHED.compiled(0)


def _attachments(row: rows.Volume, _request: VolumeRequest) -> list[dict[str, Any]]:
    return [_attached(each, row) for each in row['attachments'] if each['status'] == 'attached']


def _metadata(row: rows.Volume, _request: VolumeRequest) -> dict[str, str]:
    return {**row['metadata'], 'readonly': 'True'} if row['readonly'] else row['metadata']


VOLUME = Resource('volume', 'volumes', volumes, (
    Field('id', s.UUID, 'id', 'ID of the volume.', ALL, filter='id', sort=True),
    Field('name', s.TEXT, lambda row, request: row['name'] or '', 'Name; empty by default.', ALL, column='name',
          filter='name display_name', sort=True, aliases=('display_name',), **NAMES),
    Field('description', s.TEXT_OR_NULL, 'description', 'Description.', filter='description',
          aliases=('display_description',), **NAMES),
    Field('status', s.TEXT, 'status', 'Status, such as available or in-use.', filter='status', sort=True),
    Field('size', s.INTEGER, 'size', 'Size in GiB.', filter='size', sort=True, write='create', accepts=s.SIZE),
    Field('availability_zone', s.TEXT, 'availability_zone', 'Availability zone.', filter='availability_zone',
          write='create', accepts=s.NAME),
    Field('volume_type', s.TEXT, 'volume_type', 'Name of the volume type.', filter='volume_type', write='create',
          accepts=s.NAME),
    Field('bootable', {'enum': ['true', 'false']}, lambda row, request: str(bool(row['bootable'])).lower(),
          'Whether servers can boot from it.', column='bootable', filter='bootable', sort=True),
    Field('multiattach', s.BOOLEAN, lambda row, request: bool(row['multiattach']),
          'Whether several servers can have it at once.', column='multiattach', filter='multiattach', write='create',
          accepts=s.FLAG_OR_NULL),
    Field('encrypted', s.BOOLEAN, 'encrypted', 'Whether it is encrypted.'),
    Field('snapshot_id', s.TEXT_OR_NULL, 'snapshot_id', 'Source snapshot.', filter='snapshot_id', write='create',
          accepts=s.NAME),
    Field('source_volid', s.TEXT_OR_NULL, 'source_volume_id', 'Source volume.', filter='source_volid', write='create',
          accepts=s.NAME),
    Field('imageRef', s.TEXT_OR_NULL, None, 'Source image.', '', write='create', accepts=s.NAME),
    Field('image_id', s.TEXT_OR_NULL, None, 'The same as imageRef.', '', write='create', accepts=s.NAME),
    Field('backup_id', s.TEXT_OR_NULL, None, 'Source backup.', '', write='create', accepts=s.NAME),
    Field('metadata', s.STRINGS, _metadata, 'Metadata; the item readonly shows the read-only flag.',
          column='metadata', filter='metadata', write=CHANGED, accepts=s.METADATA),
    Field('user_id', s.TEXT_OR_NULL, 'user_id', 'User who created it.', filter='user_id'),
    Field('os-vol-tenant-attr:tenant_id', s.TEXT, 'project_id', 'Project.', 'show', rule=_TENANT,
          filter='project_id'),
    Field('replication_status', s.NULL, NONE, 'Always null: replication is not supported.'),
    Field('consistencygroup_id', s.NULL, NONE, 'Always null: groups are not supported.', write='create',
          accepts=s.NAME, refused=_NO_GROUPS),
    Field('group_id', s.NULL, NONE, 'Always null: groups are not supported.', since=13, write='create',
          accepts=s.NAME, refused=_NO_GROUPS),
    Field('provider_id', s.NULL, NONE, 'Always null.', since=21),
    Field('service_uuid', s.NULL, NONE, 'Always null.', since=48),
    Field('volume_type_id', s.TEXT_OR_NULL, 'volume_type_id', 'ID of the volume type.', since=63),
    Field('shared_targets', s.BOOLEAN, NO, 'Always false.', since=48),
    Field('consumes_quota', s.BOOLEAN, YES, 'Always true.', since=65),
    _time('created_at', 'Time of the creation.'),
    _time('updated_at', 'Time of the last change.'),
    Field('links', s.LINKS, _links('volumes'), 'URLs of the volume.', ALL),
    Field('attachments', [ATTACHED], _attachments, 'Servers that have the volume.'),
    Field('os-vol-mig-status-attr:migstat', s.NULL, NONE, 'Always null.', 'show', rule=_MIGRATION),
    Field('os-vol-mig-status-attr:name_id', s.NULL, NONE, 'Always null.', 'show', rule=_MIGRATION),
    Field('os-vol-host-attr:host', s.TEXT, Constant(managed.HOST), 'Backend.', 'show', rule=_HOST),
    Field('migration_status', s.NULL, NONE, 'Always null: there is one backend.', rule=_MIGRATION),
    Field('cluster_name', s.NULL, NONE, 'Always null.', since=61, rule=_HOST),
    Field('encryption_key_id', s.TEXT, lambda row, request: row['key_id'] if row['encrypted'] else ABSENT,
          'Key of an encrypted volume.', since=64, optional=True),
    Field('volume_image_metadata', s.ANY_OBJECT, lambda row, request: row['image_metadata'] or ABSENT,
          'Metadata of the source image.', 'show', rule='volume_extension:volume_image_metadata:show',
          optional=True),
))

VOLUME_TYPE_OF_UPLOAD = View(
    Field('id', s.TEXT_OR_NULL, 'volume_type_id', 'ID of the volume type.'),
    Field('name', s.TEXT, 'volume_type', 'Name of the volume type.'),
    Field('description', s.NULL, NONE, 'Always null.'),
    Field('extra_specs', s.STRINGS, lambda row, request: {}, 'Always empty.'),
    Field('is_public', s.BOOLEAN, YES, 'Always true.'),
    Field('qos_specs_id', s.NULL, NONE, 'Always null.'),
)
_type_of_upload = VOLUME_TYPE_OF_UPLOAD.compiled(0)


def _of_image(name: str) -> Getter:
    return lambda pair, request: pair[1][name]


def _of_volume(name: str) -> Getter:
    return lambda pair, request: pair[0][name]


UPLOAD = Resource('os-volume_upload_image', '', None, (          # rows: (volume, image)
    Field('id', s.UUID, _of_volume('id'), 'ID of the volume.'),
    Field('updated_at', s.TIME, lambda pair, request: utils.exact_time(pair[0]['updated_at']),
          'Time of the volume\'s last change.'),
    Field('status', s.TEXT, _of_volume('status'), 'Status of the volume.'),
    Field('display_description', s.TEXT_OR_NULL, _of_volume('description'), 'Description of the volume.'),
    Field('size', s.INTEGER, _of_volume('size'), 'Size of the volume in GiB.'),
    Field('volume_type', VOLUME_TYPE_OF_UPLOAD, lambda pair, request: _type_of_upload(pair[0], request),
          'Type of the volume.'),
    Field('image_id', s.UUID, _of_image('id'), 'ID of the new image.'),
    Field('container_format', s.TEXT_OR_NULL, _of_image('container_format'), 'Container format of the image.'),
    Field('disk_format', s.TEXT_OR_NULL, _of_image('disk_format'), 'Disk format of the image.'),
    Field('image_name', s.TEXT_OR_NULL, _of_image('name'), 'Name of the image.'),
    Field('visibility', s.TEXT, _of_image('visibility'), 'Visibility of the image.', since=1),
    Field('protected', s.BOOLEAN, _of_image('protected'), 'Whether the image is protected.', since=1),
))

# ---- snapshots ---------------------------------------------------------------

SNAPSHOT = Resource('snapshot', 'snapshots', volume_snapshots, (
    Field('id', s.UUID, 'id', 'ID of the snapshot.', filter='id', sort=True),
    Field('name', s.TEXT_OR_NULL, 'name', 'Name.', filter='name display_name', sort=True, aliases=('display_name',),
          **NAMES),
    Field('description', s.TEXT_OR_NULL, 'description', 'Description.', filter='description',
          aliases=('display_description',), **NAMES),
    Field('volume_id', s.UUID, 'volume_id', 'ID of the volume.', filter='volume_id', write='create',
          accepts=s.ANY_ID, required=True),
    Field('force', s.BOOLEAN, None, 'Whether to accept a volume in use. The default is false, with microversion '
          '3.65 true. From 3.66 on, a volume in use is always accepted.', '', write='create',
          accepts={**s.FLAG_OR_NULL}),
    Field('status', s.TEXT, 'status', 'Status.', filter='status', sort=True),
    Field('size', s.INTEGER, 'size', 'Size of the volume in GiB.', filter='volume_size', sort=True),
    Field('metadata', s.STRINGS, 'metadata', 'Metadata.', filter='metadata', write=CHANGED, accepts=s.METADATA),
    Field('user_id', s.TEXT_OR_NULL, 'user_id', 'User who created it.', since=41, filter='user_id'),
    _time('created_at', 'Time of the creation.'),
    _time('updated_at', 'Time of the last change.'),
    Field('bootable', s.BOOLEAN, None, 'Whether servers can boot from it.', '', column='bootable', sort=True),
    Field('group_snapshot_id', s.NULL, NONE, 'Always null: groups are not supported.', since=14),
    Field('consumes_quota', s.BOOLEAN, YES, 'Always true.', since=65),
    Field('os-extended-snapshot-attributes:project_id', s.TEXT, 'project_id', 'Project.', 'show', rule=_SNAPSHOT,
          filter='project_id'),
    Field('os-extended-snapshot-attributes:progress', s.TEXT,
          lambda row, request: '100%' if row['status'] == 'available' else '0%', 'Progress of the copy.', 'show',
          rule=_SNAPSHOT),
))

# ---- attachments -------------------------------------------------------------


def _connection(row: dict[str, Any], _request: VolumeRequest) -> dict[str, Any]:
    info = row.get('connection')
    return {'driver_volume_type': info['driver_volume_type'], **info['data'],
            'attachment_id': row['id']} if info else {}


# rows of volume_attachments with the column 'readonly' of the volume
ATTACHMENT = Resource('attachment', 'attachments', volume_attachments, (
    Field('id', s.UUID, 'id', 'ID of the attachment.', filter='id', sort=True),
    Field('volume_id', s.UUID, 'volume_id', 'ID of the volume.', filter='volume_id'),
    Field('instance', s.UUID, 'instance_uuid', 'ID of the server.', filter='instance_id'),
    Field('status', s.TEXT, 'status', 'Status: reserved, attaching or attached.', filter='status attach_status',
          sort=True),
    Field('attach_mode', {'enum': ['ro', 'rw']}, lambda row, request: 'ro' if row['readonly'] else 'rw',
          'Access mode of the server.'),
    Field('attached_at', {'type': 'string'}, lambda row, request: utils.exact_time(row['attached_at']) or '',
          'Time of the attachment; empty before.'),
    Field('detached_at', {'const': ''}, Constant(''), 'Always empty.'),
    Field('connection_info', s.ANY_OBJECT, _connection, 'How the host reaches the volume; only after it is connected.'),
    Field('created_at', s.TIME, None, 'Time of the creation.', '', column='created_at', filter='created_at', sort=True),
    Field('project_id', s.TEXT, None, 'Project.', '', column='project_id', filter='project_id'),
    Field('volume_uuid', s.TEXT, None, 'ID of the volume.', '', write='create', accepts=s.ANY_ID, required=True),
    Field('instance_uuid', s.TEXT, None, 'ID of the server.', '', write='create', accepts=s.ID, required=True),
    Field('connector', s.ANY_OBJECT, None, 'Properties of the host.', '', write='create',
          accepts={'type': ['object', 'null']}),
    Field('mode', s.TEXT, None, 'Access mode.', '', write='create', accepts={'enum': ['rw', 'ro', None]}),
))

# ---- backups and transfers ---------------------------------------------------

BACKUP = Resource('backup', 'backups', volume_backups, (
    Field('id', s.UUID, 'id', 'ID of the backup.', ALL, filter='id', sort=True),
    Field('name', s.TEXT_OR_NULL, 'name', 'Name.', ALL, filter='name', sort=True, **NAMES),
    Field('links', s.LINKS, _links('backups'), 'URLs of the backup.', ALL),
    Field('description', s.TEXT_OR_NULL, 'description', 'Description.', 'show', filter='description', **NAMES),
    Field('volume_id', s.UUID, 'volume_id', 'ID of the volume.', 'show', filter='volume_id', write='create',
          accepts=s.ID, required=True),
    Field('snapshot_id', s.TEXT_OR_NULL, lambda row, request: None if row['temporary'] else row['snapshot_id'],
          'Source snapshot.', 'show', column='snapshot_id', filter='snapshot_id', write='create', accepts=s.SHORT_ID),
    Field('status', s.TEXT, 'status', 'Status.', 'show', filter='status', sort=True),
    Field('size', s.INTEGER, 'size', 'Size of the volume in GiB.', 'show', filter='size', sort=True),
    Field('object_count', {'const': 0}, Constant(0), 'Always 0.', 'show'),
    Field('container', s.NULL, NONE, 'Always null; requests must omit it.', 'show', write='create', accepts=s.NAME),
    Field('availability_zone', s.NULL, NONE, 'Always null.', 'show', write='create', accepts=s.NAME),
    Field('is_incremental', {'const': False}, NO, 'Always false.', 'show'),
    Field('incremental', s.BOOLEAN, None, 'Must be false: all backups are full.', '', write='create',
          accepts=s.FLAG_OR_NULL),
    Field('force', s.BOOLEAN, None, 'Whether to accept a volume in use. Not needed for a backup of a snapshot.', '',
          write='create', accepts=s.FLAG_OR_NULL),
    Field('has_dependent_backups', {'const': False}, NO, 'Always false.', 'show'),
    Field('fail_reason', s.NULL, NONE, 'Always null.', 'show'),
    _time('created_at', 'Time of the creation.', views='show'),
    _time('updated_at', 'Time of the last change.', views='show'),
    Field('bootable', s.BOOLEAN, None, 'Whether servers can boot from it.', '', column='bootable', sort=True),
    Field('data_timestamp', s.TIME, exact_moment('created_at'), 'Time of the data.', 'show'),
    Field('metadata', s.STRINGS, 'metadata', 'Metadata.', 'show', since=43, filter='metadata', write=CHANGED,
          accepts=s.METADATA),
    Field('user_id', s.TEXT_OR_NULL, 'user_id', 'User who created it.', 'show', since=56),
    Field('encryption_key_id', s.TEXT_OR_NULL, 'key_id', 'Key of an encrypted volume.', 'show', since=64),
    Field('os-backup-project-attr:project_id', s.TEXT, 'project_id', 'Project.', 'show', since=18,
          rule='backup:backup_project_attribute', filter='project_id'),
))
TRANSFER = Resource('transfer', 'transfers', volume_transfers, (
    Field('id', s.UUID, 'id', 'ID of the transfer.', filter='id', sort=True),
    Field('name', s.TEXT_OR_NULL, 'name', 'Name.', filter='name', sort=True, **NAMES),
    Field('volume_id', s.UUID, 'volume_id', 'ID of the volume.', filter='volume_id', write='create', accepts=s.ID,
          required=True),
    _time('created_at', 'Time of the creation.'),
    Field('links', s.LINKS, _links('os-volume-transfer'), 'URLs of the transfer.'),
    Field('auth_key', s.TEXT, 'auth_key', 'Key that accepts the transfer; shown once.', 'create'),
    Field('project_id', s.TEXT, None, 'Project.', '', column='project_id', filter='project_id'),
    Field('no_snapshots', s.BOOLEAN, None, 'Whether to refuse a volume with snapshots, which go with the volume.', '',
          write='create', accepts=s.FLAG),
))

# ---- types and services ------------------------------------------------------

IS_PUBLIC = 'os-volume-type-access:is_public'
READ_SENSITIVE = 'volume_extension:types_extra_specs:read_sensitive'
USERS_SPECS = ('multiattach', 'RESKEY:availability_zones')      # extra specs that all users of a type see


def visible_specs(request: VolumeRequest, specs: dict[str, str]) -> dict[str, str]:
    """Return the extra specs that the caller may see. Specs not in USERS_SPECS are details of the deployment."""
    sees = request.allows(READ_SENSITIVE)
    return {name: value for name, value in specs.items() if sees or name in USERS_SPECS}


SPECS: Schema = {**s.ITEMS, 'maxProperties': types.MAX_SPECS}
_NAME: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
TYPE = Resource('volume_type', 'volume_types', None, (
    Field('id', s.UUID, 'id', 'ID of the type.', 'show create update'),
    Field('name', s.TEXT, 'name', 'Name.', 'show create update', write='create', accepts=_NAME, required=True),
    Field('name', s.TEXT, None, 'Name.', '', write='update', accepts={**_NAME, 'type': ['string', 'null']}),
    Field('description', s.TEXT_OR_NULL, 'description', 'Description.', 'show create update', **NAMES),
    Field('extra_specs', s.STRINGS, lambda row, request: visible_specs(request, row['extra_specs']),
          'Extra specs. Callers without the right to read sensitive extra specs see only multiattach and '
          'RESKEY:availability_zones.', 'show create update',
          rule='volume_extension:access_types_extra_specs', write='create',
          accepts={**SPECS, 'type': ['object', 'null']}),
    Field('is_public', s.BOOLEAN, 'is_public', 'Whether all projects can use it.', 'show create update',
          write=CHANGED, accepts=s.FLAG_OR_NULL),
    Field(IS_PUBLIC, s.BOOLEAN, 'is_public', 'The same as is_public.',
          rule='volume_extension:volume_type_access', write=CHANGED, accepts=s.FLAG_OR_NULL),
    Field('qos_specs_id', s.TEXT_OR_NULL, 'qos_specs_id', 'QoS specs of its volumes.', 'show',
          rule='volume_extension:access_types_qos_specs_id'),
))
QOS = Resource('qos_specs', 'qos_specs', None, (
    Field('id', s.UUID, 'id', 'ID of the QoS specs.', 'show'),
    Field('name', s.TEXT, 'name', 'Name.', 'show'),
    Field('consumer', s.TEXT, 'consumer', 'front-end, back-end or both. The compute host enforces the limits '
          'in each case.', 'show'),
    Field('specs', s.STRINGS, 'specs', "Limits of a volume's disk.", 'show'),
))
_KEY_SIZE: Schema = {'type': ['integer', 'null'], 'minimum': 0, 'maximum': 65536}
# rows: the encryption of a volume type, with the column volume_type_id
ENCRYPTION = Resource('encryption', '', None, (
    Field('encryption_id', s.UUID, 'encryption_id', 'ID of the encryption.'),
    Field('provider', s.TEXT, 'provider', 'Encryption provider.', write=CHANGED, accepts=s.NAME, required=True),
    Field('cipher', s.TEXT_OR_NULL, 'cipher', 'Cipher.', **NAMES),
    Field('key_size', {'type': ['integer', 'null']}, 'key_size', 'Key size in bits.', write=CHANGED,
          accepts=_KEY_SIZE),
    Field('control_location', s.TEXT_OR_NULL, 'control_location', 'Service that encrypts.', **NAMES),
    Field('volume_type_id', s.UUID, 'volume_type_id', 'ID of the type.'),
    Field('created_at', s.TIME_OR_NULL, 'created_at', 'Time of the creation.', 'show'),
    Field('updated_at', s.TIME_OR_NULL, 'updated_at', 'Time of the last change.', 'show'),
    Field('deleted', {'const': False}, NO, 'Always false.', 'show'),
    Field('deleted_at', s.NULL, NONE, 'Always null.', 'show'),
))


def _state(row: dict[str, Any], _request: VolumeRequest) -> str:
    return 'up' if row['up'] else 'down'


SERVICE = Resource('service', 'services', None, (
    Field('binary', s.TEXT, 'binary', 'Program of Cinder that the service replaces.', filter='binary service'),
    Field('host', s.TEXT, 'host', 'Host.', filter='host'),
    Field('zone', s.TEXT, 'availability_zone', 'Availability zone.'),
    Field('state', {'enum': ['up', 'down']}, _state, 'Whether it reports.'),
    Field('status', {'enum': ['enabled', 'disabled']},
          lambda row, request: 'disabled' if row['disabled'] else 'enabled', 'Whether it is enabled.'),
    Field('disabled_reason', s.TEXT_OR_NULL, 'disabled_reason', 'Reason of a disabled service.'),
    Field('updated_at', s.TIME_OR_NULL, exact_moment('last_seen_at'), 'Time of the last report.'),
    Field('cluster', s.NULL, NONE, 'Always null.', since=7),
    Field('backend_state', {'enum': ['up', 'down']}, _state, 'State of the backend.', since=49),
    Field('replication_status', {'const': 'disabled'}, Constant('disabled'), 'Always disabled.'),
    Field('active_backend_id', s.NULL, NONE, 'Always null.'),
    Field('frozen', {'const': False}, NO, 'Always false.'),
))
