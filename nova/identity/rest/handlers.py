"""Handlers for logins, tokens and the catalog, and the table of all routes."""
from collections.abc import Sequence
from typing import Any

from nova import exception
from nova.db.audit import log
from nova.identity import tokens
from nova.identity.embedded import catalog
from nova.identity.embedded import directory
from nova.identity.rest import credential_resources
from nova.identity.rest import crud
from nova.identity.rest import delegations
from nova.identity.rest import directory as directory_handlers
from nova.identity.rest import endpoint_filters
from nova.identity.rest import grants
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest.operations import Request
from nova.identity.rest.schemas import Page
from nova.web.request import Response
from nova.web.resource import Document
from nova.web.resource import shape
from nova.web.routes import Route

CHECK_TOKEN, VALIDATE_TOKEN, REVOKE_TOKEN = (f'identity:{what}_token' for what in ('check', 'validate', 'revoke'))


# ---- tokens

def _catalog(req: Request, data: tokens.TokenData) -> catalog.Catalog | None:
    return None if 'nocatalog' in req.query else req.service.catalog(data.project_id, data.user_id)


def login(req: Request) -> Response:
    token, data = req.service.logins.authenticate(req.body, req.remote_address,
                                                  req.header('Openstack-Auth-Receipt', None))
    log.asked_by(data)
    log.about(data.user_id)
    return Response(resources.token(data, _catalog(req, data)), 201, [('X-Subject-Token', token)])


def _subject(req: Request, rule: str, allow_expired: bool = False) -> tuple[str, tokens.TokenData]:
    """Return (subject token, its data). ``allow_expired``: accept expired tokens if the caller may read all tokens."""
    token = req.header('X-Subject-Token')
    try:
        data = req.service.validate(token, allow_expired=allow_expired and req.allows(rule))
    except exception.Unauthorized:
        raise exception.NotFound('Could not find token.') from None
    req.authorize(rule, {'target.token.user_id': data.user_id})
    return token, data


def show_token(req: Request) -> Response:
    rule = CHECK_TOKEN if req.environ['REQUEST_METHOD'] == 'HEAD' else VALIDATE_TOKEN
    token, data = _subject(req, rule, _truth(req.query.get('allow_expired', '')))
    limited = data.credential is not None and 'access_rules' in data.credential
    if limited and not req.header('OpenStack-Identity-Access-Rules', None):
        raise exception.NotFound('Could not find token.')    # a service without this header ignores access rules
    return Response(resources.token(data, _catalog(req, data)), 200, [('X-Subject-Token', token)])


def _truth(word: str) -> bool:
    return word.lower() in ('1', 'true', 'yes', 'on')


def revoke_token(req: Request) -> None:
    token, _ = _subject(req, REVOKE_TOKEN)
    req.service.tokens.revoke(token)


def show_catalog(req: Request) -> dict[str, catalog.Catalog | dict[str, str]]:
    if not req.caller.role_rows:
        raise exception.Forbidden('A token without a scope has no catalog.')
    return {'catalog': req.service.catalog(req.caller.project_id, req.caller.user_id),
            'links': {'self': operations.url_of(req)}}


def token_system(req: Request) -> Sequence[Any]:
    held = req.service.effective_roles(req.caller.user_id, 'system', directory.SYSTEM)
    return [{'all': True}] if held else []


_TOKEN, _SUBJECT = Document({'token': resources.TOKEN}), '/v3/auth/tokens'
ROUTES = [
    Route('GET', '/', lambda req: {'versions': {'values': [resources.version(req.root_url)]}}, status=300, public=True,
          name='list_versions', answer=Document({'versions': shape(values={
              'type': 'array', 'items': resources.VERSION})})),
    Route('GET', '/v3', lambda req: {'version': resources.version(req.root_url)}, public=True, name='show_version',
          answer=Document({'version': resources.VERSION})),
    Route('POST', _SUBJECT, login, errors=operations.HASHES, public=True, status=201,
          body=schemas.Body(resources.AUTH, 'auth'),
          answer=_TOKEN, query=schemas.Query('nocatalog')),
    Route('GET', _SUBJECT, show_token, checks=(VALIDATE_TOKEN, CHECK_TOKEN), answer=_TOKEN,
          query=schemas.Query('nocatalog', 'allow_expired')),
    Route('DELETE', _SUBJECT, revoke_token, checks=(REVOKE_TOKEN,), status=204),
    Route('GET', '/v3/auth/catalog', show_catalog, 'identity:get_auth_catalog', answer=Document({
          'catalog': resources.CATALOG, 'links': schemas.LINK})),
    Route('GET', '/v3/auth/projects', lambda req: req.service.projects_of(req.caller.user_id),
          'identity:get_auth_projects', name='token_projects', answer=Page(resources.PROJECT)),
    Route('GET', '/v3/auth/domains', lambda req: req.service.domains_of(req.caller.user_id),
          'identity:get_auth_domains', answer=Page(resources.DOMAINS), name='token_domains'),
    Route('GET', '/v3/auth/system', token_system, 'identity:get_auth_system', answer=Page(resources.SYSTEM)),
    *directory_handlers.ROUTES,
    *grants.ROUTES,
    *delegations.ROUTES,
    *crud.ROUTES,
    *endpoint_filters.ROUTES,
    *credential_resources.ROUTES,
]
