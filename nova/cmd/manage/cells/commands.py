"""nova-manage cell_v2: list, create and change cells; for their hosts and servers see ``contents``.

The commands read and write rows: no daemon has to run. They use the API database of the configuration. A missing URL is
taken from the configuration. Daemons notice a change of rows within a minute.
"""
from __future__ import annotations

import uuid as uuidlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast, TYPE_CHECKING

from nova import exception
from nova.cmd import tables
from nova.cmd.command_line import flag
from nova.cmd.manage.cells import contents
from nova.cmd.manage.cells import known as known_cells
from nova.cmd.manage.cells.known import CELL
from nova.cmd.manage.cells.known import outcome

if TYPE_CHECKING:
    from nova.db.tables.rows import CellsRow
    from oslo_config import cfg

_NAME = {'metavar': 'NAME', 'help': 'name of the cell'}
_TRANSPORT = {'metavar': 'URL', 'help': 'transport URL of the cell (default: the configured transport_url). It may '
                                        'contain variables such as {username}, which each service replaces with the '
                                        'values of its own transport_url'}
_DATABASE = {'metavar': 'URL', 'help': 'database URL of the cell (default: the configured [database] connection). It '
                                       'may contain variables, like the transport URL'}
_TAKEN = 'Cell with the specified transport_url and/or database_connection combination already exists'


# ---- cells -------------------------------------------------------------------

def list_cells(conf: cfg.ConfigOpts, verbose: bool) -> None:
    """List the cells; passwords are masked unless --verbose is given."""
    from nova.db.cells import urls as cell_urls
    known = known_cells.Known(conf)
    rows = []
    for row in known.rows:
        # --verbose shows stored URLs with their variables; an empty URL stands for the URL in the configuration
        urls = [row['transport_url'] or known.transport or '', row['database_url'] or known.database]
        rows.append((row['name'], row['uuid'], *(urls if verbose else map(cell_urls.masked, urls)), row['disabled']))
    tables.print_framed(('Name', 'UUID', 'Transport URL', 'Database Connection', 'Disabled'), rows)


def map_cell0(conf: cfg.ConfigOpts, database_connection: str | None, transport_url: str | None) -> None:
    """Register cell0, the cell of servers for which no host was found."""
    known = known_cells.Known(conf)
    if not _make_cell0(known, database_connection, transport_url):
        print('Cell0 is already setup')


def _make_cell0(known: known_cells.Known, database: str | None = None, transport: str | None = None) -> bool:
    """Create cell0; return False if it exists already.

    :raises InvalidInput: another cell uses the database
    """
    from nova.db.cells import cells
    from nova.db.cells import urls as cell_urls
    if known.get(cells.CELL0_UUID) is not None:
        return False
    database = database or cell_urls.of_cell0(known.database)
    transport = transport or known.transport or ''
    if transport:
        filled = known_cells.check_urls(known, transport, database)[1]
    else:
        filled = cell_urls.fill(database, known.database)
    other = known.using(None, filled)
    if other is not None:
        raise exception.InvalidInput(f"Cell {other['name']} uses this database. Delete it, or choose another database.")
    known.add({'uuid': cells.CELL0_UUID, 'name': 'cell0', 'database_url': database, 'transport_url': transport,
               'disabled': False})
    return True


def sync_cell0(conf: cfg.ConfigOpts) -> None:
    """Upgrade the schema of cell0 to the version of this code, if there is a cell0."""
    from nova.db import schema as migration
    from nova.db.cells import cells
    api_db = cells.open_database(conf, 'api_database', 'api.sqlite')
    if migration.version(api_db) is None:
        return                                      # there is no API database yet
    known = known_cells.Known(conf, api_db)
    row = known.get(cells.CELL0_UUID)
    if row is not None and known.urls(row)[1] != known.database:
        migration.sync(known.open(row), 'cell')


