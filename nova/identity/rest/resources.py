"""Projects, users, roles, role assignments, domains and application credentials."""
import datetime
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

from nova import exception
from nova.identity.rest import operations
from nova.identity.rest import schemas
from nova.identity.rest import views
from nova.identity.embedded import directory
from nova.identity.embedded import password_rules
from nova.json_types import JsonObject

Row = operations.Row

# Stored fields of a request body; unknown fields are ignored.
FIELDS = {
    'project': ('name', 'description', 'enabled', 'tags'),
    'user': ('name', 'description', 'enabled', 'email', 'default_project_id', 'password', 'options'),
    'role': ('name', 'description'),
}


def _values(req: operations.Request, noun: str) -> dict[str, Any]:
    """Return the columns in a body; only the default domain exists."""
    given = req.body[noun]
    if given.get('domain_id') not in (None, directory.DOMAIN['id']):
        raise exception.IdentityNotFound(noun='domain', id=given['domain_id'])
    if noun == 'project' and (given.get('is_domain') or
                              given.get('parent_id') not in (None, directory.DOMAIN['id'])):
        raise exception.Forbidden('Projects cannot be nested: their parent must be the default domain.')
    values = {name: given[name] for name in FIELDS[noun] if name in given}
    if noun == 'project' and 'description' in values:
        values['description'] = values['description'] or ''
    return values


def _listed(req: operations.Request, noun: str, view: Callable[[dict[str, Any], str], dict[str, Any]],
            filters: Collection[str], keep: Callable[[dict[str, Any]], bool] = lambda row: True) -> JsonObject:
    """List the rows of a noun that match the query's filters.

    :param keep: additional condition
    """
    match = {name: req.query[name] for name in filters if name in req.query}
    if 'enabled' in match:
        match['enabled'] = match['enabled'].lower() not in ('0', 'false', 'no', 'off')
    if match.pop('parent_id', directory.DOMAIN['id']) != directory.DOMAIN['id']:
        return views.collection(noun + 's', [], operations.url_of(req))
    rows = [row for row in req.service.list(noun, **match) if keep(row)]
    return views.collection(noun + 's', [view(row, req.root_url) for row in rows], operations.url_of(req))


def _own_or_admin(req: operations.Request, own_name: str | None) -> None:
    """Allow lists to administrators, and to others the lookup of their own object by name."""
    if 'admin' not in req.caller.roles and (own_name is None or req.query.get('name') != own_name):
        raise exception.Forbidden('You are not authorized to perform the requested action.')


# ---- domains (only one)

def list_domains(req: operations.Request) -> JsonObject:
    name, enabled = req.query.get('name'), req.query.get('enabled', 'true').lower()
    shown = (name is None or directory.is_domain(name=name)) and enabled not in ('0', 'false', 'no', 'off')
    return views.collection('domains', [views.domain(req.root_url)] if shown else [], operations.url_of(req))


def show_domain(req: operations.Request, domain_id: str) -> JsonObject:
    if not directory.is_domain(id=domain_id):
        raise exception.IdentityNotFound(noun='domain', id=domain_id)
    return {'domain': views.domain(req.root_url)}


def change_domain(req: operations.Request, **parts: str) -> None:
    raise exception.Forbidden('This identity service has only the default domain, which cannot be changed.')


# ---- projects

def list_projects(req: operations.Request) -> JsonObject:
    _own_or_admin(req, req.caller.project_name)
    if req.query.get('is_domain', '').lower() in ('1', 'true'):
        return views.collection('projects', [], operations.url_of(req))
    return _listed(req, 'project', views.project, ('name', 'domain_id', 'enabled', 'parent_id'), _tagged(req))


def _tagged(req: operations.Request) -> Callable[[dict[str, Any]], bool]:
    """Return the condition of the filters tags, tags-any, not-tags and not-tags-any."""
    wanted = {name: set(req.query[name].split(',')) for name in _TAG_FILTERS if req.query.get(name)}
    return lambda row: all(_TAG_FILTERS[name](tags, set(row['tags'])) for name, tags in wanted.items())


_TAG_FILTERS: dict[str, Callable[[set[str], set[str]], bool]] = {
    'tags': lambda wanted, tags: wanted <= tags, 'tags-any': lambda wanted, tags: bool(wanted & tags),
    'not-tags': lambda wanted, tags: not wanted <= tags, 'not-tags-any': lambda wanted, tags: not wanted & tags}


