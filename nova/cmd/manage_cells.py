"""nova-manage cell_v2: which cells there are, and what is in them.

The commands read and write rows: no daemon has to run. They use the API database of the configuration; a URL that is
not given is the configured one. Daemons notice a change of rows within a minute.
"""
import uuid as uuidlib

BATCH = 50                    # servers that are mapped in one transaction
INVALID, UNEXPECTED = 127, 255

_CELL = {'required': True, 'metavar': 'UUID', 'help': 'of the cell'}
_ANY_CELL = {**_CELL, 'required': False}
_NAME = {'metavar': 'NAME', 'help': 'of the cell'}
_TRANSPORT = {'metavar': 'URL', 'help': "of the cell's broker; the configured transport_url unless given. It may have "
                                        'variables such as {username}, filled from that one by who uses it'}
_DATABASE = {'metavar': 'URL', 'help': "of the cell's database; the configured [database] connection unless given. It "
                                       'may have variables, as the other one'}


def _flag(text, **more):
    return {'action': 'store_true', 'help': text, **more}


def _api_db(conf):
    """The API database.

    :raises DatabaseNotReady: its schema is not the one of this code
    """
    from nova.db import cells
    from nova.db import migration
    api_db = cells.open_database(conf, 'api_database', 'api.sqlite')
    migration.check(api_db, 'api')
    return api_db


def _configured(conf):
    """(transport URL or None, database URL) of the configuration."""
    from nova.db import cells
    from nova.rpc import bus
    bus.register_options(conf)
    return conf.transport_url or None, cells.open_database(conf, 'database', cells.DEFAULT_CELL + '.sqlite').url \
        .render_as_string(hide_password=False)


class _Known:
    """The rows of cells, with what their URLs mean here.

    :param conf: the configuration
    :param api_db: Database of the API database, whatever its schema; None: it must be of this code
    """

    def __init__(self, conf, api_db=None):
        from nova.db import cell_rows
        self.conf, self.api_db = conf, api_db or _api_db(conf)
        self.transport, self.database = _configured(conf)
        with self.api_db.reader() as conn:
            self.rows = cell_rows.list(conn)

    def get(self, uuid):
        return next((row for row in self.rows if row['uuid'] == uuid), None)

    def urls(self, row):
        """(transport URL, database URL) as they are used here; '' for a broker that is not configured."""
        from nova.db import cell_urls
        return (cell_urls.fill(row['transport_url'], self.transport) or self.transport or '',
                cell_urls.fill(row['database_url'], self.database) or self.database)

    def using(self, transport, database, but=None):
        """The first other cell that has this broker or this database; those of cell0 may be elsewhere, too."""
        from nova.db import cells
        for row in self.rows:
            if row['uuid'] != but:
                theirs = self.urls(row)
                if database == theirs[1] or transport and transport == theirs[0] and row['uuid'] != cells.CELL0_UUID:
                    return row
        return None

    def open(self, row):
        """The Database of a cell."""
        from nova.db import engine
        return engine.Database(self.urls(row)[1])

    def add(self, row):
        from nova.db import cell_rows
        self.api_db.run(cell_rows.insert, row)
        self.rows.append(row)
        return row

    def free_name(self):
        taken = {row['name'] for row in self.rows}
        return next(name for name in map('cell{}'.format, range(1, len(taken) + 2)) if name not in taken)


def _refuse(sentence):
    from nova import exception
    raise exception.InvalidInput(sentence)


def _check_urls(known, transport, database):
    """Both as they are used here.

    :raises InvalidInput: one is missing or no URL
    """
    import oslo_messaging
    import sqlalchemy as sa

    from nova.db import cell_urls
    if not transport:
        _refuse('Give --transport-url, or set transport_url in the configuration.')
    filled = cell_urls.fill(transport, known.transport), cell_urls.fill(database, known.database)
    try:
        url = oslo_messaging.TransportURL.parse(known.conf, filled[0])
        if not url.transport or not url.hosts:
            _refuse('The transport URL names no broker.')
    except oslo_messaging.InvalidTransportURL:
        _refuse('The transport URL is not valid.')
    try:
        if sa.make_url(filled[1]).get_backend_name() not in ('sqlite', 'mysql', 'mariadb', 'postgresql'):
            _refuse('The database connection is of a kind that is not supported.')
    except (sa.exc.ArgumentError, ValueError):
        _refuse('The database connection is not a URL.')
    return filled


