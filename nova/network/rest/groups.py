"""Security groups and their rules."""
from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db import engine
from nova.db.engine import Connection
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import security_groups as db
from nova.db.tables import network as t
from nova.network import group_rules
from nova.network import security
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import quotas
from nova.network.rest import resource

if TYPE_CHECKING:
    from nova.db.tables.rows import SecurityGroupRulesRow, SecurityGroupsRow
    from nova.network.rest.request import Deps

RULE_COLUMNS = ('security_group_id', 'direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max',
                'remote_ip_prefix', 'remote_group_id')


# ---- groups ------------------------------------------------------------------------

def group_views(conn: Connection, context: RequestContext, rows: list[SecurityGroupsRow]) -> list[resource.View]:
    rules: dict[str, list[dict[str, Any]]] = {}
    idents = [row['id'] for row in rows]
    shared = db_networks.shared_among(conn, idents, context.project_id)
    for row in db_networks.many(conn, t.security_group_rules, idents, 'security_group_id'):
        rules.setdefault(row['security_group_id'], []).append(_rule_view(row))
    return [{**resource.times(row), 'name': row['name'], 'stateful': True, 'shared': row['id'] in shared,
             'security_group_rules': sorted(rules.get(row['id'], []), key=lambda view: view['id'])}
            for row in rows]


def create_group(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    if values['name'] == db.DEFAULT:
        raise faults.SecurityGroupDefaultAlreadyExists()
    db.ensure_default(conn, project)
    quotas.check(conn, deps.conf, 'security_group', project)
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.security_groups, [{'id': ident, 'project_id': project, 'name': values['name'],
                                                  'description': values['description'] or ''}])
    db.begin(conn, ident, project)
    return ident


def update_group(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupsRow,
                 values: dict[str, Any]) -> None:
    stored = {name: values[name] for name in ('name', 'description') if values.get(name) is not None}
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


GROUPS = resource.Resource(
    singular='security_group', plural='security_groups', table=t.security_groups,
    attributes={**a.DESCRIBED, 'stateful': a.Attribute(a.one_of(True, None), True)},
    listing=listing.Listing(t.security_groups, {
        'id': t.security_groups.c.id, 'name': t.security_groups.c.name,
        'project_id': t.security_groups.c.project_id, 'tenant_id': t.security_groups.c.project_id,
        'description': t.security_groups.c.description, 'created_at': t.security_groups.c.created_at,
    }, {'stateful': True}, {'shared': db.is_shared}),
    visible=db.visible, writable=resource.owner, views=group_views, create=create_group,
    update=update_group, delete=delete_group, prepare=prepare,
    missing=lambda ident: exception.SecurityGroupNotFound(security_group_id=ident))


# ---- rules -------------------------------------------------------------------------

def _rule_view(row: SecurityGroupRulesRow) -> resource.View:
    return {**resource.times(row), **resource.columns(row, RULE_COLUMNS),
            'normalized_cidr': group_rules.normalized(row['remote_ip_prefix']), 'remote_address_group_id': None,
            'belongs_to_default_sg': None}


def rule_views(conn: Connection, context: RequestContext, rows: list[SecurityGroupRulesRow]) -> list[resource.View]:
    default = db.defaults_among(conn, {row['security_group_id'] for row in rows})
    return [{**_rule_view(row), 'belongs_to_default_sg': row['security_group_id'] in default} for row in rows]


def create_rule(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    a.owner(context, values)
    group = _group(conn, context, values['security_group_id'])
    if values['remote_group_id'] and values['remote_group_id'] != group['id']:
        _group(conn, context, values['remote_group_id'])
    rule = security.stored_rule(conn, {name: values[name] for name in RULE_COLUMNS})
    for known in db_networks.many(conn, t.security_group_rules, [group['id']], 'security_group_id'):
        if group_rules.key(known) == group_rules.key(rule):
            raise faults.SecurityGroupRuleExists(rule_id=known['id'])
    quotas.check(conn, deps.conf, 'security_group_rule', group['project_id'])
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.security_group_rules, [{
        **rule, 'id': ident, 'project_id': group['project_id'], 'description': values['description'] or ''}])
    return ident


def _group(conn: Connection, context: RequestContext, ident: str) -> SecurityGroupsRow:
    """Lock and return a group that the caller may change."""
    row = db_networks.lock(conn, t.security_groups, ident)
    if row is None or not resource.owner(context, row):
        raise exception.SecurityGroupNotFound(security_group_id=ident)
    return row


def update_rule(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupRulesRow,
                values: dict[str, Any]) -> None:
    db_networks.update(conn, t.security_group_rules, row['id'],
                       {'description': values.get('description') or ''})


def delete_rule(conn: Connection, deps: Deps, context: RequestContext, row: SecurityGroupRulesRow) -> None:
    db_networks.delete(conn, t.security_group_rules, row['id'])


def with_protocol(column: engine.Column) -> Callable[[list[str]], engine.Condition]:
    """Return a condition on rules for any of these protocols, in all notations."""
    def condition(values: list[str]) -> engine.Condition:
        wanted = {alias for value in values
                  for alias in (group_rules.protocol_aliases(value) if value else group_rules.ANY)}
        return listing.among(column, wanted, nothing=wanted >= set(group_rules.ANY))
    return condition


_C = t.security_group_rules.c

RULES = resource.Resource(
    singular='security_group_rule', plural='security_group_rules', table=t.security_group_rules,
    attributes={
        'description': a.DESCRIBED['description'], 'tenant_id': a.DESCRIBED['tenant_id'],
        'project_id': a.DESCRIBED['project_id'],
        'security_group_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'direction': a.Attribute(a.one_of('ingress', 'egress'), a.REQUIRED, put=False),
        'ethertype': a.Attribute(a.maybe(a.text(8)), 'IPv4', put=False),
        'protocol': a.Attribute(a.maybe(a.protocol), put=False),
        'port_range_min': a.Attribute(a.maybe(a.integer(0, 65535)), put=False),
        'port_range_max': a.Attribute(a.maybe(a.integer(0, 65535)), put=False),
        'remote_ip_prefix': a.Attribute(a.maybe(a.text(43)), put=False),
        'remote_group_id': a.Attribute(a.maybe(a.ident), put=False),
        'remote_address_group_id': a.Attribute(a.one_of(None), put=False),
    },
    listing=listing.Listing(t.security_group_rules, {
        'id': _C.id, 'project_id': _C.project_id, 'tenant_id': _C.project_id, 'description': _C.description,
        'created_at': _C.created_at, **{name: _C[name] for name in RULE_COLUMNS},
    }, {'remote_address_group_id': None}, {'protocol': with_protocol(_C.protocol)}),
    visible=db_networks.own(t.security_group_rules), writable=resource.owner, views=rule_views,
    create=create_rule,
    update=update_rule, delete=delete_rule, prepare=prepare,
    missing=lambda ident: exception.SecurityGroupRuleNotFound(rule_id=ident))
