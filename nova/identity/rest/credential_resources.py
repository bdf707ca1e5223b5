"""Credentials of users: TOTP secrets and EC2 key pairs."""
import base64
from collections.abc import Mapping

from nova import exception
from nova.db.audit import log
from nova.identity.embedded import credentials
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import Stored
from nova.identity.rest.resources import CREDENTIAL
from nova.identity.rest.schemas import Page
from nova.json_types import JsonObject
from nova.web.request import Response
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.routes import Route

Rows = list[credentials.Credential]
LIST, CREATE = 'identity:list_credentials', 'identity:create_credential'
GET, UPDATE, DELETE = 'identity:get_credential', 'identity:update_credential', 'identity:delete_credential'
_USER = 'target.credential.user_id'


def _reaches(req: Request, kind: str, project_id: str | None) -> bool:
    """Return True unless the caller's application credential forbids credentials of this type and project.

    A caller with an application credential may access only EC2 keys of its project, and only with all roles of the user
    on the project. Reason: an EC2 key gives all these roles, without the limits of the application credential.
    """
    caller = req.caller
    if caller.credential is None or req.is_admin:
        return True
    if kind != credentials.EC2 or project_id is None or project_id != caller.project_id:
        return False
    held = req.service.effective_roles(caller.user_id, 'project', project_id)
    return {role['name'] for role in held} <= set(caller.roles)


def _check_reach(req: Request, kind: str, project_id: str | None) -> None:
    if not _reaches(req, kind, project_id):
        raise exception.Forbidden('An application credential may not manage credentials with more rights than its own.')


def _within_reach(req: Request, rows: Rows) -> Rows:
    may = {place: _reaches(req, *place) for place in {(row['type'], row['project_id']) for row in rows}}
    return [row for row in rows if may[row['type'], row['project_id']]]


def _allowed(req: Request, credential_id: str, rule: str) -> credentials.Credential:
    """Return a credential if a rule allows the caller to access it.

    :raises IdentityNotFound: it does not exist, or the rule does not allow the access
    """
    req.refuse_restricted()
    row = req.service.credentials.get(credential_id)
    if not req.allows(rule, {_USER: row['user_id']}):
        raise exception.IdentityNotFound(noun='credential', id=credential_id)
    _check_reach(req, row['type'], row['project_id'])
    return row


def _project(req: Request, user_id: str, given: Mapping[str, str | None]) -> str | None:
    """Return the project ID in the body; the user must have a role on this project."""
    wanted = given.get('project_id')
    if wanted is not None and wanted not in {row['id'] for row in req.service.projects_of(user_id)}:
        raise exception.IdentityNotFound(noun='project', id=wanted)
    return wanted


def list_user_credentials(req: Request) -> Rows:
    req.refuse_restricted()
    match = {name: req.query[name] for name in ('user_id', 'type') if name in req.query}
    if 'user_id' not in match and not req.allows(LIST):            # the caller may list only own credentials
        match['user_id'] = req.caller.user_id
    req.authorize(LIST, {_USER: match.get('user_id')})
    return _within_reach(req, req.service.credentials.list(**match))


def create_user_credential(req: Request) -> Stored:
    req.refuse_restricted()
    given = req.body
    req.authorize(CREATE, {_USER: given['user_id']})
    project_id = _project(req, given['user_id'], given)
    _check_reach(req, given['type'], project_id)
    return req.service.credentials.create(given['user_id'], given['type'], given['blob'], project_id)


def update_user_credential(req: Request, credential_id: str) -> credentials.Credential:
    row, given = _allowed(req, credential_id, UPDATE), req.body
    operations.expect_id(given, credential_id)
    if given.get('user_id', row['user_id']) != row['user_id']:
        raise exception.Forbidden('The user of a credential cannot be changed.')
    if given.get('type', row['type']) != row['type']:
        raise exception.BadRequest(f'The type of a credential cannot be changed: it is {row["type"]}.')
    values: credentials.Changes = {'blob': given['blob']} if 'blob' in given else {}
    if given.get('project_id', row['project_id']) != row['project_id']:
        if row['type'] == credentials.EC2:
            raise exception.Forbidden('The project of an ec2 credential cannot be changed.')
        values['project_id'] = _project(req, row['user_id'], given)
    req.service.credentials.update(credential_id, values)
    return {**row, **values}


def delete_user_credential(req: Request, credential_id: str) -> None:
    _allowed(req, credential_id, DELETE)
    req.service.credentials.delete(credential_id)


# ---- EC2 keys, an older resource of Keystone

class Ec2Credential(credentials.Credential, credentials.Pair):
    """A credential with its key pair."""


