"""Statements of the bridge table that limit the frames which a guest sends and receives.

A guest may send only with its own MAC and addresses, and answer (ARP, neighbour advertisements) only for its own
addresses. The guest must not act as DHCP server or send router advertisements. Its only link-local address is the one
derived from its MAC (RFC 4291).
"""
import ipaddress
from collections.abc import Iterable

from nova.network import ranges
from nova.network import relay
from nova.network import switchover
from nova.network.host import state as host_state


# maximum rate of DHCP requests of a guest, because dnsmasq starts a process for each new or released lease
DHCP_LIMIT = '5/second burst 20 packets'


# QEMU on the target host announces a migrated guest with RARP. Other hosts then send the guest's frames to the target
# (switchover.py). The filters drop RARP frames from other guests.
RARP = f'{switchover.RARP:#x}'


def anonymous_set(values: Iterable[str]) -> str:
    """Return an nft anonymous set."""
    return '{ %s }' % ', '.join(values)


def removal(family: str, table: str) -> str:
    """Return nft commands that remove a table if it exists."""
    return f'table {family} {table}\ndelete table {family} {table}\n'


def of_version(addresses: Iterable[str], version: int) -> list[str]:
    """Return the addresses of an IP version."""
    return [address for address in addresses if (':' in address) == (version == 6)]


def link_local(mac: str) -> str:
    """Return the link-local address derived from a MAC."""
    return ranges.from_mac('fe80::/64', mac)


def collapse(addresses: Iterable[str]) -> list[str]:
    """Collapse addresses and ranges of one IP version: nft sets must not have overlapping elements."""
    every = list(dict.fromkeys(addresses))
    if not any(map(ranges.is_range, every)):
        return every
    return [str(each).removesuffix(f'/{each.max_prefixlen}')
            for each in ranges.merged(map(ipaddress.ip_network, every))]


def allowed_addresses(port: host_state.Port) -> dict[str, list[str]]:
    """Return {MAC: source addresses and ranges} that a port may use."""
    found = {port.mac: list(port.addresses)}
    for pair in port.pairs if port.addresses else ():
        found.setdefault(pair['mac_address'] or port.mac, []).append(pair['ip_address'])
    return {mac: list(dict.fromkeys(addresses)) for mac, addresses in found.items()}


def ranges_by_mac(port: host_state.Port) -> dict[str, list[str]]:
    """Return {MAC: source ranges} that a port may use."""
    if not port.port_security:
        return {}
    return {mac: some for mac, addresses in allowed_addresses(port).items() if (some := only_ranges(addresses))}


def only_addresses(addresses: list[str]) -> list[str]:
    return [each for each in addresses if not ranges.is_range(each)]


def only_ranges(addresses: list[str]) -> list[str]:
    return [each for each in addresses if ranges.is_range(each)]


def from_guest(port: host_state.Port, number: int = 0) -> list[str]:
    """Allow ARP and IP with the port's addresses, and DHCP requests. Drop other frames, including tagged frames.

    :param number: number of a port with ranges, see address_ranges.py
    """
    # the metadata service identifies guests by address: drop requests from addresses that other ports may also use
    own = of_version(port.addresses, 4)
    metadata = f'ether type ip ip daddr {relay.ADDRESS} ' + (
        f'ip saddr != {anonymous_set(own)} drop' if own else 'drop')
    if not port.port_security:
        # Drop both tag types: the kernel accepts a frame with tag 0 as untagged, but rules for IP do not match it.
        # Drop fragments here: a host may reassemble them, and the receiver's rules would accept the whole packet.
        others = f' ether saddr != {port.mac}' if port.incoming else ''
        return ['ether type { 8021q, 8021ad } drop', f'ether type {RARP}{others} drop', metadata, *_FRAGMENTS, 'accept']
    known = allowed_addresses(port)
    rules = [metadata] if port.pairs else []
    if port.incoming:
        rules.append(f'ether saddr {port.mac} ether type {RARP} @nh,48,16 {switchover.REQUEST} accept')
    rules += [f'ether saddr != {anonymous_set(known)} drop' if len(known) > 1 else f'ether saddr != {port.mac} drop']
    for mac, addresses in known.items():                # fast path: accept most packets before the rules below
        if four := only_addresses(of_version(addresses, 4)):
            rules += [f'{"ether saddr " + mac + " " if len(known) > 1 else ""}ether type ip {kind} '
                      f'ip saddr {anonymous_set(four)} accept'
                      for kind in ('ip protocol tcp', 'udp sport != { 67, 68 }')]
    rules += [f'ether type {family} udp sport {client} udp dport {server} limit rate over {DHCP_LIMIT} drop'
              for family, client, server in (('ip', 68, 67), ('ip6', 546, 547))]
    for mac, addresses in known.items():
        only = f'ether saddr {mac} ' if len(known) > 1 else ''
        if four := of_version(addresses, 4):
            senders = anonymous_set(collapse(['0.0.0.0', *four]))               # 0.0.0.0: ARP probe
            rules += [
                f'ether type arp arp saddr ether {mac} arp saddr ip {senders} accept',
                f'{only}ether type ip ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept',
                'ether type ip udp sport 67 drop',
                *_own(only, 'ip', four, number),
            ]
        if six := of_version(addresses, 6):
            rules += _from_guest_6(only, [link_local(mac), *six], number)
    return rules + ['drop']


