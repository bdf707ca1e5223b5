"""The hosts as the scheduler sees them: a table in memory that follows the database.

It is read anew by change number; what it says may be a moment old, and that is fine, because the claim's condition
decides.
"""
import threading
import time

import sqlalchemy as sa

from nova.db import statements
from nova.db.tables_cell import compute_nodes
from nova.db.tables_cell import services
from nova.scheduler import host_view

WINDOW_US = 5_000_000        # change numbers are looked at again for so long: commits become visible out of order
FRESH_S = 0.005              # a look within so many seconds of the last one finds nothing new worth a query
WHOLE_S = 60                 # removed nodes are noticed by reading all

# what every claim changes; a heartbeat that came meanwhile can wait for the next whole look
_USAGE = {'changed', 'running_vms', 'last_seen_at', *(name + '_used' for name in host_view.RESOURCES)}

_ALL = sa.select(*[compute_nodes.c[name] for name in host_view.NODE_COLUMNS],
                 *[services.c[name] for name in host_view.SERVICE_COLUMNS]).select_from(
    compute_nodes.outerjoin(services, sa.and_(services.c.host == compute_nodes.c.host, services.c.topic == 'compute')))
_CHANGED = _ALL.where(compute_nodes.c.changed >= sa.bindparam('since'))


class HostTable:
    """Follows one cell's compute nodes and their services.

    :param db: the cell's Database
    :param heartbeat_s: seconds after which heartbeats are read again
    """

    def __init__(self, db, heartbeat_s=5):
        self._db, self._heartbeat_s = db, heartbeat_s
        self._lock = threading.Lock()
        self._rows = {}
        self._view, self._positions = host_view.Hosts([]), {}
        self._mark = 0
        self._looked = self._heard = self._read_all = float('-inf')

    def hosts(self, *, whole=False):
        """A Hosts that is true to the database as of a few milliseconds ago.

        :param whole: read everything: a claim found the table to be wrong
        """
        with self._lock:
            now = time.monotonic()
            if whole or now - self._read_all > WHOLE_S:
                self._read(None)
                self._read_all = self._heard = self._looked = time.monotonic()
            elif now - self._looked > FRESH_S:
                if now - self._heard > self._heartbeat_s:
                    self._read_services()
                    self._heard = now
                self._read(self._mark - WINDOW_US)
                self._looked = time.monotonic()
            return self._view

    def _read(self, since):
        with self._db.reader() as conn:
            found = conn.execute(_ALL) if since is None else conn.execute(_CHANGED, {'since': since})
            rows = statements.dicts(found)
        fresh = {row['id']: row for row in rows}
        if since is not None:
            different = {key: row for key, row in fresh.items() if self._rows.get(key) != row}
            if not different:
                return
            usage_alone = all(key in self._rows and _without_usage(self._rows[key]) == _without_usage(row)
                              for key, row in different.items())
            self._mark = max(self._mark, *(row['changed'] for row in different.values()))
            self._rows.update(different)
            if usage_alone:
                self._view = self._view.with_usage({self._positions[key]: row for key, row in different.items()})
                return
        else:
            self._rows = fresh
            self._mark = max((row['changed'] for row in rows), default=0)
        self._show()

    def _show(self):
        self._view = host_view.Hosts(list(self._rows.values()))
        self._positions = {key: position for position, key in enumerate(self._rows)}

    def _read_services(self):
        statement = sa.select(services.c.host, *[services.c[name] for name in host_view.SERVICE_COLUMNS]).where(
            services.c.topic == 'compute')
        with self._db.reader() as conn:
            known = {row['host']: {name: row[name] for name in host_view.SERVICE_COLUMNS}
                     for row in conn.execute(statement).mappings()}
        nothing = dict.fromkeys(host_view.SERVICE_COLUMNS)
        self._rows = {key: {**row, **known.get(row['host'], nothing)} for key, row in self._rows.items()}
        self._show()


def _without_usage(row):
    return {name: value for name, value in row.items() if name not in _USAGE}
