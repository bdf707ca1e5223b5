"""Default security group rules, managed by administrators. They are copied to new groups only."""
from __future__ import annotations

from typing import Any, NoReturn, TYPE_CHECKING
import uuid

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import group_templates as db
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network import group_rules
from nova.network import security
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import groups
from nova.network.rest import resource

if TYPE_CHECKING:
    from nova.db.tables.rows import DefaultSecurityGroupRulesRow
    from nova.network.rest.request import Deps

PARENT = 'PARENT'                  # the group itself as remote group
MAX_TEMPLATES = 100                # each new group gets all of them
_C = t.default_group_rules.c
_SAME = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix')


def views(conn: Connection, context: RequestContext, rows: list[DefaultSecurityGroupRulesRow]) -> list[resource.View]:
    return [{'id': row['id'], 'description': row['description'], **resource.columns(row, _SAME),
             'remote_group_id': PARENT if row['from_own_group'] else None, 'remote_address_group_id': None,
             'used_in_default_sg': row['used_in_default_sg'],
             'used_in_non_default_sg': row['used_in_non_default_sg']} for row in rows]


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    if not context.is_admin:
        raise exception.PolicyDenied(rule='create_default_security_group_rule')
    rule = security.stored_rule(conn, {name: values[name] for name in groups.RULE_COLUMNS if name in values})
    row = {**{name: rule[name] for name in _SAME}, 'id': str(uuid.uuid4()),
           'from_own_group': bool(values['remote_group_id']), 'used_in_default_sg': values['used_in_default_sg'],
           'used_in_non_default_sg': values['used_in_non_default_sg'], 'removed': False,
           'description': values['description'] or ''}
    known = db.every(conn)
    for each in known:
        if each['from_own_group'] == row['from_own_group'] and group_rules.key(each) == group_rules.key(row):
            raise faults.SecurityGroupRuleExists(rule_id=each['id'])
    if len(known) >= MAX_TEMPLATES:
        raise exception.BadRequest(f'There can be at most {MAX_TEMPLATES} default rules.')
    db_networks.insert(conn, t.default_group_rules, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: DefaultSecurityGroupRulesRow,
           values: dict[str, Any]) -> NoReturn:
    raise exception.BadRequest('A default rule cannot be changed: delete it and create another one.')


def delete(conn: Connection, deps: Deps, context: RequestContext, row: DefaultSecurityGroupRulesRow) -> None:
    db.remove(conn, row['id'])


def prepare(conn: Connection, context: RequestContext) -> None:
    db.ensure(conn)


TEMPLATES = resource.Resource(
    singular='default_security_group_rule', plural='default_security_group_rules', table=t.default_group_rules,
    attributes={
        **{name: row for name, row in groups.RULES.attributes.items()
           if name not in ('security_group_id', 'remote_group_id')},
        'remote_group_id': a.Attribute(a.one_of(None, PARENT), put=False),
        'used_in_default_sg': a.Attribute(a.boolean, False, put=False),
        'used_in_non_default_sg': a.Attribute(a.boolean, True, put=False),
    },
    listing=listing.Listing(t.default_group_rules, {
        'id': _C.id, 'description': _C.description, **{name: _C[name] for name in _SAME},
        'used_in_default_sg': _C.used_in_default_sg, 'used_in_non_default_sg': _C.used_in_non_default_sg,
    }, {'remote_address_group_id': None}, {'protocol': groups.with_protocol(_C.protocol)}),
    visible=lambda context: ~_C.removed, writable=lambda context, row: bool(context.is_admin), views=views,
    create=create, update=update, delete=delete, prepare=prepare, tagged=False,
    missing=lambda ident: faults.DefaultRuleNotFound(rule_id=ident))
