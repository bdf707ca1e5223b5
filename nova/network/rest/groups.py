"""Security groups and their rules."""
from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db import engine
from nova.db.engine import Connection
from nova.db.networks import networks as db_networks
from nova.db.networks.listing import among
from nova.db.networks import security_groups as db
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network import group_rules
from nova.network.rest import address_groups
from nova.network.rest import faults
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s

if TYPE_CHECKING:
    from nova.db.tables.rows import SecurityGroupRulesRow, SecurityGroupsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import SecurityGroupRuleValues
    from nova.network.rest.values import SecurityGroupValues

RULE_COLUMNS = ('security_group_id', 'direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max',
                'remote_ip_prefix', 'remote_group_id', 'remote_address_group_id')


# ---- groups ------------------------------------------------------------------------

def _rules(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    rules: dict[str, list[JsonObject]] = {}
    shown = RULES.view('show').compiled(0)
    for rule in sorted(db_networks.many(conn, t.security_group_rules, idents, 'security_group_id'),
                       key=lambda rule: rule['id']):
        rules.setdefault(rule['security_group_id'], []).append(shown({**rule, 'tags': [], 'in_default': None}, None))
    return rules


def create_group(conn: Connection, deps: Deps, context: RequestContext, values: SecurityGroupValues) -> str:
    project = r.new_owner(context, values)
    if values['name'] == db.DEFAULT:
        raise faults.SecurityGroupDefaultAlreadyExists()
    db.ensure_default(conn, project)
    quotas.check(conn, deps.conf, 'security_group', project)
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.security_groups, [{
        'id': ident, 'project_id': project, 'name': values['name'], 'description': values['description'],
        'stateful': values['stateful'] is not False}])
    db.begin(conn, ident, project)
    return ident


def update_group(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupsRow,
                 values: SecurityGroupValues) -> None:
    stored = GROUPS.stored(values)
    if stored.get('stateful', row['stateful']) != row['stateful']:
        db_networks.lock(conn, t.security_groups, row['id'])
        if db.in_use(conn, row['id']):
            raise exception.SecurityGroupInUse(security_group_id=row['id'])
    if 'name' in stored and stored['name'] != row['name'] and db.DEFAULT in (stored['name'], row['name']):
        raise (faults.SecurityGroupCannotUpdateDefault() if row['name'] == db.DEFAULT
               else faults.SecurityGroupDefaultAlreadyExists())
    db_networks.update(conn, t.security_groups, row['id'], stored)


def delete_group(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupsRow) -> None:
    db_networks.lock(conn, t.security_groups, row['id'])
    if db.in_use(conn, row['id']):
        raise exception.SecurityGroupInUse(security_group_id=row['id'])
    if not context.is_admin and db.is_default(conn, row['id']):
        raise faults.SecurityGroupCannotRemoveDefault()
    db.remove(conn, row['id'])


def prepare(conn: Connection, context: RequestContext) -> None:
    """Create the project's default group if it is missing."""
    if context.project_id:
        db.ensure_default(conn, context.project_id)


# ---- rules -------------------------------------------------------------------------

def _load_default(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    default = db.defaults_among(conn, {row['security_group_id'] for row in rows})
    for row in rows:
        row['in_default'] = row['security_group_id'] in default


def create_rule(conn: Connection, deps: Deps, context: RequestContext, values: SecurityGroupRuleValues) -> str:
    r.new_owner(context, values)
    group, rule = _checked(conn, context, values)
    quotas.check(conn, deps.conf, 'security_group_rule', group['project_id'])
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.security_group_rules, [{
        **rule, 'id': ident, 'project_id': group['project_id'], 'description': values['description']}])
    return ident


def _checked(conn: Connection, context: RequestContext, values: Mapping[str, Any],
             ident: str | None = None) -> tuple[SecurityGroupsRow, dict[str, Any]]:
    """Check the values of a rule and lock its group; return (group, columns of the rule).

    :param ident: id of the rule, if it exists
    """
    group = _group(conn, context, values['security_group_id'])
    if values['remote_group_id'] and values['remote_group_id'] != group['id']:
        _group(conn, context, values['remote_group_id'])
    peers = values['remote_address_group_id'] or None
    rule = group_rules.check_rule({**{name: values[name] for name in RULE_COLUMNS}, 'remote_address_group_id': (
        peers and address_groups.chosen(conn, context, peers))})
    for known in db_networks.many(conn, t.security_group_rules, [group['id']], 'security_group_id'):
        if known['id'] != ident and group_rules.key(known) == group_rules.key(rule):
            raise faults.SecurityGroupRuleExists(rule_id=known['id'])
    return group, rule


