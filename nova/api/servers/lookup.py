"""Lookup of servers for requests: cell, project, and state of the host."""
from nova import exception
from nova.json_types import JsonDocument
from nova import utils
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import fields as server_fields
from nova.db import engine
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.db.servers import history
from nova.db.servers import instances
from nova.db.servers import listing
from nova.db.services import services as services_db
from nova.db.tables.rows import InstancesRow
from nova.web import formats
from nova.web.fields import Fields


def cell_of(req: api_request.Request, server_id: str) -> db_cells.Cell:
    """Return the cell of a server.

    :raises InstanceNotFound: the ID is malformed or unknown
    """
    if len(server_id) != 36 or not formats.is_uuid(server_id):
        raise exception.InstanceNotFound(instance_id=server_id[:80])
    cells = req.services.cells
    if len(cells.all()) == 1:
        req.found_in[server_id] = cells.default.uuid   # read by has_moved; a new cell may be unknown here
        return cells.default
    cell = cells.mapped(server_id)
    if cell is None:
        cell = _cell_of_deleted(req, server_id)
    else:
        req.found_in[server_id] = cell.uuid
    if cell is None:
        raise exception.InstanceNotFound(instance_id=server_id)
    return cell


def has_moved(req: api_request.Request) -> bool:
    """Return True if a server is mapped to another cell than ``cell_of`` has found for this request."""
    return any((cell := req.services.cells.mapped(server_id)) is not None and cell.uuid != uuid
               for server_id, uuid in req.found_in.items())


def _cell_of_deleted(req: api_request.Request, server_id: str) -> db_cells.Cell | None:
    """Return the cell that has the history of a deleted server, or None."""
    found, _down = req.services.cells.read(lambda conn: history.deleted(conn, [server_id]))
    return next((cell for cell, known in found if known), None)


def find(req: api_request.Request, conn: engine.Connection, server_id: str, rule: str | None = None,
         deleted: bool = False, category_rule: str | None = None) -> InstancesRow:
    """Return the row of a server that is visible to the caller, as a dict.

    :param rule: policy rule, checked against the server's project
    :param deleted: also look up deleted servers
    :param category_rule: policy rule for users who act on an administrative server
    :raises InstanceNotFound: the server does not exist or is not visible
    """
    row = listing.by_uuid(conn, server_id)
    if row is None and deleted:
        row = listing.by_uuid(conn, server_id, deleted=True)
    if row is None or (row['project_id'] != req.project_id and not req.context.is_admin):
        raise exception.InstanceNotFound(instance_id=server_id)
    server_category.check_visible(req, row, category_rule)
    if rule is not None:
        req.authorize(rule, target(row))
    log.belongs_to(row['project_id'])
    return row


def locked_row(req: api_request.Request, conn: engine.Connection, server_id: str, rule: str) -> InstancesRow:
    """Like ``find``, but lock the row for an update in this transaction."""
    instances.lock(conn, server_id)
    return find(req, conn, server_id, rule)


def target(row: InstancesRow) -> api_request.Target:
    """Return the policy target of a server."""
    return {'project_id': row['project_id'], 'user_id': row['user_id']}


def get(req: api_request.Request, server_id: str, rule: str | None = None, deleted: bool = False) -> InstancesRow:
    """Like ``find``, but open a connection to the database of the server's cell."""
    with cell_of(req, server_id).db.reader() as conn:
        return find(req, conn, server_id, rule, deleted)


def answer(req: api_request.Request, conn: engine.Connection, table: Fields, row: InstancesRow) -> JsonDocument:
    """Return the fields of a server in a response, according to a table of server_fields."""
    hosts = {row['host']} if row['host'] is not None else set()
    statuses = {}
    if hosts and server_fields.shows_host_status(table, req):
        statuses = server_fields.host_statuses(conn, hosts, req.services.conf.service_down_time,
                                               utils.utcnow())
    return table.builder(req, server_fields.View(req, statuses, [row]))(row)


def host_is_up(req: api_request.Request, conn: engine.Connection, host: str | None) -> bool:
    """Return True if the compute service of a host is up and not forced down."""
    rows = listing.computes(conn, {host}) if host is not None else []
    return services_db.any_up(conn, rows, req.services.conf.service_down_time)
