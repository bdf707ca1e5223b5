"""Gateway hosts: placement of routers on hosts, and tunnel addresses of hosts.

Each host sends a heartbeat every REPORT_S and gets the revision of the network state, so that it notices missed
notifications. A router is placed on the live gateway host with the fewest routers. If its host sends no heartbeat for
DOWN_S, the router moves to another host.

A host whose driver forwards no packets (``[network] driver = fake``) hosts routers only if it is the only host
(a cloud with simulated guests).
"""
from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import utils
from nova.db.engine import Connection
from nova.db.networks import hosts
from nova.db.networks import revisions
from nova.db.networks import routers
from nova.db.services import message_keys
from nova.runtime import release

if TYPE_CHECKING:
    from nova.db.engine import Database

LOG = logging.getLogger(__name__)

REPORT_S = 2
DOWN_S = 7
SINCE = 2               # first release with support for distributed routers, and subnet kinds of ports
LOOK_S = 0.5            # minimum time between two searches for routers with dead hosts, however many hosts report


def choose(conn: Connection) -> str:
    """Return the host for one more router, or '' if no host is alive."""
    taken = routers.on_hosts(conn)
    alive = [row['host'] for row in hosts.every(conn) if row['gateway'] and hosts.alive(row, DOWN_S)]
    return min(alive, key=lambda host: (taken.get(host, 0), host), default='')


class Gateways:
    """Heartbeats of hosts, and placement of routers.

    others  whether there are other hosts

    :param host: host of this service
    :param address: tunnel address of this host
    :param forwards: whether its driver forwards packets
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, address: str, forwards: bool = True) -> None:
        self._forwards = forwards
        self._conf, self._api_db, self._host, self._address = conf, api_db, host, address
        self._looked = float('-inf')
        self._older: list[str] = []                      # hosts in the last log message
        self.others = False

    def report(self) -> list[int]:
        """Send the heartbeat of this host, place routers without a host, and return the revision."""
        able = self._conf.network.routers and (self._forwards or self._is_alone())
        return self.report_of(self._host, self._address, able, release.VERSION, 0)

    def _is_alone(self) -> bool:
        with self._api_db.reader() as conn:
            return not hosts.has_others(conn, self._host)

    def report_of(self, host: str, address: str, gateway: bool, version: int = release.VERSION,
                  look_s: float = LOOK_S) -> list[int]:
        """Record the heartbeat of any host and return the revision.

        :param version: release of the host's agent or service; 0: it sends none
        :param look_s: minimum time since the last search for routers without a host
        """
        looks = time.monotonic() - self._looked >= look_s
        if looks:
            self._looked = time.monotonic()
        revision, number = self._api_db.run(report, host, address, gateway, version, looks,
                                            frozenset(self._conf.network.router_hosts))
        if looks or host != self._host:
            self.others = number > 1 or host != self._host
        return revision

    def distributed(self, conn: Connection) -> bool:
        """Return whether routers are distributed. All hosts must support it."""
        if self._conf.network.routing != 'distributed':
            return False
        older = hosts.older(conn, SINCE)
        if older != self._older:
            if older:
                LOG.warning('[network] routing stays central until these hosts are upgraded to this release: %s',
                            utils.some(older))
            else:
                LOG.info('All hosts are of this release: [network] routing is distributed.')
        self._older = older
        return not older


def report(conn: Connection, host: str, address: str, gateway: bool, version: int,
           looks: bool = True, may: frozenset[str] = frozenset()) -> tuple[list[int], int]:
    """Record a heartbeat, and move routers of hosts that are not alive.

    The release of an unknown host, or of one with a revoked key, is ignored. Otherwise one such host could force
    central routing on the whole deployment. A host with a revoked key gets no routers.

    :param looks: False: routers are not placed
    :param may: hosts that may have routers, whatever they report; empty: those that report it
    :returns: (the revision after the commit, number of hosts: 0 if ``looks`` is False)
    """
    revoked = (gateway or version < SINCE) and message_keys.is_revoked(conn, host)
    if version < SINCE and (revoked or not hosts.known(conn, host)):
        version = release.VERSION
    hosts.seen(conn, host, address, gateway and not revoked and (not may or host in may), version)
    number = _place(conn, may) if looks else 0
    return revisions.after(conn), number


def _place(conn: Connection, may: frozenset[str]) -> int:
    """Move routers of hosts that are down or not allowed, and return the number of hosts."""
    rows = hosts.every(conn)
    alive = {row['host'] for row in rows
             if row['gateway'] and hosts.alive(row, DOWN_S) and (not may or row['host'] in may)}
    for ident, was in routers.places(conn).items():
        if was not in alive:
            fresh = choose(conn)
            if fresh and fresh != was:
                routers.place(conn, ident, fresh, was)
    return len(rows)
