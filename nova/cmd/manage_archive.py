"""nova-manage db archive_deleted_rows, purge, null_instance_uuid_scan: what is left of deleted servers.

Exit codes are those of the man page; ``doc/source/cli/nova-manage.rst`` has them.
"""
import datetime
import sys
import time

from nova.cmd import tables

UNEXPECTED = 255
NO_API_DATABASE = {'archive': 3, 'purge': 4}
_DATE = {'metavar': 'DATE', 'help': 'YYYY-MM-DD[ HH:MM[:SS]], UTC unless it says otherwise'}
_ALL_CELLS = {'action': 'store_true', 'help': 'every cell, instead of the one of [database] alone'}
_VERBOSE = {'action': 'store_true', 'help': 'print the number of rows of each table'}


class _Wrong(Exception):
    """A value of the command line; ends the command with a sentence and a code."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


def archive_deleted_rows(conf, max_rows, until_complete, before, purge, verbose, all_cells, task_log, sleep):
    """Move deleted servers, with their actions and migrations, to the shadow tables: out of the reach of the API."""
    return _answered(_archive, conf, max_rows, until_complete, before, purge, verbose, all_cells, task_log, sleep)


def purge(conf, all, before, verbose, all_cells):
    """Remove what stands in the shadow tables."""
    return _answered(_purge, conf, all, before, verbose, all_cells)


def null_instance_uuid_scan(conf, delete):
    """List, and with --delete remove, rows that name no server though they belong to one."""
    from nova import compose
    from nova.db import archive
    _api_db, db = compose.open_databases(conf)
    found = db.run(archive.without_server, delete)
    if not found:
        print('There were no records found where instance_uuid was NULL.')
        return 0
    tables.print_table(('Table', 'Records'), sorted(found.items()))
    print(f'{sum(found.values())} records where instance_uuid was NULL' + (' were removed.' if delete else '.'))
    return 0


def _answered(function, conf, *arguments):
    from oslo_db import exception as db_exc

    from nova import exception
    from nova.db import errors
    try:
        return function(conf, *arguments)
    except _Wrong as error:
        print(f'nova-manage: {error}', file=sys.stderr)
        return error.code
    except (exception.NovaException, db_exc.DBError, OSError) as error:
        print(f'nova-manage: {errors.reason(error)}', file=sys.stderr)
        return UNEXPECTED


def _date(text, code):
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise _Wrong(code, f'Invalid value for --before: {text}') from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return moment


def _databases(conf, all_cells, code):
    """[(name of the cell, Database)]

    :raises _Wrong: the API database does not answer
    """
    from oslo_db import exception as db_exc

    from nova import compose
    from nova.db import errors
    try:
        _api_db, cells = compose.checked_databases(conf)
        found = cells.all() if all_cells else [cells.default]
    except db_exc.DBError as error:
        raise _Wrong(code, f'The API database cannot be used: {errors.reason(error)}') from None
    return [(cell.name, cell.db) for cell in found]


def _archive(conf, max_rows, until_complete, before, then_purge, verbose, all_cells, with_task_log, sleep):
    from nova.db import archive
    if max_rows < 1:
        raise _Wrong(2, f'Invalid value for --max_rows: {max_rows}; it must be 1 or more.')
    before = _date(before, 4)
    total = {}
    for name, db in _databases(conf, all_cells, NO_API_DATABASE['archive']):
        while True:
            moved = archive.servers(db, before, max_rows)
            if with_task_log:
                moved |= archive.audits(db, before, max_rows)
            for table, count in moved.items():
                total[name, table] = total.get((name, table), 0) + count
            if not moved or not until_complete:
                break
            time.sleep(sleep)
        if then_purge:
            archive.purge(db, before)
    _tell(total, verbose, 'archived')
    return 1 if total else 0


def _purge(conf, everything, before, verbose, all_cells):
    from nova.db import archive
    if not everything and before is None:
        raise _Wrong(1, 'Either --all or --before is needed.')
    before = _date(before, 2)
    total = {(name, table): count for name, db in _databases(conf, all_cells, NO_API_DATABASE['purge'])
             for table, count in archive.purge(db, before).items()}
    _tell(total, verbose, 'purged')
    return 0 if total else 3


def _tell(total, verbose, what):
    if not verbose:
        return
    if not total:
        print(f'Nothing was {what}.')
        return
    tables.print_table(('Cell', 'Table', f'Rows {what}'), [(*key, total[key]) for key in sorted(total)])


# function: {exit code: when}, for the man page
EXIT_CODES = {
    archive_deleted_rows: {0: 'Nothing was archived.', 1: 'Rows were archived.', 2: '--max_rows is not usable.',
                           3: 'The API database cannot be used.', 4: '--before is not usable.',
                           255: 'Anything else that failed.'},
    purge: {0: 'Rows were removed.', 1: 'Neither --all nor --before was given.', 2: '--before is not usable.',
            3: 'Nothing was removed.', 4: 'The API database cannot be used.', 255: 'Anything else that failed.'},
    null_instance_uuid_scan: {0: 'It was looked, whatever was found.'},
}
COMMANDS = {'archive_deleted_rows': archive_deleted_rows, 'purge': purge,
            'null_instance_uuid_scan': null_instance_uuid_scan}
OPTIONS = {
    archive_deleted_rows: {
        '--max_rows': {'metavar': 'ROWS', 'type': int, 'default': 1000,
                       'help': 'servers, or audits, that are moved at most, each with what belongs to it; 1000 unless '
                               'given'},
        '--until-complete': {'action': 'store_true', 'help': 'go on until nothing is left, --max_rows at a time'},
        '--before': {**_DATE, 'help': 'only what was deleted before: ' + _DATE['help']},
        '--purge': {'action': 'store_true', 'help': 'then purge the shadow tables, with the same --before'},
        '--verbose': _VERBOSE,
        '--all-cells': _ALL_CELLS,
        '--task-log': {'action': 'store_true', 'help': 'records of usage audits, too'},
        '--sleep': {'metavar': 'SECONDS', 'type': int, 'default': 0,
                    'help': 'rest between two batches of --until-complete'}},
    purge: {
        '--all': {'action': 'store_true', 'help': 'everything'},
        '--before': {**_DATE, 'help': 'only what was gone before: ' + _DATE['help']},
        '--verbose': _VERBOSE,
        '--all-cells': _ALL_CELLS},
    null_instance_uuid_scan: {'--delete': {'action': 'store_true', 'help': 'remove them'}},
}
