"""Router: a network namespace with an interface in each of its networks, and NAT to the external network."""
from collections.abc import Iterable
import ipaddress
import json
import logging
import pathlib

from nova import exception
from nova.network import relay
from nova.network.host import state as host_state
from nova.network.linux import frames
from nova.network.linux import limits
from nova.network.linux import overlay_dnsmasq
from nova.network.linux import runner
from nova.network.linux.namespaces import Namespace

LOG = logging.getLogger(__name__)

TABLE = 'nova_router'
SETTINGS = {'net__ipv4__ip_forward': '1', 'net__ipv6__conf__all__forwarding': '1',
            # announce new addresses with gratuitous ARP
            'net__ipv4__conf__all__arp_notify': '1', 'net__ipv4__conf__default__arp_notify': '1',
            # answer ARP only on the interface that has the address
            'net__ipv4__conf__all__arp_ignore': '1',
            # no duplicate address detection: a router's instances on several hosts have the same link-local address
            'net__ipv6__conf__all__accept_dad': '0', 'net__ipv6__conf__default__accept_dad': '0'}


class RouterPlumbing:
    """One router on this host.

    :param run: a Runner of the host
    :param name: name of its namespace
    :param directory: directory of its files
    """

    def __init__(self, run: runner.Runner, name: str, directory: pathlib.Path) -> None:
        self.space = Namespace(run, name)
        self.advertiser = overlay_dnsmasq.RouterAdvertiser(self.space.run, name, directory)
        self.directory = directory
        self._is_set = False  # whether this process has written SETTINGS; an earlier one may have ended before
        self._loaded: str | None = None
        self._helped: str | None = None  # last script of the conntrack helpers; not loaded again, even if it failed
        self._limited: str | None = None  # last nft script of the limits; loading it again would reset the bursts

    def apply(self, router: host_state.Router) -> bool:
        """Set up the router. Return whether the namespace was created."""
        made = self.space.ensure()
        if made or not self._is_set:
            self._is_set = False
            self.space.set(**SETTINGS)
            self._is_set = True
        part = router.role in host_state.DVR_LOCAL_ROLES
        interfaces = [each for each in [*router.internal, router.external] if each is not None] if router.up else []
        for name in set(self.space.devices()) - {frames.router_name(interface) for interface in interfaces}:
            self.space.unlink(name)
        # load NAT before interfaces exist, so that no packet leaves with an internal address
        tables = '' if made else self.space.run('nft', 'list', 'tables')
        self._filter(script(router), tables)
        self._help(helpers(router), tables)
        self._limit(limited(router), tables)
        for interface in interfaces:
            self.space.link(frames.router_name(interface), interface.bridge, interface.mac, interface.mtu)
            if self.space.addresses(frames.router_name(interface), interface.addresses):  # arp_notify sees this
                self.space.run('ip', 'link', 'set', 'dev', frames.router_name(interface), 'address', interface.mac)
        self._neighbours(interfaces)
        routes = [(route['destination'], route['nexthop'])
                  for route in router.routes] if router.up and not part else []
        if router.gateway and router.up and not any(destination == '0.0.0.0/0' for destination, _hop in routes):
            routes.append(('0.0.0.0/0', router.gateway))
        self.space.routes(routes)
        self.advertiser.advertise([(frames.router_name(each), cidr, mode) for each in interfaces
                                   for cidr, mode in each.modes])
        return made

    def _neighbours(self, interfaces: list[host_state.RouterInterface]) -> None:
        """Set permanent neighbour entries: a distributed router does not receive ARP and ND responses."""
        wanted = set()
        for interface in interfaces:
            wanted |= {(address, frames.router_name(interface), mac) for address, mac in interface.neighbours}
            if any(':' in address for address in interface.addresses):
                wanted |= {(frames.link_local(mac), frames.router_name(interface), mac)
                           for _address, mac in interface.neighbours}
        text = self.space.run('ip', '-json', 'neighbour', 'show', 'nud', 'permanent')
        known = {(entry['dst'], entry['dev'], entry.get('lladdr')) for entry in json.loads(text or '[]')}
        lines = [f'neighbour replace {address} lladdr {mac} nud permanent dev {device}'
                 for address, device, mac in sorted(wanted - known)]
        kept = {each[:2] for each in wanted}
        lines += [f'neighbour del {address} dev {device}' for address, device, _mac in sorted(known - wanted)
                  if (address, device) not in kept]
        if lines:
            self.space.run('ip', '-force', '-batch', '-', stdin='\n'.join(lines) + '\n')

    def _filter(self, text: str, tables: str) -> None:
        if text == self._loaded and f'table inet {TABLE}\n' in tables:
            return
        self.space.run('nft', '-f', '-', stdin=text)
        self._loaded = text

    def _help(self, text: str, tables: str) -> None:
        if text == self._helped and tables:
            return
        try:
            if _is_effective(text, 'helpers', tables):
                self.space.run('nft', '-f', '-', stdin=text)
        except exception.NetworkPlumbingError as error:
            LOG.warning('Router %s has no conntrack helpers, because this kernel lacks one: %s', self.space.name, error)
        self._helped = text

    def _limit(self, text: str, tables: str) -> None:
        if text == self._limited and tables:
            return
        if _is_effective(text, 'limits', tables):
            self.space.run('nft', '-f', '-', stdin=text)
        self._limited = text

    def remove(self) -> None:
        self.advertiser.remove()
        self.space.remove()


