"""Types of the Networking API: JSON Schemas of attributes in requests and of fields in responses.

The error message for an invalid attribute contains the description of its type.
"""
from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, NoReturn

from nova import exception
from nova.json_types import Json
from nova.network import group_rules
from nova.network.host import state as host_state
from nova.web import json_schema
from nova.web import json_types
from nova.web.resource import closed
from nova.web.resource import Converted
from nova.web.resource import converted
from nova.web.resource import Schema
from nova.web.resource import shape as shape

MAX_ITEMS = 100
MAC = re.compile('[0-9a-f]{2}(:[0-9a-f]{2}){5}')
DEVICE_OWNERS = ('network:', 'compute:', 'baremetal:', 'trunk:')
UNSET = object()           # default of an attribute for which a missing value differs from null


class TypeValidator:
    """Checks and converts the values of a type."""

    def __init__(self, type_: Schema) -> None:
        self._type, self._validator = type_, json_schema.Validator(type_)

    def __call__(self, name: str, value: Any) -> Any:
        """Check a value, and return the value to store.

        :param name: attribute, for the error message
        :raises InvalidInput:
        """
        error = next(self._validator.iter_errors(value), None)
        if error is not None:
            _refuse(f'{name}: {_sentence(error.schema)}')
        return converted(name, self._type, value)


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=reason)


def _sentence(schema: Schema) -> str:
    reason = str(schema.get('description', 'another value'))
    return reason if reason.endswith('.') else reason + ' is expected.'


def _parsed(schema: Schema, parse: Callable[[Any], Any]) -> Converted:
    """Return a type that converts values with ``parse``, which raises ValueError for invalid values."""
    def convert(name: str, value: Any) -> Any:
        try:
            return parse(value)
        except ValueError:
            _refuse(f'{name}: {_sentence(schema)}')
    return Converted(schema, convert)


# ---- types of requests -------------------------------------------------------

def text(limit: int = 255, description: str = '') -> Schema:
    return {'type': 'string', 'maxLength': limit, 'pattern': r'^[^\x00-\x1f\ud800-\udfff]*$',
            'description': description or f'a string of at most {limit} characters without control characters'}


def integer(low: int, high: int) -> Converted:
    def parse(value: int | str | float) -> int:
        if isinstance(value, float) or not low <= int(value) <= high:
            raise ValueError
        return int(value)
    return _parsed({'type': ['integer', 'string'], 'minimum': low, 'maximum': high, 'pattern': '^-?[0-9]{1,9}$',
                    'description': f'an integer from {low} to {high}'}, parse)


def nullable(type_: Schema) -> Schema:
    words, convert = type_['type'], getattr(type_, 'convert', None)
    several = words if isinstance(words, list) else [words]
    found: Schema = {**type_, 'type': [*several, 'null']}
    return found if convert is None else Converted(
        found, lambda name, value: None if value is None else convert(name, value))


def clearable(type_: Schema) -> Converted:
    """Return a type that also accepts null, and converts null to an empty list or an empty text.

    :param type_: a list or a text without a conversion; a list may have converted items
    """
    empty = list if type_['type'] == 'array' else str
    return Converted(nullable(type_), lambda _name, value: empty() if value is None else value)


def items(type_: Schema, limit: int = MAX_ITEMS) -> Schema:
    return {'type': 'array', 'maxItems': limit, 'items': type_, 'description': f'a list of at most {limit} items'}


def record(*required: str, **properties: Schema) -> Schema:
    return {**closed(*required, **properties), 'description': f'an object with {", ".join(sorted(properties))}'}


def one_of(*values: Json) -> Schema:
    return {'enum': [*values], 'description': f'one of {", ".join(map(repr, values))}'}


def refused(reason: str) -> Schema:
    """Return a type that accepts only null."""
    return {'type': 'null', 'description': reason}


def _distinct(type_: Schema, limit: int) -> Converted:
    return Converted(items(type_, limit), lambda _name, value: list(dict.fromkeys(value)))


def _boolean(value: bool | int | str | float) -> bool:
    if isinstance(value, float):
        raise ValueError
    return value.lower() == 'true' if isinstance(value, str) else bool(value)


def _without_zone(value: str) -> str:
    if '%' in value:
        raise ValueError
    return value


def _address(value: str) -> str:
    return str(ipaddress.ip_address(_without_zone(value)))


def _network(value: str) -> str:
    return str(ipaddress.ip_network(_without_zone(value)))


