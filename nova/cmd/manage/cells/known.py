"""Shared lookups of the cell commands: rows of cells, and their URLs with variables filled in."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import command_line

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.tables.rows import CellsRow

CELL = {'required': True, 'metavar': 'UUID', 'help': 'uuid of the cell'}         # the option --cell_uuid


def _api_database(conf: cfg.ConfigOpts) -> engine.Database:
    """Open the API database.

    :raises DatabaseNotReady: its schema has another version than this code
    """
    from nova.db import schema as migration
    from nova.db.cells import cells
    api_db = cells.open_database(conf, 'api_database', 'api.sqlite')
    migration.check(api_db, 'api')
    return api_db


def _configured(conf: cfg.ConfigOpts) -> tuple[str | None, str]:
    """Return (transport URL or None, database URL) of the configuration."""
    from nova.db.cells import cells
    from nova.rpc import bus
    bus.register_options(conf)
    return conf.transport_url or None, cells.open_database(conf, 'database', cells.DEFAULT_CELL + '.sqlite').url \
        .render_as_string(hide_password=False)


class Known:
    """Rows of cells, and their URLs with variables filled in.

    :param conf: the configuration
    :param api_db: Database of the API database with any schema; None: open it, with the schema of this code
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database | None = None) -> None:
        from nova.db.cells import rows as cell_rows
        self.conf, self.api_db = conf, api_db or _api_database(conf)
        self.transport, self.database = _configured(conf)
        with self.api_db.reader() as conn:
            self.rows = cell_rows.list(conn)

    def get(self, uuid: str) -> CellsRow | None:
        return next((row for row in self.rows if row['uuid'] == uuid), None)

    def find(self, uuid: str) -> CellsRow:
        """Return the row of a cell by the uuid from the command line.

        :raises Ended: there is no such cell
        """
        row = self.get(uuid)
        if row is None:
            raise command_line.Ended(f'Cell with uuid {uuid} was not found.', 1)
        return row

    def urls(self, row: CellsRow) -> tuple[str, str]:
        """Return (transport URL, database URL) with variables filled in; '' for a broker that is not configured."""
        from nova.db.cells import urls as cell_urls
        return (cell_urls.fill(row['transport_url'], self.transport) or self.transport or '',
                cell_urls.fill(row['database_url'], self.database) or self.database)

    def using(self, transport: str | None, database: str | None, but: str | None = None) -> CellsRow | None:
        """Return the first cell other than ``but`` with this broker or database; the broker of cell0 is ignored."""
        from nova.db.cells import cells
        for row in self.rows:
            if row['uuid'] != but:
                theirs = self.urls(row)
                if database == theirs[1] or transport and transport == theirs[0] and row['uuid'] != cells.CELL0_UUID:
                    return row
        return None

    def open(self, row: CellsRow) -> engine.Database:
        """Return the Database of a cell."""
        from nova.db import engine
        return engine.Database(self.urls(row)[1])

    def add(self, row: CellsRow) -> CellsRow:
        from nova.db.cells import rows as cell_rows
        self.api_db.run(cell_rows.insert, row)
        self.rows.append(row)
        return row

    def free_name(self) -> str:
        taken = {row['name'] for row in self.rows}
        return next(name for name in map('cell{}'.format, range(1, len(taken) + 2)) if name not in taken)


def check_urls(known: Known, transport: str | None, database: str) -> tuple[str, str]:
    """Return both URLs, resolved for this process.

    :raises InvalidInput: a URL is missing or malformed
    """
    import oslo_messaging

    from nova.db.cells import urls as cell_urls
    from nova.rpc import transport_url
    if not transport:
        raise exception.InvalidInput('Give --transport-url, or set transport_url in the configuration.')
    filled = cell_urls.fill(transport, known.transport), cell_urls.fill(database, known.database)
    try:
        url = transport_url.parse(known.conf, filled[0])
        if not url.transport or not url.hosts:
            raise exception.InvalidInput('The transport URL contains no broker.')
    except oslo_messaging.InvalidTransportURL:
        raise exception.InvalidInput('The transport URL is not valid.') from None
    cell_urls.check_database(filled[1])
    return filled


def outcome(sentence: str, code: int) -> int:
    """Print the result of a command on standard output, where deployment tools read it; return its exit code."""
    print(sentence)
    return code
