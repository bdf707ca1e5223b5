"""The Linux driver in a separate privileged process: operations, argument checks, and the client.

====================  =====================================================  ===================================
Operation             Arguments                                              Needs
====================  =====================================================  ===================================
``network.start``     none                                                   NET_ADMIN: ip_forward; modprobe, if
                                                                             allowed
``network.refresh``   a HostState: data. The privileged side builds nft      NET_ADMIN, NET_RAW, NET_BIND_SERVICE;
                      scripts and commands from it                           SETUID, SETGID, KILL for dnsmasq;
                                                                             SYS_ADMIN for namespaces
``network.follow``    same                                                   same
``network.refilter``  ``rules`` and ``members`` that replace those of the    NET_ADMIN
                      last refresh
``network.leases``    ``whole``: a boolean                                   nothing: own files
``network.teardown``  none                                                   same as ``network.refresh``
====================  =====================================================  ===================================

The privileged process reads the configuration itself.
"""
from __future__ import annotations

from collections.abc import Callable
import ipaddress
import re
import threading
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import group_rules
from nova.network.host import state as host_state
from nova.network.linux import driver as linux
from nova.network.linux import validators
from nova.objects import network_info
from nova.runtime import privileges

CAPABILITIES = (privileges.NET_ADMIN, privileges.NET_RAW, privileges.NET_BIND_SERVICE, privileges.CHOWN,
                privileges.DAC_OVERRIDE, privileges.FOWNER, privileges.KILL, privileges.SETGID, privileges.SETUID,
                privileges.SYS_ADMIN, privileges.SYS_MODULE)
IDENT = re.compile(r'[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z')
DEVICE = re.compile(network_info.PREFIX + r'[0-9A-Za-z-]{1,12}\Z')
BRIDGE = re.compile(r'br[0-9a-f]{12}\Z')  # bridges of users' networks; the name of the default bridge is configured
MAC = re.compile(r'[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z')
HOST, KEY = re.compile(r'[!-~]{0,255}\Z'), re.compile(r'([0-9a-f]{64})?\Z')
PORTS, MTU = range(65536), range(68, 65536)


class RemoteDriver:
    """Network driver with the methods of LinuxDriver, for an unprivileged process: it calls a Helper.

    :param helper: a Helper with ``operations``
    """

    def __init__(self, helper: privileges.Helper) -> None:
        self._helper = helper

    def start(self) -> None:
        self._helper.call('network.start')

    def refresh(self, load: Callable[[], host_state.HostState]) -> list[str]:
        return list(self._helper.call('network.refresh', state=host_state.as_json(load())) or ())

    def follow(self, load: Callable[[], host_state.HostState]) -> list[str]:
        return list(self._helper.call('network.follow', state=host_state.as_json(load())) or ())

    def refilter(self, rules: host_state.Rules, members: host_state.Members) -> bool:
        return bool(self._helper.call('network.refilter', rules=host_state.rules_as_json(rules), members=members))

    def leases(self, whole: bool) -> list[host_state.Lease]:
        return list(self._helper.call('network.leases', whole=whole))

    def teardown(self) -> None:
        self._helper.call('network.teardown')


def helper(conf: ConfigOpts) -> privileges.Helper:
    """Return the Helper of a RemoteDriver, not forked yet."""
    return privileges.Helper(operations(conf), capabilities=lambda: CAPABILITIES)


def operations(conf: ConfigOpts) -> dict[str, Callable[..., Any]]:
    """Return {name: function} that the privileged process executes for a RemoteDriver."""
    driver, lock = linux.LinuxDriver(conf), threading.Lock()

    def checked_state(state: Json) -> host_state.HostState:
        wanted = state_of(state, conf.network.bridge)
        used = {*wanted.physical_bridges.values(),
                *(each.physical_bridge for each in wanted.overlays if each.physical_bridge)}
        if used - set(conf.network.physical_networks.values()):
            raise ValueError('a physical bridge is not in [network] physical_networks')
        return wanted

    def refresh(state: Json) -> list[str]:
        wanted = checked_state(state)
        with lock:
            return driver.refresh(lambda: wanted)

    def follow(state: Json) -> list[str]:
        wanted = checked_state(state)
        with lock:
            return driver.follow(lambda: wanted)

    def refilter(rules: Json, members: Json) -> bool:
        checked_rules, checked_members = _rules(rules), _members(members)
        with lock:
            return driver.refilter(checked_rules, checked_members)

    def leases(whole: Json) -> list[host_state.Lease]:
        with lock:
            return driver.leases(bool(whole))

    return {'network.start': driver.start, 'network.refresh': refresh, 'network.follow': follow,
            'network.refilter': refilter, 'network.leases': leases, 'network.teardown': driver.teardown}


