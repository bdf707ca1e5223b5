"""Field checks of routers and overlay networks in the privileged process.

Values become command arguments, and text of nft and dnsmasq configuration. Each check excludes other meanings there.
"""
from __future__ import annotations

from collections.abc import Callable
import dataclasses
import ipaddress
import re
from typing import Any

from nova.network import ranges
from nova.network.host import state as host_state

Check = Callable[[Any], Any]

_IDENT = re.compile(r'[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z')
_BRIDGE = re.compile(r'br[0-9a-f]{12}\Z')
_WIRE = re.compile(r'[A-Za-z][A-Za-z0-9_.-]{0,14}\Z')
_MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z')
_LABEL = re.compile(r'([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?\Z')


def _text(pattern: re.Pattern[str], what: str) -> Check:
    def check(given: Any) -> str:
        if not isinstance(given, str) or not pattern.fullmatch(given):
            raise ValueError(f'{given!r:.40} is not {what}')
        return given
    return check


def _number(low: int, high: int) -> Check:
    def check(given: Any) -> int:
        if type(given) is not int or not low <= given <= high:
            raise ValueError(f'{given!r:.40} is not a number from {low} to {high}')
        return given
    return check


def _one_of(*values: Any) -> Check:
    def check(given: Any) -> Any:
        if not any(given == value and type(given) is type(value) for value in values):
            raise ValueError(f'{given!r:.40} is none of {values}')
        return given
    return check


def _maybe(check: Check) -> Check:
    return lambda given: None if given is None else check(given)


def _items(check: Check) -> Check:
    def check_all(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise ValueError('a value is not a list')
        return [check(each) for each in given]
    return check_all


def _tuple(*checks: Check) -> Check:
    def check(given: Any) -> list[Any]:
        if not isinstance(given, list) or len(given) != len(checks):
            raise ValueError(f'a value is not a list of {len(checks)} items')
        return [each(value) for each, value in zip(checks, given, strict=True)]
    return check


def _object(**checks: Check) -> Check:
    def check(given: Any) -> dict[str, Any]:
        if not isinstance(given, dict) or given.keys() != checks.keys():
            raise ValueError(f'an object has other fields than {", ".join(checks)}')
        return {key: checks[key](value) for key, value in given.items()}
    return check


def address(given: Any) -> str:
    """Check an IP address without a zone."""
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not an address')
    return str(ipaddress.ip_address(given))


def prefix(given: Any) -> str:
    """Check an address range."""
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not a range')
    return str(ipaddress.ip_network(given, strict=False))


def _or_none(given: Any) -> str:
    return '' if given == '' else address(given)


def _interface(given: Any) -> str:
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not an address with a prefix length')
    return str(ipaddress.ip_interface(given))


name = _text(_WIRE, 'the name of a device')
_mac, _ident = _text(_MAC, 'a MAC address'), _text(_IDENT, 'an id')
_bridge, _flag = _text(_BRIDGE, 'a bridge of this cloud'), _one_of(True, False)
_mode = _one_of('slaac', 'dhcpv6-stateful', 'dhcpv6-stateless')
_route = _object(destination=prefix, nexthop=address)
_mtu, _port = _number(68, 65535), _number(1, 65535)
limits = _items(_tuple(_one_of('egress', 'ingress'), _number(1, 80_000_000), _number(0, 80_000_000)))
mark = _maybe(_one_of(*host_state.DSCP_MARKS))
lease = _object(mac=_mac, address=address, until=_number(0, (1 << 32) - 1))
names = _items(_tuple(_text(re.compile(r'([0-9A-Za-z][0-9A-Za-z-]{0,63})?\Z'), 'an id'), _or_none, _text(
    re.compile(r'(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z'), 'a domain')))
pair = _object(ip_address=lambda given: (prefix if ranges.is_range(str(given)) else address)(given),
               mac_address=_maybe(_mac))


def domain(given: Any) -> str:
    """Check ``domain`` of a network; '' selects the configured domain."""
    return _text(host_state.DOMAIN, 'a domain')(given) if given else ''


_key = _text(re.compile(r'[0-9a-f]{64}\Z'), 'a key')


def move(given: Any) -> list[str]:
    """Check ``move`` of a port."""
    return _tuple(address, _key)(given) if given else []


def _option(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or given.keys() - {'opt_name', 'opt_value', 'ip_version'}:
        raise ValueError('a DHCP option has unknown fields')
    return {'opt_name': _text(host_state.OPTION_NAME, 'an option')(given.get('opt_name')),
            'opt_value': _text(host_state.OPTION_VALUE, 'a value of an option')(given.get('opt_value')),
            'ip_version': _one_of(*host_state.OPTION_VERSIONS)(given.get('ip_version', 4))}


FIELDS: dict[type, dict[str, Check]] = {
    host_state.OverlaySubnet: {
        'cidr': prefix, 'gateway': _maybe(address), 'dhcp': _maybe(address), 'dns': _items(address),
        'routes': _items(_route), 'mode': _maybe(_mode)},
    host_state.RouterInterface: {
        'port': _ident, 'mac': _mac, 'bridge': _bridge, 'mtu': _mtu, 'addresses': _items(_interface),
        'modes': _items(_tuple(prefix, _mode)), 'distributed': _flag, 'neighbours': _items(_tuple(address, _mac))},
    host_state.Overlay: {
        'id': _ident, 'bridge': _bridge, 'number': _number(1, (1 << 16) - 1), 'mtu': _mtu, 'mac': _maybe(_mac),
        'subnets': _items(lambda given: build(host_state.OverlaySubnet, given)),
        'leases': _items(_object(mac=_mac, address=address, name=_text(_LABEL, 'a name'), options=_items(_option))),
        'remotes': _items(_tuple(_mac, address)), 'migrating': _items(_tuple(_mac, address)),
        'vlan': _maybe(_number(1, 4094)), 'physical_bridge': _maybe(name), 'domain': domain},
    host_state.Router: {
        'id': _ident, 'up': _flag, 'internal': _items(lambda given: build(host_state.RouterInterface, given)),
        'external': _maybe(lambda given: build(host_state.RouterInterface, given)), 'gateway': _maybe(address),
        'snat': _flag,
        'routes': _items(_route), 'floating_ips': _items(_tuple(address, address)),
        'port_forwardings': _items(_tuple(address, _one_of('tcp', 'udp'), _port, address, _port)),
        'role': _one_of(*host_state.ROLES)},
}

# as_json omits their defaults
LATER = ('vlan', 'physical_bridge', 'migrating', 'domain', 'role', 'distributed', 'neighbours')


def build(kind: type, given: Any) -> Any:
    """Build a dataclass of host_state from JSON.

    :raises ValueError: an invalid value; the message names it
    """
    checks, fields = FIELDS[kind], dataclasses.fields(kind)
    assert checks.keys() == {field.name for field in fields}
    later = {field.name for field in fields if field.name in LATER}
    if not isinstance(given, dict) or given.keys() | later != checks.keys():
        raise ValueError(f'an object has other fields than {", ".join(checks)}')
    return kind(**{key: checks[key](value) for key, value in given.items()})
