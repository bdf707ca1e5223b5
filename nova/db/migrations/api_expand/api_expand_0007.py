"""Domains and endpoint filters of the identity service."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0007'
down_revision = 'api_expand_0006'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'identity_domains',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('name', sa.String(64), nullable=False, unique=True),
        sa.Column('description', LONG_TEXT, nullable=False), sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('tags', LONG_TEXT, nullable=False), sa.Column('extra', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
    op.create_table(
        'identity_endpoint_groups',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('name', sa.String(255), nullable=False),
        sa.Column('description', LONG_TEXT), sa.Column('filters', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
    op.create_table(
        'identity_project_endpoints',
        sa.Column('project_id', sa.String(64), primary_key=True), sa.Column('kind', sa.String(16), primary_key=True),
        sa.Column('target_id', sa.String(64), primary_key=True),
        sa.Index('ix_identity_project_endpoints_target', 'kind', 'target_id'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
