"""/v3.0/{tenant_id}/groups: server groups in the first design of instance groups, as JSON or XML.

The resources are the same as in os-server-groups, but show several policies, and metadata.
``nova.api.group_xml`` converts between XML and JSON.
"""
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.api import notifications
from nova.api import paging
from nova.api import request as api_request
from nova.api.groups import metadata as server_group_metadata
from nova.api.groups import server_groups as resource
from nova.api.servers import category as server_category
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.audit import log
from nova.db.placement import server_groups
from nova.db.projects import quotas
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.request import Response
from nova.web.routes import Route

ANY_PROJECT = 'nova:groups:any_project'

VIEW = Fields(
    Field('id', 'uuid'),
    Field('name', lambda row, req: row['name'] or None),
    Field('tenant_id', 'project_id'),
    Field('policies', 'policies'),
    Field('metadata', 'metadata'),
    Field('members', server_category.visible_members),
)

_NAME = params.Type({**params.NAME.schema(1), 'type': ['string', 'null']}, convert=lambda text: text or '')
_METADATA = params.Object(*params.METADATA.params, nullable=True)
_FIELDS = (
    params.Param('name', _NAME),
    params.Param('tenant_id', params.string(1, 255, '^[a-zA-Z0-9-]*$')),
    params.Param('policies', params.Array({'enum': list(server_groups.POLICIES)}, maxItems=len(server_groups.POLICIES),
                                          uniqueItems=True)),
    params.Param('metadata', _METADATA),
)
CREATE = params.document('group', params.Param('id', params.UUID), *_FIELDS)
UPDATE = params.document('group', *_FIELDS, minProperties=1)
LIST = params.Query(params.Param('limit', params.LIMIT), params.Param('offset', params.NON_NEGATIVE), closed=1)


def _check_tenant(req: api_request.Request, tenant_id: str) -> None:
    """Check the project in the path.

    :raises NotFound: the project is not the caller's
    """
    if tenant_id != req.project_id and not req.allows(ANY_PROJECT):
        raise exception.NotFound()


def _of_tenant(tenant_id: str) -> Callable[[engine.Connection, str], server_groups.Group]:
    """Return a function ``get(conn, id)`` that reads a group of the project.

    :raises ServerGroupNotFound: the group belongs to another project
    """
    def get(conn: engine.Connection, id: str) -> server_groups.Group:
        return _checked(server_groups.get(conn, id), tenant_id)
    return get


def _checked(row: server_groups.Group, tenant_id: str) -> server_groups.Group:
    if row['project_id'] != tenant_id:
        raise exception.ServerGroupNotFound(group_id=row['uuid'])
    return row


def index(req: api_request.Request, tenant_id: str) -> JsonDocument:
    _check_tenant(req, tenant_id)
    with req.services.api_db.reader() as conn:
        rows = server_groups.page(conn, tenant_id, limit=paging.limit(req), offset=req.query.one('offset', 0))
    build = VIEW.builder(req)
    return {'groups': [build(row) for row in rows]}


def show(req: api_request.Request, tenant_id: str, id: str) -> JsonDocument:
    _check_tenant(req, tenant_id)
    with req.services.api_db.reader() as conn:
        return _one(req, resource.find(req, conn, id, resource.SHOW, _of_tenant(tenant_id)))


def _one(req: api_request.Request, row: api_request.Row) -> JsonDocument:
    return {'group': VIEW.builder(req)(row)}


def _values(given: api_request.Document) -> dict[str, Any]:
    """Return the columns for the keys of a body other than ``id`` and ``policies``."""
    values = {column: given[name] for name, column in (('name', 'name'), ('tenant_id', 'project_id')) if name in given}
    if 'metadata' in given:
        values['metadata'] = given['metadata'] or {}
    return values


def create(req: api_request.Request, tenant_id: str) -> Response:
    _check_tenant(req, tenant_id)
    given = req.body['group']
    values = {'project_id': tenant_id, 'user_id': req.user_id, 'name': '', **_values(given),
              'policies': given.get('policies', [])}
    if values['project_id'] != req.project_id:
        req.authorize(ANY_PROJECT)
    if 'id' in given:
        values['uuid'] = _uuid(given['id'])
    resource.check_policies(values['policies'], {})

    def run(conn: engine.Connection) -> server_groups.Group:
        limits = quotas.limits_of(conn, req.services.conf, values['project_id'])
        server_spec.check_metadata(values.get('metadata', {}), limits)
        return server_groups.create(conn, limits, values)
    row = req.services.api_db.run(log.naming(run, 'uuid'))
    notifications.send(req, 'server_group.create', row)
    where = f'{req.host_url}/v3.0/{row["project_id"]}/groups/{row["uuid"]}'
    return Response(_one(req, row), headers=(('Location', where),))


def _uuid(text: str) -> str:
    """Check that a UUID is in the canonical form.

    :raises BadRequest: the UUID is not lowercase with hyphens
    """
    if len(text) != 36 or text != text.lower():
        raise exception.BadRequest('The ID of a group must be a UUID with lowercase digits and hyphens.')
    return text


def update(req: api_request.Request, tenant_id: str, id: str) -> JsonDocument:
    """Change name and metadata; policies and project may change only while the group has no members."""
    _check_tenant(req, tenant_id)
    given = req.body['group']

    def run(conn: engine.Connection, row: server_groups.Group) -> server_groups.Group:
        _checked(row, tenant_id)
        values, limits = _values(given), None
        if values.get('project_id', tenant_id) != tenant_id:
            req.authorize(ANY_PROJECT)
            limits = quotas.limits_of(conn, req.services.conf, values['project_id'])
        if 'policies' in given:
            values |= resource.with_policies(row, given['policies'])
        if 'metadata' in values:
            server_group_metadata.check(req, conn, row, values['metadata'])
        return server_groups.update(conn, row, values, limits)
    return _one(req, resource.change(req, id, resource.UPDATE_RULE, run))


def delete(req: api_request.Request, tenant_id: str, id: str) -> None:
    _check_tenant(req, tenant_id)
    with req.services.api_db.reader() as conn:
        resource.find(req, conn, id, resource.DELETE, _of_tenant(tenant_id))
    resource.remove(req, id)


_PATH = '/v3.0/{tenant_id}/groups'
_ERRORS = (400, 401, 403, 404, 409)
ROUTES = (
    Route('GET', _PATH, index, policy=resource.INDEX, checks=(ANY_PROJECT,), query=LIST, api=False,
          errors=(400, 401, 403, 404)),
    Route('POST', _PATH, create, policy=resource.CREATE_RULE, checks=(ANY_PROJECT,), body=CREATE, status=201, api=False,
          errors=_ERRORS),
    Route('GET', _PATH + '/{id}', show, checks=(resource.SHOW, ANY_PROJECT), api=False, errors=(401, 403, 404)),
    Route('PUT', _PATH + '/{id}', update, checks=(resource.UPDATE_RULE, ANY_PROJECT), body=UPDATE, api=False,
          errors=_ERRORS),
    Route('DELETE', _PATH + '/{id}', delete, checks=(resource.DELETE, ANY_PROJECT), status=204, api=False,
          errors=(401, 403, 404)),
)
