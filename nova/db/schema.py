"""Schemas: alembic with one branch of revisions for the API database and one for cell databases.

Revisions are named ``<branch>_<number>`` in a linear order, so that file names show the newest one without loading
alembic. They only add (EXPAND), so that the previous release's code runs on a newer schema. Revisions that drop or
tighten form a second line, ``<branch>_contract_<number>`` (CONTRACT), which a command applies when no older service
runs. The number of a database's newest contraction is its generation: code that does not know it is refused.
"""
from __future__ import annotations

from collections.abc import Iterator
import contextlib
import importlib
import logging
import os
import pathlib
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova.db import collations
from nova.db.placement import categories

if TYPE_CHECKING:
    from nova.db.engine import Database

LOG = logging.getLogger(__name__)

DIRECTORY = pathlib.Path(__file__).parent / 'migrations'
EXPAND, CONTRACT = 'alembic_version', 'alembic_contract_version'       # tables with the current revision of a database
LOCK_TIMEOUT = 600                  # seconds that a migration waits for another one of the same database
LOCK_NUMBER = 0x6E6F7661

# branch: modules of its tables, and the command for the newest revision
BRANCHES = {
    'api': (('api', 'aggregates', 'categories', 'identity', 'image',
             'network', 'volume', 'ec2', 'vpns', 'audit'), 'nova-manage api_db sync'),
    'cell': (('cell', 'usage', 'placement', 'cell_moves', 'maintenance',
              'pci', 'console', 'shadow', 'audit'),
             'nova-manage db sync'),
}

# branch: function that inserts the predefined rows
ROWS = {'api': categories.ensure}


def metadata(branch: str) -> Any:
    """Return the tables of a branch as defined in the code."""
    modules = [importlib.import_module(f'nova.db.tables.{name}') for name in BRANCHES[branch][0]]
    return modules[0].metadata


def head(branch: str, phase: str = EXPAND) -> str | None:
    """Return the newest revision of a branch, or None."""
    prefix = _prefix(branch, phase)
    return max((name.removesuffix('.py') for name in os.listdir(directory(branch, phase))
                if name.startswith(prefix)), default=None)


def directory(branch: str, phase: str = EXPAND) -> pathlib.Path:
    """Return the directory of a branch's revisions."""
    return DIRECTORY / (branch if phase == EXPAND else f'{branch}_contract')


def revisions(branch: str) -> list[str]:
    """Return the EXPAND revisions of a branch, oldest first."""
    prefix = _prefix(branch, EXPAND)
    return sorted(name.removesuffix('.py') for name in os.listdir(directory(branch)) if name.startswith(prefix))


def create(conn: sa.Connection, branch: str, revision: str) -> None:
    """Create the tables of a revision in an empty database."""
    from alembic import command
    command.upgrade(config(branch, conn), revision)


def _prefix(branch: str, phase: str) -> str:
    return f'{branch}_' if phase == EXPAND else f'{branch}_contract_'


def _number(branch: str, phase: str, revision: str | None) -> int | None:
    """Return the number of a revision, 0 for None; None if it is not of this line."""
    if revision is None:
        return 0
    number = revision.removeprefix(_prefix(branch, phase))
    return int(number) if number.isascii() and number.isdigit() else None


def _newest(branch: str, phase: str) -> int:
    """Return the number of the code's newest revision, or 0."""
    number = _number(branch, phase, head(branch, phase))
    assert number is not None                    # names of revisions end in a number
    return number


def version(db: Database, phase: str = EXPAND) -> str | None:
    """Return the revision of a database, or None."""
    with db.reader() as conn:
        return version_of(conn, phase)


def version_of(conn: sa.Connection, phase: str = EXPAND) -> str | None:
    """Return the revision of an open connection's database, or None."""
    # not has_table(): MariaDB refuses a query for a missing table to accounts with few privileges
    if phase not in sa.inspect(conn).get_table_names():
        return None
    return conn.exec_driver_sql(f'SELECT version_num FROM {phase}').scalar()


def is_behind(db: Database, branch: str, phase: str = EXPAND) -> bool:
    """Tell whether the database lacks revisions of this code; False if it has newer ones."""
    found = _number(branch, phase, version(db, phase))
    return found is not None and found < _newest(branch, phase)


