"""The hosts as the scheduler sees them: a table in memory that is kept in step with the databases of all cells.

It is updated by change numbers. What it says may be a moment old, and that is fine, because the claim's condition
decides. Where nothing has changed, a look costs a cell's database one SELECT on two indexes.
"""
import collections.abc
import datetime
import logging
import threading
import time
import typing

import numpy as np

from nova import utils
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import host_changes
from nova.db.placement import hosts as hosts_db
from nova.db.services import services as services_db
from nova.runtime import metrics
from nova.scheduler import host_view

LOG = logging.getLogger(__name__)

FRESH_S = 0.005              # a look within so many seconds of the last one finds nothing new worth a query
OVERLAP_US = 20_000          # a look goes back so far behind the last one
WINDOW_US = 5_000_000        # and once in WINDOW_S so far: commits become visible out of order, and clocks differ
WINDOW_S = 2
WHOLE_S = 60                 # removed nodes are noticed by reading all change numbers
AGAIN_S = 1                  # not more often than that, even on request: the window shows the rest
FAR_US = 2 ** 62             # behind all change numbers
ELSEWHERE_S = 0.5            # other cells are looked at so often; where this scheduler has claimed, at once
NO_TIME = datetime.timedelta()
AWAY_S = 30                  # a cell that could not be reached is left alone for so long
LOOK_S = 2                   # a look at what has changed takes milliseconds: a cell holds up requests no longer

Row = dict[str, typing.Any]
Rows = dict[int, Row]                                        # by the number of the node
Usage = collections.abc.Mapping[int, collections.abc.Mapping[str, typing.Any]]
Numbers = collections.abc.Iterable[tuple[int, int, int]]     # (node, changed, used_changed)
Heartbeats = dict[str, datetime.datetime | None]             # by the name of the host
Changes = tuple[Rows, set[int]]                              # rows that are new or different, nodes that are gone


