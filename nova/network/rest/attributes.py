"""Attributes of resources in request bodies: a row for each attribute, and checks of values.

A check gets the value and returns it in stored form, or raises InvalidInput.
"""
from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing
from collections.abc import Callable, Mapping

from nova import exception
from nova.context import RequestContext
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import group_rules
from nova.network.host import state as host_state

REQUIRED = object()
UNSET = object()           # default of an attribute if absence differs from null
MAC = re.compile('[0-9a-f]{2}(:[0-9a-f]{2}){5}')
MAX_ITEMS = 100
DEVICE_OWNERS = ('network:', 'compute:', 'baremetal:', 'trunk:')
T = typing.TypeVar('T')
Check = Callable[[Json], T]


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute of a resource.

    default   value if a POST omits it; REQUIRED; None
    post, put whether creates, updates may set it
    admin     only administrators may set it
    """

    check: Check[typing.Any]
    default: object = None
    post: bool = True
    put: bool = True
    admin: bool = False


def _invalid(reason: str) -> typing.NoReturn:
    raise exception.InvalidInput(reason=reason)


def text(limit: int = 255) -> Check[str]:
    def check(value: Json) -> str:
        if not isinstance(value, str):
            _invalid('a string is expected.')
        if len(value) > limit:
            _invalid(f'a string of at most {limit} characters is expected.')
        if any(ord(character) < 32 or 0xd800 <= ord(character) < 0xe000 for character in value):
            _invalid('control characters are not allowed.')
        return value
    return check


def boolean(value: Json) -> bool:
    if isinstance(value, str) and value.lower() in ('true', 'false'):
        return value.lower() == 'true'
    if value in (0, 1) and not isinstance(value, float):
        return bool(value)
    return _invalid('true or false is expected.')


def integer(low: int, high: int) -> Check[int]:
    def check(value: Json) -> int:
        if isinstance(value, str) and re.fullmatch('-?[0-9]{1,9}', value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            _invalid(f'an integer from {low} to {high} is expected.')
        return value
    return check


def address(value: Json) -> str:
    try:
        if '%' in (given := text(39)(value)):
            raise ValueError('a zone')
        return str(ipaddress.ip_address(given))
    except ValueError:
        return _invalid('an IP address is expected.')


def network(value: Json) -> str:
    try:
        if '%' in (given := text(43)(value)):
            raise ValueError('a zone')
        return str(ipaddress.ip_network(given))
    except ValueError:
        return _invalid('a network such as 10.0.0.0/24 is expected.')


def host_address(value: Json) -> str:
    """Check an address that a host may have."""
    found = ipaddress.ip_address(address(value))
    if found.is_multicast or found.is_link_local or found.is_loopback or found.is_unspecified or found.is_reserved:
        _invalid('an address of a host is expected.')
    return str(found)


_NO_HOSTS = [ipaddress.ip_network(each) for each in ('0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3')]
_HOSTS_6 = [ipaddress.ip_network(each) for each in ('2000::/3', 'fc00::/7')]


def host_range(value: Json) -> str:
    """Check an address that a host may have, or a range of them."""
    if '/' not in text(43)(value):
        return host_address(value)
    found = ipaddress.ip_network(network(value))
    if isinstance(found, ipaddress.IPv4Network):
        fits = not any(found.overlaps(each) for each in _NO_HOSTS)
    else:
        fits = any(found.subnet_of(each) for each in _HOSTS_6)                    # type: ignore[arg-type]
    if not fits:
        _invalid('a range of host addresses is expected. To send from any address, use a port without port security.')
    return str(found)


def host_name(value: Json) -> str:
    """Check a DNS label, or ''."""
    value = text(63)(value).lower()
    if value and not re.fullmatch('[a-z0-9]([a-z0-9-]*[a-z0-9])?', value):
        _invalid('a label of a DNS name is expected.')
    return value


def domain(value: Json) -> str:
    """Check a fully qualified domain that ends with a dot, or ''; return it in lower case."""
    value = text(host_state.DOMAIN_LENGTH + 1)(value).lower()
    if value and not (value.endswith('.') and host_state.DOMAIN.fullmatch(value[:-1])):
        _invalid(f"'{value[:60]}' is not a FQDN: labels of letters, digits and hyphens are expected, with a dot "
                 'after each of them.')
    return value


# options that select what a guest boots, or its servers
DHCP_OPTIONS = ('bootfile-name', 'tftp-server', 'server-ip-address', 'domain-name', 'domain-search', 'ntp-server',
                'mtu', 'router', 'dns-server', 'netbios-ns', 'netbios-nodetype')


def dhcp_option(value: Json) -> str:
    if not (value in DHCP_OPTIONS or isinstance(value, str) and re.fullmatch('[1-9][0-9]{0,2}', value)
            and int(value) < 255):
        _invalid(f'one of {", ".join(DHCP_OPTIONS)} or the number of an option is expected.')
    return value


def dhcp_value(value: Json) -> str:
    value = text(255)(value)
    if not host_state.OPTION_VALUE.fullmatch(value):
        _invalid('printable ASCII without quotation marks, and without a space at an end, is expected.')
    return value


def service_types(value: Json) -> tuple[str, ...]:
    """Check device_owners that a subnet is restricted to."""
    found = tuple(dict.fromkeys(items(text(), 20)(value)))
    for each in found:
        if not each.startswith(DEVICE_OWNERS):
            _invalid(f"'{each[:60]}' is not a device_owner. It must begin with one of {', '.join(DEVICE_OWNERS)}.")
    return found


def ip_version(value: Json) -> int:
    value = integer(4, 6)(value)
    if value not in host_state.OPTION_VERSIONS:
        _invalid('4 or 6 is expected.')
    return value


def mac(value: Json) -> str:
    value = text(17)(value).lower().replace('-', ':')
    if not MAC.fullmatch(value) or int(value[:2], 16) & 1 or value == '00:00:00:00:00:00':
        _invalid('a unicast MAC address is expected.')
    return value


def items(check: Check[T], limit: int = MAX_ITEMS) -> Check[list[T]]:
    def check_all(value: Json) -> list[T]:
        if not isinstance(value, list) or len(value) > limit:
            _invalid(f'a list of at most {limit} items is expected.')
        return [check(item) for item in value]
    return check_all


def record(**checks: Check[typing.Any]) -> Check[dict[str, typing.Any]]:
    """Return a check of an object with some of these keys; names in ``checks`` that end in '_' are required."""
    known = {name.rstrip('_'): check for name, check in checks.items()}
    required = {name.rstrip('_') for name in checks if name.endswith('_')}

    def check(value: Json) -> dict[str, typing.Any]:
        if not isinstance(value, dict) or value.keys() - known.keys() or required - value.keys():
            _invalid(f'an object with {", ".join(sorted(known))} is expected.')
        return {name: known[name](item) for name, item in value.items()}
    return check


def maybe(check: Check[T]) -> Check[T | None]:
    return lambda value: None if value is None else check(value)


def one_of(*values: T) -> Check[T]:
    def check(value: Json) -> T:
        for known in values:
            if value == known and type(value) is type(known):
                return known
        return _invalid(f'one of {", ".join(map(repr, values))} is expected.')
    return check


def zone_hints(value: Json) -> list[str]:
    """Check availability zones of networks; only one zone exists."""
    return list(dict.fromkeys(items(one_of('nova'), 10)(value)))


def refused(reason: str, nothing: T | None = None) -> Check[T | None]:
    """Return a check that refuses all values except ``nothing`` for the given reason."""
    return lambda value: nothing if value == nothing else _invalid(reason)


def protocol(value: Json) -> str:
    """Check a protocol's name or number; the rule's check interprets it."""
    found = str(value) if isinstance(value, int) and not isinstance(value, bool) else text(40)(value)
    if found in group_rules.NOT_GIVEN:
        _invalid(f"'{found}' is not a protocol. Give null, any or 0 for all protocols.")
    return found


ident = text(36)


def parse(rows: Mapping[str, Attribute], context: RequestContext, values: Mapping[str, Json],
          creating: bool) -> dict[str, typing.Any]:
    """Return the checked values of a request, with defaults for a create.

    :param rows: {name: Attribute}
    :raises InvalidInput: unknown or read-only name, invalid or missing value
    :raises PolicyDenied: an attribute for administrators only
    """
    unknown = sorted(str(name)[:60] for name in values if name not in rows)
    if unknown:
        raise exception.BadRequest(f'Unrecognized attribute(s) {", ".join(map(repr, unknown[:10]))}')
    found = {}
    for name, value in values.items():
        row = rows[name]
        if not (row.post if creating else row.put):
            raise exception.BadRequest(f"Attribute '{name}' not allowed in {'POST' if creating else 'PUT'}")
        try:
            found[name] = row.check(value)
        except exception.InvalidInput as error:
            raise exception.InvalidInput(reason=f"{name}: {error.kwargs['reason']}")
        # a default is harmless in a create; in an update it could remove an administrator's setting
        if row.admin and not context.is_admin and (not creating or found[name] != row.default):
            raise exception.PolicyDenied(rule=f'{"create" if creating else "update"}:{name}')
    if not creating:
        return found
    missing = [name for name, row in rows.items() if row.default is REQUIRED and name not in found]
    if missing:
        raise exception.BadRequest(f"Failed to parse request. Required attribute '{missing[0]}' not specified")
    return {**{name: row.default for name, row in rows.items() if row.post}, **found}


def below(body: JsonObject, name: str) -> JsonObject:
    """Return the object under a key of a body.

    :raises BadRequest: the value is not an object
    """
    found = body.get(name)
    if not isinstance(found, dict):
        raise exception.BadRequest(f"Unable to find '{name}' in request body")
    return found


# attributes that are interpreted, or checked, together
_TOGETHER = ({'port_id', 'fixed_ip_address'}, {'internal_port_id', 'internal_ip_address'},
             {'gateway_ip', 'allocation_pools'}, {'port_security_enabled', 'security_groups'})


def different(rows: Mapping[str, Attribute], view: Mapping[str, typing.Any], values: JsonObject) -> JsonObject:
    """Return the changed values of an update, with related attributes. Unchanged values have no effect.

    :param rows: {name: Attribute}
    :param view: the resource as the caller reads it
    """
    found = {name: value for name, value in values.items() if not (
        name in view and view[name] == value and name in rows and rows[name].put)}
    for names in _TOGETHER:
        if names & found.keys():
            found |= {name: values[name] for name in names & values.keys()}
    return found


def owner(context: RequestContext, values: dict[str, typing.Any]) -> str:
    """Return the project of a new resource; removes tenant_id and project_id from ``values``."""
    tenant, project = values.pop('tenant_id', None), values.pop('project_id', None)
    if tenant and project and tenant != project:
        raise exception.BadRequest("'project_id' and 'tenant_id' do not match")
    wanted = project or tenant or context.project_id
    if not wanted:
        raise exception.BadRequest("Running without keystone requires that tenant_id is specified")
    if wanted != context.project_id and not context.is_admin:
        raise exception.PolicyDenied(rule='create for another project')
    return wanted


DESCRIBED = {
    'name': Attribute(text(), ''),
    'description': Attribute(maybe(text()), ''),
    'tenant_id': Attribute(maybe(text()), put=False),
    'project_id': Attribute(maybe(text()), put=False),
}
