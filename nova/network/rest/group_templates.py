"""Default security group rules. New groups get copies of these rules, which administrators manage."""
from __future__ import annotations

from typing import NoReturn, TYPE_CHECKING
import uuid

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import group_templates as db
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network import group_rules
from nova.network.rest import faults
from nova.network.rest import groups
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.fields import Constant

if TYPE_CHECKING:
    from nova.db.tables.rows import DefaultSecurityGroupRulesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import DefaultSecurityGroupRuleValues

PARENT = 'PARENT'  # value of remote_group_id in a default rule: the new group that gets a copy of the rule
MAX_TEMPLATES = 100                # maximum number of default rules: each new group gets a copy of all
_SAME = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix')


def create(conn: Connection, deps: Deps, context: RequestContext, values: DefaultSecurityGroupRuleValues) -> str:
    rule = group_rules.check_rule({name: value for name, value in values.items() if name in groups.RULE_COLUMNS})
    row = {**{name: rule[name] for name in _SAME}, 'id': str(uuid.uuid4()),
           'from_own_group': bool(values['remote_group_id']), 'used_in_default_sg': values['used_in_default_sg'],
           'used_in_non_default_sg': values['used_in_non_default_sg'], 'removed': False,
           'description': values['description']}
    known = db.every(conn)
    for each in known:
        if each['from_own_group'] == row['from_own_group'] and group_rules.key(each) == group_rules.key(row):
            raise faults.SecurityGroupRuleExists(rule_id=each['id'])
    if len(known) >= MAX_TEMPLATES:
        raise exception.BadRequest(f'There can be at most {MAX_TEMPLATES} default rules.')
    db_networks.insert(conn, t.default_group_rules, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: DefaultSecurityGroupRulesRow,
           values: DefaultSecurityGroupRuleValues) -> NoReturn:
    raise exception.BadRequest('A default rule cannot be changed: delete it and create another one.')


def delete(conn: Connection, deps: Deps, context: RequestContext, row: DefaultSecurityGroupRulesRow) -> None:
    db.remove(conn, row['id'])


def prepare(conn: Connection, context: RequestContext) -> None:
    db.ensure(conn)


def _ignored(name: str) -> r.Field:
    return r.Field(name, s.TEXT_OR_NULL, None, 'Ignored: default rules belong to no project.', '', write='create',
                   accepts=s.nullable(s.NAME))


TEMPLATES = r.Resource('default_security_group_rule', 'default_security_group_rules', t.default_group_rules, (
    r.IDENT, r.DESCRIPTION, *groups.MATCH, groups.protocol_field(t.default_group_rules),
    r.Field('remote_group_id', s.one_of(None, PARENT), lambda row, context: PARENT if row['from_own_group'] else None,
            'PARENT: the group itself.', columns=('from_own_group',), write='create'),
    r.Field('remote_address_group_id', s.NULL, Constant(None), 'Always null.', write='create', accepts=s.one_of(None)),
    r.column('used_in_default_sg', s.FLAG, 'Whether new default groups get the rule.', write='create',
             accepts=s.BOOLEAN, default=False),
    r.column('used_in_non_default_sg', s.FLAG, 'Whether other new groups get the rule.', write='create',
             accepts=s.BOOLEAN, default=True),
    _ignored('project_id'), _ignored('tenant_id'),
), visible=lambda context: ~t.default_group_rules.c.removed, create=create, update=update, delete=delete,
    prepare=prepare, unchangeable=True, missing=lambda ident: faults.DefaultRuleNotFound(rule_id=ident))
