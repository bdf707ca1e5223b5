"""Tables of the embedded identity service, in the API database."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

identity_projects = table(
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
    sa.Column('password_hash', sa.String(255)),              # NULL: no login by password
    sa.Column('password_expires_at', types.DateTime),        # NULL: never
    # Tokens issued up to this moment are void: a password was changed or the user was disabled.
    sa.Column('tokens_void_until', types.DateTime),
    sa.Column('options', types.Json),                        # those that are set, as the API names them
    # The step of the last one-time code that was taken: it, and those before it, are used up, whichever device made it.
    sa.Column('totp_step', sa.BigInteger),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_users_name'),
)

# What users had as passwords before, for who may not choose them again.
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

# What a user has besides a password: the secrets of devices that make one-time codes.
identity_credentials = table(
    'identity_credentials',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('type', sa.String(16), nullable=False),
    sa.Column('sealed_blob', sa.String(1024), nullable=False),       # KeyRing.seal_secret of this id
    sa.Column('project_id', sa.String(64)),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# Tokens revoked before their end; a row goes when its token has expired.
identity_revoked_tokens = table(
    'identity_revoked_tokens',
    sa.Column('audit_id', sa.String(32), primary_key=True),
    sa.Column('forget_at', types.DateTime, nullable=False, index=True),
)
