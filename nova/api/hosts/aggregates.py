"""Host aggregates: groups of hosts with metadata. The metadata key ``availability_zone`` assigns hosts to a zone."""
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from nova import exception
from nova import utils
from nova.api.servers import casts
from nova.api import cell_queries
from nova.api import notifications
from nova.api import request as api_request
from nova.api import shapes
from nova.db import engine
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.db.placement import aggregates
from nova.db.placement import compute_nodes
from nova.db.placement import image_cache
from nova.db.placement import zones
from nova.image import grants
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

P = ParamSpec('P')
_RULE = 'os_compute_api:os-aggregates:'
_IMAGES = 'compute:aggregates:images'
ZONE = aggregates.ZONE
CACHE_KEY = 'os-image-cache'
MAX_IMAGES = 100                    # maximum number of images in one pre-cache request


_BASE = Fields(
    Field('id', 'id', type='integer required'),
    Field('uuid', 'uuid', since=41, type='string format=uuid required'),
    Field('name', 'name', type='string required'),
    Field(ZONE, ZONE),
    Field('created_at', lambda row, req: utils.exact_time(row['created_at']),
          type='string format=date-time required'),
    Field('updated_at', lambda row, req: utils.exact_time(row['updated_at']),
          type='string|null format=date-time required'),
    Field('deleted', lambda row, req: False, type='boolean required'),
    Field('deleted_at', lambda row, req: None, type='string|null format=date-time required'),
)
VIEW = _BASE + Fields(
    Field('hosts', 'hosts', type=shapes.HOSTS),
    Field('metadata', lambda row, req: row['metadata'] | ({ZONE: row[ZONE]} if row[ZONE] else {}),
          type='null|object required'),
)

# ---- parameters --------------------------------------------------------------

_ZONE_NAME = params.Type(params.nullable(params.string(1, 255, format='az_name')),
                         convert=lambda zone: zone and zone.strip(),
                         relaxed=params.nullable(params.string(1, 255, format='az_name_with_leading_trailing_spaces')))
CREATE = params.document('aggregate', params.Param('name', params.NAME, required=True), params.Param(ZONE, _ZONE_NAME))
UPDATE = params.document('aggregate', params.Param('name', params.NAME), params.Param(ZONE, _ZONE_NAME),
                         minProperties=1)
_ITEMS = params.Object(params.Param(None, params.nullable(params.string(max_length=255)), pattern=params.METADATA_KEY),
                       maxProperties=1024)
SET_METADATA = params.document('set_metadata', params.Param('metadata', _ITEMS, required=True))
CACHE = params.Object(params.Param('cache', params.Array(
    params.Object(params.Param('id', params.UUID, required=True)), minItems=1, maxItems=MAX_IMAGES), required=True))


def _host_body(action: str) -> params.Object:
    return params.document(action, params.Param('host', params.HOST, required=True))


def number(id: str) -> int:
    """Parse the ID of an aggregate.

    :raises BadRequest: the ID is not a number
    :raises AggregateNotFound: the ID is negative
    """
    digits = id.removeprefix('-')
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= params.MAX_INT):
        raise exception.BadRequest(f'Invalid aggregate id {id[:40]}: it must be an integer.')
    if int(id) < 0:
        raise exception.AggregateNotFound(aggregate_id=id)
    return int(id)


# ---- zones -------------------------------------------------------------------

def cell_of(req: api_request.Request, host: str) -> db_cells.Cell:
    """Return the cell of a compute host.

    :raises ComputeHostNotFound: no cell has the host
    :raises ServiceUnavailable: the host was not found, and a cell is down
    """
    for cell, _hosts in _cells_of(req, [host]):
        return cell
    raise exception.ComputeHostNotFound(host=host)


def _cells_of(req: api_request.Request, hosts: list[str]) -> list[tuple[db_cells.Cell, set[str]]]:
    """Return [(cell, subset of the compute hosts)] of the cells that have any of the hosts.

    :raises ServiceUnavailable: a host was not found, and a cell is down
    """
    found, down = req.services.cells.read(lambda conn: set(zones.of(conn, hosts)))
    if down and set(hosts).difference(*(here for _cell, here in found)):
        raise exception.ServiceUnavailable(service='database')
    return [(cell, here) for cell, here in found if here]


