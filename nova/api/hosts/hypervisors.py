"""Hypervisors: the compute nodes with their resources and usage."""
from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from nova.db.tables.rows import ComputeNodesRow
from nova.db.tables.rows import ServicesRow
from nova import exception
from nova import utils
from nova.api import cell_queries
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.api.hosts import services as services_api
from nova.api.servers import usage_series
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import compute_nodes
from nova.db.placement import hosts
from nova.db.services import services
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.params import Param
from nova.web.params import Query
from nova.web.routes import Route

_RULE = 'os_compute_api:os-hypervisors:'
UUID_SINCE = 53


class ServedNode(ComputeNodesRow):
    """A compute node with its service."""

    service: ServicesRow


def _service(row: api_request.Row, view: _View) -> JsonDocument:
    service = row['service']
    return {'id': service['uuid' if view.req.has('uuids_for_services') else 'id'], 'host': service['host'],
            'disabled_reason': service['disabled_reason']}


def _servers(row: api_request.Row, view: _View) -> list[dict[str, str]] | fields.Absent:
    """Return the servers if requested; before 2.75 a node without servers does not have the field."""
    if view.servers is None:
        return fields.ABSENT
    found = view.servers.get(row['node'], [])
    return found if found or view.req.has('strict_keys') else fields.ABSENT


BASE = Fields(
    Field('id', 'id', until=UUID_SINCE - 1),
    Field('id', 'uuid', since=UUID_SINCE),
    Field('hypervisor_hostname', 'node', type='string required'),
    Field('state', lambda row, view: services_api.state(row['service'], view.req), type='one of up,down required'),
    Field('status', lambda row, view: services_api.status(row['service'], view.req),
          type='one of enabled,disabled required'),
)
SUMMARY = BASE + Fields(Field('servers', _servers, optional=True, type=shapes.SERVERS))
UPTIME = SUMMARY + Fields(Field('uptime', 'uptime', type='string|null required'))
VIEW = SUMMARY + Fields(
    Field('hypervisor_type', 'hypervisor_type', type='string required'),
    Field('hypervisor_version', 'hypervisor_version', type='string|integer required'),
    Field('host_ip', 'host_ip', type='null|string required'),
    Field('service', _service, type=shapes.SERVICE),
    Field('disk_available_least', 'disk_available_least', until=87, type='null|integer'),
    Field('vcpus', 'vcpus', until=87, type='integer required'),
    Field('vcpus_used', 'vcpus_used', until=87, type='integer required'),
    Field('memory_mb', 'memory_mb', until=87, type='integer required'),
    Field('memory_mb_used', 'memory_mb_used', until=87, type='integer required'),
    Field('free_ram_mb', lambda row, view: row['memory_mb'] - row['memory_mb_used'], until=87,
          type='null|integer required'),
    Field('local_gb', 'local_gb', until=87, type='integer required'),
    Field('local_gb_used', 'local_gb_used', until=87, type='integer required'),
    Field('free_disk_gb', lambda row, view: row['local_gb'] - row['local_gb_used'], until=87,
          type='null|integer required'),
    Field('running_vms', 'running_vms', until=87, type='null|integer required'),
    Field('current_workload', lambda row, view: view.workloads.get(row['node'], 0), until=87,
          type='null|integer required'),
    Field('cpu_info', lambda row, view: utils.dump_json(row['cpu_info'] or {}), until=27, type='string required'),
    Field('cpu_info', lambda row, view: row['cpu_info'] or {}, since=28, until=87, type='object required'),
    Field('uptime', 'uptime', since=88, type='string|null required'),
)
_UNKNOWN = ('running_vms', 'disk_available_least', 'free_ram_mb', 'free_disk_gb', 'current_workload')     # may be null
STATISTICS = Fields(*(
    Field(name, name, type='null|integer required' if name in _UNKNOWN else 'integer required') for name in (
        'count', 'vcpus', 'vcpus_used', 'memory_mb', 'memory_mb_used', 'local_gb', 'local_gb_used', 'running_vms',
        'disk_available_least', 'free_ram_mb', 'free_disk_gb', 'current_workload')))

_PATTERN = Param('hypervisor_hostname_pattern', params.HOST, since=UUID_SINCE)
_WITH_SERVERS = Param('with_servers', params.BOOLEAN, since=UUID_SINCE)
LIST = Query(Param('limit', params.LIMIT, since=33), Param('marker', params.STRING, since=33), _PATTERN,
             _WITH_SERVERS, closed=UUID_SINCE, single=UUID_SINCE)