_NO_HOSTS = [ipaddress.ip_network(each) for each in ('0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3')]
_HOSTS_6 = [ipaddress.ip_network(each) for each in ('2000::/3', 'fc00::/7')]


def _host_range(name: str, value: str) -> str:
    """Check and convert a host address, or a range of host addresses."""
    if '/' not in value:
        address = ipaddress.ip_address(NETWORK_ADDRESS.convert(name, value))
        if (address.is_multicast or address.is_link_local or address.is_loopback or address.is_unspecified
                or address.is_reserved):
            _refuse(f'{name}: an address of a host is expected.')
        return str(address)
    found = ipaddress.ip_network(NETWORK.convert(name, value))
    if isinstance(found, ipaddress.IPv4Network):
        fits = not any(found.overlaps(each) for each in _NO_HOSTS)
    else:
        fits = any(found.subnet_of(each) for each in _HOSTS_6)                    # type: ignore[arg-type]
    if not fits:
        _refuse(f'{name}: a range of host addresses is expected. To send from any address, use a port without port '
                'security.')
    return str(found)


def _domain(name: str, value: str) -> str:
    """Check and convert a fully qualified domain that ends with a dot, or ''."""
    value = value.lower()
    if value and not (value.endswith('.') and host_state.DOMAIN.fullmatch(value[:-1])):
        _refuse(f"{name}: '{value[:60]}' is not a FQDN: labels of letters, digits and hyphens are expected, with a dot "
                'after each of them.')
    return value


def _service_types(name: str, value: list[str]) -> list[str]:
    """Check the device_owners of the ports that may use a subnet."""
    for each in value:
        if not each.startswith(DEVICE_OWNERS):
            _refuse(f"{name}: '{each[:60]}' is not a device_owner. It must begin with one of "
                    f"{', '.join(DEVICE_OWNERS)}.")
    return list(dict.fromkeys(value))


def _mac(value: str) -> str:
    value = value.lower().replace('-', ':')
    if not MAC.fullmatch(value) or int(value[:2], 16) & 1 or value == '00:00:00:00:00:00':
        raise ValueError
    return value


def _protocol(name: str, value: int | str | float) -> str:
    """Convert the name or number of a protocol to text; group_rules.check_rule interprets it."""
    if isinstance(value, float):
        _refuse(f'{name}: a name or number of a protocol is expected.')
    if str(value) in group_rules.NOT_GIVEN:
        _refuse(f"{name}: '{value}' is not a protocol. Give null, any or 0 for all protocols.")
    return str(value)


# DHCP options that a port may set by name; a port sets other options by number
_OPTIONS = ('bootfile-name', 'tftp-server', 'server-ip-address', 'domain-name', 'domain-search', 'ntp-server',
            'mtu', 'router', 'dns-server', 'netbios-ns', 'netbios-nodetype')
_OPTIONS_6 = ('dns-server', 'domain-search', 'ntp-server')                 # dnsmasq knows no others for DHCPv6
# {IP version: options with a list of addresses}: dnsmasq drops the option if it has another value
_ADDRESS_OPTIONS = {
    4: {'server-ip-address', 'ntp-server', 'router', 'dns-server', 'netbios-ns',
        *'1 3 6 7 9 16 21 28 32 33 41 42 44 45 48 49 50 54 65 68 69 70 71 74 150'.split()},
    6: {'dns-server', *'22 23 27 28 31'.split()}}
_NUMBER = re.compile('[0-9]{1,5}', re.ASCII)
_SINGLE_OPTIONS = ('mtu', 'netbios-nodetype', '26', '46')                  # dnsmasq drops lists of numbers
_OPTION = '|'.join((*_OPTIONS, '[1-9][0-9]?', '1[0-9][0-9]', '2[0-4][0-9]', '25[0-4]'))


