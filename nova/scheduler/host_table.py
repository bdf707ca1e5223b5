"""The scheduler's table of hosts, held in memory and synchronized with the databases of all cells.

The table reads only rows with new change numbers (utils.change_number). If no row has changed, a read is one SELECT on
two indexes in a cell's database. The table may be slightly stale, because the claim checks the current rows.
"""
import collections.abc
import datetime
import logging
import operator
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

FRESH_S = 0.005  # the table sends no query for this number of seconds after a read
OVERLAP_US = 20_000  # microseconds by which each read overlaps the previous read
WINDOW_US = 5_000_000  # larger overlap, used every WINDOW_S, because commits may become visible late and clocks differ
WINDOW_S = 2
FULL_READ_S = 60  # seconds between two comparisons of all change numbers, which detect removed nodes
MIN_FULL_READ_S = 1  # minimum interval of these comparisons if callers request them
MAX_CHANGE_NUMBER = 2 ** 62  # upper bound of all change numbers
OTHER_CELLS_INTERVAL_S = 0.5  # read interval of cells other than the default cell; a claim makes the next read earlier
NO_TIME = datetime.timedelta()
UNREACHABLE_S = 30  # interval of attempts to read an unreachable cell
# timeout of reading changes, so that a slow cell does not delay requests; a read normally takes milliseconds
READ_TIMEOUT_S = 2

Row = host_changes.Node
Rows = dict[int, Row]  # {number of a node (compute_nodes.id): its row}
Usage = collections.abc.Mapping[int, collections.abc.Mapping[str, int]]
Numbers = collections.abc.Iterable[tuple[int, int, int]]  # (node, change_number, usage_change_number)
Heartbeats = dict[str, datetime.datetime | None]  # {host name: time of the last heartbeat}
Changes = tuple[Rows, set[int]]  # (new or changed rows, removed nodes)


