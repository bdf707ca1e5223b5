"""Ports that may send from ranges of addresses: whose a packet is says the device, not the address.

A range may have addresses of other guests, on this host or elsewhere, so no address in it tells its sender or receiver.
A packet that such a port sends from its range, or gets for it, has a mark while it passes the host: above the number of
its sender, below that of its receiver. The number of a port is made of its device's name, so that it is no other one
after a change of ports. What leaves the host through a tunnel has none.
"""
from __future__ import annotations

from collections.abc import Iterable
import hashlib
from typing import TYPE_CHECKING

from nova.network.linux import frames

if TYPE_CHECKING:
    from nova.network.host.state import Port

SENDER, RECEIVER = 0xffff0000, 0x0000ffff       # the bits of the mark
FOLLOWED = 1                                    # a receiver's number that no port has: it is not known yet which one
CLEARED = 'meta mark set 0'


def numbers(ports: Iterable[Port]) -> dict[str, int]:
    """{device: number} of the ports with ranges."""
    found: dict[str, int] = {}
    for device in sorted(port.device for port in ports if frames.wide(port)):
        number = int.from_bytes(hashlib.sha256(device.encode()).digest()[:2], 'big')
        while number <= FOLLOWED or number in found.values():
            number = (number + 1) & RECEIVER
        found[device] = number
    return found


def frame_chains(ports: list[Port], known: dict[str, int]) -> list[tuple[str, list[str], tuple[str, str, int] | None]]:
    """[(name, rules, hook or None)] of the bridge table: who gets a frame that is for one of the ranges.

    The bridge knows that when it has looked for the device. Tracking begins before: by the MAC, which may be another
    one's, so that too much is followed at worst.
    """
    several = [port for port in ports if port.device in known]
    if not several:
        return []
    receivers = [(f'wide_{port.device}', [
        f'{each} meta mark set meta mark & {SENDER:#010x} | {known[port.device]:#010x}' for each in _for(
            [address for of_port in frames.wide(port).values() for address in of_port])], None) for port in several]
    macs = frames.joined(sorted({mac for port in several for mac in frames.claims(port)}))
    every = [address for port in several for of_port in frames.wide(port).values() for address in of_port]
    return [*receivers,
            ('wide_followed', [f'ether daddr {macs} {each} meta mark set meta mark | {FOLLOWED:#010x}'
                               for each in _for(every)], ('filter', 'prerouting', -250)),
            ('wide_receivers', ['oifname vmap ' + frames.joined(
                f'"{port.device}" : goto wide_{port.device}' for port in several)], ('filter', 'forward', -300))]


def _for(addresses: list[str]) -> list[str]:
    """Matches of IPv4 and IPv6 for these ranges."""
    return [f'ether type {family} {family} daddr {frames.joined(frames.merged(some))}'
            for family, version in (('ip', 4), ('ip6', 6)) if (some := frames.of_version(addresses, version))]


def check(direction: str, known: dict[str, int]) -> list[str]:
    """Rules that lead marked packets to the groups of their port."""
    if not known:
        return []
    bits, shift = (SENDER, 16) if direction == 'egress' else (RECEIVER, 0)
    return [f'meta mark & {bits:#010x} vmap ' + frames.joined(
        f'{number << shift:#010x} : goto {direction}_{device}' for device, number in known.items())]
