"""POST /os-server-external-events: what the services of networks, volumes, power and accelerators tell of servers."""
import itertools

from nova import actions
from nova import exception
from nova.api import casts
from nova.api import cell_queries
from nova.api import versions
from nova.api.server_actions import actions as server_actions
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.web import params
from nova.web.params import Array
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import string
from nova.web.request import Response
from nova.web.routes import Route

RULE = 'os_compute_api:os-server-external-events:create'

MAX_EVENTS = 1000         # of one request

# name of an event -> version that brought it
SINCE = {
    'network-changed': 1, 'network-vif-plugged': 1, 'network-vif-unplugged': 1, 'network-vif-deleted': 1,
    'volume-extended': versions.SINCE['action_events_for_owners'],
    'power-update': versions.SINCE['power_update_event'],
    'accelerator-request-bound': versions.SINCE['accelerator_event'],
    'volume-reimaged': versions.SINCE['rebuild_volume_backed'],
}
# the tag says which volume or request it is about
NEED_TAG = ('volume-extended', 'accelerator-request-bound', 'volume-reimaged')
# tag of power-update -> the action that brings the server there
POWER = {'POWER_ON': 'os-start', 'POWER_OFF': 'os-stop'}


def _names():
    """A Param a set of names: they grow with the versions."""
    steps = sorted(set(SINCE.values()))
    for since, after in itertools.zip_longest(steps, steps[1:]):
        names = [name for name, first in SINCE.items() if first <= since]
        yield Param('name', {'type': 'string', 'enum': names}, since=since, until=after and after - 1, required=True)


CREATE = Object(Param('events', Array(Object(
    *_names(),
    Param('server_uuid', params.UUID, required=True),
    Param('status', {'type': 'string', 'enum': ['failed', 'completed', 'in-progress']}),
    Param('tag', string(max_length=255)),
), minItems=1, maxItems=MAX_EVENTS), required=True))


def create(req):
    """Each event with the code of what became of it: 200 taken, 400 its tag, 404 no such server, 422 no host."""
    events = [{'status': 'completed', **event} for event in req.body['events']]
    found = _servers(req, {event['server_uuid'] for event in events})
    accepted = {}
    for event in events:
        cell, row = found.get(event['server_uuid'], (None, None))
        event['code'] = _code(event, row)
        if event['code'] != 200:
            event['status'] = 'failed'
        elif event['name'] == 'power-update':
            _power(req, cell, row, event['tag'])
        else:
            accepted.setdefault(row['uuid'], []).append(
                {name: event.get(name) for name in ('name', 'tag', 'status')})
            if event['name'] == 'volume-extended':
                cell.db.run(instance_actions.insert, req.context, [row['uuid']], 'extend_volume', finished=True)
    for uuid, told in accepted.items():
        cell, row = found[uuid]
        casts.to_host(req, cell, row, cell.rpc.compute.external_instance_event, events=told)
    failed = any(event['code'] != 200 for event in events)
    return Response({'events': events}, status=207 if failed else 200)


def _servers(req, uuids):
    """{uuid: (cell, row)} of those that exist, of any project."""
    found = {}
    for cell, here in cell_queries.ask(req, lambda conn: instances.get_many(conn, list(uuids)))[0]:
        for uuid, row in here.items():
            if uuid not in found or row['host']:       # one that moves to its cell is in two for a moment
                found[uuid] = cell, row
    return found


def _code(event, row):
    if event['name'] in NEED_TAG and not event.get('tag'):
        return 400
    if event['name'] == 'power-update' and event.get('tag') not in POWER:
        return 400
    if row is None:
        return 404
    return 200 if row['host'] else 422


def _power(req, cell, row, tag):
    """The server follows what happened to its machine; one that is there already, or busy, is left alone."""
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
