"""nova-manage cell_v2: the hosts and the servers of cells; ``commands`` creates and changes cells."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import command_line
from nova.cmd import tables
from nova.cmd.command_line import flag
from nova.cmd.manage.cells import known as known_cells
from nova.cmd.manage.cells.known import CELL
from nova.cmd.manage.cells.known import outcome

if TYPE_CHECKING:
    from nova.db.tables.rows import CellsRow
    from oslo_config import cfg

BATCH = 50                    # maximum number of servers that one transaction maps

_ANY_CELL = {**CELL, 'required': False}


# ---- hosts -------------------------------------------------------------------

def map_hosts(known: known_cells.Known, cell: CellsRow, by_service: bool = False,
              report: Callable[[str], object] = lambda sentence: None) -> list[str]:
    """Map the hosts that have rows in a cell's database; return the names of the newly mapped hosts.

    :raises HostInAnotherCell: a host of this name is in another cell
    """
    from nova.db.cells import rows as cell_rows
    database = known.open(cell)
    try:
        with database.reader() as conn:
            hosts = cell_rows.reporting(conn, by_service)
    finally:
        database.dispose()
    with known.api_db.reader() as conn:
        mapped = cell_rows.cells_of_hosts(conn)
    report(f'Found {len(hosts)} computes in cell: {cell["uuid"]}')
    thing, new = 'service' if by_service else 'compute host', []
    for host, uuid in hosts.items():
        report(f"Checking host mapping for {thing} '{host}': {uuid}")
        if mapped.get(host) == cell['uuid']:
            continue
        place = known.api_db.run(cell_rows.map_host, host, cell['uuid'])
        if place != cell['uuid']:
            other = known.get(place)
            raise exception.HostInAnotherCell(host=host, cell=place if other is None else other['name'])
        report(f"Creating host mapping for {thing} '{host}': {uuid}")
        new.append(host)
    return new


def discover_hosts(conf: cfg.ConfigOpts, cell_uuid: str | None, verbose: bool, strict: bool, by_service: bool) -> int:
    """Map reporting hosts without a mapping. Exit code 1: --strict, and none was found; 2: a host is in two cells."""
    from nova.db.cells import cells
    known = known_cells.Known(conf)
    report = print if verbose else lambda sentence: None
    chosen = known.rows if cell_uuid is None else [known.find(cell_uuid)]
    if cell_uuid is None:
        report(f'Found {len(chosen)} cell mappings.')
    new = []
    for row in chosen:
        if row['uuid'] == cells.CELL0_UUID:
            report('Skipping cell0 since it does not contain hosts.')
            continue
        report(f"Getting {'services' if by_service else 'computes'} from cell '{row['name']}': {row['uuid']}")
        try:
            new += map_hosts(known, row, by_service, report)
        except exception.HostInAnotherCell as error:
            return outcome(error.message, 2)
    return outcome('No unmapped host was found.', 1) if strict and not new else 0


def list_hosts(conf: cfg.ConfigOpts, cell_uuid: str | None) -> int:
    """List the hosts of all cells or of one. Exit code 1: unknown cell."""
    from nova.db.cells import rows as cell_rows
    known = known_cells.Known(conf)
    if cell_uuid is not None:
        known.find(cell_uuid)
    with known.api_db.reader() as conn:
        tables.print_framed(('Cell Name', 'Cell UUID', 'Hostname'), cell_rows.hosts(conn, cell_uuid))
    return 0


def delete_host(conf: cfg.ConfigOpts, cell_uuid: str, host: str) -> int:
    """Delete a host without servers. Exit code 1: unknown cell; 2: unknown host; 3: in another cell; 4: has servers."""
    from nova.db.cells import rows as cell_rows
    known = known_cells.Known(conf)
    cell = known.find(cell_uuid)
    with known.api_db.reader() as conn:
        place = cell_rows.cell_of_host(conn, host)
    if place is None:
        return outcome(f'The host {host} was not found.', 2)
    if place != cell_uuid:
        return outcome(f'The host {host} was not found in the cell {cell_uuid}.', 3)
    with known.open(cell).reader() as conn:
        if cell_rows.has_servers(conn, host):
            return outcome(f'There are instances on the host {host}.', 4)
    known.api_db.run(cell_rows.forget_host, host)
    return 0


# ---- servers -----------------------------------------------------------------

def map_instances(conf: cfg.ConfigOpts, cell_uuid: str, max_count: str | None) -> int:
    """Map the servers of a cell's database, the oldest first. Exit code 1: more are left, or unknown cell."""
    from nova.db.cells import rows as cell_rows
    left = command_line.count(max_count)
    known = known_cells.Known(conf)
    cell = known.find(cell_uuid)
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


def verify_instance(conf: cfg.ConfigOpts, uuid: str, quiet: bool) -> int:
    """Print the cell of a server. Exit code 1: not mapped; 2: unknown cell; 3: deleted; 4: in no cell."""
    from nova.db.cells import rows as cell_rows
    from nova.db.servers import mappings
    known = known_cells.Known(conf)
    with known.api_db.reader() as conn:
        mapping = mappings.get(conn, uuid)

    def outcome(sentence: str, code: int) -> int:
        return code if quiet else known_cells.outcome(sentence, code)
    if mapping is None:
        return outcome(f'Instance {uuid} is not mapped to a cell (upgrade is incomplete) or instance does not exist', 1)
    cell = known.get(mapping['cell_uuid'])
    if cell is None:
        return outcome(f'Instance {uuid} maps to a cell that does not exist: {mapping["cell_uuid"]}', 2)
    with known.open(cell).reader() as conn:
        place = cell_rows.place_of_server(conn, uuid)
    where = f'cell: {cell["name"]} ({cell["uuid"]})'
    if place == 'live':
        return outcome(f'Instance {uuid} is in {where}', 0)
    if place == 'deleted':
        return outcome(f'The instance {uuid} in {where} has been deleted, but its mapping still exists', 3)
    return outcome(f'The instance {uuid} has no row in {where}, but its mapping still exists', 4)


# function -> {exit code: meaning}; the man page lists the same codes
EXIT_CODES = {
    map_instances: {0: 'Every server of the cell is mapped.', 1: 'More servers are left, or there is no such cell.',
                    command_line.NOT_USABLE: '--max-count is not usable.', 255: 'Another error occurred.'},
}
COMMANDS = {function.__name__: function for function in (
    discover_hosts, list_hosts, delete_host, map_instances, verify_instance)}
OPTIONS = {
    discover_hosts: {'--cell_uuid': _ANY_CELL, '--verbose': flag('print each step'),
                     '--strict': flag('fail if no new host is found'),
                     '--by-service': flag('search compute services instead, to find computes without a node')},
    list_hosts: {'--cell_uuid': _ANY_CELL},
    delete_host: {'--cell_uuid': CELL, '--host': {'required': True, 'metavar': 'NAME', 'help': 'name of the host'}},
    map_instances: {'--cell_uuid': CELL, '--max-count': {'metavar': 'N', 'help': 'maximum number of servers to map '
                                                                                 '(default: all)'}},
    verify_instance: {'--uuid': {'required': True, 'metavar': 'UUID', 'help': 'uuid of the server'},
                      '--quiet': flag('print nothing')},
}
