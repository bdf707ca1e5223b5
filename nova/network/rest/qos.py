"""QoS policies with bandwidth limits, DSCP marking, and guarantees of bandwidth and packet rates.

Packet rate limits are refused.

Administrators create policies. Projects assign their own policies and shared policies to ports and networks.
"""
from __future__ import annotations

import uuid
from typing import Any, NoReturn, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import guarantees as db_guarantees
from nova.db.networks import networks as db_networks
from nova.db.networks import qos as db
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.host import state as host_state
from nova.network.rest import faults
from nova.network.rest import guarantees as rest_guarantees
from nova.network.rest import pages
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest.parts import Part
from nova.network.rest.parts import Parts
from nova.objects import guarantees as names
from nova.web.fields import Constant
from nova.web.resource import Document
from nova.web.resource import Plain
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Table
    from nova.db.tables.rows import QosPoliciesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.request import NetworkRequest
    from nova.network.rest.values import PolicyValues

KIND, MARKING = 'bandwidth_limit', 'dscp_marking'
OTHER = 'packet_rate_limit'
MAX_POLICIES = 1000             # maximum policies of a project
MAX_KBPS = 80_000_000           # 80 Gbit/s: the kernel's calculation in nanoseconds must fit into 64 bits
MAX_KPPS = 1_000_000