class CellNodes:
    """The compute nodes of one cell with their services, synchronized with the cell's database.

    rows    {number of a node: its row}. A change replaces the row by a new dict, but ``last_seen_at`` changes in place.
    :param quiet_s: seconds without any heartbeat in the cell after which all heartbeats count as overdue
    """

    def __init__(self, cell: db_cells.Cell, quiet_s: float) -> None:
        self.cell, self._quiet_s = cell, quiet_s
        self.rows: Rows = {}
        self._numbers = _ChangeNumbers()
        self._looked_us = self._windowed_us = 0  # change numbers of the last reads
        self._windowed = self._full_read = float('-inf')
        self._noted = False

    def read_changes(self, full: bool = False) -> Changes:
        """Return the changes since the last read, in the form that ``apply`` takes.

        :param full: compare all change numbers to find removed nodes and changes that earlier reads missed
        """
        now, number = time.monotonic(), utils.change_number()
        requested, full = full, now - self._full_read > (MIN_FULL_READ_S if full else FULL_READ_S)
        window, removed = False, set[int]()
        with self.cell.db.reader() as conn:
            if not self.rows:
                changed = {row['id']: row for row in self._of_cell(host_changes.nodes(conn))}
            elif full:
                changed, removed = self._all(conn)
            else:
                window = now - self._windowed > WINDOW_S or requested
                changed = self._recent(conn, window)
        self._looked_us, self._noted = number, False
        if full or window:
            self._windowed, self._windowed_us = now, number
        if full:
            self._full_read = now
        return changed, removed

    def apply(self, changed: Rows, removed: set[int]) -> None:
        self._numbers.apply(self.rows, changed, removed)
        self.rows.update(changed)
        for node in removed:
            del self.rows[node]

    def with_usage(self, usage: Usage) -> Rows:
        """Return rows of nodes, updated with the columns that a claim of this process has just written.

        A row is omitted if the table has already read a later change of its usage.
        """
        self._noted = True
        return {node: _used(self.rows[node], values) for node, values in usage.items()
                if node in self.rows and self.rows[node]['usage_change_number'] < values['usage_change_number']}

    def _all(self, conn: engine.Connection) -> Changes:
        """Compare all change numbers, and return the changed rows and removed nodes."""
        if self._same(conn, {}, 0, MAX_CHANGE_NUMBER):
            return {}, set()
        numbers = host_changes.numbers(conn)
        return self._read(conn, numbers), self.rows.keys() - {node for node, _, _ in numbers}

    def _recent(self, conn: engine.Connection, window: bool) -> Rows:
        """Return the rows that changed since the last read."""
        since = self._looked_us - OVERLAP_US
        found = self._since(conn, since)
        begin = self._windowed_us - WINDOW_US
        if window and not self._same(conn, found, begin, since):
            found |= self._read(conn, host_changes.numbers(conn, begin))
        return found

    def _since(self, conn: engine.Connection, since: int) -> Rows:
        if self._noted:  # read numbers only: most changes are probably known claims of this process
            return self._read(conn, host_changes.numbers(conn, since))
        rows = host_changes.numbers_and_usage(conn, since)
        used, others = self._different(row[:3] for row in rows)
        found = {row[0]: _used(self.rows[row[0]], dict(zip(host_changes.USAGE, row[2:])))
                 for row in rows if row[0] in used and row[3] is not None}
        return {**found, **self._others(conn, others)}

    def _same(self, conn: engine.Connection, found: Rows, since: int, until: int) -> bool:
        """Tell, by comparing sums, whether all rows with change numbers in [since, until) are known or in ``found``."""
        return host_changes.number_sums(conn, since, until) == self._numbers.sums(self.rows, found, since, until)

    def _read(self, conn: engine.Connection, numbers: Numbers) -> Rows:
        """Read the rows with change numbers that differ from the known rows."""
        used, others = self._different(numbers)
        found = self._others(conn, others)
        for row in host_changes.usage(conn, used) if used else ():
            found[row['id']] = _used(self.rows[row['id']], row)
        return found

    def _different(self, numbers: Numbers) -> tuple[set[int], set[int]]:
        """Return (known nodes with only a new usage_change_number, new nodes and nodes with other changes)."""
        used, others = set(), set()
        for node, changed, usage_change_number in numbers:
            row = self.rows.get(node)
            if row is None or row['change_number'] != changed:
                others.add(node)
            elif row['usage_change_number'] != usage_change_number:
                used.add(node)
        return used, others

    def _others(self, conn: engine.Connection, nodes: set[int]) -> Rows:
        return {row['id']: row for row in self._of_cell(host_changes.nodes(conn, nodes))} if nodes else {}

    def _of_cell(self, rows: collections.abc.Iterable[Row]) -> collections.abc.Iterator[Row]:
        for row in rows:
            row['cell'] = self.cell.uuid
            yield row

    def busy(self) -> dict[tuple[str, str], int]:
        """Return {(host, node): number of servers in a task with high disk and network load}, without zeros."""
        with self.cell.db.reader() as conn:
            return hosts_db.busy_servers(conn)

    def heartbeats(self) -> Heartbeats:
        """Return {host: last heartbeat} of the compute services, read in chunks to keep transactions short.

        If all heartbeats are overdue, the cell could not write any. The times are then shifted by the age of the newest
        heartbeat, as in services.any_up.
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


class _ChangeNumbers:
    """Change numbers of the rows of a CellNodes as arrays, because sums over thousands of dicts are slow."""

    COLUMNS = ('change_number', 'usage_change_number')

    def __init__(self) -> None:
        self._positions: dict[int, int] | None = None
        self._arrays: tuple[np.ndarray, ...] = ()

    def apply(self, rows: Rows, changed: Rows, removed: set[int]) -> None:
        """Update the arrays; called before ``changed`` and ``removed`` are applied to ``rows``."""
        if removed or not changed.keys() <= rows.keys():
            self._positions = None  # ``sums`` rebuilds it
        elif self._positions is not None:
            self._write(self._positions, self._arrays, changed)

    def sums(self, rows: Rows, found: Rows, since: int, until: int) -> list[tuple[int, int]]:
        """Compute host_changes.number_sums without the database, for ``rows`` after an update with ``found``."""
        if self._positions is None:
            self._positions = {node: position for position, node in enumerate(rows)}
            self._arrays = tuple(np.fromiter(map(operator.itemgetter(name), rows.values()), np.int64, len(rows))
                                 for name in self.COLUMNS)
        positions, arrays = self._positions, tuple(array.copy() for array in self._arrays)
        self._write(positions, arrays, {node: row for node, row in found.items() if node in positions})
        new = [row for node, row in found.items() if node not in positions]
        sums = []
        for name, array in zip(self.COLUMNS, arrays):
            array = np.append(array, list(map(operator.itemgetter(name), new))).astype(np.int64)
            array = array[(array >= since) & (array < until)]
            sums.append((len(array), int((array % host_changes.MODULUS).sum())))
        return sums

    def _write(self, positions: dict[int, int], arrays: tuple[np.ndarray, ...], rows: Rows) -> None:
        if not rows:
            return
        chosen = [positions[node] for node in rows]
        for name, array in zip(self.COLUMNS, arrays):
            array[chosen] = list(map(operator.itemgetter(name), rows.values()))


class HostTable:
    """The hosts of all cells in one view.

    :param cells: db.cells.cells.Cells
    :param heartbeat_s: seconds between two reads of the heartbeats. A third of service_down_time is sufficient: a late
        read can only make a host seem down, never up.
    """

    def __init__(self, cells: db_cells.Cells, heartbeat_s: float = 5) -> None:
        self._cells, self._heartbeat_s = cells, heartbeat_s
        self._lock = threading.Lock()
        self._nodes: dict[str, CellNodes] = {}  # {uuid of a cell: its nodes}
        self._unreachable: dict[str, float] = {}  # {uuid of a cell: time of the next attempt to read it}
        self._positions: dict[tuple[str, int], int] = {}  # {(uuid of a cell, node): position in the view}
        self._view = host_view.Hosts([])
        self._read_at = self._heartbeats_read_at = self._others_read_at = float('-inf')
        self._counted_at = float('-inf')  # time at which ``synchronize`` last read busy servers and all heartbeats
        # uuids of non-default cells in which this scheduler has claimed resources since it last read the cell
        self._claimed_cells: set[str] = set()
        metrics.HOSTS.watch(self, lambda table: {(): len(table._view)})
        metrics.HOSTS_AGE.watch(self, lambda table: {(): time.monotonic() - table._read_at}
                                if table._nodes else {})

    def size(self) -> int:
        """Return the number of nodes in the last view."""
        return len(self._view.ids)

    def hosts(self, *, full: bool = False, fresh_s: float = FRESH_S) -> host_view.Hosts:
        """Return a view in which the data of the default cell is at most a few milliseconds old.

        Other cells may be slow. They are read less often, and by the next call after a claim in the cell.
        :param full: read all cells, because no host was found or a claim failed on stale data
        :param fresh_s: age in seconds after which the table is read again
        """
        with self._lock:
            if full or time.monotonic() - self._read_at > fresh_s:
                nodes = self._nodes_of(self._cells.default)
                self._merge(nodes, *nodes.read_changes(full))
                if full or time.monotonic() - self._heartbeats_read_at > 2 * self._heartbeat_s:
                    self._merge_heartbeats(nodes, nodes.heartbeats())
                    self._heartbeats_read_at = time.monotonic()
                self._read_at = time.monotonic()
            if full or len(self._nodes) > 1:
                self._read_other_cells(full)
            return self._view

    def _read_other_cells(self, full: bool) -> None:
        """Read all cells except the default cell in parallel. The caller holds the lock.

        Only ``synchronize`` reads unreachable cells, because no request waits for ``synchronize``.
        """
        due = full or time.monotonic() - self._others_read_at > OTHER_CELLS_INTERVAL_S
        cells = [cell for cell in self._cells.all()[1:]
                 if (due or cell.uuid in self._claimed_cells) and cell.uuid not in self._unreachable]
        if not cells:
            return
        nodes = {cell.uuid: self._nodes_of(cell) for cell in cells}
        self._claimed_cells -= nodes.keys()  # cleared before the read: a claim during the read needs another read

        def look(cell: db_cells.Cell) -> tuple[Changes, Heartbeats]:
            here = nodes[cell.uuid]
            return here.read_changes(full), here.heartbeats() if full else {}
        found, down = self._cells.ask(cells, look, None if full else READ_TIMEOUT_S)
        for cell, (changes, seen) in found:
            self._merge(nodes[cell.uuid], *changes)
            self._merge_heartbeats(nodes[cell.uuid], seen)
        for cell in down:
            self._unreachable[cell.uuid] = time.monotonic() + UNREACHABLE_S
            self._drop_cell(cell.uuid)
        if due:
            self._others_read_at = time.monotonic()

    def mark_claimed(self, cell: db_cells.Cell) -> None:
        """Make the next call of ``hosts`` read this cell, because this process has claimed resources in it."""
        if cell is not self._cells.default:
            self._claimed_cells.add(cell.uuid)

    def exclude_cell(self, cell_uuid: str) -> None:
        """Remove the hosts of an unreachable or deleted cell, and do not read the cell for UNREACHABLE_S."""
        with self._lock:
            self._unreachable[cell_uuid] = time.monotonic() + UNREACHABLE_S
            self._drop_cell(cell_uuid)

    def synchronize(self) -> None:
        """Periodic task: read all cells. Read heartbeats and numbers of busy servers less often."""
        count = time.monotonic() - self._counted_at > self._heartbeat_s
        self._others_read_at = float('-inf')
        self.hosts()
        default, *others = self._cells.all()
        present = {cell.uuid: cell for cell in (default, *others)}
        with self._lock:
            for cell_uuid, known in list(self._nodes.items()):
                if cell_uuid not in present:
                    LOG.warning('Cell %s was deleted and gets no servers.', cell_uuid)
                if known.cell is not present.get(cell_uuid):  # deleted, or a new object with another database
                    self._drop_cell(cell_uuid)
        others = [cell for cell in others if time.monotonic() >= self._unreachable.get(cell.uuid, 0)]
        fresh = {cell.uuid for cell in others} - self._nodes.keys()

        def look(cell: db_cells.Cell) -> tuple[CellNodes, Changes, Heartbeats, dict[tuple[str, str], int] | None]:
            # self.hosts() has already read the known cells
            nodes = self._nodes_of(cell)
            return (nodes, nodes.read_changes() if cell.uuid in fresh else ({}, set()),
                    *((nodes.heartbeats(), nodes.busy()) if count else ({}, None)))
        found, down = self._cells.ask(others, look) if others else ([], [])
        for nodes, changes, seen, servers in [look(default), *(result for _, result in found)]:
            with self._lock:
                if self._nodes.get(nodes.cell.uuid) is not nodes:
                    continue  # exclude_cell has removed the cell in the meantime
                self._unreachable.pop(nodes.cell.uuid, None)
                self._merge(nodes, *changes)
                self._merge_heartbeats(nodes, seen)
                if servers is not None:
                    self._merge_busy(nodes, servers)
        for cell in down:
            LOG.warning('Cannot read the hosts of cell %s; it gets no servers.', cell.name)
            self.exclude_cell(cell.uuid)
        if count:
            self._counted_at = self._heartbeats_read_at = time.monotonic()

    def note_usage(self, cell: db_cells.Cell, usage: Usage) -> None:
        """Record usage that claims of this process have just written.

        :param usage: {node of the cell: columns of host_changes.USAGE}
        """
        with self._lock:
            nodes = self._nodes_of(cell)
            self._merge(nodes, nodes.with_usage(usage), set())

    def _nodes_of(self, cell: db_cells.Cell) -> CellNodes:
        return self._nodes.setdefault(cell.uuid, CellNodes(cell, self._heartbeat_s))

    def _merge(self, nodes: CellNodes, changed: Rows, removed: set[int]) -> None:
        """Apply the changes of a cell to its rows and to the view."""
        cell, known = nodes.cell.uuid, {node: nodes.rows[node] for node in changed if node in nodes.rows}
        for node, row in changed.items():
            row['io_ops'] = _busy_now(row, known.get(node))
        nodes.apply(changed, removed)
        if removed or len(known) < len(changed):
            self._rebuild_view()
            return
        usage: Rows = {}
        others: Rows = {}
        seen: dict[int, datetime.datetime | None] = {}
        for node, row in changed.items():
            before, position = known[node], self._positions[cell, node]
            if row['change_number'] != before['change_number'] and not host_view.USAGE.issuperset(
                    name for name, value in row.items() if value is not before.get(name) and value != before.get(name)):
                others[position] = row
                continue
            usage[position] = row
            if row['last_seen_at'] != before['last_seen_at']:
                seen[position] = row['last_seen_at']
        if others:
            self._view = self._view.with_rows(others)
        if usage:
            self._view = self._view.with_usage(usage)
            self._update_last_seen(seen)

    def _merge_heartbeats(self, nodes: CellNodes, seen: Heartbeats) -> None:
        """Store heartbeats in the rows and in the view."""
        changed: dict[int, datetime.datetime | None] = {}
        for node, row in nodes.rows.items():
            moment = seen.get(row['host'])
            if moment is not None and moment != row['last_seen_at']:
                row['last_seen_at'] = moment
                changed[self._positions[row['cell'], node]] = moment
        self._update_last_seen(changed)

    def _merge_busy(self, nodes: CellNodes, servers: dict[tuple[str, str], int]) -> None:
        """Store the numbers of busy servers, {(host, node): number}, in the rows and in the view."""
        changed = {}
        for node, row in list(nodes.rows.items()):
            number = servers.get((row['host'], row['node']), 0)
            if number != row['io_ops']:
                nodes.rows[node] = {**row, 'io_ops': number}
                changed[self._positions[row['cell'], node]] = nodes.rows[node]
        if changed:
            self._view = self._view.with_usage(changed)

    def _update_last_seen(self, moments: dict[int, datetime.datetime | None]) -> None:
        if moments:
            self._view = self._view.with_seen(moments)

    def _drop_cell(self, cell_uuid: str) -> None:
        """Remove the known hosts of a cell from the view. The caller holds the lock."""
        if self._nodes.pop(cell_uuid, None):
            self._read_at = float('-inf')  # the next call of ``hosts`` reads the default cell
            self._rebuild_view()

    def _rebuild_view(self) -> None:
        """Rebuild the view, because nodes were added or removed."""
        rows = [row for nodes in self._nodes.values() for row in nodes.rows.values()]
        self._positions = {(row['cell'], row['id']): position for position, row in enumerate(rows)}
        self._view = host_view.Hosts(rows)


def _used(row: Row, usage: collections.abc.Mapping[str, int | None]) -> Row:
    """Return a copy of a row in which some columns of host_changes.USAGE have new values."""
    return typing.cast(Row, {**row, **usage})


def _busy_now(row: Row, before: Row | None) -> int:
    """Estimate the number of busy servers until ``busy`` is called again: count each server that was added."""
    if before is None:
        return 0
    return before['io_ops'] + max(0, row['running_vms'] - before['running_vms'])
