"""Distributed routers: frames for a router stay on the sender's host.

A distributed router has the same MAC and addresses on each host. It routes to the known guest addresses of its
networks. Packets for other addresses go to the gateway host, in the network they came from, with the MAC
``gateway_mac``; the gateway host replaces it by the router's own MAC. Frames for the router's MAC, and ARP or ND for
its addresses, never leave a host.
"""
from __future__ import annotations

import ipaddress
import re

from nova.network import relay
from nova.network.host.state import DVR_GATEWAY
from nova.network.host.state import DVR_ISOLATED
from nova.network.host.state import DVR_LOCAL_ROLES
from nova.network.host.state import gateway_mac
from nova.network.host.state import HostState
from nova.network.host.state import Router
from nova.network.host.state import RouterInterface
from nova.network.linux import frames


def to_others(state: HostState, bridge: str) -> list[str]:
    """Return statements that keep frames for a local router from leaving through an overlay."""
    rules = []
    for router in state.routers:
        for interface in _distributed_interfaces(router):
            if interface.bridge == bridge:
                rules += [f'ether daddr {interface.mac} drop', *_drop_neighbour_queries(interface, '')]
                if interface.modes:
                    rules.append('ether type ip6 icmpv6 type nd-router-solicit drop')
                if router.role in DVR_LOCAL_ROLES:        # the gateway host resolves addresses unknown to the service
                    rules += [f'ether saddr {interface.mac} ether type arp drop',
                              f'ether saddr {interface.mac} ether type ip6 icmpv6 type 133-137 drop']
                if router.role == DVR_ISOLATED:
                    rules.append(f'ether daddr {gateway_mac(interface.mac)} drop')
    return rules


def sets(state: HostState) -> list[tuple[str, str, list[str]]]:
    """Return [(name, type, elements)] of the sets of addresses that a local router instance routes itself."""
    found = []
    for router in state.routers:
        if router.role in DVR_LOCAL_ROLES:
            known = _local_destinations(router)
            for version, kind in ((4, 'ipv4_addr'), (6, 'ipv6_addr')):
                found.append((_set(router, version), kind, sorted(frames.of_version(known, version))))
    return found


def chains(state: HostState) -> list[tuple[str, list[str]]]:
    """Return [(name, statements)] of the chains for frames to a local router's interfaces; ``rules`` jumps there."""
    return [(_chain(interface), _to_gateway_host(router, interface)) for router in state.routers
            if router.role in DVR_LOCAL_ROLES for interface in _distributed_interfaces(router)]


def rules(state: HostState) -> list[str]:
    """Return statements for frames that enter an overlay on this host."""
    found = []
    for router in state.routers:
        for interface in _distributed_interfaces(router):
            through = f'iifname "{frames.vxlan_name(interface.bridge)}" '
            if router.role == DVR_GATEWAY:
                found.append(f'{through}ether daddr {gateway_mac(interface.mac)} '
                             f'ether daddr set {interface.mac} accept')
                continue
            found += [f'{through}ether daddr {interface.mac} drop', *_drop_neighbour_queries(interface, through)]
            if near := _sender_devices(state, interface):
                found.append(f'iifname {frames.anonymous_set(near)} ether daddr {interface.mac} '
                             f'jump {_chain(interface)}')
    return found


def _sender_devices(state: HostState, interface: RouterInterface) -> list[str]:
    """Return the devices on the interface's bridge that may send to it. Another network may use the same MAC."""
    devices = [port.device for port in state.ports if port.bridge == interface.bridge]
    devices += [frames.router_name(other) for router in state.routers for other in router.internal
                if other.bridge == interface.bridge and other.port != interface.port]
    return [f'"{device}"' for device in devices]


def _distributed_interfaces(router: Router) -> list[RouterInterface]:
    return [interface for interface in router.internal if interface.distributed] if router.up else []


def _drop_neighbour_queries(interface: RouterInterface, where: str) -> list[str]:
    """Drop ARP requests and neighbour solicitations for the interface's addresses.

    Guests send them, and so does the kernel when it assigns an address.
    """
    own = [address.partition('/')[0] for address in interface.addresses]
    found = []
    if four := frames.of_version(own, 4):
        found.append(f'{where}ether type arp arp operation request arp daddr ip {frames.anonymous_set(four)} drop')
    return found + [
        f'{where}ether type ip6 icmpv6 type nd-neighbor-solicit @th,64,128 {int(ipaddress.ip_address(each)):#x} drop'
        for each in [*frames.of_version(own, 6), frames.link_local(interface.mac)]]


def _to_gateway_host(router: Router, interface: RouterInterface) -> list[str]:
    """Redirect ARP and ND replies, and packets for unknown addresses, from a guest's router to the gateway host.

    A local instance sends no queries, because its neighbours are static.
    """
    away = f'ether daddr set {gateway_mac(interface.mac)}' if router.role != DVR_ISOLATED else 'drop'
    return [f'ether type arp arp operation reply {away}',
            f'ether type ip6 icmpv6 type nd-neighbor-advert {away}',
            'ether type ip6 ip6 daddr fe80::/10 return',
            f'ether type ip6 ip6 daddr != @{_set(router, 6)} {away}',
            f'ether type ip ip daddr != @{_set(router, 4)} {away}']


def _local_destinations(router: Router) -> set[str]:
    """Return the router's addresses, the metadata address and guest addresses without a more specific route."""
    routes = [ipaddress.ip_network(route['destination']) for route in router.routes]
    found = {relay.ADDRESS}
    for interface in _distributed_interfaces(router):
        for each in interface.addresses:
            own = ipaddress.ip_interface(each)
            longer = [route for route in routes if route.version == own.version and route != own.network
                      and route.subnet_of(own.network)]                                  # type: ignore[arg-type]
            found |= {str(own.ip), *(address for address, _mac in interface.neighbours
                                     if ipaddress.ip_address(address) in own.network
                                     and not any(ipaddress.ip_address(address) in route for route in longer))}
    return found


def _set(router: Router, version: int) -> str:
    return f'led{version}_' + re.sub('[^0-9A-Za-z]', '', router.id)


def _chain(interface: RouterInterface) -> str:
    return 'for_' + frames.router_name(interface)
