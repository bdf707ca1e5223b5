"""Validators of a HostState in the privileged process.

The values become command arguments, and text of nft and dnsmasq configuration. Each validator ensures that a value
cannot contain further arguments or statements.
"""
from collections.abc import Collection

from nova.json_types import Json
from nova.network import group_rules
from nova.network import ranges
from nova.network.host import state as host_state
from nova.objects import network_info
from nova.runtime import validators as v

_MAC = '[0-9a-f]{2}(:[0-9a-f]{2}){5}'
_ident = v.text('[0-9A-Za-z][0-9A-Za-z-]{0,63}', 'an id')
_bridge = v.text('br[0-9a-f]{12}', 'a bridge of this cloud')
_mac = v.text(_MAC, 'a MAC address')
_key = v.text('[0-9a-f]{64}', 'a key', shown=0)
_name = v.text(r'(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*', 'a domain')
_domain = v.either('', v.text(host_state.DOMAIN, 'a domain'))     # '' selects the configured domain
_address_or_empty = v.either('', v.address)
_mode = v.one_of('slaac', 'dhcpv6-stateful', 'dhcpv6-stateless')
_direction = v.one_of('egress', 'ingress')
_mtu, _port_number = v.number(68, 65535), v.number(1, 65535)
_protocol_number = v.text('[0-9]{1,3}', 'a protocol')
_addresses = v.items(v.address)
_limits = v.items(v.row(_direction, v.number(1, 80_000_000), v.number(0, 80_000_000)))
_dscp_mark = v.maybe(v.one_of(*host_state.DSCP_MARKS))
_routes = v.items(v.record(host_state.Route, destination=v.prefix, nexthop=v.address))
_remotes = v.items(v.row(_mac, v.address))
lease = v.record(host_state.Lease, mac=_mac, address=v.address, expires_at=v.number(0, (1 << 32) - 1))


def _pair_address(given: Json) -> str:
    return (v.prefix if ranges.is_range(str(given)) else v.address)(given)


def _migration(given: Json) -> list[str]:
    return v.row(v.address, _key)(given) if given else []


def _option(given: Json) -> host_state.DhcpOption:
    known = {'ip_version': 4, **given} if isinstance(given, dict) else given  # the API may omit ip_version of an option
    return v.record(
        host_state.DhcpOption, opt_name=v.text(host_state.OPTION_NAME, 'an option'),
        opt_value=v.text(host_state.OPTION_VALUE, 'a value of an option'),
        ip_version=v.one_of(*host_state.OPTION_VERSIONS))(known)


def _protocol(given: Json) -> str:
    if isinstance(given, str) and given in group_rules.PROTOCOLS:
        return given
    return str(v.number(0, 255)(int(_protocol_number(given))))


rules = v.mapping(_ident, v.items(v.record(
    group_rules.Rule, direction=_direction, ethertype=v.one_of(*group_rules.ETHERTYPES.values()),
    protocol=v.maybe(_protocol), port_range_min=v.maybe(v.number(0, 65535)), port_range_max=v.maybe(v.number(0, 65535)),
    remote_ip_prefix=v.maybe(v.prefix), remote_group_id=v.maybe(_ident))))
members = v.mapping(_ident, _addresses)
_router_interface = v.record(
    host_state.RouterInterface, port=_ident, mac=_mac, bridge=_bridge, mtu=_mtu, addresses=v.items(v.interface_address),
    modes=v.items(v.row(v.prefix, _mode)), distributed=v.flag, neighbours=v.items(v.row(v.address, _mac)),
    scopes=v.row(*[v.either('', _ident)] * 2))
_router = v.record(
    host_state.Router, id=_ident, up=v.flag, internal=v.items(_router_interface),
    external=v.maybe(_router_interface), gateway=v.maybe(v.address), snat=v.flag, routes=_routes,
    floating_ips=v.items(v.row(v.address, v.address)),
    port_forwardings=v.items(v.row(v.address, v.one_of('tcp', 'udp'), _port_number, v.address, _port_number)),
    role=v.one_of(*host_state.ROLES),
    port_ranges=v.items(v.row(v.address, v.one_of('tcp', 'udp'), *[_port_number] * 2, v.address, _port_number)),
    limits=_limits, dscp_mark=_dscp_mark,
    helpers=v.items(v.row(v.one_of(*host_state.HELPERS), v.one_of('tcp', 'udp'), _port_number)))


def state(default_bridge: str, physical_bridges: Collection[str]) -> v.Validator[host_state.HostState]:
    """Return the validator of a HostState.

    :param default_bridge: bridge of the default network
    :param physical_bridges: the operator's bridges in [network] physical_networks
    """
    bridge = v.either(default_bridge, _bridge)

    def physical_bridge(given: Json) -> str:
        if given not in physical_bridges:
            raise ValueError(f'{given!r:.40} is not in [network] physical_networks')
        return str(given)

    overlay = v.record(
        host_state.Overlay, id=_ident, bridge=_bridge, number=v.number(1, (1 << 16) - 1), mtu=_mtu, mac=v.maybe(_mac),
        subnets=v.items(v.record(
            host_state.OverlaySubnet, cidr=v.prefix, gateway=v.maybe(v.address), dhcp=v.maybe(v.address),
            dns=_addresses, routes=_routes, mode=v.maybe(_mode))),
        leases=v.items(v.record(
            host_state.StaticLease, mac=_mac, address=v.address,
            name=v.text('([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?', 'a name'), options=v.items(_option))),
        remotes=_remotes, migrating=_remotes, vlan=v.maybe(v.number(1, 4094)), physical_bridge=v.maybe(physical_bridge),
        domain=_domain)
    network = v.record(
        host_state.Network, id=_ident, bridge=bridge, mtu=_mtu, is_default=v.flag, subnets=v.items(v.record(
            host_state.Subnet, cidr=v.prefix, gateway=v.maybe(v.address), dhcp=v.flag, dns=_addresses, routes=_routes)),
        external=v.flag, domain=_domain)
    port = v.record(
        host_state.Port, id=_ident, device=v.text(network_info.PREFIX + '[0-9A-Za-z-]{1,12}', 'a device of a guest'),
        mac=v.text(f'(?i:{_MAC})', 'a MAC address'), bridge=bridge, addresses=_addresses, groups=v.items(_ident),
        pairs=v.items(v.record(host_state.AddressPair, ip_address=_pair_address, mac_address=v.maybe(_mac))),
        port_security=v.flag, limits=_limits, dscp_mark=_dscp_mark,
        guaranteed_kbps=v.number(0, 80_000_000), incoming=v.flag, migration=_migration)
    trunk = v.record(host_state.Trunk, port=_ident, bridge=bridge, mtu=_mtu, subports=v.items(v.record(
        host_state.Subport, port=_ident, vlan=v.number(1, 4094), bridge=bridge, mtu=_mtu)))
    return v.record(
        host_state.HostState, networks=v.items(network), ports=v.items(port), rules=rules, members=members,
        overlays=v.items(overlay), routers=v.items(_router), physical_bridges=v.mapping(_bridge, physical_bridge),
        tunnel=_address_or_empty, host=v.text('[!-~]{0,255}', 'the name of a host'), metadata_key=v.either('', _key),
        dns_names=v.items(v.row(v.either('', _ident), _address_or_empty, _name)), trunks=v.items(trunk),
        stateless=v.items(_ident))
