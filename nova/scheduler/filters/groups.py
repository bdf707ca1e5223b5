"""The filters of server groups. They are always consulted, because the claim would refuse what they do."""
from __future__ import annotations

import typing

import numpy as np

from nova.db.placement import server_groups
from nova.scheduler import groups
from nova.scheduler.filters import base
from nova.scheduler.filters import capabilities

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class OfPolicy(base.Filter):
    """A filter for groups with one policy; servers of others, and of none, it lets through."""

    policy = ''
    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.group is None or self.policy not in request.group.policies:
            return hosts.everything
        return self.allowed(hosts, request.group)

    def allowed(self, hosts: host_view.Hosts, group: groups.Group) -> np.ndarray:
        """The mask for a group with the policy."""
        raise NotImplementedError


def _group(request: pipeline.Request) -> groups.Group:
    """The group of a request of which a filter of its policy has removed hosts."""
    assert request.group is not None
    return request.group


def _members(hosts: host_view.Hosts) -> np.ndarray:
    """How many members of the group are on each host of a view that is of a request with one."""
    assert hosts.members is not None
    return hosts.members


class ServerGroupAffinityFilter(OfPolicy):
    """Under affinity the hosts that have a member, when one does; none while a member may end on either of two."""

    policy = groups.AFFINITY

    def allowed(self, hosts: host_view.Hosts, group: groups.Group) -> np.ndarray:
        if group.between:
            return np.zeros(len(hosts), dtype=bool)
        members = _members(hosts)
        return members > 0 if members.any() else hosts.everything

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        if _group(request).between:
            return ('has|have to wait while a server of the group, which has the policy affinity, is being moved or '
                    'waits for its confirmation')
        return 'does|do not have the other servers of the group, which has the policy affinity'


class ServerGroupAntiAffinityFilter(OfPolicy):
    """Under anti-affinity the hosts with fewer members than its rule allows, which is one unless it says otherwise."""

    policy = groups.ANTI_AFFINITY

    def allowed(self, hosts: host_view.Hosts, group: groups.Group) -> np.ndarray:
        return _members(hosts) < group.most

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        most = _group(request).most
        servers = 'a server' if most == 1 else f'{most} servers'
        return f'has|have {servers} of the group already, which has the policy anti-affinity'


class ServerGroupProximityFilter(OfPolicy):
    """Under network-proximity the hosts in a network locality that all members are in; without members, in any."""

    policy = groups.PROXIMITY

    def allowed(self, hosts: host_view.Hosts, group: groups.Group) -> np.ndarray:
        sets, index = _localities(hosts)
        common, within = _common(hosts, sets, index), group.within
        passes = [bool(each if common is None else each & common) and (within is None or within in each)
                  for each in sets]
        return np.array(passes, dtype=bool)[index]

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        common = _common(hosts, *_localities(hosts))
        if common is None:
            return 'is|are in no network locality, which a group with the policy network-proximity needs'
        where = 'the network locality of' if common else 'one network locality with all'
        return f'is|are not in {where} the other servers of the group, which has the policy network-proximity'


def _localities(hosts: host_view.Hosts) -> tuple[list[frozenset[str]], np.ndarray]:
    """(frozensets of localities, the position of each host's among them)."""
    def make() -> tuple[list[frozenset[str]], np.ndarray]:
        (own, of_own), (lists, of_lists) = hosts.distinct('capabilities'), hosts.distinct('aggregates')
        pairs, index = np.unique(of_own * len(lists) + of_lists, return_inverse=True)
        return [server_groups.locality(own[pair // len(lists)], lists[pair % len(lists)]) for pair in pairs], index
    return hosts.once('network localities', make)


def _common(hosts: host_view.Hosts, sets: list[frozenset[str]], index: np.ndarray) -> frozenset[str] | None:
    """What the localities of all hosts with members have in common; None without members."""
    return groups.shared(sets[number] for number in np.unique(index[_members(hosts) > 0]))


class ServerGroupCapabilitiesFilter(OfPolicy):
    """Under host-capabilities the hosts that have what the group's metadata say: ``capabilities:`` and the name of an
    attribute or a capability, with the values and operators of flavors' extra specs.
    """

    policy = groups.CAPABILITIES

    def allowed(self, hosts: host_view.Hosts, group: groups.Group) -> np.ndarray:
        mask = hosts.everything
        for key, requirement in group.capabilities.items():
            mask = mask & _satisfying(hosts, key, requirement)
        return mask

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        missing = sorted(key for key, requirement in _group(request).capabilities.items()
                         if not _satisfying(hosts, key, requirement)[removed].all())
        return (f'does|do not satisfy the metadata ({", ".join(missing)}) of the group, which has the policy '
                'host-capabilities')


def _satisfying(hosts: host_view.Hosts, key: str, requirement: str) -> np.ndarray:
    return capabilities.satisfying(hosts, key.removeprefix(server_groups.SCOPE), requirement)


FILTERS = (ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter, ServerGroupProximityFilter,
           ServerGroupCapabilitiesFilter)
