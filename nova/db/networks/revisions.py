"""The revision of what the hosts' plumbing is made from: another number after each change.

A transaction that writes to one of these tables counts one up as its last statement, in one of a few rows, so that
transactions seldom wait for each other and only for a commit. Who reads the sum and then the tables has all that the
sum stands for; rows of an increasing key would not say so, because transactions end in another order than they begin.
"""
from __future__ import annotations

import functools
import random
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables import network as t
from nova.runtime import commits

SHARDS = 16
# What host_load reads, but hosts, who report all the time: hosts.py says when that is a change.
PLUMBED = frozenset({t.networks, t.segments, t.vlans, t.subnets, t.ports, t.addresses, t.port_security_groups,
                     t.security_group_rules, t.qos_rules, t.routers, t.floating_ips, t.port_forwardings})


def execute(conn: sa.Connection, statement: Any, rows: Any = None) -> sa.CursorResult[Any]:
    """Execute an INSERT, UPDATE or DELETE; of a table in PLUMBED it is a change."""
    result = conn.execute(statement, rows) if rows is not None else conn.execute(statement)
    if statement.table in PLUMBED and result.rowcount:          # -1: not known
        changed(conn)
    return result


def changed(conn: sa.Connection) -> None:
    """The transaction changes what plumbing is made from: the revision is another one once it is committed."""
    commits.before(conn, _count)


def current(conn: sa.Connection) -> int:
    """The revision, 0 before the first change; what is read on the connection afterwards is at least as new."""
    return int(conn.execute(_CURRENT).scalar_one())


def after(conn: sa.Connection) -> int:
    """The revision once this write transaction is committed, or a lower one where others commit before."""
    return current(conn) + (_count in conn.info[commits.BEFORE])


_CURRENT = sa.select(sa.func.coalesce(sa.func.sum(t.revisions.c.number), 0))


@functools.cache
def _statement(dialect: str) -> Any:
    insert = engine.insert_of(dialect)(t.revisions).values(shard=sa.bindparam('of_shard'), number=1)
    more = {'number': t.revisions.c.number + 1}
    return insert.on_duplicate_key_update(**more) if dialect == 'mysql' else insert.on_conflict_do_update(
        index_elements=['shard'], set_=more)


def _count(conn: sa.Connection) -> None:
    conn.execute(_statement(conn.dialect.name), {'of_shard': random.randrange(SHARDS)})
