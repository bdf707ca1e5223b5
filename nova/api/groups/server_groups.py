"""Server groups with placement policies: affinity, anti-affinity, network proximity or host capabilities.

A group may have any number of policies (``nova.api.groups.groups``). Clients of this resource expect one policy, so
responses show the first policy. If there is not exactly one policy, ``nova:policies`` lists all policies.
"""
from collections.abc import Callable, Iterable
from typing import TypeVar

from nova import context as nova_context
from nova import exception
from nova.api import notifications
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.api.servers import category as server_category
from nova.db import engine
from nova.db.audit import log
from nova.db.placement import server_groups
from nova.db.placement.server_groups import ANTI_AFFINITY
from nova.db.projects import quotas
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import params
from nova.web.fields import ABSENT
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

R = TypeVar('R')
_RULE = 'os_compute_api:os-server-groups:'
INDEX, SHOW, CREATE_RULE, DELETE = (_RULE + name for name in ('index', 'show', 'create', 'delete'))
ALL_PROJECTS = INDEX + ':all_projects'
UPDATE_RULE = 'nova:os-server-groups:update'

_ADDED = [server_groups.PROXIMITY, server_groups.CAPABILITIES]        # every version supports these policies
_OLD = [ANTI_AFFINITY, server_groups.AFFINITY]
_POLICIES = [*_OLD, server_groups.SOFT_ANTI_AFFINITY, server_groups.SOFT_AFFINITY]

