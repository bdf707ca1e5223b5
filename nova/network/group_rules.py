"""Which rules of security groups make sense, and their stored form. No database: agents have none."""
from __future__ import annotations

import ipaddress
from typing import Any

from nova import exception

PROTOCOLS = {
    'ah': 51,
    'dccp': 33,
    'egp': 8,
    'esp': 50,
    'gre': 47,
    'icmp': 1,
    'icmpv6': 58,
    'igmp': 2,
    'ipip': 4,
    'ospf': 89,
    'pgm': 113,
    'rsvp': 46,
    'sctp': 132,
    'tcp': 6,
    'udp': 17,
    'udplite': 136,
    'vrrp': 112,
}
WITH_PORTS = ('tcp', 'udp', 'sctp', 'udplite', 'dccp')
ICMP = ('icmp', 'icmpv6')
# other names that clients use for the same protocol
ALIASES = {'ipv6-icmp': 'icmpv6', 'any': None, '-1': None, '': None}
ETHERTYPES = {'ipv4': 'IPv4', 'ipv6': 'IPv6'}


def protocol(value: int | str | None) -> str | None:
    """The stored form of a protocol: a name, a number as text, or None for any.

    :raises InvalidInput: neither a known name nor 0 to 255
    """
    given = '' if value is None else str(value).lower()
    text = ALIASES.get(given, given)
    if text is None or text in PROTOCOLS:
        return text
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise exception.InvalidInput(reason=f"Security group rule protocol {text[:40]} not supported.")
    names = {number: name for name, number in PROTOCOLS.items()}
    return names.get(int(text), str(int(text)))


def parse_prefix(text: str) -> Any:
    """An address with its prefix length; a bare address has the longest one.

    :raises ValueError: it is none
    """
    if '%' in str(text):
        raise ValueError('An address range has no zone.')
    return ipaddress.ip_interface(text)


def normalized(text: str | None) -> str | None:
    """The range that a rule's remote_ip_prefix means: 10.2.3.0/24 for 10.2.3.124/24; None for None."""
    return text and str(parse_prefix(text).network)


def check_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with its fields in stored form.

    :param rule: dict with direction, ethertype, protocol, port_range_min, port_range_max, remote_ip_prefix
            and
                 remote_group_id
    :raises InvalidInput:
    """
    ethertype = ETHERTYPES.get(str(rule['ethertype'] or 'IPv4').lower())
    if ethertype is None:
        raise exception.InvalidInput(reason='ethertype must be IPv4 or IPv6.')
    rule = {**rule, 'ethertype': ethertype, 'protocol': protocol(rule['protocol'])}
    if rule['remote_ip_prefix'] and rule['remote_group_id']:
        raise exception.InvalidInput(reason='Only remote_ip_prefix or remote_group_id may be provided.')
    if rule['remote_ip_prefix']:
        try:
            prefix = parse_prefix(rule['remote_ip_prefix'])
        except ValueError:
            raise exception.InvalidInput(
                reason=f"'{rule['remote_ip_prefix']}' is not a valid network prefix."
            )
        if f'IPv{prefix.version}' != ethertype:
            raise exception.InvalidInput(
                reason=f"Conflicting value ethertype {ethertype} for CIDR {rule['remote_ip_prefix']}")
        rule['remote_ip_prefix'] = str(prefix)          # as given: 10.2.3.124/24 stays what it is
    _check_ports(rule)
    return rule


def _check_ports(rule: dict[str, Any]) -> None:
    low, high = rule['port_range_min'], rule['port_range_max']
    if low is None and high is None:
        return
    if rule['protocol'] in ICMP:
        if low is None or not 0 <= low <= 255 or not 0 <= (high or 0) <= 255:
            raise exception.InvalidInput(
                reason='ICMP type and code must be between 0 and 255, code only with type.'
            )
        return
    if rule['protocol'] not in WITH_PORTS:
        raise exception.InvalidInput(
            reason='Port ranges need a protocol with ports: ' + ', '.join(WITH_PORTS)
        )
    if low is None or high is None or not 1 <= low <= high <= 65535:
        raise exception.InvalidInput(reason='port_range_min must be at most port_range_max, both 1 to 65535.')