def create_cell(conf: cfg.ConfigOpts, name: str | None, transport_url: str | None, database_connection: str | None,
                verbose: bool, disabled: bool) -> int | None:
    """Register a cell. Exit code 1: a URL is missing or invalid; 2: another cell uses the broker or the database."""
    known = known_cells.Known(conf)
    transport, database = transport_url or known.transport, database_connection or known.database
    used = known.using(*known_cells.check_urls(known, transport, database))
    if used is not None:
        return outcome(f'{_TAKEN}: {used["name"]}', 2)
    if name and any(row['name'] == name for row in known.rows):
        raise exception.InvalidInput(f'There is a cell {name} already.')
    row = known.add({'uuid': str(uuidlib.uuid4()), 'name': name or known.free_name(), 'database_url': database,
                     'transport_url': transport or '', 'disabled': disabled})
    if verbose:
        print(row['uuid'])
    return None


def update_cell(conf: cfg.ConfigOpts, cell_uuid: str, name: str | None, transport_url: str | None,
                database_connection: str | None, disable: bool, enable: bool) -> int:
    """Change a cell.

    Exit code 1: unknown cell; 2: invalid change; 3: another cell has the URL; 4: --disable and --enable; 5: cell0
    cannot be disabled.
    """
    from nova.db.cells import cells
    from nova.db.cells import rows as cell_rows
    known = known_cells.Known(conf)
    row = known.find(cell_uuid)
    if disable and enable:
        return outcome('Cell cannot be disabled and enabled at the same time.', 4)
    if (disable or enable) and cell_uuid == cells.CELL0_UUID:
        return outcome('Cell0 cannot be disabled.', 5)
    values = {'name': name, 'transport_url': transport_url, 'database_url': database_connection,
              'disabled': True if disable else False if enable else None}
    values = {key: value for key, value in values.items() if value is not None}
    if not values:                     # without arguments, use the configured URLs
        values = {'transport_url': known.transport or '', 'database_url': known.database}
    both = cast('CellsRow', {**row, **values})
    try:
        if 'transport_url' in values or 'database_url' in values:
            known_cells.check_urls(known, both['transport_url'] or known.transport,
                                   both['database_url'] or known.database)
    except exception.InvalidInput as error:
        return outcome(error.message, 2)
    transport, database = known.urls(both)
    if known.using(transport if 'transport_url' in values and cell_uuid != cells.CELL0_UUID else None,
                   database if 'database_url' in values else None, but=cell_uuid):
        return outcome(_TAKEN + '.', 3)
    if any(other['name'] == both['name'] and other is not row for other in known.rows):
        return outcome(f'There is a cell {name} already.', 2)
    known.api_db.run(cell_rows.update, cell_uuid, values)
    return 0


def delete_cell(conf: cfg.ConfigOpts, cell_uuid: str, force: bool) -> int:
    """Delete an empty cell. Exit code 1: unknown; 2: hosts; 3: servers; 4: mappings of deleted servers."""
    from nova.db.cells import rows as cell_rows
    known = known_cells.Known(conf)
    row = known.find(cell_uuid)
    with known.api_db.reader() as conn:
        hosts = cell_rows.hosts(conn, cell_uuid)
    if hosts and not force:
        return outcome(f'There are existing hosts mapped to cell with uuid {cell_uuid}.', 2)
    any_mapped, database = False, None           # an empty cell needs no database: it may be gone, or mistyped
    for uuids in _mapped(known, cell_uuid):
        any_mapped, database = True, database or known.open(row)
        with database.reader() as conn:
            if cell_rows.any_exists(conn, uuids):
                return outcome(f'There are existing instances mapped to cell with uuid {cell_uuid}.', 3)
    if any_mapped and not force:
        return outcome(f'There are instance mappings to cell with uuid {cell_uuid}, but all instances have been '
                       'deleted in the cell. Use --force to delete them, too.', 4)
    known.api_db.run(cell_rows.delete, cell_uuid)
    return 0


