"""Groups, trusts, access rules, limits and a writable catalog of the identity service."""
from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0002'
down_revision = 'api_expand_0001'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def _create(name: str, *items: Any) -> None:
    op.create_table(name, *items, mysql_engine='InnoDB', mysql_charset='utf8mb4')


def upgrade() -> None:
    _create(
        'identity_access_rules',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('user_id', sa.String(64), nullable=False, index=True),
        sa.Column('service', sa.String(64), nullable=False), sa.Column('method', sa.String(16), nullable=False),
        sa.Column('path', sa.String(128), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_endpoints',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('service_id', sa.String(64), nullable=False, index=True),
        sa.Column('region_id', sa.String(255), index=True),
        sa.Column('interface', sa.String(8), nullable=False), sa.Column('url', LONG_TEXT, nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False), sa.Column('extra', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_group_assignments',
        sa.Column('group_id', sa.String(64), primary_key=True),
        sa.Column('target_type', sa.String(16), primary_key=True),
        sa.Column('target_id', sa.String(64), primary_key=True),
        sa.Column('role_id', sa.String(64), primary_key=True),
        sa.Index('ix_identity_group_assignments_target', 'target_type', 'target_id'),
    )
    _create(
        'identity_groups',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('domain_id', sa.String(64), nullable=False),
        sa.Column('name', sa.String(64), nullable=False), sa.Column('description', LONG_TEXT, nullable=False),
        sa.Column('extra', LONG_TEXT), sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_groups_name'),
    )
    _create(
        'identity_implied_roles',
        sa.Column('prior_role_id', sa.String(64), primary_key=True),
        sa.Column('implied_role_id', sa.String(64), primary_key=True, index=True),
    )
    _create(
        'identity_limits',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('registered_limit_id', sa.String(64), nullable=False),
        sa.Column('project_id', sa.String(64), nullable=False, index=True),
        sa.Column('domain_id', sa.String(64), nullable=False),
        sa.Column('resource_limit', sa.Integer, nullable=False), sa.Column('description', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('registered_limit_id', 'project_id', 'domain_id', name='uniq_identity_limits'),
    )
    _create(
        'identity_memberships',
        sa.Column('group_id', sa.String(64), primary_key=True),
        sa.Column('user_id', sa.String(64), primary_key=True, index=True),
    )
    _create(
        'identity_regions',
        sa.Column('id', sa.String(255), primary_key=True),
        sa.Column('parent_region_id', sa.String(255), index=True),
        sa.Column('description', LONG_TEXT, nullable=False), sa.Column('extra', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_registered_limits',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('service_id', sa.String(64), nullable=False),
        sa.Column('region_id', sa.String(255), nullable=False),
        sa.Column('resource_name', sa.String(255), nullable=False),
        sa.Column('default_limit', sa.Integer, nullable=False), sa.Column('description', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('service_id', 'region_id', 'resource_name', name='uniq_identity_registered_limits'),
    )
    _create(
        'identity_services',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('type', sa.String(255), nullable=False),
        sa.Column('name', sa.String(255)), sa.Column('description', LONG_TEXT),
        sa.Column('enabled', sa.Boolean, nullable=False), sa.Column('extra', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_trusts',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('trustor_user_id', sa.String(64), nullable=False, index=True),
        sa.Column('trustee_user_id', sa.String(64), nullable=False, index=True),
        sa.Column('project_id', sa.String(64), nullable=False, index=True),
        sa.Column('role_ids', LONG_TEXT, nullable=False),
        sa.Column('impersonation', sa.Boolean, nullable=False), sa.Column('expires_at', MOMENT),
        sa.Column('remaining_uses', sa.Integer), sa.Column('created_at', MOMENT, nullable=False),
    )
    op.add_column('identity_application_credentials', sa.Column('access_rule_ids', LONG_TEXT))
    op.add_column('identity_projects', sa.Column('parent_id', sa.String(64)))
    op.create_index('ix_identity_projects_parent_id', 'identity_projects', ['parent_id'])
    op.add_column('identity_projects', sa.Column('extra', LONG_TEXT))
    op.add_column('identity_revoked_tokens', sa.Column('revoked_at', MOMENT))
    op.add_column('identity_roles', sa.Column('domain_id', sa.String(64)))
    op.add_column('identity_roles', sa.Column('extra', LONG_TEXT))
    op.add_column('identity_users', sa.Column('extra', LONG_TEXT))
