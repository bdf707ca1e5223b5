"""nova-manage db|api_db contract, db online_data_migrations and db convert: steps of an upgrade.

The man page lists the exit codes. doc/source/admin/upgrades.rst has the whole procedure.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import command_line
from nova.cmd import tables

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.cells import cells as db_cells

OPTIONS = {'--max-count': {'metavar': 'N', 'dest': 'max_count', 'default': None, 'help': (
    'maximum number of rows to convert (default: all). Repeat the command while its exit code is 1')}}


def convert(conf: cfg.ConfigOpts) -> None:
    """Convert databases and files of this host from a version before the first release, while no service runs.

    The databases are copied first. Converted ones are left unchanged.
    """
    from nova.cloud import conversion
    copies = conversion.convert_if_due(conf)
    print_copies(copies)
    if not copies:
        print('No conversion is needed.')


def print_copies(paths: list[str]) -> None:
    """Print the paths of the database copies made before a conversion."""
    for path in paths:
        print(f'Converted. A copy of the data before the conversion is in {path}.')


def online_data_migrations(conf: cfg.ConfigOpts, max_count: str | None) -> int:
    """Convert rows that older releases have left, in batches, while the services run."""
    from nova.cloud import assembly
    from nova.db import online_migrations as online

    limit = command_line.count(max_count)
    api_db, cells = assembly.checked_databases(conf)
    print(f'Running batches of {min(online.BATCH, limit or online.BATCH)} until '
          + ('complete.' if limit is None else f'{limit} rows are converted.'))
    totals = {migration.name: [0, 0] for migration in online.ROWS}
    done, failed = _run(api_db, cells, totals, limit)
    tables.print_table(('Migration', 'Total Needed', 'Completed'),
                       [(name, *counts) for name, counts in sorted(totals.items())])
    if failed and not done:
        return 2
    return 1 if failed or limit is not None and done else 0


def _run(api_db: engine.Database, cells: db_cells.Cells, totals: dict[str, list[int]], limit: int | None
         ) -> tuple[int, bool]:
    """Run all batches. Return (rows converted, whether a migration failed).

    If a migration failed in the last round, count only that round, to show whether other migrations made progress.

    :param totals: {migration: [rows found, rows converted]}, increased by the counts of this run
    """
    from nova.db import errors
    from nova.db import online_migrations as online

    all_done = 0
    while True:
        done, failed = 0, False
        for migration in online.ROWS:
            left = online.BATCH if limit is None else min(online.BATCH, limit - all_done)
            if left <= 0:
                break
            try:
                counts = online.run_batch(migration, api_db, cells, left)
            except Exception as error:
                print(f'{migration.name} failed: {errors.reason(error)}', file=sys.stderr)
                failed = True
                continue
            if counts[0]:
                print(f'{migration.name}: {counts[0]} rows found, {counts[1]} converted')
            totals[migration.name] = [old + new for old, new in zip(totals[migration.name], counts)]
            done, all_done = done + counts[1], all_done + counts[1]
        if not done or limit is not None and all_done >= limit:
            return done if failed else all_done, failed


def contract(branch: str) -> Callable[[cfg.ConfigOpts], None]:
    """Return the command that contracts the databases of one branch."""
    def command(conf: cfg.ConfigOpts) -> None:
        """Remove schema elements that only older releases need. Refused while services of older releases are alive."""
        from nova.cloud import assembly
        from nova.db import online_migrations as online
        from nova.db import schema as migration

        api_db, cells = assembly.checked_databases(conf)
        older = older_services(conf, cells)
        if older:
            raise exception.InvalidInput(reason='services of an older release are running: ' + ', '.join(
                f'{row["binary"]} on {row["host"]} ({cell.name})' for cell, row in older))
        unfinished = online.unfinished(api_db, cells)
        if unfinished:
            raise exception.InvalidInput(reason='rows need nova-manage db online_data_migrations: '
                                                + ', '.join(unfinished))
        databases = [(branch, api_db)] if branch == 'api' else [(cell.name, cell.db) for cell in cells.all()]
        for name, db in databases:
            done = migration.contract(db, branch)
            print(f'{name}: ' + (f'contracted to {migration.head(branch, migration.CONTRACT)}' if done else
                                 'there is nothing to contract'))
    return command


def older_services(conf: cfg.ConfigOpts, cells: db_cells.Cells, alive: bool = True) -> list[tuple[db_cells.Cell, Any]]:
    """Return [(Cell, row)] of services of an older VERSION than this code.

    :param alive: return only services with current heartbeats
    :raises InvalidInput: a cell cannot be reached
    """
    from nova.db.services import services
    from nova.rpc import versions

    answers, down = cells.read(services.list)
    if down:
        raise exception.InvalidInput(reason='these cells cannot be reached: ' + ', '.join(cell.name for cell in down))
    now = utils.utcnow()
    return [(cell, row) for cell, found in answers for row in found
            if row['version'] < versions.VERSION
            and not (alive and not services.is_up({**row, 'forced_down': False}, conf.service_down_time, now))]


# function -> {exit code: meaning}, which the man page also lists
EXIT_CODES = {
    online_data_migrations: {0: 'No rows are left to convert.',
                             1: 'Rows were converted, and more may be left: run the command again.',
                             2: 'Some migrations failed, and no other one made progress.',
                             command_line.NOT_USABLE: '--max-count is not usable.'},
}