def state_of(given: Json, bridge: str) -> host_state.HostState:
    """Check and build the HostState of a request.

    :param bridge: bridge of the default network; its name is the only configurable one
    :raises ValueError: an invalid value; the message names it
    """
    given = _fields(given, 'networks', 'ports', 'rules', 'members', 'overlays', 'routers',
                    'physical_bridges', 'tunnel', 'host', 'metadata_key', 'names')
    return host_state.HostState(
        networks=[_network(each, bridge) for each in _list(given['networks'])],
        ports=[_port(each, bridge) for each in _list(given['ports'])],
        rules=_rules(given['rules']),
        members=_members(given['members']),
        overlays=[validators.build(host_state.Overlay, each) for each in _list(given['overlays'])],
        routers=[validators.build(host_state.Router, each) for each in _list(given['routers'])],
        physical_bridges={_matched(BRIDGE, name, 'a bridge of this cloud'): validators.name(wire)
                          for name, wire in _dict(given['physical_bridges']).items()},
        tunnel=validators.address_or_empty(given['tunnel']),
        host=_matched(HOST, given['host'], 'the name of a host'),
        metadata_key=_matched(KEY, given['metadata_key'], 'a key'),
        names=validators.names(given['names']))


def _rules(given: Json) -> host_state.Rules:
    return {_ident(group): [_rule(row) for row in _list(rows)] for group, rows in _dict(given).items()}


def _members(given: Json) -> host_state.Members:
    return {_ident(group): [validators.address(each) for each in _list(addresses)]
            for group, addresses in _dict(given).items()}


def _network(given: Json, bridge: str) -> host_state.Network:
    given = _fields({'domain': '', **_dict(given)}, 'id', 'bridge', 'mtu', 'is_default', 'subnets', 'external',
                    'domain')
    return host_state.Network(_ident(given['id']), _bridge(given['bridge'], bridge), _number(given['mtu'], MTU),
                              bool(given['is_default']), [_subnet(each) for each in _list(given['subnets'])],
                              bool(given['external']), validators.domain(given['domain']))


def _subnet(given: Json) -> host_state.Subnet:
    given = _fields(given, 'cidr', 'gateway', 'dhcp', 'dns', 'routes')
    return host_state.Subnet(
        validators.prefix(given['cidr']), validators.maybe(validators.address)(given['gateway']), bool(given['dhcp']),
        [validators.address(each) for each in _list(given['dns'] or [])],
        [validators.route(each) for each in _list(given['routes'] or [])])


def _port(given: Json, bridge: str) -> host_state.Port:
    given = _fields({'incoming': False, 'migration': [], **_dict(given)}, 'id', 'device', 'mac', 'bridge', 'addresses',
                    'groups', 'pairs', 'port_security', 'limits', 'dscp_mark', 'incoming', 'migration')
    return host_state.Port(
        _ident(given['id']), _matched(DEVICE, given['device'], 'a device of a guest'),
        _matched(MAC, given['mac'], 'a MAC address'), _bridge(given['bridge'], bridge),
        [validators.address(each) for each in _list(given['addresses'])],
        [_ident(each) for each in _list(given['groups'])],
        [validators.pair(each) for each in _list(given['pairs'])], bool(given['port_security']),
        validators.limits(given['limits']), validators.mark(given['dscp_mark']), bool(given['incoming']),
        validators.move(given['migration']))


def _rule(given: Json) -> group_rules.Rule:
    given = _fields(given, *host_state.RULE)
    direction, ethertype = _text(given['direction']), _text(given['ethertype'])
    if direction not in ('ingress', 'egress') or ethertype not in group_rules.ETHERTYPES.values():
        raise ValueError('the direction or ethertype of a rule is unknown')
    protocol = given['protocol']
    if protocol is not None and protocol not in group_rules.PROTOCOLS:
        protocol = str(_number(int(_matched(re.compile('[0-9]{1,3}'), protocol, 'a protocol')), range(256)))
    prefix, group = given['remote_ip_prefix'], given['remote_group_id']
    return {'direction': direction, 'ethertype': ethertype, 'protocol': protocol,
            'port_range_min': _port_number(given['port_range_min']),
            'port_range_max': _port_number(given['port_range_max']),
            'remote_ip_prefix': None if prefix is None else str(ipaddress.ip_network(_text(prefix), strict=False)),
            'remote_group_id': None if group is None else _ident(group)}


def _port_number(given: Json) -> int | None:
    return None if given is None else _number(given, PORTS)


# ---- values ---------------------------------------------------------------------------

def _fields(given: Json, *names: str) -> JsonObject:
    found = _dict(given)
    if set(found) != set(names):
        raise ValueError(f'an object has other fields than {", ".join(names)}')
    return found


def _dict(given: Json) -> JsonObject:
    if not isinstance(given, dict):
        raise ValueError('a value is not an object')
    return given


def _list(given: Json) -> list[Json]:
    if not isinstance(given, list):
        raise ValueError('a value is not a list')
    return given


def _text(given: Json) -> str:
    if not isinstance(given, str):
        raise ValueError('a value is not a string')
    return given


def _matched(pattern: re.Pattern[str], given: Json, what: str) -> str:
    text = _text(given)
    if not pattern.fullmatch(text):
        raise ValueError(f'{text[:40]!r} is not {what}')
    return text


def _ident(given: Json) -> str:
    return _matched(IDENT, given, 'an id')


def _bridge(given: Json, default: str) -> str:
    return default if given == default else _matched(BRIDGE, given, 'a bridge of this cloud')


def _number(given: Json, allowed: range) -> int:
    if type(given) is not int or given not in allowed:
        raise ValueError(f'{given!r:.40} is not a number from {allowed[0]} to {allowed[-1]}')
    return given
