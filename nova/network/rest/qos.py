"""QoS policies with bandwidth limits and DSCP marking. Other rule types are refused.

Administrators create policies; projects assign their own and shared ones to ports and networks.
"""
from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import qos as db
from nova.db.tables import network as t
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.host import state as host_state
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import pages
from nova.network.rest import resource
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.tables.rows import QosMarkingsRow, QosPoliciesRow, QosRulesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.request import NetworkRequest

KIND, MARKING = 'bandwidth_limit', 'dscp_marking'
OTHERS = ('minimum_bandwidth', 'minimum_packet_rate', 'packet_rate_limit')
DIRECTIONS = ('egress', 'ingress')
MAX_POLICIES = 1000             # maximum of a project
MAX_KBPS = 80_000_000           # 80 Gbit/s: the kernel computes rate and burst in nanoseconds, in 64 bits
CONSTANTS = {'is_default': False}


def _rule_view(row: Mapping[str, Any]) -> dict[str, Any]:
    return {'id': row['id'], 'qos_policy_id': row['policy_id'], 'type': KIND,
            **resource.columns(row, _RULE)}


def views(conn: Connection, context: RequestContext, rows: list[QosPoliciesRow]) -> list[resource.View]:
    idents = [row['id'] for row in rows]
    rules, markings = db.rules_of(conn, idents), db.markings_of(conn, idents)
    shared = db_networks.shared_among(conn, idents, context.project_id)
    shown = {ident: [_rule_view(rule) for rule in of_policy] for ident, of_policy in rules.items()}
    for ident, marking in markings.items():
        shown.setdefault(ident, []).append(_marking_view(marking))
    return [{**resource.times(row), 'name': row['name'], 'shared': row['shared'] or row['id'] in shared, **CONSTANTS,
             'rules': shown.get(row['id'], [])} for row in rows]


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    if not context.is_admin:
        raise exception.PolicyDenied(rule='create_policy')
    if db_networks.count(conn, t.qos_policies, project) >= MAX_POLICIES:
        raise faults.OverQuota(resource='qos_policy')
    row = {'id': str(uuid.uuid4()), 'project_id': project, 'name': values['name'], 'shared': values['shared'],
           'description': values['description'] or ''}
    db_networks.insert(conn, t.qos_policies, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, values: dict[str, Any]) -> None:
    db_networks.update(conn, t.qos_policies, row['id'], {
        name: values[name] for name in ('name', 'description', 'shared') if values.get(name) is not None})


def delete(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow) -> None:
    db_networks.lock(conn, t.qos_policies, row['id'])
    user = db.in_use(conn, row['id'])
    if user:
        raise faults.QosPolicyInUse(policy_id=row['id'], user=user)
    db.remove(conn, row['id'])


def chosen(conn: Connection, context: RequestContext, known: str | None, wanted: str | None) -> str | None:
    """Check and return the policy id for a port or network.

    :param known: current policy
    :raises QosPolicyNotFound: the policy is not visible to the caller
    :raises PolicyDenied: the caller may not remove the current policy
    """
    if wanted == known:
        return known
    if wanted:
        db_networks.lock(conn, t.qos_policies, wanted)           # before the check whether it is shared
    for ident in filter(None, (wanted, known)):
        if db_networks.seen(conn, t.qos_policies, db.visible(context), ident) is None:
            if ident == known:
                raise exception.PolicyDenied(rule='update_policy')
            raise faults.QosPolicyNotFound(policy_id=ident)
    return wanted


# ---- rules ------------------------------------------------------------------------

def _dscp_mark(value: Json) -> int:
    return a.one_of(*host_state.DSCP_MARKS)(int(value) if isinstance(value, str) and value.isascii()
                                            and value.isdigit() and len(value) < 4 else value)


_RULE = {
    'max_kbps': a.Attribute(a.integer(1, MAX_KBPS), a.REQUIRED),
    'max_burst_kbps': a.Attribute(a.integer(0, MAX_KBPS), 0),
    'direction': a.Attribute(a.one_of(*DIRECTIONS), 'egress'),
}


def _below(body: JsonObject, kind: str) -> JsonObject:
    return {name: value for name, value in a.below(body, f'{kind}_rule').items()
            if name not in ('tenant_id', 'project_id')}


