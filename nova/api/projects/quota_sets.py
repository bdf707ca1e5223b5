"""Quotas of projects, users, and the default quota class."""
from collections.abc import Callable, Mapping
from typing import Any

from nova import exception
from nova.api import request as api_request
from nova.api.projects import known
from nova.db import engine
from nova.db.networks import limits as db_limits
from nova.db.projects import quotas
from nova.json_types import JsonDocument
from nova.network import proxied_limits
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

_RULE = 'os_compute_api:os-quota-sets:'
_CLASS = 'os_compute_api:os-quota-class-sets:'

# key in the API -> (resource or None for network quotas, last version in quota sets, last version in class sets)
KEYS = {
    'cores': ('cores', None, None),
    'fixed_ips': (None, 35, 49),
    'floating_ips': (None, 35, 49),
    'injected_file_content_bytes': ('injected_file_content_bytes', 56, 56),
    'injected_file_path_bytes': ('injected_file_path_length', 56, 56),
    'injected_files': ('injected_files', 56, 56),
    'instances': ('instances', None, None),
    'key_pairs': ('key_pairs', None, None),
    'metadata_items': ('metadata_items', None, None),
    'ram': ('ram', None, None),
    'security_groups': (None, 35, 49),
    'security_group_rules': (None, 35, 49),
    'server_groups': ('server_groups', None, None),
    'server_group_members': ('server_group_members', None, None),
}
_CLASS_SINCE = {'server_groups': 50, 'server_group_members': 50}
_LIMIT = params.integer(-1, params.MAX_INT)


def _column(name: str) -> Callable[[Any, api_request.Request], int]:
    return lambda limits, req: limits[name]


_NUMBER = 'integer minimum=-1 required'
LIMITS = Fields(*(Field(key, _column(resource or key), until=until, type=_NUMBER)
                  for key, (resource, until, _) in KEYS.items()))
CLASS_LIMITS = Fields(*(Field(key, _column(resource or key),
                              since=_CLASS_SINCE.get(key, 1), until=until, type=_NUMBER)
                        for key, (resource, _, until) in KEYS.items()))
CLASS_RESOURCES = tuple(resource for resource, _, _ in KEYS.values() if resource is not None)

UPDATE = params.document(
    'quota_set', *(params.Param(key, _LIMIT, until=until) for key, (_resource, until, _) in KEYS.items()),
    params.Param('force', params.BOOLEAN))
UPDATE_CLASS = params.document(
    'quota_class_set', *(params.Param(key, _LIMIT, until=until) for key, (_resource, _, until) in KEYS.items()))
MAX_ID = 255                 # characters of a user id or the name of a quota class
ONE = params.Query(params.Param('user_id', params.STRING), closed=75)


def _authorize(req: api_request.Request, rule: str, project_id: str) -> None:
    req.authorize(_RULE + rule, {'project_id': project_id, 'user_id': req.user_id})


def _limits(conn: engine.Connection, req: api_request.Request, project_id: str,
            user_id: str | None = None) -> dict[str, int]:
    found = dict(quotas.limits_of(conn, req.services.conf, project_id, user_id))
    if not req.has('no_proxies'):
        found |= proxied_limits.of_project(conn, req.services.conf, project_id)
    return found


def show(req: api_request.Request, id: str) -> JsonDocument:
    _authorize(req, 'show', id)
    known.check(req, id)
    with req.services.api_db.reader() as conn:
        limits = _limits(conn, req, id, req.query.one('user_id'))
    return {'quota_set': {'id': id, **LIMITS.builder(req)(limits)}}


def defaults(req: api_request.Request, id: str) -> JsonDocument:
    if req.allows(_RULE + 'show', {'project_id': id, 'user_id': req.user_id}):  # others must not learn which IDs exist
        known.check(req, id)
    with req.services.api_db.reader() as conn:
        limits = quotas.defaults(conn, req.services.conf) | proxied_limits.limits(req.services.conf)
    return {'quota_set': {'id': id, **LIMITS.builder(req)(limits)}}


def detail(req: api_request.Request, id: str) -> JsonDocument:
    _authorize(req, 'detail', id)
    known.check(req, id)
    user_id = req.query.one('user_id')
    with req.services.api_db.reader() as conn:
        limits = LIMITS.builder(req)(_limits(conn, req, id, user_id))
        used = quotas.project_usage(conn, id, user_id)
        if not req.has('no_proxies'):
            used.update(proxied_limits.usage(conn, id))
    return {'quota_set': {'id': id, **{
        key: {'limit': limit, 'in_use': used.get(KEYS[key][0] or key, 0), 'reserved': 0}
        for key, limit in limits.items()}}}


