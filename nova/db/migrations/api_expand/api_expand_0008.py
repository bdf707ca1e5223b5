"""Metadata definitions of the image service."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0008'
down_revision = 'api_expand_0007'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'metadef_namespaces',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('namespace', sa.String(80), nullable=False, unique=True), sa.Column('display_name', sa.String(80)),
        sa.Column('description', LONG_TEXT), sa.Column('visibility', sa.String(16), nullable=False),
        sa.Column('protected', sa.Boolean, nullable=False), sa.Column('owner', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
    op.create_table(
        'metadef_items',
        sa.Column('namespace_id', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(16), primary_key=True), sa.Column('name', sa.String(80), primary_key=True),
        sa.Column('document', LONG_TEXT, nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Index('ix_metadef_items_kind', 'kind', 'name'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