class CellNodes:
    """The compute nodes of one cell with their services, kept in step with its database.

    rows    {number of a node: its row}, a dict of host_view's columns with the cell's uuid as ``cell``; another dict
            when it changes. Its ``last_seen_at`` alone is written in place.

    :param quiet_s: seconds in which some heartbeat comes
    """

    def __init__(self, cell: db_cells.Cell, quiet_s: float) -> None:
        self.cell, self._quiet_s = cell, quiet_s
        self.rows: Rows = {}
        self._numbers = _Numbers()
        self._looked_us = self._windowed_us = 0          # change numbers of the last looks
        self._windowed = self._whole = float('-inf')
        self._noted = False

    def read_changes(self, whole: bool = False) -> Changes:
        """What has changed since the last look, for ``apply``.

        :param whole: compare all change numbers
        """
        now, number = time.monotonic(), utils.change_number()
        requested, whole = whole, now - self._whole > (AGAIN_S if whole else WHOLE_S)
        window, gone = False, set[int]()
        with self.cell.db.reader() as conn:
            if not self.rows:
                changed = {row['id']: row for row in self._of_cell(host_changes.nodes(conn))}
            elif whole:
                changed, gone = self._all(conn)
            else:
                window = now - self._windowed > WINDOW_S or requested
                changed = self._recent(conn, window)
        self._looked_us, self._noted = number, False
        if whole or window:
            self._windowed, self._windowed_us = now, number
        if whole:
            self._whole = now
        return changed, gone

    def apply(self, changed: Rows, gone: set[int]) -> None:
        self._numbers.apply(self.rows, changed, gone)
        self.rows.update(changed)
        for node in gone:
            del self.rows[node]

    def with_usage(self, usage: Usage) -> Rows:
        """The rows of nodes into which a claim of this process has just written these columns.

        Nodes whose row was read after another scheduler had claimed there later are left out.
        """
        self._noted = True
        return {node: {**self.rows[node], **values} for node, values in usage.items()
                if node in self.rows and self.rows[node]['used_changed'] < values['used_changed']}

    def _all(self, conn: engine.Connection) -> Changes:
        """What has changed, whenever that was."""
        if self._same(conn, {}, 0, FAR_US):
            return {}, set()
        numbers = host_changes.numbers(conn)
        return self._read(conn, numbers), self.rows.keys() - {node for node, _, _ in numbers}

    def _recent(self, conn: engine.Connection, window: bool) -> Rows:
        """What has changed lately."""
        since = self._looked_us - OVERLAP_US
        found = self._since(conn, since)
        begin = self._windowed_us - WINDOW_US
        if window and not self._same(conn, found, begin, since):
            found |= self._read(conn, host_changes.numbers(conn, begin))
        return found

    def _since(self, conn: engine.Connection, since: int) -> Rows:
        if self._noted:                          # much is going on, and most of it is known
            return self._read(conn, host_changes.numbers(conn, since))
        rows = host_changes.numbers_and_usage(conn, since)
        used, others = self._different(row[:3] for row in rows)
        found = {row[0]: {**self.rows[row[0]], **dict(zip(host_changes.USAGE, row[2:]))}
                 for row in rows if row[0] in used and row[3] is not None}
        return {**found, **self._others(conn, others)}

    def _same(self, conn: engine.Connection, found: Rows, since: int, until: int) -> bool:
        """Whether the change numbers in [since, until) are those of our rows and of what was found since, without
        reading them.
        """
        return host_changes.number_sums(conn, since, until) == self._numbers.sums(self.rows, found, since, until)

    def _read(self, conn: engine.Connection, numbers: Numbers) -> Rows:
        """The rows of those of (node, changed, used_changed) that are not known."""
        used, others = self._different(numbers)
        found = self._others(conn, others)
        for row in host_changes.usage(conn, used) if used else ():
            found[row['id']] = {**self.rows[row['id']], **row}
        return found

    def _different(self, numbers: Numbers) -> tuple[set[int], set[int]]:
        """(nodes whose usage alone is not known, nodes whose other columns are not)."""
        used, others = set(), set()
        for node, changed, used_changed in numbers:
            row = self.rows.get(node)
            if row is None or row['changed'] != changed:
                others.add(node)
            elif row['used_changed'] != used_changed:
                used.add(node)
        return used, others

    def _others(self, conn: engine.Connection, nodes: set[int]) -> Rows:
        return {row['id']: row for row in self._of_cell(host_changes.nodes(conn, nodes))} if nodes else {}

    def _of_cell(self, rows: collections.abc.Iterable[Row]) -> collections.abc.Iterator[Row]:
        for row in rows:
            row['cell'] = self.cell.uuid
            yield row

    def busy(self) -> dict[tuple[str, str], int]:
        """{(host, node): servers in a task that keeps its disks and network busy}, of the nodes that have any."""
        with self.cell.db.reader() as conn:
            return hosts_db.busy_servers(conn)

    def heartbeats(self) -> Heartbeats:
        """{host: when it was last seen} of the compute services, in parts, so that nothing waits for long.

        Silence counts up to the newest heartbeat of any service, as for services.any_up, where none came when some
        should have: in between moments stay what they are.
        """
        found: Heartbeats = {}
        after, gap = 0, None
        while True:
            with self.cell.db.reader() as conn:
                part = host_changes.heartbeats(conn, after)
                if gap is None:
                    gap = services_db.unheard(conn, utils.utcnow()) or NO_TIME
                    gap = gap if gap.total_seconds() > self._quiet_s else NO_TIME
            found.update((host, seen and seen + gap) for _, host, seen in part)
            if len(part) < host_changes.CHUNK:
                return found
            after = part[-1][0]


class _Numbers:
    """The change numbers of the rows of CellNodes, as arrays: to add up thousands takes no time."""

    COLUMNS = ('changed', 'used_changed')

    def __init__(self) -> None:
        self._positions: dict[int, int] | None = None
        self._arrays: tuple[np.ndarray, ...] = ()

    def apply(self, rows: Rows, changed: Rows, gone: set[int]) -> None:
        """The rows are about to change so."""
        if gone or not changed.keys() <= rows.keys():          # a difference would go through all rows
            self._positions = None                   # made again when it is needed
        elif self._positions is not None:
            self._write(self._positions, self._arrays, changed)

    def sums(self, rows: Rows, found: Rows, since: int, until: int) -> list[tuple[int, int]]:
        """What host_changes.number_sums gives of the rows, those that were found in the place of older ones."""
        if self._positions is None:
            self._positions = {node: position for position, node in enumerate(rows)}
            self._arrays = tuple(np.fromiter((row[name] for row in rows.values()), np.int64, len(rows))
                                 for name in self.COLUMNS)
        positions, arrays = self._positions, tuple(array.copy() for array in self._arrays)
        self._write(positions, arrays, {node: row for node, row in found.items() if node in positions})
        new = [row for node, row in found.items() if node not in positions]
        sums = []
        for name, array in zip(self.COLUMNS, arrays):
            array = np.append(array, [row[name] for row in new]).astype(np.int64)
            array = array[(array >= since) & (array < until)]
            sums.append((len(array), int((array % host_changes.MODULUS).sum())))
        return sums

    def _write(self, positions: dict[int, int], arrays: tuple[np.ndarray, ...], rows: Rows) -> None:
        if not rows:
            return
        chosen = [positions[node] for node in rows]
        for name, array in zip(self.COLUMNS, arrays):
            array[chosen] = [row[name] for row in rows.values()]


