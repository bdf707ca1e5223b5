"""What new security groups begin with: rules that are there from the start, and an administrator's."""
from __future__ import annotations

from typing import Any
import uuid

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables import network as t

# columns of a rule that are those of its template
COPIED = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix', 'description')
_NOTHING: dict[str, Any] = {'protocol': None, 'port_range_min': None, 'port_range_max': None, 'remote_ip_prefix': None,
                            'description': '', 'removed': False}
# everything may leave, and in default groups their members come in
BUILT_IN: tuple[dict[str, Any], ...] = tuple(
    {**_NOTHING, 'id': str(uuid.uuid5(uuid.NAMESPACE_OID, f'nova default rule {direction} {ethertype}')),
     'direction': direction, 'ethertype': ethertype, 'of_group': direction == 'ingress', 'in_default': True,
     'in_others': direction == 'egress'} for direction in ('egress', 'ingress') for ethertype in ('IPv4', 'IPv6'))


def every(conn: sa.Connection) -> list[dict[str, Any]]:
    """The templates that there are."""
    rows = [dict(row) for row in conn.execute(sa.select(t.default_group_rules)).mappings()]
    known = {row['id'] for row in rows}
    return [row for row in [*(each for each in BUILT_IN if each['id'] not in known), *rows] if not row['removed']]


def ensure(conn: sa.Connection) -> None:
    """Let the table have the rules that are there from the start."""
    c, idents = t.default_group_rules.c, [row['id'] for row in BUILT_IN]
    known = set(conn.execute(sa.select(c.id).where(c.id.in_(idents))).scalars())
    now = utils.utcnow()
    for row in BUILT_IN:
        if row['id'] not in known:
            engine.insert_ignore(conn, t.default_group_rules, {
                **row, 'created_at': now, 'updated_at': now, 'revision': 1})


def remove(conn: sa.Connection, ident: str) -> None:
    """Remove a template; one that was there from the start stays as a row that says so."""
    c = t.default_group_rules.c
    if ident in {row['id'] for row in BUILT_IN}:
        conn.execute(sa.update(t.default_group_rules).where(c.id == ident).values(
            removed=True, updated_at=utils.utcnow(), revision=c.revision + 1))
    else:
        conn.execute(sa.delete(t.default_group_rules).where(c.id == ident))


def rules(conn: sa.Connection, group_id: str, project_id: str, default: bool) -> list[dict[str, Any]]:
    """Rows of the rules that a new group begins with.

    :param default: it is its project's default group
    """
    return [{'id': str(uuid.uuid4()), 'project_id': project_id, 'security_group_id': group_id,
             'remote_group_id': group_id if row['of_group'] else None, **{name: row[name] for name in COPIED}}
            for row in every(conn) if row['in_default' if default else 'in_others']]
