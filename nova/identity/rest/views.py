"""Views of the identity API."""
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from nova import exception
from nova import utils
from nova.identity import tokens
from nova.identity.embedded import credentials
from nova.identity.embedded import directory
from nova.identity.embedded import password_rules
from nova.json_types import JsonObject

DOMAIN = directory.DOMAIN
DOMAIN_REF: dict[str, Any] = {'id': DOMAIN['id'], 'name': DOMAIN['name']}


def time(moment: datetime.datetime | None) -> str | None:
    """Format a time of a token or receipt: microseconds and a Z. Times of users and credentials have no zone."""
    return None if moment is None else moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')


def _with_link(row: dict[str, Any], base: str, collection: str) -> JsonObject:
    return row | {'links': {'self': f'{base}/v3/{collection}/{row["id"]}'}}


def collection(key: str, rows: Sequence[JsonObject], url: str) -> JsonObject:
    """Build a list with paging links."""
    return {key: [*rows], 'links': {'next': None, 'self': url, 'previous': None}, 'truncated': False}


def domain(base: str) -> JsonObject:
    return _with_link(DOMAIN | {'tags': [], 'options': {}}, base, 'domains')


def project(row: Mapping[str, Any], base: str) -> JsonObject:
    return _with_link({
        'id': row['id'], 'name': row['name'], 'domain_id': row['domain_id'], 'parent_id': row['domain_id'],
        'description': row['description'], 'enabled': row['enabled'], 'is_domain': False, 'tags': row['tags'],
        'options': {}}, base, 'projects')


def user(row: dict[str, Any], base: str) -> JsonObject:
    shown = {'id': row['id'], 'name': row['name'], 'domain_id': row['domain_id'], 'enabled': row['enabled'],
             'password_expires_at': utils.exact_time(password_rules.end_of(row)), 'options': row.get('options') or {}}
    shown |= {name: row[name] for name in ('description', 'email', 'default_project_id')
              if row.get(name) is not None}
    return _with_link(shown, base, 'users')


def role(row: dict[str, Any], base: str) -> JsonObject:
    return _with_link({
        'id': row['id'], 'name': row['name'], 'domain_id': None, 'description': row['description'],
        'options': {'immutable': True} if row['name'] in directory.ROLES else {}}, base, 'roles')


def assignment(row: dict[str, Any], base: str, names: bool) -> JsonObject:
    """Build the view of a role assignment on a project, domain or the system."""
    system = row['target_type'] == 'system'
    shown: dict[str, Any] = {'role': {'id': row['role_id']}, 'user': {'id': row['user_id']},
                             'scope': {'system': {'all': True}} if system else {row['target_type']: {
                                 'id': row['target_id']}}}
    if names:
        shown['role']['name'] = row['role_name']
        shown['user'] |= {'name': row['user_name'], 'domain': DOMAIN_REF}
    if names and not system:
        shown['scope'][row['target_type']] |= (
            {'name': row['project_name'], 'domain': DOMAIN_REF} if row['target_type'] == 'project'
            else {'name': DOMAIN['name']})
    target = f'{base}/v3/system' if system else f'{base}/v3/{row["target_type"]}s/{row["target_id"]}'
    shown['links'] = {'assignment': f'{target}/users/{row["user_id"]}/roles/{row["role_id"]}'}
    return shown


def application_credential(row: dict[str, Any], roles: dict[str, dict[str, Any]], base: str) -> JsonObject:
    """Build the view of an application credential.

    :param roles: {id: row} of all roles
    """
    return _with_link({
        'id': row['id'], 'name': row['name'], 'description': row['description'],
        'project_id': row['project_id'], 'user_id': row['user_id'],
        'expires_at': utils.exact_time(row['expires_at']), 'unrestricted': row['unrestricted'],
        'roles': [{'id': key, 'name': roles[key]['name'], 'domain_id': None}
                  for key in row['role_ids'] if key in roles],
        'system': None}, base, f'users/{row["user_id"]}/application_credentials')


def credential(row: dict[str, Any], base: str) -> JsonObject:
    names = ('id', 'user_id', 'type', 'blob', 'project_id')
    return _with_link({name: row[name] for name in names}, base, 'credentials')


def ec2_credential(row: dict[str, Any], base: str) -> JsonObject:
    pair = credentials.pair_of(row['blob'])
    url = f'{base}/v3/users/{row["user_id"]}/credentials/OS-EC2/{pair["access"]}'
    return {'user_id': row['user_id'], 'tenant_id': row['project_id'], 'trust_id': None, **pair, 'links': {'self': url}}


def receipt(missing: exception.FactorsMissing) -> JsonObject:
    """Build the response to a login that needs more methods."""
    user = missing.user
    return {'receipt': {'methods': list(missing.methods), 'issued_at': time(missing.issued_at),
                        'expires_at': time(missing.expires_at),
                        'user': {'id': user['id'], 'name': user['name'], 'domain': DOMAIN_REF}},
            'required_auth_methods': [[*rule] for rule in missing.rules]}


def token(data: tokens.TokenData, catalog: list[dict[str, Any]] | None = None) -> JsonObject:
    """Build the response to a login or a validation."""
    claims = data.claims
    shown: dict[str, Any] = {
        'methods': list(claims.methods), 'audit_ids': list(claims.audit_ids),
        'issued_at': time(claims.issued_at), 'expires_at': time(claims.expires_at),
        'user': {'id': data.user_id, 'name': data.user_name, 'domain': DOMAIN_REF,
                 'password_expires_at': utils.exact_time(data.password_expires_at)}}
    if data.project_id:
        shown |= {'project': {'id': data.project_id, 'name': data.project_name, 'domain': DOMAIN_REF},
                  'is_domain': False}
    if data.domain_id:
        shown['domain'] = DOMAIN_REF
    if data.system_scope:
        shown['system'] = {data.system_scope: True}
    if data.role_rows:
        shown['roles'] = list(data.role_rows)
        if catalog is not None:
            shown['catalog'] = catalog
    if data.credential:
        shown['application_credential'] = data.credential
    return {'token': shown}


def version(base: str) -> JsonObject:
    return {'id': 'v3.14', 'status': 'stable', 'updated': '2020-04-07T00:00:00Z',
            'links': [{'rel': 'self', 'href': f'{base}/v3/'}],
            'media-types': [{'base': 'application/json',
                             'type': 'application/vnd.openstack.identity-v3+json'}]}
