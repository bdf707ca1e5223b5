"""Address ranges: free ranges, coverage, and EUI-64 addresses."""
from collections.abc import Collection, Iterable, Sequence
import ipaddress

Cidr = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_range(address: str) -> bool:
    """Return whether a text is a range in CIDR notation rather than a single address."""
    return '/' in address


def merged(prefixes: Iterable[Cidr]) -> list[Cidr]:
    """Collapse ranges of one IP version into as few as possible, ascending."""
    return list(ipaddress.collapse_addresses(prefixes))         # type: ignore[type-var]


def without(prefix: Cidr, gone: Cidr) -> Iterable[Cidr]:
    """Return the ranges that remain of ``prefix`` without ``gone``. The ranges have the same IP version."""
    if not prefix.overlaps(gone):
        return [prefix]
    return [] if prefix.subnet_of(gone) else prefix.address_exclude(gone)             # type: ignore[arg-type]


def covers(prefixes: Iterable[Cidr], wanted: Cidr) -> bool:
    """Return whether a range lies inside one of the merged prefixes."""
    return any(wanted.version == each.version and wanted.subnet_of(each)      # type: ignore[arg-type]
               for each in prefixes)


def find_free(prefixes: Sequence[Cidr], taken: Collection[Cidr], prefixlen: int) -> Cidr | None:
    """Find a free range of this length in the prefixes, or return None.

    The smallest prefixes are tried first, to keep the large prefixes whole. Gaps are computed from the sorted
    ``taken``, without trying each possible range.
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
    """Return the EUI-64 address of a MAC in a /64 (RFC 4291, appendix A)."""
    octets = bytearray(bytes.fromhex(mac.replace(':', '')))
    octets[0] ^= 2
    return str(ipaddress.ip_network(cidr)[int.from_bytes(bytes(octets[:3]) + b'\xff\xfe' + bytes(octets[3:]), 'big')])
