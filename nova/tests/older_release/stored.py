"""Databases of the tree before the first release, made of rows.json."""
import dataclasses
import functools
import json

from nova.db import conversion
from nova.db import schema
from nova.db import state_backup
from nova.tests import older_release


@functools.cache
def rows():
    """Return {branch: {'revision': …, 'tables': [[table, columns, rows], …]}}."""
    return json.loads((older_release.DIRECTORY / 'rows.json').read_text())


def make(db, branch):
    """Fill an empty database with the rows, at the revision that they have."""
    revision = rows()[branch]['revision']
    assert revision == schema.PREDECESSORS[branch]
    state_backup.prepare(db, branch, revision)
    for table, columns, batch in rows()[branch]['tables']:
        state_backup.insert(db, branch, table, columns, batch)
    with db.writer() as conn:
        for row in conversion.ROWS[branch]:
            # the rows are inserted into tables with the new names
            if isinstance(row, conversion.Column | conversion.Index):
                dataclasses.replace(row, old=row.new, new=row.old).apply(conn)
        schema.stamp(conn, revision)
    return db


def with_new_columns(found, branch):
    """Return ``contents`` with the new names of columns."""
    renamed = {table: conversion.renamed_columns(branch, table) for table in found}
    return {table: sorted(json.dumps({renamed[table].get(name, name): value for name, value in json.loads(row).items()})
                          for row in rows) for table, rows in found.items()}


def contents(db, branch):
    """Return {table: rows in any order} of a database, as JSON values."""
    with state_backup.moment([db]) as (conn,):
        found = {}
        for table, columns, batch in state_backup.batches(conn, branch):
            found.setdefault(table, []).extend(dict(zip(columns, row)) for row in batch)
    return {table: sorted(map(json.dumps, listed)) for table, listed in found.items()}
