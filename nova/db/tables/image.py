"""Tables of the embedded image service, in the API database."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table
from nova.db.tables.rows import ImageMembersRow
from nova.db.tables.rows import ImageTasksRow
from nova.db.tables.rows import MetadefItemsRow
from nova.db.tables.rows import MetadefNamespacesRow

images = table(
    'images',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('name', sa.String(255)),
    sa.Column('status', sa.String(16), nullable=False),          # one of nova.image.resources.STATUSES
    sa.Column('visibility', sa.String(16), nullable=False),
    sa.Column('owner', sa.String(255)),
    sa.Column('protected', sa.Boolean, nullable=False, default=False),
    sa.Column('os_hidden', sa.Boolean, nullable=False, default=False),
    sa.Column('disk_format', sa.String(16)),
    sa.Column('container_format', sa.String(16)),
    sa.Column('min_disk', sa.Integer, nullable=False, default=0),        # GiB
    sa.Column('min_ram', sa.Integer, nullable=False, default=0),         # MiB
    sa.Column('size', sa.BigInteger),                                    # bytes
    # bytes that the quota counts for an upload in progress
    sa.Column('reserved', sa.BigInteger, nullable=False, default=0, server_default='0'),
    sa.Column('virtual_size', sa.BigInteger),                            # bytes
    sa.Column('checksum', sa.String(32)),
    sa.Column('os_hash_algo', sa.String(16)),
    sa.Column('os_hash_value', sa.String(128)),
    sa.Column('data_id', sa.String(36)),          # name of the file in the store; each upload has a new name
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_images_owner', 'owner', 'visibility'),
    sa.Index('ix_images_name', 'name'),
    sa.Index('ix_images_created', 'created_at', 'id'),
)

image_properties = table(
    'image_properties',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('value', types.LongText),
    sa.Index('ix_image_properties_image', 'image_id'),
    sa.Index('ix_image_properties_name', 'name'),
)

image_tags = table(
    'image_tags',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('value', sa.String(255), nullable=False),
    sa.Index('ix_image_tags_image', 'image_id'),
    sa.Index('ix_image_tags_value', 'value'),
)

image_members: types.Table[ImageMembersRow] = table(
    'image_members',
    sa.Column('image_id', sa.String(36), primary_key=True),
    sa.Column('member', sa.String(255), primary_key=True),
    sa.Column('status', sa.String(16), nullable=False),          # pending, accepted, rejected
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_image_members_member', 'member', 'status'),
)

# import tasks of existing images; only the newest tasks of an image are kept
image_tasks: types.Table[ImageTasksRow] = table(
    'image_tasks',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('type', sa.String(16), nullable=False),            # api_image_import, import
    sa.Column('status', sa.String(16), nullable=False),          # pending, processing, success, failure
    sa.Column('message', types.LongText, nullable=False),
    sa.Column('owner', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('request_id', sa.String(255)),
    sa.Column('input', types.Json, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_image_tasks_image', 'image_id'),
    sa.Index('ix_image_tasks_owner', 'owner', 'created_at'),
)

# ids of deleted images: servers and caches identify images by id, so an id must not be reused
image_tombstones = table(
    'image_tombstones',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('deleted_at', types.DateTime, nullable=False),
)

# metadata definitions: descriptions of properties that images, flavors and other resources may have
metadef_namespaces: types.Table[MetadefNamespacesRow] = table(
    'metadef_namespaces',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('namespace', sa.String(80), nullable=False, unique=True),
    sa.Column('display_name', sa.String(80)),
    sa.Column('description', types.LongText),
    sa.Column('visibility', sa.String(16), nullable=False),      # public, private
    sa.Column('protected', sa.Boolean, nullable=False),
    sa.Column('owner', sa.String(255), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
)

metadef_items: types.Table[MetadefItemsRow] = table(
    'metadef_items',
    sa.Column('namespace_id', sa.String(36), primary_key=True),
    sa.Column('kind', sa.String(16), primary_key=True),          # object, property, tag, resource_type
    sa.Column('name', sa.String(80), primary_key=True),
    sa.Column('document', types.Json, nullable=False),           # all fields except the name
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_metadef_items_kind', 'kind', 'name'),
)
