"""Tables of the embedded identity service, in the API database."""
from __future__ import annotations

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table
from nova.db.tables import rows

# domains that clients created; the default domain has no row
identity_domains: types.Table[rows.IdentityDomainsRow] = table(
    'identity_domains',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('name', sa.String(64), nullable=False, unique=True),
    sa.Column('description', types.LongText, nullable=False),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('tags', types.Json, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
)

identity_projects: types.Table[rows.IdentityProjectsRow] = table(
    'identity_projects',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('domain_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(64), nullable=False),
    sa.Column('description', types.LongText, nullable=False),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('tags', types.Json, nullable=False),
    sa.Column('parent_id', sa.String(64), index=True),       # parent project; NULL: the domain is the parent
    sa.Column('extra', types.Json),                          # additional attributes that clients store
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_projects_name'),
)

identity_users: types.Table[rows.IdentityUsersRow] = table(
    'identity_users',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('domain_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('email', sa.String(255)),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('default_project_id', sa.String(64)),
    sa.Column('password_hash', sa.String(255)),              # NULL: the user cannot log in with a password
    sa.Column('password_expires_at', types.DateTime),        # NULL: no expiry
    # tokens issued up to this time are revoked, because the password was changed or the user was disabled
    sa.Column('tokens_revoked_until', types.DateTime),
    sa.Column('options', types.Json),                        # {API name: value} of the options that are set
    # time step of the last used one-time password (TOTP); codes of this and earlier steps are invalid for all devices
    sa.Column('totp_step', sa.BigInteger),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_users_name'),
)

# former passwords of users, which new passwords must not repeat
identity_passwords = table(
    'identity_passwords',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('password_hash', sa.String(255), nullable=False),
)

identity_roles: types.Table[rows.IdentityRolesRow] = table(
    'identity_roles',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    # domain of a domain-specific role; tokens contain only the roles that such a role implies
    sa.Column('domain_id', sa.String(64)),
    # domain_id or '', because NULLs are distinct in a unique key
    sa.Column('name_space', sa.String(64), nullable=False, default='', server_default=''),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('name_space', 'name', name='uniq_identity_roles_name'),
)

# role implications that clients created; effective_roles.LADDER has the implications of the default roles
identity_implied_roles = table(
    'identity_implied_roles',
    sa.Column('prior_role_id', sa.String(64), primary_key=True),
    sa.Column('implied_role_id', sa.String(64), primary_key=True, index=True),
)

identity_groups: types.Table[rows.IdentityGroupsRow] = table(
    'identity_groups',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('domain_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(64), nullable=False),
    sa.Column('description', types.LongText, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_groups_name'),
)

identity_memberships = table(
    'identity_memberships',
    sa.Column('group_id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), primary_key=True, index=True),
)

identity_assignments = table(
    'identity_assignments',
    sa.Column('user_id', sa.String(64), primary_key=True),
    # project, domain, system; below_project, below_domain: the projects below the target inherit the assignment
    sa.Column('target_type', sa.String(16), primary_key=True),
    sa.Column('target_id', sa.String(64), primary_key=True),
    sa.Column('role_id', sa.String(64), primary_key=True),
    sa.Index('ix_identity_assignments_target', 'target_type', 'target_id'),
)

# like identity_assignments, for a group: all members of the group have the role
identity_group_assignments = table(
    'identity_group_assignments',
    sa.Column('group_id', sa.String(64), primary_key=True),
    sa.Column('target_type', sa.String(16), primary_key=True),
    sa.Column('target_id', sa.String(64), primary_key=True),
    sa.Column('role_id', sa.String(64), primary_key=True),
    sa.Index('ix_identity_group_assignments_target', 'target_type', 'target_id'),
)

identity_application_credentials: types.Table[rows.IdentityApplicationCredentialsRow] = table(
    'identity_application_credentials',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('secret_hash', sa.String(255), nullable=False),
    sa.Column('role_ids', types.Json, nullable=False),
    sa.Column('unrestricted', sa.Boolean, nullable=False),
    sa.Column('access_rule_ids', types.Json),                # NULL: all requests are allowed
    sa.Column('expires_at', types.DateTime),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('user_id', 'name', name='uniq_identity_application_credentials_name'),
)

# access rules: requests to which an application credential can be limited
identity_access_rules: types.Table[rows.IdentityAccessRulesRow] = table(
    'identity_access_rules',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('service', sa.String(64), nullable=False),     # type of the service in the catalog
    sa.Column('method', sa.String(16), nullable=False),
    sa.Column('path', sa.String(128), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# delegations of roles from one user, the trustor, to another, the trustee
identity_trusts: types.Table[rows.IdentityTrustsRow] = table(
    'identity_trusts',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('trustor_user_id', sa.String(64), nullable=False, index=True),
    sa.Column('trustee_user_id', sa.String(64), nullable=False, index=True),
    sa.Column('project_id', sa.String(64), nullable=False, index=True),
    sa.Column('role_ids', types.Json, nullable=False),
    sa.Column('impersonation', sa.Boolean, nullable=False),  # whether tokens have the trustor's user id
    sa.Column('expires_at', types.DateTime),
    sa.Column('remaining_uses', sa.Integer),                 # tokens that may still be issued; NULL: any number
    sa.Column('created_at', types.DateTime, nullable=False),
)

# TOTP secrets and EC2 key pairs of users
identity_credentials: types.Table[rows.IdentityCredentialsRow] = table(
    'identity_credentials',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('user_id', sa.String(64), nullable=False, index=True),
    sa.Column('type', sa.String(16), nullable=False),
    sa.Column('encrypted_blob', sa.String(1024), nullable=False),     # by KeyRing.encrypt_secret, for this row only
    sa.Column('project_id', sa.String(64)),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# tokens revoked before their expiry; a row is deleted when its token has expired
identity_revoked_tokens = table(
    'identity_revoked_tokens',
    sa.Column('audit_id', sa.String(32), primary_key=True),
    sa.Column('expires_at', types.DateTime, nullable=False, index=True),    sa.Column('revoked_at', types.DateTime),
)

# regions, services and endpoints that clients created, in addition to those in the configuration
identity_regions: types.Table[rows.IdentityRegionsRow] = table(
    'identity_regions',
    sa.Column('id', sa.String(255), primary_key=True),
    sa.Column('parent_region_id', sa.String(255), index=True),
    sa.Column('description', types.LongText, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
)

identity_services: types.Table[rows.IdentityServicesRow] = table(
    'identity_services',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('type', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255)),
    sa.Column('description', types.LongText),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
)

identity_endpoints: types.Table[rows.IdentityEndpointsRow] = table(
    'identity_endpoints',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('service_id', sa.String(64), nullable=False, index=True),
    sa.Column('region_id', sa.String(255), index=True),
    sa.Column('interface', sa.String(8), nullable=False),
    sa.Column('url', types.LongText, nullable=False),
    sa.Column('enabled', sa.Boolean, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# endpoint groups: filters that select endpoints for the catalogs of projects
identity_endpoint_groups: types.Table[rows.IdentityEndpointGroupsRow] = table(
    'identity_endpoint_groups',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('name', sa.String(255), nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('filters', types.Json, nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
)

# if a project has rows in this table, its catalog contains only these endpoints
identity_project_endpoints: types.Table[rows.IdentityProjectEndpointsRow] = table(
    'identity_project_endpoints',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('kind', sa.String(16), primary_key=True),          # endpoint, endpoint_group
    sa.Column('target_id', sa.String(64), primary_key=True),
    sa.Index('ix_identity_project_endpoints_target', 'kind', 'target_id'),
)

# Unified limits. The service of a limit reads and enforces the limit.
identity_registered_limits: types.Table[rows.IdentityRegisteredLimitsRow] = table(
    'identity_registered_limits',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('service_id', sa.String(64), nullable=False),
    sa.Column('region_id', sa.String(255), nullable=False),          # '': all regions
    sa.Column('resource_name', sa.String(255), nullable=False),
    sa.Column('default_limit', sa.Integer, nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('service_id', 'region_id', 'resource_name', name='uniq_identity_registered_limits'),
)

# values that replace the default of a registered limit for a project or domain
identity_limits: types.Table[rows.IdentityLimitsRow] = table(
    'identity_limits',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('registered_limit_id', sa.String(64), nullable=False),
    sa.Column('project_id', sa.String(64), nullable=False, index=True),     # '': a limit of a domain
    sa.Column('domain_id', sa.String(64), nullable=False),                  # '': a limit of a project
    sa.Column('resource_limit', sa.Integer, nullable=False),
    sa.Column('description', types.LongText),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('registered_limit_id', 'project_id', 'domain_id', name='uniq_identity_limits'),
)

# policy documents that clients store for other services; the identity service does not evaluate them
identity_policies: types.Table[rows.IdentityPoliciesRow] = table(
    'identity_policies',
    sa.Column('id', sa.String(64), primary_key=True),
    sa.Column('type', sa.String(255), nullable=False),
    sa.Column('blob', types.LongText, nullable=False),
    sa.Column('extra', types.Json),
    sa.Column('created_at', types.DateTime, nullable=False),
)
