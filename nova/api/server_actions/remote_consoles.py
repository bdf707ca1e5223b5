"""Remote consoles and their access tokens."""
import functools
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from nova import exception
from nova import states
from nova.api import cell_queries
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db.servers import console_tokens
from nova.identity import tokens
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.routes import Route

RULE = 'os_compute_api:os-remote-consoles'
TOKENS = 'os_compute_api:os-console-auth-tokens'

# console type -> (protocol, (group, option) of the proxy's URL or None); None: the type is refused
TYPES = {
    'novnc': ('vnc', ('vnc', 'novncproxy_base_url')),
    'xvpvnc': ('vnc', None),                           # this type is refused, see nova/console/xvp.py
    'spice-html5': ('spice', ('spice', 'html5proxy_base_url')),
    'spice-direct': ('spice', ('spice', 'spice_direct_proxy_base_url')),
    'serial': ('serial', ('serial_console', 'base_url')),
    'rdp-html5': ('rdp', None),
    'webmks': ('mks', ('mks', 'mksproxy_base_url')),
}
_HIDDEN = (states.DELETING, states.MIGRATING)          # tasks during which consoles are unavailable


def issue_url(req: api_request.Request, server_id: str, protocol: str, console_type: str) -> str:
    """Return the URL that opens a console of a server."""
    kind, option = TYPES[console_type]
    if kind != protocol:
        raise exception.ConsoleTypeInvalid(console_type=console_type)
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id, RULE)
    base_url = option and req.services.conf[option[0]][option[1]]
    if not base_url:
        raise exception.ConsoleTypeUnavailable(console_type=console_type)
    if row['task_state'] in _HIDDEN:
        raise exception.InstanceInvalidState(attr='task_state', instance_id=server_id, method='get_console',
                                             state=row['task_state'])
    row, address = server_actions.ask_host(req, server_id, RULE, 'consoles', 'get_console', kind=kind)
    if address is None:
        raise exception.ConsoleTypeUnavailable(console_type=console_type)
    token, password = str(uuid.uuid4()), address.pop('password', None)
    if password and console_type == 'spice-direct':                      # the native SPICE proxy gets no password
        raise exception.ConsoleTypeUnavailable(console_type=console_type)
    bound, claims = req.services.conf.consoleauth.end_with_user_token, req.context.token_claims
    claims = tokens.text_of(claims, req.context.roles) if bound and claims else None
    cell.db.run(console_tokens.insert, token, req.services.conf.consoleauth.token_ttl, {
        'instance_uuid': server_id, 'console_type': console_type, 'instance_host': row['host'],
        'project_id': req.context.project_id, 'user_id': req.context.user_id,
        'user_token_id': req.context.token_id if bound else None, 'user_claims': claims,
        'user_token_expires_at': req.context.token_expires_at if bound else None, **address}, password)
    return url_of(base_url, console_type, token)


def url_of(base_url: str, console_type: str, token: str) -> str:
    """Build the URL: noVNC requests ``path`` from the proxy, so the token is in ``path``; others read ``token``."""
    query = {'path': f'?token={token}'} if console_type == 'novnc' else {'token': token}
    return f'{base_url}{"&" if "?" in base_url else "?"}{urllib.parse.urlencode(query)}'


def create(req: api_request.Request, server_id: str) -> JsonDocument:
    wanted = req.body['remote_console']
    protocol, console_type = wanted['protocol'], wanted['type']
    return {'remote_console': {'protocol': protocol, 'type': console_type,
                               'url': issue_url(req, server_id, protocol, console_type)}}


def _action(name: str, protocol: str, req: api_request.Request, id: str) -> JsonDocument:
    console_type = req.body[name]['type']
    return {'console': {'type': console_type, 'url': issue_url(req, id, protocol, console_type)}}


def removed(req: api_request.Request, id: str) -> NoReturn:
    raise exception.BadRequest('RDP consoles have been removed.')


def show_token(req: api_request.Request, id: str) -> JsonDocument:
    _cell, found = cell_queries.first(req, lambda conn: console_tokens.get(conn, id))
    if found is None:
        raise exception.ConsoleTokenNotFound()
    if not req.has('console_tokens') and found['console_type'] != 'rdp-html5':
        raise exception.Unauthorized('The requested console type details are not accessible')
    names = ['instance_uuid', 'host', 'port', 'internal_access_path']
    if req.has('spice_direct'):
        names.append('tls_port')
    return {'console': {name: found[name] for name in names}}


# ---- routes ------------------------------------------------------------------

def _body(types: Iterable[str], protocols: Iterable[str]) -> params.Object:
    return params.Object(params.Param('protocol', {'enum': list(protocols)}, required=True),
                         params.Param('type', {'enum': list(types)}, required=True))


_OLD_TYPES = ('novnc', 'xvpvnc', 'spice-html5', 'serial', 'rdp-html5')
_OLD_PROTOCOLS = ('vnc', 'spice', 'serial', 'rdp')
CREATE = params.Object(
    params.Param('remote_console', _body(_OLD_TYPES, _OLD_PROTOCOLS), since=6, until=7, required=True),
    params.Param('remote_console', _body((*_OLD_TYPES, 'webmks'), (*_OLD_PROTOCOLS, 'mks')), since=8, until=98,
                 required=True),
    params.Param('remote_console', _body((*_OLD_TYPES, 'webmks', 'spice-direct'), (*_OLD_PROTOCOLS, 'mks')), since=99,
                 required=True))

_ERRORS = (400, 401, 403, 404, 409, 501)


def _row(name: str, handler: Callable[..., Any], body: params.Object | None) -> Route:
    return Route('POST', '/servers/{id}/action', handler, policy=RULE, until=5, status=200, action=name, body=body,
                 errors=_ERRORS)


def _typed(name: str, protocol: str, *types: str) -> Route:
    body = params.Object(params.Param('type', {'enum': list(types)}, required=True))
    return _row(name, functools.partial(_action, name, protocol), server_schemas.action(name, (body, 1, None)))


ROUTES = (
    Route('POST', '/servers/{server_id}/remote-consoles', create, policy=RULE, since=6, status=200, body=CREATE,
          errors=_ERRORS),
    _typed('os-getVNCConsole', 'vnc', 'novnc', 'xvpvnc'),
    _typed('os-getSPICEConsole', 'spice', 'spice-html5'),
    _typed('os-getSerialConsole', 'serial', 'serial'),
    _row('os-getRDPConsole', removed, None),
    Route('GET', '/os-console-auth-tokens/{id}', show_token, policy=TOKENS, query=params.Query(closed=99),
          errors=(400, 401, 403, 404)),
)