def list_ec2(req: Request, user_id: str) -> list[Ec2Credential]:
    req.refuse_restricted()
    rows = _within_reach(req, req.service.credentials.list(user_id=user_id, type=credentials.EC2))
    return [_with_pair(row) for row in rows if row['blob']]


def _with_pair(row: credentials.Credential) -> Ec2Credential:
    return {**row, **credentials.pair_of(row['blob'])}


def create_ec2(req: Request, user_id: str) -> Stored:
    req.refuse_restricted()
    project_id = _project(req, user_id, {'project_id': req.body['tenant_id']})
    _check_reach(req, credentials.EC2, project_id)
    return _with_pair(req.service.credentials.create_ec2(user_id, project_id))


def _of_access(req: Request, user_id: str, access: str) -> credentials.Credential:
    req.refuse_restricted()
    row = req.service.credentials.get(credentials.id_of_access(access))
    if row['user_id'] != user_id or row['type'] != credentials.EC2:
        raise exception.IdentityNotFound(noun='credential', id=access)
    _check_reach(req, row['type'], row['project_id'])
    return row


def show_ec2(req: Request, user_id: str, credential_id: str) -> Stored:
    return _with_pair(_of_access(req, user_id, credential_id))


def delete_ec2(req: Request, user_id: str, credential_id: str) -> None:
    req.service.credentials.delete(_of_access(req, user_id, credential_id)['id'])


def token_of_signature(req: Request) -> Response:
    """Issue a token for the owner of a signed request."""
    signed = req.body.get('credentials') or req.body['ec2Credentials']
    token, data = req.service.signed.authenticate(signed, req.remote_address)
    log.about(data.user_id)
    shown = resources.token(data, req.service.catalog(data.project_id, data.user_id))
    return Response(shown, 200, [('X-Subject-Token', token)])


def caller_of_text(req: Request) -> JsonObject:
    """Return the owner of a signed S3 request without issuing a token. The object store checks the time of the request.

    :raises BadRequest: the string to sign is not base64 of text
    """
    signed = req.body['credentials']
    try:
        text = base64.b64decode(signed['token'], altchars=b'-_').decode()
    except ValueError:
        raise exception.BadRequest('Invalid input for credentials.token: invalid (base64).') from None
    _token, data = req.service.signed.authenticate_text(signed['access'], text, signed['signature'], req.remote_address)
    log.about(data.user_id)
    return resources.token(data, req.service.catalog(data.project_id, data.user_id))


ONE = '/v3/credentials/{credential_id}'
EC2 = '/v3/users/{user_id}/credentials/OS-EC2'
_ONE, _PAIR, _TOKEN = One(CREDENTIAL, 'show'), One(resources.EC2, 'show'), Document({'token': resources.TOKEN})
ROUTES = [
    Route('GET', '/v3/credentials', list_user_credentials, checks=(LIST,), answer=Page(CREDENTIAL),
                   query=schemas.Query(*CREDENTIAL.filters)),
    Route('POST', '/v3/credentials', create_user_credential, checks=(CREATE,), status=201, answer=_ONE,
                   body=schemas.Body(CREDENTIAL.content('create'), 'credential')),
    Route('GET', ONE, lambda req, credential_id: _allowed(req, credential_id, GET), checks=(GET,), answer=_ONE,
          name='show_user_credential'),
    Route('PATCH', ONE, update_user_credential, checks=(UPDATE,), answer=_ONE,
                   body=schemas.Body(CREDENTIAL.content('update'), 'credential')),
    Route('DELETE', ONE, delete_user_credential, checks=(DELETE,), status=204),
    Route('GET', EC2, list_ec2, 'identity:ec2_list_credentials', answer=Page(resources.EC2)),
    Route('POST', EC2, create_ec2, 'identity:ec2_create_credential', status=201, answer=_PAIR,
                   body=schemas.Body(schemas.obj(['tenant_id'], tenant_id=schemas.ID))),
    Route('GET', EC2 + '/{credential_id}', show_ec2, 'identity:ec2_get_credential', answer=_PAIR),
    Route('DELETE', EC2 + '/{credential_id}', delete_ec2, 'identity:ec2_delete_credential', status=204),
    # The rule allows only services; otherwise an eavesdropper could exchange a signed request for a token.
    Route('POST', '/v3/ec2tokens', token_of_signature, 'identity:ec2tokens_validate', answer=_TOKEN,
                   body=schemas.Body(resources.SIGNED_REQUEST)),
    Route('POST', '/v3/s3tokens', caller_of_text, 'identity:s3tokens_validate', answer=_TOKEN,
                   body=schemas.Body(schemas.obj(['credentials'], credentials=resources.SIGNED_TEXT))),
]
