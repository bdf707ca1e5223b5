"""Field checks of routers and overlay networks in the privileged process.

The values become command arguments, and text of nft and dnsmasq configuration. Each check ensures that a value cannot
be parsed as anything else there.
"""
from __future__ import annotations

from collections.abc import Callable
import dataclasses
import ipaddress
import re
from typing import Any, TYPE_CHECKING, TypeVar

from nova.json_types import Json
from nova.network import ranges
from nova.network.host import state as host_state

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar('T')
D = TypeVar('D', bound='DataclassInstance')
Check = Callable[[Json], T]

_IDENT = re.compile(r'[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z')
_BRIDGE = re.compile(r'br[0-9a-f]{12}\Z')
_WIRE = re.compile(r'[A-Za-z][A-Za-z0-9_.-]{0,14}\Z')
_MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z')
_LABEL = re.compile(r'([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?\Z')


def _text(pattern: re.Pattern[str], what: str) -> Check[str]:
    def check(given: Json) -> str:
        if not isinstance(given, str) or not pattern.fullmatch(given):
            raise ValueError(f'{given!r:.40} is not {what}')
        return given
    return check


def _number(low: int, high: int) -> Check[int]:
    def check(given: Json) -> int:
        if type(given) is not int or not low <= given <= high:
            raise ValueError(f'{given!r:.40} is not a number from {low} to {high}')
        return given
    return check


def _one_of(*values: T) -> Check[T]:
    def check(given: Json) -> T:
        for value in values:
            if given == value and type(given) is type(value):
                return value
        raise ValueError(f'{given!r:.40} is none of {values}')
    return check


def maybe(check: Check[T]) -> Check[T | None]:
    return lambda given: None if given is None else check(given)


def _items(check: Check[T]) -> Check[list[T]]:
    def check_all(given: Json) -> list[T]:
        if not isinstance(given, list):
            raise ValueError('a value is not a list')
        return [check(each) for each in given]
    return check_all


def _tuple(*checks: Check[T]) -> Check[list[T]]:
    def check(given: Json) -> list[T]:
        if not isinstance(given, list) or len(given) != len(checks):
            raise ValueError(f'a value is not a list of {len(checks)} items')
        return [each(value) for each, value in zip(checks, given, strict=True)]
    return check


def _object(kind: type[T], **checks: Check[Any]) -> Check[T]:
    def check(given: Json) -> T:
        if not isinstance(given, dict) or given.keys() != checks.keys():
            raise ValueError(f'an object has other fields than {", ".join(checks)}')
        return kind(**{key: checks[key](value) for key, value in given.items()})
    return check


def address(given: Json) -> str:
    """Check an IP address without a zone."""
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not an address')
    return str(ipaddress.ip_address(given))


def prefix(given: Json) -> str:
    """Check an address range."""
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not a range')
    return str(ipaddress.ip_network(given, strict=False))


def address_or_empty(given: Json) -> str:
    return '' if given == '' else address(given)


def _interface(given: Json) -> str:
    if not isinstance(given, str) or '%' in given:
        raise ValueError(f'{given!r:.40} is not an address with a prefix length')
    return str(ipaddress.ip_interface(given))


name = _text(_WIRE, 'the name of a device')
_mac, _ident = _text(_MAC, 'a MAC address'), _text(_IDENT, 'an id')
_bridge, _flag = _text(_BRIDGE, 'a bridge of this cloud'), _one_of(True, False)
_mode = _one_of('slaac', 'dhcpv6-stateful', 'dhcpv6-stateless')
route = _object(host_state.Route, destination=prefix, nexthop=address)
_mtu, _port = _number(68, 65535), _number(1, 65535)
limits = _items(_tuple(_one_of('egress', 'ingress'), _number(1, 80_000_000), _number(0, 80_000_000)))
mark = maybe(_one_of(*host_state.DSCP_MARKS))
lease = _object(host_state.Lease, mac=_mac, address=address, until=_number(0, (1 << 32) - 1))
names = _items(_tuple(_text(re.compile(r'([0-9A-Za-z][0-9A-Za-z-]{0,63})?\Z'), 'an id'), address_or_empty, _text(
    re.compile(r'(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z'), 'a domain')))
