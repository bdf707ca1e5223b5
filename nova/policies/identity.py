"""Rules of the embedded identity service; names, defaults and scopes are those of the Identity API."""
from nova.policies.service import Operations
from nova.policies.service import PROJECT
from nova.policies.service import Rule
from nova.policies.service import Service
from nova.policies.service import names

# (rule, check, description)
BASE = (
    ('admin_required',
     'role:admin or is_admin:1',
     'Administrators: the role admin on the project, domain or system of the token.'),
    ('service_role', 'role:service', 'Other services.'),
    ('service_or_admin', 'rule:admin_required or rule:service_role', 'Other services, and administrators.'),
    ('owner', 'user_id:%(user_id)s', 'The user whose resource it is.'),
    ('admin_or_owner', 'rule:admin_required or rule:owner', 'Administrators, and the user whose resource it is.'),
    ('token_subject', 'user_id:%(target.token.user_id)s', 'The user of the token that is checked.'),
    ('admin_or_token_subject',
     'rule:admin_required or rule:token_subject',
     'Administrators, and the user of the token. For older policy files.'),
    ('service_admin_or_token_subject',
     'rule:service_or_admin or rule:token_subject',
     'Other services, administrators, and the user of the token. For older policy files.'),
    ('domain_managed_target_role',
     "'manager':%(target.role.name)s or 'member':%(target.role.name)s or 'reader':%(target.role.name)s",
     'Roles that managers of a domain may see: manager, member and reader.'),
)

_ADMIN = 'rule:admin_required'
_READER = 'rule:admin_required or (role:reader and system_scope:all)'
_PROJECT_MANAGER = (
    '(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s and not '
    'None:%(target.project.domain_id)s)')
_USER_MANAGER = '(rule:admin_required) or (role:manager and token.domain.id:%(target.user.domain_id)s)'
_CREDENTIAL_OWNER = '(rule:admin_required) or user_id:%(target.credential.user_id)s'
_OWN_OR_READER = '(rule:admin_required) or (role:reader and system_scope:all) or rule:owner'
_EC2_OWNER = '(rule:admin_required) or (role:member and user_id:%(target.credential.user_id)s)'
# administrators, and users with the role reader on the system
_SYSTEM = '(rule:admin_required) or (role:reader and system_scope:all)'
_ASSIGNMENT_READER = _SYSTEM + (
    ' or (role:reader and domain_id:%(target.domain_id)s and not None:%(target.domain_id)s)')


def _on_grant(role: str) -> str:
    """Return a check for an assignment of a role to an actor (user or group) on a target (project or domain).

    The caller must have ``role`` on the domain of both the actor and the target.
    """
    return ' or '.join(f'(role:{role} and domain_id:%(target.{actor}.domain_id)s and domain_id:%(target.{target})s)'
                       for actor in ('user', 'group') for target in ('project.domain_id', 'domain.id'))


_OF_GRANT = '(domain_id:%(target.role.domain_id)s or None:%(target.role.domain_id)s)'
_GRANT_READER = f'(rule:admin_required) or ((role:reader and system_scope:all) or {_on_grant("reader")})'
_GRANT_CHECKER = (f'(rule:admin_required) or ((role:reader and system_scope:all) or ({_on_grant("reader")}) and '
                  f'{_OF_GRANT})')
_GRANT_MANAGER = (f'(rule:admin_required) or ({_on_grant("admin")}) and {_OF_GRANT} or ({_on_grant("manager")}) and '
                  'rule:domain_managed_target_role')
_PROJECT_READER = _SYSTEM + (
    ' or (role:reader and domain_id:%(target.project.domain_id)s and not None:%(target.project.domain_id)s) or '
    'project_id:%(target.project.id)s or rule:service_role')
_DOMAIN_READER = (
    'rule:admin_required or (role:reader and system_scope:all) or token.domain.id:%(target.domain.id)s or '
    'token.project.domain.id:%(target.domain.id)s')
