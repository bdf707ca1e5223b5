"""Schemas, managed by alembic. The API database and the cell databases each have a branch of revisions.

A branch has two sequences of revisions, one for each phase of an upgrade. File names show the newest revision, so
alembic need not be loaded to find it.

    <branch>_expand_<number>     adds tables, columns and indexes; code of the previous release works with the result
    <branch>_contract_<number>   drops columns or tightens constraints; a command applies it when no older service is
                             alive

The generation of a database is the number of its newest contraction. Code that does not have this contraction cannot
use the database.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
import contextlib
import importlib
import logging
import os
import pathlib
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova.db import collations
from nova.db.engine import Database
from nova.db.placement import categories

if TYPE_CHECKING:
    from alembic.config import Config

LOG = logging.getLogger(__name__)

DIRECTORY = pathlib.Path(__file__).parent / 'migrations'
EXPAND, CONTRACT = 'alembic_version', 'alembic_contract_version'       # tables with a database's revision in each phase
LOCK_TIMEOUT = 600                  # seconds that a migration waits for another migration of the same database
LOCK_NUMBER = 0x6E6F7661

# branch: (modules that define its tables, command that upgrades a database to the newest revision)
BRANCHES = {
    'api': (('api', 'aggregates', 'identity', 'image', 'network', 'volume', 'key_manager', 'ec2', 'audit'),
            'nova-manage api_db sync'),
    'cell': (('cell', 'shadow', 'audit'), 'nova-manage db sync'),
}

# branch: last revision before the first release; nova.db.conversion converts databases of this revision
PREDECESSORS = {'api': 'api_0033', 'cell': 'cell_0011'}
CONVERT = 'nova-manage db convert'
# branch: function that inserts the predefined rows
ROWS = {'api': categories.ensure}


def metadata(branch: str) -> sa.MetaData:
    """Return the tables of a branch as nova.db.tables defines them."""
    modules = [importlib.import_module(f'nova.db.tables.{name}') for name in BRANCHES[branch][0]]
    tables: sa.MetaData = modules[0].metadata
    return tables


def head(branch: str, phase: str = EXPAND) -> str | None:
    """Return the newest revision of a branch, or None."""
    prefix = _prefix(branch, phase)
    return max((name.removesuffix('.py') for name in os.listdir(directory(branch, phase))
                if name.startswith(prefix)), default=None)


def directory(branch: str, phase: str = EXPAND) -> pathlib.Path:
    """Return the directory of the revisions of one phase."""
    return DIRECTORY / _prefix(branch, phase).removesuffix('_')


def revisions(branch: str) -> list[str]:
    """Return the revisions of a branch that expand its schema, the oldest first."""
    prefix = _prefix(branch, EXPAND)
    return sorted(name.removesuffix('.py') for name in os.listdir(directory(branch)) if name.startswith(prefix))


def create(conn: sa.Connection, branch: str, revision: str) -> None:
    """Create the tables of a revision in an empty database."""
    from alembic import command
    command.upgrade(config(branch, conn), revision)


def _prefix(branch: str, phase: str) -> str:
    return f'{branch}_expand_' if phase == EXPAND else f'{branch}_contract_'


def _number(branch: str, phase: str, revision: str | None) -> int | None:
    """Return the number of a revision, 0 for None, or None if the revision is not in the sequence of this phase."""
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
    """Return the revision of a database, or None; a missing SQLite file is not created."""
    if db.file is not None and not os.path.exists(db.file):
        return None
    with db.reader() as conn:
        return version_of(conn, phase)


def version_of(conn: sa.Connection, phase: str = EXPAND) -> str | None:
    """Return the revision of an open connection's database, or None."""
    # has_table() does not work here, because MariaDB denies accounts with few privileges a query for a missing table
    if phase not in sa.inspect(conn).get_table_names():
        return None
    return conn.exec_driver_sql(f'SELECT version_num FROM {phase}').scalar()


def stamp(conn: sa.Connection, revision: str) -> None:
    """Replace the revision that is recorded in a database."""
    conn.execute(sa.update(sa.table(EXPAND, sa.column('version_num'))).values(version_num=revision))


