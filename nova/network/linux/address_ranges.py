"""Ports that may send from ranges of addresses: whose a packet is says the device, not the address.

A range may have addresses of other guests, on this host or elsewhere, so no address in it says who sends or receives.
A packet that such a port sends from its range, or gets for it, has a mark while it passes the host: above the number of
its sender, below that of its receiver. The number of a port is made of its device's name, so that it is no other one
after a change of ports. What leaves the host through a tunnel has none. Connections of such packets are in a zone of
their own, so that none of them stands for one of the guest that an address belongs to, nor its replies for replies.
"""
from __future__ import annotations

from collections.abc import Iterable
import hashlib
import ipaddress
from typing import TYPE_CHECKING

from nova.network.linux import frames

if TYPE_CHECKING:
    from nova.network.host.state import Port

SENDER, RECEIVER = 0xffff0000, 0x0000ffff       # the bits of the mark
FOLLOWED = 1                                    # a receiver's number that no port has: it is not known yet which one
CLEARED = 'meta mark set 0'
ZONES = 0xffff                                  # the last zone of connections


def numbers(ports: Iterable[Port]) -> dict[str, int]:
    """{device: number} of the ports with ranges."""
    found: dict[str, int] = {}
    taken = set(range(FOLLOWED + 1))
    for device in sorted(port.device for port in ports if frames.wide(port)):
        number = int.from_bytes(hashlib.sha256(device.encode()).digest()[:2], 'big')
        while number in taken:
            number = (number + 1) & RECEIVER
        taken.add(number)
        found[device] = number
    return found


def frame_chains(ports: list[Port], known: dict[str, int]) -> list[tuple[str, list[str], tuple[str, str, int] | None]]:
    """[(name, rules, hook or None)] of the bridge table: who gets a frame that is for one of the ranges.

    The bridge knows that when it has looked for the device. Tracking begins before, by the MAC: what is sent to another
    one is followed as what is for the guest with the address, and does not get in.
    """
    several = [port for port in ports if port.device in known]
    if not several:
        return []
    receivers = [(f'wide_{port.device}', _marks(
        port, '', f'meta mark & {RECEIVER:#010x} != {FOLLOWED:#010x} drop',
        f'meta mark set meta mark & {SENDER:#010x} | {known[port.device]:#010x}'), None) for port in several]
    followed = [rule for port in several for rule in _marks(
        port, 'ether daddr {mac} ', f'meta mark set meta mark | {FOLLOWED:#010x}')]
    return [*receivers,
            ('wide_followed', followed, ('filter', 'prerouting', -250)),
            ('wide_receivers', ['oifname vmap ' + frames.joined(
                f'"{port.device}" : goto wide_{port.device}' for port in several)], ('filter', 'forward', -300))]


def _marks(port: Port, only: str, *statements: str) -> list[str]:
    """Rules about what is for a range of a port, and not for an address by which it is known.

    :param only: the match of its MAC, if any
    """
    found = []
    for mac, addresses in frames.claims(port).items():
        to_mac, ranged = only.format(mac=mac), frames.ranged(addresses)
        if ranged:
            known = [each for each in frames.single(addresses) if _within(each, ranged)]
            found += [*(f'{to_mac}{each} return' for each in _for(known)),
                      *(f'{to_mac}{each} {statement}' for each in _for(ranged) for statement in statements)]
    return found


def _within(address: str, ranges: list[str]) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(each) for each in ranges)


def _for(addresses: list[str]) -> list[str]:
    """Matches of IPv4 and IPv6 for these addresses and ranges."""
    return [f'ether type {family} {family} daddr {frames.joined(frames.merged(some))}'
            for family, version in (('ip', 4), ('ip6', 6)) if (some := frames.of_version(addresses, version))]


def zones(numbers: dict[str, int]) -> dict[str, int]:
    """{bridge: zone of the connections of ranges} for {bridge: zone of the others}; zone 0 is the host's own."""
    taken, found = {0, *numbers.values()}, {}
    for bridge, number in numbers.items():
        zone = ZONES - number
        while zone in taken:
            zone = (zone - 1) % (ZONES + 1)
        taken.add(zone)
        found[bridge] = zone
    return found


def check(direction: str, known: dict[str, int]) -> list[str]:
    """Rules that lead marked packets to the groups of their port."""
    if not known:
        return []
    bits, shift = (SENDER, 16) if direction == 'egress' else (RECEIVER, 0)
    return [f'meta mark & {bits:#010x} vmap ' + frames.joined(
        f'{number << shift:#010x} : goto {direction}_{device}' for device, number in known.items())]
