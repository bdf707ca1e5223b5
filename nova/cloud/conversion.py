"""Conversion of a deployment from before the first release: its databases and the stored files of this host.

Each step may be interrupted and repeated:

1. check that no service uses the databases
2. copy the databases with the old schema: next to the originals if all of these are SQLite files, otherwise as one
   state backup, which also contains the other databases
3. convert the stored files (nova.runtime.stored_files)
4. convert the databases with the old schema, one transaction each (nova.db.conversion)
"""
from collections.abc import Collection
import contextlib
import logging

from oslo_config import cfg

from nova import exception
from nova import utils
from nova.cloud import assembly
from nova.cloud import state_backup
from nova.db import conversion
from nova.db import engine
from nova.db import schema
from nova.db.cells import cells as db_cells
from nova.runtime import state_directory
from nova.runtime import stored_files

LOG = logging.getLogger(__name__)

COPY = '.before-conversion-'             # name of a copy: path of the database or BACKUP, then this text, then the time
BACKUP = 'state'                         # first part of the name of a state backup in the state directory


def convert(conf: cfg.ConfigOpts, api_db: engine.Database, cell_db: engine.Database,
            hosts: Collection[str] = ()) -> list[str]:
    """Convert a deployment if one of its databases has the old schema; return the paths of the copies.

    The caller holds the lock of the state directory.

    :param hosts: hosts without running services
    :raises DatabaseNotReady: a database has no tables, or its revision is unknown
    :raises Conflict: services use a database
    :raises Unavailable: the database of a cell does not answer
    """
    if not conversion.is_due(api_db, 'api') and not conversion.is_due(cell_db, 'cell'):
        return []
    if schema.version(api_db) is None:
        raise exception.DatabaseNotReady(branch='api', found='none', expected=schema.PREDECESSORS['api'], command=(
            f'{schema.CONVERT} with a configuration whose [api_database] connection names the API database'))
    with contextlib.closing(db_cells.Cells(conf, api_db, cell_db)) as cells:
        databases = [(api_db, 'api'), *((cell.db, 'cell') for cell in cells.all())]
        due = []
        for db, branch in databases:
            if conversion.is_due(db, branch):
                due.append((db, branch))
            else:
                schema.refuse_other(db, branch)
        for db, _branch in due:
            state_backup.check_stopped(conf, db, hosts)
        copies = _copy(conf, api_db, cells, [db for db, _branch in due])
        stored_files.convert(conf)
        # the default cell and the API database come last, because a repeated call checks only these two
        for db, branch in reversed(due):
            conversion.convert(db, branch)
    return copies


def _copy(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells,
          due: list[engine.Database]) -> list[str]:
    """Copy the databases that need a conversion; return the paths of the copies."""
    stamp = f'{utils.utcnow():%Y%m%dT%H%M%S}'
    if all(db.sqlite for db in due):
        copies = {f'{db.url.database}{COPY}{stamp}': db for db in due}
        for path, db in copies.items():
            conversion.copy(db, path)
        paths = list(copies)
    else:
        paths = [str(state_backup.state_path(conf) / f'{BACKUP}{COPY}{stamp}')]
        state_backup.create(conf, api_db, cells, paths[0])
        with open(paths[0], 'rb') as file:
            state_backup.examine(conf, file, str)
    LOG.info('Copied the databases to %s', ', '.join(paths))
    return paths


def convert_if_due(conf: cfg.ConfigOpts, branch: str | None = None) -> list[str]:
    """Convert the configured deployment, see ``convert``, under the lock of the state directory.

    :param branch: convert only if the configured database of this branch has the old schema; None: any branch
    """
    api_db, cell_db = assembly.open_databases(conf)
    configured = {'api': api_db, 'cell': cell_db}
    if not any(conversion.is_due(db, each) for each, db in configured.items() if branch in (None, each)):
        return []
    with contextlib.closing(state_directory.take(state_backup.state_path(conf))):
        return convert(conf, api_db, cell_db)
