"""Hosts of overlay networks, with their tunnel addresses and last reports."""
from __future__ import annotations

import datetime
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.api import host_mappings
from nova.runtime import release

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkHostsRow


QUIET_S = 86400                  # age of the last report after which a host without ports is ignored


def seen(conn: sa.Connection, host: str, address: str, gateway: bool, version: int = release.VERSION) -> bool:
    """Record a report of a host; return whether it is new or has another address or release."""
    c, now = t.hosts.c, utils.utcnow()
    known = conn.execute(sa.select(c.address, c.version).where(c.host == host)).first()
    if known is None:
        fresh = bool(engine.insert_ignore(conn, t.hosts, {
            'host': host, 'address': address, 'gateway': gateway, 'last_seen_at': now, 'version': version}).rowcount)
        # Peers need to know a host only if it has ports. So the start of many hosts does not refresh all peers for each
        # of them. A host of an older release changes the plumbing of all hosts.
        if fresh and (version < release.VERSION or conn.execute(
                sa.select(t.ports.c.id).where(t.ports.c.host == host).limit(1)).first()):
            revisions.changed(conn)
        return fresh
    conn.execute(sa.update(t.hosts).where(c.host == host).values(
        address=address, gateway=gateway, last_seen_at=now, version=version))
    changed = tuple(known) != (address, version)
    if changed:
        revisions.changed(conn)
    return changed


def older(conn: sa.Connection, version: int) -> list[str]:
    """Return the names of hosts of an older release that have ports or a report within QUIET_S."""
    c = t.hosts.c
    since = utils.utcnow() - datetime.timedelta(seconds=QUIET_S)
    return list(conn.execute(sa.select(c.host).where(c.version < version, sa.or_(
        c.last_seen_at > since, sa.exists().where(t.ports.c.host == c.host))).order_by(c.host)).scalars())


def every(conn: sa.Connection) -> list[NetworkHostsRow]:
    """Return the rows of all hosts by name."""
    return statements.rows(conn, t.hosts, ('host',))


def alive(last_seen_at: datetime.datetime, down_time: int) -> bool:
    """Tell whether a host, given the time of its last report, has reported within ``down_time`` seconds."""
    return utils.utcnow() - last_seen_at < datetime.timedelta(seconds=down_time)


def has_others(conn: sa.Connection, host: str) -> bool:
    """Tell whether other hosts have reported within QUIET_S."""
    c = t.hosts.c
    return bool(conn.execute(sa.select(sa.exists().where(
        c.host != host, c.last_seen_at > utils.utcnow() - datetime.timedelta(seconds=QUIET_S)))).scalar())


def with_routers(down_time: int) -> sa.Select[Any]:
    """Return a subquery of the names of gateway hosts that have reported within ``down_time`` seconds."""
    c = t.hosts.c
    return sa.select(c.host).where(
        c.gateway, c.last_seen_at > utils.utcnow() - datetime.timedelta(seconds=down_time))


def known(conn: sa.Connection, host: str) -> bool:
    """Tell whether a host has, or may get, servers, ports or routers."""
    return bool(conn.execute(sa.select(sa.or_(
        sa.exists().where(host_mappings.c.host == host), sa.exists().where(t.ports.c.host == host),
        sa.exists().where(t.routers.c.host == host)))).scalar())


def distrust(conn: sa.Connection, host: str) -> None:
    """Reset the reported values of a host whose key was revoked, until the host reports again."""
    changed = conn.execute(sa.update(t.hosts).where(t.hosts.c.host == host).values(
        version=release.VERSION, gateway=False)).rowcount
    if changed:
        revisions.changed(conn)
