"""The hosts as the scheduler sees them: a table in memory that follows the databases of all cells.

It is read anew by change numbers; what it says may be a moment old, and that is fine, because the claim's condition
decides. Where nothing has changed, a look costs a cell's database one SELECT on two indexes.
"""
import datetime
import logging
import threading
import time

import numpy as np
import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.services import services as services_db
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import services
from nova.runtime import metrics
from nova.scheduler import host_view
from nova.scheduler.filters import busy

LOG = logging.getLogger(__name__)

FRESH_S = 0.005              # a look within so many seconds of the last one finds nothing new worth a query
OVERLAP_US = 20_000          # a look goes back so far behind the last one
WINDOW_US = 5_000_000        # and once in WINDOW_S so far: commits become visible out of order, and clocks differ
WINDOW_S = 2
WHOLE_S = 60                 # removed nodes are noticed by reading all change numbers
AGAIN_S = 1                  # not more often than that, whoever wants it: the window shows the rest
FAR_US = 2 ** 62              # behind all change numbers
CHUNK = 1000                 # rows of one SELECT
ELSEWHERE_S = 0.5            # other cells are looked at so often; where this scheduler has claimed, at once
NO_TIME = datetime.timedelta()
AWAY_S = 30                  # a cell that could not be reached is not asked again for so long
LOOK_S = 2                   # a look at what has changed takes milliseconds: a cell holds up requests no longer

USED = ('used_changed', *(name + '_used' for name in host_view.RESOURCES), 'running_vms')    # what claims write

_c = compute_nodes.c


def _since(*usage):
    """Rows of (node, changed, used_changed, …): those whose other columns have changed, without these, and those whose
    usage has, with them.
    """
    numbers = _c.id, _c.changed, _c.used_changed
    return sa.union_all(
        sa.select(*numbers, *(sa.null().label(column.name) for column in usage)).where(
            _c.changed >= sa.bindparam('since')),
        sa.select(*numbers, *usage).where(_c.used_changed >= sa.bindparam('used_since')))


# the usage at once, or where many rows are read that are known first which are not
_RECENT = _since(*[_c[name] for name in USED[1:]])
_WINDOW = _since()
_NUMBERS = sa.select(_c.id, _c.changed, _c.used_changed)
MODULUS = 2 ** 31 - 1        # sums of remainders fit into 64 bits, those of change numbers do not


def _sums(*columns):
    """Of each column how many and what they add up to, where they are in [since, until): tells in one row whether
    thousands are what they were.
    """
    return sa.union_all(*[sa.select(sa.func.count(), sa.func.sum(column % MODULUS)).where(
        column >= sa.bindparam('since'), column < sa.bindparam('until')) for column in columns])


_SUMS = _sums(_c.changed, _c.used_changed)
_USED = sa.select(_c.id, *[_c[name] for name in USED]).where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_ROWS = sa.select(*[_c[name] for name in dict.fromkeys([*host_view.NODE_COLUMNS, *USED])],
                  *[services.c[name] for name in host_view.SERVICE_COLUMNS]).select_from(
    compute_nodes.outerjoin(services, sa.and_(services.c.host == _c.host, services.c.topic == 'compute')))
_SOME = _ROWS.where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_SEEN = sa.select(services.c.id, services.c.host, services.c.last_seen_at).where(
    services.c.topic == 'compute', services.c.id > sa.bindparam('after')).order_by(services.c.id).limit(CHUNK)


