"""The network service as a compute host with an agent sees it: any service allocates, then the host's agent plumbs."""
from __future__ import annotations

import functools
from typing import Any

# Of interface.py, those after which the plumbing of the host is another one. A guest must not begin, and another one
# not get the address, before filters and DHCP follow.
PLUMBED = frozenset({'allocate_for_instance', 'deallocate_for_instance', 'attach_port', 'detach_port', 'add_address',
                     'remove_address', 'setup_for_instance', 'prepare_for_instance', 'unprepare_for_instance',
                     'leave_host'})


class Plumbed:
    """A client with the methods of the network interface.

    Both steps may be repeated: who has no answer of the agent calls again, and gets the ports that are there.

    :param services: client of the network interface
    :param agent: client of the agents' interface
    :param host: this one
    """

    def __init__(self, services: Any, agent: Any, host: str) -> None:
        self._services, self._agent, self._host = services, agent, host

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._services, name)
        return functools.partial(self._both, method) if name in PLUMBED else method

    def _both(self, method: Any, context: Any, **arguments: Any) -> Any:
        answer = method(context, **arguments)
        self._agent.plumb(context, server=self._host)
        return answer
