"""Filter rules for ports with ranges in their allowed address pairs. The rules identify a port by its device.

A range may contain addresses of other guests, so an address in it does not identify the sender or receiver. While a
packet from or to such a range passes the host, its packet mark holds the sender's port number in the upper half and
the receiver's in the lower half. A port's number is derived from its device name, so it is stable when other ports
change. If names have the same number, later names in the alphabet get the next free numbers. A changed number is
harmless: only packets on their way have numbers, and the rules are replaced as a whole. Packets lose the mark when they
leave through a tunnel. Marked packets use a separate conntrack zone, so that they cannot match connections of the guest
that owns an address.
"""
from collections.abc import Iterable
import hashlib
import ipaddress

from nova.network.host.state import Port
from nova.network.linux import frames

SENDER, RECEIVER = 0xffff0000, 0x0000ffff       # masks of the two halves of the packet mark
UNKNOWN_RECEIVER = 1                                    # reserved port number: the receiver is not known yet
CLEARED = 'meta mark set 0'
ZONES = 0xffff                                  # number of the last conntrack zone


def numbers(ports: Iterable[Port]) -> dict[str, int]:
    """Return {device: port number for packet marks} of the ports with ranges."""
    found: dict[str, int] = {}
    taken = set(range(UNKNOWN_RECEIVER + 1))
    for device in sorted(port.device for port in ports if frames.ranges_by_mac(port)):
        number = int.from_bytes(hashlib.sha256(device.encode()).digest()[:2], 'big')
        while number in taken:
            number = (number + 1) & RECEIVER
        taken.add(number)
        found[device] = number
    return found


def frame_chains(ports: list[Port], known: dict[str, int]) -> list[tuple[str, list[str], tuple[str, str, int] | None]]:
    """Return chains of the bridge table as [(name, rules, hook or None)].

    The chains mark frames to a range with the number of the receiving port. Connection tracking begins before the
    bridge has chosen the output device. So the chain in prerouting only compares the destination MAC and sets
    UNKNOWN_RECEIVER, which selects the conntrack zone of ranges. The chain in forward replaces this number by the
    number of the output device's port. It drops frames without UNKNOWN_RECEIVER: their destination MAC is not the
    port's, so they were tracked as frames to the guest that owns the address.
    """
    several = [port for port in ports if port.device in known]
    if not several:
        return []
    receivers = [(f'wide_{port.device}', _marks(
        port, '', f'meta mark & {RECEIVER:#010x} != {UNKNOWN_RECEIVER:#010x} drop',
        f'meta mark set meta mark & {SENDER:#010x} | {known[port.device]:#010x}'), None) for port in several]
    followed = [rule for port in several for rule in _marks(
        port, 'ether daddr {mac} ', f'meta mark set meta mark | {UNKNOWN_RECEIVER:#010x}')]
    return [*receivers,
            ('wide_followed', followed, ('filter', 'prerouting', -250)),
            ('wide_receivers', ['oifname vmap ' + frames.anonymous_set(
                f'"{port.device}" : goto wide_{port.device}' for port in several)], ('filter', 'forward', -300))]


def _marks(port: Port, only: str, *statements: str) -> list[str]:
    """Return rules that apply the statements to packets for a port's ranges, but not for the port's own addresses.

    :param only: match of the port's MAC, if any
    """
    found = []
    for mac, addresses in frames.allowed_addresses(port).items():
        to_mac, ranged = only.format(mac=mac), frames.only_ranges(addresses)
        if ranged:
            known = [each for each in frames.only_addresses(addresses) if _within(each, ranged)]
            found += [*(f'{to_mac}{each} return' for each in _for(known)),
                      *(f'{to_mac}{each} {statement}' for each in _for(ranged) for statement in statements)]
    return found


def _within(address: str, ranges: list[str]) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(each) for each in ranges)


def _for(addresses: list[str]) -> list[str]:
    """Return IPv4 and IPv6 destination matches for addresses and ranges."""
    return [f'ether type {family} {family} daddr {frames.anonymous_set(frames.collapse(some))}'
            for family, version in (('ip', 4), ('ip6', 6)) if (some := frames.of_version(addresses, version))]


def zones(numbers: dict[str, int]) -> dict[str, int]:
    """Return {bridge: conntrack zone of ranges} for {bridge: zone of other connections}. The host uses zone 0."""
    taken, found = {0, *numbers.values()}, {}
    for bridge, number in numbers.items():
        zone = ZONES - number
        while zone in taken:
            zone = (zone - 1) % (ZONES + 1)
        taken.add(zone)
        found[bridge] = zone
    return found


def check(direction: str, known: dict[str, int]) -> list[str]:
    """Return rules that send marked packets to the chains of their port."""
    if not known:
        return []
    bits, shift = (SENDER, 16) if direction == 'egress' else (RECEIVER, 0)
    return [f'meta mark & {bits:#010x} vmap ' + frames.anonymous_set(
        f'{number << shift:#010x} : goto {direction}_{device}' for device, number in known.items())]
