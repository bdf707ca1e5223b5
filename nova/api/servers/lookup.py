"""Finding a server for a request: in its cell, of the caller's project, and whether its host is alive."""
from nova import exception
from nova import objects
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
    """The cell that holds a server.

    :raises InstanceNotFound: no server can have this id, or none has it
    """
    if len(server_id) != 36 or not formats.is_uuid(server_id):
        raise exception.InstanceNotFound(instance_id=server_id[:80])
    cells = req.services.cells
    if len(cells.all()) == 1:
        req.found_in[server_id] = cells.default.uuid       # unless there is another one that is not known here yet
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
    """Whether a server that ``cell_of`` has found is in another cell now: it has got its host meanwhile."""
    return any((cell := req.services.cells.mapped(server_id)) is not None and cell.uuid != uuid
               for server_id, uuid in req.found_in.items())


def _cell_of_deleted(req: api_request.Request, server_id: str) -> db_cells.Cell | None:
    """The cell whose history has a server, or None."""
    found, _down = req.services.cells.read(lambda conn: history.deleted(conn, [server_id]))
    return next((cell for cell, known in found if known), None)


def find(req: api_request.Request, conn: engine.Connection, server_id: str, rule: str | None = None,
         deleted: bool = False, category_rule: str | None = None) -> InstancesRow:
    """The row of a server that the caller may see, as a dict.

    :param rule: policy rule to check against the server's project
    :param deleted: look into the history when it is gone
    :param category_rule: what lets others than administrators act on an administrative server
    :raises InstanceNotFound: there is none, it belongs to another project, or is an administrative one
    """
    row = listing.by_uuid(conn, server_id)
    if row is None and deleted:
        row = listing.by_uuid(conn, server_id, deleted=True)
    if row is None or (row['project_id'] != req.project_id and not req.context.is_admin):
        raise exception.InstanceNotFound(instance_id=server_id)
    server_category.check_seen(req, row, category_rule)
    if rule is not None:
        req.authorize(rule, target(row))
    log.belongs_to(row['project_id'])
    return row


def locked_row(req: api_request.Request, conn: engine.Connection, server_id: str, rule: str) -> InstancesRow:
    """``find`` in a transaction that writes the row afterwards: no other request changes it in between."""
    instances.lock(conn, server_id)
    return find(req, conn, server_id, rule)


def target(row: InstancesRow) -> api_request.Document:
    """Whose it is, for the policy."""
    return {'project_id': row['project_id'], 'user_id': row['user_id']}


def get(req: api_request.Request, server_id: str, rule: str | None = None, deleted: bool = False) -> InstancesRow:
    """``find`` with a connection of its own."""
    with cell_of(req, server_id).db.reader() as conn:
        return find(req, conn, server_id, rule, deleted)


def answer(req: api_request.Request, conn: engine.Connection, table: Fields, row: InstancesRow) -> api_request.Document:
    """What a table of server_fields shows of one server."""
    hosts = {row['host']} if row['host'] is not None else set()
    statuses = {}
    if hosts and server_fields.shows_host_status(table, req):
        statuses = server_fields.host_statuses(conn, hosts, req.services.conf.service_down_time,
                                               utils.utcnow())
    return table.builder(req, server_fields.View(req, statuses, [row]))(row)


def host_is_up(req: api_request.Request, conn: engine.Connection, host: str | None) -> bool:
    """Whether the compute service of a host reports itself and is not forced down."""
    rows = listing.computes(conn, {host}) if host is not None else []
    return services_db.any_up(conn, rows, req.services.conf.service_down_time)


def to_object(row: InstancesRow) -> objects.Instance:
    """The objects.Instance that a compute gets."""
    return objects.Instance.from_row(row)