def _table(header, rows):
    """A table with a frame: what scripts around these commands cut their columns from."""
    table = [[str(value) for value in row] for row in (header, *rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    frame = '+' + '+'.join('-' * (width + 2) for width in widths) + '+'
    print(frame)
    for number, row in enumerate(table):
        print('| ' + ' | '.join(value.ljust(width) for value, width in zip(row, widths)) + ' |')
        if number == 0:
            print(frame)
    print(frame)


# ---- cells -------------------------------------------------------------------

def list_cells(conf, verbose):
    """List the cells; passwords are masked unless --verbose is given."""
    from nova.db import cell_urls
    known = _Known(conf)
    rows = []
    for row in known.rows:
        # with --verbose as they stand in the row, variables and all, unless it leaves them to the configuration
        urls = [row['transport_url'] or known.transport or '', row['database_url'] or known.database]
        rows.append((row['name'], row['uuid'], *(urls if verbose else map(cell_urls.masked, urls)), row['disabled']))
    _table(('Name', 'UUID', 'Transport URL', 'Database Connection', 'Disabled'), rows)


def map_cell0(conf, database_connection, transport_url):
    """Make cell0 known, where servers stay that no host was found for."""
    known = _Known(conf)
    if _make_cell0(known, database_connection, transport_url):
        return
    print('Cell0 is already setup')


def _make_cell0(known, database=None, transport=None):
    """Whether there was none.

    :raises InvalidInput: its database is that of another cell
    """
    from nova.db import cells
    if known.get(cells.CELL0_UUID) is not None:
        return False
    database = database or _name_of_cell0(known.database)
    transport = transport or known.transport or ''
    if transport:
        filled = _check_urls(known, transport, database)[1]
    else:
        from nova.db import cell_urls
        filled = cell_urls.fill(database, known.database)
    other = known.using(None, filled)
    if other is not None:
        _refuse(f'Cell {other["name"]} has this database. Delete it, or name another database.')
    known.add({'uuid': cells.CELL0_UUID, 'name': 'cell0', 'database_url': database, 'transport_url': transport,
               'disabled': False})
    return True


def sync_cell0(conf):
    """Bring the schema of cell0 to the version of this code, where a cell0 is known."""
    import os

    from nova.db import cells
    from nova.db import migration
    api_db = cells.open_database(conf, 'api_database', 'api.sqlite')
    if api_db.sqlite and not os.path.exists(api_db.url.database) or migration.version(api_db) is None:
        return                                      # there is no API database yet
    known = _Known(conf, api_db)
    row = known.get(cells.CELL0_UUID)
    if row is not None and known.urls(row)[1] != known.database:
        migration.sync(known.open(row), 'cell')


def _name_of_cell0(url):
    """The configured database when its name says that it is the one of cell0, else its name with _cell0 behind it."""
    import sqlalchemy as sa
    url = sa.make_url(url)
    name = url.database or ''
    if url.get_backend_name() == 'sqlite':
        stem, dot, suffix = name.rpartition('.')
        stem, suffix = (stem, dot + suffix) if dot else (name, '')
    else:
        stem, suffix = name, ''
    if not stem.endswith('cell0'):
        url = url.set(database=f'{stem}_cell0{suffix}')
    return url.render_as_string(hide_password=False)


def create_cell(conf, name, transport_url, database_connection, verbose, disabled):
    """Make a cell known: 1 when a URL is missing or not valid, 2 when another cell has the broker or the database."""
    known = _Known(conf)
    transport, database = transport_url or known.transport, database_connection or known.database
    used = known.using(*_check_urls(known, transport, database))
    if used is not None:
        print(f'Cell with the specified transport_url and/or database_connection combination already exists: '
              f'{used["name"]}')
        return 2
    if name and any(row['name'] == name for row in known.rows):
        _refuse(f'There is a cell {name} already.')
    row = known.add({'uuid': str(uuidlib.uuid4()), 'name': name or known.free_name(), 'database_url': database,
                     'transport_url': transport, 'disabled': disabled})
    if verbose:
        print(row['uuid'])


def update_cell(conf, cell_uuid, name, transport_url, database_connection, disable, enable):
    """Change a cell: 1 there is none, 2 not possible, 3 another one has the URL, 4 both ways, 5 cell0 as well."""
    from nova import exception
    from nova.db import cell_rows
    from nova.db import cells
    known = _Known(conf)
    row = known.get(cell_uuid)
    if row is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    if disable and enable:
        return _say('Cell cannot be disabled and enabled at the same time.', 4)
    if (disable or enable) and cell_uuid == cells.CELL0_UUID:
        return _say('Cell0 cannot be disabled.', 5)
    values = {'name': name, 'transport_url': transport_url, 'database_url': database_connection,
              'disabled': True if disable else False if enable else None}
    values = {key: value for key, value in values.items() if value is not None}
    if not values:                     # asked for nothing else: what the configuration says
        values = {'transport_url': known.transport or '', 'database_url': known.database}
    both = {**row, **values}
    try:
        if 'transport_url' in values or 'database_url' in values:
            _check_urls(known, both['transport_url'] or known.transport, both['database_url'] or known.database)
    except exception.InvalidInput as error:
        return _say(error.message, 2)
    transport, database = known.urls(both)
    if known.using(transport if 'transport_url' in values and cell_uuid != cells.CELL0_UUID else None,
                   database if 'database_url' in values else None, but=cell_uuid):
        return _say('Cell with the specified transport_url and/or database_connection combination already exists.', 3)
    if any(other['name'] == both['name'] and other is not row for other in known.rows):
        return _say(f'There is a cell {name} already.', 2)
    known.api_db.run(cell_rows.update, cell_uuid, values)
    return 0


def _say(sentence, code):
    print(sentence)
    return code


def delete_cell(conf, cell_uuid, force):
    """Forget an empty cell: 1 there is none, 2 it has hosts, 3 it has servers, 4 mappings of servers that are gone."""
    from nova.db import cell_rows
    known = _Known(conf)
    row = known.get(cell_uuid)
    if row is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    with known.api_db.reader() as conn:
        hosts = cell_rows.hosts(conn, cell_uuid)
    if hosts and not force:
        return _say(f'There are existing hosts mapped to cell with uuid {cell_uuid}.', 2)
    any_mapped = False
    for uuids in _mapped(known, cell_uuid):
        any_mapped = True
        with known.open(row).reader() as conn:
            if cell_rows.any_exists(conn, uuids):
                return _say(f'There are existing instances mapped to cell with uuid {cell_uuid}.', 3)
    if any_mapped and not force:
        return _say(f'There are instance mappings to cell with uuid {cell_uuid}, but all instances have been deleted '
                    'in the cell. Use --force to delete them, too.', 4)
    known.api_db.run(cell_rows.delete, cell_uuid)
    return 0


def _mapped(known, cell_uuid):
    """Uuids of the servers that are mapped to a cell, in batches."""
    from nova.db import cell_rows
    marker = ''
    while True:
        with known.api_db.reader() as conn:
            uuids = cell_rows.mapped(conn, cell_uuid, marker, 500)
        if not uuids:
            return
        yield uuids
        marker = uuids[-1]


def simple_cell_setup(conf, transport_url):
    """Set up a deployment of one cell: 1 when no host reports, or no broker is named."""
    from nova.db import cell_rows
    known = _Known(conf)
    _make_cell0(known, transport=transport_url)
    cell = _own_cell(known, None, transport_url)
    if _map_hosts(known, cell):
        return 0
    with known.api_db.reader() as conn:
        if cell_rows.hosts(conn):
            return _say('All hosts are already mapped to cell(s).', 0)
    return _say('No hosts found to map to cell, exiting.', 1)


def map_cell_and_hosts(conf, name, transport_url, verbose):
    """Make the cell of the configured database known, and map its hosts."""
    known = _Known(conf)
    cell = _own_cell(known, name, transport_url)
    if not _map_hosts(known, cell):
        print('All hosts are already mapped to cell(s).')
    if verbose:
        print(cell['uuid'])


def _own_cell(known, name, transport):
    """The row of the cell of the configured database; it is made where there is none.

    :raises InvalidInput: a URL is missing or not valid
    """
    transport = transport or known.transport
    _filled, database = _check_urls(known, transport, known.database)
    found = next((row for row in known.rows if known.urls(row)[1] == database), None)
    return found or known.add({'uuid': str(uuidlib.uuid4()), 'name': name or known.free_name(), 'disabled': False,
                               'database_url': known.database, 'transport_url': transport})


# ---- hosts -------------------------------------------------------------------

def _map_hosts(known, cell, by_service=False, say=lambda sentence: None, thing='compute host'):
    """Map the hosts that report in a cell; the names of those that were not mapped before.

    :raises HostInAnotherCell: a host of this name is in another cell
    """
    from nova import exception
    from nova.db import cell_rows
    database = known.open(cell)
    try:
        with database.reader() as conn:
            hosts = cell_rows.reporting(conn, by_service)
    finally:
        database.dispose()
    with known.api_db.reader() as conn:
        known_cells = cell_rows.cells_of_hosts(conn)
    say(f'Found {len(hosts)} computes in cell: {cell["uuid"]}')
    new = []
    for host, uuid in hosts.items():
        say(f"Checking host mapping for {thing} '{host}': {uuid}")
        if known_cells.get(host) == cell['uuid']:
            continue
        place = known.api_db.run(cell_rows.map_host, host, cell['uuid'])
        if place != cell['uuid']:
            raise exception.HostInAnotherCell(host=host, cell=(known.get(place) or {'name': place})['name'])
        say(f"Creating host mapping for {thing} '{host}': {uuid}")
        new.append(host)
    return new


def discover_hosts(conf, cell_uuid, verbose, strict, by_service):
    """Map the hosts that report and are not mapped: 1 when --strict found none, 2 when a host is in two cells."""
    from nova import exception
    from nova.db import cells
    known = _Known(conf)
    say = print if verbose else lambda sentence: None
    if cell_uuid is None:
        chosen = known.rows
        say(f'Found {len(chosen)} cell mappings.')
    elif known.get(cell_uuid) is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    else:
        chosen = [known.get(cell_uuid)]
    new = []
    for row in chosen:
        if row['uuid'] == cells.CELL0_UUID:
            say('Skipping cell0 since it does not contain hosts.')
            continue
        say(f"Getting {'services' if by_service else 'computes'} from cell '{row['name']}': {row['uuid']}")
        try:
            new += _map_hosts(known, row, by_service, say, 'service' if by_service else 'compute host')
        except exception.HostInAnotherCell as error:
            return _say(error.message, 2)
    return 1 if strict and not new else 0


def list_hosts(conf, cell_uuid):
    """List the hosts of all cells or of one: 1 when there is no such cell."""
    from nova.db import cell_rows
    known = _Known(conf)
    if cell_uuid is not None and known.get(cell_uuid) is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    with known.api_db.reader() as conn:
        _table(('Cell Name', 'Cell UUID', 'Hostname'), cell_rows.hosts(conn, cell_uuid))
    return 0


def delete_host(conf, cell_uuid, host):
    """Forget a host without servers: 1 no such cell, 2 no such host, 3 it is in another cell, 4 it has servers."""
    from nova.db import cell_rows
    known = _Known(conf)
    cell = known.get(cell_uuid)
    if cell is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    with known.api_db.reader() as conn:
        place = cell_rows.cell_of_host(conn, host)
    if place is None:
        return _say(f'The host {host} was not found.', 2)
    if place != cell_uuid:
        return _say(f'The host {host} was not found in the cell {cell_uuid}.', 3)
    with known.open(cell).reader() as conn:
        if cell_rows.has_servers(conn, host):
            return _say(f'There are instances on the host {host}.', 4)
    known.api_db.run(cell_rows.forget_host, host)
    return 0


# ---- servers -----------------------------------------------------------------

def map_instances(conf, cell_uuid, max_count, reset):
    """Map the servers of a cell's database, the oldest first: 1 when more are left than --max-count."""
    from oslo_db import exception as db_exc

    from nova import exception
    from nova.cmd import common
    if max_count is not None and not (max_count.isascii() and max_count.isdigit() and int(max_count) > 0):
        return _say('Must supply a positive value for max-count', INVALID)
    try:
        return _map_instances(_Known(conf), cell_uuid, max_count and int(max_count))
    except (exception.NovaException, db_exc.DBError) as error:
        reason = getattr(error, 'inner_exception', None) or error
        return common.failed('nova-manage', str(reason).splitlines()[0], UNEXPECTED)


def _map_instances(known, cell_uuid, left):
    from nova.db import cell_rows
    cell = known.get(cell_uuid)
    if cell is None:
        return _say(f'Cell with uuid {cell_uuid} was not found.', 1)
    place, database = None, known.open(cell)
    while True:
        with database.reader() as conn:
            rows = cell_rows.oldest(conn, place, BATCH)
        if not rows:
            return 0
        done, more = known.api_db.run(cell_rows.map_servers, cell_uuid, rows, left)
        if more:
            return 1
        left = left if left is None else left - done
        place = rows[-1]['created_at'], rows[-1]['id']


def verify_instance(conf, uuid, quiet):
    """Say in which cell a server is: 1 not mapped, 2 its cell is not known, 3 it was deleted, 4 no cell has it."""
    from nova.db import cell_rows
    from nova.db import mappings
    known = _Known(conf)
    with known.api_db.reader() as conn:
        mapping = mappings.get(conn, uuid)

    def say(sentence, code):
        return code if quiet else _say(sentence, code)
    if mapping is None:
        return say(f'Instance {uuid} is not mapped to a cell (upgrade is incomplete) or instance does not exist', 1)
    cell = known.get(mapping['cell_uuid'])
    if cell is None:
        return say(f'Instance {uuid} maps to a cell that does not exist: {mapping["cell_uuid"]}', 2)
    with known.open(cell).reader() as conn:
        place = cell_rows.place_of_server(conn, uuid)
    where = f'cell: {cell["name"]} ({cell["uuid"]})'
    if place == 'live':
        return say(f'Instance {uuid} is in {where}', 0)
    if place == 'deleted':
        return say(f'The instance {uuid} in {where} has been deleted, and has a mapping still', 3)
    return say(f'The instance {uuid} is in no row of {where}, and has a mapping still', 4)


# of nova-manage db sync
SYNC = {'--local_cell': {'action': 'store_true', 'help': 'leave cell0 as it is'}}
COMMANDS = {function.__name__: function for function in (
    simple_cell_setup, map_cell0, map_cell_and_hosts, create_cell, update_cell, list_cells, delete_cell,
    discover_hosts, list_hosts, delete_host, map_instances, verify_instance)}
OPTIONS = {
    simple_cell_setup: {'--transport-url': _TRANSPORT},
    map_cell0: {'--database_connection': {**_DATABASE, 'help': 'of its database; unless given, the configured one '
                                          'with _cell0 behind its name'}, '--transport-url': _TRANSPORT},
    map_cell_and_hosts: {'--name': _NAME, '--transport-url': _TRANSPORT,
                         '--verbose': _flag("print the cell's uuid")},
    create_cell: {'--name': _NAME, '--transport-url': _TRANSPORT, '--database_connection': _DATABASE,
                  '--verbose': _flag("print the cell's uuid"), '--disabled': _flag('give it no new servers yet')},
    update_cell: {'--cell_uuid': _CELL, '--name': _NAME, '--transport-url': _TRANSPORT,
                  '--database_connection': _DATABASE, '--disable': _flag('give it no new servers'),
                  '--enable': _flag('give it new servers again')},
    list_cells: {'--verbose': _flag('show the passwords of the URLs')},
    delete_cell: {'--cell_uuid': _CELL, '--force': _flag('with its hosts, and with mappings of servers that are gone')},
    discover_hosts: {'--cell_uuid': _ANY_CELL, '--verbose': _flag('say what is done'),
                     '--strict': _flag('fail when there is no new host'),
                     '--by-service': _flag('look at compute services, for computes without a node')},
    list_hosts: {'--cell_uuid': _ANY_CELL},
    delete_host: {'--cell_uuid': _CELL, '--host': {'required': True, 'metavar': 'NAME', 'help': 'of the host'}},
    map_instances: {'--cell_uuid': _CELL, '--max-count': {'metavar': 'N', 'help': 'servers that are mapped at most; '
                                                          'all unless given'},
                    '--reset': _flag('begin with the oldest one; so does every run, which skips what is mapped')},
    verify_instance: {'--uuid': {'required': True, 'metavar': 'UUID', 'help': 'of the server'},
                      '--quiet': _flag('print nothing')},
}
