"""Public addresses of RunInstances: floating IPs that TerminateInstances releases.

EC2 does not count them as allocated addresses, so DescribeAddresses omits them while an instance has them.
"""
from collections.abc import Iterable
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.json_types import JsonObject

DESCRIPTION = 'Assigned by RunInstances of the EC2 API'           # description of the floating IP
ITEM = tags.HIDDEN + 'public-address'  # metadata item of a server that may have a public address of RunInstances


def external_network(req: operations.Request) -> str:
    """Return the UUID of the first external network, which has the public addresses.

    :raises Ec2Error: there is none
    """
    networks = req.call('network', 'GET', '/networks', query={'router:external': 'true'})['networks']
    if not networks:
        raise errors.Ec2Error('InsufficientAddressCapacity', 'This cloud has no external network.', 500)
    return str(networks[0]['id'])


def ports_of(req: operations.Request, server: str) -> list[dict[str, Any]]:
    """Return the ports of a server.

    :param server: UUID
    """
    return list(req.call('network', 'GET', '/ports', query={'device_id': server})['ports'])


def assign(req: operations.Request, server: str, network: str) -> None:
    """Assign an address to the first port of a server, unless the port has one.

    An interrupted request, or later the user, may have assigned it.

    :param server: UUID
    :param network: UUID of the network of public addresses
    :raises Ec2Error, ServiceRefused: no address, or no port
    """
    ports = ports_of(req, server)
    if not ports:
        raise errors.Ec2Error('IncorrectInstanceState', 'The instance has no network interface.')
    try:
        req.call('network', 'POST', '/floatingips', {'floatingip': {
            'floating_network_id': network, 'port_id': ports[0]['id'], 'description': DESCRIPTION}})
    except errors.ServiceRefused as refused:
        if refused.status != 409 or not req.call('network', 'GET', '/floatingips', query={
                'port_id': ports[0]['id']})['floatingips']:
            raise


def assigned(req: operations.Request, ports: Iterable[str]) -> list[dict[str, Any]]:
    """Return the addresses that RunInstances assigned to ports.

    :param ports: UUIDs
    """
    return [row for port in ports
            for row in req.call('network', 'GET', '/floatingips', query={'port_id': port})['floatingips']
            if is_assigned(row)]


def assigned_to(req: operations.Request, server: str) -> list[dict[str, Any]]:
    """Return the addresses that RunInstances assigned to a server.

    :param server: UUID
    """
    return assigned(req, [port['id'] for port in ports_of(req, server)])


def release(req: operations.Request, addresses: Iterable[dict[str, Any]]) -> None:
    """Release assigned addresses, some of which may be released already."""
    for row in addresses:
        with errors.ignored(404):
            req.call('network', 'DELETE', f'/floatingips/{row["id"]}')


def is_assigned(row: JsonObject) -> bool:
    """Return whether a floating IP was assigned by RunInstances."""
    return bool(row.get('description') == DESCRIPTION)