pair = _object(host_state.AddressPair, mac_address=maybe(_mac),
               ip_address=lambda given: (prefix if ranges.is_range(str(given)) else address)(given))


def domain(given: Json) -> str:
    """Check ``domain`` of a network; '' selects the configured domain."""
    return _text(host_state.DOMAIN, 'a domain')(given) if given else ''


_key = _text(re.compile(r'[0-9a-f]{64}\Z'), 'a key')


def move(given: Json) -> list[str]:
    """Check ``move`` of a port."""
    return _tuple(address, _key)(given) if given else []


def _option(given: Json) -> host_state.DhcpOption:
    if not isinstance(given, dict) or given.keys() - {'opt_name', 'opt_value', 'ip_version'}:
        raise ValueError('a DHCP option has unknown fields')
    return {'opt_name': _text(host_state.OPTION_NAME, 'an option')(given.get('opt_name')),
            'opt_value': _text(host_state.OPTION_VALUE, 'a value of an option')(given.get('opt_value')),
            'ip_version': _one_of(*host_state.OPTION_VERSIONS)(given.get('ip_version', 4))}


FIELDS: dict[type, dict[str, Check[Any]]] = {
    host_state.OverlaySubnet: {
        'cidr': prefix, 'gateway': maybe(address), 'dhcp': maybe(address), 'dns': _items(address),
        'routes': _items(route), 'mode': maybe(_mode)},
    host_state.RouterInterface: {
        'port': _ident, 'mac': _mac, 'bridge': _bridge, 'mtu': _mtu, 'addresses': _items(_interface),
        'modes': _items(_tuple(prefix, _mode)), 'distributed': _flag, 'neighbours': _items(_tuple(address, _mac))},
    host_state.Overlay: {
        'id': _ident, 'bridge': _bridge, 'number': _number(1, (1 << 16) - 1), 'mtu': _mtu, 'mac': maybe(_mac),
        'subnets': _items(lambda given: build(host_state.OverlaySubnet, given)),
        'leases': _items(_object(host_state.StaticLease, mac=_mac, address=address, name=_text(_LABEL, 'a name'),
                                 options=_items(_option))),
        'remotes': _items(_tuple(_mac, address)), 'migrating': _items(_tuple(_mac, address)),
        'vlan': maybe(_number(1, 4094)), 'physical_bridge': maybe(name), 'domain': domain},
    host_state.Router: {
        'id': _ident, 'up': _flag, 'internal': _items(lambda given: build(host_state.RouterInterface, given)),
        'external': maybe(lambda given: build(host_state.RouterInterface, given)), 'gateway': maybe(address),
        'snat': _flag,
        'routes': _items(route), 'floating_ips': _items(_tuple(address, address)),
        'port_forwardings': _items(_tuple(address, _one_of('tcp', 'udp'), _port, address, _port)),
        'role': _one_of(*host_state.ROLES)},
}

# as_json omits their defaults
LATER = ('vlan', 'physical_bridge', 'migrating', 'domain', 'role', 'distributed', 'neighbours')


def build(kind: type[D], given: Json) -> D:
    """Build a dataclass of host_state from JSON.

    :raises ValueError: an invalid value; the message names it
    """
    checks, fields = FIELDS[kind], dataclasses.fields(kind)
    assert checks.keys() == {field.name for field in fields}
    later = {field.name for field in fields if field.name in LATER}
    if not isinstance(given, dict) or given.keys() | later != checks.keys():
        raise ValueError(f'an object has other fields than {", ".join(checks)}')
    return kind(**{key: checks[key](value) for key, value in given.items()})
