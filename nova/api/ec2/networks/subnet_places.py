"""The subnet of an instance that is started: the compute API takes its network, and an address of it."""
from __future__ import annotations

import ipaddress
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import ids
from nova.api.ec2 import operations

_OF_NETWORK = ['id', 'cidr', 'ip_version']


def place_of(req: operations.Request, shown: str, address: str | None) -> tuple[str, str]:
    """(uuid of the network, uuid of the subnet) of a subnet's id.

    Its network never changes and is remembered; what else there is of that network, and whether the caller may see it,
    is looked up each time.

    :param address: that the instance is to have there; None: any
    :raises Ec2Error: there is no such subnet, the address is none of its range, or the compute API would take an
        address of another one
    """
    uuid = req.uuid('subnet', shown)
    network = req.ids.networks.get(uuid)
    rows = _of_network(req, network) if network else []
    if network is None or uuid not in {row['id'] for row in rows}:
        network = str(req.find('subnet', shown, 'network', '/subnets/{}?fields=network_id')['subnet']['network_id'])
        rows = _of_network(req, network)
        known = req.ids.networks
        req.ids.networks = {**(known if len(known) < ids.MOST_KNOWN else {}), uuid: network}
    own = next((row for row in rows if row['id'] == uuid), None)
    if own is None:                      # it was removed meanwhile
        raise errors.not_found('subnet', shown)
    if address:
        _check_address(own['cidr'], address)
    elif sum(row['ip_version'] == own['ip_version'] for row in rows) > 1:
        raise errors.unsupported(f'The network of {shown} has other subnets as well, and the compute API would take an '
                                 'address of any: give a PrivateIpAddress of this one, or a network interface that was '
                                 'made in it by CreateNetworkInterface.')
    return network, uuid


def _of_network(req: operations.Request, network: str) -> list[dict[str, Any]]:
    return req.pages('network', '/subnets', 'subnets', {'network_id': network, 'fields': _OF_NETWORK})


def _check_address(cidr: str, address: str) -> None:
    """
    :raises Ec2Error: the address is none, or of another range
    """
    try:
        within = ipaddress.ip_address(address) in ipaddress.ip_network(cidr)
    except ValueError:
        raise errors.invalid('PrivateIpAddress', address) from None
    if not within:
        raise errors.Ec2Error('InvalidParameterValue', f'The address {address} is not within the range of the subnet.')