def _own(only: str, family: str, addresses: list[str], number: int) -> list[str]:
    """Accept packets with these source addresses; mark packets from a range with the port's number."""
    one, many = only_addresses(addresses), only_ranges(addresses)
    found = [f'{only}ether type {family} {family} saddr {anonymous_set(one)} accept'] if one else []
    if many:
        found.append(f'{only}ether type {family} {family} saddr {anonymous_set(collapse(many))} '
                     f'meta mark set {number << 16:#010x} accept')
    return found


# Neighbour discovery messages must not be fragmented (RFC 6980). Extension headers in a later fragment would hide the
# message type (RFC 7113). So a fragmented packet must not continue with options, routing, fragment, authentication,
# mobility, HIP or shim6 headers.
_FRAGMENTS = ('ether type ip6 frag nexthdr { 0, 43, 44, 51, 60, 135, 139, 140 } drop',
              'ether type ip6 exthdr frag exists icmpv6 type 133-137 drop')


def _about(address: str) -> str:
    """Return the match for neighbour discovery messages with this target: an address, or any address of a range."""
    range_ = ipaddress.ip_network(address)
    return f'@th,64,{range_.prefixlen} {int(range_.network_address) >> 128 - range_.prefixlen:#x}'


def _from_guest_6(only: str, own: list[str], number: int) -> list[str]:
    senders = anonymous_set(collapse(own))
    return [
        *_FRAGMENTS,
        f'{only}ether type ip6 icmpv6 type nd-router-advert drop',
        f'{only}ether type ip6 udp sport 547 drop',
        *[f'{only}ether type ip6 icmpv6 type nd-neighbor-advert {_about(each)} ip6 saddr {senders} accept'
          for each in own],
        f'{only}ether type ip6 icmpv6 type nd-neighbor-advert drop',
        f'{only}ether type ip6 ip6 saddr :: icmpv6 type {{ nd-neighbor-solicit, nd-router-solicit, '
        'mld2-listener-report } accept',
        *_own(only, 'ip6', own, number)]


def to_guest(port: host_state.Port, servers: list[str]) -> list[str]:
    """Allow packets for the port's addresses, and answers of the network's DHCP servers."""
    if not port.port_security:
        return ['accept']
    rules, known = [], [address for addresses in allowed_addresses(port).values() for address in addresses]
    if four := of_version(known, 4):
        rules += [f'ether type ip ip daddr {anonymous_set(collapse(four))} accept', 'ether type arp accept']
        if dhcp := of_version(servers, 4):
            rules.append(f'ether type ip ip saddr {anonymous_set(dhcp)} udp sport 67 udp dport 68 accept')
    if six := of_version(known, 6):
        own = [link_local(mac) for mac in allowed_addresses(port)] + six
        rules += _FRAGMENTS
        rules.append(f'ether type ip6 ip6 daddr {anonymous_set([*collapse(own), "ff00::/8"])} accept')
    return rules + ['drop']


def tunnel_name(overlay: host_state.Overlay) -> str:
    """Return the device that carries an overlay's frames to other hosts."""
    return vxlan_name(overlay.bridge) if overlay.vlan is None else 'vl' + overlay.bridge[2:]


def vxlan_name(bridge: str) -> str:
    """Return the VXLAN device of the overlay with this bridge."""
    return 'vx' + bridge[2:]


def service_name(overlay: host_state.Overlay) -> str:
    """Return the device of the namespace that serves DHCP and DNS in an overlay."""
    return 'nd' + overlay.bridge[2:]


def router_name(interface: host_state.RouterInterface) -> str:
    """Return the name of a router's interface, used at both ends of the veth pair."""
    return 'nr' + interface.port[:11]


def to_tunnel(drops: list[str]) -> list[str]:
    """Return rules for frames to other hosts: drop by MAC, then accept most IPv4 packets, then the other drops."""
    by_mac = [each for each in drops if 'ether type' not in each]
    return [*by_mac, 'ether type ip ip protocol tcp accept', 'ether type ip udp dport != 67 accept',
            *(each for each in drops if each not in by_mac)]


def to_others(overlay: host_state.Overlay) -> list[str]:
    """Drop DHCP and DNS frames to other hosts, because each host serves its own guests."""
    if overlay.mac is None:
        return []
    served = [subnet.dhcp for subnet in overlay.subnets if subnet.dhcp]
    rules = [f'ether saddr {overlay.mac} drop', 'ether type ip udp dport 67 drop', 'ether type ip6 udp dport 547 drop',
             *[f'ether type arp arp daddr ip {each} drop' for each in [*of_version(served, 4), relay.ADDRESS]]]
    return rules