def script(router: host_state.Router) -> str:
    """Return the nft script of a router's NAT. The script replaces the table atomically; connections continue."""
    lines = [f'table inet {TABLE} {{']
    between = _between_scopes(router)
    # no NAT on a host with a DVR_LOCAL instance, because replies may pass another host
    for name, hook, kind, rules in [
            ('sources', 'prerouting priority -150', 'filter', _sources(router)),
            *([('prerouting', 'prerouting priority -100', 'nat', _inwards(router)),
               ('postrouting', 'postrouting priority 100', 'nat', _outwards(router)),
               ('forward', 'forward priority 0', 'filter', _forward(router))]
              if router.role not in host_state.DVR_LOCAL_ROLES else []),
            *([('scopes', 'forward priority 10', 'filter', between)] if between else []),
            ('input', 'input priority 0', 'filter', _input(router))]:
        lines += [f'  chain {name} {{', f'    type {kind} hook {hook}; policy accept;',
                  *('    ' + rule for rule in rules), '  }']
    return frames.removal('inet', TABLE) + '\n'.join([*lines, '}']) + '\n'


def _is_effective(text: str, suffix: str, tables: str) -> bool:
    """Return whether a script must be loaded: it creates a table, or the table that it removes exists."""
    return '{' in text or f'table inet {TABLE}_{suffix}\n' in tables


def helpers(router: host_state.Router) -> str:
    """Return the nft script of a router's conntrack helpers: a separate table, because loading it may fail."""
    lines = []
    if router.helpers and router.role not in host_state.DVR_LOCAL_ROLES:
        lines.append(f'table inet {TABLE}_helpers {{')
        for helper, protocol in sorted({(helper, protocol) for helper, protocol, _port in router.helpers}):
            lines += [f'  ct helper {helper}_{protocol} {{', f'    type "{helper}" protocol {protocol};', '  }']
        lines += ['  chain prerouting {', '    type filter hook prerouting priority -150; policy accept;',
                  *(f'    {protocol} dport {port} ct helper set "{helper}_{protocol}"'
                    for helper, protocol, port in router.helpers), '  }', '}']
    return frames.removal('inet', f'{TABLE}_helpers') + ''.join(line + '\n' for line in lines)


def limited(router: host_state.Router) -> str:
    """Return the nft script of the limits and the DSCP mark for packets at a router's external interface."""
    lines = []
    if router.external is not None and (router.limits or router.dscp_mark is not None):
        name = frames.router_name(router.external)
        lines += [f'table inet {TABLE}_limits {{', '  chain forward {',
                  '    type filter hook forward priority -10; policy accept;']
        lines += [f'    {"oifname" if direction == "egress" else "iifname"} "{name}" {limits.rule(kbps, burst)}'
                  for direction, kbps, burst in router.limits]
        lines += [f'    oifname "{name}" {kind} dscp set {router.dscp_mark}' for kind in ('ip', 'ip6')
                  if router.dscp_mark is not None]
        lines += ['  }', '}']
    return frames.removal('inet', f'{TABLE}_limits') + ''.join(line + '\n' for line in lines)


def _sources(router: host_state.Router) -> list[str]:
    """Drop packets with a source address of one network that arrive from another network.

    Guest filters identify the members of a remote group by address. Without this check, guests behind a second router
    could use addresses of this network and count as its guests.
    """
    on: dict[str, list[host_state.RouterInterface]] = {}
    for interface in [*router.internal, *([router.external] if router.external else [])]:
        on.setdefault(interface.bridge, []).append(interface)
    rules = []
    for interfaces in on.values():
        names = frames.anonymous_set(f'"{frames.router_name(interface)}"' for interface in interfaces)
        ranges = [str(ipaddress.ip_interface(each).network) for interface in interfaces for each in interface.addresses
                  if not each.endswith('/32')]  # skip floating addresses (/32): another range contains them
        for family, version in (('ip', 4), ('ip6', 6)):
            if known := frames.of_version(sorted(set(ranges)), version):
                rules.append(f'iifname != {names} {family} saddr {frames.anonymous_set(known)} drop')
    return rules


