"""Security groups of a server: list, add, remove."""
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova import exception
from nova import states
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.db import engine
from nova.db.servers import instances
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

_RULE = 'os_compute_api:os-security-groups:'
_GROUP = params.Object(params.Param('name', params.string(1), required=True), closed=False)


# ---- views -------------------------------------------------------------------

def rule_view(rule: api_request.Row, groups: Mapping[str, api_request.Row]) -> JsonDocument:
    """Return the view of an ingress rule.

    :param rule: row of security_group_rules
    :param groups: {id: row} of the remote groups of rules
    """
    low, high = rule['port_range_min'], rule['port_range_max']
    if rule['protocol'] is not None:             # -1: any port, or any ICMP type or code
        low, high = -1 if low is None else low, -1 if high is None else high
    group, addresses = {}, {}
    if rule['remote_group_id']:
        source = groups.get(rule['remote_group_id'])
        group = {'name': source['name'], 'tenant_id': source['project_id']} if source else {}
    elif not rule.get('remote_address_group_id'):
        any_address = '0.0.0.0/0' if rule['ethertype'] == 'IPv4' else '::/0'
        addresses = {'cidr': rule['remote_ip_prefix'] or any_address}
    return {'id': rule['id'], 'parent_group_id': rule['security_group_id'], 'ip_protocol': rule['protocol'],
            'from_port': low, 'to_port': high, 'group': group, 'ip_range': addresses}


def group_views(req: api_request.Request, rows: Iterable[api_request.Row]) -> list[api_request.Document]:
    """Return views of groups with their ingress rules; this API has no egress rules."""
    rules = req.services.networks.security_group_rules(req.context, [row['id'] for row in rows])
    incoming = {ident: [rule for rule in found if rule['direction'] == 'ingress']
                for ident, found in rules.items()}
    sources = req.services.networks.security_groups_by_id(
        req.context, {rule['remote_group_id'] for found in incoming.values() for rule in found} - {None})
    return [{'id': row['id'], 'name': row['name'], 'description': row['description'],
             'tenant_id': row['project_id'],
             'rules': [rule_view(rule, sources) for rule in sorted(incoming[row['id']], key=lambda rule: rule['id'])]}
            for row in rows]


# ---- operations --------------------------------------------------------------

def index(req: api_request.Request, server_id: str) -> JsonDocument:
    server_lookup.get(req, server_id, _RULE + 'list')
    rows = req.services.networks.security_groups_for(req.context, [server_id]).get(server_id, [])
    return {'security_groups': group_views(req, rows)}


def add(req: api_request.Request, id: str) -> None:
    _change(req, id, 'addSecurityGroup', _RULE + 'add', req.services.networks.add_security_group)


def remove(req: api_request.Request, id: str) -> None:
    _change(req, id, 'removeSecurityGroup', _RULE + 'remove', req.services.networks.remove_security_group)


def _change(req: api_request.Request, server_id: str, name: str, rule: str, change: Callable[..., Any]) -> None:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row: api_request.Row = server_lookup.find(req, conn, server_id, rule)
    if row['locked'] and not req.context.is_admin:
        raise exception.InstanceIsLocked(instance_id=server_id)
    if row['vm_state'] == states.BUILDING or row['task_state'] == states.DELETING:
        attr = 'vm_state' if row['vm_state'] == states.BUILDING else 'task_state'
        raise exception.InstanceInvalidState(attr=attr, instance_id=server_id, method=name, state=row[attr])
    change(req.context, row['project_id'], server_id, req.body[name]['name'])
    cell.db.run(_show_names, req, server_id)
    reload_filters(req)


def _show_names(conn: engine.Connection, req: api_request.Request, server_id: str) -> None:
    """Store the names of the server's security groups in its row.

    The row is locked before the groups are read. So the last of several concurrent requests stores the current
    groups.
    """
    instances.lock(conn, server_id)
    groups = req.services.networks.security_groups_for(req.context, [server_id]).get(server_id, [])
    instances.set_where(conn, server_id, {'security_groups': [group['name'] for group in groups]})


def reload_filters(req: api_request.Request) -> None:
    """Cast to the network services of all cells to reload filters. Hosts that miss it reload at their next report."""
    for cell in {cell.transport_url: cell for cell in req.services.cells.all()}.values():
        try:
            cell.rpc.network.refresh_ports(req.context, port_ids=[])
        except exception.Unavailable as error:
            LOG.warning('Cannot notify the network services of cell %s of changed security groups: %s',
                        cell.name, error)


_PATH = '/servers/{id}/action'
_ERRORS = (400, 401, 403, 404, 409)
ROUTES = (
    Route('GET', '/servers/{server_id}/os-security-groups', index, policy=_RULE + 'list',
          query=params.Query(closed=102), errors=(401, 403, 404)),
    Route('POST', _PATH, add, policy=_RULE + 'add', action='addSecurityGroup', status=202, errors=_ERRORS,
          body=params.Object(params.Param('addSecurityGroup', _GROUP, required=True), closed=False)),
    Route('POST', _PATH, remove, policy=_RULE + 'remove', action='removeSecurityGroup', status=202, errors=_ERRORS,
          body=params.Object(params.Param('removeSecurityGroup', _GROUP, required=True), closed=False)),
)
