"""Validate rules of security groups and convert them to the stored form.

Agents use this module, too. It must not import database code, because agents have no database access.
"""
from collections.abc import Mapping
import ipaddress
from typing import Any, TypedDict

from nova import exception


class Rule(TypedDict):
    """Columns of a rule that packet filters use."""

    direction: str
    ethertype: str
    protocol: str | None
    port_range_min: int | None
    port_range_max: int | None
    remote_ip_prefix: str | None
    remote_group_id: str | None


# a rule from the compute API, which has only rules for incoming packets
NewRule = TypedDict('NewRule', {
    'security_group_id': str, 'ethertype': str, 'protocol': str | None, 'port_range_min': int | None,
    'port_range_max': int | None, 'remote_ip_prefix': str | None, 'remote_group_id': str | None})
PROTOCOLS = {
    'ah': 51, 'dccp': 33, 'egp': 8, 'esp': 50, 'gre': 47, 'icmp': 1, 'icmpv6': 58, 'igmp': 2, 'ipip': 4, 'ospf': 89,
    'pgm': 113, 'rsvp': 46, 'sctp': 132, 'tcp': 6, 'udp': 17, 'udplite': 136, 'vrrp': 112,
}
WITH_PORTS = ('tcp', 'udp', 'sctp', 'udplite', 'dccp')
ICMP = ('icmp', 'icmpv6')
# Other names of protocols. Network services accept only the names in PROTOCOLS, and numbers.
ALIASES = {'ipv6-icmp': 'icmpv6', 'ipv6-encap': '41', 'ipv6-route': '43', 'ipv6-frag': '44', 'ipv6-nonxt': '59',
           'ipv6-opts': '60'}
ANY = ('any', '0')
NOT_GIVEN = ('', '-1')                  # values for any protocol in the compute API and EC2
_NAMES = {number: name for name, number in PROTOCOLS.items()}
_OF_IPV6 = ('icmpv6', '41', '43', '44', '59', '60')          # protocols that exist only in IPv6
EVERYWHERE = ('0.0.0.0/0', '::/0')
ETHERTYPES = {'ipv4': 'IPv4', 'ipv6': 'IPv6'}
Key = tuple[str | int | None, ...]


def plain(row: Rule) -> Rule:
    """Return a copy of a row with only the columns that packet filters use."""
    return {'direction': row['direction'], 'ethertype': row['ethertype'], 'protocol': row['protocol'],
            'port_range_min': row['port_range_min'], 'port_range_max': row['port_range_max'],
            'remote_ip_prefix': row['remote_ip_prefix'], 'remote_group_id': row['remote_group_id']}


def canonical_protocol(value: str | None, ethertype: str | None = None) -> str | None:
    """Return the canonical form of a protocol: a name of PROTOCOLS, a number as text, or None for any.

    :param ethertype: ethertype of the rule: icmp in an IPv6 rule means icmpv6
    :raises InvalidInput: neither a known name nor 0 to 255
    """
    given = 'any' if value is None else value.lower()
    text = ALIASES.get(given, given)
    if text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255:
        text = _NAMES.get(int(text), str(int(text)))
    elif text not in PROTOCOLS and text not in ANY:
        raise exception.InvalidInput(
            reason=f"Security group rule protocol '{given[:40]}' is not supported. Give one of any, "
                   f"{', '.join(sorted({*PROTOCOLS, *ALIASES}))}, or a number from 0 to 255.")
    if text == 'icmp' and ethertype == 'IPv6':
        return 'icmpv6'
    return None if text in ANY else text


def protocol_aliases(value: str) -> list[str]:
    """Return all spellings of a protocol: its names and its number.

    "Any protocol" has the spellings in ANY. An unknown protocol has only the given spelling.
    """
    try:
        found = canonical_protocol(value)
    except exception.InvalidInput:
        return [value]
    if found is None:
        return [*ANY]
    return sorted({value.lower(), found, str(PROTOCOLS.get(found, found)),
                   *(name for name, other in ALIASES.items() if other == found)})


def key(rule: Mapping[str, Any]) -> Key:
    """Return a key of a rule. Rules of a group have equal keys if they match the same packets."""
    prefix = normalized(rule['remote_ip_prefix'])
    return (rule['direction'], rule['ethertype'], canonical_protocol(rule['protocol'], rule['ethertype']),
            rule['port_range_min'], rule['port_range_max'], None if prefix in EVERYWHERE else prefix,
            rule.get('remote_group_id'), rule.get('remote_address_group_id'))


def parse_prefix(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Parse an address with prefix length; a bare address gets the full length.

    :raises ValueError: invalid text
    """
    if '%' in str(text):
        raise ValueError('An address range cannot have an IPv6 zone.')
    return ipaddress.ip_interface(text)


def normalized(text: str | None) -> str | None:
    """Return the range of a rule's remote_ip_prefix: 10.2.3.0/24 for 10.2.3.124/24; None for None."""
    return text and str(parse_prefix(text).network)


def check_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Check a rule and return it in stored form.

    The stored protocol is the given text in lower case, not its canonical form.

    :param rule: dict with direction, ethertype, protocol, port_range_min, port_range_max, remote_ip_prefix and
        remote_group_id
    :raises InvalidInput:
    """
    ethertype = ETHERTYPES.get(str(rule['ethertype'] or 'IPv4').lower())
    if ethertype is None:
        raise exception.InvalidInput(reason='ethertype must be IPv4 or IPv6.')
    given = None if rule['protocol'] is None else str(rule['protocol']).lower()
    rule = {**rule, 'ethertype': ethertype, 'protocol': None if given in NOT_GIVEN else given}
    protocol = canonical_protocol(rule['protocol'], ethertype)
    if ethertype == 'IPv4' and protocol in _OF_IPV6:
        raise exception.InvalidInput(reason=f'Invalid ethertype {ethertype} for protocol {given}.')
    if sum(bool(rule.get(name)) for name in ('remote_ip_prefix', 'remote_group_id', 'remote_address_group_id')) > 1:
        raise exception.InvalidInput(
            reason='Only remote_ip_prefix, remote_group_id or remote_address_group_id may be provided.')
    if rule['remote_ip_prefix']:
        try:
            prefix = parse_prefix(rule['remote_ip_prefix'])
        except ValueError:
            raise exception.InvalidInput(reason=f"'{rule['remote_ip_prefix']}' is not a valid network prefix.")
        if f'IPv{prefix.version}' != ethertype:
            raise exception.InvalidInput(
                reason=f"Conflicting value ethertype {ethertype} for CIDR {rule['remote_ip_prefix']}")
        rule['remote_ip_prefix'] = str(prefix)          # stored as given: 10.2.3.124/24 stays unchanged
    _check_ports(rule, protocol)
    return rule


def _check_ports(rule: dict[str, Any], protocol: str | None) -> None:
    low, high = rule['port_range_min'], rule['port_range_max']
    if low is None and high is None:
        return
    if protocol in ICMP:
        if low is None or not 0 <= low <= 255 or not 0 <= (high or 0) <= 255:
            raise exception.InvalidInput(reason='ICMP type and code must be between 0 and 255; a code needs a type.')
        return
    if protocol not in WITH_PORTS:
        raise exception.InvalidInput(reason='Port ranges need a protocol with ports: ' + ', '.join(WITH_PORTS))
    if low is None or high is None or not 1 <= low <= high <= 65535:
        raise exception.InvalidInput(reason='port_range_min must be at most port_range_max, both 1 to 65535.')