def _inwards(router: host_state.Router) -> list[str]:
    return [*(f'ip daddr {outside} dnat ip to {fixed}' for outside, fixed in router.floating_ips),
            *(f'ip daddr {outside} {protocol} dport {port} dnat ip to {fixed}:{inner}'
              for outside, protocol, port, fixed, inner in router.port_forwardings),
            *(f'ip daddr {outside} {protocol} dport {first}-{last} dnat ip to '
              f'{_within(protocol, fixed, first, last, inner)}'
              for outside, protocol, first, last, fixed, inner in router.port_ranges)]


def _within(protocol: str, fixed: str, first: int, last: int, inner: int) -> str:
    """Return the DNAT target of a forwarded port range.

    If internal and external ports are equal, the target is only an address, and nft keeps the packet's port.
    """
    if first == inner:
        return fixed
    pairs = frames.anonymous_set(f'{port} : {inner + port - first}' for port in range(first, last + 1))
    return f'{fixed}:{protocol} dport map {pairs}'


def _outwards(router: host_state.Router) -> list[str]:
    if router.external is None:
        return []
    name = frames.router_name(router.external)
    rules = [f'oifname "{name}" ip saddr {fixed} snat ip to {outside}' for outside, fixed in router.floating_ips]
    own = next((address.partition('/')[0] for address in router.external.addresses if '.' in address), None)
    if own and router.snat:
        rules += [f'oifname "{name}" iifname {_names(same)} meta nfproto ipv4 return'] if (
            same := _in_scope_of_external(router)) else []
        rules.append(f'oifname "{name}" meta nfproto ipv4 ip saddr != {own} snat ip to {own}')
    # hairpin NAT: replies to a guest that uses a floating address of the same router must pass the router
    within = f'oifname != "{name}" iifname != "{name}" ct status dnat'
    rules += [f'{within} ip saddr {fixed} snat ip to {outside}' for outside, fixed in router.floating_ips]
    return rules + ([f'{within} snat ip to {own}'] if own else [])


def _names(interfaces: Iterable[host_state.RouterInterface]) -> str:
    return frames.anonymous_set(f'"{frames.router_name(interface)}"' for interface in interfaces)


def _in_scope_of_external(router: host_state.Router) -> list[host_state.RouterInterface]:
    """Return the internal interfaces in the IPv4 address scope of the external network.

    Packets of these interfaces leave the router without SNAT.
    """
    scope = router.external.scopes[0] if router.external is not None else ''
    return [interface for interface in router.internal if scope and interface.scopes[0] == scope]


def _between_scopes(router: host_state.Router) -> list[str]:
    """Drop packets between internal networks of different address scopes, unless their addresses are translated.

    Networks without a scope are connected to each other.
    """
    translated = '' if router.role in host_state.DVR_LOCAL_ROLES else 'ct status & (snat | dnat) == 0 '
    rules = []
    for index, version in enumerate(('ipv4', 'ipv6')):
        by_scope: dict[str, list[host_state.RouterInterface]] = {}
        for interface in router.internal:
            by_scope.setdefault(interface.scopes[index], []).append(interface)
        for scope, interfaces in by_scope.items():
            others = [each for each in router.internal if each.scopes[index] != scope]
            if others:
                rules.append(f'iifname {_names(interfaces)} oifname {_names(others)} meta nfproto {version} '
                             f'{translated}drop')
    return rules


def _input(router: host_state.Router) -> list[str]:
    """Drop metadata requests that do not come from guests' networks."""
    names = [f'"{frames.router_name(interface)}"' for interface in router.internal]
    known = f'iifname != {frames.anonymous_set(names)} ' if names else ''
    return [f'{known}ip daddr {relay.ADDRESS} drop']


def _forward(router: host_state.Router) -> list[str]:
    if router.external is None:
        return ['ct state invalid drop'] if router.role == host_state.CENTRAL else []
    name = frames.router_name(router.external)
    rules = ['ct state invalid drop'] if router.role == host_state.CENTRAL else [
        f'iifname "{name}" ct state invalid drop', f'oifname "{name}" ct state invalid drop']
    if router.snat:
        rules += [f'iifname "{name}" oifname {_names(same)} meta nfproto ipv4 accept'] if (
            same := _in_scope_of_external(router)) else []
        rules += [f'iifname "{name}" meta nfproto ipv4 ct status dnat accept',
                  f'iifname "{name}" meta nfproto ipv4 ct state != {{ established, related }} drop']
    return rules
