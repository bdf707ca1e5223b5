"""Tables of a cell's database that placement needs besides the compute nodes."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import metadata


def cell_table(name: str, *columns: Any) -> Any:
    return sa.Table(name, metadata, *columns, **types.TABLE_OPTIONS)


# A row a server group: locked while a member's host is chosen, so that parallel claims see each other.
group_locks = cell_table(
    'group_locks',
    sa.Column('group_uuid', sa.String(36), primary_key=True),
)

# Requests to hosts to fetch images before a server needs them, and their results.
image_cache_tasks = cell_table(
    'image_cache_tasks',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('request_id', sa.String(255), nullable=False),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('deadline', types.DateTime, nullable=False),   # after it the request is sent again
    sa.Column('state', sa.String(8), nullable=False, default='waiting', server_default='waiting'),
    sa.Column('reason', types.LongText),                     # of a failure
    sa.Column('finished_at', types.DateTime),
    sa.UniqueConstraint('host', 'image_id', name='uniq_image_cache_tasks_host_image'),
    sa.Index('ix_image_cache_tasks_deadline', 'deadline'),
)
