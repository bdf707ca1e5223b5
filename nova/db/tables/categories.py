"""The table of instance categories in the API database: purposes of servers."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

if TYPE_CHECKING:
    from nova.db.tables.rows import InstanceCategoriesRow

# the row of a deleted category is kept until it is purged; its name may be reused
instance_categories: types.Table[InstanceCategoriesRow] = table(
    'instance_categories',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', sa.Text),
    sa.Column('image_id', sa.String(36)),                    # default image of servers
    sa.Column('flavor_id', sa.String(255)),                  # default flavor of servers, by the id in the API
    sa.Column('requirements', types.Json, nullable=False),   # {key: value} that hosts must meet
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
    sa.Column('deleted_at', types.DateTime),
    sa.Column('deleted', sa.Integer, nullable=False, default=0),     # 0, or the row's id after deletion
    sa.UniqueConstraint('name', 'deleted', name='uniq_instance_categories_name_deleted'),
)