class Follower:
    """Follows one cell's compute nodes and their services.

    rows    {number of a node: its row}, a dict of host_view's columns with the cell's uuid as ``cell``; another dict
            when it changes. Its ``last_seen_at`` alone is written in place.

    :param quiet_s: seconds in which some heartbeat comes
    """

    def __init__(self, cell, quiet_s):
        self.cell, self._quiet_s = cell, quiet_s
        self.rows = {}
        self._numbers = _Numbers()
        self._looked_us = self._windowed_us = 0          # change numbers of the last looks
        self._windowed = self._whole = float('-inf')
        self._noted = False

    def look(self, whole=False):
        """What has changed since the last look: ({node: its row}, {nodes that are gone}), for ``accept``.

        :param whole: compare all change numbers
        """
        now, number = time.monotonic(), utils.change_number()
        wanted, whole = whole, now - self._whole > (AGAIN_S if whole else WHOLE_S)
        window = False
        with self.cell.db.reader() as conn:
            if not self.rows:
                changed, gone = {row['id']: row for row in self._full(conn, _ROWS)}, set()
            elif whole:
                changed, gone = self._all(conn)
            else:
                window = now - self._windowed > WINDOW_S or wanted
                changed, gone = self._recent(conn, window), set()
        self._looked_us, self._noted = number, False
        if whole or window:
            self._windowed, self._windowed_us = now, number
        if whole:
            self._whole = now
        return changed, gone

    def accept(self, changed, gone):
        self._numbers.accept(self.rows, changed, gone)
        self.rows.update(changed)
        for node in gone:
            del self.rows[node]

    def note(self, used):
        """The rows of nodes into which a claim of our own has just written these columns: {node: row}; not of those
        that were read when somebody else had claimed there after it.
        """
        self._noted = True
        return {node: {**self.rows[node], **values} for node, values in used.items()
                if node in self.rows and self.rows[node]['used_changed'] < values['used_changed']}

    def _all(self, conn):
        """({node: its row} of what has changed, {nodes that are gone}), whenever that was."""
        if self._same(conn, {}, 0, FAR_US):
            return {}, set()
        numbers = conn.execute(_NUMBERS).all()
        return self._read(conn, numbers), self.rows.keys() - {node for node, _, _ in numbers}

    def _recent(self, conn, window):
        """{node: its row} of what has changed lately."""
        since = self._looked_us - OVERLAP_US
        found = self._since(conn, since)
        begin = self._windowed_us - WINDOW_US
        if window and not self._same(conn, found, begin, since):
            found |= self._read(conn, conn.execute(_WINDOW, {'since': begin, 'used_since': begin}).all())
        return found

    def _since(self, conn, since):
        if self._noted:                          # much is going on, and most of it is known
            return self._read(conn, conn.execute(_WINDOW, {'since': since, 'used_since': since}).all())
        rows = conn.execute(_RECENT, {'since': since, 'used_since': since}).all()
        used, others = self._different(row[:3] for row in rows)
        found = {row[0]: {**self.rows[row[0]], **dict(zip(USED, row[2:]))}
                 for row in rows if row[0] in used and row[3] is not None}
        return {**found, **self._others(conn, others)}

    def _same(self, conn, found, since, until):
        """Whether the change numbers in [since, until) are those of our rows and what was found since, without reading
        them.
        """
        theirs = [(count, int(total or 0)) for count, total in
                  conn.execute(_SUMS, {'since': since, 'until': until})]
        return theirs == self._numbers.sums(self.rows, found, since, until)

    def _read(self, conn, numbers):
        """{node: its row} of those of [(node, changed, used_changed)] that are not known."""
        used, others = self._different(numbers)
        found = self._others(conn, others)
        for part in _parts(used):
            for row in statements.dicts(conn.execute(_USED, {'ids': part})):
                found[row['id']] = {**self.rows[row['id']], **row}
        return found

    def _different(self, numbers):
        """({nodes whose usage alone is not known}, {nodes whose other columns are not})."""
        used, others = set(), set()
        for node, changed, used_changed in numbers:
            row = self.rows.get(node)
            if row is None or row['changed'] != changed:
                others.add(node)
            elif row['used_changed'] != used_changed:
                used.add(node)
        return used, others

    def _others(self, conn, nodes):
        return {row['id']: row for part in _parts(nodes) for row in self._full(conn, _SOME, {'ids': part})}

    def _full(self, conn, statement, parameters=None):
        for row in statements.dicts(conn.execute(statement, parameters or {})):
            row['cell'] = self.cell.uuid
            yield row

    def busy(self):
        """{(host, node): servers in a task that keeps its disks and network busy}, of the nodes that have any."""
        with self.cell.db.reader() as conn:
            return busy.busy_servers(conn)

    def heartbeats(self):
        """{host: when it was last seen} of the compute services, in slices, so that nobody waits for long.

        Silence counts up to the newest heartbeat of any service, as for services.any_up, where none came when some
        should have: in between moments stay what they are.
        """
        found, after, gap = {}, 0, None
        while True:
            with self.cell.db.reader() as conn:
                part = conn.execute(_SEEN, {'after': after}).all()
                if gap is None:
                    gap = services_db.unheard(conn, utils.utcnow()) or NO_TIME
                    gap = gap if gap.total_seconds() > self._quiet_s else NO_TIME
            found.update((host, seen and seen + gap) for _, host, seen in part)
            if len(part) < CHUNK:
                return found
            after = part[-1][0]


