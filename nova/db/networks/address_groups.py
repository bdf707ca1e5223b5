"""Address groups: named lists of ranges that rules of security groups refer to."""
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nova.db.networks import networks
from nova.db.tables import network as t

# condition on groups that the caller may see and use: own and shared groups
visible = networks.own_or_shared(t.address_groups)


def in_use(conn: sa.Connection, ident: str) -> bool:
    """Tell whether a rule refers to a group."""
    c = t.security_group_rules.c
    return conn.execute(sa.select(c.id).where(c.remote_address_group_id == ident).limit(1)).first() is not None


def users(conn: sa.Connection, ident: str) -> set[str]:
    """Return the projects with rules that refer to a group."""
    c = t.security_group_rules.c
    return set(conn.execute(sa.select(c.project_id).where(c.remote_address_group_id == ident).distinct()).scalars())


def expanded(conn: sa.Connection, rules: Iterable[Any]) -> list[Any]:
    """Return the rules, each rule with an address group replaced by one rule for each range of the group."""
    rules = list(rules)
    idents = {rule['remote_address_group_id'] for rule in rules} - {None}
    groups = {row['id']: row['addresses'] for row in networks.many(conn, t.address_groups, idents)} if idents else {}
    found: list[Any] = []
    for rule in rules:
        if rule['remote_address_group_id'] is None:
            found.append(rule)
            continue
        found += [{**rule, 'remote_ip_prefix': each} for each in groups.get(rule['remote_address_group_id'], ())
                  if (':' in each) == (rule['ethertype'] == 'IPv6')]
    return found
