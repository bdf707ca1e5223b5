"""The NUMA topologies of the hosts, for requests that ask for one: a table that follows the database while it is asked.

Servers without such wishes never come here, so that it costs nothing where there are none. As in the table of hosts,
what it says may be a moment old: the claim decides.
"""
import threading
import time

import numpy as np
import sqlalchemy as sa

from nova import exception
from nova.db.placement import numa_claims
from nova.db.tables.cell import compute_nodes
from nova.scheduler import hosts as host_table
from nova.scheduler import numa

MANY = 500               # rows that one query names

_c = compute_nodes.c
_COLUMNS = ('id', 'host', 'node', 'numa_changed', 'numa_topology', 'cpu_allocation_ratio', 'ram_allocation_ratio')
_ALL = sa.select(*[_c[name] for name in _COLUMNS])
_SOME = _ALL.where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_CHANGED = sa.select(_c.id, _c.numa_changed).where(_c.numa_changed >= sa.bindparam('since'))


class Topologies:
    """
    :param cells: db.cells.Cells
    """

    def __init__(self, cells):
        self._databases, self._lock = cells, threading.Lock()
        self._known = {}                   # (host, node): (position, text, limits)
        self._cells = numa.Cells([], [])
        self._marks = {}                   # cell's uuid: the newest change number
        self._numbers = {}                 # (cell's uuid, node's id): the change number of what is known
        self._looked = self._read_all = float('-inf')
        self._index = (None, None, None)   # a view's ids, the cells, the position in them of each host

    def mask(self, hosts, guest):
        """True for the hosts of a view that may take the guest (GuestTopology, not yet placed)."""
        with self._lock:
            self._look()
            index, cells = self._of(hosts), self._cells
        found = np.append(cells.mask(guest), False)        # the last one is of hosts that are not known here
        return found[index]

    def host(self, hosts, position):
        """(HostTopology or None, fit.Limits) of one host of a view, as of the last mask."""
        row = hosts.rows[position]
        _, text, limits = self._known.get((row['host'], row['node']), (None, None, numa.limits(row)))
        return (None if text is None else numa_claims.load_host(text)), limits

    def _of(self, hosts):
        """The position in the cells of each host of a view; -1: not known."""
        ids, known, index = self._index
        if ids is not hosts.ids or known is not self._known:
            nobody = (-1,)
            places = zip(hosts.host, hosts.node)
            index = np.array([self._known.get(place, nobody)[0] for place in places], dtype=np.intp)
            self._index = (hosts.ids, self._known, index)
        return index

    def _look(self):
        now = time.monotonic()
        if now - self._read_all > host_table.WHOLE_S:
            self._read(whole=True)
            self._read_all = self._looked = time.monotonic()
        elif now - self._looked > host_table.FRESH_S:
            self._read()
            self._looked = time.monotonic()

    def _read(self, whole=False):
        def ask(cell):
            with cell.db.reader() as conn:
                return conn.execute(_ALL).mappings().all() if whole else self._fresh(conn, cell.uuid)
        answers, down = self._databases.scatter(ask)         # of a cell that is down there are no hosts
        if self._databases.default in down:
            raise exception.ServiceUnavailable(service='database')
        rows = []
        for cell, fresh in answers:
            self._marks[cell.uuid] = max([self._marks.get(cell.uuid, 0), *(row['numa_changed'] or 0 for row in fresh)])
            self._numbers.update({(cell.uuid, row['id']): row['numa_changed'] for row in fresh})
            rows += [((row['host'], row['node']), row['numa_topology'], numa.limits(row)) for row in fresh]
        if whole or any(place not in self._known for place, _, _ in rows):
            others = {} if whole else self._known
            merged = {**{place: value[1:] for place, value in others.items()},
                      **{place: (text, limits) for place, text, limits in rows}}
            self._known = {place: (number, *value) for number, (place, value) in enumerate(merged.items())}
            self._cells = numa.Cells([text for text, _ in merged.values()], [limits for _, limits in merged.values()])
            return
        self._change(rows)

    def _fresh(self, conn, cell):
        """Rows whose change number is not the one that is known; commits come late, so that some are seen again."""
        since = self._marks.get(cell, 0) - host_table.WINDOW_US
        ids = [row.id for row in conn.execute(_CHANGED, {'since': since})
               if self._numbers.get((cell, row.id)) != row.numa_changed]
        return [row for first in range(0, len(ids), MANY)
                for row in conn.execute(_SOME, {'ids': ids[first:first + MANY]}).mappings()]

    def _change(self, rows):
        different = {}
        for place, text, limits in rows:
            number, *known = self._known[place]
            if known != [text, limits]:
                self._known[place] = (number, text, limits)
                different[number] = (text, limits)
        if different:
            self._cells = self._cells.changed(different)
