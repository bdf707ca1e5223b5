"""Tables of the embedded block storage service, in the API database."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table
from nova.db.tables.rows import VolumeAttachmentsRow, VolumeEncryptionKeysRow, VolumeQosSpecsRow, VolumeTypesRow

volumes = table(
    'volumes',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255)),
    sa.Column('name', sa.String(255)),
    sa.Column('description', sa.String(255)),
    sa.Column('size', sa.Integer, nullable=False),               # GiB
    sa.Column('status', sa.String(32), nullable=False),          # available, reserved, attaching, in-use, …
    sa.Column('bootable', sa.Boolean, nullable=False, default=False),
    sa.Column('multiattach', sa.Boolean, nullable=False, default=False),
    sa.Column('volume_type', sa.String(255), nullable=False),
    sa.Column('availability_zone', sa.String(255), nullable=False),
    sa.Column('image_id', sa.String(36)),                        # source image
    sa.Column('snapshot_id', sa.String(36)),
    sa.Column('source_volume_id', sa.String(36)),
    sa.Column('backup_id', sa.String(36)),                       # last backup that was restored to the volume
    sa.Column('key_id', sa.String(36)),                          # NULL if not encrypted
    sa.Column('readonly', sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column('metadata', types.Json, nullable=False),
    sa.Column('image_metadata', types.Json, nullable=False),     # properties of the source image
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_volumes_project_created', 'project_id', 'created_at', 'id'),
    sa.Index('ix_volumes_key', 'key_id'),
)

# volume types that administrators created, in addition to the types in volume/store/types.py
volume_types: types.Table[VolumeTypesRow] = table(
    'volume_types',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('description', sa.String(255)),
    sa.Column('extra_specs', types.Json, nullable=False),
    sa.Column('encryption', types.Json),                         # {'encryption_id', 'provider', …} or NULL
    sa.Column('is_public', sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('qos_specs_id', sa.String(36), index=True),
)

# QoS specs: disk limits for volumes of the types that refer to them
volume_qos_specs: types.Table[VolumeQosSpecsRow] = table(
    'volume_qos_specs',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('consumer', sa.String(12), nullable=False),        # front-end, back-end or both
    sa.Column('specs', types.Json, nullable=False),              # {one of nova.hardware.disks.LIMITS: number as text}
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
)

# access of projects to private volume types
volume_type_projects = table(
    'volume_type_projects',
    sa.Column('type_id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(255), primary_key=True),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# default volume types of projects, for new volumes without a type in the request
volume_default_types = table(
    'volume_default_types',
    sa.Column('project_id', sa.String(255), primary_key=True),
    sa.Column('type_id', sa.String(36), nullable=False, index=True),
)

# Keys of encrypted volumes, encrypted by runtime/secret_encryption.py. Copies of a volume share its key. The key is
# deleted with the last volume, snapshot or backup that uses it.
volume_encryption_keys: types.Table[VolumeEncryptionKeysRow] = table(
    'volume_encryption_keys',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('type_id', sa.String(36), nullable=False),         # volume type with the encryption parameters
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('encryption_key_id', sa.String(16), nullable=False),   # name of the deployment key that encrypts this key
    sa.Column('encrypted_key', sa.String(255), nullable=False),
)

volume_snapshots = table(
    'volume_snapshots',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255)),
    sa.Column('name', sa.String(255)),
    sa.Column('description', sa.String(255)),
    sa.Column('size', sa.Integer, nullable=False),               # GiB
    sa.Column('status', sa.String(32), nullable=False),
    sa.Column('bootable', sa.Boolean, nullable=False, default=False),
    sa.Column('metadata', types.Json, nullable=False),
    sa.Column('image_metadata', types.Json, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('key_id', sa.String(36)),
    sa.Index('ix_volume_snapshots_key', 'key_id'),
    sa.Index('ix_volume_snapshots_project_created', 'project_id', 'created_at', 'id'),
    sa.Index('ix_volume_snapshots_volume', 'volume_id'),
)

# attachments of volumes; the status of a volume is derived from these rows
volume_attachments: types.Table[VolumeAttachmentsRow] = table(
    'volume_attachments',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('status', sa.String(32), nullable=False),          # reserved, attaching, attached
    sa.Column('device', sa.String(255)),
    sa.Column('connector', types.Json),                          # connector of the host; NULL while reserved
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('attached_at', types.DateTime),
    sa.Index('ix_volume_attachments_volume', 'volume_id'),
    sa.Index('ix_volume_attachments_instance', 'instance_uuid'),
)

# backups: full copies, which remain when their volume is deleted
volume_backups = table(
    'volume_backups',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('snapshot_id', sa.String(36)),                     # source snapshot
    # whether the snapshot was created for this backup
    sa.Column('temporary', sa.Boolean, nullable=False, default=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255)),
    sa.Column('name', sa.String(255)),
    sa.Column('description', sa.String(255)),
    sa.Column('size', sa.Integer, nullable=False),               # GiB
    sa.Column('status', sa.String(32), nullable=False),          # creating, available, restoring, error
    sa.Column('bootable', sa.Boolean, nullable=False, default=False),
    sa.Column('metadata', types.Json, nullable=False),
    sa.Column('image_metadata', types.Json, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('key_id', sa.String(36)),
    sa.Index('ix_volume_backups_key', 'key_id'),
    sa.Index('ix_volume_backups_project_created', 'project_id', 'created_at', 'id'),
    sa.Index('ix_volume_backups_volume', 'volume_id'),
)

# transfers: a volume is offered to any project that knows the transfer's key
volume_transfers = table(
    'volume_transfers',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255)),
    sa.Column('key_hash', sa.String(64), nullable=False),        # SHA-256 of the transfer's key (128 random bits)
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('volume_id', name='uniq_volume_transfers_volume'),
    sa.Index('ix_volume_transfers_project_created', 'project_id', 'created_at', 'id'),
)
