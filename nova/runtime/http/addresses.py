"""Who counts as one client: an IPv4 address, or the /64 of an IPv6 address, which is what one customer has."""
import functools
import ipaddress


@functools.lru_cache(4096)
def plain(address):
    """The address as it is written without its disguises: no zone, IPv4 where IPv6 carries IPv4."""
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return address
    return str(getattr(found, 'ipv4_mapped', None) or found)


@functools.lru_cache(4096)
def client(address):
    """What is counted for this address.

    :param address: as ``plain`` gives it
    """
    if ':' not in address:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False))


class Trusted:
    """Proxies: the connections of one are those of many clients, so no bound of one client is for it.

    :param networks: addresses and networks as text
    :raises ValueError: one of them is neither
    """

    def __init__(self, networks=()):
        self._networks = [ipaddress.ip_network(network, strict=False) for network in networks]

    def __contains__(self, address):
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks if network.version == found.version)
