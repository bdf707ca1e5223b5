"""Revision (change counters) of the tables from which hosts configure bridges, routers and filters.

A transaction that changes one of these tables increments a counter in its last statement. A counter is the sum of a few
rows, so that transactions rarely wait for each other, and then only until a commit. A reader reads the sums before the
tables, and therefore sees all changes that the sums include. An auto-increment id would not guarantee this, because
transactions may commit in another order than they begin. Security group rules have a separate counter, because they
change most often and are a small part of a host's data.
"""
from collections.abc import Collection, Mapping, Sequence
import functools
import random
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables import network as t
from nova.runtime import commits

SHARDS = 16
REST, FILTERS = KINDS = ('rest', 'filters')          # names of the counters in a revision, in this order
# tables that network/host/load.py reads, except ``hosts``: hosts.py counts reports only if address or release differ
PLUMBED = frozenset({t.networks, t.segments, t.vlans, t.subnets, t.ports, t.addresses, t.port_security_groups,
                     t.security_group_rules, t.qos_rules, t.routers, t.floating_ips, t.port_forwardings,
                     t.dns_domains, t.dns_entries, t.qos_markings, t.qos_minimums, t.subnet_pools,
                     t.trunks, t.trunk_subports, t.address_groups, t.conntrack_helpers})
_RULES = frozenset({t.security_group_rules, t.address_groups})


def execute(conn: sa.Connection, statement: sa.Insert | sa.Update | sa.Delete,
            rows: Sequence[Mapping[str, Any]] | None = None) -> sa.CursorResult[Any]:
    """Execute an INSERT, UPDATE or DELETE and count a change if the table is in PLUMBED."""
    result = conn.execute(statement, rows) if rows is not None else conn.execute(statement)
    if statement.table in PLUMBED and result.rowcount:          # -1: unknown
        changed(conn, FILTERS if statement.table in _RULES else REST)
    return result


def changed(conn: sa.Connection, kind: str = REST) -> None:
    """Increment the revision when this transaction commits."""
    commits.before(conn, _count, kind)


def current(conn: sa.Connection) -> list[int]:
    """Return the revision [rest, filters]; later reads on the connection are at least as new."""
    found = {kind: int(number) for kind, number in conn.execute(_CURRENT)}
    return [found.get(kind, 0) for kind in KINDS]


def after(conn: sa.Connection) -> list[int]:
    """Return the revision after the commit of this transaction, or a lower one if other transactions commit before."""
    counted = _counted(conn.info[commits.BEFORE].get(_count, ()))
    return [number + (kind == counted) for kind, number in zip(KINDS, current(conn))]


_CURRENT = sa.select(t.revisions.c.kind, sa.func.sum(t.revisions.c.number)).group_by(t.revisions.c.kind)


def _counted(kinds: Collection[str]) -> str | None:
    """Return the counter to increment. If both would change, REST suffices, because readers then read everything;
    incrementing both could cause deadlocks.
    """
    return REST if REST in kinds else FILTERS if kinds else None


@functools.cache
def _statement(dialect: str) -> sa.Insert:
    insert = engine.insert_of(dialect)(t.revisions).values(
        kind=sa.bindparam('of_kind'), shard=sa.bindparam('of_shard'), number=1)
    more = {'number': t.revisions.c.number + 1}
    return insert.on_duplicate_key_update(**more) if dialect == 'mysql' else insert.on_conflict_do_update(
        index_elements=['kind', 'shard'], set_=more)


def _count(conn: sa.Connection, kinds: set[str]) -> None:
    conn.execute(_statement(conn.dialect.name), {'of_kind': _counted(kinds), 'of_shard': random.randrange(SHARDS)})
