"""Initial roles, projects and users of a deployment, and the clouds.yaml for clients."""
import logging
import uuid
from collections.abc import Callable
from typing import Any

import yaml

from nova import exception
from nova.runtime import durable_files
from nova import utils
from nova.db import engine
from nova.db.identity import assignments
from nova.db.identity import directory as queries
from nova.identity import passwords
from nova.identity.embedded import catalog
from nova.identity.embedded import credentials
from nova.identity.embedded import directory
from nova.identity.embedded import service as embedded_service

LOG = logging.getLogger(__name__)

# {user: (project, role on the project, role on the domain and on the system or None, name in clouds.yaml)}
USERS: dict[str, tuple[str, str, str | None, str]] = {
    'admin': ('admin', 'admin', 'admin', 'nova-admin'),
    'demo': ('demo', 'member', None, 'nova-demo'),
    'nova': ('service', 'service', None, 'nova-service'),
}


def bootstrap(service: embedded_service.IdentityService,
              store: Callable[[dict[str, str]], None] | None = None) -> dict[str, str]:
    """Create missing roles and, if there are no users, the first projects and users.

    :param service: IdentityService
    :param store: callable(passwords) that saves them, for example ``write_clouds_yaml``. Called before the commit, so
     that a crash cannot lose the password of a user.
    :returns: {user name: password} of new users
    """
    try:
        return service.write(_bootstrap, service.rounds, store)
    except exception.IdentityExists:      # another process has created the users
        return service.write(_bootstrap, service.rounds, store)


def _bootstrap(conn: engine.Connection, rounds: int, store: Callable[[dict[str, str]], None] | None) -> dict[str, str]:
    now = utils.utcnow()
    domain_id = directory.DOMAIN['id']
    roles = {row['name']: row['id'] for row in queries.rows(conn, queries.ROLE, name_space='')}
    for name in directory.ROLES:
        if name not in roles:
            roles[name] = uuid.uuid4().hex
            queries.create(conn, 'role', {'id': roles[name], 'name': name, 'created_at': now})
    if queries.count(conn, 'user'):
        return {}
    known = {row['name']: row['id'] for row in queries.rows(conn, queries.PROJECT)}
    made = {}
    for name, (project, role, wide_role, _cloud) in USERS.items():
        if project not in known:
            known[project] = uuid.uuid4().hex
            queries.create(conn, 'project', {
                'id': known[project], 'domain_id': domain_id, 'name': project, 'description': '',
                'enabled': True, 'tags': [], 'created_at': now})
        user_id, made[name] = uuid.uuid4().hex, passwords.generate()
        queries.create(conn, 'user', {
            'id': user_id, 'domain_id': domain_id, 'name': name, 'enabled': True,
            'default_project_id': known[project], 'password_hash': passwords.hashed(made[name], rounds),
            'created_at': now})
        assignments.assign(conn, user_id, 'project', known[project], roles[role])
        if wide_role:
            assignments.assign(conn, user_id, 'domain', domain_id, roles[wide_role])
            assignments.assign(conn, user_id, 'system', directory.SYSTEM, roles[wide_role])
    if store is not None:
        store(made)
    return made


def recover(service: embedded_service.IdentityService, name: str) -> str:
    """Restore the access of a user who has lost the password or the second factor.

    Sets a random password, removes TOTP credentials and multi-factor rules, and enables the user. Tokens become
    invalid.

    :returns: the password
    :raises IdentityNotFound: unknown user
    """
    user = service.find(queries.USER, domain_id=directory.DOMAIN['id'], name=name)
    if user is None:
        raise exception.IdentityNotFound(noun='user', id=name)
    for credential in service.credentials.list(user_id=user['id'], type=credentials.TOTP):
        service.credentials.delete(credential['id'])
    password = passwords.generate()
    service.update_user(user['id'], by_rules=False, password=password, enabled=True, options=dict.fromkeys(
        ('multi_factor_auth_enabled', 'multi_factor_auth_rules')))
    return password


def write_clouds_yaml(path: str, base_url: str, new_passwords: dict[str, str] | None = None,
                      authority: str | None = None, own_authority: str | None = None) -> None:
    """Write clouds.yaml for clients, readable only by its owner.

    Entries of users with a new password are replaced. Other existing entries of this deployment keep their password and
    get the present URL. Entries of other clouds and entries without ``auth`` are unchanged.

    :param base_url: of the all-in-one; identity is below it at /identity
    :param new_passwords: {user name: password} from ``bootstrap``
    :param authority: CA file for clients; None: system CAs, or the file that the operator has set as ``cacert``
    :param own_authority: CA file of the deployment; without ``authority`` it is removed from the entries
    """
    document = _read(path)
    if document is None:
        if not new_passwords:
            LOG.warning('%s does not exist, so the generated passwords of the first users are lost. Set new passwords.',
                        path)
            return
        document = {}
    clouds = document['clouds'] = document.get('clouds') or {}
    auth_url = base_url.rstrip('/') + '/identity/v3'
    for user, (project, _role, _domain_role, cloud) in USERS.items():
        if new_passwords and user in new_passwords:
            clouds[cloud] = {
                'auth': {'auth_url': auth_url, 'username': user, 'password': new_passwords[user],
                         'project_name': project, 'user_domain_id': directory.DOMAIN['id'],
                         'project_domain_id': directory.DOMAIN['id']},
                'region_name': catalog.REGION, 'identity_api_version': '3'}
        entry = clouds.get(cloud) or {}
        if not entry.get('auth'):
            continue
        entry['auth']['auth_url'] = auth_url
        if authority:
            entry['cacert'] = authority
        elif own_authority and entry.get('cacert') == own_authority:
            del entry['cacert']
    if document != _read(path):
        durable_files.replace(path, yaml.safe_dump(document, sort_keys=False).encode())


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding='utf-8') as file:
            return yaml.safe_load(file) or {}
    except FileNotFoundError:
        return None
