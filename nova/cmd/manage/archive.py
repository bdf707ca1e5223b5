"""nova-manage db archive_deleted_rows, purge, null_instance_uuid_scan: remaining rows of deleted servers.

The man page, ``doc/source/cli/nova-manage.rst``, lists the exit codes.
"""
from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING

from nova.cmd import tables
from nova.cmd.command_line import Refused
from nova.cmd.command_line import flag

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine

_DATE = {'metavar': 'DATE', 'help': 'YYYY-MM-DD[ HH:MM[:SS]], in UTC unless an offset is given'}
_ALL_CELLS = flag('process every cell, not only the one in [database]')
_VERBOSE = flag('print the number of rows of each table')


def archive_deleted_rows(conf: cfg.ConfigOpts, max_rows: int, until_complete: bool, before: str | None, purge: bool,
                         verbose: bool, all_cells: bool, task_log: bool, sleep: int) -> int:
    """Move deleted servers, with their actions and migrations, to the shadow tables, which the API does not read."""
    from nova.db.servers import archive
    if max_rows < 1:
        raise Refused(f'Invalid value for --max_rows: {max_rows}. It must be 1 or more.', 2)
    if sleep < 0:
        raise Refused(f'Invalid value for --sleep: {sleep}. It must be 0 or more.', 255)
    moment = _date(before, 4)
    total: dict[tuple[str, str], int] = {}
    for name, db in _databases(conf, all_cells, 3):
        while True:
            moved = archive.servers(db, moment, max_rows)
            if task_log:
                moved |= archive.audits(db, moment, max_rows)
            for table, count in moved.items():
                total[name, table] = total.get((name, table), 0) + count
            if not moved or not until_complete:
                break
            time.sleep(sleep)
        if purge:
            archive.purge(db, moment)
    _tell(total, verbose, 'archived')
    return 1 if total else 0


def purge(conf: cfg.ConfigOpts, all: bool, before: str | None, verbose: bool, all_cells: bool) -> int:
    """Delete rows of the shadow tables."""
    from nova.db.servers import archive
    if not all and before is None:
        raise Refused('Either --all or --before is needed.', 1)
    moment = _date(before, 2)
    total = {(name, table): count for name, db in _databases(conf, all_cells, 4)
             for table, count in archive.purge(db, moment).items()}
    _tell(total, verbose, 'purged')
    return 0 if total else 3


def null_instance_uuid_scan(conf: cfg.ConfigOpts, delete: bool) -> int:
    """List rows without the uuid of their server (instance_uuid is NULL); --delete deletes them."""
    from nova.cloud import assembly
    from nova.db.servers import archive
    _api_db, db = assembly.open_databases(conf)
    found = db.run(archive.without_server, delete)
    tables.print_table(('Table', 'Records'), sorted(found.items()),
                       'There were no records found where instance_uuid was NULL.')
    if not found:
        return 0
    print(f'{sum(found.values())} records where instance_uuid was NULL' + (' were removed.' if delete else '.'))
    return 0


def _date(text: str | None, code: int) -> datetime.datetime | None:
    """Parse a date and time; return it in UTC without a time zone, or None for None.

    :raises Refused: the text is no date
    """
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise Refused(f'Invalid value for --before: {text}', code) from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return moment


def _databases(conf: cfg.ConfigOpts, all_cells: bool, code: int) -> list[tuple[str, engine.Database]]:
    """Return [(name of the cell, Database)].

    :raises Refused: the API database does not answer
    """
    from oslo_db import exception as db_exc

    from nova.cloud import assembly
    from nova.db import errors
    try:
        _api_db, cells = assembly.checked_databases(conf)
        found = cells.all() if all_cells else [cells.default]
    except db_exc.DBError as error:
        raise Refused(f'The API database cannot be used: {errors.reason(error)}', code) from None
    return [(cell.name, cell.db) for cell in found]


def _tell(total: dict[tuple[str, str], int], verbose: bool, what: str) -> None:
    if verbose:
        tables.print_table(('Cell', 'Table', f'Rows {what}'), [(*key, total[key]) for key in sorted(total)],
                           f'Nothing was {what}.')


# function -> {exit code: meaning}; the man page lists the same codes
EXIT_CODES = {
    archive_deleted_rows: {0: 'Nothing was archived.', 1: 'Rows were archived.', 2: '--max_rows is not usable.',
                           3: 'The API database cannot be used.', 4: '--before is not usable.',
                           255: 'Another error occurred.'},
    purge: {0: 'Rows were removed.', 1: 'Neither --all nor --before was given.', 2: '--before is not usable.',
            3: 'Nothing was removed.', 4: 'The API database cannot be used.', 255: 'Another error occurred.'},
    null_instance_uuid_scan: {0: 'The scan finished.'},
}
COMMANDS = {'archive_deleted_rows': archive_deleted_rows, 'purge': purge,
            'null_instance_uuid_scan': null_instance_uuid_scan}
OPTIONS = {
    archive_deleted_rows: {
        '--max_rows': {'metavar': 'ROWS', 'type': int, 'default': 1000,
                       'help': 'maximum number of servers or audits to archive, each with its rows in other tables '
                               '(default: 1000)'},
        '--until-complete': flag('repeat, with --max_rows per batch, until no row is left'),
        '--before': {**_DATE, 'help': 'archive only rows deleted before: ' + _DATE['help']},
        '--purge': flag('also purge the shadow tables, with the same --before'),
        '--verbose': _VERBOSE,
        '--all-cells': _ALL_CELLS,
        '--task-log': flag('also archive records of usage audits'),
        '--sleep': {'metavar': 'SECONDS', 'type': int, 'default': 0,
                    'help': 'pause between two batches of --until-complete'}},
    purge: {
        '--all': flag('remove all rows'),
        '--before': {**_DATE, 'help': 'purge only rows deleted before: ' + _DATE['help']},
        '--verbose': _VERBOSE,
        '--all-cells': _ALL_CELLS},
    null_instance_uuid_scan: {'--delete': flag('delete these records')},
}
