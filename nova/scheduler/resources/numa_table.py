"""The table of the hosts' NUMA topologies, read and updated only for requests with a NUMA topology.

Like the table of hosts, this table may be slightly stale, because the claim checks the current rows.
"""
import threading
import time
import typing

import numpy as np

from nova import exception
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import host_changes
from nova.db.placement import numa_claims
from nova.hardware import fit
from nova.objects import numa as topologies
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler.resources import numa

Place = tuple[str, str]                                      # host, node


class Topologies:
    """The NUMA topologies of all hosts.

    :param cells: db.cells.cells.Cells
    """

    def __init__(self, cells: db_cells.Cells) -> None:
        self._databases, self._lock = cells, threading.Lock()
        self._known: dict[Place, tuple[int, str | None, fit.Overcommit]] = {}    # position in _cells, topology, limits
        self._cells = numa.Cells([], [])
        self._marks: dict[str, int] = {}                 # {uuid of a cell: newest change number}
        self._numbers: dict[tuple[str, int], int | None] = {}  # {(cell's uuid, node's id): known change number}
        self._read_at = self._read_all = float('-inf')
        # last call of _of: (ids of the view, self._known at that time, result)
        self._index: tuple[typing.Any, typing.Any, typing.Any] = (None, None, None)

    def mask(self, hosts: host_view.Hosts, guest: topologies.GuestTopology) -> np.ndarray:
        """Return a mask of the hosts of a view that may have room for a guest, which is not pinned yet."""
        with self._lock:
            self._look()
            index, cells = self._of(hosts), self._cells
        found = np.append(cells.mask(guest), False)        # the last entry is the result for unknown hosts
        return found[index]

    def host(self, hosts: host_view.Hosts, position: int) -> tuple[topologies.HostTopology | None, fit.Overcommit]:
        """Return (HostTopology or None, fit.Overcommit) of one host of a view, as read by the last call of ``mask``."""
        row = hosts.rows[position]
        known = self._known.get((row['host'], row['node']))
        _, text, limits = (-1, None, numa.limits(row)) if known is None else known
        return (None if text is None else numa_claims.load_host(text)), limits

    def _of(self, hosts: host_view.Hosts) -> np.ndarray:
        """Return the index of each host of a view in self._cells, or -1 for unknown hosts."""
        ids, known, index = self._index
        if ids is not hosts.ids or known is not self._known:
            index = np.array([self._known[place][0] if place in self._known else -1
                              for place in zip(hosts.host, hosts.node)], dtype=np.intp)
            self._index = (hosts.ids, self._known, index)
        return index

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._read_all > host_table.FULL_READ_S:
            self._read(full=True)
            self._read_all = self._read_at = time.monotonic()
        elif now - self._read_at > host_table.FRESH_S:
            self._read()
            self._read_at = time.monotonic()

    def _read(self, full: bool = False) -> None:
        def read(cell: db_cells.Cell) -> list[host_changes.Topology]:
            with cell.db.reader() as conn:
                return host_changes.topologies(conn) if full else self._fresh(conn, cell.uuid)
        answers, down = self._databases.scatter(read)
        # other cells in ``down`` are ignored, because HostTable removes their hosts
        if self._databases.default in down:
            raise exception.ServiceUnavailable(service='database')
        rows: list[tuple[Place, str | None, fit.Overcommit]] = []
        for cell, fresh in answers:
            self._marks[cell.uuid] = max([self._marks.get(cell.uuid, 0),
                                          *(row['numa_change_number'] or 0 for row in fresh)])
            self._numbers.update({(cell.uuid, row['id']): row['numa_change_number'] for row in fresh})
            rows += [((row['host'], row['node']), row['numa_topology'], numa.limits(row)) for row in fresh]
        if full or any(place not in self._known for place, _, _ in rows):
            others = {} if full else self._known
            merged = {**{place: value[1:] for place, value in others.items()},
                      **{place: (text, limits) for place, text, limits in rows}}
            self._known = {place: (number, *value) for number, (place, value) in enumerate(merged.items())}
            self._cells = numa.Cells([text for text, _ in merged.values()], [limits for _, limits in merged.values()])
            return
        self._change(rows)

    def _fresh(self, conn: engine.Connection, cell: str) -> list[host_changes.Topology]:
        """Return the rows with unknown change numbers. Queries overlap, because commits become visible late."""
        since = self._marks.get(cell, 0) - host_table.WINDOW_US
        ids = [node for node, changed in host_changes.topology_numbers(conn, since)
               if self._numbers.get((cell, node)) != changed]
        return host_changes.topologies(conn, ids) if ids else []

    def _change(self, rows: list[tuple[Place, str | None, fit.Overcommit]]) -> None:
        different: dict[int, tuple[numa.Topology, fit.Overcommit]] = {}
        for place, text, limits in rows:
            number, *known = self._known[place]
            if known != [text, limits]:
                self._known[place] = (number, text, limits)
                different[number] = (text, limits)
        if different:
            self._cells = self._cells.changed(different)
