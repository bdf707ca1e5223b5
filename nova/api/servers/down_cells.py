"""Minimal records of servers and services in a cell that is down, from the API database (microversion 2.69)."""
from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import fields as server_fields
from nova.db.cells import cells as db_cells
from nova.db.servers import listing
from nova.db.servers import mappings
from nova.db.servers import request_specs
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web import params
from nova.web.fields import Fields

STATUS = 'UNKNOWN'
COMPUTE = 'nova-compute'
# Lists with query keys other than these show only servers of cells that respond.
KNOWN_OF = frozenset({'all_tenants', 'deleted', 'project_id', 'tenant_id'})

Field = fields.Field

_INDEX = fields.Fields(
    Field('id', 'uuid'), Field('status', lambda row, view: STATUS), Field('links', server_fields.links))
_DETAIL = _INDEX + fields.Fields(
    Field('tenant_id', 'project_id'), Field('created', lambda row, view: utils.isotime(row['created_at'])))
_SHOW = _DETAIL + fields.Fields(
    Field('user_id', 'user_id'),
    *(row for row in server_fields.SHOW.rows if row.name in (
        'flavor', 'image', 'server_groups', server_category.KEY)),
    Field('OS-EXT-AZ:availability_zone', 'availability_zone'),
    Field('OS-EXT-STS:power_state', lambda row, view: 0))


def listed(req: api_request.Request, table: Fields, cells: list[db_cells.Cell], query: listing.Query,
           view: server_fields.View, limit: int) -> list[api_request.Document]:
    """Return minimal records of the servers of these cells for a list, newest first.

    :param table: the table of server_fields that the list shows
    :param query: listing.Query
    :param limit: maximum number of records
    """
    if not req.has('down_cells') or limit < 1 or not _whole(req.query):
        return []
    minimal = _INDEX if table is server_fields.INDEX else _DETAIL
    with req.services.api_db.reader() as conn:
        rows = mappings.of_cells(conn, [cell.uuid for cell in cells], query.project_id, limit,
                                 query.filters.get('category'))
    build = minimal.compiled(req.version)
    return [build(row, view) for row in rows]


def _whole(query: params.QueryValues) -> bool:
    """Return True if a list has no query keys other than those of KNOWN_OF, and no filter for deleted servers."""
    deleted = query.one('deleted')
    return query.keys() <= KNOWN_OF and (deleted is None or deleted in params.FALSE)


def shown(req: api_request.Request, server_id: str, rule: str) -> JsonDocument:
    """Return the minimal record of one server.

    :raises ServiceUnavailable: this version does not support cells that are down
    :raises InstanceNotFound: the server does not exist or is not visible to the caller
    """
    if not req.has('down_cells'):
        raise exception.ServiceUnavailable(service='database')
    with req.services.api_db.reader() as conn:
        row = mappings.get(conn, server_id)
        if row is None or (row['project_id'] != req.project_id and not req.context.is_admin):
            raise exception.InstanceNotFound(instance_id=server_id)
        server_category.check_visible(req, row)
        req.authorize(rule, {'project_id': row['project_id'], 'user_id': row['user_id']})
        spec = request_specs.get(conn, server_id)
    image, group = spec.image or {}, (spec.hints or {}).get('group') or [None]
    return _SHOW.compiled(req.version)({
        **row, 'flavor': spec.flavor, 'flavor_id': spec.flavor['flavor_id'], 'image_id': image.get('id'),
        'image_properties': image.get('properties') or {}, 'server_group_id': group[0],
        'availability_zone': spec.availability_zone or STATUS}, server_fields.View(req))


def services(req: api_request.Request, cells: list[db_cells.Cell], host: str | None = None,
             binary: str = COMPUTE) -> list[api_request.Document]:
    """Return minimal records of the compute services of these cells.

    :param host, binary: filters of the list
    """
    if not req.has('down_cells') or binary != COMPUTE:
        return []
    with req.services.api_db.reader() as conn:
        hosts = mappings.hosts_of_cells(conn, [cell.uuid for cell in cells])
    return [{'binary': COMPUTE, 'host': name, 'status': STATUS} for name in hosts if host in (None, name)]
