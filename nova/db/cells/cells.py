"""Cells. Each cell is a row of the table ``cells`` with the URLs of the cell's database and message broker.

The home cell of a process is the cell of its [database] option. A deployment of one cell needs no setup: its row is
created automatically with empty URLs, which stand for those in the configuration. In a deployment of several cells,
cell0 is the home cell of the API, the schedulers and their conductor. cell0 also has the servers without a host.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent import futures
import logging
import math
import os
import threading
import time
from typing import Any, NoReturn, TypeVar
import uuid as uuidlib

from oslo_config.cfg import ConfigOpts
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova.db import engine
from nova.db import errors
from nova.db import statements
from nova.db.cells import urls as cell_urls
from nova.db.servers import mappings
from nova.db.tables.api import cells
from nova.db.tables.rows import CellsRow
from nova.runtime import concurrency
from nova.runtime import host_identity

LOG = logging.getLogger(__name__)

_Result = TypeVar('_Result')
DEFAULT_CELL = 'cell1'
CELL0_UUID = '00000000-0000-0000-0000-000000000000'
REGISTERED_S, REGISTER_PAUSE_S = 60, 1
REFRESH_S = 60                # maximum age of the list of all cells in seconds
THREADS = 8                   # maximum number of concurrent requests to a cell, if there are several cells

# errors of an unreachable database
UNREACHABLE = (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase, db_exc.DBNonExistentTable,
               errors.Unwritable, sa.exc.OperationalError, sa.exc.TimeoutError)


class Cell:
    """One cell; its database and broker connections are opened at first use.

    database_url, transport_url    URLs, or '' for the values of the configuration
    disabled                       the cell gets no new servers
    :param row: row of the table ``cells``
    :param open: function that opens the database
    :param connect: function that returns the clients of the cell's services
    """

    def __init__(self, row: CellsRow, open: Callable[[], engine.Database], connect: Callable[[], Any]) -> None:
        self.uuid = row['uuid']
        self.database_url = row['database_url']
        self.transport_url = row['transport_url']
        self.follow(row)
        self._open = open
        self._db: engine.Database | None = None
        self._connect = connect
        self._rpc: Any = None
        self._lock = threading.Lock()
        self._executor: futures.ThreadPoolExecutor | None = None
        self._down_until: float = 0

    @property
    def db(self) -> engine.Database:
        opened = self._db
        if opened is None:
            with self._lock:
                opened = self._db
                if opened is None:
                    opened = self._db = self._open()
        return opened

    @property
    def rpc(self) -> Any:
        """Clients of the cell's services: ``.compute``, ``.conductor``, ``.network``, ``.scheduler``."""
        if self._rpc is None:
            with self._lock:
                if self._rpc is None:
                    self._rpc = self._connect()
        return self._rpc

    def follow(self, row: CellsRow) -> None:
        """Update the attributes that may change while the cell is in use: name and disabled."""
        self.name = row['name']
        self.disabled = row['disabled']

    def close(self) -> None:
        """Close the cell's connections; the next use opens them again."""
        with self._lock:
            opened, self._db = self._db, None
            connected, self._rpc = self._rpc, None
            self._executor = None             # needs no shutdown: the threads of an unreferenced executor end
        if opened is not None:
            opened.dispose()
        if connected is not None:
            connected.close()

    def submit(self, function: Callable[[Cell], _Result]) -> futures.Future[_Result] | None:
        """Return a future of ``function(cell)``, or None while the cell is known to be down."""
        if time.monotonic() < self._down_until:
            return None
        executor = self._executor
        if executor is None:
            executor = self._executor = futures.ThreadPoolExecutor(THREADS, thread_name_prefix=f'cell-{self.name}')
        return executor.submit(concurrency.with_context(self._ask), function)

    def _ask(self, function: Callable[[Cell], _Result]) -> _Result:
        try:
            return function(self)
        except db_exc.DBConnectionError:
            return function(self)         # retry, because the server may have closed an idle connection

    def rest(self, seconds: float) -> None:
        """Mark the cell as down for some seconds."""
        self._down_until = time.monotonic() + seconds


def _ask(cells: list[Cell], function: Callable[[Cell], _Result],
         timeout: float | None) -> tuple[list[tuple[Cell, _Result]], list[Cell]]:
    """Implement Cells.scatter. Without a timeout, this thread calls the function for one cell after the other."""
    found: list[tuple[Cell, _Result]] = []
    down: list[Cell] = []
    pending: list[tuple[Cell, futures.Future[_Result] | None]] = []
    for cell in cells:
        future = cell.submit(function) if timeout else None
        if timeout and future is None:
            down.append(cell)
        else:
            pending.append((cell, future))
    deadline = time.monotonic() + (timeout or 0)
    for cell, future in pending:
        try:
            result = function(cell) if future is None else future.result(max(0, deadline - time.monotonic()))
        except futures.TimeoutError as error:
            # a TimeoutError that the function raised is not a timeout of the cell
            if future is None or timeout is None or (future.done() and future.exception() is error):
                raise
            LOG.warning('Cell %s did not answer within %s s.', cell.name, timeout)
            future.cancel()
            cell.rest(timeout)
            down.append(cell)
        except UNREACHABLE as error:
            LOG.warning('Cell %s cannot be reached: %s', cell.name, errors.reason(error))
            if timeout:
                cell.rest(timeout)
            down.append(cell)
        else:
            found.append((cell, result))
    return found, down