class _Numbers:
    """The change numbers of a Follower's rows, as arrays: to add up thousands takes no time."""

    COLUMNS = ('changed', 'used_changed')

    def __init__(self):
        self._positions, self._arrays = None, ()

    def accept(self, rows, changed, gone):
        """The rows are about to change so."""
        if gone or not changed.keys() <= rows.keys():          # a difference would go through all rows
            self._positions = None                   # made anew when it is needed
        elif self._positions is not None:
            self._write(self._arrays, changed)

    def sums(self, rows, found, since, until):
        """[(how many, what their remainders add up to)] of each column's numbers in [since, until)."""
        if self._positions is None:
            self._positions = {node: position for position, node in enumerate(rows)}
            self._arrays = tuple(np.fromiter((row[name] for row in rows.values()), np.int64, len(rows))
                                 for name in self.COLUMNS)
        arrays = tuple(array.copy() for array in self._arrays)
        self._write(arrays, {node: row for node, row in found.items() if node in self._positions})
        new = [row for node, row in found.items() if node not in self._positions]
        sums = []
        for name, array in zip(self.COLUMNS, arrays):
            array = np.append(array, [row[name] for row in new]).astype(np.int64)
            array = array[(array >= since) & (array < until)]
            sums.append((len(array), int((array % MODULUS).sum())))
        return sums

    def _write(self, arrays, rows):
        if not rows:
            return
        positions = [self._positions[node] for node in rows]
        for name, array in zip(self.COLUMNS, arrays):
            array[positions] = [row[name] for row in rows.values()]


def _parts(nodes):
    nodes = sorted(nodes)
    return (nodes[begin:begin + CHUNK] for begin in range(0, len(nodes), CHUNK))


