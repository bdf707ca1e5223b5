"""States of instances, and what they are of servers."""
from __future__ import annotations

from typing import Any


STATES = {'pending': 0, 'running': 16, 'shutting-down': 32, 'terminated': 48, 'stopping': 64, 'stopped': 80}
# Task states of a server that EC2 has a state for.
TASKS = {'deleting': 'shutting-down', 'soft-deleting': 'shutting-down', 'powering-off': 'stopping',
         'powering-on': 'pending', 'shelving': 'stopping', 'shelving_offloading': 'stopping',
         'suspending': 'stopping', 'resuming': 'pending', 'unshelving': 'pending'}
STATUSES = {'BUILD': 'pending', 'SHUTOFF': 'stopped', 'SUSPENDED': 'stopped', 'PAUSED': 'stopped', 'SHELVED': 'stopped',
            'SHELVED_OFFLOADED': 'stopped', 'DELETED': 'terminated', 'SOFT_DELETED': 'terminated'}
MOVING = ('RESIZE', 'VERIFY_RESIZE', 'REVERT_RESIZE')           # statuses of guests that run, and of those that are off
SHUTDOWN = 4                                                    # power state of the compute API
# vm state of a stopped server: the action that starts it
STARTS = {'stopped': 'os-start', 'suspended': 'resume', 'paused': 'unpause', 'shelved': 'unshelve',
          'shelved_offloaded': 'unshelve'}


def state_of(server: dict[str, Any]) -> str:
    """The name of a server's state in EC2. One that was never up and failed counts as terminated: waiters end there."""
    task = server.get('OS-EXT-STS:task_state')
    if task in TASKS:
        return TASKS[task]
    if server['status'] == 'ERROR':
        return 'stopped' if server.get('OS-SRV-USG:launched_at') else 'terminated'
    if server['status'] in MOVING and server.get('OS-EXT-STS:power_state') == SHUTDOWN:
        return 'stopped'
    return STATUSES.get(server['status'], 'running')


def shown(name: str) -> dict[str, Any]:
    return {'Code': STATES[name], 'Name': name}
