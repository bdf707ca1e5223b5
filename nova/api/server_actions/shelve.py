"""The actions shelve, shelveOffload and unshelve."""


from nova import actions
from nova import exception
from nova import states
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import create_facts
from nova.api.servers import lookup as server_lookup
from nova.api.servers.spec import Placement
from nova.api.servers import schemas as server_schemas
from nova.db.cells import cells as db_cells
from nova.db.placement import zones
from nova.db.servers import request_specs
from nova.db.servers import tasks
from nova.web import params

TO_HOST = 'os_compute_api:os-shelve:unshelve_to_host'

ZONE = params.Object(params.Param('availability_zone', params.NAME, required=True), nullable=True)
ZONE_OR_HOST = params.Object(params.Param('availability_zone', params.nullable(params.STRING)),
                             params.Param('host', params.STRING), nullable=True)


def shelve(req: api_request.Request, id: str) -> None:
    action = actions.ACTIONS['shelve']
    cell, row = server_actions.find(req, id, action)
    tasks.check_states(row, action)
    if row['image_id']:
        image = server_actions.snapshot_of(req, row, f"{row['display_name'][:247]}-shelved", {})
        row, image_id = server_actions.begin_with_image(req, cell, id, action, image, {'clean_shutdown': True})
    else:                                     # the server boots from a volume and needs no image
        image_id = None
        row = server_actions.begin(req, cell, id, action, {'image_id': None, 'clean_shutdown': True})
    server_actions.cast(req, cell, row, action, image_id=image_id, clean_shutdown=True)


def unshelve(req: api_request.Request, id: str) -> None:
    action = actions.ACTIONS['unshelve']
    wanted = (req.body['unshelve'] or {}) if req.has('unshelve_zone') else {}
    cell, row = server_actions.find(req, id, action)
    if wanted.get('host') is not None:
        req.authorize(TO_HOST, server_lookup.target(row))
    if wanted and row['vm_state'] == states.SHELVED:
        raise exception.Conflict(f'Server {id} still has a host: another zone or host is only possible after it was '
                                 'offloaded.')
    pins = 'availability_zone' in wanted
    zone = wanted['availability_zone'] if pins else row['pinned_availability_zone']
    _check_place(req, cell, zone if pins else None, zone, wanted.get('host'))
    row = server_actions.begin(req, cell, id, action, {'host': wanted.get('host')},
                               {'pinned_availability_zone': zone} if pins else None)
    if pins:
        req.services.api_db.run(request_specs.pin, id, zone)
    casts.send(cell, cell.rpc.conductor.unshelve_instance, req.context, instance_uuid=id)


def _check_place(req: api_request.Request, cell: db_cells.Cell, named: str | None, zone: str | None,
                 host: str | None) -> None:
    """Check that the requested zone and host exist, and that the host is in the zone.

    :param named: zone in the request
    :param zone: zone to which the server will be pinned
    :raises BadRequest: unknown zone or host
    :raises Conflict: the host is in another zone
    """
    if '' in (named, host):
        raise exception.BadRequest('The name of an availability zone or host must not be empty.')
    place: Placement = {'availability_zone': named, 'force_host': None, 'requested_host': host, 'force_node': None,
                        'requested_node': None}
    create_facts.check_place(req, {'availability_zone': named}, place, cell)
    if host and zone:
        with cell.db.reader() as conn:
            found = zones.of(conn, [host]).get(host)
        if found != zone:
            raise exception.Conflict(f'Host {host[:80]} is not in availability zone {zone[:80]}.')


ROUTES = (
    server_actions.route('shelve', shelve),
    server_actions.route('shelveOffload', server_actions.plain('shelveOffload')),
    server_actions.route('unshelve', unshelve, (server_schemas.ANY, 1, 76), (ZONE, 77, 90), (ZONE_OR_HOST, 91, None),
                         checks=(TO_HOST,)),
)
