"""Server groups: servers that are to stand together, or apart."""
from nova import exception
from nova.api import formats
from nova.api import paging
from nova.api import params
from nova.api.fields import Field
from nova.api.fields import Fields
from nova.api.params import Object
from nova.api.params import Param
from nova.api.params import Query
from nova.api.params import Type
from nova.api.routes import Route
from nova.db import quotas
from nova.db import server_groups

_RULE = 'os_compute_api:os-server-groups:'
ALL_PROJECTS = _RULE + 'index:all_projects'
ANTI_AFFINITY = 'anti-affinity'

_OLD = ['anti-affinity', 'affinity']
_POLICIES = [*_OLD, 'soft-anti-affinity', 'soft-affinity']

VIEW = Fields(
    Field('id', 'uuid'),
    Field('name', 'name'),
    Field('policies', lambda row, req: [row['policy']], until=63),
    Field('policy', 'policy', since=64),
    Field('rules', 'rules', since=64),
    Field('members', 'members'),
    Field('metadata', lambda row, req: {}, until=63),
    Field('project_id', 'project_id', since=13),
    Field('user_id', 'user_id', since=13),
)


def _policies(names):
    return Type({'type': 'array', 'prefixItems': [{'enum': names}], 'minItems': 1, 'maxItems': 1,
                 'uniqueItems': True})


CREATE = Object(Param('server_group', Object(
    Param('name', params.NAME, required=True),
    Param('policies', _policies(_OLD), until=14, required=True),
    Param('policies', _policies(_POLICIES), since=15, until=63, required=True),
    Param('policy', {'enum': _POLICIES}, since=64, required=True),
    Param('rules', Object(Param('max_server_per_host', params.POSITIVE)), since=64),
), required=True))
LIST = Query(Param('all_projects', params.STRING), Param('limit', params.LIMIT), Param('offset', params.NON_NEGATIVE),
             closed=75)


def _find(req, conn, id, rule):
    """A group that the caller may see.

    :raises ServerGroupNotFound: there is none, or it belongs to another project
    """
    if len(id) != 36 or not formats.is_uuid(id):
        raise exception.ServerGroupNotFound(group_id=id[:80])
    row = server_groups.get(conn, id)
    if row['project_id'] != req.project_id and not req.context.is_admin:
        raise exception.ServerGroupNotFound(group_id=id)
    req.authorize(_RULE + rule, {'project_id': row['project_id'], 'user_id': row['user_id']})
    return row


def index(req):
    everything = 'all_projects' in req.query and req.allows(ALL_PROJECTS)
    limit, offset = paging.limit(req), req.query.one('offset', 0)
    with req.services.api_db.reader() as conn:
        rows = server_groups.page(conn, None if everything else req.project_id, limit=limit, offset=offset)
    build = VIEW.builder(req)
    return {'server_groups': [build(row) for row in rows]}


def show(req, id):
    with req.services.api_db.reader() as conn:
        return _one(req, _find(req, conn, id, 'show'))


def _one(req, row):
    return {'server_group': VIEW.builder(req)(row)}


def create(req):
    given = req.body['server_group']
    policy = given['policy'] if req.has('server_group_rules') else given['policies'][0]
    rules = given.get('rules') or {}
    if rules and policy != ANTI_AFFINITY:
        raise exception.BadRequest('Only the anti-affinity policy supports rules.')
    values = {'project_id': req.project_id, 'user_id': req.user_id, 'name': given['name'], 'policy': policy,
              'rules': rules}

    def run(conn):
        limits = quotas.limits_of(conn, req.services.conf, req.project_id)
        return server_groups.create(conn, limits, values)
    return _one(req, req.services.api_db.run(run))


def delete(req, id):
    with req.services.api_db.reader() as conn:
        _find(req, conn, id, 'delete')
    req.services.api_db.run(server_groups.delete, id)
    for cell in req.services.cells.all():
        cell.db.run(server_groups.forget, [id])


ROUTES = (
    Route('GET', '/os-server-groups', index, policy=_RULE + 'index', checks=(ALL_PROJECTS,), query=LIST,
          errors=(400,)),
    Route('POST', '/os-server-groups', create, policy=_RULE + 'create', body=CREATE, errors=(400, 403, 409)),
    Route('GET', '/os-server-groups/{id}', show, checks=(_RULE + 'show',), query=Query(closed=102), errors=(404,)),
    Route('DELETE', '/os-server-groups/{id}', delete, checks=(_RULE + 'delete',), status=204, errors=(404,)),
)
