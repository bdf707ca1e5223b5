"""Rules of the embedded key manager; names are those of the Key Manager API.

The defaults are those of Barbican with enforce_new_defaults = True; they use the roles reader, member and admin.
"""
from nova.policies.service import Rule
from nova.policies.service import Service
from nova.policies.service import names

# (rule, check, description)
BASE = (
    ('admin', 'role:admin', 'Administrators.'),
    ('secret_project_match', 'project_id:%(target.secret.project_id)s', 'Users of the project that owns the secret.'),
    ('secret_project_reader', 'role:reader and rule:secret_project_match', 'Readers of that project.'),
    ('secret_project_member', 'role:member and rule:secret_project_match', 'Members of that project.'),
    ('secret_project_admin', 'role:admin and rule:secret_project_match', 'Administrators of that project.'),
    ('secret_owner', 'user_id:%(target.secret.creator_id)s', 'The user who created the secret.'),
    ('secret_is_not_private', 'True:%(target.secret.read_project_access)s',
     'All users, unless the access control list of the secret sets project-access to false.'),
    ('secret_acl_read', "'read':%(target.secret.read)s", 'Users in the access control list of the secret.'),
    ('container_project_match', 'project_id:%(target.container.project_id)s',
     'Users of the project that owns the container.'),
    ('container_project_member', 'role:member and rule:container_project_match', 'Members of that project.'),
    ('container_project_admin', 'role:admin and rule:container_project_match', 'Administrators of that project.'),
    ('container_owner', 'user_id:%(target.container.creator_id)s', 'The user who created the container.'),
    ('container_is_not_private', 'True:%(target.container.read_project_access)s',
     'All users, unless the access control list of the container sets project-access to false.'),
    ('container_acl_read', "'read':%(target.container.read)s", 'Users in the access control list of the container.'),
    ('order_project_match', 'project_id:%(target.order.project_id)s', 'Users of the project that owns the order.'),
    ('order_project_member', 'role:member and rule:order_project_match', 'Members of that project.'),
)

_MEMBER, _READER, _ADMIN = 'role:member', 'role:reader', 'role:admin'
_CHANGE_SECRET = ('(rule:secret_project_admin or (rule:secret_project_member and rule:secret_owner) or '
                  '(rule:secret_project_member and rule:secret_is_not_private))')
_READ_SECRET = _CHANGE_SECRET.removesuffix(')') + ' or rule:secret_acl_read)'
_CHANGE_CONTAINER = _CHANGE_SECRET.replace('secret', 'container')
_READ_CONTAINER = _READ_SECRET.replace('secret', 'container')
_ORDER = 'rule:order_project_member'
_SECRET, _CONTAINER, _QUOTAS = '/v1/secrets/{secret_id}', '/v1/containers/{container_id}', '/v1/project-quotas'