ONE = Query(_WITH_SERVERS, closed=UUID_SINCE, single=UUID_SINCE)


T = TypeVar('T')
Servers = dict[str, list[dict[str, str]]]            # {node: [{uuid, name}]}


class _View:
    """Argument of the field getters: the request, and data of all listed nodes.

    servers    servers of the nodes, or None if the request does not ask for servers
    workloads  {node: number of servers with a task in progress}
    """

    def __init__(self, req: api_request.Request, servers: Servers | None = None,
                 workloads: dict[str, int] | None = None) -> None:
        self.req, self.servers, self.workloads = req, servers, workloads or {}


# ---- lookup ------------------------------------------------------------------

def _nodes(req: api_request.Request, pattern: str | None = None, after: tuple[db_cells.Cell, int] | None = None,
           limit: int | None = None) -> list[api_request.Document]:
    """Return rows of nodes with the service row of their host in 'service'; nodes without a service are omitted.

    The rows are ordered by cell, then by number. Nodes of different cells may have the same number.

    :param after: (cell, number) of the last node of the previous page
    """
    def ask(cell: db_cells.Cell) -> list[api_request.Document]:
        if after and order[cell.uuid] < order[after[0].uuid]:
            return []
        with cell.db.reader() as conn:
            known = {row['host']: row for row in services.list(conn, binary='nova-compute')}
            return [{**row, 'service': known[row['host']]} for row in compute_nodes.list(
                conn, node_like=pattern, after_id=after[1] if after and after[0] is cell else None, limit=limit,
                with_service=True)]
    order = {cell.uuid: number for number, cell in enumerate(req.services.cells.all())}
    return [row for _cell, rows in cell_queries.ask_cells(req, ask)[0] for row in rows]


def _node(req: api_request.Request, id: str) -> tuple[db_cells.Cell, api_request.Document]:
    """Return (cell, node with its service) for an ID: a UUID since 2.53, before that a number.

    :raises NotFound: the node does not exist
    :raises BadRequest: since 2.53 the ID is not a UUID; before, several cells use the number
    """
    known = _id(req, id)

    def ask(conn: engine.Connection) -> ServedNode | None:
        row = compute_nodes.get(conn, known)
        rows = services.list(conn, host=row['host'], binary='nova-compute')
        return {**row, 'service': rows[0]} if rows else None
    cell, row = cell_queries.only(req, ask, id)
    if cell is None:
        raise exception.NotFound(f"Hypervisor with ID '{id[:40]}' could not be found.")
    return cell, row


def _id(req: api_request.Request, id: str) -> str:
    if not req.has('uuids_for_services'):
        return id if len(id) != 36 else ''
    try:
        return str(uuid.UUID(id))
    except ValueError:
        raise exception.BadRequest(f'Invalid uuid {id[:40]}') from None


def _servers_of(req: api_request.Request, rows: list[api_request.Document]) -> Servers:
    nodes = [row['node'] for row in rows]
    return _by_node(req, lambda conn: hosts.servers(conn, nodes))


def _workloads(req: api_request.Request) -> dict[str, int]:
    return _by_node(req, hosts.workloads)


def _by_node(req: api_request.Request, function: Callable[[engine.Connection], dict[str, T]]) -> dict[str, T]:
    """Call ``function(conn)``, which returns {node: value}, in all cells, and merge the results."""
    return {node: value for _cell, here in cell_queries.ask(req, function)[0] for node, value in here.items()}


# ---- handlers ----------------------------------------------------------------

def index(req: api_request.Request) -> JsonDocument:
    return _list(req, SUMMARY, 'os-hypervisors')


def detail(req: api_request.Request) -> JsonDocument:
    return _list(req, VIEW, 'os-hypervisors/detail')


