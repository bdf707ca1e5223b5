"""The hosts as the scheduler sees them: a table in memory that follows the databases of all cells.

It is read anew by change numbers; what it says may be a moment old, and that is fine, because the claim's condition
decides. Where nothing has changed, a look costs a cell's database one SELECT on two indexes.
"""
import logging
import threading
import time

import sqlalchemy as sa

from nova import utils
from nova.db import cells as db_cells
from nova.db import statements
from nova.db.tables_cell import compute_nodes
from nova.db.tables_cell import services
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
AWAY_S = 30                  # a cell that could not be reached is not asked again for so long

USED = ('used_changed', *(name + '_used' for name in host_view.RESOURCES), 'running_vms')    # what claims write

_c = compute_nodes.c


def _since(*columns):
    statement = sa.select(_c.id, _c.changed, *columns)
    return sa.union_all(statement.where(_c.changed >= sa.bindparam('since')),
                        statement.where(_c.used_changed >= sa.bindparam('used_since')))


# the usage at once, or where many rows are read that are known first which are not
_RECENT = _since(*[_c[name] for name in USED])
_WINDOW = _since(_c.used_changed)
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
    """

    def __init__(self, cell):
        self.cell = cell
        self.rows = {}
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
        self.rows.update(changed)
        for node in gone:
            del self.rows[node]

    def note(self, used):
        """The rows of nodes into which a claim of our own has just written these columns: {node: row}."""
        self._noted = True
        return {node: {**self.rows[node], **values} for node, values in used.items() if node in self.rows}

    def _all(self, conn):
        """({node: its row} of what has changed, {nodes that are gone}), whenever that was."""
        if self._same(conn, self.rows, 0, FAR_US):
            return {}, set()
        numbers = conn.execute(_NUMBERS).all()
        return self._read(conn, numbers), self.rows.keys() - {node for node, _, _ in numbers}

    def _recent(self, conn, window):
        """{node: its row} of what has changed lately."""
        since = self._looked_us - OVERLAP_US
        found = self._since(conn, since)
        begin = self._windowed_us - WINDOW_US
        if window and not self._same(conn, {**self.rows, **found}, begin, since):
            found |= self._read(conn, conn.execute(_WINDOW, {'since': begin, 'used_since': begin}).all())
        return found

    def _since(self, conn, since):
        if self._noted:                          # much is going on, and most of it is known
            return self._read(conn, conn.execute(_WINDOW, {'since': since, 'used_since': since}).all())
        rows = statements.dicts(conn.execute(_RECENT, {'since': since, 'used_since': since}))
        found = {row['id']: row for row in rows}
        used, others = self._different((node, row['changed'], row['used_changed']) for node, row in found.items())
        return {**{node: {**self.rows[node], **found[node]} for node in used}, **self._others(conn, others)}

    def _same(self, conn, rows, since, until):
        """Whether the change numbers in [since, until) are those of these rows, without reading them."""
        theirs = [(count, int(total or 0)) for count, total in
                  conn.execute(_SUMS, {'since': since, 'until': until})]
        ours = []
        for name in ('changed', 'used_changed'):
            numbers = [number for row in rows.values() if since <= (number := row[name]) < until]
            ours.append((len(numbers), sum(number % MODULUS for number in numbers)))
        return theirs == ours

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
        """{host: when it was last seen} of the compute services, in slices, so that nobody waits for long."""
        found, after = {}, 0
        while True:
            with self.cell.db.reader() as conn:
                part = conn.execute(_SEEN, {'after': after}).all()
            found.update((host, seen) for _, host, seen in part)
            if len(part) < CHUNK:
                return found
            after = part[-1][0]


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
        self._looked = self._heard = float('-inf')

    def hosts(self, *, whole=False, fresh_s=FRESH_S):
        """A view that is true to the database of the default cell as of a few milliseconds ago.

        Other cells may be slow: ``follow`` looks at them.

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
            return self._view

    def follow(self):
        """Look at all cells, and at the heartbeats when it is time: what a periodic task does."""
        hear = time.monotonic() - self._heard > self._heartbeat_s
        self.hosts()
        for cell in self._cells.all():
            if time.monotonic() < self._away.get(cell.uuid, 0):
                continue
            follower = self._follower(cell)
            try:
                # nobody waits for a slow cell: its follower is looked after here alone
                found = None if cell is self._cells.default else follower.look()
                seen, servers = (follower.heartbeats(), follower.busy()) if hear else ({}, None)
            except db_cells.UNREACHABLE as error:
                if cell is self._cells.default:
                    raise
                LOG.warning('The hosts of cell %s cannot be followed: %s', cell.name, error)
                self._away[cell.uuid] = time.monotonic() + AWAY_S
                self._forget(cell)
                continue
            with self._lock:
                if found is not None:
                    self._merge(follower, *found)
                self._hear(follower, seen)
                if servers is not None:
                    self._count_busy(follower, servers)
        if hear:
            self._heard = time.monotonic()

    def note(self, cell, used):
        """Claims of our own have just written these columns of USED: {node of the cell: {column: value}}."""
        with self._lock:
            follower = self._follower(cell)
            self._merge(follower, follower.note(used), set())

    def _follower(self, cell):
        return self._followers.setdefault(cell.uuid, Follower(cell))

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
        """A cell is away: nothing can be placed there."""
        with self._lock:
            if self._followers.pop(cell.uuid, None):
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
