"""Filters by scheduler hints: hosts with or without certain servers, or hosts in a subnet."""
import ipaddress
import typing

import numpy as np

from nova import objects
from nova.db import engine
from nova.db.placement import hosts as hosts_db
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

DEFAULT_CIDR = '/24'
_WORD = (1 << 64) - 1


class _NamedServersFilter(base.Filter):
    """Base class of filters for hints that name servers: the filter compares each host with the hosts of these servers.

    Servers of other projects are ignored. Otherwise users could find out or select the hosts of these servers.
    """

    run_on_rebuild = False
    hint = ''

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return bool(request_fields.hints(spec, self.hint))

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return hosts_db.of_servers(conn, spec.project_id, request_fields.hints(spec, self.hint))


class SameHostFilter(_NamedServersFilter):
    """Hosts with at least one of the servers that the hint ``same_host`` names."""

    hint = 'same_host'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.spec is None or not self.needs_facts(request.spec):
            return hosts.all_pass
        return hosts.on_hosts(request.facts.get(self.name, ()))

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return 'has|have none of the servers that the hint same_host names'


class DifferentHostFilter(_NamedServersFilter):
    """Hosts with none of the servers that the hint ``different_host`` names."""

    hint = 'different_host'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        found = request.facts.get(self.name)
        return ~hosts.on_hosts(found) if found else hosts.all_pass

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return 'has|have one of the servers that the hint different_host names'


class SimpleCIDRAffinityFilter(base.CachedFilter):
    """Hosts with an address in the subnet of the hints ``build_near_host_ip`` and ``cidr`` (by default /24)."""

    run_on_rebuild = False

    def key(self, request: Request) -> tuple[str, ...]:
        near = request_fields.hint(request, 'build_near_host_ip')
        return () if near is None else (str(near), str(request_fields.hint(request, 'cidr') or DEFAULT_CIDR))

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        network = _network(*self.key(request))
        if network is None:
            return np.zeros(len(hosts), dtype=bool)
        versions, high, low = hosts.cached('addresses', lambda: _addresses(hosts))
        first, mask = int(network.network_address), int(network.netmask)
        if network.version == 4:                  # also compare the upper 96 bits, which are 0 in all IPv4 addresses
            mask |= ((1 << 96) - 1) << 32
        return np.asarray((versions == network.version)
                          & (high & np.uint64(mask >> 64 & _WORD) == np.uint64(first >> 64))
                          & (low & np.uint64(mask & _WORD) == np.uint64(first & _WORD)))

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        near, cidr = self.key(request)
        if _network(near, cidr) is None:
            return f'cannot be near {near}{cidr}, which is not a network'
        return f'is|are not in the network {near}{cidr}'


def _network(near: str, cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(near + cidr, strict=False)
    except ValueError:
        return None


def _addresses(hosts: host_view.Hosts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the hosts' addresses as arrays: IP version (0: invalid), upper and lower 64 bits of the address."""
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
