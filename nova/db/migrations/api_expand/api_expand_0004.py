"""Address scopes."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0004'
down_revision = 'api_expand_0003'
branch_labels = None
depends_on = None

MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'address_scopes',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('shared', sa.Boolean, nullable=False),
        sa.Column('ip_version', sa.Integer, nullable=False),
        sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
    op.add_column('subnet_pools', sa.Column('address_scope_id', sa.String(36)))
    op.create_index('ix_subnet_pools_address_scope_id', 'subnet_pools', ['address_scope_id'])
