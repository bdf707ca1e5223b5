"""Bridge filters of distributed routers: frames for a router stay on the sender's host.

A distributed router has the same MAC and addresses on each host. The router on a host routes directly to the guest
addresses that the network service knows. Packets for other addresses go through the sender's network to the gateway
host, with the destination MAC ``gateway_mac``. The gateway host replaces ``gateway_mac`` by the router's MAC. Frames
for the router's MAC, and ARP or ND for its addresses, never leave a host.
"""
import ipaddress
import re

from nova.network import relay
from nova.network.host import state as host_state
from nova.network.linux import frames


def to_others(state: host_state.HostState, bridge: str) -> list[str]:
    """Return statements that drop frames for a local router before they leave to other hosts."""
    rules = []
    for router in state.routers:
        for interface in _distributed_interfaces(router):
            if interface.bridge == bridge:
                rules += [f'ether daddr {interface.mac} drop', *_drop_neighbour_queries(interface, '')]
                if interface.modes:
                    rules.append('ether type ip6 icmpv6 type nd-router-solicit drop')
                # only the gateway host resolves addresses that the network service does not know
                if router.role in host_state.DVR_LOCAL_ROLES:
                    rules += [f'ether saddr {interface.mac} ether type arp drop',
                              f'ether saddr {interface.mac} ether type ip6 icmpv6 type 133-137 drop']
                if router.role == host_state.DVR_ISOLATED:
                    rules.append(f'ether daddr {host_state.gateway_mac(interface.mac)} drop')
    return rules


def sets(state: host_state.HostState) -> list[tuple[str, str, list[str]]]:
    """Return nft sets as [(name, type, elements)]: destinations to which a local router sends packets directly."""
    found = []
    for router in state.routers:
        if router.role in host_state.DVR_LOCAL_ROLES:
            known = _local_destinations(router)
            for version, kind in ((4, 'ipv4_addr'), (6, 'ipv6_addr')):
                found.append((_set(router, version), kind, sorted(frames.of_version(known, version))))
    return found


def chains(state: host_state.HostState) -> list[tuple[str, list[str]]]:
    """Return [(name, statements)] of chains for frames to a local router's interfaces; ``rules`` adds the jumps."""
    return [(_chain(interface), _to_gateway_host(router, interface)) for router in state.routers
            if router.role in host_state.DVR_LOCAL_ROLES for interface in _distributed_interfaces(router)]


def rules(state: host_state.HostState) -> list[str]:
    """Return statements for frames to distributed routers, from other hosts and from devices on this host."""
    found = []
    for router in state.routers:
        for interface in _distributed_interfaces(router):
            through = f'iifname "{frames.vxlan_name(interface.bridge)}" '
            if router.role == host_state.DVR_GATEWAY:
                found.append(f'{through}ether daddr {host_state.gateway_mac(interface.mac)} '
                             f'ether daddr set {interface.mac} accept')
                continue
            found += [f'{through}ether daddr {interface.mac} drop', *_drop_neighbour_queries(interface, through)]
            if near := _sender_devices(state, interface):
                found.append(f'iifname {frames.anonymous_set(near)} ether daddr {interface.mac} '
                             f'jump {_chain(interface)}')
    return found


def _sender_devices(state: host_state.HostState, interface: host_state.RouterInterface) -> list[str]:
    """Return the devices on the interface's bridge: a rule names them, because other bridges may use the same MAC."""
    devices = [port.device for port in state.ports if port.bridge == interface.bridge]
    devices += [frames.router_name(other) for router in state.routers for other in router.internal
                if other.bridge == interface.bridge and other.port != interface.port]
    return [f'"{device}"' for device in devices]


def _distributed_interfaces(router: host_state.Router) -> list[host_state.RouterInterface]:
    return [interface for interface in router.internal if interface.distributed] if router.up else []


def _drop_neighbour_queries(interface: host_state.RouterInterface, where: str) -> list[str]:
    """Drop ARP requests and neighbour solicitations for the interface's addresses.

    Guests send such queries, and the kernel sends them when the interface gets an address.
    """
    own = [address.partition('/')[0] for address in interface.addresses]
    found = []
    if four := frames.of_version(own, 4):
        found.append(f'{where}ether type arp arp operation request arp daddr ip {frames.anonymous_set(four)} drop')
    return found + [
        f'{where}ether type ip6 icmpv6 type nd-neighbor-solicit @th,64,128 {int(ipaddress.ip_address(each)):#x} drop'
        for each in [*frames.of_version(own, 6), frames.link_local(interface.mac)]]


def _to_gateway_host(router: host_state.Router, interface: host_state.RouterInterface) -> list[str]:
    """Redirect frames for a local router to the gateway host: ARP and ND replies, and packets for unknown addresses.

    The replies answer queries of the gateway host, because a local router has only static neighbours.
    """
    away = 'drop' if router.role == host_state.DVR_ISOLATED else (
        f'ether daddr set {host_state.gateway_mac(interface.mac)}')
    return [f'ether type arp arp operation reply {away}',
            f'ether type ip6 icmpv6 type nd-neighbor-advert {away}',
            'ether type ip6 ip6 daddr fe80::/10 return',
            f'ether type ip6 ip6 daddr != @{_set(router, 6)} {away}',
            f'ether type ip ip daddr != @{_set(router, 4)} {away}']


def _local_destinations(router: host_state.Router) -> set[str]:
    """Return the router's addresses, the metadata address, and addresses of guests to which no static route leads."""
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


def _set(router: host_state.Router, version: int) -> str:
    return f'led{version}_' + re.sub('[^0-9A-Za-z]', '', router.id)


def _chain(interface: host_state.RouterInterface) -> str:
    return 'for_' + frames.router_name(interface)
