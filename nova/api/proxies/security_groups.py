"""Security groups and their rules (until 2.35)."""
import re

from nova import context as nova_context
from nova import exception
from nova.api import request as api_request
from nova.api.attachments import security_groups
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.network import group_rules
from nova.web import formats
from nova.web import params
from nova.web.routes import Route

_RULE = 'os_compute_api:os-security-groups:'
LAST = 35
_NUMBER = re.compile('-?[0-9]{1,5}')     # port number, ICMP type or code

_TEXT = params.string(0, 255)
_GROUP = params.Object(params.Param('security_group', params.Object(
    params.Param('name', _TEXT, required=True), params.Param('description', _TEXT, required=True), closed=False),
    required=True), closed=False)
_ANYTHING: dict[str, object] = {}
_NEW_RULE = params.Object(params.Param('security_group_rule', params.Object(
    params.Param('parent_group_id', params.UUID, required=True), params.Param('group_id', params.nullable(params.UUID)),
    *(params.Param(name, _ANYTHING) for name in ('ip_protocol', 'from_port', 'to_port', 'cidr')), closed=False),
    required=True), closed=False)
_LIST = params.Query(params.Param('limit', params.LIMIT), params.Param('offset', params.LIMIT),
                     params.Param('all_tenants', params.STRING))


def _ident(ident: str) -> str:
    """Check the ID of a group or rule.

    :raises BadRequest: the ID is not a UUID
    """
    if not formats.is_uuid(ident):
        raise exception.BadRequest(f'Security group id {ident[:40]} is not a UUID.')
    return ident


def _view(req: api_request.Request, row: api_request.Row) -> JsonDocument:
    return {'security_group': security_groups.group_views(req, [row])[0]}


def index(req: api_request.Request) -> JsonDocument:
    everybody = req.context.is_admin and req.query.one('all_tenants', '') not in ('', '0', 'false', 'False')
    rows = req.services.networks.groups_of(req.context).list(nova_context.ALL_PROJECTS if everybody else req.project_id)
    rows = rows[req.query.one('offset', 0):]
    rows = rows[:min(req.query.one('limit', len(rows)), req.services.conf.api.max_limit)]
    return {'security_groups': security_groups.group_views(req, rows)}


def show(req: api_request.Request, id: str) -> JsonDocument:
    return _view(req, req.services.networks.groups_of(req.context).show(req.context.sees, _ident(id)))


def _texts(req: api_request.Request) -> tuple[str, str]:
    """Return (name, description) of the body.

    :raises BadRequest: the name is empty
    """
    given = req.body['security_group']
    name = given['name']
    if not name.strip():
        raise exception.BadRequest('A security group must have a name.')
    if any(ord(character) < 32 for character in name + given['description']):
        raise exception.BadRequest('Control characters are not allowed.')
    return name, given['description']


def create(req: api_request.Request) -> JsonDocument:
    return _view(req, req.services.networks.groups_of(req.context).create(req.project_id, *_texts(req)))


def update(req: api_request.Request, id: str) -> JsonDocument:
    return _view(req, req.services.networks.groups_of(req.context).update(req.context.sees, _ident(id), *_texts(req)))


def delete(req: api_request.Request, id: str) -> None:
    req.services.networks.groups_of(req.context).delete(req.context.sees, _ident(id))


# ---- rules -------------------------------------------------------------------

def port(value: Json, name: str) -> int | None:
    """Parse a port, ICMP type or code; -1 and empty values become None.

    :raises BadRequest: the value is not a number
    """
    if value is None or value == '':
        return None
    if isinstance(value, (bool, float)) or not _NUMBER.fullmatch(str(value)):
        raise exception.BadRequest(f'{name} is not a number.')
    return None if int(str(value)) == -1 else int(str(value))


def network(value: Json) -> tuple[str | None, str]:
    """Return (address range or None, ethertype).

    :raises BadRequest: the value is not a network
    """
    if not value:
        return None, 'IPv4'
    try:
        found = group_rules.parse_prefix(value if isinstance(value, str) else '')
    except ValueError:
        raise exception.BadRequest(f'Invalid cidr {str(value)[:60]}.') from None
    return str(found), f'IPv{found.version}'


def create_rule(req: api_request.Request) -> JsonDocument:
    given = req.body['security_group_rule']
    protocol = given.get('ip_protocol')
    if protocol is not None and (isinstance(protocol, (bool, float, dict, list)) or len(str(protocol)) > 40):
        raise exception.BadRequest('ip_protocol is neither a name nor a number.')
    if protocol in (None, '') and not given.get('group_id'):
        raise exception.BadRequest('A rule must have ip_protocol or group_id.')
    prefix, ethertype = (None, 'IPv4') if given.get('group_id') else network(given.get('cidr'))
    row = req.services.networks.groups_of(req.context).add_rule(req.context.sees, {
        'security_group_id': given['parent_group_id'], 'ethertype': ethertype, 'protocol': protocol or None,
        'port_range_min': port(given.get('from_port'), 'from_port'),
        'port_range_max': port(given.get('to_port'), 'to_port'), 'remote_ip_prefix': prefix,
        'remote_group_id': given.get('group_id') or None})
    security_groups.reload_filters(req)
    sources = req.services.networks.security_groups_by_id(req.context, {row['remote_group_id']} - {None})
    return {'security_group_rule': security_groups.rule_view(row, sources)}


def delete_rule(req: api_request.Request, id: str) -> None:
    req.services.networks.groups_of(req.context).remove_rule(req.context.sees, _ident(id))
    security_groups.reload_filters(req)


_PATH, _RULES = '/os-security-groups', '/os-security-group-rules'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'get', until=LAST, query=_LIST, errors=(400, 401, 403, 404)),
    Route('POST', _PATH, create, policy=_RULE + 'create', until=LAST, body=_GROUP, errors=(400, 401, 403)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', until=LAST, errors=(400, 401, 403, 404)),
    Route('PUT', _PATH + '/{id}', update, policy=_RULE + 'update', until=LAST, body=_GROUP,
          errors=(400, 401, 403, 404)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', until=LAST, status=202,
          errors=(400, 401, 403, 404)),
    Route('POST', _RULES, create_rule, policy=_RULE + 'rule:create', until=LAST, body=_NEW_RULE,
          errors=(400, 401, 403, 404)),
    Route('DELETE', _RULES + '/{id}', delete_rule, policy=_RULE + 'rule:delete', until=LAST, status=202,
          errors=(400, 401, 403, 404, 409)),
)
