"""Conntrack helpers of routers."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0013'
down_revision = 'api_expand_0012'
branch_labels = None
depends_on = None

MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'router_conntrack_helpers', sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('router_id', sa.String(36), nullable=False), sa.Column('protocol', sa.String(8), nullable=False),
        sa.Column('port', sa.Integer, nullable=False), sa.Column('helper', sa.String(32), nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('router_id', 'protocol', 'port', name='uq_router_conntrack_helpers'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4')