def _rules(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    found = {ident: [LIMITS.shown(rule) for rule in rules] for ident, rules in db.rules_of(conn, idents).items()}
    for ident, marking in db.markings_of(conn, idents).items():
        found.setdefault(ident, []).append(MARKINGS.shown(marking))
    for ident, rows in db_guarantees.of_policies(conn, idents).items():
        found.setdefault(ident, []).extend(MINIMUMS[row['type']].shown(row) for row in rows)
    return found


def create(conn: Connection, deps: Deps, context: RequestContext, values: PolicyValues) -> str:
    project = r.new_owner(context, values)
    if db_networks.count(conn, t.qos_policies, project) >= MAX_POLICIES:
        raise faults.OverQuota(resource='qos_policy')
    row: dict[str, Any] = {
        'id': str(uuid.uuid4()), 'project_id': project, 'name': values['name'], 'shared': values['shared'],
        'description': values['description']}
    db_networks.insert(conn, t.qos_policies, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, values: PolicyValues) -> None:
    row = POLICIES.locked(conn, row['id'])
    if row['shared'] and values.get('shared') is False:
        _check_unused(conn, row)
    db_networks.update(conn, t.qos_policies, row['id'], POLICIES.stored(values))


def _check_unused(conn: Connection, row: QosPoliciesRow) -> None:
    """Check that no project uses a policy that is visible to it only because the policy is shared with all projects.

    :raises RbacPolicyInUse:
    """
    targets = {share['target_project'] for share in db_networks.many(conn, t.shares, [row['id']], 'network_id')}
    if db_networks.EVERYBODY not in targets and any(
            project and project != row['project_id'] and project not in targets
            for project in db.users(conn, row['id'])):
        raise faults.RbacPolicyInUse(object_id=row['id'])


def delete(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow) -> None:
    db_networks.lock(conn, t.qos_policies, row['id'])
    user = db.in_use(conn, row['id'])
    if user:
        raise faults.QosPolicyInUse(policy_id=row['id'], user=user)
    db.remove(conn, row['id'])


def chosen(conn: Connection, context: RequestContext, known: str | None, wanted: str | None) -> str | None:
    """Check the requested policy of a port or network, and return its id.

    :param known: current policy
    :raises QosPolicyNotFound: the policy is not visible to the caller
    :raises PolicyDenied: the caller may not remove the current policy
    """
    if wanted == known:
        return known
    if wanted:
        db_networks.lock(conn, t.qos_policies, wanted)       # until the commit, the policy's sharing cannot change
    for ident in filter(None, (wanted, known)):
        if db_networks.seen(conn, t.qos_policies, db.visible(context), ident) is None:
            if ident == known:
                raise exception.PolicyDenied(rule='update_policy')
            raise faults.QosPolicyNotFound(policy_id=ident)
    return wanted


# ---- rules ------------------------------------------------------------------------

def _lock(conn: Connection, row: QosPoliciesRow) -> QosPoliciesRow:
    db_networks.lock(conn, t.qos_policies, row['id'])
    return row


def _missing(row: QosPoliciesRow, ident: str) -> exception.NovaException:
    return faults.QosRuleNotFound(policy_id=row['id'], rule_id=ident[:60])


def _check_limit(conn: Connection, context: RequestContext, row: QosPoliciesRow, part: Part,
                 others: list[Part]) -> None:
    for rule in others:
        if rule['direction'] == part['direction']:
            raise faults.QosRuleExists(policy_id=row['id'], direction=part['direction'])
    for minimum in db_guarantees.of_policies(conn, [row['id']]).get(row['id'], ()):
        if (minimum['type'], minimum['direction']) == (names.BANDWIDTH, part['direction']):
            _check_range(row, minimum['amount'], part['max_kbps'])


def _changed(conn: Connection, row: QosPoliciesRow, part: Part, is_deleted: bool) -> None:
    db_networks.update(conn, t.qos_policies, row['id'], {})


def _check_marking(conn: Connection, context: RequestContext, row: QosPoliciesRow, part: Part,
                   others: list[Part]) -> None:
    if others:
        raise faults.QosRuleExists(policy_id=row['id'], direction='egress')


def _check_range(row: QosPoliciesRow, minimum: int, maximum: int) -> None:
    if minimum > maximum:
        raise faults.QoSRuleParameterConflict(policy_id=row['id'], minimum=minimum, maximum=maximum)


def _check_minimum(conn: Connection, context: RequestContext, row: QosPoliciesRow, part: Part,
                   others: list[Part]) -> None:
    directions = [each['direction'] for each in others]
    if part['direction'] in directions:
        raise faults.QosRuleExists(policy_id=row['id'], direction=part['direction'])
    if others and 'any' in (part['direction'], *directions):
        raise faults.QosRulesConflict(policy_id=row['id'])
    for limit in LIMITS.read(conn, row) if part['type'] == names.BANDWIDTH else ():
        if limit['direction'] == part['direction']:
            _check_range(row, part['amount'], limit['max_kbps'])
    if user := db.without_guarantees(conn, row['id']):
        raise faults.QosRuleNotSupported(rule_type=part['type'], user=user)


def _changed_minimum(conn: Connection, row: QosPoliciesRow, part: Part, is_deleted: bool) -> None:
    _changed(conn, row, part, is_deleted)
    if not is_deleted:
        rest_guarantees.claim(conn, db_guarantees.claim_policy, row['id'])


def _parts(kind: str, table: Table[Any], order: tuple[str, ...], *fields: r.Field,
           **functions: Any) -> Parts[QosPoliciesRow]:
    """Return the API operations on rules of one type."""
    return Parts(f'{kind}_rule', f'{kind}_rules', table, (*_rule_fields(kind), *fields), of='policy_id', order=order,
                 lock=_lock, missing=_missing, ignored=('tenant_id', 'project_id'), **functions)


def _minimums(kind: str, *fields: r.Field) -> Parts[QosPoliciesRow]:
    """Return the API operations on rules of one type: minimum bandwidth or minimum packet rate."""
    return _parts(kind, t.qos_minimums, ('direction',), *fields, constant={'type': kind}, check=_check_minimum,
                  changed=_changed_minimum)


def _rule_fields(kind: str) -> tuple[r.Field, ...]:
    return (r.column('id', s.UUID, 'ID.'), r.Field('qos_policy_id', s.UUID, 'policy_id', 'QoS policy.'),
            r.Field('type', s.const(kind), Constant(kind), 'Type of the rule.'))


def _direction(*more: str) -> r.Field:
    return r.column('direction', s.one_of(*more, *names.DIRECTIONS), 'Direction, as the guest sees it'
                   + ('; any: both together.' if more else '.'),
                    write=r.BOTH, default='egress')


LIMITS = _parts(
    KIND, t.qos_rules, ('direction',),
    r.column('max_kbps', s.NUMBER, 'Bandwidth in kbit/s.', write=r.BOTH, accepts=s.integer(1, MAX_KBPS), required=True),
    r.column('max_burst_kbps', s.NUMBER, 'Burst in kbit; 0: computed by the host.', write=r.BOTH,
             accepts=s.integer(0, MAX_KBPS), default=0),
    _direction(), check=_check_limit, changed=_changed)
MARKINGS = _parts(
    MARKING, t.qos_markings, ('id',),
    r.column('dscp_mark', s.NUMBER, 'DSCP value.', write=r.BOTH, accepts=s.DSCP_MARK, required=True),
    check=_check_marking, changed=_changed, store=db.mark, remove=lambda conn, part: db.unmark(conn, part['policy_id']))
MINIMUMS = {
    names.BANDWIDTH: _minimums(
        names.BANDWIDTH,
        r.Field('min_kbps', s.NUMBER, 'amount', 'Guaranteed bandwidth in kbit/s.', write=r.BOTH,
                accepts=s.integer(1, MAX_KBPS), required=True), _direction()),
    names.PACKET_RATE: _minimums(
        names.PACKET_RATE,
        r.Field('min_kpps', s.NUMBER, 'amount', 'Guaranteed packet rate in thousands of packets a second.',
                write=r.BOTH, accepts=s.integer(1, MAX_KPPS), required=True), _direction('any'))}


# ---- rule types -----------------------------------------------------------------

def _nothing(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow,
             query: pages.Query) -> JsonDocument:
    return {f'{OTHER}_rules': []}


def _refused(conn: Connection, deps: Deps, context: RequestContext, row: QosPoliciesRow, body: JsonObject) -> NoReturn:
    raise exception.BadRequest('QoS rules of this type are not supported: hosts do not limit packet rates.')


def rule_types(req: NetworkRequest) -> JsonDocument:
    """List the rule types that hosts enforce; with all_rules, also the rejected types."""
    kinds = [KIND, MARKING, *MINIMUMS, *([OTHER] if ('all_rules', 'true') in [
        (key, value.lower()) for key, value in req.query] else ())]
    query = [(name, value) for name, value in req.query if name not in _ALL]
    return {'rule_types': pages.fields(query, pages.select(
        query, [{'type': kind} for kind in kinds], ('type',), key='type'))}


def show_rule_type(req: NetworkRequest, kind: str) -> JsonDocument:
    if kind == MARKING:
        marks = {'parameter_name': 'dscp_mark', 'parameter_type': 'choices', 'parameter_values': list(
            host_state.DSCP_MARKS)}
        return {'rule_type': {'type': MARKING, 'drivers': [{'name': 'nova-network', 'supported_parameters': [marks]}]}}
    if kind not in _RANGES:
        raise exception.NotFound()
    numbers: list[JsonDocument] = [
        {'parameter_name': name, 'parameter_type': 'range', 'parameter_values': {'start': low, 'end': high}}
        for name, low, high in _RANGES[kind]]
    directions = {'parameter_name': 'direction', 'parameter_type': 'choices', 'parameter_values': [
        *(['any'] if kind == names.PACKET_RATE else []), *names.DIRECTIONS]}
    return {'rule_type': {'type': kind, 'drivers': [
        {'name': 'nova-network', 'supported_parameters': [directions, *numbers]}]}}


# type of rules -> [(parameter, minimum, maximum)]
_RANGES = {KIND: [('max_kbps', 1, MAX_KBPS), ('max_burst_kbps', 0, MAX_KBPS)],
           names.BANDWIDTH: [('min_kbps', 1, MAX_KBPS)], names.PACKET_RATE: [('min_kpps', 1, MAX_KPPS)]}


_ALL = ('all_rules', 'all_supported')        # parameters of the list of types
_PARAMETER = s.shape(parameter_name=s.TEXT, parameter_type=s.one_of('choices', 'range'), parameter_values={})
_RULE_TYPE = s.shape(type=s.TEXT, drivers=s.array(s.shape(name=s.TEXT, supported_parameters=s.array(_PARAMETER))))
ROUTES = (Route('GET', '/qos/rule-types', rule_types, 'get_rule_type', answer=Document({'rule_types': s.array(
              {**s.shape(type=s.TEXT), 'required': []})}),
                query=pages.parameters(('type', *_ALL))),
          Route('GET', '/qos/rule-types/{kind}', show_rule_type, 'get_rule_type', answer=Document({
              'rule_type': _RULE_TYPE})))

KINDS: tuple[Parts[QosPoliciesRow], ...] = (LIMITS, MARKINGS, *MINIMUMS.values())
POLICIES = r.Resource('policy', 'policies', t.qos_policies, (
    *r.NAMED, r.SHARED,
    r.Field('is_default', s.const(False), Constant(False), 'Always false.', write=r.BOTH, accepts=s.one_of(False),
            default=False),
    r.Field('rules', s.array({'anyOf': [parts.view('show').schema(0) for parts in KINDS]}), 'rules', 'Rules.',
            lists=_rules),
), at='qos/policies', visible=db.visible, create=create, update=update, delete=delete,
    missing=lambda ident: faults.QosPolicyNotFound(policy_id=ident),
    actions=(*(action for parts in KINDS for action in parts.actions()),
             r.Action('GET', f'{OTHER}_rules', _nothing, Plain(s.shape(**{f'{OTHER}_rules': s.EMPTY}))),
             r.Action('POST', f'{OTHER}_rules', _refused, None, {'type': 'object'}, 400)))