def _list(req: api_request.Request, view: Fields, path: str) -> JsonDocument:
    pattern = req.query.one('hypervisor_hostname_pattern')
    if pattern is not None and ('limit' in req.query or 'marker' in req.query):
        raise exception.BadRequest('Paging over hypervisors with the hypervisor_hostname_pattern query parameter '
                                   'is not supported.')
    limit = paging.limit(req) if req.has('hypervisor_paging') and pattern is None else None
    rows = _nodes(req, pattern, _marker(req), limit if limit is None else limit + 1)
    if pattern is not None and not rows:
        raise exception.NotFound(f"No hypervisor matching '{pattern}' could be found.")
    shown = rows[:limit]
    servers = _servers_of(req, shown) if req.query.one('with_servers') else None
    build = view.builder(req, _View(req, servers, _workloads(req) if view is VIEW else None))
    body = {'hypervisors': [build(row) for row in shown]}
    last = shown[-1]['uuid' if req.has('uuids_for_services') else 'id'] if shown else None
    return paging.add_links(body, req, path, 'hypervisors', last, len(rows) > len(shown))


def _marker(req: api_request.Request) -> tuple[db_cells.Cell, int] | None:
    """Return (cell, number) of the marker's node, or None."""
    marker = paging.marker(req)
    if marker is None:
        return None
    try:
        cell, row = _node(req, marker)
        return cell, row['id']
    except (exception.NotFound, exception.BadRequest):
        raise exception.InvalidMarker(marker=marker[:64]) from None


def show(req: api_request.Request, id: str) -> JsonDocument:
    _cell, row = _node(req, id)
    servers = _servers_of(req, [row]) if req.query.one('with_servers') else None
    return {'hypervisor': VIEW.builder(req, _View(req, servers, _workloads(req)))(row)}


def statistics(req: api_request.Request) -> JsonDocument:
    total = dict.fromkeys(('count', *compute_nodes.USAGE, 'vcpus', 'memory_mb', 'local_gb',
                           'disk_available_least'), 0)
    for _cell, found in cell_queries.ask(req, compute_nodes.statistics)[0]:
        for name, value in found.items():
            total[name] += value
    total['free_ram_mb'] = total['memory_mb'] - total['memory_mb_used']
    total['free_disk_gb'] = total['local_gb'] - total['local_gb_used']
    total['current_workload'] = sum(_workloads(req).values())
    return {'hypervisor_statistics': STATISTICS.builder(req)(total)}


def uptime(req: api_request.Request, id: str) -> JsonDocument:
    _cell, row = _node(req, id)
    if row['uptime'] is None:
        raise exception.Unsupported('The driver of this hypervisor does not report an uptime.')
    return {'hypervisor': UPTIME.builder(req, _View(req))(row)}


def metrics(req: api_request.Request, id: str) -> JsonDocument:
    cell, row = _node(req, id)
    with cell.db.reader() as conn:
        return {'metrics': usage_series.METRICS.builder(req)(usage_series.window(req, conn, row['uuid']))}


def search(req: api_request.Request, id: str) -> JsonDocument:
    return _matching(req, id, None)


def servers(req: api_request.Request, id: str) -> JsonDocument:
    return _matching(req, id, _servers_of)


def _matching(req: api_request.Request, pattern: str,
              find_servers: Callable[..., Servers] | None) -> JsonDocument:
    rows = _nodes(req, pattern)
    if not rows:
        raise exception.NotFound(f"No hypervisor matching '{pattern[:80]}' could be found.")
    build = SUMMARY.builder(req, _View(req, find_servers and find_servers(req, rows)))
    return {'hypervisors': [build(row) for row in rows]}


ROUTES = (
    Route('GET', '/os-hypervisors', index, policy=_RULE + 'list', query=LIST, errors=(400, 404)),
    Route('GET', '/os-hypervisors/detail', detail, policy=_RULE + 'list-detail', query=LIST, errors=(400, 404)),
    Route('GET', '/os-hypervisors/statistics', statistics, policy=_RULE + 'statistics', until=87),
    Route('GET', '/os-hypervisors/{id}', show, policy=_RULE + 'show', query=ONE, errors=(400, 404)),
    Route('GET', '/os-hypervisors/{id}/search', search, policy=_RULE + 'search', until=52, errors=(404,)),
    Route('GET', '/os-hypervisors/{id}/servers', servers, policy=_RULE + 'servers', until=52, errors=(404,)),
    Route('GET', '/os-hypervisors/{id}/os-metrics', metrics, policy='nova:hypervisors:metrics',
          query=usage_series.WINDOW, errors=(400, 404)),
    Route('GET', '/os-hypervisors/{id}/uptime', uptime, policy=_RULE + 'uptime', until=87,
          errors=(400, 404, 501)),
)
