"""The hosts as the scheduler sees them: a table in memory that follows the database.

A struct of arrays, one entry a compute node. It is read anew by change number; what it says may be a moment old,
and that is fine, because the claim's condition decides.
"""
import threading
import time

import numpy as np
import sqlalchemy as sa

from nova.db import statements
from nova.db.tables_cell import compute_nodes
from nova.db.tables_cell import services

WINDOW_US = 5_000_000        # change numbers are looked at again for so long: commits become visible out of order
FRESH_S = 0.005              # a look within so many seconds of the last one finds nothing new worth a query
WHOLE_S = 60                 # removed nodes are noticed by reading all

_NODE = ('id', 'host', 'node', 'changed', 'vcpus', 'memory_mb', 'local_gb', 'reserved_memory_mb',
         'reserved_disk_gb', 'cpu_allocation_ratio', 'ram_allocation_ratio', 'disk_allocation_ratio',
         'vcpus_used', 'memory_mb_used', 'local_gb_used', 'running_vms', 'capabilities', 'hypervisor_type')
_SERVICE = ('availability_zone', 'disabled', 'forced_down', 'last_seen_at')
RESOURCES = ('vcpus', 'memory_mb', 'local_gb')
# what every claim changes; a heartbeat that came meanwhile can wait for the next whole look
_USAGE = {'changed', 'running_vms', 'last_seen_at', *(name + '_used' for name in RESOURCES)}


class Hosts:
    """A moment's view: arrays of equal length. Choosing changes ``used`` of its own copy only.

    ids, host, node, zone   who and where (arrays of objects, ids of integers)
    enabled, forced_down    of the host's service; seen: its last heartbeat (numpy datetime64, NaT for none)
    total, capacity, used   {resource: array}; resources are vcpus, memory_mb and local_gb
    running_vms             servers on the node
    group, members          the scheduler.groups.Group that is placed, and how many of it are on each host
    """

    group = members = None

    def __init__(self, rows):
        def column(name, dtype=object):
            array = np.empty(len(rows), dtype=dtype)
            array[:] = [row[name] for row in rows]
            return array
        self.rows = rows
        self.ids = column('id', np.int64)
        self.host, self.node = column('host'), column('node')
        self.zone = column('availability_zone')
        self.enabled = np.array([row['disabled'] is not None and not row['disabled'] for row in rows], dtype=bool)
        self.forced_down = np.array([bool(row['forced_down']) for row in rows], dtype=bool)
        self.seen = column('last_seen_at', 'datetime64[us]')
        self.running_vms = column('running_vms', np.int64)
        self.total = {name: column(name, np.int64) for name in RESOURCES}
        self.capacity = {
            'vcpus': self.total['vcpus'] * column('cpu_allocation_ratio', float),
            'memory_mb': ((self.total['memory_mb'] - column('reserved_memory_mb', np.int64))
                          * column('ram_allocation_ratio', float)),
            'local_gb': ((self.total['local_gb'] - column('reserved_disk_gb', np.int64))
                         * column('disk_allocation_ratio', float))}
        self.used = {name: column(name + '_used', np.int64) for name in RESOURCES}

    def __len__(self):
        return len(self.rows)

    def free(self, resource):
        """What one more server could get on each: what is left of the capacity, at most what the node has."""
        return np.minimum(self.capacity[resource] - self.used[resource], self.total[resource])

    def copy(self):
        """A view whose usage may be changed."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.used = {name: array.copy() for name, array in self.used.items()}
        twin.running_vms = self.running_vms.copy()
        return twin

    def with_usage(self, rows):
        """A view in which these rows, of hosts that it has, have other usage: {position: row}."""
        twin = self.copy()
        twin.rows = list(self.rows)
        for position, row in rows.items():
            twin.rows[position] = row
            for name in RESOURCES:
                twin.used[name][position] = row[name + '_used']
            twin.running_vms[position] = row['running_vms']
        return twin

    def consume(self, position, asked):
        for name in RESOURCES:
            self.used[name][position] += asked[name]
        self.running_vms[position] += 1
        if self.group is not None:
            self.members = self.members + (self.host == self.host[position])


_ALL = sa.select(*[compute_nodes.c[name] for name in _NODE], *[services.c[name] for name in _SERVICE]).select_from(
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
        self._view, self._positions = Hosts([]), {}
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
        self._view = Hosts(list(self._rows.values()))
        self._positions = {key: position for position, key in enumerate(self._rows)}

    def _read_services(self):
        statement = sa.select(services.c.host, *[services.c[name] for name in _SERVICE]).where(
            services.c.topic == 'compute')
        with self._db.reader() as conn:
            known = {row['host']: {name: row[name] for name in _SERVICE}
                     for row in conn.execute(statement).mappings()}
        nothing = dict.fromkeys(_SERVICE)
        self._rows = {key: {**row, **known.get(row['host'], nothing)} for key, row in self._rows.items()}
        self._show()


def _without_usage(row):
    return {name: value for name, value in row.items() if name not in _USAGE}