class HostTable:
    """The hosts of all cells, in one view.

    :param cells: db.cells.Cells
    :param heartbeat_s: seconds after which heartbeats are read again. One that is older than it could be makes a host
                        look down, never up: a third of the time after which hosts are down is enough.
    """

    def __init__(self, cells, heartbeat_s=5):
        self._cells, self._heartbeat_s = cells, heartbeat_s
        self._lock = threading.Lock()
        self._followers, self._away = {}, {}
        self._positions = {}                  # (cell uuid, node): position
        self._view = host_view.Hosts([])
        self._looked = self._heard = self._looked_elsewhere = float('-inf')
        self._touched = set()                 # uuids of other cells in which this scheduler has just claimed
        metrics.HOSTS.watch(self, lambda table: {(): len(table._view)})
        metrics.HOSTS_AGE.watch(self, lambda table: {(): time.monotonic() - table._looked}
                                if table._followers else {})

    def size(self):
        """How many nodes the last view had."""
        return len(self._view.ids)

    def hosts(self, *, whole=False, fresh_s=FRESH_S):
        """A view that is true to the database of the default cell as of a few milliseconds ago.

        Other cells may be slow, and are looked at less often, unless this scheduler has claimed there.

        :param whole: look at everything: no host was found, or a claim found the table to be wrong
        :param fresh_s: seconds after which it is looked at again
        """
        with self._lock:
            if whole or time.monotonic() - self._looked > fresh_s:
                follower = self._follower(self._cells.default)
                self._merge(follower, *follower.look(whole))
                if whole or time.monotonic() - self._heard > 2 * self._heartbeat_s:
                    self._hear(follower, follower.heartbeats())
                    self._heard = time.monotonic()
                self._looked = time.monotonic()
            if whole or len(self._followers) > 1:
                self._look_elsewhere(whole)
            return self._view

    def _look_elsewhere(self, whole):
        """Look at the other cells, side by side; the lock is held.

        One that was away is looked at by ``follow`` alone, where nobody waits for it.
        """
        due = whole or time.monotonic() - self._looked_elsewhere > ELSEWHERE_S
        cells = [cell for cell in self._cells.all()[1:]
                 if (due or cell.uuid in self._touched) and cell.uuid not in self._away]
        if not cells:
            return
        followers = {cell.uuid: self._follower(cell) for cell in cells}
        self._touched -= followers.keys()            # before: what is claimed meanwhile may not be seen

        def look(cell):
            follower = followers[cell.uuid]
            return follower.look(whole), follower.heartbeats() if whole else {}
        found, down = self._cells.ask(cells, look, None if whole else LOOK_S)
        for cell, (changes, seen) in found:
            self._merge(followers[cell.uuid], *changes)
            self._hear(followers[cell.uuid], seen)
        for cell in down:
            self._away[cell.uuid] = time.monotonic() + AWAY_S
            self._forget(cell)
        if due:
            self._looked_elsewhere = time.monotonic()

    def touched(self, cell):
        """Claims of our own have changed a cell: the next view shows it."""
        if cell is not self._cells.default:
            self._touched.add(cell.uuid)

    def leave_out(self, cell):
        """A cell could not be reached: nothing is placed there for now."""
        with self._lock:
            self._away[cell.uuid] = time.monotonic() + AWAY_S
            self._forget(cell)

    def follow(self):
        """Look at all cells, and at the heartbeats when it is time: what a periodic task does."""
        hear = time.monotonic() - self._heard > self._heartbeat_s
        self._looked_elsewhere = float('-inf')
        self.hosts()
        default, *others = self._cells.all()
        others = [cell for cell in others if time.monotonic() >= self._away.get(cell.uuid, 0)]
        fresh = {cell.uuid for cell in others} - self._followers.keys()

        def look(cell):
            # of a cell that was looked at just now not once more
            follower = self._follower(cell)
            return (follower, follower.look() if cell.uuid in fresh else ({}, set()),
                    *((follower.heartbeats(), follower.busy()) if hear else ({}, None)))
        found, down = self._cells.ask(others, look) if others else ([], [])
        for follower, changes, seen, servers in [look(default), *(result for _, result in found)]:
            with self._lock:
                if self._followers.get(follower.cell.uuid) is not follower:
                    continue                                 # a claim has found it to be away
                self._away.pop(follower.cell.uuid, None)
                self._merge(follower, *changes)
                self._hear(follower, seen)
                if servers is not None:
                    self._count_busy(follower, servers)
        for cell in down:
            LOG.warning('The hosts of cell %s cannot be followed.', cell.name)
            self.leave_out(cell)
        if hear:
            self._heard = time.monotonic()

    def note(self, cell, used):
        """Claims of our own have just written these columns of USED: {node of the cell: {column: value}}."""
        with self._lock:
            follower = self._follower(cell)
            self._merge(follower, follower.note(used), set())

    def _follower(self, cell):
        return self._followers.setdefault(cell.uuid, Follower(cell, self._heartbeat_s))

    def _merge(self, follower, changed, gone):
        """What a follower has found, into its rows and the view."""
        cell, known = follower.cell.uuid, {node: follower.rows.get(node) for node in changed}
        for node, row in changed.items():
            row['io_ops'] = _busy_now(row, known[node])
        follower.accept(changed, gone)
        if gone or None in known.values():
            self._show()
            return
        usage, others = {}, {}
        for node, row in changed.items():
            before = known[node]
            same = row['changed'] == before['changed'] or host_view.USAGE.issuperset(
                name for name, value in row.items() if value is not before[name] and value != before[name])
            (usage if same else others)[self._positions[cell, node]] = row
        if others:
            self._view = self._view.with_rows(others)
        if usage:
            self._view = self._view.with_usage(usage)
            self._show_seen({position: row['last_seen_at'] for position, row in usage.items()
                             if row['last_seen_at'] != known[row['id']]['last_seen_at']})

    def _hear(self, follower, seen):
        """Heartbeats {host: moment} into the rows and the view, all of whose other arrays stay."""
        changed = {}
        for node, row in follower.rows.items():
            moment = seen.get(row['host'])
            if moment is not None and moment != row['last_seen_at']:
                row['last_seen_at'] = moment
                changed[self._positions[row['cell'], node]] = moment
        self._show_seen(changed)

    def _count_busy(self, follower, servers):
        """Servers that keep their nodes busy, {(host, node): number}, into the rows and the view."""
        changed = {}
        for node, row in list(follower.rows.items()):
            number = servers.get((row['host'], row['node']), 0)
            if number != row['io_ops']:
                follower.rows[node] = {**row, 'io_ops': number}
                changed[self._positions[row['cell'], node]] = follower.rows[node]
        if changed:
            self._view = self._view.with_usage(changed)

    def _show_seen(self, moments):
        if moments:
            self._view = self._view.with_seen(moments)

    def _forget(self, cell):
        """A cell is away: nothing can be placed there; the lock is held."""
        if self._followers.pop(cell.uuid, None):
            self._looked = float('-inf')         # if it is the default one: the next view looks there again
            self._show()

    def _show(self):
        """A view of all rows anew: hosts came or went."""
        rows = [row for follower in self._followers.values() for row in follower.rows.values()]
        self._positions = {(row['cell'], row['id']): position for position, row in enumerate(rows)}
        self._view = host_view.Hosts(rows)


def _busy_now(row, before):
    """Until they are counted again: what has come to a node is being built there, or moves."""
    if before is None:
        return 0
    return before['io_ops'] + max(0, row['running_vms'] - before['running_vms'])
