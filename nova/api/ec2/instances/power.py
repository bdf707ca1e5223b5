"""Instances that start, stop, reboot and end."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import waits
from nova.api.ec2.instances import states
from nova.api.ec2.instances import views


def _changes(req: operations.Request, given: operations.Given, done: dict[str, str],
             change: Any) -> list[dict[str, Any]]:
    """Change each instance of a request; what it was and what it becomes.

    :param done: {state that needs no change: itself}
    :param change: callable(server), for those that do
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


def act(req: operations.Request, server: dict[str, Any], action: str, body: Any = None, wait: bool = False) -> None:
    """Begin an action of the compute API.

    :param wait: until it has ended, or for ``waits.WAIT_S``
    :raises Ec2Error: the server is in no state for it
    """
    headers = {'Prefer': f'wait={waits.WAIT_S}'} if wait else {}
    try:
        req.call('compute', 'POST', f'/servers/{server["id"]}/action', {action: body}, headers=headers)
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            raise errors.Ec2Error('IncorrectInstanceState', refused.message) from None
        raise


def confirm_resize(req: operations.Request, server: dict[str, Any]) -> None:
    """Confirm a resize and wait until that is done, for a while: it has no task that a header could wait for."""
    act(req, server, 'confirmResize')
    waits.wait(req, server['id'], lambda found: bool(found['OS-EXT-STS:vm_state'] != 'resized'))


def start_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def start(server: dict[str, Any]) -> str:
        if server['OS-EXT-STS:vm_state'] == 'resized':          # by ModifyInstanceAttribute, which did not wait for it
            confirm_resize(req, server)
        act(req, server, states.STARTS.get(server['OS-EXT-STS:vm_state'], 'os-start'))
        return 'pending'
    return {'StartingInstances': _changes(req, given, {'running': 'running', 'pending': 'pending'}, start)}


def stop_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def stop(server: dict[str, Any]) -> str:
        act(req, server, 'suspend' if given.get('Hibernate') else 'os-stop')
        return 'stopping'
    return {'StoppingInstances': _changes(req, given, {'stopped': 'stopped', 'stopping': 'stopping'}, stop)}


def terminate_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def terminate(server: dict[str, Any]) -> str:
        req.call('compute', 'DELETE', f'/servers/{server["id"]}')
        return 'shutting-down'
    gone = {'shutting-down': 'shutting-down'}
    rows = _changes(req, given, gone, lambda server: (
        'terminated' if server['status'] == 'DELETED' else terminate(server)))
    return {'TerminatingInstances': rows}


def reboot_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    for server in views.servers_of(req, given['InstanceIds']):
        act(req, server, 'reboot', {'type': 'SOFT'})
    return {}


def monitor_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Without effect: what is measured is measured of all, and not shown here."""
    servers = views.servers_of(req, given['InstanceIds'])
    names = req.ids.shown('i', [server['id'] for server in servers])
    return {'InstanceMonitorings': [{'InstanceId': names[server['id']], 'Monitoring': {'State': 'disabled'}}
                                    for server in servers]}


OPERATIONS = [
    operations.row('StartInstances', start_instances, 'InstanceIds'),
    operations.row('StopInstances', stop_instances, 'InstanceIds Hibernate', 'Force'),
    operations.row('TerminateInstances', terminate_instances, 'InstanceIds'),
    operations.row('MonitorInstances', monitor_instances, 'InstanceIds'),
    operations.row('UnmonitorInstances', monitor_instances, 'InstanceIds'),
    operations.row('RebootInstances', reboot_instances, 'InstanceIds'),
]