def create_project(req: operations.Request) -> JsonObject:
    values = _values(req, 'project')
    return {'project': views.project(req.service.create_project(**values), req.root_url)}


def show_project(req: operations.Request, project_id: str) -> JsonObject:
    return {'project': views.project(req.service.get('project', project_id), req.root_url)}


def update_project(req: operations.Request, project_id: str) -> JsonObject:
    values = _values(req, 'project')
    return {'project': views.project(req.service.update_project(project_id, **values), req.root_url)}


def delete_project(req: operations.Request, project_id: str) -> None:
    req.service.delete_project(project_id)


# ---- users

def list_users(req: operations.Request) -> JsonObject:
    _own_or_admin(req, req.caller.user_name)
    return _listed(req, 'user', views.user, ('name', 'domain_id', 'enabled'), _expiring(req))


def _expiring(req: operations.Request) -> Callable[[dict[str, Any]], bool]:
    """Return the condition of ``password_expires_at=lt:2026-11-28T00:00:00Z``; without an operator: equal.

    :raises BadRequest: malformed filter
    """
    text = req.query.get('password_expires_at')
    if text is None:
        return lambda row: True
    op, _colon, rest = text.partition(':')
    compare, moment = (_COMPARE[op], rest) if op in _COMPARE else (operator.eq, text)
    limit = _moment(moment, 'password_expires_at')

    def keep(row: dict[str, Any]) -> bool:
        end = password_rules.end_of(row)
        return end is not None and compare(end, limit)
    return keep


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    'lt': operator.lt, 'lte': operator.le, 'gt': operator.gt, 'gte': operator.ge, 'eq': operator.eq,
    'neq': operator.ne}


def create_user(req: operations.Request) -> JsonObject:
    return {'user': views.user(req.service.create_user(**_values(req, 'user')), req.root_url)}


def show_user(req: operations.Request, user_id: str) -> JsonObject:
    return {'user': views.user(req.service.get('user', user_id), req.root_url)}


def update_user(req: operations.Request, user_id: str) -> JsonObject:
    return {'user': views.user(req.service.update_user(user_id, **_values(req, 'user')), req.root_url)}


def delete_user(req: operations.Request, user_id: str) -> None:
    req.service.delete_user(user_id)


def change_password(req: operations.Request, user_id: str) -> None:
    """Change a password. The original password replaces a token, and attempts are rate-limited like logins."""
    given = req.body['user']
    req.service.logins.change_password(user_id, given['original_password'], given['password'], req.remote_address)


def user_projects(req: operations.Request, user_id: str) -> JsonObject:
    rows = req.service.projects_of(user_id)
    return views.collection('projects', [views.project(row, req.root_url) for row in rows],
                            operations.url_of(req))


# ---- groups (unsupported: always empty)

def list_groups(req: operations.Request, **parts: str) -> JsonObject:
    return views.collection('groups', [], operations.url_of(req))


# ---- roles

def list_roles(req: operations.Request) -> JsonObject:
    if req.query.get('domain_id'):
        return views.collection('roles', [], operations.url_of(req))
    return _listed(req, 'role', views.role, ('name',))


def create_role(req: operations.Request) -> JsonObject:
    return {'role': views.role(req.service.create_role(**_values(req, 'role')), req.root_url)}


def show_role(req: operations.Request, role_id: str) -> JsonObject:
    return {'role': views.role(req.service.get('role', role_id), req.root_url)}


def update_role(req: operations.Request, role_id: str) -> JsonObject:
    return {'role': views.role(req.service.update_role(role_id, **_values(req, 'role')), req.root_url)}


def delete_role(req: operations.Request, role_id: str) -> None:
    req.service.delete_role(role_id)


def _inference(prior: dict[str, Any], roles: list[dict[str, Any]]) -> JsonObject:
    names = directory.IMPLIED.get(prior['name'], ())[:1]
    return {'prior_role': {'id': prior['id'], 'name': prior['name']},
            'implies': [{'id': role['id'], 'name': role['name']} for role in roles if role['name'] in names]}


def list_inferences(req: operations.Request) -> JsonObject:
    roles = req.service.list('role')
    rows = [row for row in (_inference(role, roles) for role in roles) if row['implies']]
    return {'role_inferences': [*rows], 'links': {'self': operations.url_of(req)}}