VIEW = Fields(
    Field('id', 'uuid', type='string format=uuid required'),
    Field('name', 'name', type='string required'),
    Field('policies', lambda row, req: row['policies'][:1], until=63, type='array minItems=0 maxItems=1 required'),
    Field('policy', lambda row, req: row['policies'][0] if row['policies'] else '', since=64, type=shapes.POLICY),
    Field('rules', 'rules', since=64, type=shapes.RULES),
    Field('members', server_category.visible_members, type=shapes.MEMBERS),
    Field('metadata', lambda row, req: {}, until=63, type='object required'),
    Field('project_id', 'project_id', since=13,
                 type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('user_id', 'user_id', since=13, type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('nova:policies', lambda row, req: row['policies'] if len(row['policies']) != 1 else ABSENT, optional=True,
                 type=shapes.POLICIES),
)


def _policies(names: Iterable[str]) -> params.Type:
    return params.Type({'type': 'array', 'prefixItems': [{'enum': [*names, *_ADDED]}], 'minItems': 1, 'maxItems': 1,
                        'uniqueItems': True})


def _fields(required: bool) -> tuple[params.Param, ...]:
    return (
        params.Param('name', params.NAME, required=required),
        params.Param('policies', _policies(_OLD), until=14, required=required),
        params.Param('policies', _policies(_POLICIES), since=15, until=63, required=required),
        params.Param('policy', {'enum': [*_POLICIES, *_ADDED]}, since=64, required=required),
        params.Param('rules', params.Object(params.Param(server_groups.MAX_SERVER_PER_HOST, params.POSITIVE)),
                     since=64),
    )


CREATE = params.document('server_group', *_fields(True))
UPDATE = params.document('server_group', *_fields(False), minProperties=1)
LIST = params.Query(params.Param('all_projects', params.STRING), params.Param('limit', params.LIMIT),
                    params.Param('offset', params.NON_NEGATIVE), closed=75)


# ---- shared functions ----------------------------------------------------------

def find(req: api_request.Request, conn: engine.Connection, id: str, rule: str,
         get: Callable[[engine.Connection, str], server_groups.Group] = server_groups.get) -> server_groups.Group:
    """Return the row of a group, read with ``get``, if the group is visible to the caller.

    :raises ServerGroupNotFound: the group does not exist or is not visible
    """
    if len(id) != 36 or not formats.is_uuid(id):
        raise exception.ServerGroupNotFound(group_id=id[:80])
    row = get(conn, id)
    if row['project_id'] != req.project_id and not req.context.is_admin:
        raise exception.ServerGroupNotFound(group_id=id)
    req.authorize(rule, {'project_id': row['project_id'], 'user_id': row['user_id']})
    return row


def change(req: api_request.Request, id: str, rule: str,
           work: Callable[[engine.Connection, server_groups.Group], R]) -> R:
    """Run ``work(conn, row)`` in a transaction that locks the group against changes and new members."""
    def run(conn: engine.Connection) -> R:
        find(req, conn, id, rule)                # check the caller first: unauthorized callers must not lock the group
        return work(conn, find(req, conn, id, rule, server_groups.get_locked))
    return req.services.api_db.run(run)


def check_policies(policies: list[str], rules: dict[str, int] | None) -> None:
    """Check a combination of policies.

    :raises BadRequest: policies exclude each other, or the rules do not apply to them
    """
    for pair in server_groups.OPPOSITES:
        if pair <= set(policies):
            raise exception.BadRequest(f'The policies {" and ".join(sorted(pair))} exclude each other.')
    if rules and ANTI_AFFINITY not in policies:
        raise exception.BadRequest('Only the anti-affinity policy supports rules.')


def remove(req: api_request.Request, id: str) -> None:
    """Delete a group; its members keep running."""
    row = notifications.read(req, req.services.api_db, server_groups.get, id)
    req.services.api_db.run(server_groups.delete, id)
    notifications.send(req, 'server_group.delete', row)
    req.services.cells.scatter(lambda cell: cell.db.run(server_groups.forget, [id]))     # conductors retry this


# ---- handlers ------------------------------------------------------------------

def index(req: api_request.Request) -> JsonDocument:
    everything = 'all_projects' in req.query and req.allows(ALL_PROJECTS)
    limit, offset = paging.limit(req), req.query.one('offset', 0)
    project_id = nova_context.ALL_PROJECTS if everything else req.project_id
    with req.services.api_db.reader() as conn:
        rows = server_groups.page(conn, project_id, limit=limit, offset=offset)
    build = VIEW.builder(req)
    return {'server_groups': [build(row) for row in rows]}


def show(req: api_request.Request, id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        return _one(req, find(req, conn, id, SHOW))


def _one(req: api_request.Request, row: api_request.Row) -> JsonDocument:
    return {'server_group': VIEW.builder(req)(row)}


def _given_policies(req: api_request.Request, given: api_request.Document) -> list[str] | None:
    """Return the policies in a body, or None."""
    if req.has('server_group_rules'):
        return [given['policy']] if 'policy' in given else None
    return given.get('policies')


def create(req: api_request.Request) -> JsonDocument:
    given = req.body['server_group']
    values = {'project_id': req.project_id, 'user_id': req.user_id, 'name': given['name'],
              'policies': _given_policies(req, given), 'rules': given.get('rules') or {}}
    check_policies(values['policies'], values['rules'])

    def run(conn: engine.Connection) -> server_groups.Group:
        limits = quotas.limits_of(conn, req.services.conf, req.project_id)
        return server_groups.create(conn, limits, values)
    row = req.services.api_db.run(log.naming(run, 'uuid'))
    notifications.send(req, 'server_group.create', row)
    return _one(req, row)


def update(req: api_request.Request, id: str) -> JsonDocument:
    """Change the name; policies and rules may change only while the group has no members."""
    given = req.body['server_group']
    policies = _given_policies(req, given)

    def run(conn: engine.Connection, row: server_groups.Group) -> server_groups.Group:
        values = {name: given[name] for name in ('name', 'rules') if name in given}
        values |= with_policies(row, policies, values.get('rules'))
        return server_groups.update(conn, row, values)
    return _one(req, change(req, id, UPDATE_RULE, run))


def with_policies(row: server_groups.Group, policies: list[str] | None,
                  rules: dict[str, int] | None = None) -> dict[str, list[str] | dict[str, int]]:
    """Return the columns for new policies and rules.

    :param policies: new policies; None: unchanged
    :param rules: new rules; None: unchanged, if the policies support rules
    :raises BadRequest: the combination is invalid
    """
    wanted = row['policies'] if policies is None else policies
    if rules is None:
        rules = row['rules'] if ANTI_AFFINITY in wanted else {}
    check_policies(wanted, rules)
    return {'policies': [name for name in server_groups.POLICIES if name in wanted], 'rules': rules}


def delete(req: api_request.Request, id: str) -> None:
    with req.services.api_db.reader() as conn:
        find(req, conn, id, DELETE)
    remove(req, id)


ROUTES = (
    Route('GET', '/os-server-groups', index, policy=INDEX, checks=(ALL_PROJECTS,), query=LIST, errors=(400,)),
    Route('POST', '/os-server-groups', create, policy=CREATE_RULE, body=CREATE, errors=(400, 403, 409)),
    Route('GET', '/os-server-groups/{id}', show, checks=(SHOW,), query=params.Query(closed=102), errors=(404,)),
    Route('PUT', '/os-server-groups/{id}', update, checks=(UPDATE_RULE,), body=UPDATE, errors=(400, 403, 404, 409)),
    Route('DELETE', '/os-server-groups/{id}', delete, checks=(DELETE,), status=204, errors=(404,)),
)