def open_database(conf: ConfigOpts, group: str, default_file: str) -> engine.Database:
    """Return the Database of an option group; without a URL, an SQLite file in the state path."""
    options = conf[group]
    url = options.connection or 'sqlite:///' + os.path.join(host_identity.state_path(conf), default_file)
    made = engine.Database(url, pool_size=options.max_pool_size, max_overflow=options.max_overflow,
                           name='api' if group == 'api_database' else 'cell')
    made.keep_spare_room()
    return made


class Cells:
    """The cells of a deployment.

    :param conf: [database] names the database of this process's home cell
    :param api_db: Database of the API database
    :param db: Database of the home cell, if it is already open
    :param connect: function(transport URL) that returns the clients of a cell's services; '' is the process's own bus
    """

    def __init__(self, conf: ConfigOpts, api_db: engine.Database, db: engine.Database | None = None,
                 connect: Callable[[str], Any] | None = None) -> None:
        self._conf, self._api_db = conf, api_db
        self._db = db or open_database(conf, 'database', DEFAULT_CELL + '.sqlite')
        self._connect = connect or _unconnected
        self._lock = threading.RLock()
        self._default: Cell | None = None
        self._known: dict[str, Cell] = {}
        self._read_at: float | None = None

    @property
    def api_db(self) -> engine.Database:
        """The API database."""
        return self._api_db

    @property
    def default(self) -> Cell:
        """The home cell, which [database] names. A missing row is created at first use.

        :raises InvalidInput: only other cells exist, or none exists and the account may not create it
        """
        default = self._default
        if default is None:                  # read without the lock, which _read() may hold for long
            with self._lock:
                default = self._default
                if default is None:
                    with engine.joining(None):       # do not insert the caller's audit record here
                        row = self._registered()
                    default = Cell(row, lambda: self._db, lambda: self._connect(''))
                    self._known = {default.uuid: default}
                    self._default = default
        return default

    @property
    def top(self) -> Cell:
        """The cell whose broker the schedulers use: cell0, or the default cell if there is no cell0."""
        return next((cell for cell in self.all() if cell.uuid == CELL0_UUID), self.default)

    def get(self, uuid: str) -> Cell | None:
        """Return a cell by its uuid, or None."""
        if self.default.uuid == uuid:
            return self.default
        return self._known.get(uuid) or self._read().get(uuid)

    def of_server(self, uuid: str) -> Cell:
        """Return the cell of a server.

        :raises InstanceNotFound: there are several cells, and the server has no mapping
        """
        cell = self.default if len(self.all()) == 1 else self.mapped(uuid)
        if cell is None:
            raise exception.InstanceNotFound(instance_id=uuid)
        return cell

    def mapped(self, uuid: str) -> Cell | None:
        """Return the cell in the mapping of a server, or None if the server has no mapping."""
        with self._api_db.reader() as conn:
            mapping = mappings.get(conn, uuid)
        return None if mapping is None else self.get(mapping['cell_uuid'])

    def all(self) -> list[Cell]:
        """Return every cell, the default cell first."""
        default = self.default
        known = self._known
        if self._read_at is None or time.monotonic() > self._read_at + REFRESH_S:
            known = self._read()
        return [default, *(cell for cell in known.values() if cell is not default)]

    def scatter(self, function: Callable[[Cell], _Result],
                only: Cell | None = None) -> tuple[list[tuple[Cell, _Result]], list[Cell]]:
        """Call ``function(cell)`` for every cell in parallel; return ([(cell, result)], [cells that are down]).

        A cell is down if its database is unreachable or, with several cells, if it does not answer within [api]
        cell_timeout. Other errors of the function propagate to the caller.
        :param only: cell to call instead of all cells
        """
        every = self.all()
        timeout = self._conf.api.cell_timeout if len(every) > 1 else None
        return _ask([only] if only else every, function, timeout)

    def read(self, function: Callable[[sa.Connection], _Result],
             only: Cell | None = None) -> tuple[list[tuple[Cell, _Result]], list[Cell]]:
        """Call ``function(conn)`` with a reading connection for every cell; see ``scatter``."""
        def ask(cell: Cell) -> _Result:
            with cell.db.reader() as conn:
                return function(conn)
        return self.scatter(ask, only)

    def ask(self, cells: list[Cell], function: Callable[[Cell], _Result],
            most_s: int | None = None) -> tuple[list[tuple[Cell, _Result]], list[Cell]]:
        """Call ``function(cell)`` for these cells; see ``scatter``.

        :param most_s: shorter timeout in seconds
        """
        return _ask(cells, function, min(self._conf.api.cell_timeout, most_s or math.inf))

    def refresh(self) -> None:
        """Make new cells visible immediately."""
        self._read_at = None

    def close(self) -> None:
        """Close this process's connections to other cells."""
        with self._lock:
            for cell in self._known.values():
                if cell is not self._default:
                    cell.close()

    def _read(self) -> dict[str, Cell]:
        with self._lock:
            with self._api_db.reader() as conn:
                rows = statements.rows(conn, cells, ('name',))
            default = self.default
            known = {default.uuid: default}
            for row in rows:
                if row['uuid'] == default.uuid:
                    default.follow(row)
                elif row['database_url']:
                    known[row['uuid']] = self._cell(row)
            left = [cell for cell in self._known.values() if cell is not known.get(cell.uuid)]
            self._known, self._read_at = known, time.monotonic()
        for cell in left:                     # cells that were deleted or have other URLs
            cell.close()
        return known

    def _cell(self, row: CellsRow) -> Cell:
        """Return the Cell of a row: the existing object, or a new object if the URLs have changed."""
        cell = self._known.get(row['uuid'])
        if cell is None or (cell.database_url, cell.transport_url) != (row['database_url'], row['transport_url']):
            return Cell(row, self._opener(row), lambda: self._connect(self._transport_url(row)))
        cell.follow(row)
        return cell

    def _opener(self, row: CellsRow) -> Callable[[], engine.Database]:
        options = self._conf.database

        def opened() -> engine.Database:
            try:
                return engine.Database(self._database_url(row), pool_size=options.max_pool_size,
                                       max_overflow=options.max_overflow, name=f'cell {row["name"]}', wait=False)
            except exception.InvalidInput as error:          # callers expect this error of an unreachable cell
                raise db_exc.DBConnectionError(error) from error
        return opened

    def _database_url(self, row: CellsRow) -> str:
        return cell_urls.fill(row['database_url'], self._db.url.render_as_string(hide_password=False))

    def _transport_url(self, row: CellsRow) -> str:
        return cell_urls.fill(row['transport_url'], getattr(self._conf, 'transport_url', None))

    def _registered(self) -> CellsRow:
        """Return the row of the home cell, created if necessary.

        If the database account of this process may only read (nova-network on a host), another daemon must create the
        row within REGISTERED_S.
        """
        try:
            return self._api_db.run(self._register)
        except errors.Forbidden as error:
            LOG.warning('No cell is registered, and the account of this daemon may not register the cell of [database] '
                        'connection (%s). Waiting for another daemon to do it: start a nova-conductor or nova-api.',
                        errors.reason(error))
            denied = error
        deadline = time.monotonic() + REGISTERED_S
        while time.monotonic() < deadline:
            time.sleep(REGISTER_PAUSE_S)
            with self._api_db.reader() as conn:            # only read, because each refused write is logged
                if (row := self._home(conn)) is not None:
                    return row
        raise exception.InvalidInput(
            'The cell of [database] connection has no row, and the account of this daemon may not create '
            'it: start a nova-conductor or nova-api first.') from denied

    def _register(self, conn: sa.Connection) -> CellsRow:
        """Return the row that has the URL of [database], otherwise the row without a URL. If neither exists, create the
        row without a URL.
        """
        own = self._home(conn)
        if own is None:
            engine.insert_ignore(conn, cells, {
                'uuid': str(uuidlib.uuid4()), 'name': DEFAULT_CELL, 'disabled': False,
                'database_url': '', 'transport_url': ''})      # '' means: as configured
            own = self._home(conn)
        if own is None:
            raise exception.InvalidInput('[database] connection names the database of no cell: '
                                         f'{self._db.url.render_as_string(hide_password=True)}')
        return own

    def _home(self, conn: sa.Connection) -> CellsRow | None:
        rows, own = statements.rows(conn, cells), _place(self._db.url)
        return next((row for row in rows if row['database_url'] and _place(self._database_url(row)) == own),
                    next((row for row in rows if not row['database_url']), None))


def _place(url: str | sa.URL) -> tuple[str, str | None, int | None, str | None, Mapping[str, Any]]:
    """Return the location of a database, without the account, because passwords change."""
    url = sa.make_url(url)
    return url.get_backend_name(), url.host, url.port, url.database, url.query


def _unconnected(url: str) -> NoReturn:
    raise exception.ServiceUnavailable(service='broker')