def list_implied(req: operations.Request, role_id: str) -> JsonObject:
    return {'role_inference': _inference(req.service.get('role', role_id), req.service.list('role')),
            'links': {'self': operations.url_of(req)}}


# ---- role assignments

# filter of the query: column
ASSIGNMENT_FILTERS = {'user.id': 'user_id', 'role.id': 'role_id'}


def list_assignments(req: operations.Request) -> JsonObject:
    query = req.query
    match = {column: query[name] for name, column in ASSIGNMENT_FILTERS.items() if query.get(name)}
    for kind in ('project', 'domain'):
        if query.get(f'scope.{kind}.id'):
            match |= {'target_type': kind, 'target_id': query[f'scope.{kind}.id']}
    if query.get('scope.system'):
        match |= {'target_type': 'system', 'target_id': directory.SYSTEM}
    if 'admin' not in req.caller.roles and match.get('user_id') != req.caller.user_id:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    rows = []
    if not any(query.get(name) for name in ('group.id', 'scope.OS-INHERIT:inherited_to')):
        rows = req.service.assignments(effective=_flag(query, 'effective'), **match)
    names = _flag(query, 'include_names')
    return views.collection('role_assignments', [views.assignment(row, req.root_url, names) for row in rows],
                            operations.url_of(req))


def _flag(query: dict[str, Any], name: str) -> bool:
    """Parse a flag; without a value it is set."""
    return query.get(name, '0').lower() not in ('0', 'false', 'no', 'off')


def _target(kind: str, parts: dict[str, str]) -> str:
    """Return the ID of a role's target; there is one system."""
    return directory.SYSTEM if kind == 'system' else parts[kind + '_id']


def held_roles(kind: str) -> Callable[..., dict[str, Any]]:
    def handler(req: operations.Request, user_id: str, **target: str) -> JsonObject:
        rows = req.service.held_roles(user_id, kind, _target(kind, target))
        return views.collection('roles', [views.role(row, req.root_url) for row in rows], operations.url_of(req))
    return handler


def check_role(kind: str) -> Callable[..., None]:
    def handler(req: operations.Request, user_id: str, role_id: str, **target: str) -> None:
        held = req.service.held_roles(user_id, kind, _target(kind, target))
        if role_id not in {row['id'] for row in held}:
            raise exception.IdentityNotFound(noun='role assignment', id=role_id)
    return handler


def assign_role(kind: str) -> Callable[..., None]:
    def assign(req: operations.Request, user_id: str, role_id: str, **target: str) -> None:
        req.service.assign_role(user_id, role_id, kind, _target(kind, target))
    return assign


def unassign_role(kind: str) -> Callable[..., None]:
    def unassign(req: operations.Request, user_id: str, role_id: str, **target: str) -> None:
        req.service.unassign_role(user_id, role_id, kind, _target(kind, target))
    return unassign


# ---- application credentials

def refuse_restricted(req: operations.Request) -> None:
    """Refuse restricted credentials, which must not extend their own lifetime or rights."""
    credential = req.caller.credential
    if credential and credential['restricted']:
        raise exception.Forbidden('A restricted application credential may not manage credentials.')


def _credential(req: operations.Request, user_id: str, credential_id: str) -> dict[str, Any]:
    row = req.service.get('application_credential', credential_id)
    if row['user_id'] != user_id:
        raise exception.IdentityNotFound(noun='application credential', id=credential_id)
    return row


def _shown(req: operations.Request, rows: list[dict[str, Any]]) -> list[JsonObject]:
    roles = {row['id']: row for row in req.service.list('role')}
    return [views.application_credential(row, roles, req.root_url) for row in rows]


def list_credentials(req: operations.Request, user_id: str) -> JsonObject:
    match = {'name': req.query['name']} if req.query.get('name') else {}
    rows = _shown(req, req.service.list('application_credential', user_id=user_id, **match))
    return views.collection('application_credentials', rows, operations.url_of(req))


def create_credential(req: operations.Request, user_id: str) -> JsonObject:
    refuse_restricted(req)
    given = req.body['application_credential']
    if given.get('project_id') not in (None, req.caller.project_id):
        raise exception.Forbidden('An application credential must be for the project of the token.')
    ends = given.get('expires_at')
    row, secret = req.service.create_application_credential(
        req.caller, given['name'], secret=given.get('secret'), description=given.get('description'),
        roles=given.get('roles'), expires_at=None if ends is None else _moment(ends, 'expires_at'),
        unrestricted=bool(given.get('unrestricted')))
    return {'application_credential': _shown(req, [row])[0] | {'secret': secret}}