RULES = (
    Rule('secrets:get', _MEMBER, 'List the secrets of the project, or with acl_only those shared with the user.',
         (('GET', '/v1/secrets'),)),
    Rule('secrets:post', _MEMBER, 'Store a secret.', (('POST', '/v1/secrets'),)),
    Rule('secret:get', _READ_SECRET.replace('(', '(role:admin or ', 1), 'Show a secret without its payload.',
         (('GET', _SECRET),)),
    Rule('secret:decrypt', _READ_SECRET, 'Show the payload of a secret.', (('GET', f'{_SECRET}/payload'),)),
    Rule('secret:put', _CHANGE_SECRET, 'Store the payload of a secret that has none.', (('PUT', _SECRET),)),
    Rule('secret:delete', _CHANGE_SECRET.replace('(', '(role:admin or ', 1), 'Delete a secret.',
         (('DELETE', _SECRET),)),
    Rule('secret_meta:get', _READ_SECRET, 'Show the metadata of a secret.',
         (('GET', f'{_SECRET}/metadata'), ('GET', f'{_SECRET}/metadata/{{key}}'))),
    Rule('secret_meta:post', _CHANGE_SECRET, 'Add a metadata item to a secret.', (('POST', f'{_SECRET}/metadata'),)),
    Rule('secret_meta:put', _CHANGE_SECRET, 'Replace the metadata of a secret, or one item.',
         (('PUT', f'{_SECRET}/metadata'), ('PUT', f'{_SECRET}/metadata/{{key}}'))),
    Rule('secret_meta:delete', _CHANGE_SECRET, 'Delete a metadata item of a secret.',
         (('DELETE', f'{_SECRET}/metadata/{{key}}'),)),
    Rule('secret_acls:get', _CHANGE_SECRET, 'Show the access control list of a secret.', (('GET', f'{_SECRET}/acl'),)),
    Rule('secret_acls:put_patch', _CHANGE_SECRET, 'Change the access control list of a secret.',
         (('PUT', f'{_SECRET}/acl'), ('PATCH', f'{_SECRET}/acl'))),
    Rule('secret_acls:delete', _CHANGE_SECRET, 'Delete the access control list of a secret.',
         (('DELETE', f'{_SECRET}/acl'),)),
    Rule('secret_consumers:get', _READ_SECRET, 'List the consumers of a secret.', (('GET', f'{_SECRET}/consumers'),)),
    Rule('secret_consumers:post', _READ_SECRET, 'Register a consumer of a secret.',
         (('POST', f'{_SECRET}/consumers'),)),
    Rule('secret_consumers:delete', _READ_SECRET, 'Remove a consumer of a secret.',
         (('DELETE', f'{_SECRET}/consumers'),)),
    Rule('containers:get', _MEMBER, 'List the containers of the project.', (('GET', '/v1/containers'),)),
    Rule('containers:post', _MEMBER, 'Create a container.', (('POST', '/v1/containers'),)),
    Rule('container:get', _READ_CONTAINER, 'Show a container.', (('GET', _CONTAINER),)),
    Rule('container:delete', _CHANGE_CONTAINER, 'Delete a container.', (('DELETE', _CONTAINER),)),
    Rule('container_secret:post', _CHANGE_CONTAINER, 'Add a secret to a generic container.',
         (('POST', f'{_CONTAINER}/secrets'),)),
    Rule('container_secret:delete', _CHANGE_CONTAINER, 'Remove a secret from a generic container.',
         (('DELETE', f'{_CONTAINER}/secrets'),)),
    Rule('container_acls:get', _CHANGE_CONTAINER, 'Show the access control list of a container.',
         (('GET', f'{_CONTAINER}/acl'),)),
    Rule('container_acls:put_patch', _CHANGE_CONTAINER, 'Change the access control list of a container.',
         (('PUT', f'{_CONTAINER}/acl'), ('PATCH', f'{_CONTAINER}/acl'))),
    Rule('container_acls:delete', _CHANGE_CONTAINER, 'Delete the access control list of a container.',
         (('DELETE', f'{_CONTAINER}/acl'),)),
    Rule('container_consumers:get', _READ_CONTAINER, 'List the consumers of a container.',
         (('GET', f'{_CONTAINER}/consumers'),)),
    Rule('container_consumers:post', _READ_CONTAINER, 'Register a consumer of a container.',
         (('POST', f'{_CONTAINER}/consumers'),)),
    Rule('container_consumers:delete', _READ_CONTAINER, 'Remove a consumer of a container.',
         (('DELETE', f'{_CONTAINER}/consumers'),)),
    Rule('orders:get', _MEMBER, 'List the orders of the project.', (('GET', '/v1/orders'),)),
    Rule('orders:post', _MEMBER, 'Order a generated key.', (('POST', '/v1/orders'),)),
    Rule('order:get', _ORDER, 'Show an order.', (('GET', '/v1/orders/{order_id}'),)),
    Rule('order:delete', _ORDER, 'Delete an order; its keys stay.', (('DELETE', '/v1/orders/{order_id}'),)),
    Rule('quotas:get', _READER, 'Show the limits of the project.', (('GET', '/v1/quotas'),)),
    Rule('project_quotas:get', _ADMIN, 'Show the limits of any project.',
         (('GET', _QUOTAS), ('GET', f'{_QUOTAS}/{{project_id}}'))),
    Rule('project_quotas:put', _ADMIN, 'Set limits of a project.', (('PUT', f'{_QUOTAS}/{{project_id}}'),)),
    Rule('project_quotas:delete', _ADMIN, 'Delete the limits of a project, so that the default limits apply.',
         (('DELETE', f'{_QUOTAS}/{{project_id}}'),)),
)

# Rules that this service does not evaluate. Policy files may refer to the rules for older roles of Barbican. The other
# rules belong to operations that this service does not have: secret stores, transport keys, showing a single consumer,
# and updating orders.
ABSENT = {
    'audit': 'role:audit', 'observer': 'role:observer', 'creator': 'role:creator',
    'service_admin': 'role:key-manager:service-admin',
    'all_users': 'rule:admin or rule:observer or rule:creator or rule:audit or rule:service_admin',
    'all_but_audit': 'rule:admin or rule:observer or rule:creator', 'admin_or_creator': 'rule:admin or rule:creator',
    'secret_decrypt_non_private_read':
        'rule:all_but_audit and rule:secret_project_match and not rule:secret_private_read',
    **{f'{kind}_{name}': check.replace('KIND', kind) for kind in ('secret', 'container') for name, check in (
        ('creator_user', 'user_id:%(target.KIND.creator_id)s'),
        ('private_read', "'False':%(target.KIND.read_project_access)s"),
        ('non_private_read', 'rule:all_users and rule:KIND_project_match and not rule:KIND_private_read'),
        ('project_creator', 'rule:creator and rule:KIND_project_match and rule:KIND_creator_user'),
        ('project_creator_role', 'rule:creator and rule:KIND_project_match'))},
    'consumer:get': _READ_CONTAINER.replace('rule:container_project_admin', 'role:admin'),
    **names({
        _MEMBER: 'orders:put',
        _READER: '''
            secretstores:get secretstores:get_global_default secretstores:get_preferred secretstore:get
            transport_key:get transport_keys:get
        ''',
        _ADMIN: 'secretstore_preferred:post secretstore_preferred:delete transport_key:delete transport_keys:post'}),
}

KEY_MANAGER = Service('key manager', 'key_manager', 'key_manager_policy.yaml', BASE, RULES, ABSENT, admin='admin')
