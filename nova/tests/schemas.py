"""Schemas of tests, made once a process: an SQLite database of a test begins as a copy of one."""
import functools
import pathlib
import tempfile

import sqlalchemy as sa

from nova.db import engine
from nova.db import schema as migration


def create(database, branch):
    """The tables of a branch, without rows, as create_all() makes them; on a server by create_all() itself."""
    _create(database, branch, _tables)


def migrate(database, branch):
    """What migration.sync() makes of a new database; an existing one is migrated."""
    _create(database, branch, migration.sync)


def reflected(database):
    """Return all that a database says of its tables, in any order of their columns; without those of alembic."""
    with database.reader() as conn:
        inspector = sa.inspect(conn)
        return {name: {
            'columns': {column['name']: {**column, 'type': repr(column['type'])}
                        for column in inspector.get_columns(name)},
            'key': inspector.get_pk_constraint(name), 'options': inspector.get_table_options(name),
            'foreign keys': _sorted(inspector.get_foreign_keys(name)), 'indexes': _sorted(inspector.get_indexes(name)),
            'unique': _sorted(inspector.get_unique_constraints(name)),
        } for name in inspector.get_table_names() if name not in (migration.EXPAND, migration.CONTRACT)}


def _sorted(listed):
    return sorted(listed, key=str)


def empty(database, branch):
    """Delete all rows; the tables stay, as to make them takes longer than most tests."""
    with database.writer() as conn:
        for table in reversed(migration.metadata(branch).sorted_tables):
            conn.execute(sa.delete(table))


def drop(url):
    """Remove the tables of both branches from a database of a server."""
    database = engine.Database(url)
    for branch in migration.BRANCHES:
        migration.metadata(branch).drop_all(database.engine)
    database.dispose()


def _create(database, branch, make):
    path = database.sqlite and pathlib.Path(database.url.database)
    if path and not path.exists():
        path.touch(0o600)
        path.write_bytes(_template(branch, make))
    else:
        make(database, branch)


def _tables(database, branch):
    migration.metadata(branch).create_all(database.engine)


@functools.cache
def _template(branch, make):
    """The file of an SQLite database that ``make(database, branch)`` has made."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / 'template.sqlite'
        database = engine.Database(f'sqlite:///{path}')
        make(database, branch)
        database.dispose()               # the last connection writes all of it into the one file
        return path.read_bytes()