def _moment(text: str, name: str) -> datetime.datetime:
    """Parse an ISO 8601 time into a naive UTC datetime; without a zone it is UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise exception.BadRequest(f'{name} is not an ISO 8601 time.') from None


def show_credential(req: operations.Request, user_id: str, credential_id: str) -> JsonObject:
    return {'application_credential': _shown(req, [_credential(req, user_id, credential_id)])[0]}


def delete_credential(req: operations.Request, user_id: str, credential_id: str) -> None:
    refuse_restricted(req)
    _credential(req, user_id, credential_id)
    req.service.delete_application_credential(credential_id)


def _crud(noun: str, rules: Sequence[str], bodies: Sequence[Any], **handlers: Callable[..., Any]) -> list[Row]:
    """Build the five operations of a noun; ``rules``: of list and show, ``bodies``: of create and update."""
    path, one = f'/v3/{noun}s', f'/v3/{noun}s/{{{noun}_id}}'
    return [
        Row('GET', path, handlers['list'], rules[0]),
        Row('POST', path, handlers['create'], 'admin', status=201, body=schemas.Body(bodies[0])),
        Row('GET', one, handlers['show'], rules[1]),
        Row('PATCH', one, handlers['update'], 'admin', body=schemas.Body(bodies[1])),
        Row('DELETE', one, handlers['delete'], 'admin', status=204),
    ]


def _grants(kind: str) -> list[Row]:
    target = '/v3/system' if kind == 'system' else f'/v3/{kind}s/{{{kind}_id}}'
    path = target + '/users/{user_id}/roles'
    return [
        Row('GET', path, held_roles(kind), 'self_or_admin'),
        Row('GET', path + '/{role_id}', check_role(kind), 'self_or_admin', status=204),
        Row('PUT', path + '/{role_id}', assign_role(kind), 'admin', status=204),
        Row('DELETE', path + '/{role_id}', unassign_role(kind), 'admin', status=204),
    ]


CREDENTIALS = '/v3/users/{user_id}/application_credentials'

ROUTES = [
    Row('GET', '/v3/domains', list_domains, 'any'),
    Row('POST', '/v3/domains', change_domain, 'admin'),
    Row('GET', '/v3/domains/{domain_id}', show_domain, 'any'),
    Row('PATCH', '/v3/domains/{domain_id}', change_domain, 'admin'),
    Row('DELETE', '/v3/domains/{domain_id}', change_domain, 'admin'),
    *_crud('project', ('any', 'project_or_service'), (schemas.PROJECT_CREATE, schemas.PROJECT_UPDATE),
           list=list_projects, create=create_project, show=show_project, update=update_project,
           delete=delete_project),
    *_crud('user', ('any', 'self_or_service'), (schemas.USER_CREATE, schemas.USER_UPDATE),
           list=list_users, create=create_user, show=show_user, update=update_user, delete=delete_user),
    Row('POST', '/v3/users/{user_id}/password', change_password, 'public', status=204,
        body=schemas.Body(schemas.PASSWORD), hashes=True),
    Row('GET', '/v3/users/{user_id}/projects', user_projects, 'self_or_admin'),
    Row('GET', '/v3/users/{user_id}/groups', list_groups, 'self_or_admin'),
    Row('GET', '/v3/groups', list_groups, 'admin'),
    *_crud('role', ('any', 'any'), (schemas.ROLE_CREATE, schemas.ROLE_UPDATE),
           list=list_roles, create=create_role, show=show_role, update=update_role, delete=delete_role),
    Row('GET', '/v3/role_inferences', list_inferences, 'any'),
    Row('GET', '/v3/roles/{role_id}/implies', list_implied, 'any'),
    Row('GET', '/v3/role_assignments', list_assignments, 'any'),
    *_grants('project'),
    *_grants('domain'),
    *_grants('system'),
    Row('GET', CREDENTIALS, list_credentials, 'self_or_admin'),
    Row('POST', CREDENTIALS, create_credential, 'self', status=201, body=schemas.Body(schemas.CREDENTIAL)),
    Row('GET', CREDENTIALS + '/{credential_id}', show_credential, 'self_or_admin'),
    Row('DELETE', CREDENTIALS + '/{credential_id}', delete_credential, 'self_or_admin', status=204),
]
