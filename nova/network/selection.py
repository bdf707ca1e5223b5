"""Select the networks of a server request."""
from collections.abc import Collection
from typing import Final, NamedTuple

from nova import exception
from nova.db.tables.rows import NetworksRow
from nova.db.tables.rows import SubnetsRow
from nova.objects.network_info import PortRequest
from nova.objects import pci

# keys of requests. GRANTED: an administrator named a network that the server's project may not use. GUARANTEED: the
# port has a QoS policy with guarantees, for which the host needs capacity
GRANTED: Final = 'granted'
GUARANTEED: Final = 'guaranteed'
Usable = dict[str, 'tuple[NetworksRow, list[SubnetsRow]]']           # result of networks.usable(…)


class CheckedNetworks(NamedTuple):
    """Result of a check of network requests.

    requests  the requests, with the key GRANTED if necessary; check_attach adds the chosen network. 'auto' only if the
              project has no network: ensure_network must create one
    secured   whether a new port gets security groups; also True if the network is not chosen yet
    devices   host devices that ports need
    groups    names of the security groups of existing ports in the requests
    """

    requests: list[PortRequest] | str | None
    secured: bool = True
    devices: tuple[pci.Request, ...] = ()
    groups: tuple[str, ...] = ()


def normalized(requests: list[PortRequest] | str | None) -> list[PortRequest] | None:
    """Return the port requests of a RequestSpec, each with all keys; None if the requests are None or a text."""
    return None if requests is None or isinstance(requests, str) else complete(requests)


def complete(requests: list[PortRequest]) -> list[PortRequest]:
    """Return the requests with missing keys added as None."""
    return [{'network_id': None, 'port_id': None, 'fixed_ip': None, 'tag': None, **request} for request in requests]


def choose(usable: Usable) -> list[PortRequest]:
    """Return requests for a server without requested networks: the default network, else the only network, else [].

    :param usable: networks.usable(…)
    :raises NetworkAmbiguous: several networks, and no default
    """
    candidates = [network for network, subnets in usable.values() if subnets and network['admin_state_up']]
    chosen = [network for network in candidates if network['is_default'] and not network['external']] or candidates
    if len(chosen) > 1:
        raise exception.NetworkAmbiguous()
    return complete([{'network_id': network['id']} for network in chosen])


def is_of_project(network: NetworksRow, project_id: str) -> bool:
    """Return whether the project may create ports in a network.

    :param network: one of networks.usable(…) for the project
    """
    return bool(network['shared'] or network['project_id'] == project_id)


def network_of(usable: Usable, network_id: str | None, project_id: str,
               granted: Collection[str | None] = ()) -> tuple[NetworksRow, list[SubnetsRow]]:
    """Return (network, subnets) if the project may use the network; there may be no subnets."""
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


def usable_network(usable: Usable, network_id: str | None, project_id: str,
                   granted: Collection[str | None] = ()) -> tuple[NetworksRow, list[SubnetsRow]]:
    """Return (network, subnets) if the project may create ports in it.

    :param granted: ids of other projects' networks that an administrator requested
    :raises NetworkNotFound: there is no such network, or it belongs to another project
    :raises ExternalNetworkAttachForbidden: the network is an external network of another project
    :raises NetworkRequestInvalid: the network has no subnet
    """
    network, subnets = network_of(usable, network_id, project_id, granted)
    if not subnets:
        raise exception.NetworkRequestInvalid(reason=f'network {network_id} has no subnet.')
    return network, subnets
