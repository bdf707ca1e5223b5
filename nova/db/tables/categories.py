"""The table of instance categories, in the API database: what servers are for, besides those of users."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

# A deleted row stays until it is purged; its name may be given again.
instance_categories = table(
    'instance_categories',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', sa.Text),
    sa.Column('image_id', sa.String(36)),                    # of servers that name none
    sa.Column('flavor_id', sa.String(255)),                  # of servers that name none; the id that users know
    sa.Column('requirements', types.Json, nullable=False),   # {key: value} that hosts must meet
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
    sa.Column('deleted_at', types.DateTime),
    sa.Column('deleted', sa.Integer, nullable=False, default=0),     # its id once it is deleted
    sa.UniqueConstraint('name', 'deleted', name='uniq_instance_categories_name_deleted'),
)
