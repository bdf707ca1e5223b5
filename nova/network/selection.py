"""What a request for a server may mean by its networks."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, SubnetsRow


def normalized(requests: list[dict[str, str | None]] | None) -> list[dict[str, str | None]] | None:
    """The networks of a RequestSpec with every key, None for 'auto'."""
    if requests is None or requests == 'auto':
        return None
    return [
        {'network_id': None, 'port_id': None, 'fixed_ip': None, 'tag': None, **request}
        for request in requests
    ]


def choose(usable: dict[str, tuple[NetworksRow, list[Any]]]) -> list[dict[str, str | None]]:
    """Requests for a server that names no network: the default network, else the only one there is, else
    none.

    :param usable: networks.usable(…)
    :raises NetworkAmbiguous: several networks, none of them the default one
    """
    candidates = [network for network, subnets in usable.values() if subnets and network['admin_state_up']]
    chosen = [network for network in candidates if network['is_default']] or candidates
    if len(chosen) > 1:
        raise exception.NetworkAmbiguous()
    return normalized([{'network_id': network['id']} for network in chosen])


def usable_network(usable: dict[str, tuple[NetworksRow, list[Any]]], network_id: str | None,
                   project_id: str) -> tuple[NetworksRow, list[SubnetsRow]]:
    """(network, subnets) that the project may make ports in.

    :raises NetworkNotFound: none, or another project's
    :raises NetworkRequestInvalid: no address can be had there
    """
    network, subnets = usable.get(network_id, (None, None))
    if network is None or not (network['shared'] or network['project_id'] == project_id):
        raise exception.NetworkNotFound(network_id=network_id)
    if not subnets:
        raise exception.NetworkRequestInvalid(reason=f'network {network_id} has no subnet.')
    return network, subnets
