"""EC2 operations that start, stop, reboot and terminate instances."""
from collections.abc import Callable
import contextlib
from typing import Any
import urllib.parse

from nova.api.servers.schemas import CATEGORY
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import waits
from nova.ec2.instances import states
from nova.ec2.instances import views
from nova.ec2.networks import public_addresses
from nova.ec2.server import Server
from nova.ec2.volumes import deletion
from nova.json_types import JsonDocument


def _changes(req: operations.Request, given: operations.Given, done: dict[str, str],
             change: Callable[[Server], str]) -> list[dict[str, Any]]:
    """Change each instance of a request; return the previous and current states.

    :param done: {state that needs no change: itself}
    :param change: function(server) -> new state
    """
    servers = views.servers_of(req, given['InstanceIds'])
    rows = []
    names = req.ids.shown('i', [server['id'] for server in servers])
    for server in servers:
        before = states.state_of(server)
        after = done.get(before) or change(server)
        rows.append({'InstanceId': names[server['id']], 'PreviousState': states.shown(before),
                     'CurrentState': states.shown(after)})
    return rows


def act(req: operations.Request, server: Server, action: str, body: calls.Document | None = None,
        wait: bool = False) -> None:
    """Begin an action of the compute API.

    :param wait: wait for the end of the action, at most ``waits.WAIT_S`` seconds
    :raises Ec2Error: the server's state does not allow the action
    """
    headers = {'Prefer': f'wait={waits.WAIT_S}'} if wait else {}
    with errors.OnStatus(409, lambda refused: errors.Ec2Error('IncorrectInstanceState', refused.message)):
        waits.when_idle(req, server['id'], lambda: req.call(
            'compute', 'POST', f'/servers/{server["id"]}/action', {action: body}, headers=headers))


def confirm_resize(req: operations.Request, server: Server) -> None:
    """Confirm a resize and poll for its end, because the Prefer header waits only for actions with a task state."""
    act(req, server, 'confirmResize')
    waits.wait(req, server['id'], lambda found: bool(found['OS-EXT-STS:vm_state'] != 'resized'))


def start_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    def start(server: Server) -> str:
        if server['OS-EXT-STS:vm_state'] == 'resized':  # ModifyInstanceAttribute did not wait for a slow resize
            confirm_resize(req, server)
        act(req, server, states.STARTS.get(server['OS-EXT-STS:vm_state'], 'os-start'))
        return 'pending'
    return {'StartingInstances': _changes(req, given, {'running': 'running', 'pending': 'pending'}, start)}


def stop_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    def stop(server: Server) -> str:
        act(req, server, 'suspend' if given.get('Hibernate') else 'os-stop')
        return 'stopping'
    return {'StoppingInstances': _changes(req, given, {'stopped': 'stopped', 'stopping': 'stopping'}, stop)}


def _of_category(req: operations.Request, given: operations.Given, method: str, action: str = '',
                 body: calls.Document | None = None) -> list[str]:
    """Act on instances of a category, which the request names; return their IDs.

    The compute API hides these instances from users, so their states are omitted.

    :raises Ec2Error: an instance does not exist, or has another category
    """
    category = given[protocol.CATEGORY]
    done = []
    for shown in given['InstanceIds']:
        uuid = req.uuid('i', shown)
        path = f'/servers/{uuid}{action}?' + urllib.parse.urlencode({CATEGORY: category})
        with errors.ignored(404):
            found = views.category_of(req.call('compute', 'GET', f'/servers/{uuid}')['server'])
            if found != category:
                raise errors.Ec2Error('InvalidParameterValue', f'The instance {shown} has the category {found}, '
                                                               f'not {category[:255]}.')
        with errors.OnStatus(404, lambda _refused: errors.not_found('i', shown)):
            req.call('compute', method, path, body, hidden=True)
        done.append(req.ids.one('i', uuid))
    return done


def terminate_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    def terminate(server: Server) -> str:
        public = public_addresses.assigned_to(req, server['id']) if public_addresses.ITEM in server['metadata'] else []
        req.call('compute', 'DELETE', f'/servers/{server["id"]}')
        public_addresses.release(req, public)  # after the DELETE: if it is refused, the server keeps the addresses
        for volume in server.get('os-extended-volumes:volumes_attached') or ():
            if volume.get('delete_on_termination'):  # hide volumes with snapshots: they cannot be deleted
                with contextlib.suppress(errors.ServiceRefused):         # the volume may be deleted already
                    deletion.hide(req, volume['id'])
        return 'shutting-down'
    if given.get(protocol.CATEGORY):
        return {'TerminatingInstances': [{'InstanceId': shown, 'CurrentState': states.shown('shutting-down')}
                                         for shown in _of_category(req, given, 'DELETE')]}
    gone = {'shutting-down': 'shutting-down'}
    rows = _changes(req, given, gone, lambda server: (
        'terminated' if server['status'] == 'DELETED' else terminate(server)))
    return {'TerminatingInstances': rows}


def reboot_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    soft = {'type': 'SOFT'}
    if given.get(protocol.CATEGORY):
        _of_category(req, given, 'POST', '/action', {'reboot': soft})
        return {}
    for server in views.servers_of(req, given['InstanceIds']):
        act(req, server, 'reboot', soft)
    return {}


def unmonitor_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Return the monitoring state of instances, always disabled; ``unsupported`` refuses MonitorInstances."""
    servers = views.servers_of(req, given['InstanceIds'])
    names = req.ids.shown('i', [server['id'] for server in servers])
    return {'InstanceMonitorings': [{'InstanceId': names[server['id']], 'Monitoring': {'State': 'disabled'}}
                                    for server in servers]}


OPERATIONS = [
    operations.row('StartInstances', start_instances, 'InstanceIds'),
    operations.row('StopInstances', stop_instances, 'InstanceIds Hibernate', 'Force'),
    operations.row('TerminateInstances', terminate_instances, f'InstanceIds {protocol.CATEGORY}'),
    operations.row('UnmonitorInstances', unmonitor_instances, 'InstanceIds'),
    operations.row('RebootInstances', reboot_instances, f'InstanceIds {protocol.CATEGORY}'),
]
