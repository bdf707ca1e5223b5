"""Flavors of routers."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0011'
down_revision = 'api_expand_0010'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    _create('network_flavors', sa.Column('name', sa.String(255), nullable=False),
            sa.Column('service_type', sa.String(32), nullable=False), sa.Column('profile_ids', LONG_TEXT, nullable=False))
    _create('network_service_profiles', sa.Column('driver', sa.String(255), nullable=False),
            sa.Column('metainfo', LONG_TEXT, nullable=False))
    op.add_column('routers', sa.Column('flavor_id', sa.String(36)))
    op.create_index('ix_routers_flavor_id', 'routers', ['flavor_id'])


def _create(name: str, *columns: sa.Column[str]) -> None:
    op.create_table(
        name, sa.Column('id', sa.String(36), primary_key=True), *columns,
        sa.Column('enabled', sa.Boolean, nullable=False), sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4')
