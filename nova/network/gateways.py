"""Which host has which router, and where the hosts of networks between hosts are.

Each host says every REPORT_S that it is there, and learns the revision of what hosts are plumbed by: one that missed a
notification finds out. A router is put on the host that has the fewest, of those that may have routers and were heard
of; when its host is not heard of for DOWN_S, another one takes it.

A host whose driver forwards no packets (``[network] driver = fake``) has routers only where it is the only host: a
cloud with simulated guests.
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
SINCE = 2               # release of all that plumbs hosts with which routers have parts, and subnets kinds of ports
LOOK_S = 0.5            # a service looks no more often for routers whose host is down, however many hosts report


def choose(conn: Connection) -> str:
    """The host for one more router, '' where none is there."""
    taken = routers.on_hosts(conn)
    alive = [row['host'] for row in hosts.every(conn) if row['gateway'] and hosts.alive(row, DOWN_S)]
    return min(alive, key=lambda host: (taken.get(host, 0), host), default='')


class Gateways:
    """What network services know of hosts.

    others  whether there are other hosts

    :param host: of this service
    :param address: of this host between hosts
    :param forwards: whether its routers lead anywhere
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, address: str, forwards: bool = True) -> None:
        self._forwards = forwards
        self._conf, self._api_db, self._host, self._address = conf, api_db, host, address
        self._looked = float('-inf')
        self._older: list[str] = []                      # hosts as they were last spoken of
        self.others = False

    def report(self) -> list[int]:
        """Say that this host is there and find routers without one a host; the revision then."""
        able = self._conf.network.routers and (self._forwards or self._is_alone())
        return self.report_of(self._host, self._address, able, release.VERSION, 0)

    def _is_alone(self) -> bool:
        with self._api_db.reader() as conn:
            return not hosts.has_others(conn, self._host)

    def report_of(self, host: str, address: str, gateway: bool, version: int = release.VERSION,
                  look_s: float = LOOK_S) -> list[int]:
        """The same of any host.

        :param version: release of who plumbs it; 0: one that does not say
        :param look_s: looks for routers without a host only when this service has not for so long
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
        """Whether routers have parts on the hosts of their guests: not while a host does not know of parts."""
        if self._conf.network.routing != 'distributed':
            return False
        older = hosts.older(conn, SINCE)
        if older != self._older:
            if older:
                LOG.warning('[network] routing is central until all hosts are of this release; these are not: %s',
                            utils.some(older))
            else:
                LOG.info('All hosts are of this release: [network] routing is distributed.')
        self._older = older
        return not older


def report(conn: Connection, host: str, address: str, gateway: bool, version: int,
           looks: bool = True, may: frozenset[str] = frozenset()) -> tuple[list[int], int]:
    """A host is there; routers without a host that was heard of get one.

    The release of a host that nothing is known of, or whose key was revoked, does not count: routing would be central
    for all by its word. One whose key was revoked has no routers, as long as its messages are still taken.

    :param looks: False: routers stay as they are
    :param may: hosts that may have routers, whatever they say; empty: those that say so
    :returns: (the revision once this is committed, how many hosts there are: 0 without a look)
    """
    revoked = (gateway or version < SINCE) and message_keys.is_revoked(conn, host)
    if version < SINCE and (revoked or not hosts.known(conn, host)):
        version = release.VERSION
    hosts.seen(conn, host, address, gateway and not revoked and (not may or host in may), version)
    number = _place(conn, may) if looks else 0
    return revisions.after(conn), number


def _place(conn: Connection, may: frozenset[str]) -> int:
    """Give each router whose host is down, or may have none, another one -> how many hosts there are."""
    rows = hosts.every(conn)
    alive = {row['host'] for row in rows
             if row['gateway'] and hosts.alive(row, DOWN_S) and (not may or row['host'] in may)}
    for ident, was in routers.places(conn).items():
        if was not in alive:
            fresh = choose(conn)
            if fresh and fresh != was:
                routers.place(conn, ident, fresh, was)
    return len(rows)
