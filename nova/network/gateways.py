"""Which host has which router, and where the hosts of networks between hosts are.

Each host says every REPORT_S that it is there. A router is put on the host that has the fewest, of those that may have
routers and were heard of; when its host is not heard of for DOWN_S, another one takes it.
"""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from oslo_config.cfg import ConfigOpts
from sqlalchemy import Connection

from nova.db.networks import hosts
from nova.db.networks import routers

if TYPE_CHECKING:
    from nova.db.engine import Database

REPORT_S = 2
DOWN_S = 7


def choose(conn: Connection) -> str:
    """The host for one more router, '' where none is there."""
    taken = routers.on_hosts(conn)
    alive = [row['host'] for row in hosts.every(conn) if row['gateway'] and hosts.alive(row, DOWN_S)]
    return min(alive, key=lambda host: (taken.get(host, 0), host), default='')


class Gateways:
    """What one host reports, and what it learns by it.

    :param address: of this host between hosts
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, address: str) -> None:
        self._conf, self._api_db, self._host, self._address = conf, api_db, host, address
        self._seen: Any = None
        self.others = False             # whether there are other hosts

    def report(self) -> bool:
        """Say that this host is there and find routers without one a host; True when the plumbing has to follow."""
        seen = self._api_db.run(report, self._host, self._address, self._conf.network.routers)
        changed, self._seen = seen != self._seen, seen
        self.others = len(seen[0]) > 1
        return changed


def report(conn: Connection, host: str, address: str, gateway: bool) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """A host is there; routers without a host that was heard of get one.

    -> ([(host, address between hosts)] of all hosts, {router id: host})
    """
    hosts.seen(conn, host, address, gateway)
    rows = hosts.every(conn)
    dead = {row['host'] for row in rows if not hosts.alive(row, DOWN_S)}
    for ident, was in routers.places(conn).items():
        if not was or was in dead or was not in {row['host'] for row in rows}:
            fresh = choose(conn)
            if fresh and fresh != was:
                routers.place(conn, ident, fresh, was)
    return [(row['host'], row['address']) for row in rows], routers.places(conn)
