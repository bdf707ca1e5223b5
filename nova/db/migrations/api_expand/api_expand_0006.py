"""Secrets, containers, consumers and orders of the key manager."""
from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0006'
down_revision = 'api_expand_0005'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def _create(name: str, *items: Any) -> None:
    op.create_table(name, *items, mysql_engine='InnoDB', mysql_charset='utf8mb4')


def upgrade() -> None:
    _create(
        'key_secrets',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('creator_id', sa.String(255), nullable=False), sa.Column('name', sa.String(255)),
        sa.Column('secret_type', sa.String(32), nullable=False), sa.Column('algorithm', sa.String(255)),
        sa.Column('bit_length', sa.Integer), sa.Column('mode', sa.String(255)), sa.Column('expires_at', MOMENT),
        sa.Column('metadata', LONG_TEXT, nullable=False), sa.Column('content_type', sa.String(64)),
        sa.Column('encrypted_payload', LONG_TEXT), sa.Column('encryption_key_id', sa.String(16)),
        sa.Column('project_access', sa.Boolean, nullable=False), sa.Column('acl_created_at', MOMENT),
        sa.Column('acl_updated_at', MOMENT), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False),
        sa.Index('ix_key_secrets_project_created', 'project_id', 'created_at', 'id'),
        sa.Index('ix_key_secrets_created', 'created_at'),
    )
    _create(
        'key_containers',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('creator_id', sa.String(255), nullable=False), sa.Column('name', sa.String(255)),
        sa.Column('type', sa.String(32), nullable=False), sa.Column('project_access', sa.Boolean, nullable=False),
        sa.Column('acl_created_at', MOMENT), sa.Column('acl_updated_at', MOMENT),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Index('ix_key_containers_project_created', 'project_id', 'created_at', 'id'),
    )
    _create(
        'key_container_secrets',
        sa.Column('container_id', sa.String(36), primary_key=True),
        sa.Column('secret_id', sa.String(36), primary_key=True), sa.Column('name', sa.String(255), nullable=False),
        sa.Index('ix_key_container_secrets_secret', 'secret_id'),
    )
    _create(
        'key_acl_users',
        sa.Column('target_id', sa.String(36), primary_key=True),
        sa.Column('user_id', sa.String(255), primary_key=True), sa.Index('ix_key_acl_users_user', 'user_id'),
    )
    _create(
        'key_consumers',
        sa.Column('target_id', sa.String(36), primary_key=True), sa.Column('digest', sa.String(64), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('document', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Index('ix_key_consumers_project', 'project_id'),
    )
    _create(
        'key_orders',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('creator_id', sa.String(255), nullable=False), sa.Column('type', sa.String(32), nullable=False),
        sa.Column('meta', LONG_TEXT, nullable=False), sa.Column('secret_id', sa.String(36)),
        sa.Column('container_id', sa.String(36)), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False),
        sa.Index('ix_key_orders_project_created', 'project_id', 'created_at', 'id'),
    )
