"""Credentials of users: TOTP secrets and EC2 key pairs."""
import base64
from typing import Any

from nova import exception
from nova.db.audit import log
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest import views
from nova.identity.embedded import credentials
from nova.json_types import JsonObject
from nova.web.request import Response

Row = operations.Row


def _reaches(req: operations.Request, kind: str, project_id: str | None) -> bool:
    """Return True if the caller may access a credential of its user.

    A caller with an application credential is limited to EC2 keys of its project, and only if it has all roles of the
    user there, because keys are not bound to the application credential.
    """
    caller = req.caller
    if caller.credential is None or 'admin' in caller.roles:
        return True
    if kind != credentials.EC2 or project_id is None or project_id != caller.project_id:
        return False
    held = req.service.assignments(effective=True, user_id=caller.user_id, target_type='project', target_id=project_id)
    return {row['role_name'] for row in held} <= set(caller.roles)


def _check_reach(req: operations.Request, kind: str, project_id: str | None) -> None:
    if not _reaches(req, kind, project_id):
        raise exception.Forbidden('An application credential may not manage credentials with more rights than its own.')


def _within_reach(req: operations.Request, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    may = {place: _reaches(req, *place) for place in {(row['type'], row['project_id']) for row in rows}}
    return [row for row in rows if may[row['type'], row['project_id']]]


def _own(req: operations.Request, credential_id: str) -> dict[str, Any]:
    """Return a credential of the caller; administrators may access those of other users."""
    resources.refuse_restricted(req)
    row = req.service.credentials.get(credential_id)
    if row['user_id'] != req.caller.user_id and 'admin' not in req.caller.roles:
        raise exception.IdentityNotFound(noun='credential', id=credential_id)
    _check_reach(req, row['type'], row['project_id'])
    return row


def _project(req: operations.Request, user_id: str, given: dict[str, Any]) -> str | None:
    """Return the project in a body; the user must have a role on it."""
    wanted = given.get('project_id')
    if wanted is not None and wanted not in {row['id'] for row in req.service.projects_of(user_id)}:
        raise exception.IdentityNotFound(noun='project', id=wanted)
    return wanted


def list_user_credentials(req: operations.Request) -> JsonObject:
    resources.refuse_restricted(req)
    match = {name: req.query[name] for name in ('user_id', 'type') if name in req.query}
    if 'admin' not in req.caller.roles and match.setdefault('user_id', req.caller.user_id) != req.caller.user_id:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    rows = _within_reach(req, req.service.credentials.list(**match))
    return views.collection('credentials', [views.credential(row, req.root_url) for row in rows],
                            operations.url_of(req))


def create_user_credential(req: operations.Request) -> JsonObject:
    resources.refuse_restricted(req)
    given = req.body['credential']
    if given['user_id'] != req.caller.user_id and 'admin' not in req.caller.roles:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    project_id = _project(req, given['user_id'], given)
    _check_reach(req, given['type'], project_id)
    row = req.service.credentials.create(given['user_id'], given['type'], given['blob'], project_id)
    return {'credential': views.credential(row, req.root_url)}


def show_user_credential(req: operations.Request, credential_id: str) -> JsonObject:
    return {'credential': views.credential(_own(req, credential_id), req.root_url)}


def update_user_credential(req: operations.Request, credential_id: str) -> JsonObject:
    row, given = _own(req, credential_id), req.body['credential']
    if given.get('user_id', row['user_id']) != row['user_id']:
        raise exception.Forbidden('The user of a credential cannot be changed.')
    if given.get('type', row['type']) != row['type']:
        raise exception.BadRequest(f'The type of a credential cannot be changed: it is {row["type"]}.')
    values = {'blob': given['blob']} if 'blob' in given else {}
    if given.get('project_id', row['project_id']) != row['project_id']:
        if row['type'] == credentials.EC2:
            raise exception.Forbidden('The project of an ec2 credential cannot be changed.')
        values['project_id'] = _project(req, row['user_id'], given)
    req.service.credentials.update(credential_id, values)
    return {'credential': views.credential(row | values, req.root_url)}


def delete_user_credential(req: operations.Request, credential_id: str) -> None:
    _own(req, credential_id)
    req.service.credentials.delete(credential_id)


# ---- EC2 keys, Keystone's older resource

def list_ec2(req: operations.Request, user_id: str) -> JsonObject:
    resources.refuse_restricted(req)
    rows = _within_reach(req, req.service.credentials.list(user_id=user_id, type=credentials.EC2))
    return views.collection('credentials', [views.ec2_credential(row, req.root_url) for row in rows if row['blob']],
                            operations.url_of(req))


def create_ec2(req: operations.Request, user_id: str) -> JsonObject:
    resources.refuse_restricted(req)
    project_id = _project(req, user_id, {'project_id': req.body['tenant_id']})
    _check_reach(req, credentials.EC2, project_id)
    return {'credential': views.ec2_credential(req.service.credentials.create_ec2(user_id, project_id), req.root_url)}


def _of_access(req: operations.Request, user_id: str, access: str) -> dict[str, Any]:
    resources.refuse_restricted(req)
    row = req.service.credentials.get(credentials.id_of_access(access))
    if row['user_id'] != user_id or row['type'] != credentials.EC2:
        raise exception.IdentityNotFound(noun='credential', id=access)
    _check_reach(req, row['type'], row['project_id'])
    return row


def show_ec2(req: operations.Request, user_id: str, credential_id: str) -> JsonObject:
    return {'credential': views.ec2_credential(_of_access(req, user_id, credential_id), req.root_url)}


def delete_ec2(req: operations.Request, user_id: str, credential_id: str) -> None:
    req.service.credentials.delete(_of_access(req, user_id, credential_id)['id'])


def token_of_signature(req: operations.Request) -> Response:
    """Issue a token for the owner of a signed request."""
    signed = req.body.get('credentials') or req.body['ec2Credentials']
    token, data = req.service.signed.authenticate(signed, req.remote_address)
    log.about(data.user_id)
    return Response(views.token(data, req.service.catalog(data.project_id)), 200, [('X-Subject-Token', token)])


def caller_of_text(req: operations.Request) -> JsonObject:
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
    return views.token(data, req.service.catalog(data.project_id))


ONE = '/v3/credentials/{credential_id}'
EC2 = '/v3/users/{user_id}/credentials/OS-EC2'

# 'any': the handlers check the owner
ROUTES = [
    Row('GET', '/v3/credentials', list_user_credentials, 'any'),
    Row('POST', '/v3/credentials', create_user_credential, 'any', status=201,
        body=schemas.Body(schemas.USER_CREDENTIAL_CREATE)),
    Row('GET', ONE, show_user_credential, 'any'),
    Row('PATCH', ONE, update_user_credential, 'any', body=schemas.Body(schemas.USER_CREDENTIAL_UPDATE)),
    Row('DELETE', ONE, delete_user_credential, 'any', status=204),
    Row('GET', EC2, list_ec2, 'self_or_admin'),
    Row('POST', EC2, create_ec2, 'self_or_admin', status=201, body=schemas.Body(schemas.EC2_CREATE)),
    Row('GET', EC2 + '/{credential_id}', show_ec2, 'self_or_admin'),
    Row('DELETE', EC2 + '/{credential_id}', delete_ec2, 'self_or_admin', status=204),
    # Only for services; otherwise an eavesdropper could exchange a signed request for a token.
    Row('POST', '/v3/ec2tokens', token_of_signature, 'service', body=schemas.Body(schemas.EC2_TOKENS)),
    Row('POST', '/v3/s3tokens', caller_of_text, 'service', body=schemas.Body(schemas.S3_TOKENS)),
]