def is_behind(db: Database, branch: str, phase: str = EXPAND) -> bool:
    """Tell whether the database lacks revisions of this code; return False if its revision is newer."""
    found = _number(branch, phase, version(db, phase))
    return found is not None and found < _newest(branch, phase)


def sync(db: Database, branch: str) -> None:
    """Upgrade a database to the newest revision if necessary. Parallel calls are safe.

    Tables of older releases may differ in their collations; they are converted to the collation of most tables.

    :raises DatabaseNotReady: the database must be converted first (nova.db.conversion), or its revision is unknown
    """
    refuse_other(db, branch)
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
        with db.writer() as conn, alone(conn):
            collations.unify(conn, tables)


def contract(db: Database, branch: str) -> bool:
    """Apply the missing contractions; return False if there were none.

    The caller must ensure that no older code runs.
    """
    return _upgrade(db, branch, CONTRACT)


def _upgrade(db: Database, branch: str, phase: str) -> bool:
    if not is_behind(db, branch, phase):
        return False
    from alembic import command

    with db.writer() as conn, alone(conn):
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
    :raises DatabaseTooNew: newer code has contracted the database
    """
    with db.reader() as conn:
        found, contracted = version_of(conn), version_of(conn, CONTRACT)
    name = _name(db, branch)
    _refuse_other(name, branch, found)
    number = _number(branch, EXPAND, found)
    if number is None or number < _newest(branch, EXPAND):
        raise exception.DatabaseNotReady(branch=name, found=found or 'none', expected=head(branch),
                                         command=BRANCHES[branch][1])
    generation = _number(branch, CONTRACT, contracted)
    if generation is None or generation > _newest(branch, CONTRACT):
        raise exception.DatabaseTooNew(branch=name, found=contracted, known=head(branch, CONTRACT) or 'none')


def refuse_other(db: Database, branch: str) -> None:
    """Check that this code knows the revision of a database, and that the database needs no conversion.

    :raises DatabaseNotReady: the database is from the code before the first release, or its revision is unknown
    """
    _refuse_other(_name(db, branch), branch, version(db))


def _refuse_other(name: str, branch: str, found: str | None) -> None:
    if found == PREDECESSORS[branch]:
        raise exception.DatabaseNotReady(branch=name, found=found, expected=revisions(branch)[0], command=CONVERT)
    if _number(branch, EXPAND, found) is None:
        raise exception.DatabaseUnknown(branch=name, found=found, expected=revisions(branch)[0],
                                        predecessor=PREDECESSORS[branch])


def _name(db: Database, branch: str) -> str:
    """Return the name of a database for messages: its own name if it begins with the branch, otherwise the branch."""
    return db.name if db.name.startswith(branch) else branch


def config(branch: str, conn: sa.Connection, phase: str = EXPAND) -> Config:
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


def _is_ours(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    return kind != 'table' or name != CONTRACT


@contextlib.contextmanager
def alone(conn: sa.Connection) -> Iterator[None]:
    """Lock a database against other migrations. SQLite needs no lock, because only one transaction can write.

    :raises Unavailable: another migration takes longer than LOCK_TIMEOUT (MariaDB; PostgreSQL waits)
    """
    if conn.dialect.name == 'postgresql':
        conn.execute(sa.text('SELECT pg_advisory_xact_lock(:number)'), {'number': LOCK_NUMBER})
        yield
    elif conn.dialect.name == 'mysql':
        if not conn.execute(sa.text("SELECT GET_LOCK(CONCAT('nova_migration_', DATABASE()), :timeout)"),
                            {'timeout': LOCK_TIMEOUT}).scalar():
            raise exception.Unavailable(f'Another migration of this database has not ended within {LOCK_TIMEOUT} s.')
        try:
            yield
            conn.commit()               # commit before unlocking, so that the next migration sees the new revision
        finally:
            conn.execute(sa.text("SELECT RELEASE_LOCK(CONCAT('nova_migration_', DATABASE()))"))
    else:
        yield