def _follow(req: api_request.Request, conn: engine.Connection, hosts: list[str]) -> None:
    """Update the copies of zones and aggregates in the hosts' rows of the cell databases.

    Call this in the transaction that changes the aggregates. After a crash or a concurrent build, a conductor corrects
    the copies.

    :raises HostHasServers: a host with servers would change its zone; the caller's transaction rolls back
    """
    if not hosts:
        return
    default = req.services.conf.default_availability_zone
    in_zones = {**dict.fromkeys(hosts, default), **aggregates.zones(conn, hosts)}
    in_aggregates = {**dict.fromkeys(hosts, []), **aggregates.described(conn, hosts)}

    def write(cell_conn: engine.Connection) -> None:
        zones.move(cell_conn, in_zones)
        zones.describe(cell_conn, in_aggregates)
    cells = [cell for cell, _hosts in _cells_of(req, hosts)]
    if len(cells) > 1:
        for cell in cells:
            with cell.db.reader() as cell_conn:
                zones.check(cell_conn, in_zones)
    for cell in cells:
        cell.db.run(write)


def _change(req: api_request.Request, event: str,
            function: Callable[Concatenate[engine.Connection, P], aggregates.Aggregate],
            *args: P.args, **kwargs: P.kwargs) -> JsonDocument:
    """Run ``function(conn, *args)`` of db.aggregates with members and zones locked; return the aggregate's document."""
    req.services.cells.all()             # read the cells before the lock, because the first read can insert a row

    def run(conn: engine.Connection) -> aggregates.Aggregate:
        aggregates.lock(conn)
        row = function(conn, *args, **kwargs)
        _follow(req, conn, row['hosts'])
        return row
    with exception.AsBadRequest(exception.ZoneConflict, exception.HostHasServers):
        row = req.services.api_db.run(run)
    notifications.send(req, event, row)
    return _one(req, row)


def _change_host(req: api_request.Request, event: str, id: str, function: Callable[..., Any],
                 host: str) -> JsonDocument:
    req.services.cells.all()

    def run(conn: engine.Connection) -> aggregates.Aggregate:
        aggregates.lock(conn)
        row = function(conn, number(id), host)
        _follow(req, conn, [host])
        return row
    row = req.services.api_db.run(run)
    notifications.send(req, event, row)
    return _one(req, row)


# ---- handlers ----------------------------------------------------------------

def _one(req: api_request.Request, row: api_request.Row, view: Fields = VIEW) -> JsonDocument:
    return {'aggregate': view.builder(req)(row)}


def index(req: api_request.Request) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        rows = aggregates.list(conn)
    build = VIEW.builder(req)
    return {'aggregates': [build(row) for row in rows]}


