"""Ranges of addresses: which piece is free, and the address that a guest makes for itself. No database."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
import ipaddress

Cidr = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_range(address: str) -> bool:
    """Whether a text is a range of addresses in CIDR notation, and no single address."""
    return '/' in address


def merged(prefixes: Iterable[Cidr]) -> list[Cidr]:
    """The same addresses in as few ranges as there can be, ascending; all of one version of IP."""
    return list(ipaddress.collapse_addresses(prefixes))         # type: ignore[type-var]


def covers(prefixes: Iterable[Cidr], wanted: Cidr) -> bool:
    """Whether a range lies in one of others, which are merged."""
    return any(wanted.version == each.version and wanted.subnet_of(each)      # type: ignore[arg-type]
               for each in prefixes)


def free_piece(prefixes: Sequence[Cidr], taken: Iterable[Cidr], prefixlen: int) -> Cidr | None:
    """A range of this length in one of the prefixes that meets none that is taken, or None.

    Smaller prefixes are looked at first, which keeps the greater ones whole. The work is that of sorting what is
    taken: gaps are computed, not tried.
    """
    for prefix in sorted(prefixes, key=lambda each: (-each.prefixlen, int(each.network_address))):
        if prefix.prefixlen > prefixlen:
            continue
        size = 1 << (prefix.max_prefixlen - prefixlen)
        start, end = int(prefix.network_address), int(prefix.broadcast_address)
        for low, high in sorted((int(each.network_address), int(each.broadcast_address)) for each in taken
                                if each.version == prefix.version and each.overlaps(prefix)):
            if start + size <= low:
                break
            start = max(start, -(-(high + 1) // size) * size)
        if start + size - 1 <= end:
            return type(prefix)((start, prefixlen))
    return None


def from_mac(cidr: str, mac: str) -> str:
    """The address that a guest with this MAC makes for itself in a /64 (RFC 4291, appendix A)."""
    octets = bytearray(bytes.fromhex(mac.replace(':', '')))
    octets[0] ^= 2
    return str(ipaddress.ip_network(cidr)[int.from_bytes(bytes(octets[:3]) + b'\xff\xfe' + bytes(octets[3:]), 'big')])