_USER_GROUP_READER = _SYSTEM + ' or (role:reader and domain_id:%(target.user.domain_id)s) or user_id:%(user_id)s'
_USER_READER = (
    '(rule:admin_required) or (role:reader and system_scope:all) or (role:reader and '
    'token.domain.id:%(target.user.domain_id)s) or user_id:%(target.user.id)s or rule:service_role')
_TOKEN_READER = 'rule:admin_required or (role:reader and system_scope:all) or rule:service_role or rule:token_subject'
_USER_PROJECT_READER = _SYSTEM + (
    ' or (role:reader and domain_id:%(target.user.domain_id)s) or user_id:%(target.user.id)s')
_DOMAIN_LISTER = (
    'rule:admin_required or (role:reader and system_scope:all) or (role:reader and domain_id:%(target.domain.id)s)')
_LISTER = _SYSTEM + ' or (role:reader and domain_id:%(target.domain_id)s)'
_GROUP_READER = _SYSTEM + ' or (role:reader and domain_id:%(target.group.domain_id)s)'
_ROLE_READER = (
    '(rule:admin_required or (role:reader and system_scope:all)) or (role:manager and '
    'rule:domain_managed_target_role)')
_ROLE_LISTER = '(rule:admin_required or (role:reader and system_scope:all)) or (role:manager and not domain_id:None)'
_TOKEN_CHECKER = 'rule:admin_required or (role:reader and system_scope:all) or rule:token_subject'
_TAG_READER = _SYSTEM + (
    ' or (role:reader and domain_id:%(target.project.domain_id)s and not None:%(target.project.domain_id)s) or '
    'project_id:%(target.project.id)s')
_GROUP_MANAGER = '(rule:admin_required) or (role:manager and domain_id:%(target.group.domain_id)s)'
_MEMBER_MANAGER = (
    '(rule:admin_required) or (role:manager and domain_id:%(target.group.domain_id)s and '
    'domain_id:%(target.user.domain_id)s)')
_MEMBER_READER = _SYSTEM + (
    ' or (role:reader and domain_id:%(target.group.domain_id)s and domain_id:%(target.user.domain_id)s)')
_TRUST_READER = (
    '(rule:admin_required) or (role:reader and system_scope:all or user_id:%(target.trust.trustor_user_id)s or '
    'user_id:%(target.trust.trustee_user_id)s)')
_ACCESS_RULE_READER = '(role:reader and system_scope:all) or user_id:%(target.user.id)s'
_LIMIT_READER = (
    'rule:admin_required or (role:reader and system_scope:all) or (domain_id:%(target.limit.domain.id)s or '
    'domain_id:%(target.limit.project.domain_id)s) or (project_id:%(target.limit.project_id)s and not '
    'None:%(target.limit.project_id)s)')
_TRUSTOR_READER = (
    '(rule:admin_required) or (role:reader and system_scope:all or '
    'user_id:%(target.trust.trustor_user_id)s)')
_TRUSTEE_READER = (
    '(rule:admin_required) or (role:reader and system_scope:all or '
    'user_id:%(target.trust.trustee_user_id)s)')
_NO_DOMAIN = ('system', *PROJECT)
_ALL = ('domain', *_NO_DOMAIN)


def _granted(method: str, one: str = '') -> Operations:
    """Return the operations on role assignments: of users and groups, on projects and domains, direct and inherited.

    :param one: end of the path for a single role; '' for the list
    """
    return tuple((method, f'/v3{prefix}/{target}s/{{{target}_id}}/{actor}s/{{{actor}_id}}/roles{one}{suffix}')
                 for prefix, suffix in (('', ''), ('/OS-INHERIT', '/inherited_to_projects'))
                 for target in ('project', 'domain') for actor in ('user', 'group'))


