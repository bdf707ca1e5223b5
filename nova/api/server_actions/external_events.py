"""POST /os-server-external-events: events from the network, block storage, bare metal and accelerator services."""
import itertools
from collections.abc import Collection, Iterator
from typing import Any

from nova import actions
from nova import exception
from nova import states
from nova.api.servers import casts
from nova.api import cell_queries
from nova.api import request as api_request
from nova.api import versions
from nova.api.server_actions import actions as server_actions
from nova.db.cells import cells as db_cells
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import port_devices
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.web import params
from nova.web.request import Response
from nova.web.routes import Route

RULE = 'os_compute_api:os-server-external-events:create'

MAX_EVENTS = 1000         # maximum number of events in a request

# name of an event -> first version
SINCE = {
    'network-changed': 1, 'network-vif-plugged': 1, 'network-vif-unplugged': 1, 'network-vif-deleted': 1,
    'volume-extended': versions.SINCE['action_events_for_owners'],
    'power-update': versions.SINCE['power_update_event'],
    'accelerator-request-bound': versions.SINCE['accelerator_event'],
    'volume-reimaged': versions.SINCE['rebuild_volume_backed'],
}
# events that require a tag: the ID of a volume or accelerator request
NEED_TAG = ('volume-extended', 'accelerator-request-bound', 'volume-reimaged')
# tag of the event power-update -> action that sets this power state
POWER = {'POWER_ON': 'os-start', 'POWER_OFF': 'os-stop'}


def _names() -> Iterator[params.Param]:
    """Yield a Param for each range of microversions; newer microversions allow more names."""
    steps = sorted(set(SINCE.values()))
    for since, after in itertools.zip_longest(steps, steps[1:]):
        names = [name for name, first in SINCE.items() if first <= since]
        yield params.Param('name', {'type': 'string', 'enum': names}, since=since, until=after and after - 1,
                           required=True)


CREATE = params.Object(params.Param('events', params.Array(params.Object(
    *_names(),
    params.Param('server_uuid', params.UUID, required=True),
    params.Param('status', {'type': 'string', 'enum': ['failed', 'completed', 'in-progress']}),
    params.Param('tag', params.string(max_length=255)),
), minItems=1, maxItems=MAX_EVENTS), required=True))


def create(req: api_request.Request) -> Response:
    """Process events; each gets a code: 200 accepted, 400 invalid tag, 404 unknown server, 422 no host."""
    events = [{'status': 'completed', **event} for event in req.body['events']]
    found = _servers(req, {event['server_uuid'] for event in events})
    accepted: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        here = found.get(event['server_uuid'])
        if event['name'] == 'network-vif-deleted' and here is not None:
            _forget_device(*here, event.get('tag') or '')
        event['code'] = _code(event, here[1] if here else None)
        if here is None or event['code'] != 200:
            event['status'] = 'failed'
            continue
        cell, row = here
        if event['name'] == 'power-update':
            _power(req, cell, row, event['tag'])
        else:
            accepted.setdefault(row['uuid'], []).append(
                {name: event.get(name) for name in ('name', 'tag', 'status')})
            if event['name'] == 'volume-extended':
                cell.db.run(instance_actions.insert, req.context, [row['uuid']], 'extend_volume', finished=True)
    for uuid, of_server in accepted.items():
        cell, row = found[uuid]
        casts.to_host(req, cell, row, cell.rpc.compute.external_instance_event, events=of_server)
    failed = any(event['code'] != 200 for event in events)
    return Response({'events': events}, status=207 if failed else 200)


def _servers(req: api_request.Request, uuids: Collection[str]) -> dict[str, tuple[db_cells.Cell, InstancesRow]]:
    """Return {uuid: (cell, row)} of existing servers in all projects."""
    found = {}
    for cell, here in cell_queries.ask(req, lambda conn: instances.get_many(conn, list(uuids)))[0]:
        for uuid, row in here.items():
            if uuid not in found or row['host']:  # if both cells of a move have a row, take the row with a host
                found[uuid] = cell, row
    return found


def _forget_device(cell: db_cells.Cell, row: InstancesRow, port_id: str) -> None:
    """Release the device of a deleted port if the server is offloaded; otherwise its host releases the device."""
    if row['vm_state'] == states.SHELVED_OFFLOADED:
        cell.db.run(port_devices.release_offloaded, row['uuid'], port_id)


def _code(event: api_request.Document, row: InstancesRow | None) -> int:
    if event['name'] in NEED_TAG and not event.get('tag'):
        return 400
    if event['name'] == 'power-update' and event.get('tag') not in POWER:
        return 400
    if row is None:
        return 404
    return 200 if row['host'] else 422


def _power(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow, tag: str) -> None:
    """Start or stop a server after a power change of its bare metal node, unless its state or a task forbids this."""
    action = actions.ACTIONS[POWER[tag]]
    arguments = {'clean_shutdown': False} if action.name == 'os-stop' else {}
    try:
        row = cell.db.run(tasks.begin, req.context, row['uuid'], action, arguments or None, admin=True)
    except (exception.Conflict, exception.InstanceNotFound):
        return
    server_actions.cast(req, cell, row, action, **arguments)


ROUTES = (
    Route('POST', '/os-server-external-events', create, policy=RULE, body=CREATE, also=(207,), errors=(400, 403)),
)
