"""Templates for the rules of new security groups: built-in templates and templates of administrators."""
from typing import Any
import uuid

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables import network as t

# rule columns that are copied from the template
COPIED = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix', 'description')
_NOTHING: dict[str, Any] = {'protocol': None, 'port_range_min': None, 'port_range_max': None, 'remote_ip_prefix': None,
                            'description': '', 'removed': False}
# built-in templates: all groups allow all egress; default groups also allow ingress from their members
BUILT_IN: tuple[dict[str, Any], ...] = tuple(
    {**_NOTHING, 'id': str(uuid.uuid5(uuid.NAMESPACE_OID, f'nova default rule {direction} {ethertype}')),
     'direction': direction, 'ethertype': ethertype, 'from_own_group': direction == 'ingress',
     'used_in_default_sg': True, 'used_in_non_default_sg': direction == 'egress'}
    for direction in ('egress', 'ingress') for ethertype in ('IPv4', 'IPv6'))


def every(conn: sa.Connection) -> list[dict[str, Any]]:
    """Return all templates, including built-in templates without a row and excluding removed ones."""
    rows = [dict(row) for row in conn.execute(sa.select(t.default_group_rules)).mappings()]
    known = {row['id'] for row in rows}
    return [row for row in [*(each for each in BUILT_IN if each['id'] not in known), *rows] if not row['removed']]


def ensure(conn: sa.Connection) -> None:
    """Insert the built-in templates if they are missing."""
    c, idents = t.default_group_rules.c, [row['id'] for row in BUILT_IN]
    known = set(conn.execute(sa.select(c.id).where(c.id.in_(idents))).scalars())
    now = utils.utcnow()
    for row in BUILT_IN:
        if row['id'] not in known:
            engine.insert_ignore(conn, t.default_group_rules, {
                **row, 'created_at': now, 'updated_at': now, 'revision': 1})


def remove(conn: sa.Connection, ident: str) -> None:
    """Remove a template; the row of a built-in template is marked as removed."""
    c = t.default_group_rules.c
    if ident in {row['id'] for row in BUILT_IN}:
        conn.execute(sa.update(t.default_group_rules).where(c.id == ident).values(
            removed=True, updated_at=utils.utcnow(), revision=c.revision + 1))
    else:
        conn.execute(sa.delete(t.default_group_rules).where(c.id == ident))


def rules(conn: sa.Connection, group_id: str, project_id: str, default: bool) -> list[dict[str, Any]]:
    """Return the rows of the initial rules of a new group.

    :param default: whether the group is its project's default group
    """
    return [{'id': str(uuid.uuid4()), 'project_id': project_id, 'security_group_id': group_id,
             'remote_group_id': group_id if row['from_own_group'] else None, **{name: row[name] for name in COPIED}}
            for row in every(conn) if row['used_in_default_sg' if default else 'used_in_non_default_sg']]