RULES = (
    Rule('identity:get_auth_catalog', '', 'Show the catalog of the token.', scope=_ALL),
    Rule('identity:get_auth_projects', '', 'List the projects for which the user can get a token.', scope=_ALL),
    Rule('identity:get_auth_domains', '', 'List the domains for which the user can get a token.', scope=_ALL),
    Rule('identity:get_auth_system', '', 'Show whether the user can get a token for the system.', scope=_ALL),
    Rule('identity:check_token', _TOKEN_CHECKER, 'Check whether a token is valid, without reading it.',
         (('HEAD', '/v3/auth/tokens'),), _ALL),
    Rule('identity:validate_token', _TOKEN_READER, 'Show the user, scope and roles of a token.', scope=_ALL),
    Rule('identity:revoke_token', 'rule:admin_required or rule:token_subject', 'Revoke a token.', scope=_ALL),
    Rule('identity:list_regions', '', 'List regions.', scope=_ALL),
    Rule('identity:get_region', '', 'Show a region.', scope=_ALL),
    Rule('identity:list_services', _READER, 'List the services of the catalog.', scope=_NO_DOMAIN),
    Rule('identity:get_service', _READER, 'Show a service of the catalog.', scope=_NO_DOMAIN),
    Rule('identity:list_endpoints', _READER, 'List the endpoints of the catalog.', scope=_NO_DOMAIN),
    Rule('identity:get_endpoint', _READER, 'Show an endpoint of the catalog.', scope=_NO_DOMAIN),
    Rule('identity:list_domains', _DOMAIN_LISTER, 'List domains.', scope=_ALL),
    Rule('identity:get_domain', _DOMAIN_READER, 'Show a domain.', scope=_ALL),
    Rule('identity:create_domain', _ADMIN, 'Create a domain.', scope=_NO_DOMAIN),
    Rule('identity:update_domain', _ADMIN, 'Change a domain.', scope=_NO_DOMAIN),
    Rule('identity:delete_domain', _ADMIN, 'Delete a domain with its users, groups and projects.', scope=_NO_DOMAIN),
    Rule('identity:list_policies', _READER, 'List policy documents.', scope=_NO_DOMAIN),
    Rule('identity:get_policy', _READER, 'Show a policy document.', scope=_NO_DOMAIN),
    Rule('identity:create_policy', _ADMIN, 'Store a policy document.', scope=_NO_DOMAIN),
    Rule('identity:update_policy', _ADMIN, 'Change a policy document.', scope=_NO_DOMAIN),
    Rule('identity:delete_policy', _ADMIN, 'Delete a policy document.', scope=_NO_DOMAIN),
    Rule('identity:list_projects', _LISTER, 'List projects.', scope=_ALL),
    Rule('identity:get_project', _PROJECT_READER, 'Show a project.', scope=_ALL),
    Rule('identity:create_project', _PROJECT_MANAGER, 'Create a project.', scope=_ALL),
    Rule('identity:update_project', _PROJECT_MANAGER, 'Change a project.', scope=_ALL),
    Rule('identity:delete_project', _PROJECT_MANAGER, 'Delete a project.', scope=_ALL),
    Rule('identity:list_user_projects', _USER_PROJECT_READER, 'List the projects of a user.', scope=_ALL),
    Rule('identity:list_users', _LISTER, 'List users.', scope=_ALL),
    Rule('identity:get_user', _USER_READER, 'Show a user.', scope=_ALL),
    Rule('identity:create_user', _USER_MANAGER, 'Create a user.', scope=_ALL),
    Rule('identity:update_user', _USER_MANAGER,
         'Change a user, including the password. A caller who is not an administrator must have every role of the '
         'user.',
         scope=_ALL),
    Rule('identity:delete_user', _USER_MANAGER,
         'Delete a user. A caller who is not an administrator must have every role of the user.', scope=_ALL),
    Rule('identity:list_groups', _GROUP_READER, 'List groups of users.', scope=_ALL),
    Rule('identity:list_groups_for_user', _USER_GROUP_READER, 'List the groups of a user.', scope=_ALL),
    Rule('identity:list_roles', _ROLE_LISTER, 'List roles.', scope=_ALL),
    Rule('identity:get_role', _ROLE_READER, 'Show a role.', scope=_ALL),
    Rule('identity:create_role', _ADMIN, 'Create a role.', scope=_NO_DOMAIN),
    Rule('identity:update_role', _ADMIN, 'Change a role.', scope=_NO_DOMAIN),
    Rule('identity:delete_role', _ADMIN, 'Delete a role.', scope=_NO_DOMAIN),
    Rule('identity:list_role_inference_rules', _READER, 'List all implied roles.', scope=_NO_DOMAIN),
    Rule('identity:list_implied_roles', _READER, 'List the roles that a role implies.',
         (('GET', '/v3/roles/{prior_role_id}/implies'),), _NO_DOMAIN),
    Rule('identity:list_role_assignments', _ASSIGNMENT_READER, 'List role assignments.', scope=_ALL),
    Rule('identity:list_role_assignments_for_tree', _ASSIGNMENT_READER,
         'List role assignments of a project and the projects below it (include_subtree).', scope=_ALL),
    Rule('identity:list_grants', _GRANT_READER, 'List the roles of a user or group on a project or domain.',
         _granted('GET'), _ALL),
    Rule('identity:check_grant', _GRANT_CHECKER, 'Check whether a user or group has a role on a project or domain.',
         _granted('GET', '/{role_id}'), _ALL),
    Rule('identity:create_grant', _GRANT_MANAGER, 'Assign a role on a project or domain to a user or group.',
         _granted('PUT', '/{role_id}'), _ALL),
    Rule('identity:revoke_grant', _GRANT_MANAGER, 'Remove a role on a project or domain from a user or group.',
         _granted('DELETE', '/{role_id}'), _ALL),
    Rule('identity:list_system_grants_for_user', _READER, 'List the roles of a user on the system.', scope=_NO_DOMAIN),
    Rule('identity:check_system_grant_for_user', _READER, 'Check whether a user has a role on the system.',
         scope=_NO_DOMAIN),
    Rule('identity:create_system_grant_for_user', _ADMIN, 'Assign a role on the system to a user.', scope=_NO_DOMAIN),
    Rule('identity:revoke_system_grant_for_user', _ADMIN, 'Remove a role on the system from a user.', scope=_NO_DOMAIN),
    Rule('identity:list_application_credentials', _OWN_OR_READER, 'List the application credentials of a user.',
         scope=_NO_DOMAIN),
    Rule('identity:get_application_credential', _OWN_OR_READER, 'Show an application credential.',
         (('GET', '/v3/users/{user_id}/application_credentials/{application_credential_id}'),), _NO_DOMAIN),
    Rule('identity:create_application_credential', 'user_id:%(user_id)s', 'Create an application credential.'),
    Rule('identity:delete_application_credential', 'rule:admin_or_owner', 'Delete an application credential.',
         (('DELETE', '/v3/users/{user_id}/application_credentials/{application_credential_id}'),), _NO_DOMAIN),
    Rule('identity:list_credentials', _CREDENTIAL_OWNER, 'List credentials: secrets of one-time codes and EC2 keys.',
         scope=_ALL),
    Rule('identity:get_credential', _CREDENTIAL_OWNER, 'Show a credential.', scope=_ALL),
    Rule('identity:create_credential', _CREDENTIAL_OWNER, 'Create a credential.', scope=_ALL),
    Rule('identity:update_credential', _CREDENTIAL_OWNER, 'Change a credential.', scope=_ALL),
    Rule('identity:delete_credential', _CREDENTIAL_OWNER, 'Delete a credential.', scope=_ALL),
    Rule('identity:ec2_list_credentials', _OWN_OR_READER, 'List the EC2 keys of a user.', scope=_NO_DOMAIN),
    Rule('identity:ec2_get_credential', _CREDENTIAL_OWNER, 'Show an EC2 key.', scope=_NO_DOMAIN),
    Rule('identity:ec2_create_credential', _EC2_OWNER, 'Create an EC2 key.', scope=_NO_DOMAIN),
    Rule('identity:ec2_delete_credential', _EC2_OWNER, 'Delete an EC2 key.', scope=_NO_DOMAIN),
    Rule('identity:ec2tokens_validate', 'rule:service_or_admin', 'Get a token for the owner of a signed EC2 request.',
         scope=_ALL),
    Rule('identity:s3tokens_validate', 'rule:service_or_admin', 'Identify the owner of a signed S3 request.',
         scope=_ALL),
    Rule('identity:list_project_tags', _TAG_READER, 'List the tags of a project.', scope=_ALL),
    Rule('identity:update_project_tags', _PROJECT_MANAGER, 'Replace the tags of a project.', scope=_ALL),
    Rule('identity:delete_project_tags', _PROJECT_MANAGER, 'Delete the tags of a project.', scope=_ALL),
    Rule('identity:get_project_tag', _TAG_READER, 'Check whether a project has a tag.', scope=_ALL),
    Rule('identity:create_project_tag', _PROJECT_MANAGER, 'Add a tag to a project.', scope=_ALL),
    Rule('identity:delete_project_tag', _PROJECT_MANAGER, 'Delete a tag of a project.', scope=_ALL),
    Rule('identity:list_domain_roles', _READER, 'List domain-specific roles (domain_id).', scope=_NO_DOMAIN),
    Rule('identity:create_domain_role', _ADMIN, 'Create a domain-specific role.', scope=_NO_DOMAIN),
    Rule('identity:get_domain_role', _READER, 'Show a domain-specific role.', scope=_NO_DOMAIN),
    Rule('identity:update_domain_role', _ADMIN, 'Change a domain-specific role.', scope=_NO_DOMAIN),
    Rule('identity:delete_domain_role', _ADMIN, 'Delete a domain-specific role.', scope=_NO_DOMAIN),
    Rule('identity:list_users_in_group', _GROUP_READER, 'List the users of a group.', scope=_ALL),
    Rule('identity:check_user_in_group', _MEMBER_READER, 'Check whether a user is in a group.', scope=_ALL),
    Rule('identity:add_user_to_group', _MEMBER_MANAGER,
         'Add a user to a group. A caller who is not an administrator must have every role of the group.', scope=_ALL),
    Rule('identity:remove_user_from_group', _MEMBER_MANAGER, 'Remove a user from a group.', scope=_ALL),
    Rule('identity:check_implied_role', _READER, 'Check whether a role implies another (HEAD).',
         (('HEAD', '/v3/roles/{prior_role_id}/implies/{implied_role_id}'),), _NO_DOMAIN),
    Rule('identity:get_implied_role', _READER, 'Show a role and one that it implies.',
         (('GET', '/v3/roles/{prior_role_id}/implies/{implied_role_id}'),), _NO_DOMAIN),
    Rule('identity:create_implied_role', _ADMIN, 'Make a role imply another.',
         (('PUT', '/v3/roles/{prior_role_id}/implies/{implied_role_id}'),), _NO_DOMAIN),
    Rule('identity:delete_implied_role', _ADMIN, 'Make a role no longer imply another.',
         (('DELETE', '/v3/roles/{prior_role_id}/implies/{implied_role_id}'),), _NO_DOMAIN),
    Rule('identity:list_system_grants_for_group', _READER, 'List the roles of a group on the system.',
         scope=_NO_DOMAIN),
    Rule('identity:check_system_grant_for_group', _READER, 'Check whether a group has a role on the system.',
         scope=_NO_DOMAIN),
    Rule('identity:create_system_grant_for_group', _ADMIN, 'Assign a role on the system to a group.', scope=_NO_DOMAIN),
    Rule('identity:revoke_system_grant_for_group', _ADMIN, 'Remove a role on the system from a group.',
         scope=_NO_DOMAIN),
    Rule('identity:list_trusts_for_trustee', _TRUSTEE_READER, 'List the trusts for a user (trustee_user_id).',
         scope=_NO_DOMAIN),
    Rule('identity:list_trusts', _READER, 'List the trusts of all users.', scope=_NO_DOMAIN),
    Rule('identity:list_trusts_for_trustor', _TRUSTOR_READER, 'List the trusts of a user (trustor_user_id).',
         scope=_NO_DOMAIN),
    Rule('identity:create_trust', 'user_id:%(target.trust.trustor_user_id)s', 'Create a trust.'),
    Rule('identity:get_trust', _TRUST_READER, 'Show a trust.', scope=_NO_DOMAIN),
    Rule('identity:delete_trust', 'rule:admin_required or user_id:%(target.trust.trustor_user_id)s', 'Delete a trust.',
         scope=_NO_DOMAIN),
    Rule('identity:list_roles_for_trust', _TRUST_READER, 'List the roles of a trust.', scope=_NO_DOMAIN),
    Rule('identity:get_role_for_trust', _TRUST_READER, 'Show a role of a trust.', scope=_NO_DOMAIN),
    Rule('identity:list_access_rules', _ACCESS_RULE_READER, 'List the access rules of a user.', scope=_NO_DOMAIN),
    Rule('identity:get_access_rule', _ACCESS_RULE_READER, 'Show an access rule.',
         (('GET', '/v3/users/{user_id}/access_rules/{access_rule_id}'),), _NO_DOMAIN),
    Rule('identity:delete_access_rule', '(role:admin and system_scope:all) or user_id:%(target.user.id)s',
         'Delete an access rule.',
         (('DELETE', '/v3/users/{user_id}/access_rules/{access_rule_id}'),), _NO_DOMAIN),
    Rule('identity:list_revoke_events', 'rule:service_or_admin',
         'List revoked tokens, and users whose tokens were revoked.', scope=_NO_DOMAIN),
    Rule('identity:get_limit_model', '', 'Show how limits are enforced.', scope=_ALL),
    Rule('identity:create_group', _GROUP_MANAGER, 'Create a group.', scope=_ALL),
    Rule('identity:get_group', _GROUP_READER, 'Show a group.', scope=_ALL),
    Rule('identity:update_group', _GROUP_MANAGER, 'Change a group.', scope=_ALL),
    Rule('identity:delete_group', _GROUP_MANAGER, 'Delete a group.', scope=_ALL),
    Rule('identity:create_region', _ADMIN, 'Create a region.', scope=_NO_DOMAIN),
    Rule('identity:update_region', _ADMIN, 'Change a region.', scope=_NO_DOMAIN),
    Rule('identity:delete_region', _ADMIN, 'Delete a region.', scope=_NO_DOMAIN),
    Rule('identity:create_service', _ADMIN, 'Create a service.', scope=_NO_DOMAIN),
    Rule('identity:update_service', _ADMIN, 'Change a service.', scope=_NO_DOMAIN),
    Rule('identity:delete_service', _ADMIN, 'Delete a service.', scope=_NO_DOMAIN),
    Rule('identity:create_endpoint', _ADMIN, 'Create an endpoint.', scope=_NO_DOMAIN),
    Rule('identity:update_endpoint', _ADMIN, 'Change an endpoint.', scope=_NO_DOMAIN),
    Rule('identity:delete_endpoint', _ADMIN, 'Delete an endpoint.', scope=_NO_DOMAIN),
    Rule('identity:list_registered_limits', '', 'List registered limits.', scope=_ALL),
    Rule('identity:create_registered_limits', _ADMIN, 'Create registered limits.', scope=_NO_DOMAIN),
    Rule('identity:get_registered_limit', '', 'Show a registered limit.', scope=_ALL),
    Rule('identity:update_registered_limit', _ADMIN, 'Change a registered limit.', scope=_NO_DOMAIN),
    Rule('identity:delete_registered_limit', _ADMIN, 'Delete a registered limit.', scope=_NO_DOMAIN),
    Rule('identity:list_limits', '',
         'List limits. Callers who do not pass identity:get_limit see only limits of their project or domain.',
         scope=_ALL),
    Rule('identity:create_limits', _ADMIN, 'Create limits of projects or domains.', scope=_NO_DOMAIN),
    Rule('identity:get_limit', _LIMIT_READER, 'Show a limit.', scope=_ALL),
    Rule('identity:update_limit', _ADMIN, 'Change a limit.', scope=_NO_DOMAIN),
    Rule('identity:delete_limit', _ADMIN, 'Delete a limit.', scope=_NO_DOMAIN),
    Rule('identity:create_endpoint_group', _ADMIN, 'Create an endpoint group.', scope=_NO_DOMAIN),
    Rule('identity:list_endpoint_groups', _READER, 'List endpoint groups.', scope=_NO_DOMAIN),
    Rule('identity:get_endpoint_group', _READER, 'Show an endpoint group.', scope=_NO_DOMAIN),
    Rule('identity:update_endpoint_group', _ADMIN, 'Change an endpoint group.', scope=_NO_DOMAIN),
    Rule('identity:delete_endpoint_group', _ADMIN, 'Delete an endpoint group.', scope=_NO_DOMAIN),
    Rule('identity:list_projects_associated_with_endpoint_group', _READER, 'List the projects of an endpoint group.',
         scope=_NO_DOMAIN),
    Rule('identity:list_endpoints_associated_with_endpoint_group', _READER, 'List the endpoints of an endpoint group.',
         scope=_NO_DOMAIN),
    Rule('identity:get_endpoint_group_in_project', _READER, 'Show an endpoint group of a project.', scope=_NO_DOMAIN),
    Rule('identity:list_endpoint_groups_for_project', _READER, 'List the endpoint groups of a project.',
         scope=_NO_DOMAIN),
    Rule('identity:add_endpoint_group_to_project', _ADMIN, 'Limit the catalog of a project to an endpoint group.',
         scope=_NO_DOMAIN),
    Rule('identity:remove_endpoint_group_from_project', _ADMIN, 'Remove an endpoint group from a project.',
         scope=_NO_DOMAIN),
    Rule('identity:list_projects_for_endpoint', _READER, 'List the projects of an endpoint.', scope=_NO_DOMAIN),
    Rule('identity:list_endpoints_for_project', _READER, 'List the endpoints of a project.', scope=_NO_DOMAIN),
    Rule('identity:add_endpoint_to_project', _ADMIN, 'Limit the catalog of a project to an endpoint.',
         scope=_NO_DOMAIN),
    Rule('identity:check_endpoint_in_project', _READER, 'Check whether a project has an endpoint.', scope=_NO_DOMAIN),
    Rule('identity:remove_endpoint_from_project', _ADMIN, 'Remove an endpoint from a project.', scope=_NO_DOMAIN),
)

