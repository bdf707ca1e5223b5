"""Flavor access: the projects that may use a private flavor."""
from nova import context as nova_context
from nova import exception
from nova.api import notifications
from nova.api import request as api_request
from nova.api.projects import known
from nova.db import engine
from nova.db.projects import flavors
from nova.web import params
from nova.web.routes import Route

_RULE = 'os_compute_api:os-flavor-access'
AccessList = dict[str, list[dict[str, str]]]          # {'flavor_access': [{'flavor_id', 'tenant_id'}]}


def _body(action: str) -> params.Object:
    return params.document(action, params.Param('tenant', params.string(1, 255), required=True))


def _entries(conn: engine.Connection, flavor_id: str) -> AccessList:
    return {'flavor_access': [{'flavor_id': flavor_id, 'tenant_id': project_id}
                              for project_id in flavors.projects(conn, flavor_id)]}


def index(req: api_request.Request, flavor_id: str) -> AccessList:
    with req.services.api_db.reader() as conn:
        if flavors.get(conn, flavor_id, nova_context.ALL_PROJECTS)['is_public']:
            raise exception.NotFound('Access list not available for public flavors.')
        return _entries(conn, flavor_id)


def add(req: api_request.Request, id: str) -> AccessList:
    project_id = req.body['addTenantAccess']['tenant']
    known.check(req, project_id)

    def run(conn: engine.Connection) -> AccessList:
        if flavors.get(conn, id, nova_context.ALL_PROJECTS)['is_public'] and req.has('public_flavor_access_conflict'):
            raise exception.Conflict('Can not add access to a public flavor.')
        flavors.add_project(conn, id, project_id)
        return _entries(conn, id)
    return _changed(req, id, req.services.api_db.run(run))


def remove(req: api_request.Request, id: str) -> AccessList:
    project_id = req.body['removeTenantAccess']['tenant']

    def run(conn: engine.Connection) -> AccessList:
        flavors.get(conn, id, nova_context.ALL_PROJECTS)
        flavors.remove_project(conn, id, project_id)
        return _entries(conn, id)
    return _changed(req, id, req.services.api_db.run(run))


def _changed(req: api_request.Request, flavor_id: str, answer: AccessList) -> AccessList:
    flavor = notifications.read(req, req.services.api_db, flavors.get, flavor_id, nova_context.ALL_PROJECTS)
    projects = [entry['tenant_id'] for entry in answer['flavor_access']]
    notifications.send(req, 'flavor.update', flavor and {**flavor, 'projects': projects})
    return answer


ROUTES = (
    Route('GET', '/flavors/{flavor_id}/os-flavor-access', index, policy=_RULE, query=params.Query(closed=102),
          errors=(404,)),
    Route('POST', '/flavors/{id}/action', add, action='addTenantAccess', policy=_RULE + ':add_tenant_access',
          body=_body('addTenantAccess'), errors=(400, 403, 404, 409)),
    Route('POST', '/flavors/{id}/action', remove, action='removeTenantAccess',
          policy=_RULE + ':remove_tenant_access', body=_body('removeTenantAccess'), errors=(400, 403, 404)),
)