def show(req: api_request.Request, id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        return _one(req, aggregates.get(conn, number(id)))


def create(req: api_request.Request) -> JsonDocument:
    given = req.body['aggregate']
    row = req.services.api_db.run(log.naming(aggregates.create, 'id'), given['name'], given.get(ZONE))
    notifications.send(req, 'aggregate.create', row)
    return _one(req, row, _BASE)


def update(req: api_request.Request, id: str) -> JsonDocument:
    return _change(req, 'aggregate.update_prop', aggregates.update, number(id), req.body['aggregate'])


def delete(req: api_request.Request, id: str) -> None:
    def run(conn: engine.Connection) -> None:
        aggregates.lock(conn)
        aggregates.delete(conn, number(id))
    row = notifications.read(req, req.services.api_db, aggregates.get, number(id))
    req.services.api_db.run(run)
    notifications.send(req, 'aggregate.delete', row)


def add_host(req: api_request.Request, id: str) -> JsonDocument:
    host = req.body['add_host']['host']
    cell_of(req, host)
    return _change_host(req, 'aggregate.add_host', id, aggregates.add_host, host)


def remove_host(req: api_request.Request, id: str) -> JsonDocument:
    return _change_host(req, 'aggregate.remove_host', id, aggregates.remove_host, req.body['remove_host']['host'])


def set_metadata(req: api_request.Request, id: str) -> JsonDocument:
    changes = req.body['set_metadata']['metadata']
    zone = changes.get(ZONE)
    if zone is not None and not formats.az_name(zone):
        raise exception.BadRequest(f'The value of {ZONE} is not a valid zone name: ' + formats.SENTENCES['az_name'])
    return _change(req, 'aggregate.update_metadata', aggregates.set_metadata, number(id), changes)


def cache_images(req: api_request.Request, id: str) -> None:
    """Pre-cache images on the hosts of an aggregate."""
    image_ids = [image['id'] for image in req.body['cache']]
    if len(set(image_ids)) < len(image_ids):
        raise exception.BadRequest('Duplicate images in request')
    with req.services.api_db.reader() as conn:
        hosts = aggregates.get(conn, number(id))['hosts']
    for image_id in image_ids:
        with exception.AsBadRequest(exception.ImageNotFound):
            req.services.images.show(req.context, image_id)
    for cell, here in _cells_of(req, hosts):
        able = cell.db.run(_ask, req, sorted(here), image_ids)
        for host in able:
            grant = req.services.images.grant(grants.make(
                None, host, req.services.conf.conductor.task_timeout, image_ids))
            casts.send(cell, cell.rpc.compute.cache_images, req.context, server=host, image_ids=image_ids, grant=grant)


def _ask(conn: engine.Connection, req: api_request.Request, hosts: list[str], image_ids: list[str]) -> list[str]:
    """Record an image cache task for each image and capable host; return the capable hosts of this cell."""
    known: dict[str, bool] = {}
    for host, capabilities in compute_nodes.capabilities(conn, hosts):
        known[host] = known.get(host, False) or bool(capabilities.get('image_cache'))
    able = sorted(host for host in known if known[host])
    image_cache.add(conn, req.context, able, image_ids, req.services.conf.conductor.task_deadline,
                    sorted(known.keys() - set(able)))
    return able


def cached_images(req: api_request.Request, id: str) -> JsonDocument:
    """Show the progress of image caching on the hosts."""
    with req.services.api_db.reader() as conn:
        hosts = aggregates.get(conn, number(id))['hosts']
    found: dict[str, api_request.Document] = {}
    total = dict.fromkeys(image_cache.STATES, 0)
    for _cell, (numbers, failures) in cell_queries.ask(req, lambda conn: image_cache.progress(conn, hosts))[0]:
        for image_id, state, count in numbers:
            image = found.setdefault(image_id, {'id': image_id, **dict.fromkeys(image_cache.STATES, 0), 'failures': []})
            image[state] += count
            total[state] += count
        for image_id, host, reason in failures:
            found[image_id]['failures'].append({'host': host, 'reason': reason})
    return {CACHE_KEY: {**total, 'images': [found[image_id] for image_id in sorted(found)]}}


_ACTION = '/os-aggregates/{id}/action'
ROUTES = (
    Route('GET', '/os-aggregates', index, policy=_RULE + 'index', query=params.Query(closed=102)),
    Route('POST', '/os-aggregates', create, policy=_RULE + 'create', body=CREATE, errors=(400, 409)),
    Route('GET', '/os-aggregates/{id}', show, policy=_RULE + 'show', query=params.Query(closed=102), errors=(400, 404)),
    Route('PUT', '/os-aggregates/{id}', update, policy=_RULE + 'update', body=UPDATE, errors=(400, 404, 409)),
    Route('DELETE', '/os-aggregates/{id}', delete, policy=_RULE + 'delete', errors=(400, 404)),
    Route('POST', _ACTION, add_host, action='add_host', policy=_RULE + 'add_host', body=_host_body('add_host'),
          errors=(400, 404, 409)),
    Route('POST', _ACTION, remove_host, action='remove_host', policy=_RULE + 'remove_host',
          body=_host_body('remove_host'), errors=(400, 404, 409)),
    Route('POST', _ACTION, set_metadata, action='set_metadata', policy=_RULE + 'set_metadata', body=SET_METADATA,
          errors=(400, 404)),
    Route('POST', '/os-aggregates/{id}/images', cache_images, policy=_IMAGES, since=81, status=202, body=CACHE,
          errors=(400, 404)),
    Route('GET', '/os-aggregates/{id}/' + CACHE_KEY, cached_images, policy='nova:os-aggregates:images:show',
          query=params.Query(closed=1), errors=(400, 404)),
)
