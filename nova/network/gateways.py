"""Gateway hosts: placement of routers on hosts, and tunnel addresses of hosts.

Each host sends a heartbeat every REPORT_S. The response has the revision of the network state, so that a host notices
missed notifications. A router is placed on the live gateway host with the fewest routers. If the host of a router sends
no heartbeat for DOWN_S, the router moves to another host.

A host that an administrator disabled gets no routers, and its routers move to live hosts if there are any. A router
that an administrator removed from a host has no host until an administrator assigns it to a host.

The fake driver forwards no packets. A host with this driver gets routers only if the cloud has no other host, for
example in a cloud with simulated guests.
"""
from collections.abc import Mapping
import collections
import time

from oslo_config.cfg import ConfigOpts

from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import hosts
from nova.db.networks import revisions
from nova.db.networks import routers
from nova.db.services import message_keys
from nova.db.tables.rows import NetworkHostsRow
from nova.network import guarantees
from nova.runtime import release

REPORT_S = 2
DOWN_S = 7
RESCHEDULE_INTERVAL_S = 0.5     # minimum seconds between two searches for routers of dead hosts


def choose(conn: Connection) -> str:
    """Return the host for one more router, or '' if no gateway host is alive."""
    live = {row['host'] for row in hosts.every(conn) if is_eligible(row)}
    return _least_used(live, routers.on_hosts(conn)) if live else ''


def _least_used(live: set[str], taken: Mapping[str, int]) -> str:
    return min(live, key=lambda host: (taken.get(host, 0), host))


def is_eligible(row: NetworkHostsRow) -> bool:
    """Return whether a host may get routers."""
    return row['gateway'] and row['admin_state_up'] and hosts.alive(row['last_seen_at'], DOWN_S)


class Gateways:
    """Heartbeats of hosts, and placement of routers.

    others  whether hosts other than this host have sent heartbeats

    :param host: host of this service
    :param address: tunnel address of this host
    :param forwards: whether the host's driver forwards packets
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, address: str, forwards: bool = True) -> None:
        self._forwards = forwards
        self._conf, self._api_db, self._host, self._address = conf, api_db, host, address
        self._rescheduled_at = float('-inf')
        self.others = False

    def report(self) -> list[int]:
        """Record the heartbeat of this host and place routers without a live host; return the revision of the state."""
        able = self._conf.network.routers and (self._forwards or self._is_alone())
        return self.report_host(self._host, self._address, able, release.VERSION, guarantees.stated(self._conf), 0)

    def _is_alone(self) -> bool:
        with self._api_db.reader() as conn:
            return not hosts.has_others(conn, self._host)

    def report_host(self, host: str, address: str, gateway: bool, version: int = release.VERSION,
                    guaranteed: guarantees.Stated | None = None,
                    interval_s: float = RESCHEDULE_INTERVAL_S) -> list[int]:
        """Record the heartbeat of any host and return the revision.

        :param version: release of the host's agent or service; 0: the host reports no release
        :param guaranteed: what the host can guarantee to ports
        :param interval_s: minimum time since the last search for routers without a host
        """
        reschedule = time.monotonic() - self._rescheduled_at >= interval_s
        if reschedule:
            self._rescheduled_at = time.monotonic()
        revision, number = self._api_db.run(report, host, address, gateway, version, reschedule,
                                            frozenset(self._conf.network.router_hosts), guaranteed)
        if reschedule or host != self._host:
            self.others = number > 1 or host != self._host
        return revision

    @property
    def distributed(self) -> bool:
        """Whether routers are distributed."""
        return bool(self._conf.network.routing == 'distributed')


def report(conn: Connection, host: str, address: str, gateway: bool, version: int, reschedule: bool,
           allowed: frozenset[str], guaranteed: guarantees.Stated | None) -> tuple[list[int], int]:
    """Record a heartbeat, and move routers of hosts that are not alive.

    A host with a revoked key gets no routers.

    :param reschedule: whether to place routers
    :param allowed: hosts that may have routers; empty: all hosts. A host must also report that it forwards packets
    :param guaranteed: resources that the host guarantees to ports
    :returns: (revision of the network state after the commit, number of hosts or 0 if ``reschedule`` is False)
    """
    trusted = gateway and (not allowed or host in allowed) and not message_keys.is_revoked(conn, host)
    hosts.seen(conn, host, address, trusted, version, guaranteed)
    number = _reschedule_routers(conn, allowed) if reschedule else 0
    return revisions.after(conn), number


def _reschedule_routers(conn: Connection, allowed: frozenset[str]) -> int:
    """Move routers away from hosts that are down or may not have routers; return the number of all hosts."""
    rows = hosts.every(conn)
    live = {row['host'] for row in rows if is_eligible(row) and (not allowed or row['host'] in allowed)}
    homeless = [each for each in routers.places(conn).items() if each[1] not in live] if live else []
    taken = collections.Counter(routers.on_hosts(conn) if homeless else {})
    for ident, was in homeless:
        host = _least_used(live, taken)
        if routers.place(conn, ident, host, was):
            taken[host] += 1
    return len(rows)
