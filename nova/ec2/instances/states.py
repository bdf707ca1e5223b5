"""EC2 states of instances, derived from servers."""

from nova.ec2.server import Server
from nova.json_types import JsonDocument


STATES = {'pending': 0, 'running': 16, 'shutting-down': 32, 'terminated': 48, 'stopping': 64, 'stopped': 80}
# {task state of a server: EC2 state}
TASKS = {'deleting': 'shutting-down', 'soft-deleting': 'shutting-down', 'powering-off': 'stopping',
         'powering-on': 'pending', 'shelving': 'stopping', 'shelving_offloading': 'stopping',
         'suspending': 'stopping', 'resuming': 'pending', 'unshelving': 'pending'}
STATUSES = {'BUILD': 'pending', 'SHUTOFF': 'stopped', 'SUSPENDED': 'stopped', 'PAUSED': 'stopped', 'SHELVED': 'stopped',
            'SHELVED_OFFLOADED': 'stopped', 'DELETED': 'terminated', 'SOFT_DELETED': 'terminated'}
MOVING = ('RESIZE', 'VERIFY_RESIZE', 'REVERT_RESIZE')           # statuses of servers that may be running or stopped
SHUTDOWN = 4                                                    # power state "shut down" of the compute API
# {vm_state that EC2 shows as stopped: action that starts the server}
STARTS = {'stopped': 'os-start', 'suspended': 'resume', 'paused': 'unpause', 'shelved': 'unshelve',
          'shelved_offloaded': 'unshelve'}


def state_of(server: Server) -> str:
    """Return the EC2 state of a server. After a failed build it is terminated, so that clients stop waiting."""
    task = server.get('OS-EXT-STS:task_state')
    if task in TASKS:
        return TASKS[task]
    if server['status'] == 'ERROR':
        return 'stopped' if server.get('OS-SRV-USG:launched_at') else 'terminated'
    if server['status'] in MOVING and server.get('OS-EXT-STS:power_state') == SHUTDOWN:
        return 'stopped'
    return STATUSES.get(server['status'], 'running')


def shown(name: str) -> JsonDocument:
    return {'Code': STATES[name], 'Name': name}
