"""What a request for a server may mean by its networks."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, SubnetsRow
    from nova.objects import pci

# {'network_id', 'port_id', 'fixed_ip', 'tag', GRANTED}
Request = dict[str, Any]
# key of a request that is true where an administrator has named a network that the server's project may not use
GRANTED = 'granted'


class Checked(NamedTuple):
    """What a check of requests for networks has found.

    requests  as they came, with GRANTED; completed where a port is attached
    secured   whether one of the ports that are made is in security groups; also where the network is not known yet
    devices   of hosts, which ports need
    groups    names of the security groups of the ports that the requests name
    """

    requests: list[Request] | str | None
    secured: bool = True
    devices: tuple[pci.Request, ...] = ()
    groups: tuple[str, ...] = ()


def normalized(requests: list[Request] | str | None) -> list[Request] | None:
    """The networks of a RequestSpec with every key, None for 'auto'."""
    return None if requests is None or isinstance(requests, str) else complete(requests)


def complete(requests: list[Request]) -> list[Request]:
    """Requests for networks with every key."""
    return [{'network_id': None, 'port_id': None, 'fixed_ip': None, 'tag': None, **request} for request in requests]


def choose(usable: dict[str, tuple[NetworksRow, list[Any]]]) -> list[dict[str, str | None]]:
    """Requests for a server that names no network: the default network, else the only one there is, else
    none.

    :param usable: networks.usable(…)
    :raises NetworkAmbiguous: several networks, none of them the default one
    """
    candidates = [network for network, subnets in usable.values() if subnets and network['admin_state_up']]
    chosen = [network for network in candidates if network['is_default'] and not network['external']] or candidates
    if len(chosen) > 1:
        raise exception.NetworkAmbiguous()
    return complete([{'network_id': network['id']} for network in chosen])


def is_of_project(network: NetworksRow, project_id: str) -> bool:
    """Whether the project may make ports in a network.

    :param network: of networks.usable(…) for the project
    """
    return bool(network['shared'] or network['project_id'] == project_id)


def network_of(usable: dict[str, tuple[NetworksRow, list[Any]]], network_id: str | None, project_id: str,
               granted: Collection[str | None] = ()) -> tuple[NetworksRow, list[SubnetsRow]]:
    """As ``usable_network``, with subnets or without."""
    found = None if network_id is None else usable.get(network_id)
    if found is None:
        raise exception.NetworkNotFound(network_id=network_id)
    network = found[0]
    if not is_of_project(network, project_id):
        if network['external']:
            raise exception.ExternalNetworkAttachForbidden(network_id=network_id)
        if network_id not in granted:
            raise exception.NetworkNotFound(network_id=network_id)
    return found


def usable_network(usable: dict[str, tuple[NetworksRow, list[Any]]], network_id: str | None, project_id: str,
                   granted: Collection[str | None] = ()) -> tuple[NetworksRow, list[SubnetsRow]]:
    """(network, subnets) that the project may make ports in.

    :param granted: ids of other projects' networks that an administrator has named
    :raises NetworkNotFound: none, or another project's
    :raises ExternalNetworkAttachForbidden: another project's that everybody sees, since routers lead to it
    :raises NetworkRequestInvalid: no address can be had there
    """
    network, subnets = network_of(usable, network_id, project_id, granted)
    if not subnets:
        raise exception.NetworkRequestInvalid(reason=f'network {network_id} has no subnet.')
    return network, subnets
