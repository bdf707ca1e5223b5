"""Hosts (until 2.42): services, resources and power control of compute hosts."""
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from nova import exception
from nova.api import cell_queries
from nova.api import request as api_request
from nova.api.hosts import maintenance as maintenance_api
from nova.api.servers import lookup as server_lookup
from nova.db.cells import cells as db_cells
from nova.db.moves import maintenance
from nova.db.placement import aggregates
from nova.db.placement import compute_nodes
from nova.db.placement import hosts
from nova.db.services import services
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

R = TypeVar('R')
_RULE = 'os_compute_api:os-hosts:'
CONTROL = 'host_control'         # driver capability for power actions
_MOVES = ('live_migration', 'resize')        # driver capabilities for moving servers
UNTIL = 42

VIEW = Fields(
    Field('host_name', 'host', type='string required'),
    Field('service', 'topic', type='string required'),
    Field('zone', 'availability_zone', type='string required'),
)
RESOURCE = Fields(
    Field('host', lambda row, host: host), Field('project', 'project_id'), Field('cpu', 'vcpus'),
    Field('memory_mb', 'memory_mb'), Field('disk_gb', 'local_gb'))

LIST = params.Query(params.Param('zone', params.STRING))
_SWITCH = params.Type({'type': 'string', 'enum': ['enable', 'disable', 'Enable', 'Disable', 'ENABLE', 'DISABLE']},
                      convert=lambda value: value.lower() == 'enable')
UPDATE = params.Object(params.Param('status', _SWITCH), params.Param('maintenance_mode', _SWITCH))


def index(req: api_request.Request) -> JsonDocument:
    zone = req.query.one('zone')
    rows = cell_queries.rows(req, lambda conn: services.list(conn, availability_zone=zone or None))
    build = VIEW.builder(req)
    return {'hosts': [build(row) for row in rows]}


def _find(req: api_request.Request, id: str) -> tuple[db_cells.Cell, Any, list[Any]]:
    """Return (cell, row of the compute service, rows of its nodes) of a host.

    :raises ComputeHostNotFound: no cell has the host
    """
    cell, rows = cell_queries.first(req, lambda conn: services.list(conn, host=id[:255], topic='compute'))
    if cell is None:
        raise exception.ComputeHostNotFound(host=id[:255])
    with cell.db.reader() as conn:
        return cell, rows[0], compute_nodes.by_host(conn, rows[0]['host'])


def show(req: api_request.Request, id: str) -> JsonDocument:
    cell, service, nodes = _find(req, id)
    if not nodes:
        raise exception.ComputeHostNotFound(host=id[:255])
    with cell.db.reader() as conn:
        projects = hosts.usage_by_project(conn, service['host'])
    names = ('vcpus', 'memory_mb', 'local_gb')
    rows = [{'project_id': '(total)', **{name: sum(node[name] for node in nodes) for name in names}},
            {'project_id': '(used_now)', **{name: sum(node[name + '_used'] for node in nodes) for name in names}},
            {'project_id': '(used_max)', **{name: sum(row[name] for row in projects) for name in names}},
            *projects]
    build = RESOURCE.builder(req, view=service['host'])
    return {'host': [{'resource': build(row)} for row in rows]}


def update(req: api_request.Request, id: str) -> JsonDocument:
    cell, service, nodes = _find(req, id)
    if not req.body:
        raise exception.BadRequest('The request must change status or maintenance_mode.')
    shown = {'host': service['host']}
    if 'maintenance_mode' in req.body:
        on = req.body['maintenance_mode']
        if on and req.body.get('status'):
            raise exception.BadRequest('A host in maintenance is disabled; omit "status": "enable".')
        _maintain(req, cell, service['host'], nodes, on)
        shown['maintenance_mode'] = 'on_maintenance' if on else 'off_maintenance'
    if 'status' in req.body:
        enabled = req.body['status']
        if not req.body.get('maintenance_mode'):         # in maintenance, keep the reason that _maintain has set
            cell.db.run(services.update, service['id'], {'disabled': not enabled, 'disabled_reason': None})
        shown['status'] = 'enabled' if enabled else 'disabled'
    return shown


def _maintain(req: api_request.Request, cell: db_cells.Cell, host: str, nodes: list[Any], on: bool) -> None:
    """Disable a host and move its servers to other hosts of its aggregate, or enable it and move them back.

    The moves are asynchronous, as in a maintenance that is started through the aggregate.

    :raises Unsupported: the driver cannot move servers
    :raises BadRequest: the host is in no aggregate or in several
    """
    if on and not any((node['capabilities'] or {}).get(feature) for node in nodes for feature in _MOVES):
        raise exception.Unsupported('Maintenance moves the servers of a host, but the driver of this host cannot move '
                                    'servers.')
    with cell.db.reader() as conn:
        current = maintenance.aggregate_of(conn, host)
    if not on:
        if current is not None:
            cell.db.run(maintenance.stop, host, current)
        return
    if current is None:
        with req.services.api_db.reader() as conn:
            found = [row['id'] for row in aggregates.described(conn, [host]).get(host, ())]
        if len(found) != 1:
            raise exception.BadRequest(
                f'Cannot start the maintenance of host {host}: its servers move to the other hosts of its aggregate, '
                f'but it is in {len(found)} aggregates. Use os-host-maintenance:start of the intended aggregate.')
        current = found[0]
    cell.db.run(maintenance.start, req.context, host, current, maintenance_api.reason(current))


def power(action: str, req: api_request.Request, id: str) -> JsonDocument:
    """Run a power action on a host.

    :param action: 'reboot', 'shutdown' or 'startup'
    """
    cell, service, nodes = _find(req, id)
    _check_control(req, cell, service, nodes)
    return {'host': service['host'],
            'power_action': _ask(cell.rpc.compute.host_power_action, req, service, action=action)}


def _check_control(req: api_request.Request, cell: db_cells.Cell, service: api_request.Row, nodes: list[Any]) -> None:
    """Check that power actions are possible.

    :raises Unsupported: the driver does not support power actions
    :raises BadRequest: the host is down
    """
    if not nodes or not all((node['capabilities'] or {}).get(CONTROL) for node in nodes):
        raise exception.Unsupported('The driver of this host does not support power actions.')
    with cell.db.reader() as conn:
        up = server_lookup.host_is_up(req, conn, service['host'])
    if not up:
        raise exception.BadRequest(f'Compute service of {service["host"]} is unavailable at this time.')


def _ask(call: Callable[..., R], req: api_request.Request, service: api_request.Row, **arguments: object) -> R:
    with exception.AsBadRequest(exception.Unavailable):
        return call(req.context, server=service['host'], **arguments)


ROUTES = (
    Route('GET', '/os-hosts', index, policy=_RULE + 'list', until=UNTIL, query=LIST),
    Route('GET', '/os-hosts/{id}', show, policy=_RULE + 'show', until=UNTIL, errors=(404,)),
    Route('PUT', '/os-hosts/{id}', update, policy=_RULE + 'update', until=UNTIL, body=UPDATE,
          errors=(400, 404, 501)),
    *(Route('GET', f'/os-hosts/{{id}}/{action}', functools.partial(power, action), policy=_RULE + rule, until=UNTIL,
            errors=(400, 404, 501))
      for action, rule in (('reboot', 'reboot'), ('shutdown', 'shutdown'), ('startup', 'start'))),
)
