"""Tables of the API database: what all cells share."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db import types

metadata = sa.MetaData()


def table(name: str, *columns: Any) -> Any:
    """A table of the API database; the embedded identity, images and networks add theirs through it."""
    return sa.Table(name, metadata, *columns, **types.TABLE_OPTIONS)


cells = table(
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

# The quota is counted over this table, in the transaction that adds to it.
instance_mappings = table(
    'instance_mappings',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('cell_uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('vcpus', sa.Integer, nullable=False),
    sa.Column('memory_mb', sa.Integer, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('server_group_id', sa.String(36)),             # the group that it is a member of
    sa.Index('ix_instance_mappings_group', 'server_group_id'),
    # soft-deleted: kept, and not counted
    sa.Column('queued_for_delete', sa.Boolean, nullable=False, default=False, server_default=sa.text('false')),
    sa.Index('ix_instance_mappings_project', 'project_id', 'queued_for_delete', 'vcpus', 'memory_mb'),
    sa.Index('ix_instance_mappings_cells', 'project_id', 'cell_uuid'),     # which cells a project's lists ask
    sa.Column('category', sa.String(255), nullable=False, default='regular', server_default='regular'),
    # the one attempt that may take the server to another cell now: db/moves/cell_steps.py
    sa.Column('move_id', sa.String(36)),
)

# What was requested: kept until the server is deleted, so that a build or a move can be done again.
request_specs = table(
    'request_specs',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('spec', types.Json, nullable=False),           # objects.RequestSpec as a primitive
)

flavors = table(
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
    sa.Column('rxtx_factor', sa.Float, nullable=False, default=1.0),
    sa.Column('is_public', sa.Boolean, nullable=False, default=True),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('description', sa.Text),
    sa.Column('extra_specs', types.Json, nullable=False),
)

flavor_projects = table(
    'flavor_projects',
    sa.Column('flavor_id', sa.String(255), primary_key=True),
    sa.Column('project_id', sa.String(255), primary_key=True),
)

key_pairs = table(
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

# Only what differs from the configured defaults.
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

# When all requests of a rate are given back (microseconds since the epoch); a row that is not there has all of them.
rate_limits = table(
    'rate_limits',
    sa.Column('owner', sa.String(255), primary_key=True),
    sa.Column('name', sa.String(32), primary_key=True),
    sa.Column('full_at', sa.BigInteger, nullable=False, index=True),
)

# A request that came with an Idempotency-Key; the answer is encrypted with the key, which is not here.
idempotency_keys = table(
    'idempotency_keys',
    sa.Column('project_id', sa.String(255), primary_key=True),
    sa.Column('key_hash', sa.String(64), primary_key=True),
    sa.Column('request_hash', sa.String(64), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('tried_at', types.DateTime, nullable=False),   # when the last attempt to serve it began
    sa.Column('answer', types.LongText),                     # NULL while the request is being served
    sa.Index('ix_idempotency_keys_created', 'created_at'),
    sa.Index('ix_idempotency_keys_project', 'project_id', 'created_at'),    # counted without the answers
)

# A row a project: locked while a quota is checked and used, so that parallel requests queue up.
quota_locks = table(
    'quota_locks',
    sa.Column('project_id', sa.String(255), primary_key=True),
)

# Session tokens of the metadata service are made with it: one row.
metadata_keys = table(
    'metadata_keys',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('key', sa.String(64), nullable=False),             # hexadecimal
    sa.Column('created_at', types.DateTime, nullable=False),
)

# Keys that messages are signed with (rpc/signatures.py). The private half is here of the deployment's own key alone.
message_keys = table(
    'message_keys',
    sa.Column('id', sa.String(40), primary_key=True),        # fingerprint
    sa.Column('host', sa.String(255), nullable=False, index=True),           # '': the deployment
    sa.Column('public', sa.String(64), nullable=False),      # base64
    sa.Column('private', sa.String(64)),
    sa.Column('state', sa.String(16), nullable=False),       # pending, approved, renewing, retired, revoked
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('ends_at', types.DateTime),                    # of a retired one
    # of a deployment's later key: the fingerprint of the one before, and its signature of this one (base64)
    sa.Column('vouched_by', sa.String(40)),
    sa.Column('voucher', sa.String(128)),
    # of the deployment's keys: unsigned messages are refused where [messages] signatures is not set. Deployments that
    # an older release has made have 0
    sa.Column('signatures_required', sa.Boolean, nullable=False, default=False, server_default=sa.text('false')),
)

# What a new host proves with that it belongs to the deployment, once.
join_tokens = table(
    'join_tokens',
    sa.Column('id', sa.String(16), primary_key=True),
    sa.Column('secret', sa.String(64), nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),
)
