"""Trunks."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0005'
down_revision = 'api_expand_0004'
branch_labels = None
depends_on = None

MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'trunks',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('port_id', sa.String(36), nullable=False, unique=True),
        sa.Column('admin_state_up', sa.Boolean, nullable=False),
        sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
    op.create_table(
        'trunk_subports',
        sa.Column('port_id', sa.String(36), primary_key=True),
        sa.Column('trunk_id', sa.String(36), nullable=False),
        sa.Column('segmentation_type', sa.String(16), nullable=False),
        sa.Column('segmentation_id', sa.Integer, nullable=False),
        sa.UniqueConstraint('trunk_id', 'segmentation_type', 'segmentation_id', name='uq_trunk_subports'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
