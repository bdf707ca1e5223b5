"""Credentials of users over HTTP: secrets of devices that make one-time codes."""
from nova import exception
from nova.identity.face import operations
from nova.identity.face import resources
from nova.identity.face import schemas
from nova.identity.face import views

Row = operations.Row


def _own(req, credential_id):
    """A credential of the caller; another user's is there for administrators alone."""
    resources.refuse_restricted(req)
    row = req.service.credentials.get(credential_id)
    if row['user_id'] != req.caller.user_id and 'admin' not in req.caller.roles:
        raise exception.IdentityNotFound(noun='credential', id=credential_id)
    return row


def _project(req, user_id, given):
    """The project that a body names: one on which the user holds a role."""
    wanted = given.get('project_id')
    if wanted is not None and wanted not in {row['id'] for row in req.service.projects_of(user_id)}:
        raise exception.IdentityNotFound(noun='project', id=wanted)
    return wanted


def list_user_credentials(req):
    resources.refuse_restricted(req)
    match = {name: req.query[name] for name in ('user_id', 'type') if name in req.query}
    if 'admin' not in req.caller.roles and match.setdefault('user_id', req.caller.user_id) != req.caller.user_id:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    rows = [views.credential(row, req.root_url) for row in req.service.credentials.list(**match)]
    return views.collection('credentials', rows, operations.url_of(req))


def create_user_credential(req):
    resources.refuse_restricted(req)
    given = req.body['credential']
    if given['user_id'] != req.caller.user_id and 'admin' not in req.caller.roles:
        raise exception.Forbidden('You are not authorized to perform the requested action.')
    row = req.service.credentials.create(given['user_id'], given['blob'], _project(req, given['user_id'], given))
    return {'credential': views.credential(row, req.root_url)}


def show_user_credential(req, credential_id):
    return {'credential': views.credential(_own(req, credential_id), req.root_url)}


def update_user_credential(req, credential_id):
    row, given = _own(req, credential_id), req.body['credential']
    if given.get('user_id', row['user_id']) != row['user_id']:
        raise exception.Forbidden('A credential stays with its user.')
    values = {'blob': given['blob']} if 'blob' in given else {}
    if 'project_id' in given:
        values['project_id'] = _project(req, row['user_id'], given)
    req.service.credentials.update(credential_id, values)
    return {'credential': views.credential(row | values, req.root_url)}


def delete_user_credential(req, credential_id):
    _own(req, credential_id)
    req.service.credentials.delete(credential_id)


ONE = '/v3/credentials/{credential_id}'

# 'any': whose they are decides in the handlers.
ROUTES = [
    Row('GET', '/v3/credentials', list_user_credentials, 'any'),
    Row('POST', '/v3/credentials', create_user_credential, 'any', status=201,
        body=schemas.Body(schemas.USER_CREDENTIAL_CREATE)),
    Row('GET', ONE, show_user_credential, 'any'),
    Row('PATCH', ONE, update_user_credential, 'any', body=schemas.Body(schemas.USER_CREDENTIAL_UPDATE)),
    Row('DELETE', ONE, delete_user_credential, 'any', status=204),
]
