"""Filters by scheduler hints: beside, or away from, named servers and addresses."""
import ipaddress

import numpy as np
import sqlalchemy as sa

from nova.db.tables.cell import instances
from nova.db.tables.cell import migrations
from nova.scheduler.filters import asked
from nova.scheduler.filters import base

DEFAULT_CIDR = '/24'
_WORD = (1 << 64) - 1


class _Beside(base.Filter):
    """By the hosts of the servers that a hint names. Servers of other projects count as none: a hint finds out nothing
    about them, and brings nobody beside them."""

    rebuild = False
    hint = None

    def wants(self, spec):
        return bool(asked.hints(spec, self.hint))

    def facts(self, conn, spec):
        return hosts_of(conn, spec.project_id, asked.hints(spec, self.hint))


def hosts_of(conn, project_id, uuids):
    """Names of the hosts where a project's servers are, or are moving to."""
    uuids = [uuid for uuid in uuids if isinstance(uuid, str)]
    placed = sa.select(instances.c.host).where(instances.c.uuid.in_(uuids), instances.c.project_id == project_id,
                                               instances.c.host.is_not(None))
    moving = sa.select(migrations.c.held_host).join(instances, instances.c.uuid == migrations.c.instance_uuid).where(
        instances.c.uuid.in_(uuids), instances.c.project_id == project_id, migrations.c.held_host.is_not(None))
    return frozenset(conn.execute(sa.union(placed, moving)).scalars())


class SameHostFilter(_Beside):
    """Hosts of one of the servers that the hint ``same_host`` names."""

    hint = 'same_host'

    def mask(self, hosts, request):
        if not self.wants(request.spec):
            return hosts.everything
        return hosts.on(request.facts.get(self.name, ()))

    def reason(self, hosts, request, removed):
        return 'has|have none of the servers that the hint same_host names'


class DifferentHostFilter(_Beside):
    """Hosts with none of the servers that the hint ``different_host`` names."""

    hint = 'different_host'

    def mask(self, hosts, request):
        found = request.facts.get(self.name)
        return ~hosts.on(found) if found else hosts.everything

    def reason(self, hosts, request, removed):
        return 'has|have one of the servers that the hint different_host names'


class SimpleCIDRAffinityFilter(base.Remembered):
    """Hosts whose address is in the block of the size ``cidr`` (/24 without it) around ``build_near_host_ip``."""

    rebuild = False

    def key(self, request):
        near = asked.hint(request, 'build_near_host_ip')
        return None if near is None else (str(near), str(asked.hint(request, 'cidr') or DEFAULT_CIDR))

    def judge(self, hosts, request):
        network = _network(*self.key(request))
        if network is None:
            return np.zeros(len(hosts), dtype=bool)
        versions, high, low = hosts.once('addresses', lambda: _addresses(hosts))
        first, mask = int(network.network_address), int(network.netmask)
        if network.version == 4:                  # the bits above are 0 in all
            mask |= ((1 << 96) - 1) << 32
        return ((versions == network.version)
                & (high & np.uint64(mask >> 64 & _WORD) == np.uint64(first >> 64))
                & (low & np.uint64(mask & _WORD) == np.uint64(first & _WORD)))

    def reason(self, hosts, request, removed):
        near, cidr = self.key(request)
        if _network(near, cidr) is None:
            return f'cannot be near {near}{cidr}, which is no network'
        return f'is|are not in the network {near}{cidr}'


def _network(near, cidr):
    try:
        return ipaddress.ip_network(near + cidr, strict=False)
    except ValueError:
        return None


def _addresses(hosts):
    """The hosts' addresses as arrays: version (0 for none), upper and lower 64 bits."""
    versions = np.zeros(len(hosts), dtype=np.int8)
    high, low = np.zeros(len(hosts), dtype=np.uint64), np.zeros(len(hosts), dtype=np.uint64)
    for position, text in enumerate(hosts.values('host_ip')):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        versions[position], number = address.version, int(address)
        high[position], low[position] = number >> 64, number & _WORD
    return versions, high, low


FILTERS = (SameHostFilter, DifferentHostFilter, SimpleCIDRAffinityFilter)
