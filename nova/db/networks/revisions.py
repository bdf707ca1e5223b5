"""The revision of what the hosts' plumbing is made from: another one after each change.

A transaction that writes to one of these tables counts one up as its last statement, in one of a few rows, so that
transactions seldom wait for each other and only for a commit. Who reads the sums and then the tables has all that the
sums stand for; rows of an increasing key would not say so, because transactions end in another order than they begin.

There are two numbers: rules of security groups change more often than all else that has to be everywhere at once,
and are little of what a host needs.
"""
from __future__ import annotations

from collections.abc import Collection
import functools
import random
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables import network as t
from nova.runtime import commits

SHARDS = 16
REST, FILTERS = KINDS = ('rest', 'filters')          # in the order of a revision
# What host_load reads, but hosts, who report all the time: hosts.py says when that is a change.
PLUMBED = frozenset({t.networks, t.segments, t.vlans, t.subnets, t.ports, t.addresses, t.port_security_groups,
                     t.security_group_rules, t.qos_rules, t.routers, t.floating_ips, t.port_forwardings,
                     t.dns_domains, t.dns_entries, t.qos_markings})


def execute(conn: sa.Connection, statement: Any, rows: Any = None) -> sa.CursorResult[Any]:
    """Execute an INSERT, UPDATE or DELETE; of a table in PLUMBED it is a change."""
    result = conn.execute(statement, rows) if rows is not None else conn.execute(statement)
    if statement.table in PLUMBED and result.rowcount:          # -1: not known
        changed(conn, FILTERS if statement.table is t.security_group_rules else REST)
    return result


def changed(conn: sa.Connection, kind: str = REST) -> None:
    """The transaction changes what plumbing is made from: the revision is another one once it is committed."""
    commits.before(conn, _count, kind)


def current(conn: sa.Connection) -> list[int]:
    """The revision, [rest, filters]; what is read on the connection afterwards is at least as new."""
    found = {kind: int(number) for kind, number in conn.execute(_CURRENT)}
    return [found.get(kind, 0) for kind in KINDS]


def after(conn: sa.Connection) -> list[int]:
    """The revision once this write transaction is committed, or a lower one where others commit before."""
    counted = _counted(conn.info[commits.BEFORE].get(_count, ()))
    return [number + (kind == counted) for kind, number in zip(KINDS, current(conn))]


_CURRENT = sa.select(t.revisions.c.kind, sa.func.sum(t.revisions.c.number)).group_by(t.revisions.c.kind)


def _counted(kinds: Collection[str]) -> str | None:
    """The one kind that counts: who reads the rest reads all. Two rows of a transaction could end in deadlocks."""
    return REST if REST in kinds else FILTERS if kinds else None


@functools.cache
def _statement(dialect: str) -> Any:
    insert = engine.insert_of(dialect)(t.revisions).values(
        kind=sa.bindparam('of_kind'), shard=sa.bindparam('of_shard'), number=1)
    more = {'number': t.revisions.c.number + 1}
    return insert.on_duplicate_key_update(**more) if dialect == 'mysql' else insert.on_conflict_do_update(
        index_elements=['kind', 'shard'], set_=more)


def _count(conn: sa.Connection, kinds: set[str]) -> None:
    conn.execute(_statement(conn.dialect.name), {'of_kind': _counted(kinds), 'of_shard': random.randrange(SHARDS)})
