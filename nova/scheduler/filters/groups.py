"""Filters of server groups. No option can disable these filters, because the claim enforces the same rules."""
import numpy as np

from nova.db.placement import server_groups
from nova.scheduler import groups
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import capabilities
from nova.scheduler.placement_request import Group
from nova.scheduler.placement_request import Request


class PolicyFilter(base.Filter):
    """Base class of filters for servers in a group with the policy ``policy``; all hosts pass for other servers."""

    policy = ''
    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.group is None or self.policy not in request.group.policies:
            return hosts.all_pass
        return self.allowed(hosts, request.group)

    def allowed(self, hosts: host_view.Hosts, group: Group) -> np.ndarray:
        """Return the mask for a server of a group with the policy of the filter."""
        raise NotImplementedError


def _group(request: Request) -> Group:
    """Return the group of a request, which must have a group."""
    assert request.group is not None
    return request.group


def _members(hosts: host_view.Hosts) -> np.ndarray:
    """Return the number of group members on each host. The view must belong to a request with a group."""
    assert hosts.members is not None
    return hosts.members


class ServerGroupAffinityFilter(PolicyFilter):
    """Policy affinity: hosts with a member; all hosts for an empty group; no host during a move of a member."""

    policy = server_groups.AFFINITY

    def allowed(self, hosts: host_view.Hosts, group: Group) -> np.ndarray:
        if group.between:
            return np.zeros(len(hosts), dtype=bool)
        members = _members(hosts)
        return members > 0 if members.any() else hosts.all_pass

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        if _group(request).between:
            return ('has|have to wait, because a server of the group with the policy affinity is being moved, or its '
                    'move waits for confirmation')
        return 'does|do not have the other servers of the group with the policy affinity'


class ServerGroupAntiAffinityFilter(PolicyFilter):
    """Policy anti-affinity: hosts with fewer members than the group's rule max_server_per_host (default 1)."""

    policy = server_groups.ANTI_AFFINITY

    def allowed(self, hosts: host_view.Hosts, group: Group) -> np.ndarray:
        return _members(hosts) < group.max_per_host

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        max_per_host = _group(request).max_per_host
        servers = 'a server' if max_per_host == 1 else f'{max_per_host} or more servers'
        return f'has|have {servers} of the group with the policy anti-affinity already'


class ServerGroupProximityFilter(PolicyFilter):
    """Policy network-proximity: hosts in a network locality that all members share, or in any for an empty group.
    """

    policy = server_groups.PROXIMITY

    def allowed(self, hosts: host_view.Hosts, group: Group) -> np.ndarray:
        sets, index = _localities(hosts)
        common, within = _common(hosts, sets, index), group.within
        passes = [bool(each if common is None else each & common) and (within is None or within in each)
                  for each in sets]
        return np.array(passes, dtype=bool)[index]

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        common = _common(hosts, *_localities(hosts))
        if common is None:
            return 'is|are in no network locality, which a group with the policy network-proximity needs'
        where = 'the network locality of' if common else 'one network locality with all'
        return f'is|are not in {where} the other servers of the group with the policy network-proximity'


def _localities(hosts: host_view.Hosts) -> tuple[list[frozenset[str]], np.ndarray]:
    """Return (distinct sets of network localities, for each host the index of its set)."""
    def make() -> tuple[list[frozenset[str]], np.ndarray]:
        (own, of_own), (lists, of_lists) = hosts.distinct('capabilities'), hosts.distinct('aggregates')
        pairs, index = np.unique(of_own * len(lists) + of_lists, return_inverse=True)
        return [server_groups.locality(own[pair // len(lists)], lists[pair % len(lists)]) for pair in pairs], index
    return hosts.cached('network localities', make)


def _common(hosts: host_view.Hosts, sets: list[frozenset[str]], index: np.ndarray) -> frozenset[str] | None:
    """Return the localities common to all hosts with members, or None if the group has no members."""
    return groups.shared(sets[number] for number in np.unique(index[_members(hosts) > 0]))


class ServerGroupCapabilitiesFilter(PolicyFilter):
    """Policy host-capabilities: hosts that satisfy the metadata of the group.

    A key is ``capabilities:`` before the name of a host attribute or capability; values are written as in extra specs.
    """

    policy = server_groups.CAPABILITIES

    def allowed(self, hosts: host_view.Hosts, group: Group) -> np.ndarray:
        mask = hosts.all_pass
        for key, requirement in group.capabilities.items():
            mask = mask & _satisfying(hosts, key, requirement)
        return mask

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        missing = sorted(key for key, requirement in _group(request).capabilities.items()
                         if not _satisfying(hosts, key, requirement)[removed].all())
        return (f'does|do not satisfy the metadata ({", ".join(missing)}) of the group with the policy '
                'host-capabilities')


def _satisfying(hosts: host_view.Hosts, key: str, requirement: str) -> np.ndarray:
    return capabilities.satisfying(hosts, key.removeprefix(server_groups.SCOPE), requirement)


FILTERS = (ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter, ServerGroupProximityFilter,
           ServerGroupCapabilitiesFilter)
