"""Guarantees of QoS policies, and what hosts can guarantee."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0016'
down_revision = 'api_expand_0015'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'qos_minimums', sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('policy_id', sa.String(36), nullable=False), sa.Column('type', sa.String(32), nullable=False),
        sa.Column('direction', sa.String(8), nullable=False), sa.Column('amount', sa.Integer, nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('policy_id', 'type', 'direction', name='uq_qos_minimums'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4')
    op.add_column('network_hosts', sa.Column('guarantees', LONG_TEXT))
