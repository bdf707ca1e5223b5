"""Translate network parameters of nova-network (os-networks, nova-manage) to the Networking API."""
from collections.abc import Collection, Mapping, Sequence

from nova import exception
from nova.context import RequestContext
from nova.db.audit import log
from nova.db.engine import Connection
from nova.json_types import JsonObject
from nova.network.operators import networks as operators
from nova.network.rest import calls
from nova.network.rest import networks as rest_networks
from nova.network.rest.request import Deps

# {unsupported parameter: reason}
REFUSED = {
    **dict.fromkeys(('bridge', 'bridge_interface'), 'this service chooses the names of bridges, and [network] '
                    'physical_networks sets their interfaces'),
    **dict.fromkeys(('multi_host', 'share_address'), '[network] routing decides which hosts serve a network'),
    'dhcp_server': 'this service chooses the address of the DHCP server',
    'priority': 'networks have no order',
    'uuid': 'this service assigns ids',
}


def refuse(given: Collection[str], more: Mapping[str, str] = {}) -> None:
    """Refuse unsupported parameters.

    :param more: further parameters that this caller does not support, and the reason
    :raises BadRequest: an unsupported parameter is given
    """
    why = {**REFUSED, **more}
    for name in sorted(why.keys() & set(given)):
        raise exception.BadRequest(f'{name} is not supported: {why[name]}.')


def subnet_v4(given: JsonObject) -> list[JsonObject]:
    """Return the requested IPv4 subnet in the Networking API's format: a list with one subnet, or [].

    :raises BadRequest:
    """
    if 'cidr' not in given:
        return []
    pool = {name: given[name] for name in ('allowed_start', 'allowed_end') if name in given}
    if len(pool) == 1:
        raise exception.BadRequest('allowed_start and allowed_end must be given together.')
    return [{
        'cidr': given['cidr'], 'ip_version': 4, **_gateway(given, 'gateway'),
        'dns_nameservers': [given[name] for name in ('dns1', 'dns2') if name in given],
        'enable_dhcp': given.get('enable_dhcp', True),
        **({'allocation_pools': [{'start': pool['allowed_start'], 'end': pool['allowed_end']}]} if pool else {})}]


def subnet_v6(given: JsonObject) -> list[JsonObject]:
    """Return the requested IPv6 subnet, with SLAAC if DHCP is enabled."""
    if 'cidr_v6' not in given:
        return []
    dhcp = given.get('enable_dhcp', True)
    mode = {'ipv6_ra_mode': 'slaac', 'ipv6_address_mode': 'slaac'} if dhcp else {}
    return [{'cidr': given['cidr_v6'], 'ip_version': 6, 'enable_dhcp': dhcp, **_gateway(given, 'gateway_v6'), **mode}]


def _gateway(given: JsonObject, name: str) -> JsonObject:
    return {'gateway_ip': given[name]} if name in given else {}


def make(conn: Connection, deps: Deps, context: RequestContext, network: JsonObject,
         subnets: Sequence[JsonObject], for_all: bool = False) -> str:
    """Create a network with subnets in a transaction and return its id.

    :param network, subnets: bodies in the Network API's format
    :param for_all: create the network without a project, for all projects
    :raises BadRequest: the network has no subnet
    """
    if not subnets:
        raise exception.BadRequest('A network needs a range: cidr or cidr_v6.')
    ident = calls.create(conn, deps, context, rest_networks.NETWORKS, network)
    owner = {'project_id': network['project_id']} if network.get('project_id') else {}
    for subnet in subnets:
        calls.create(conn, deps, context, rest_networks.SUBNETS, {
            'network_id': ident, 'name': network['name'], **owner, **subnet})
    log.about(ident)                 # target of the audit record: the network, not its subnets
    if for_all:
        operators.give(conn, ident, None)
    return ident
