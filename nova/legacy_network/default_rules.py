"""os-security-group-default-rules: ingress rules of the default group of new projects.

The rules are templates of the Network API (network/rest/group_templates.py). Templates with egress direction or
remote groups cannot be expressed here and are hidden.
"""
from collections.abc import Mapping
from typing import Any

from nova import exception
from nova.api.attachments import security_groups as views
from nova.api.proxies import security_groups
from nova.api.request import Document
from nova.api.request import Request
from nova.db.engine import Connection
from nova.db.networks import group_templates as db
from nova.legacy_network.operations import Operation
from nova.network.rest import calls
from nova.network.rest import faults
from nova.network.rest import group_templates
from nova.network.rest.request import Deps
from nova.web import params

_PATH = 'os-security-group-default-rules'
_PROTOCOLS = ('tcp', 'udp', 'icmp')
_NUMBER: dict[str, object] = {'type': ['integer', 'string']}
_CREATE = params.document(
    'security_group_default_rule', params.Param('ip_protocol', {'type': 'string', 'maxLength': 4}, required=True),
    *(params.Param(name, _NUMBER, required=True) for name in ('from_port', 'to_port')),
    params.Param('cidr', {'type': ['string', 'null'], 'maxLength': 43}))


def _view(row: Mapping[str, Any]) -> Document:
    shown = views.rule_view({**row, 'remote_group_id': None, 'security_group_id': None}, {})
    return {name: shown[name] for name in ('id', 'ip_protocol', 'from_port', 'to_port', 'ip_range')}


def _shown(conn: Connection) -> list[dict[str, Any]]:
    """Return the templates that this API can show: ingress, for the default group, without a remote group."""
    return [row for row in db.every(conn) if row['direction'] == 'ingress' and row['used_in_default_sg']
            and not row['from_own_group']]


def _find(conn: Connection, ident: str) -> dict[str, Any]:
    """Return a rule.

    :raises DefaultRuleNotFound: the rule does not exist
    """
    found = next((row for row in _shown(conn) if row['id'] == ident), None)
    if found is None:
        raise faults.DefaultRuleNotFound(rule_id=ident[:40])
    return found


def _index(req: Request) -> Document:
    with req.services.api_db.reader() as conn:
        return {'security_group_default_rules': [_view(row) for row in _shown(conn)]}


def _show(req: Request, id: str) -> Document:
    with req.services.api_db.reader() as conn:
        return {'security_group_default_rule': _view(_find(conn, id))}


def _create(req: Request) -> Document:
    given = req.body['security_group_default_rule']
    protocol = given['ip_protocol'].lower()
    if protocol not in _PROTOCOLS:
        raise exception.BadRequest(f'ip_protocol must be one of {", ".join(_PROTOCOLS)}.')
    prefix, ethertype = security_groups.network(given.get('cidr'))
    values = {
        'direction': 'ingress', 'ethertype': ethertype, 'remote_ip_prefix': prefix,
        'protocol': 'icmpv6' if protocol == 'icmp' and ethertype == 'IPv6' else protocol,
        'port_range_min': security_groups.port(given['from_port'], 'from_port'),
        'port_range_max': security_groups.port(given['to_port'], 'to_port'),
        'used_in_default_sg': True, 'used_in_non_default_sg': False}
    deps, caller = Deps(req.services.conf, req.services.api_db), req.services.networks.caller(req.context)
    return {'security_group_default_rule': _view(req.services.api_db.run(lambda conn: _find(
        conn, calls.create(conn, deps, caller, group_templates.TEMPLATES, values))))}


def _delete(req: Request, id: str) -> None:
    deps, caller = Deps(req.services.conf, req.services.api_db), req.services.networks.caller(req.context)

    def drop(conn: Connection) -> None:
        row = calls.get_changeable(conn, caller, group_templates.TEMPLATES, _find(conn, id)['id'],
                               f'delete_{group_templates.TEMPLATES.name}')
        group_templates.TEMPLATES.delete(conn, deps, caller, row)
    req.services.api_db.run(drop)


SERVED = {
    (_PATH, 'GET'): Operation(_index),
    (_PATH, 'POST'): Operation(_create, _CREATE),
    (_PATH + '/{id}', 'GET'): Operation(_show),
    (_PATH + '/{id}', 'DELETE'): Operation(_delete),
}
