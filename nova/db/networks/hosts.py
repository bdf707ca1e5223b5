"""The hosts of networks between hosts: where their frames are sent to, and when they were last heard of."""
from __future__ import annotations

import datetime
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.networks import revisions
from nova.db.tables import network as t

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkHostsRow


def seen(conn: sa.Connection, host: str, address: str, gateway: bool) -> bool:
    """A host is there; True when others must hear of it: it is new, or its address is another one."""
    c, now = t.hosts.c, utils.utcnow()
    known = conn.execute(sa.select(c.address).where(c.host == host)).scalar()
    if known is None:
        row = {'host': host, 'address': address, 'gateway': gateway, 'seen_at': now}
        fresh = bool(engine.insert_ignore(conn, t.hosts, row).rowcount)
        # others send it nothing unless it has ports: a fleet that begins does not have each host look for each other
        if fresh and conn.execute(sa.select(t.ports.c.id).where(t.ports.c.host == host).limit(1)).first():
            revisions.changed(conn)
        return fresh
    conn.execute(sa.update(t.hosts).where(c.host == host).values(address=address, gateway=gateway, seen_at=now))
    if known != address:
        revisions.changed(conn)
    return known != address


def every(conn: sa.Connection) -> list[NetworkHostsRow]:
    """Rows of all hosts, by name."""
    return statements.rows(conn, t.hosts, ('host',))


def alive(row: Any, down_time: int) -> bool:
    """Whether a host was heard of within ``down_time`` s."""
    return bool(utils.utcnow() - row['seen_at'] < datetime.timedelta(seconds=down_time))


def forget(conn: sa.Connection, host: str) -> None:
    """Remove a host."""
    conn.execute(sa.delete(t.hosts).where(t.hosts.c.host == host))
    revisions.changed(conn)