def _mapped(known: known_cells.Known, cell_uuid: str) -> Iterator[Sequence[str]]:
    """Yield the uuids of the servers that are mapped to a cell, in batches."""
    from nova.db.cells import rows as cell_rows
    marker = ''
    while True:
        with known.api_db.reader() as conn:
            uuids = cell_rows.mapped(conn, cell_uuid, marker, 500)
        if not uuids:
            return
        yield uuids
        marker = uuids[-1]


def simple_cell_setup(conf: cfg.ConfigOpts, transport_url: str | None) -> int:
    """Set up a deployment with one cell. Exit code 1: no compute host has reported, or transport_url is missing."""
    from nova.db.cells import rows as cell_rows
    known = known_cells.Known(conf)
    if not (transport_url or known.transport):
        raise exception.InvalidInput('Give --transport-url, or set transport_url in the configuration. A cloud in one '
                                     'process, nova-all, needs no setup.')
    cell = _own_cell(known, None, transport_url)
    _make_cell0(known, transport=transport_url)
    if contents.map_hosts(known, cell):
        return 0
    with known.api_db.reader() as conn:
        if cell_rows.hosts(conn):
            return outcome('All hosts are already mapped to cell(s).', 0)
    return outcome('No hosts found to map to cell, exiting.', 1)


def map_cell_and_hosts(conf: cfg.ConfigOpts, name: str | None, transport_url: str | None, verbose: bool) -> None:
    """Register the cell of the configured database, and map its hosts."""
    known = known_cells.Known(conf)
    cell = _own_cell(known, name, transport_url)
    if not contents.map_hosts(known, cell):
        print('All hosts are already mapped to cell(s).')
    if verbose:
        print(cell['uuid'])


def _own_cell(known: known_cells.Known, name: str | None, transport: str | None) -> CellsRow:
    """Return the row of the cell with the configured database; create a missing row.

    :raises InvalidInput: a URL is missing or not valid
    """
    transport = transport or known.transport
    _filled, database = known_cells.check_urls(known, transport, known.database)
    found = next((row for row in known.rows if known.urls(row)[1] == database), None)
    return found or known.add({'uuid': str(uuidlib.uuid4()), 'name': name or known.free_name(), 'disabled': False,
                               'database_url': known.database, 'transport_url': transport or ''})


# options of nova-manage db sync
SYNC = {'--local_cell': flag('do not change cell0')}
COMMANDS: dict[str, Callable[..., int | None]] = {function.__name__: function for function in (
    simple_cell_setup, map_cell0, map_cell_and_hosts, create_cell, update_cell, list_cells, delete_cell)}
COMMANDS.update(contents.COMMANDS)
OPTIONS = {
    simple_cell_setup: {'--transport-url': _TRANSPORT},
    map_cell0: {'--database_connection': {
        **_DATABASE, 'help': 'database URL of cell0 (default: the configured URL with the suffix _cell0)'},
                '--transport-url': _TRANSPORT},
    map_cell_and_hosts: {'--name': _NAME, '--transport-url': _TRANSPORT,
                         '--verbose': flag("print the cell's uuid")},
    create_cell: {'--name': _NAME, '--transport-url': _TRANSPORT, '--database_connection': _DATABASE,
                  '--verbose': flag("print the cell's uuid"), '--disabled': flag('create the cell as disabled: it '
                                                                                 'gets no new servers')},
    update_cell: {'--cell_uuid': CELL, '--name': _NAME, '--transport-url': _TRANSPORT,
                  '--database_connection': _DATABASE, '--disable': flag('disable the cell: it gets no new servers'),
                  '--enable': flag('enable the cell for new servers')},
    list_cells: {'--verbose': flag('show passwords in the URLs')},
    delete_cell: {'--cell_uuid': CELL, '--force': flag('also delete the hosts of the cell and the mappings of '
                                                       'deleted servers')},
    **contents.OPTIONS,
}
EXIT_CODES = contents.EXIT_CODES
