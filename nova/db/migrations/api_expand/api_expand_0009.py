"""Address groups, ranges of forwarded ports, QoS specs of volume types, policy documents."""
from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0009'
down_revision = 'api_expand_0008'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def _create(name: str, *items: Any) -> None:
    op.create_table(name, *items, mysql_engine='InnoDB', mysql_charset='utf8mb4')


def upgrade() -> None:
    _create(
        'address_groups',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('addresses', LONG_TEXT, nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'identity_policies',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('type', sa.String(255), nullable=False),
        sa.Column('blob', LONG_TEXT, nullable=False), sa.Column('extra', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'volume_qos_specs',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True),
        sa.Column('consumer', sa.String(12), nullable=False), sa.Column('specs', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
    )
    op.add_column('port_forwardings', sa.Column('ports', sa.Integer, nullable=False, server_default='1'))
    op.add_column('security_groups', sa.Column('stateful', sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column('security_group_rules', sa.Column('remote_address_group_id', sa.String(36)))
    op.create_index('ix_security_group_rules_remote_address_group_id', 'security_group_rules',
                    ['remote_address_group_id'])
    op.add_column('volume_types', sa.Column('qos_specs_id', sa.String(36)))
    op.create_index('ix_volume_types_qos_specs_id', 'volume_types', ['qos_specs_id'])
