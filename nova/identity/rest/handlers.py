"""Logins, tokens, the catalog, and the table of all routes."""
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.db.audit import log
from nova.identity import tokens
from nova.identity.rest import credential_resources
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest import views
from nova.identity.embedded import catalog
from nova.json_types import JsonObject
from nova.web.request import Response

Row = operations.Row


# ---- versions

def versions(req: operations.Request) -> JsonObject:
    return {'versions': {'values': [views.version(req.root_url)]}}


def version(req: operations.Request) -> JsonObject:
    return {'version': views.version(req.root_url)}


# ---- tokens

def _catalog(req: operations.Request, data: tokens.TokenData) -> list[dict[str, Any]] | None:
    return None if 'nocatalog' in req.query else req.service.catalog(data.project_id)


def login(req: operations.Request) -> Response:
    token, data = req.service.logins.authenticate(req.body['auth'], req.remote_address,
                                                  req.header('Openstack-Auth-Receipt', None))
    log.asked_by(data)
    log.about(data.user_id)
    return Response(views.token(data, _catalog(req, data)), 201, [('X-Subject-Token', token)])


def _subject(req: operations.Request, allow_expired: bool = False) -> tuple[str, tokens.TokenData]:
    """Return (token, its data) of the subject token: the caller's own, or any for a service."""
    token = req.header('X-Subject-Token')
    trusted = {'admin', 'service'} & set(req.caller.roles)
    try:
        data = req.service.validate(token, allow_expired=bool(allow_expired and trusted))
    except exception.Unauthorized:
        raise exception.NotFound('Could not find token.') from None
    if not trusted and data.user_id != req.caller.user_id:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    return token, data


def show_token(req: operations.Request) -> Response:
    token, data = _subject(req, _truth(req.query.get('allow_expired', '')))
    return Response(views.token(data, _catalog(req, data)), 200, [('X-Subject-Token', token)])


def _truth(word: str) -> bool:
    return word.lower() in ('1', 'true', 'yes', 'on')


def revoke_token(req: operations.Request) -> None:
    token, _ = _subject(req)
    req.service.tokens.revoke(token)


def show_catalog(req: operations.Request) -> JsonObject:
    if not req.caller.role_rows:
        raise exception.Forbidden('A token without a scope has no catalog.')
    return {'catalog': req.service.catalog(req.caller.project_id), 'links': {'self': operations.url_of(req)}}


def token_projects(req: operations.Request) -> JsonObject:
    rows = req.service.projects_of(req.caller.user_id)
    return views.collection('projects', [views.project(row, req.root_url) for row in rows],
                            operations.url_of(req))


def token_domains(req: operations.Request) -> JsonObject:
    held = req.service.assignments(user_id=req.caller.user_id, target_type='domain')
    return views.collection('domains', [views.domain(req.root_url)] if held else [], operations.url_of(req))


def token_system(req: operations.Request) -> JsonObject:
    held = req.service.assignments(user_id=req.caller.user_id, target_type='system')
    return views.collection('system', [{'all': True}] if held else [], operations.url_of(req))


# ---- catalog resources (read-only, from the configuration)

def _services(req: operations.Request) -> list[JsonObject]:
    return [{'id': row['id'], 'type': row['type'], 'name': row['name'], 'enabled': True, 'description': '',
             'links': {'self': f'{req.root_url}/v3/services/{row["id"]}'}} for row in req.service.catalog(None)]


def _endpoints(req: operations.Request) -> list[dict[str, Any]]:
    return [{**endpoint, 'service_id': row['id'], 'enabled': True,
             'links': {'self': f'{req.root_url}/v3/endpoints/{endpoint["id"]}'}}
            for row in req.service.catalog(None) for endpoint in row['endpoints']]


def _regions(req: operations.Request) -> list[JsonObject]:
    names = {endpoint['region_id'] for endpoint in _endpoints(req)} or {catalog.REGION}
    return [{'id': name, 'description': '', 'parent_region_id': None,
             'links': {'self': f'{req.root_url}/v3/regions/{name}'}} for name in sorted(names)]


CATALOG = {'services': _services, 'endpoints': _endpoints, 'regions': _regions}
FILTERS = ('type', 'name', 'service_id', 'interface', 'region_id')


def _list_of(key: str) -> Callable[[operations.Request], dict[str, Any]]:
    def handler(req: operations.Request) -> JsonObject:
        wanted = {name: req.query[name] for name in FILTERS if name in req.query}
        rows = [row for row in CATALOG[key](req)
                if all(name not in row or row[name] == value for name, value in wanted.items())]
        return views.collection(key, rows, operations.url_of(req))
    return handler


def _one_of(key: str) -> Callable[[operations.Request, str], dict[str, Any]]:
    def handler(req: operations.Request, row_id: str) -> JsonObject:
        row = next((row for row in CATALOG[key](req) if row['id'] == row_id), None)
        if row is None:
            raise exception.IdentityNotFound(noun=key[:-1], id=row_id)
        return {key[:-1]: row}
    return handler


ROUTES = [
    Row('GET', '', versions, 'public', status=300),
    Row('GET', '/v3', version, 'public'),
    Row('POST', '/v3/auth/tokens', login, 'public', body=schemas.Body(schemas.AUTH), hashes=True),
    Row('GET', '/v3/auth/tokens', show_token, 'any'),
    Row('DELETE', '/v3/auth/tokens', revoke_token, 'any', status=204),
    Row('GET', '/v3/auth/catalog', show_catalog, 'any'),
    Row('GET', '/v3/auth/projects', token_projects, 'any'),
    Row('GET', '/v3/auth/domains', token_domains, 'any'),
    Row('GET', '/v3/auth/system', token_system, 'any'),
    *(Row('GET', f'/v3/{key}', _list_of(key), rule)
      for key, rule in (('services', 'admin'), ('endpoints', 'admin'), ('regions', 'any'))),
    *(Row('GET', f'/v3/{key}/{{row_id}}', _one_of(key), rule)
      for key, rule in (('services', 'admin'), ('endpoints', 'admin'), ('regions', 'any'))),
    *resources.ROUTES,
    *credential_resources.ROUTES,
]