def sync(db: Database, branch: str) -> None:
    """Upgrade a database to the newest revision if necessary. Parallel calls are safe.

    Tables from an older release on a server with another default collation are converted to the common collation.
    """
    _unify_collations(db, branch)
    if _upgrade(db, branch, EXPAND):
        LOG.info('The %s database is at revision %s', branch, head(branch))


def _unify_collations(db: Database, branch: str) -> None:
    if db.sqlite:
        return
    tables = metadata(branch).tables
    with db.reader() as conn:
        differ = len(set(collations.found(conn, tables).values())) > 1
    if differ:
        with db.writer() as conn, _alone(conn):
            collations.unify(conn, tables)


def contract(db: Database, branch: str) -> bool:
    """Apply the contractions; return whether there were any.

    The caller must ensure that no older code runs.
    """
    return _upgrade(db, branch, CONTRACT)


def _upgrade(db: Database, branch: str, phase: str) -> bool:
    if not is_behind(db, branch, phase):
        return False
    from alembic import command

    with db.writer() as conn, _alone(conn):
        if version_of(conn, phase) == head(branch, phase):
            return False
        with collations.stated(conn, metadata(branch).tables):
            command.upgrade(config(branch, conn, phase), 'head')
        if phase == EXPAND and branch in ROWS:
            ROWS[branch](conn)
    return True


def check(db: Database, branch: str) -> None:
    """Check the revision of a database.

    :raises DatabaseNotReady: the database lacks revisions of this code
    :raises DatabaseTooNew: newer code has contracted it
    """
    with db.reader() as conn:
        found, contracted = version_of(conn), version_of(conn, CONTRACT)
    number = _number(branch, EXPAND, found)
    name = db.name if db.name.startswith(branch) else branch         # one of several cells is named
    if number is None or number < _newest(branch, EXPAND):
        raise exception.DatabaseNotReady(branch=name, found=found or 'none', expected=head(branch),
                                         command=BRANCHES[branch][1])
    generation = _number(branch, CONTRACT, contracted)
    if generation is None or generation > _newest(branch, CONTRACT):
        raise exception.DatabaseTooNew(branch=name, found=contracted, known=head(branch, CONTRACT) or 'none')


def config(branch: str, conn: sa.Connection, phase: str = EXPAND) -> Any:
    """Return the configuration of alembic's commands."""
    from alembic.config import Config

    made = Config()
    made.set_main_option('script_location', str(DIRECTORY))
    made.set_main_option('version_locations', str(directory(branch, phase)))
    made.set_main_option('path_separator', 'os')
    made.attributes.update(connection=conn, metadata=metadata(branch), version_table=phase)
    return made


def differences(db: Database, branch: str) -> list[tuple[str, Any]]:
    """Return alembic's list of differences between a database and the tables of the code."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with db.reader() as conn:
        context = MigrationContext.configure(conn, opts={'include_name': _is_ours})
        return compare_metadata(context, metadata(branch))


def _is_ours(name: Any, kind: str, parents: dict[str, Any]) -> bool:
    return kind != 'table' or name != CONTRACT


@contextlib.contextmanager
def _alone(conn: sa.Connection) -> Iterator[None]:
    """Lock the database against other migrations; SQLite's write transaction is such a lock.

    :raises Unavailable: another migration takes longer than LOCK_TIMEOUT (MariaDB; PostgreSQL waits)
    """
    if conn.dialect.name == 'postgresql':
        conn.execute(sa.text('SELECT pg_advisory_xact_lock(:number)'), {'number': LOCK_NUMBER})
        yield
    elif conn.dialect.name in ('mysql', 'mariadb'):
        if not conn.execute(sa.text("SELECT GET_LOCK(CONCAT('nova_migration_', DATABASE()), :timeout)"),
                            {'timeout': LOCK_TIMEOUT}).scalar():
            raise exception.Unavailable(f'Another migration of this database has not ended within {LOCK_TIMEOUT} s.')
        try:
            yield
            conn.commit()               # before the lock is released, so that the next migration sees the new revision
        finally:
            conn.execute(sa.text("SELECT RELEASE_LOCK(CONCAT('nova_migration_', DATABASE()))"))
    else:
        yield
