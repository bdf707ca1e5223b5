"""Deadlocks and lock timeouts that a database reports now and then, in the middle of a transaction.

    with db_faults.Injector(database, odds=0.05) as injector:
        ...
    assert injector.count

The errors are those of the dialect's own driver, raised where the driver would raise them, and the transaction is
rolled back, as the server does: whoever goes on in it has lost what was before.
"""
import random
import re
import sqlite3
import threading

import sqlalchemy as sa

WRITES = re.compile(r'\s*(INSERT|UPDATE|DELETE|REPLACE)\b|.*\bFOR UPDATE\b', re.I | re.S)


def _mysql():
    from pymysql import err
    return [lambda: err.OperationalError(1213, 'Deadlock found when trying to get lock; try restarting transaction'),
            lambda: err.OperationalError(1205, 'Lock wait timeout exceeded; try restarting transaction')]


def _postgresql():
    from psycopg2 import errors
    return [lambda: errors.DeadlockDetected('deadlock detected'),
            lambda: errors.LockNotAvailable('canceling statement due to lock timeout'),
            lambda: errors.SerializationFailure('could not serialize access due to concurrent update')]


def _sqlite():
    return [lambda: sqlite3.OperationalError('database is locked')]


ERRORS = {'mysql': _mysql, 'postgresql': _postgresql, 'sqlite': _sqlite}


class Injector:
    """
    :param database: nova.db.engine.Database
    :param odds: probability that a writing statement fails
    """

    def __init__(self, database, odds, seed=0):
        self._engine, self._odds, self._rng = database.engine, odds, random.Random(seed)
        self._errors, self._lock = ERRORS[database.engine.dialect.name](), threading.Lock()
        self.count = 0

    def __enter__(self):
        sa.event.listen(self._engine, 'do_execute', self._execute)
        return self

    def __exit__(self, *_):
        sa.event.remove(self._engine, 'do_execute', self._execute)

    def _execute(self, cursor, statement, parameters, context):
        if not WRITES.match(statement):
            return
        with self._lock:
            if self._rng.random() >= self._odds:
                return
            self.count += 1
            error = self._rng.choice(self._errors)()
        cursor.connection.rollback()
        raise error


def lose_commit(database, committed):
    """The next commit of an SQLite database is made, or not, and its connection is lost."""
    dialect, commit = database.engine.dialect, database.engine.dialect.do_commit

    def lose(connection):
        dialect.do_commit = commit
        if committed:
            commit(connection)
        raise sqlite3.OperationalError('database system is shutting down')
    dialect.do_commit = lose
