"""Schemas: alembic, one branch of revisions for the API database and one for a cell's.

Revisions are called ``<branch>_<number>`` and follow each other in one line, so that the newest one is known from
the names of the files, without loading alembic.
"""
import contextlib
import importlib
import os
import pathlib

import sqlalchemy as sa

from nova import exception
from nova.db import categories

DIRECTORY = pathlib.Path(__file__).parent / 'migrations'
LOCK_TIMEOUT = 600                  # seconds that one migration waits for another one of the same database
LOCK_NUMBER = 0x6E6F7661

# branch: modules whose tables it holds, and the command that brings a database to the newest revision
BRANCHES = {
    'api': (('tables_api', 'tables_aggregates', 'tables_categories', 'tables_identity', 'tables_image',
             'tables_network', 'tables_volume'), 'nova-manage api_db sync'),
    'cell': (('tables_cell', 'tables_usage', 'tables_placement', 'tables_maintenance', 'tables_pci', 'tables_console'),
             'nova-manage db sync'),
}

# branch: what adds the rows that are always there
ROWS = {'api': categories.ensure}


def metadata(branch):
    """The tables of a branch, as the code has them."""
    modules = [importlib.import_module(f'nova.db.{name}') for name in BRANCHES[branch][0]]
    return modules[0].metadata


def head(branch):
    """The newest revision of a branch."""
    return max(name.removesuffix('.py') for name in os.listdir(DIRECTORY / branch) if name.startswith(branch))


def version(db):
    """The revision at which a database is, None when it has none."""
    with db.reader() as conn:
        return _version(conn)


def _version(conn):
    if not sa.inspect(conn).has_table('alembic_version'):
        return None
    return conn.exec_driver_sql('SELECT version_num FROM alembic_version').scalar()


def sync(db, branch):
    """Bring a database to the newest revision; does nothing when it is there. Safe to run in parallel."""
    if version(db) == head(branch):
        return
    from alembic import command

    with db.writer() as conn, _alone(conn):
        if _version(conn) == head(branch):
            return
        command.upgrade(config(branch, conn), 'head')
        if branch in ROWS:
            ROWS[branch](conn)


def check(db, branch):
    """
    :raises DatabaseNotReady: the database is not at the revision of this code
    """
    found, expected = version(db), head(branch)
    if found != expected:
        raise exception.DatabaseNotReady(branch=branch, found=found or 'none', expected=expected,
                                         command=BRANCHES[branch][1])


def config(branch, conn):
    """What alembic's commands take."""
    from alembic.config import Config

    made = Config()
    made.set_main_option('script_location', str(DIRECTORY))
    made.set_main_option('version_locations', str(DIRECTORY / branch))
    made.set_main_option('path_separator', 'os')
    made.attributes.update(connection=conn, metadata=metadata(branch))
    return made


def differences(db, branch):
    """What alembic finds different between a database and the tables of the code: a list, empty when nothing."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with db.reader() as conn:
        return compare_metadata(MigrationContext.configure(conn), metadata(branch))


@contextlib.contextmanager
def _alone(conn):
    """One migration at a time; SQLite's write transaction is such a lock by itself."""
    if conn.dialect.name == 'postgresql':
        conn.execute(sa.text('SELECT pg_advisory_xact_lock(:number)'), {'number': LOCK_NUMBER})
        yield
    elif conn.dialect.name in ('mysql', 'mariadb'):
        conn.execute(sa.text("SELECT GET_LOCK(CONCAT('nova_migration_', DATABASE()), :timeout)"),
                     {'timeout': LOCK_TIMEOUT})
        try:
            yield
        finally:
            conn.execute(sa.text("SELECT RELEASE_LOCK(CONCAT('nova_migration_', DATABASE()))"))
    else:
        yield