class HostTable:
    """The hosts of all cells, in one view.

    :param cells: db.cells.Cells
    :param heartbeat_s: seconds after which heartbeats are read again. One that is older than it could be makes a host
                        look down, never up: a third of the time after which hosts are down is enough.
    """

    def __init__(self, cells: db_cells.Cells, heartbeat_s: float = 5) -> None:
        self._cells, self._heartbeat_s = cells, heartbeat_s
        self._lock = threading.Lock()
        self._nodes: dict[str, CellNodes] = {}           # by the cell's uuid
        self._away: dict[str, float] = {}                # the cell's uuid: until when it is left alone
        self._positions: dict[tuple[str, int], int] = {}             # of (cell's uuid, node)
        self._view = host_view.Hosts([])
        self._looked = self._heard = self._looked_elsewhere = float('-inf')
        self._touched: set[str] = set()                  # uuids of other cells in which this scheduler has just claimed
        metrics.HOSTS.watch(self, lambda table: {(): len(table._view)})
        metrics.HOSTS_AGE.watch(self, lambda table: {(): time.monotonic() - table._looked}
                                if table._nodes else {})

    def size(self) -> int:
        """How many nodes the last view had."""
        return len(self._view.ids)

    def hosts(self, *, whole: bool = False, fresh_s: float = FRESH_S) -> host_view.Hosts:
        """A view that is true to the database of the default cell as of a few milliseconds ago.

        Other cells may be slow, and are looked at less often, unless this scheduler has claimed there.

        :param whole: look at everything: no host was found, or a claim found the table to be wrong
        :param fresh_s: seconds after which it is looked at again
        """
        with self._lock:
            if whole or time.monotonic() - self._looked > fresh_s:
                nodes = self._nodes_of(self._cells.default)
                self._merge(nodes, *nodes.read_changes(whole))
                if whole or time.monotonic() - self._heard > 2 * self._heartbeat_s:
                    self._merge_heartbeats(nodes, nodes.heartbeats())
                    self._heard = time.monotonic()
                self._looked = time.monotonic()
            if whole or len(self._nodes) > 1:
                self._look_elsewhere(whole)
            return self._view

    def _look_elsewhere(self, whole: bool) -> None:
        """Look at the other cells, in parallel; the lock is held.

        One that was away is looked at by ``synchronize`` alone, where no request waits for it.
        """
        due = whole or time.monotonic() - self._looked_elsewhere > ELSEWHERE_S
        cells = [cell for cell in self._cells.all()[1:]
                 if (due or cell.uuid in self._touched) and cell.uuid not in self._away]
        if not cells:
            return
        nodes = {cell.uuid: self._nodes_of(cell) for cell in cells}
        self._touched -= nodes.keys()            # before: what is claimed meanwhile may not be seen

        def look(cell: db_cells.Cell) -> tuple[Changes, Heartbeats]:
            here = nodes[cell.uuid]
            return here.read_changes(whole), here.heartbeats() if whole else {}
        found, down = self._cells.ask(cells, look, None if whole else LOOK_S)
        for cell, (changes, seen) in found:
            self._merge(nodes[cell.uuid], *changes)
            self._merge_heartbeats(nodes[cell.uuid], seen)
        for cell in down:
            self._away[cell.uuid] = time.monotonic() + AWAY_S
            self._forget(cell.uuid)
        if due:
            self._looked_elsewhere = time.monotonic()

    def touched(self, cell: db_cells.Cell) -> None:
        """Claims of this process have changed a cell: the next view shows it."""
        if cell is not self._cells.default:
            self._touched.add(cell.uuid)

    def leave_out(self, cell_uuid: str) -> None:
        """A cell could not be reached, or is gone: nothing is placed there for now."""
        with self._lock:
            self._away[cell_uuid] = time.monotonic() + AWAY_S
            self._forget(cell_uuid)

    def synchronize(self) -> None:
        """Look at all cells, and at the heartbeats when it is time: what a periodic task does."""
        hear = time.monotonic() - self._heard > self._heartbeat_s
        self._looked_elsewhere = float('-inf')
        self.hosts()
        default, *others = self._cells.all()
        with self._lock:
            for cell_uuid in self._nodes.keys() - {default.uuid, *(cell.uuid for cell in others)}:
                LOG.warning('Cell %s was deleted: its hosts get no more servers.', cell_uuid)
                self._forget(cell_uuid)
        others = [cell for cell in others if time.monotonic() >= self._away.get(cell.uuid, 0)]
        fresh = {cell.uuid for cell in others} - self._nodes.keys()

        def look(cell: db_cells.Cell) -> tuple[CellNodes, Changes, Heartbeats, dict[tuple[str, str], int] | None]:
            # a cell that was looked at just now is not looked at again
            nodes = self._nodes_of(cell)
            return (nodes, nodes.read_changes() if cell.uuid in fresh else ({}, set()),
                    *((nodes.heartbeats(), nodes.busy()) if hear else ({}, None)))
        found, down = self._cells.ask(others, look) if others else ([], [])
        for nodes, changes, seen, servers in [look(default), *(result for _, result in found)]:
            with self._lock:
                if self._nodes.get(nodes.cell.uuid) is not nodes:
                    continue                                 # a claim has found it to be away
                self._away.pop(nodes.cell.uuid, None)
                self._merge(nodes, *changes)
                self._merge_heartbeats(nodes, seen)
                if servers is not None:
                    self._merge_busy(nodes, servers)
        for cell in down:
            LOG.warning('The hosts of cell %s cannot be followed.', cell.name)
            self.leave_out(cell.uuid)
        if hear:
            self._heard = time.monotonic()

    def note_usage(self, cell: db_cells.Cell, usage: Usage) -> None:
        """Claims of this process have just written these columns of host_changes.USAGE: {node of the cell: them}."""
        with self._lock:
            nodes = self._nodes_of(cell)
            self._merge(nodes, nodes.with_usage(usage), set())

    def _nodes_of(self, cell: db_cells.Cell) -> CellNodes:
        return self._nodes.setdefault(cell.uuid, CellNodes(cell, self._heartbeat_s))

    def _merge(self, nodes: CellNodes, changed: Rows, gone: set[int]) -> None:
        """What was read of a cell, into its rows and the view."""
        cell, known = nodes.cell.uuid, {node: nodes.rows.get(node) for node in changed}
        for node, row in changed.items():
            row['io_ops'] = _busy_now(row, known[node])
        nodes.apply(changed, gone)
        if gone or None in known.values():
            self._show()
            return
        usage: Rows = {}
        others: Rows = {}
        seen: dict[int, datetime.datetime | None] = {}
        for node, row in changed.items():
            before, position = known[node], self._positions[cell, node]
            if before is None:
                continue                     # there is none such: all would be shown
            if row['changed'] != before['changed'] and not host_view.USAGE.issuperset(
                    name for name, value in row.items() if value is not before[name] and value != before[name]):
                others[position] = row
                continue
            usage[position] = row
            if row['last_seen_at'] != before['last_seen_at']:
                seen[position] = row['last_seen_at']
        if others:
            self._view = self._view.with_rows(others)
        if usage:
            self._view = self._view.with_usage(usage)
            self._show_seen(seen)

    def _merge_heartbeats(self, nodes: CellNodes, seen: Heartbeats) -> None:
        """Heartbeats into the rows and the view, all of whose other arrays stay."""
        changed: dict[int, datetime.datetime | None] = {}
        for node, row in nodes.rows.items():
            moment = seen.get(row['host'])
            if moment is not None and moment != row['last_seen_at']:
                row['last_seen_at'] = moment
                changed[self._positions[row['cell'], node]] = moment
        self._show_seen(changed)

    def _merge_busy(self, nodes: CellNodes, servers: dict[tuple[str, str], int]) -> None:
        """Servers that keep their nodes busy, {(host, node): number}, into the rows and the view."""
        changed = {}
        for node, row in list(nodes.rows.items()):
            number = servers.get((row['host'], row['node']), 0)
            if number != row['io_ops']:
                nodes.rows[node] = {**row, 'io_ops': number}
                changed[self._positions[row['cell'], node]] = nodes.rows[node]
        if changed:
            self._view = self._view.with_usage(changed)

    def _show_seen(self, moments: dict[int, datetime.datetime | None]) -> None:
        if moments:
            self._view = self._view.with_seen(moments)

    def _forget(self, cell_uuid: str) -> None:
        """A cell is away: nothing can be placed there; the lock is held."""
        if self._nodes.pop(cell_uuid, None):
            self._looked = float('-inf')         # if it is the default one: the next view looks there again
            self._show()

    def _show(self) -> None:
        """Make a view of all rows: hosts came or went."""
        rows = [row for nodes in self._nodes.values() for row in nodes.rows.values()]
        self._positions = {(row['cell'], row['id']): position for position, row in enumerate(rows)}
        self._view = host_view.Hosts(rows)


def _busy_now(row: Row, before: Row | None) -> int:
    """Until they are counted again: what has come to a node is being built there, or moves."""
    if before is None:
        return 0
    return before['io_ops'] + max(0, row['running_vms'] - before['running_vms'])