def _rule(conn: Connection, row: QosPoliciesRow, ident: str) -> QosRulesRow:
    for rule in db.rules_of(conn, [row['id']]).get(row['id'], []):
        if rule['id'] == ident:
            return rule
    raise faults.QosRuleNotFound(policy_id=row['id'], rule_id=ident[:60])


def _check_single(conn: Connection, row: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    for rule in db.rules_of(conn, [row['id']]).get(row['id'], []):
        if rule['direction'] == made['direction'] and rule['id'] != made['id']:
            raise faults.QosRuleExists(policy_id=row['id'], direction=made['direction'])


def list_rules(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: None) -> JsonDocument:
    return {f'{KIND}_rules': [_rule_view(rule) for rule in db.rules_of(conn, [row['id']]).get(row['id'], [])]}


def show_rule(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: None,
              part: str) -> JsonDocument:
    return {f'{KIND}_rule': _rule_view(_rule(conn, row, part))}


def create_rule(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow,
                body: JsonObject) -> JsonDocument:
    values = a.parse(_RULE, context, _below(body, KIND), creating=True)
    db_networks.lock(conn, t.qos_policies, row['id'])
    made = {**values, 'id': str(uuid.uuid4()), 'policy_id': row['id'], 'description': ''}
    _check_single(conn, row, made)
    db_networks.insert(conn, t.qos_rules, [made])
    db_networks.update(conn, t.qos_policies, row['id'], {})
    return {f'{KIND}_rule': _rule_view(made)}


def update_rule(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: JsonObject,
                part: str) -> JsonDocument:
    db_networks.lock(conn, t.qos_policies, row['id'])
    known = _rule(conn, row, part)
    changed = a.parse(_RULE, context, a.different(_RULE, known, _below(body, KIND)), creating=False)
    if not changed:
        return {f'{KIND}_rule': _rule_view(known)}
    _check_single(conn, row, {**known, **changed})
    db_networks.update(conn, t.qos_rules, part, changed)
    db_networks.update(conn, t.qos_policies, row['id'], {})
    return {f'{KIND}_rule': _rule_view({**known, **changed})}


def delete_rule(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: None,
                part: str) -> None:
    db_networks.lock(conn, t.qos_policies, row['id'])
    db_networks.delete(conn, t.qos_rules, _rule(conn, row, part)['id'])
    db_networks.update(conn, t.qos_policies, row['id'], {})


# ---- DSCP marking ---------------------------------------------------------------

_MARKING = {'dscp_mark': a.Attribute(_dscp_mark, a.REQUIRED)}


def _marking_view(marking: Mapping[str, Any]) -> dict[str, Any]:
    return {'id': marking['id'], 'qos_policy_id': marking['policy_id'], 'type': MARKING,
            'dscp_mark': marking['dscp_mark']}


def _marking(conn: Connection, row: QosPoliciesRow, ident: str) -> Mapping[str, Any]:
    found = db.markings_of(conn, [row['id']]).get(row['id'])
    if found is None or found['id'] != ident:
        raise faults.QosRuleNotFound(policy_id=row['id'], rule_id=ident[:60])
    return found


def list_markings(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow,
                  body: None) -> JsonDocument:
    return {f'{MARKING}_rules': [_marking_view(each) for each in db.markings_of(conn, [row['id']]).values()]}


def show_marking(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: None,
                 part: str) -> JsonDocument:
    return {f'{MARKING}_rule': _marking_view(_marking(conn, row, part))}


def create_marking(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow,
                   body: JsonObject) -> JsonDocument:
    values = a.parse(_MARKING, context, _below(body, MARKING), creating=True)
    db_networks.lock(conn, t.qos_policies, row['id'])
    if db.markings_of(conn, [row['id']]):
        raise faults.QosRuleExists(policy_id=row['id'], direction='egress')
    made: QosMarkingsRow = {'policy_id': row['id'], 'id': str(uuid.uuid4()), 'dscp_mark': values['dscp_mark']}
    return _marked(conn, made)


def update_marking(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: JsonObject,
                   part: str) -> JsonDocument:
    db_networks.lock(conn, t.qos_policies, row['id'])
    known = _marking(conn, row, part)
    values = a.parse(_MARKING, context, a.different(_MARKING, known, _below(body, MARKING)), creating=False)
    if not values:
        return {f'{MARKING}_rule': _marking_view(known)}
    return _marked(conn, {'policy_id': row['id'], 'id': known['id'], 'dscp_mark': values['dscp_mark']})


def _marked(conn: Connection, made: QosMarkingsRow) -> dict[str, Any]:
    db.mark(conn, made)
    db_networks.update(conn, t.qos_policies, made['policy_id'], {})
    return {f'{MARKING}_rule': _marking_view(made)}


def delete_marking(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: None,
                   part: str) -> None:
    db_networks.lock(conn, t.qos_policies, row['id'])
    _marking(conn, row, part)
    db.unmark(conn, row['id'])
    db_networks.update(conn, t.qos_policies, row['id'], {})


# ---- rule types -----------------------------------------------------------------

def _nothing(kind: str) -> Callable[..., dict[str, Any]]:
    return lambda conn, deps, context, row, body: {f'{kind}_rules': []}


def _refused(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: JsonObject) -> NoReturn:
    raise exception.BadRequest('QoS rules of this type are not supported: only bandwidth_limit and dscp_marking can be '
                               'enforced by the hosts.')


def rule_types(req: NetworkRequest) -> JsonDocument:
    return {'rule_types': pages.fields(req.query, [{'type': KIND}, {'type': MARKING}])}


def show_rule_type(req: NetworkRequest, kind: str) -> JsonDocument:
    if kind == MARKING:
        marks = {'parameter_name': 'dscp_mark', 'parameter_type': 'choices', 'parameter_values': list(
            host_state.DSCP_MARKS)}
        return {'rule_type': {'type': MARKING, 'drivers': [{'name': 'nova-network', 'supported_parameters': [marks]}]}}
    if kind != KIND:
        raise exception.NotFound()
    limits: list[JsonDocument] = [
        {'parameter_name': name, 'parameter_type': 'range', 'parameter_values': {'start': low, 'end': MAX_KBPS}}
        for name, low in (('max_kbps', 1), ('max_burst_kbps', 0))]
    directions = {'parameter_name': 'direction', 'parameter_type': 'choices', 'parameter_values': DIRECTIONS}
    return {'rule_type': {'type': KIND, 'drivers': [
        {'name': 'nova-network', 'supported_parameters': [directions, *limits]}]}}


ROUTES = (Route('GET', '/qos/rule-types', rule_types), Route('GET', '/qos/rule-types/{kind}', show_rule_type))
_C = t.qos_policies.c
_RULES, _MARKINGS = f'{KIND}_rules', f'{MARKING}_rules'

POLICIES = resource.Resource(
    singular='policy', plural='policies', at='qos/policies', table=t.qos_policies,
    attributes={
        **a.DESCRIBED,
        'shared': a.Attribute(a.boolean, False, admin=True),
        'is_default': a.Attribute(a.one_of(False), False),
    },
    listing=listing.Listing(t.qos_policies, {
        'id': _C.id, 'name': _C.name, 'project_id': _C.project_id, 'tenant_id': _C.project_id, 'shared': _C.shared,
        'description': _C.description, 'created_at': _C.created_at,
    }, CONSTANTS),
    visible=db.visible, writable=lambda context, row: bool(context.is_admin), views=views, create=create, update=update,
    delete=delete, missing=lambda ident: faults.QosPolicyNotFound(policy_id=ident),
    actions=(('GET', _RULES, list_rules), ('POST', _RULES, create_rule), ('GET', _RULES + '/{part}', show_rule),
             ('PUT', _RULES + '/{part}', update_rule), ('DELETE', _RULES + '/{part}', delete_rule),
             ('GET', _MARKINGS, list_markings), ('POST', _MARKINGS, create_marking),
             ('GET', _MARKINGS + '/{part}', show_marking), ('PUT', _MARKINGS + '/{part}', update_marking),
             ('DELETE', _MARKINGS + '/{part}', delete_marking),
             *((method, f'{kind}_rules', function) for kind in OTHERS
               for method, function in (('GET', _nothing(kind)), ('POST', _refused)))))
