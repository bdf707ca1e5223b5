"""The filters of server groups. They are always asked, because the claim would refuse what they do."""
import numpy as np

from nova.scheduler import filters
from nova.scheduler import groups


class ServerGroupAffinityFilter(filters.Filter):
    """Under affinity the hosts that have a member, when one does."""

    rebuild = False

    def mask(self, hosts, request):
        if request.group is None or request.group.policy != groups.AFFINITY or not hosts.members.any():
            return np.ones(len(hosts), dtype=bool)
        return hosts.members > 0

    def reason(self, hosts, request, removed):
        return 'does|do not have the other servers of the group, which has the policy affinity'


class ServerGroupAntiAffinityFilter(filters.Filter):
    """Under anti-affinity the hosts with fewer members than its rule allows, which is one unless it says otherwise."""

    rebuild = False

    def mask(self, hosts, request):
        if request.group is None or request.group.policy != groups.ANTI_AFFINITY:
            return np.ones(len(hosts), dtype=bool)
        return hosts.members < request.group.most

    def reason(self, hosts, request, removed):
        servers = 'a server' if request.group.most == 1 else f'{request.group.most} servers'
        return f'has|have {servers} of the group already, which has the policy anti-affinity'


FILTERS = (ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter)
