"""Hosts of overlay networks, with their tunnel addresses and last reports."""
from collections.abc import Mapping
import datetime
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.rows import NetworkHostsRow
from nova.db.types import ColumnValues
from nova.runtime import release


MAX_REPORT_AGE_S = 86400                  # age of the last report after which has_others ignores a host


def seen(conn: sa.Connection, host: str, address: str, gateway: bool, version: int = release.VERSION,
         guarantees: Mapping[str, Mapping[str, int]] | None = None) -> None:
    """Record a report of a host. A new address or release changes the revision of the network state.

    :param guarantees: {resource class: {physical network: amount}}, see guarantees.py
    """
    c, now = t.hosts.c, utils.utcnow()
    known = conn.execute(sa.select(c.address, c.version).where(c.host == host)).first()
    if known is None:
        fresh = bool(engine.insert_ignore(conn, t.hosts, {
            'host': host, 'address': address, 'gateway': gateway, 'last_seen_at': now, 'version': version,
            'guarantees': guarantees}).rowcount)
        # Peers need to know a new host only if it has ports, so the start of many hosts does not refresh all peers.
        if fresh and conn.execute(sa.select(t.ports.c.id).where(t.ports.c.host == host).limit(1)).first():
            revisions.changed(conn)
        return
    conn.execute(sa.update(t.hosts).where(c.host == host).values(
        address=address, gateway=gateway, last_seen_at=now, version=version, guarantees=guarantees))
    if tuple(known) != (address, version):
        revisions.changed(conn)


def every(conn: sa.Connection) -> list[NetworkHostsRow]:
    """Return the rows of all hosts by name."""
    return statements.rows(conn, t.hosts, ('host',))


def change(conn: sa.Connection, host: str, values: ColumnValues) -> None:
    """Update those columns of a host's row that administrators set."""
    conn.execute(sa.update(t.hosts).where(t.hosts.c.host == host).values(**values))


def alive(last_seen_at: datetime.datetime, down_time: int) -> bool:
    """Tell whether the last report of a host is less than ``down_time`` seconds old."""
    return utils.utcnow() - last_seen_at < datetime.timedelta(seconds=down_time)


def has_others(conn: sa.Connection, host: str) -> bool:
    """Tell whether another host has reported within the last MAX_REPORT_AGE_S seconds."""
    c = t.hosts.c
    return bool(conn.execute(sa.select(sa.exists().where(
        c.host != host, c.last_seen_at > utils.utcnow() - datetime.timedelta(seconds=MAX_REPORT_AGE_S)))).scalar())


def with_routers(down_time: int) -> sa.Select[Any]:
    """Return a subquery of the names of gateway hosts that have reported within ``down_time`` seconds."""
    c = t.hosts.c
    return sa.select(c.host).where(
        c.gateway, c.last_seen_at > utils.utcnow() - datetime.timedelta(seconds=down_time))


def distrust(conn: sa.Connection, host: str) -> None:
    """Exclude a host with a revoked key from the gateway hosts, so that its routers move to other hosts."""
    if conn.execute(sa.update(t.hosts).where(t.hosts.c.host == host).values(gateway=False)).rowcount:
        revisions.changed(conn)
