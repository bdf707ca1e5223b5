"""Client for compute hosts with a network agent: a service changes the database, then the agent updates the host."""
from collections.abc import Callable
import functools
from typing import Any, TypeVar

from nova.context import RequestContext
from nova.rpc.bus import Client

T = TypeVar('T')

# After these methods of interface.py, the agent updates the host's network: a guest must not start, and an address must
# not be reused, before filters and DHCP are updated.
PLUMBING_METHODS = frozenset({
    'allocate_for_instance', 'deallocate_for_instance', 'attach_port', 'detach_port', 'add_address', 'remove_address',
    'setup_for_instance', 'prepare_for_instance', 'unprepare_for_instance', 'unbind_ports'})


class AgentClient:
    """Client of the network service and the agent, with the methods of interface.py. The calls to the service and the
    agent are idempotent. If the agent does not answer, the caller retries and gets the existing ports.

    :param services: client of the network interface
    :param agent: client of the agents' interface
    :param host: name of this host
    """

    def __init__(self, services: Client, agent: Client, host: str) -> None:
        self._services, self._agent, self._host = services, agent, host

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._services, name)
        return functools.partial(self._both, method) if name in PLUMBING_METHODS else method

    def _both(self, method: Callable[..., T], context: RequestContext, **arguments: object) -> T:
        answer = method(context, **arguments)
        self._agent.apply_host_state(context, server=self._host)
        return answer