def _group(conn: Connection, context: RequestContext, ident: str) -> SecurityGroupsRow:
    """Lock and return a group that the caller may change."""
    row = db_networks.lock(conn, t.security_groups, ident)
    if row is None or not r.is_owner(context, row):
        raise exception.SecurityGroupNotFound(security_group_id=ident)
    return row


def update_rule(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupRulesRow,
                values: SecurityGroupRuleValues) -> None:
    """Change a rule. The EC2 API also changes ports and remote addresses, which Neutron does not allow."""
    stored = {'description': values['description']} if 'description' in values else {}
    if values.keys() & set(RULE_COLUMNS):
        stored |= _checked(conn, context, {**row, **values}, row['id'])[1]
    db_networks.update(conn, t.security_group_rules, row['id'], stored)


def delete_rule(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupRulesRow) -> None:
    db_networks.delete(conn, t.security_group_rules, row['id'])


def with_protocol(column: engine.Column) -> Callable[[list[str]], engine.Condition]:
    """Return a function that converts the protocols of a list request (names or numbers) to a condition on rules."""
    def condition(values: list[str]) -> engine.Condition:
        wanted = {alias for value in values
                  for alias in (group_rules.protocol_aliases(value) if value else group_rules.ANY)}
        return among(column, wanted, nothing=wanted >= set(group_rules.ANY))
    return condition


_PORT = s.nullable(s.integer(0, 65535))
# fields of rules and of default rules
MATCH = (
    r.column('direction', s.one_of('ingress', 'egress'), 'Direction.', write='create', required=True),
    r.column('ethertype', s.TEXT, 'IPv4 or IPv6.', write='create', accepts=s.nullable(s.text(8)), default='IPv4',
             chosen=True),
    r.column('port_range_min', s.NUMBER_OR_NULL, 'First port, or type of ICMP.', write='create', accepts=_PORT),
    r.column('port_range_max', s.NUMBER_OR_NULL, 'Last port, or code of ICMP.', write='create', accepts=_PORT),
    r.column('remote_ip_prefix', s.TEXT_OR_NULL, 'Range of the peers.', write='create', accepts=s.nullable(s.text(43))),
)


def protocol_field(table: engine.Table[Any]) -> r.Field:
    return r.column('protocol', s.TEXT_OR_NULL, 'Name or number of the protocol.', write='create',
                    accepts=s.nullable(s.PROTOCOL), where=with_protocol(table.c.protocol))


RULES = r.Resource('security_group_rule', 'security_group_rules', t.security_group_rules, (
    *r.COMMON, MATCH[0], *(dataclasses.replace(field, write=r.BOTH) for field in (
        *MATCH[1:], protocol_field(t.security_group_rules))),
    r.column('security_group_id', s.UUID, 'Security group.', write='create', accepts=s.IDENT, required=True),
    r.column('remote_group_id', s.UUID_OR_NULL, 'Security group of the remote ports.', write=r.BOTH,
             accepts=s.nullable(s.IDENT)),
    r.column('remote_address_group_id', s.UUID_OR_NULL, 'Address group of the remote addresses.', write=r.BOTH,
             accepts=s.nullable(s.IDENT)),
    r.Field('normalized_cidr', s.TEXT_OR_NULL, lambda row, context: group_rules.normalized(row['remote_ip_prefix']),
            'Range of the remote addresses, without host bits.', columns=('remote_ip_prefix',)),
    r.Field('belongs_to_default_sg', {'type': ['boolean', 'null']}, 'in_default',
            'Whether the group is the default one; null for rules inside a group.', load=_load_default,
            columns=('security_group_id',)),
), visible=db_networks.own(t.security_group_rules), create=create_rule, update=update_rule, delete=delete_rule,
    prepare=prepare, missing=lambda ident: exception.SecurityGroupRuleNotFound(rule_id=ident))

GROUPS = r.Resource('security_group', 'security_groups', t.security_groups, (
    *r.NAMED,
    r.column('stateful', s.FLAG, 'Whether replies pass without a rule; fixed while a port is in the group.',
             write=r.BOTH, accepts=s.nullable(s.BOOLEAN), default=True, chosen=True),
    r.Field('shared', s.FLAG, 'is_shared', "Whether the group is shared with the caller's project.",
            load=r.load_shared),
    r.Field('security_group_rules', [RULES.view('show')], 'rules', 'Rules.', lists=_rules),
), visible=db.visible, create=create_group, update=update_group, delete=delete_group, prepare=prepare,
    missing=lambda ident: exception.SecurityGroupNotFound(security_group_id=ident))