def _dhcp_option(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Check that dnsmasq sends an option, and add its IP version; a value of null deletes the option."""
    option, version, text = value['opt_name'], value.get('ip_version', 4), value['opt_value']
    if text is not None:
        if version == 6 and option in _OPTIONS and option not in _OPTIONS_6:
            _refuse(f'{name}: DHCPv6 has no option {option}. Use one of {", ".join(_OPTIONS_6)}, or a number.')
        if option in _ADDRESS_OPTIONS[version] and not all(_is_address(part, version) for part in text.split(',')):
            _refuse(f'{name}: IPv{version} addresses with commas between them are expected for {option}.')
        if option in _SINGLE_OPTIONS and version == 4 and not _NUMBER.fullmatch(text):
            _refuse(f'{name}: a number is expected for {option}.')
    return {**value, 'ip_version': version}


def _is_address(part: str, version: int) -> bool:
    part = part.strip()
    if version == 6 and part.startswith('[') and part.endswith(']'):
        part = part[1:-1]
    try:
        return ipaddress.ip_address(part).version == version and '%' not in part       # dnsmasq knows no zones
    except ValueError:
        return False


_LABEL = '[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?'

NAME, IDENT = text(), text(36)
BOOLEAN = _parsed({'type': ['boolean', 'string', 'integer'], 'minimum': 0, 'maximum': 1,
                   'pattern': '^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$', 'description': 'true or false'}, _boolean)
NETWORK_ADDRESS = _parsed(text(39, 'an IP address'), _address)
NETWORK = _parsed(text(43, 'a network such as 10.0.0.0/24'), _network)
HOST_RANGE = Converted(text(43, 'an IP address or a network'), _host_range)
HOST_NAME = _parsed({'type': 'string', 'maxLength': 63, 'pattern': f'^({_LABEL})?$',
                     'description': 'a label of a DNS name'}, str.lower)
DOMAIN = Converted(text(host_state.DOMAIN_LENGTH + 1, 'a fully qualified domain with a dot at its end'), _domain)
_OPTION_NAME: Schema = {'type': 'string', 'pattern': f'^({_OPTION})$',
                        'description': f'one of {", ".join(_OPTIONS)} or the number of an option'}
_OPTION_VALUE: Schema = {
    'type': 'string', 'maxLength': 255, 'pattern': f'^{host_state.OPTION_VALUE.pattern}$',
    'description': 'printable ASCII without quotation marks, and without a space at an end,'}
MAC_ADDRESS = _parsed(text(17, 'a unicast MAC address'), _mac)
SERVICE_TYPES = Converted(items(text(), 20), _service_types)
ZONE_HINTS = _distinct(one_of('nova'), 10)          # the only zone is nova
PROTOCOL = Converted({**text(40, 'a name or number of a protocol'), 'type': ['string', 'integer']}, _protocol)
IP_VERSION = integer(4, 6)
OPTION_VERSION = _parsed({**IP_VERSION, 'enum': [*host_state.OPTION_VERSIONS, *map(str, host_state.OPTION_VERSIONS)],
                          'description': '4 or 6'}, int)
DHCP_OPTION = Converted(record('opt_name', 'opt_value', opt_name=_OPTION_NAME, opt_value=nullable(_OPTION_VALUE),
                               ip_version=OPTION_VERSION), _dhcp_option)
DSCP_MARK = _parsed({**integer(0, 56), 'enum': [*host_state.DSCP_MARKS, *map(str, host_state.DSCP_MARKS)],
                     'description': one_of(*host_state.DSCP_MARKS)['description']}, int)
ROUTE = record('destination', 'nexthop', destination=NETWORK, nexthop=NETWORK_ADDRESS)
FIXED_IP = record(subnet_id=IDENT, ip_address=NETWORK_ADDRESS)
TAG: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255, 'pattern': r'^[^,\x00-\x1f\ud800-\udfff]*$',
               'description': 'a tag must be a non-empty string without a comma.'}
TAGS = items(TAG, 50)

# ---- types of responses ------------------------------------------------------

TEXT: Schema = {'type': 'string'}
TEXT_OR_NULL: Schema = {'type': ['string', 'null']}
UUID: Schema = {'type': 'string', 'format': 'uuid'}
UUID_OR_NULL: Schema = {'type': ['string', 'null'], 'format': 'uuid'}
FLAG: Schema = {'type': 'boolean'}
NUMBER: Schema = {'type': 'integer'}
NUMBER_OR_NULL: Schema = {'type': ['integer', 'null']}
NULL: Schema = {'type': 'null'}
TIME: Schema = {'type': 'string', 'pattern': json_types.DATE_TIME['pattern']}
EMPTY: Schema = {'type': 'array', 'maxItems': 0}


def const(value: Json) -> Schema:
    return {'const': value}


def array(type_: Schema) -> Schema:
    return {'type': 'array', 'items': type_}


TEXTS = array(TEXT)
FIXED_IPS = array(shape(subnet_id=UUID, ip_address=TEXT))
ROUTES = array(shape(destination=TEXT, nexthop=TEXT))
LINKS = array(shape(rel=TEXT, href=TEXT))
GATEWAY_OR_NULL: Schema = {**shape(network_id=UUID, enable_snat=FLAG, external_fixed_ips=FIXED_IPS,
                                   qos_policy_id=UUID_OR_NULL),
                           'type': ['object', 'null']}
