"""Cells: where servers live. One cell is the default and makes itself known in the API database; others are rows of
the table ``cells`` with a database URL of their own.
"""
import logging
import os
import threading
import time
import uuid as uuidlib
from concurrent import futures

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova.db import engine
from nova.db.tables_api import cells

LOG = logging.getLogger(__name__)

DEFAULT_CELL = 'cell1'
REFRESH_S = 60                # how long a new row may stay unnoticed by who lists all cells
THREADS = 8                   # requests that ask one of several cells at the same time

# A database that cannot be asked, whatever is asked of it.
UNREACHABLE = (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase, sa.exc.OperationalError, sa.exc.TimeoutError)


class Cell:
    """One cell; its database is opened at first use.

    :param open: function that opens it
    """

    def __init__(self, uuid, name, open):
        self.uuid, self.name = uuid, name
        self._open, self._db = open, None
        self._lock = threading.Lock()
        self._executor = None
        self._down_until = 0

    @property
    def db(self):
        if self._db is None:
            with self._lock:
                if self._db is None:
                    self._db = self._open()
        return self._db

    def submit(self, function):
        """A future of ``function(cell)``; None while the cell is known not to answer."""
        if time.monotonic() < self._down_until:
            return None
        if self._executor is None:
            self._executor = futures.ThreadPoolExecutor(THREADS, thread_name_prefix=f'cell-{self.name}')
        return self._executor.submit(function, self)

    def rest(self, seconds):
        """It did not answer in time: nobody waits for it again so soon."""
        self._down_until = time.monotonic() + seconds


def _ask(asked, function, timeout):
    """See Cells.scatter; without a timeout the cells are asked in this thread, one after the other."""
    found, down, pending = [], [], []
    for cell in asked:
        future = timeout and cell.submit(function)
        if timeout and future is None:
            down.append(cell)
        else:
            pending.append((cell, future))
    deadline = time.monotonic() + (timeout or 0)
    for cell, future in pending:
        try:
            result = future.result(max(0, deadline - time.monotonic())) if future else function(cell)
        except futures.TimeoutError:
            LOG.warning('Cell %s did not answer within %s s.', cell.name, timeout)
            future.cancel()
            cell.rest(timeout)
            down.append(cell)
        except UNREACHABLE as error:
            LOG.warning('Cell %s cannot be reached: %s', cell.name, error)
            down.append(cell)
        else:
            found.append((cell, result))
    return found, down


def state_path(conf):
    """The directory of everything that this deployment keeps."""
    if conf.state_path:
        return conf.state_path
    return '/var/lib/nova' if os.getuid() == 0 else os.path.expanduser('~/.local/share/nova')


def open_database(conf, group, default_file):
    """The Database of one option group; without a URL it is an SQLite file below the state path."""
    options = conf[group]
    url = options.connection or 'sqlite:///' + os.path.join(state_path(conf), default_file)
    return engine.Database(url, pool_size=options.max_pool_size, max_overflow=options.max_overflow)


class Cells:
    """The cells of a deployment.

    :param conf: [database] names the default cell's database
    :param api_db: Database of the API database
    :param db: Database of the default cell where it is open already
    """

    def __init__(self, conf, api_db, db=None):
        self._conf, self._api_db = conf, api_db
        self._db = db or open_database(conf, 'database', DEFAULT_CELL + '.sqlite')
        self._lock = threading.RLock()
        self._default, self._known, self._read_at = None, {}, None

    @property
    def default(self):
        """The cell of [database]; its row is made at first use."""
        with self._lock:
            if self._default is None:
                self._default = Cell(self._api_db.run(self._register), DEFAULT_CELL, lambda: self._db)
                self._known = {self._default.uuid: self._default}
            return self._default

    def get(self, uuid):
        """A cell by its uuid, or None."""
        if self.default.uuid == uuid:
            return self._default
        return self._known.get(uuid) or self._read().get(uuid)

    def all(self):
        """Every cell, the default one first."""
        default = self.default
        known = self._known
        if self._read_at is None or time.monotonic() > self._read_at + REFRESH_S:
            known = self._read()
        return [default, *(cell for cell in known.values() if cell is not default)]

    def scatter(self, function, only=None):
        """([(cell, result)], [cells that are down]) of ``function(cell)`` called for every cell, side by side.

        A cell is down when its database cannot be reached or, where there are several cells, when it has not answered
        after [api] cell_timeout. Other errors of the function are the caller's.

        :param only: the one cell to ask, instead of all
        """
        every = self.all()
        timeout = self._conf.api.cell_timeout if len(every) > 1 else None
        return _ask([only] if only else every, function, timeout)

    def refresh(self):
        """Notice new cells at once."""
        self._read_at = None

    def _read(self):
        with self._lock:
            with self._api_db.reader() as conn:
                rows = conn.execute(sa.select(cells).where(cells.c.database_url != '').order_by(cells.c.name)).all()
            default = self.default
            known = {default.uuid: default}
            for row in rows:
                if row.uuid != default.uuid:
                    known[row.uuid] = self._known.get(row.uuid) or Cell(row.uuid, row.name, self._opener(row))
            self._known, self._read_at = known, time.monotonic()
            return known

    def _opener(self, row):
        options = self._conf.database
        return lambda: engine.Database(row.database_url, pool_size=options.max_pool_size,
                                       max_overflow=options.max_overflow)

    def _register(self, conn):
        find = sa.select(cells.c.uuid).where(cells.c.name == DEFAULT_CELL)
        found = conn.execute(find).scalar()
        if found is None:
            engine.insert_ignore(conn, cells, {
                'uuid': str(uuidlib.uuid4()), 'name': DEFAULT_CELL, 'disabled': False,
                'database_url': '', 'transport_url': ''})      # '': what the configuration says
            found = conn.execute(find).scalar()
        return found