# Documented rules of operations that this service does not have; policy files may contain them.
ABSENT = names({
    'rule:admin_required': '''
        identity:authorize_request_token identity:get_access_token identity:get_access_token_role
        identity:list_access_tokens identity:list_access_token_roles identity:delete_access_token
        identity:create_consumer identity:update_consumer identity:delete_consumer identity:create_domain_config
        identity:update_domain_config identity:delete_domain_config identity:create_identity_provider
        identity:update_identity_provider identity:delete_identity_provider identity:create_mapping
        identity:delete_mapping identity:update_mapping
        identity:create_policy_association_for_endpoint
        identity:delete_policy_association_for_endpoint identity:create_policy_association_for_service
        identity:delete_policy_association_for_service identity:create_policy_association_for_region_and_service
        identity:delete_policy_association_for_region_and_service identity:create_protocol identity:update_protocol
        identity:delete_protocol identity:create_service_provider identity:update_service_provider
        identity:delete_service_provider
    ''',
    'rule:admin_required or (role:reader and system_scope:all)': '''
        identity:get_consumer identity:list_consumers identity:get_domain_config identity:get_domain_config_default
        identity:list_identity_providers identity:get_identity_provider identity:get_mapping identity:list_mappings
        identity:check_policy_association_for_endpoint
        identity:check_policy_association_for_service identity:check_policy_association_for_region_and_service
        identity:get_policy_for_endpoint identity:list_endpoints_for_policy identity:get_protocol
        identity:list_protocols identity:list_service_providers identity:get_service_provider
    ''',
    '': 'identity:get_security_compliance_domain_config identity:list_projects_for_user identity:list_domains_for_user',
    'rule:service_or_admin': 'identity:revocation_list',
    'rule:admin_or_owner': 'identity:revoke_tokens_for_user',
})

IDENTITY = Service('identity', 'identity', 'identity_policy.yaml', BASE, RULES, ABSENT, 'admin_required',
                   none=('domain_id',))
