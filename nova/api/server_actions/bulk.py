"""POST /servers/action (an API extension): one action for many servers, with a result for each.

The body lists server IDs, or the query has filters of GET /servers. Each server is handled like a separate request
with the same checks; failures do not affect other servers. Unknown filters and filters without a value are refused,
so that a typo cannot select all servers.

The response is sent after the action was accepted for each server. The header ``Prefer: wait`` is ignored, because
waiting would occupy a thread until the end of all tasks.
"""
import time
import urllib.parse

from nova import exception
from nova.api import faults
from nova.api import paging
from nova.api import request as api_request
from nova.api.servers import listing as server_list
from nova.api.servers import schemas as server_schemas
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.request import Response
from nova.web.routes import Route

KEY = 'os-bulk-action'
MAX_SERVERS = 1000               # limit of one request; each server takes some milliseconds
MAX_S = 60                       # seconds; then the remaining servers are refused, because hosts may be slow
DELETE = 'delete'                # an action that /servers/{id}/action does not have

_EMPTY_MEANS_TRUE = frozenset({'all_tenants', 'deleted', 'soft_deleted'})
_NO_FILTERS = frozenset({'limit', 'marker', 'sort_key', 'sort_dir'})

BODY = params.document(
    KEY, params.Param('action', {'type': 'object', 'minProperties': 1, 'maxProperties': 1}, required=True),
    params.Param('ids', params.Array(params.UUID, minItems=1, maxItems=MAX_SERVERS, uniqueItems=True)))


def act(req: api_request.Request) -> JsonDocument | Response:
    wanted = req.body[KEY]
    (name, value), = wanted['action'].items()
    _check_action(req, name)
    ids, more = wanted.get('ids'), False
    given = dict(params.parse_query(req.environ.get('QUERY_STRING', '')))
    filters = given.keys() - _NO_FILTERS
    if bool(ids) == bool(filters):
        raise exception.BadRequest('Select the servers either by ids in the body or by filters in the query.')
    unused = server_list.without_effect(req, filters) or sorted(
        name for name in filters - _EMPTY_MEANS_TRUE if not given[name])
    if unused:
        raise exception.BadRequest(f'This query parameter is not a supported filter, or it is empty: {unused[0][:80]}')
    if not ids:
        code, found = req.ask('GET', '/servers', query=_page(req))
        if code != 200:
            return Response(found, status=code)
        ids, more = [server['id'] for server in found['servers']], 'servers_links' in found
    deadline = time.monotonic() + MAX_S
    results = []
    for server_id in ids:
        results.append(_one(req, server_id, name, value) if time.monotonic() < deadline else _too_late(req, server_id))
        req.rest()
    accepted = sum(result['code'] < 300 for result in results)
    return {KEY: {'accepted': accepted, 'refused': len(results) - accepted, 'more': more, 'results': results}}


def _check_action(req: api_request.Request, name: str) -> None:
    """Refuse the whole request if the action is unknown."""
    known = {row.action for row in req.services.application.api.routes
             if row.path == '/servers/{id}/action' and row.since <= req.version <= (row.until or req.version)}
    if name not in known | {DELETE}:
        raise exception.BadRequest(f'There is no such action: {name[:40]}')


def _page(req: api_request.Request) -> str:
    """Return the query of GET /servers with a limit of at most MAX_SERVERS."""
    pairs = [pair for pair in params.parse_query(req.environ.get('QUERY_STRING', '')) if pair[0] != 'limit']
    return urllib.parse.urlencode([*pairs, ('limit', min(paging.limit(req), MAX_SERVERS))])


def _one(req: api_request.Request, server_id: str, name: str, value: Json) -> api_request.Document:
    """Return the result for one server: {'id', 'code'}, and the fault if the action was refused."""
    if name == DELETE:
        code, answer = req.ask('DELETE', f'/servers/{server_id}', counted=True)
    else:
        code, answer = req.ask('POST', f'/servers/{server_id}/action', {name: value}, counted=True)
    result = {'id': server_id, 'code': code}
    if answer:
        result['fault' if code >= 400 else 'answer'] = answer
    return result


def _too_late(req: api_request.Request, server_id: str) -> api_request.Document:
    code, _headers, fault = faults.answer(
        exception.Unavailable(f'The request took longer than {MAX_S} seconds; the action was not started.'),
        req.request_id, req.header('Accept-Language'))
    return {'id': server_id, 'code': code, 'fault': fault}


ROUTES = (
    Route('POST', '/servers/action', act, policy='nova:servers:bulk_action', body=BODY, query=server_schemas.LIST,
          errors=(400, 401, 403)),
)
