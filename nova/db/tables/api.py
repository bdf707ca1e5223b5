"""Tables of the API database, which all cells share."""
from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables import rows

metadata = sa.MetaData()


def table(name: str, *columns: sa.schema.SchemaItem) -> types.Table[Any]:
    """Define a table of the API database. The embedded services also define their tables with this function."""
    return types.Table(name, metadata, *columns, **types.TABLE_OPTIONS)


cells: types.Table[rows.CellsRow] = table(
    'cells',
    sa.Column('uuid', sa.String(36), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('database_url', sa.Text, nullable=False),
    sa.Column('transport_url', sa.Text, nullable=False),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
)

host_mappings = table(
    'host_mappings',
    sa.Column('host', sa.String(255), primary_key=True),
    sa.Column('cell_uuid', sa.String(36), nullable=False),
)

# the servers of all cells; the transaction that inserts rows computes the quota usage from the rows of this table
instance_mappings: types.Table[rows.InstanceMappingsRow] = table(
    'instance_mappings',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('cell_uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('vcpus', sa.Integer, nullable=False),
    sa.Column('memory_mb', sa.Integer, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('server_group_id', sa.String(36)),             # server group of the server
    sa.Index('ix_instance_mappings_group', 'server_group_id'),
    # whether the server is soft-deleted: it is kept, but the quota does not count it
    sa.Column('queued_for_delete', sa.Boolean, nullable=False, default=False, server_default=sa.text('false')),
    sa.Index('ix_instance_mappings_project', 'project_id', 'queued_for_delete', 'vcpus', 'memory_mb'),
    sa.Index('ix_instance_mappings_cells', 'project_id', 'cell_uuid'),     # finds the cells with servers of a project
    sa.Column('category', sa.String(255), nullable=False, default='regular', server_default='regular'),
    # id of the only attempt that may move the server to another cell; see db/moves/cell_steps.py
    sa.Column('move_id', sa.String(36)),
)

# requests for servers, kept until the server is deleted, so that a build or a move can be repeated
request_specs = table(
    'request_specs',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('spec', types.Json, nullable=False),           # objects.RequestSpec as a primitive
)

flavors: types.Table[rows.FlavorsRow] = table(
    'flavors',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('flavor_id', sa.String(255), nullable=False, unique=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
    sa.Column('memory_mb', sa.Integer, nullable=False),
    sa.Column('vcpus', sa.Integer, nullable=False),
    sa.Column('root_gb', sa.Integer, nullable=False),
    sa.Column('ephemeral_gb', sa.Integer, nullable=False, default=0),
    sa.Column('swap', sa.Integer, nullable=False, default=0),          # MiB
    sa.Column('rxtx_factor', types.Float, nullable=False, default=1.0),
    sa.Column('is_public', sa.Boolean, nullable=False, default=True),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('description', types.LongText),
    sa.Column('extra_specs', types.Json, nullable=False),
)

flavor_projects = table(
    'flavor_projects',
    sa.Column('flavor_id', sa.String(255), primary_key=True),
    sa.Column('project_id', sa.String(255), primary_key=True),
)

key_pairs: types.Table[rows.KeyPairsRow] = table(
    'key_pairs',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('type', sa.String(8), nullable=False),
    sa.Column('fingerprint', sa.String(255), nullable=False),
    sa.Column('public_key', types.LongText, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('user_id', 'name', name='uniq_key_pairs_user_name'),
)

# quotas that differ from the configured defaults
quotas = table(
    'quotas',
    sa.Column('project_id', sa.String(255), primary_key=True),
    sa.Column('user_id', sa.String(255), primary_key=True, default=''),     # '': the whole project
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('hard_limit', sa.Integer, nullable=False),     # -1: no limit
)

quota_classes = table(
    'quota_classes',
    sa.Column('class_name', sa.String(255), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('hard_limit', sa.Integer, nullable=False),
)

# full_at: time from which the whole rate limit is available again, in microseconds since the epoch. Without a row, the
# whole limit is available
rate_limits = table(
    'rate_limits',
    sa.Column('owner', sa.String(255), primary_key=True),
    sa.Column('name', sa.String(32), primary_key=True),
    sa.Column('full_at', sa.BigInteger, nullable=False, index=True),
)

# requests with an Idempotency-Key header; the response is encrypted with this key, which is not stored
idempotency_keys = table(
    'idempotency_keys',
    sa.Column('project_id', sa.String(255), primary_key=True),
    sa.Column('key_hash', sa.String(64), primary_key=True),
    sa.Column('request_hash', sa.String(64), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('attempted_at', types.DateTime, nullable=False),   # start of the last attempt
    sa.Column('answer', types.LongText),                     # NULL while the request is processed
    sa.Index('ix_idempotency_keys_created', 'created_at'),
    sa.Index('ix_idempotency_keys_project', 'project_id', 'created_at'),    # counts rows without reading responses
)

# one row for each project; quota checks lock it, to serialize parallel requests
quota_locks = table(
    'quota_locks',
    sa.Column('project_id', sa.String(255), primary_key=True),
)

# key of session tokens of the metadata service: one row
metadata_keys = table(
    'metadata_keys',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('key', sa.String(64), nullable=False),             # hexadecimal
    sa.Column('created_at', types.DateTime, nullable=False),
)

# keys that sign messages (rpc/signatures.py): public keys of hosts, and both halves of the deployment's key
message_keys = table(
    'message_keys',
    sa.Column('id', sa.String(40), primary_key=True),        # fingerprint; 'deployment': the deployment's first key
    sa.Column('host', sa.String(255), nullable=False, index=True),           # '' for keys of the deployment
    sa.Column('public', sa.String(64), nullable=False),      # base64
    sa.Column('private', sa.String(64)),
    sa.Column('state', sa.String(16), nullable=False),       # pending, approved, renewing, retired, revoked
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('expires_at', types.DateTime),                    # time until which a retired key is accepted
    # for keys of the deployment after the first: fingerprint of the previous key, and that key's signature of this key
    sa.Column('signed_by', sa.String(40)),
    sa.Column('key_signature', sa.String(128)),              # base64
    # for the deployment's keys: whether unsigned messages are refused if the option [messages] signatures is not set;
    # False in deployments that an older release created
    sa.Column('signatures_required', sa.Boolean, nullable=False, default=False, server_default=sa.text('false')),
)

# one-time tokens with which a new host proves that it belongs to the deployment
join_tokens: types.Table[rows.JoinTokensRow] = table(
    'join_tokens',
    sa.Column('id', sa.String(16), primary_key=True),
    sa.Column('secret', sa.String(64), nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),
)

# a deleted category keeps its row until a purge; a new category may have the same name
instance_categories: types.Table[rows.InstanceCategoriesRow] = table(
    'instance_categories',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('image_id', sa.String(36)),                    # default image of servers
    sa.Column('flavor_id', sa.String(255)),                  # default flavor of servers, by the id in the API
    sa.Column('requirements', types.Json, nullable=False),   # {key: value} that hosts must meet
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
    sa.Column('deleted_at', types.DateTime),
    sa.Column('deleted', sa.Integer, nullable=False, default=0),     # 0, or the row's id after deletion
    sa.UniqueConstraint('name', 'deleted', name='uniq_instance_categories_name_deleted'),
)

# VPN instances of projects; their servers are found by the category in instance_mappings
vpns = table(
    'vpns',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('public_address', sa.String(45)),              # set by an operator; NULL: address of the server
    sa.Column('public_port', sa.Integer),
    # time at which the creation in progress began, or NULL
    sa.Column('started_at', types.DateTime),
)
