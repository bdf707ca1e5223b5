"""Tables of the API database for host aggregates and server groups."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

aggregates = table(
    'aggregates',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('availability_zone', sa.String(255)),          # zone of its hosts, or NULL
    sa.Column('metadata', types.Json, nullable=False),       # {key: value}, without the zone
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
)

aggregate_hosts = table(
    'aggregate_hosts',
    sa.Column('aggregate_id', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('host', sa.String(255), primary_key=True),
    sa.Index('ix_aggregate_hosts_host', 'host'),
)

# the members of a group are the servers that name the group in instance_mappings
server_groups = table(
    'server_groups',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),       # '' for no name
    sa.Column('policy', sa.String(255), nullable=False),     # names joined by commas, or ''
    sa.Column('rules', types.Json, nullable=False),          # {max_server_per_host: number}, or {}
    sa.Column('metadata', types.Json),                       # {key: value} or NULL
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Index('ix_server_groups_project', 'project_id'),
)
