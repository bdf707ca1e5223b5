"""Tables of the embedded identity service, in the API database."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

if TYPE_CHECKING:
    from nova.db.tables.rows import IdentityProjectsRow

identity_projects: types.Table[IdentityProjectsRow] = table(
    'identity_projects',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('domain_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(64), nullable=False),
    sa.Column('description', types.LongText, nullable=False),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('tags', types.Json, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_projects_name'),
)

identity_users = table(
    'identity_users',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('domain_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('email', sa.String(255)),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('default_project_id', sa.String(64)),
    sa.Column('password_hash', sa.String(255)),              # NULL if login by password is impossible
    sa.Column('password_expires_at', types.DateTime),        # NULL: no expiry
    # tokens issued up to this time are revoked, after a password change or while the user was disabled
    sa.Column('tokens_revoked_until', types.DateTime),
    sa.Column('options', types.Json),                        # {API name: value} of the options that are set
    # time step of the last used one-time code; codes of this and earlier steps are invalid for all devices
    sa.Column('totp_step', sa.BigInteger),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_users_name'),
)

# former passwords of users, for the rule against reuse
identity_passwords = table(
    'identity_passwords',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('password_hash', sa.String(255), nullable=False),
)

identity_roles = table(
    'identity_roles',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False, unique=True),
    sa.Column('description', types.LongText),
    sa.Column('created_at', types.DateTime, nullable=False),
)

identity_assignments = table(
    'identity_assignments',
    sa.Column('user_id', sa.String(64), primary_key=True),
    sa.Column('target_type', sa.String(16), primary_key=True),       # project, domain or system
    sa.Column('target_id', sa.String(64), primary_key=True),
    sa.Column('role_id', sa.String(64), primary_key=True),
    sa.Index('ix_identity_assignments_target', 'target_type', 'target_id'),
)

identity_application_credentials = table(
    'identity_application_credentials',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('secret_hash', sa.String(255), nullable=False),
    sa.Column('role_ids', types.Json, nullable=False),
    sa.Column('unrestricted', sa.Boolean, nullable=False),
    sa.Column('expires_at', types.DateTime),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('user_id', 'name', name='uniq_identity_application_credentials_name'),
)

# TOTP credentials of users
identity_credentials = table(
    'identity_credentials',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('type', sa.String(16), nullable=False),
    sa.Column('encrypted_blob', sa.String(1024), nullable=False),       # KeyRing.encrypt_secret with this id
    sa.Column('project_id', sa.String(64)),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# tokens revoked before their expiry; a row is deleted when its token has expired
identity_revoked_tokens = table(
    'identity_revoked_tokens',
    sa.Column('audit_id', sa.String(32), primary_key=True),
    sa.Column('expires_at', types.DateTime, nullable=False, index=True),
)
