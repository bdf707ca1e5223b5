"""Identify clients by an IPv4 address or an IPv6 /64 network, which usually belongs to one customer."""
from collections.abc import Iterable
import functools
import ipaddress
from typing import Protocol

from nova import exception


class Peer(Protocol):
    """A connection or a request, with the address of its client."""

    address: str
    client: str


@functools.lru_cache(4096)
def plain(address: str) -> str:
    """Normalize an address: convert an IPv4-mapped address (::ffff:192.0.2.7) to IPv4, remove an IPv6 zone.

    :param address: other text is returned unchanged
    """
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return address
    return str(getattr(found, 'ipv4_mapped', None) or found)


@functools.lru_cache(4096)
def client(address: str) -> str:
    """Return the IPv4 address or IPv6 /64 network that identifies the client; return other text unchanged."""
    address = plain(address)
    try:
        return str(ipaddress.ip_network((address, 64), strict=False)) if ':' in address else address
    except ValueError:
        return address


class Trusted:
    """Addresses of trusted proxies. A proxy serves many clients, so the limits for one client do not apply to a proxy.

    :raises ValueError: a text is neither an address nor a network
    """

    def __init__(self, networks: Iterable[str | ipaddress.IPv4Network | ipaddress.IPv6Network] = ()) -> None:
        self._networks = [ipaddress.ip_network(network, strict=False) for network in networks]
        self._trusts = functools.lru_cache(4096)(self._looked_up)          # cached: each request needs it

    def __contains__(self, address: object) -> bool:
        return bool(self._networks) and self._trusts(address)

    @classmethod
    def of_option(cls, networks: Iterable[str]) -> 'Trusted':
        """Return the proxies of [http] trusted_proxies.

        :raises InvalidInput: a text is neither an address nor a network
        """
        try:
            return cls(networks)
        except ValueError as error:
            raise exception.InvalidInput(f'trusted_proxies in [http]: {error}.') from None

    def _looked_up(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks if network.version == found.version)
