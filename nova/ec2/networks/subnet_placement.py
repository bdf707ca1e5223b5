"""Placement of new instances in subnets: the compute API accepts networks and fixed IPs, not subnets."""
import ipaddress
from typing import Any

from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import operations

_OF_NETWORK = ['id', 'cidr', 'ip_version']


def place_of(req: operations.Request, shown: str, address: str | None) -> tuple[str, str]:
    """Return (network UUID, subnet UUID) for a subnet ID.

    The network of a subnet is cached. Each call reads the network's subnets, which checks that the caller may see them.

    :param address: fixed IP in the subnet; None: any
    :raises Ec2Error: unknown subnet, address outside of it, or the network has other subnets and no address is given
    """
    uuid = req.uuid('subnet', shown)
    network = req.ids.networks.get(uuid)
    rows = _of_network(req, network) if network else []
    if network is None or uuid not in {row['id'] for row in rows}:
        network = str(req.find('subnet', shown, 'network', '/subnets/{}?fields=network_id')['subnet']['network_id'])
        rows = _of_network(req, network)
        known = req.ids.networks
        req.ids.networks = {**(known if len(known) < ids.MAX_CACHED else {}), uuid: network}
    own = next((row for row in rows if row['id'] == uuid), None)
    if own is None:                      # the subnet was deleted
        raise errors.not_found('subnet', shown)
    if address:
        _check_address(own['cidr'], address)
    elif sum(row['ip_version'] == own['ip_version'] for row in rows) > 1:
        raise errors.unsupported(f'The network of {shown} has other subnets too, so the compute API could choose an '
                                 'address of any of them. Specify a PrivateIpAddress in this subnet, or create a '
                                 'network interface in it with CreateNetworkInterface.')
    return network, uuid


def _of_network(req: operations.Request, network: str) -> list[dict[str, Any]]:
    return req.pages('network', '/subnets', 'subnets', {'network_id': network, 'fields': _OF_NETWORK})


def _check_address(cidr: str, address: str) -> None:
    """Check a fixed IP.

    :raises Ec2Error: the address is malformed, or outside of the subnet
    """
    try:
        within = ipaddress.ip_address(address) in ipaddress.ip_network(cidr)
    except ValueError:
        raise errors.invalid('PrivateIpAddress', address) from None
    if not within:
        raise errors.Ec2Error('InvalidParameterValue', f'The address {address} is not within the range of the subnet.')
