"""Networks by the words of nova-network: what os-networks and nova-manage take, in those of the Network API."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.audit import log
from nova.network.face import calls
from nova.network.face import networks as face_networks
from nova.network.operators import networks as operators

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.network.face.app import Face

# parameters that have no counterpart here, and why
REFUSED = {
    **dict.fromkeys(('bridge', 'bridge_interface'), 'this service names bridges, and [network] physical_networks their '
                    'cards'),
    **dict.fromkeys(('multi_host', 'share_address'), 'which hosts serve a network is [network] routing'),
    'dhcp_server': 'the address of who answers DHCP is chosen by this service',
    'priority': 'networks have no order',
    'uuid': 'ids are given by this service',
}


def refuse(given: Mapping[str, Any], more: Mapping[str, str] = {}) -> None:
    """
    :param more: parameters that this caller has no counterpart for either, and why
    :raises BadRequest: one is given that has none
    """
    why = {**REFUSED, **more}
    for name in sorted(given.keys() & why.keys()):
        raise exception.BadRequest(f'{name} is not taken: {why[name]}.')


def subnet_v4(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The subnet of version 4 that is requested, as the Network API makes it; none, or one.

    :raises BadRequest:
    """
    if 'cidr' not in given:
        return []
    pool = {name: given[name] for name in ('allowed_start', 'allowed_end') if name in given}
    if len(pool) == 1:
        raise exception.BadRequest('allowed_start and allowed_end are given together.')
    return [{
        'cidr': given['cidr'], 'ip_version': 4, **_gateway(given, 'gateway'),
        'dns_nameservers': [given[name] for name in ('dns1', 'dns2') if name in given],
        'enable_dhcp': given.get('enable_dhcp', True),
        **({'allocation_pools': [{'start': pool['allowed_start'], 'end': pool['allowed_end']}]} if pool else {})}]


def subnet_v6(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The subnet of version 6: its guests make their addresses themselves."""
    if 'cidr_v6' not in given:
        return []
    dhcp = given.get('enable_dhcp', True)
    mode = {'ipv6_ra_mode': 'slaac', 'ipv6_address_mode': 'slaac'} if dhcp else {}
    return [{'cidr': given['cidr_v6'], 'ip_version': 6, 'enable_dhcp': dhcp, **_gateway(given, 'gateway_v6'), **mode}]


def _gateway(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {'gateway_ip': given[name]} if name in given else {}


def make(conn: Connection, face: Face, context: RequestContext, network: Mapping[str, Any],
         subnets: Sequence[Mapping[str, Any]], for_all: bool = False) -> str:
    """The id of a new network with subnets, in a transaction.

    :param network, subnets: as the Network API takes them
    :param for_all: it is no project's
    :raises BadRequest: it has no subnet
    """
    if not subnets:
        raise exception.BadRequest('A network has a range: cidr or cidr_v6.')
    ident = calls.create(conn, face, context, face_networks.NETWORKS, network)
    owner = {'project_id': network['project_id']} if network.get('project_id') else {}
    for subnet in subnets:
        calls.create(conn, face, context, face_networks.SUBNETS, {
            'network_id': ident, 'name': network['name'], **owner, **subnet})
    log.about(ident)                 # not its subnets
    if for_all:
        operators.give(conn, ident, None)
    return ident