def update(req: api_request.Request, id: str) -> JsonDocument:
    known.check(req, id)
    user_id, given = req.query.one('user_id'), dict(req.body['quota_set'])
    _check_length('user', user_id or '')
    force = given.pop('force', False)
    wanted = {resource: limit for key, limit in given.items() if (resource := KEYS[key][0]) is not None}
    of_networks = {key: limit for key, limit in given.items() if key in proxied_limits.NAMES}

    def run(conn: engine.Connection) -> Mapping[str, int]:
        quotas.lock(conn, id)
        changed = proxied_limits.changed(req.services.conf, of_networks, proxied_limits.of_project(
            conn, req.services.conf, id), user_id is None) if of_networks else {}
        if not force:
            _refuse_below_usage(wanted, quotas.project_usage(conn, id, user_id))
            if changed:
                _refuse_below_usage(of_networks, proxied_limits.usage(conn, id))
        if user_id is not None:
            _refuse_above_project(wanted, quotas.limits_of(conn, req.services.conf, id))
        quotas.set_limits(conn, id, wanted, user_id)
        db_limits.replace(conn, id, changed)
        return _limits(conn, req, id, user_id)
    return {'quota_set': LIMITS.builder(req)(req.services.api_db.run(run))}


def _check_length(kind: str, name: str) -> None:
    """
    :raises BadRequest: the database does not store the whole id
    """
    if len(name) > MAX_ID:
        raise exception.BadRequest(f'The id of a {kind} has at most {MAX_ID} characters.')


def _refuse_below_usage(wanted: dict[str, int], used: Mapping[str, int]) -> None:
    for resource, limit in wanted.items():
        if 0 <= limit < used.get(resource, 0):
            raise exception.BadRequest(f'Quota limit {limit} for {resource} must be greater than or equal to '
                                       f'already used and reserved {used[resource]}.')


def _refuse_above_project(wanted: dict[str, int], limits: Mapping[str, int]) -> None:
    for resource, limit in wanted.items():
        if limits[resource] >= 0 and not 0 <= limit <= limits[resource]:
            raise exception.BadRequest(f'Quota limit {limit} for {resource} must be less than or equal to '
                                       f'{limits[resource]}.')


def delete(req: api_request.Request, id: str) -> None:
    user_id = req.query.one('user_id')

    def run(conn: engine.Connection) -> None:
        quotas.delete_limits(conn, id, user_id)
        if user_id is None and not req.has('no_proxies'):
            db_limits.remove(conn, id, proxied_limits.NAMES.values())
    req.services.api_db.run(run)


def _class_limits(conn: engine.Connection, req: api_request.Request, id: str) -> dict[str, int]:
    conf = req.services.conf
    return (proxied_limits.limits(conf) | quotas.defaults(conn, conf)
            | quotas.class_limits(conn, quotas.DEFAULT_CLASS, CLASS_RESOURCES)
            | quotas.class_limits(conn, id, CLASS_RESOURCES))


def show_class(req: api_request.Request, id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        limits = _class_limits(conn, req, id)
    return {'quota_class_set': {'id': id, **CLASS_LIMITS.builder(req)(limits)}}


def update_class(req: api_request.Request, id: str) -> JsonDocument:
    _check_length('quota class', id)
    given = req.body['quota_class_set']
    wanted = {resource: limit for key, limit in given.items() if (resource := KEYS[key][0]) is not None}
    of_networks = {key: limit for key, limit in given.items() if key in proxied_limits.NAMES}

    def run(conn: engine.Connection) -> dict[str, int]:
        proxied_limits.changed(req.services.conf, of_networks, proxied_limits.limits(req.services.conf), False)
        quotas.set_class_limits(conn, id, wanted)
        return _class_limits(conn, req, id)
    return {'quota_class_set': CLASS_LIMITS.builder(req)(req.services.api_db.run(run))}


ROUTES = (
    Route('GET', '/os-quota-sets/{id}', show, checks=(_RULE + 'show',), query=ONE, errors=(400,)),
    Route('PUT', '/os-quota-sets/{id}', update, policy=_RULE + 'update', body=UPDATE, query=ONE, errors=(400,)),
    Route('DELETE', '/os-quota-sets/{id}', delete, policy=_RULE + 'delete', query=ONE, status=202),
    Route('GET', '/os-quota-sets/{id}/detail', detail, checks=(_RULE + 'detail',), query=ONE, errors=(400,)),
    Route('GET', '/os-quota-sets/{id}/defaults', defaults, policy=_RULE + 'defaults', query=params.Query(),
          errors=(400,)),
    Route('GET', '/os-quota-class-sets/{id}', show_class, policy=_CLASS + 'show', query=params.Query(closed=102)),
    Route('PUT', '/os-quota-class-sets/{id}', update_class, policy=_CLASS + 'update', body=UPDATE_CLASS,
          errors=(400,)),
)
