"""Handlers for tags of projects, changes of passwords, projects of a user, and application credentials."""
from __future__ import annotations

from collections.abc import Sequence

from nova import exception
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityApplicationCredentialsRow
from nova.identity import tokens
from nova.identity.embedded import access_rules
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest.operations import end_of
from nova.identity.rest.operations import HASHES
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import url_of
from nova.identity.rest.resources import APPLICATION_CREDENTIAL
from nova.identity.rest.schemas import Body
from nova.identity.rest.schemas import Page
from nova.identity.rest.schemas import Query
from nova.json_types import JsonObject
from nova.web.request import Response
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.routes import Route

_TAGS = Body(schemas.obj(['tags'], tags=resources.TAGS))


# ---- tags

def list_tags(req: Request, project_id: str) -> JsonObject:
    tags = req.service.get(queries.PROJECT, project_id)['tags']
    return {'tags': tags, 'links': {'self': url_of(req), 'next': None, 'previous': None}}


def replace_tags(req: Request, project_id: str) -> JsonObject:
    req.service.change_tags(project_id, lambda tags: req.body['tags'])
    return list_tags(req, project_id)


def delete_tags(req: Request, project_id: str) -> None:
    req.service.change_tags(project_id, lambda tags: [])


def check_tag(req: Request, project_id: str, value: str) -> None:
    if value not in req.service.get(queries.PROJECT, project_id)['tags']:
        raise exception.IdentityNotFound(noun='project tag', id=value)


def add_tag(req: Request, project_id: str, value: str) -> Response:
    _TAGS.validate({'tags': [value]})
    req.service.change_tags(project_id, lambda tags: tags if value in tags else _TAGS.validate(
        {'tags': [*tags, value]})['tags'])
    return Response(None, 201, [('Location', req.url)])


def delete_tag(req: Request, project_id: str, value: str) -> None:
    def removed(tags: list[str]) -> list[str]:
        if value not in tags:
            raise exception.IdentityNotFound(noun='project tag', id=value)
        return [tag for tag in tags if tag != value]
    req.service.change_tags(project_id, removed)


# ---- users

def change_password(req: Request, user_id: str) -> None:
    """Change a password.

    The request needs no token: the original password authenticates the user. Attempts are rate-limited like logins.
    """
    req.service.logins.change_password(user_id, req.body['original_password'], req.body['password'],
                                       req.remote_address)


# ---- application credentials

def _credential(req: Request, user_id: str, credential_id: str) -> IdentityApplicationCredentialsRow:
    row = req.service.get(queries.APPLICATION_CREDENTIAL, credential_id)
    if row['user_id'] != user_id:
        raise exception.IdentityNotFound(noun='application credential', id=credential_id)
    return row


class ShownRole(tokens.Named):
    """A role of an application credential."""

    domain_id: None


class Shown(IdentityApplicationCredentialsRow):
    """An application credential with its roles and access rules."""

    roles: list[ShownRole]
    access_rules: list[tokens.AccessRule] | None


class NewCredential(Shown):
    """An application credential with its secret, which only the response to its creation shows."""

    secret: str


def _shown(req: Request, rows: Sequence[IdentityApplicationCredentialsRow]) -> list[Shown]:
    roles = {row['id']: row for row in req.service.list(queries.ROLE)}
    rules = {row['id']: row for user_id in {row['user_id'] for row in rows if row['access_rule_ids']}
             for row in req.service.list(queries.ACCESS_RULE, user_id=user_id)}
    return [{**row, 'roles': [{'id': key, 'name': roles[key]['name'], 'domain_id': None}
                              for key in row['role_ids'] if key in roles],
             'access_rules': None if row['access_rule_ids'] is None else access_rules.shown(
                 rules[key] for key in row['access_rule_ids'] if key in rules)} for row in rows]


def list_credentials(req: Request, user_id: str) -> list[Shown]:
    match = {'name': req.query['name']} if req.query.get('name') else {}
    return _shown(req, req.service.list(queries.APPLICATION_CREDENTIAL, user_id=user_id, **match))


def create_credential(req: Request, user_id: str) -> NewCredential:
    req.refuse_restricted()
    given = req.body
    if given.get('project_id') not in (None, req.caller.project_id):
        raise exception.Forbidden('An application credential must be for the project of the token.')
    row, secret = req.service.create_application_credential(
        req.caller, given['name'], secret=given.get('secret'), description=given.get('description'),
        roles=given.get('roles'), expires_at=end_of(given), unrestricted=bool(given.get('unrestricted')),
        rules=given.get('access_rules'))
    return {**_shown(req, [row])[0], 'secret': secret}


def show_credential(req: Request, user_id: str, credential_id: str) -> Shown:
    return _shown(req, [_credential(req, user_id, credential_id)])[0]


def delete_credential(req: Request, user_id: str, credential_id: str) -> None:
    req.refuse_restricted()
    _credential(req, user_id, credential_id)
    req.service.delete_row('application_credential', credential_id)


CREDENTIALS, TAGS = '/v3/users/{user_id}/application_credentials', '/v3/projects/{project_id}/tags'
_TAG_LIST = Document({'tags': schemas.STRINGS, 'links': schemas.LINKS})
ROUTES = [
    Route('GET', TAGS, list_tags, 'identity:list_project_tags', answer=_TAG_LIST),
    Route('PUT', TAGS, replace_tags, 'identity:update_project_tags', body=_TAGS, answer=_TAG_LIST),
    Route('DELETE', TAGS, delete_tags, 'identity:delete_project_tags', status=204),
    Route('GET', TAGS + '/{value}', check_tag, 'identity:get_project_tag', status=204),
    Route('PUT', TAGS + '/{value}', add_tag, 'identity:create_project_tag', status=201),
    Route('DELETE', TAGS + '/{value}', delete_tag, 'identity:delete_project_tag', status=204),
    Route('POST', '/v3/users/{user_id}/password', change_password, status=204, errors=HASHES, public=True,
          body=Body(resources.PASSWORD, 'user')),
    Route('GET', '/v3/users/{user_id}/projects', lambda req, user_id: req.service.projects_of(user_id),
          'identity:list_user_projects', name='list_projects_of_user', answer=Page(resources.PROJECT)),
    Route('GET', CREDENTIALS, list_credentials, 'identity:list_application_credentials', query=Query('name'),
          answer=Page(APPLICATION_CREDENTIAL)),
    Route('POST', CREDENTIALS, create_credential, 'identity:create_application_credential', status=201,
          body=Body(APPLICATION_CREDENTIAL.content('create'), 'application_credential'),
          answer=One(APPLICATION_CREDENTIAL, 'create')),
    Route('GET', CREDENTIALS + '/{credential_id}', show_credential, 'identity:get_application_credential',
          answer=One(APPLICATION_CREDENTIAL, 'show')),
    Route('DELETE', CREDENTIALS + '/{credential_id}', delete_credential, 'identity:delete_application_credential',
          status=204),
]
