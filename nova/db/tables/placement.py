"""Further tables of a cell's database for placement."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import ImageCacheTasksRow


# one row for each server group; it is locked while a member's host is chosen, to serialize parallel claims
group_locks = cell_table(
    'group_locks',
    sa.Column('group_uuid', sa.String(36), primary_key=True),
)

# requests to prefetch images on hosts, and their results
image_cache_tasks: types.Table[ImageCacheTasksRow] = cell_table(
    'image_cache_tasks',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('request_id', sa.String(255), nullable=False),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('deadline', types.DateTime, nullable=False),   # time of the next attempt
    sa.Column('state', sa.String(8), nullable=False, default='waiting', server_default='waiting'),
    sa.Column('reason', types.LongText),                     # reason of a failure
    sa.Column('finished_at', types.DateTime),
    sa.UniqueConstraint('host', 'image_id', name='uniq_image_cache_tasks_host_image'),
    sa.Index('ix_image_cache_tasks_deadline', 'deadline'),
)
