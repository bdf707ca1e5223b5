"""Schemas: alembic, one branch of revisions for the API database and one for a cell's.

Revisions are called ``<branch>_<number>`` and follow each other in one line, so that the newest one is known from
the names of the files, without loading alembic.

They only add (EXPAND): the code of the release before runs on a schema that is newer than its own. What drops or
tightens is a line of its own, ``<branch>_contract_<number>`` (CONTRACT), applied by a command when no older service
lives any more. The number of a database's newest contraction is its generation: code that does not know it is refused.
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
EXPAND, CONTRACT = 'alembic_version', 'alembic_contract_version'       # tables that hold where a database is
LOCK_TIMEOUT = 600                  # seconds that one migration waits for another one of the same database
LOCK_NUMBER = 0x6E6F7661

# branch: modules whose tables it holds, and the command that brings a database to the newest revision
BRANCHES = {
    'api': (('api', 'aggregates', 'categories', 'identity', 'image',
             'network', 'volume', 'ec2', 'vpns', 'audit'), 'nova-manage api_db sync'),
    'cell': (('cell', 'usage', 'placement', 'cell_moves', 'maintenance',
              'pci', 'console', 'shadow', 'audit'),
             'nova-manage db sync'),
}

# branch: what adds the rows that are always there
ROWS = {'api': categories.ensure}


def metadata(branch: str) -> Any:
    """The tables of a branch, as the code has them."""
    modules = [importlib.import_module(f'nova.db.tables.{name}') for name in BRANCHES[branch][0]]
    return modules[0].metadata


def head(branch: str, phase: str = EXPAND) -> str | None:
    """The newest revision of a branch; None where it has none."""
    prefix = _prefix(branch, phase)
    return max((name.removesuffix('.py') for name in os.listdir(directory(branch, phase))
                if name.startswith(prefix)), default=None)


def directory(branch: str, phase: str = EXPAND) -> pathlib.Path:
    """Where the revisions of a branch are."""
    return DIRECTORY / (branch if phase == EXPAND else f'{branch}_contract')


def revisions(branch: str) -> list[str]:
    """The revisions of a branch that only add, the oldest first."""
    prefix = _prefix(branch, EXPAND)
    return sorted(name.removesuffix('.py') for name in os.listdir(directory(branch)) if name.startswith(prefix))


def create(conn: sa.Connection, branch: str, revision: str) -> None:
    """Make the tables of a revision in an empty database."""
    from alembic import command
    command.upgrade(config(branch, conn), revision)


def _prefix(branch: str, phase: str) -> str:
    return f'{branch}_' if phase == EXPAND else f'{branch}_contract_'


def _number(branch: str, phase: str, revision: str | None) -> int | None:
    """The place of a revision in its line, 0 for None; None when it is none of this line's."""
    if revision is None:
        return 0
    number = revision.removeprefix(_prefix(branch, phase))
    return int(number) if number.isascii() and number.isdigit() else None


def _newest(branch: str, phase: str) -> int:
    """The number of the newest revision that this code has, 0 where it has none."""
    number = _number(branch, phase, head(branch, phase))
    assert number is not None                    # revisions are files whose names end in a number
    return number


def version(db: Database, phase: str = EXPAND) -> str | None:
    """The revision at which a database is, None when it has none."""
    with db.reader() as conn:
        return version_of(conn, phase)


def version_of(conn: sa.Connection, phase: str = EXPAND) -> str | None:
    """The same, through an open connection."""
    # not has_table(): MariaDB refuses an account of few rights to look for a table that is not there
    if phase not in sa.inspect(conn).get_table_names():
        return None
    return conn.exec_driver_sql(f'SELECT version_num FROM {phase}').scalar()


def is_behind(db: Database, branch: str, phase: str = EXPAND) -> bool:
    """Whether this code has revisions that the database lacks; False also where it has newer ones."""
    found = _number(branch, phase, version(db, phase))
    return found is not None and found < _newest(branch, phase)


def sync(db: Database, branch: str) -> None:
    """Bring a database to the newest revision; does nothing when it is there, or further. Safe to run in parallel.

    Tables that an older release made on a server with another default collation get the collation of the others.
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
    """Drop and tighten what only older code needed; True when something was done.

    The caller has seen to it that no such code runs.
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
    """
    :raises DatabaseNotReady: the database lacks revisions of this code, or newer code has contracted it
    """
    with db.reader() as conn:
        found, contracted = version_of(conn), version_of(conn, CONTRACT)
    number = _number(branch, EXPAND, found)
    name = db.name if db.name.startswith(branch) else branch         # one of several cells by its name
    if number is None or number < _newest(branch, EXPAND):
        raise exception.DatabaseNotReady(branch=name, found=found or 'none', expected=head(branch),
                                         command=BRANCHES[branch][1])
    generation = _number(branch, CONTRACT, contracted)
    if generation is None or generation > _newest(branch, CONTRACT):
        raise exception.DatabaseTooNew(branch=name, found=contracted, known=head(branch, CONTRACT) or 'none')


def config(branch: str, conn: sa.Connection, phase: str = EXPAND) -> Any:
    """What alembic's commands take."""
    from alembic.config import Config

    made = Config()
    made.set_main_option('script_location', str(DIRECTORY))
    made.set_main_option('version_locations', str(directory(branch, phase)))
    made.set_main_option('path_separator', 'os')
    made.attributes.update(connection=conn, metadata=metadata(branch), version_table=phase)
    return made


def differences(db: Database, branch: str) -> list[tuple[str, Any]]:
    """What alembic finds different between a database and the tables of the code: a list, empty when nothing."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with db.reader() as conn:
        context = MigrationContext.configure(conn, opts={'include_name': _is_ours})
        return compare_metadata(context, metadata(branch))


def _is_ours(name: Any, kind: str, parents: dict[str, Any]) -> bool:
    return kind != 'table' or name != CONTRACT


@contextlib.contextmanager
def _alone(conn: sa.Connection) -> Iterator[None]:
    """One migration at a time; SQLite's write transaction is such a lock by itself.

    :raises Unavailable: another one takes longer than LOCK_TIMEOUT (MariaDB; PostgreSQL waits for it)
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
            conn.commit()               # before the lock ends: the next one reads which version this one has written
        finally:
            conn.execute(sa.text("SELECT RELEASE_LOCK(CONCAT('nova_migration_', DATABASE()))"))
    else:
        yield
