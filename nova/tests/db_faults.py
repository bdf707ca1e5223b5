"""Deadlocks and lock timeouts that a database reports now and then, in the middle of a transaction.

    with db_faults.Injector(database, odds=0.05) as injector:
        ...
    assert injector.count

The errors are those of the dialect's own driver, raised where the driver would raise them, and the transaction is
rolled back, as the server does: whoever goes on in it has lost what was before.
"""
import itertools
import random
import re
import sqlite3
import threading

import sqlalchemy as sa

WRITES = re.compile(r'\s*(INSERT|UPDATE|DELETE|REPLACE)\b|.*\bFOR UPDATE\b', re.I | re.S)


def _mysql(driver):
    return [lambda: driver.OperationalError(1213, 'Deadlock found when trying to get lock; try restarting transaction'),
            lambda: driver.OperationalError(1205, 'Lock wait timeout exceeded; try restarting transaction')]


def _postgresql(_driver):
    from psycopg2 import errors
    return [lambda: errors.DeadlockDetected('deadlock detected'),
            lambda: errors.LockNotAvailable('canceling statement due to lock timeout'),
            lambda: errors.SerializationFailure('could not serialize access due to concurrent update')]


def _sqlite(_driver):
    return [lambda: sqlite3.OperationalError('database is locked')]


ERRORS = {'mysql': _mysql, 'postgresql': _postgresql, 'sqlite': _sqlite}


class Injector:
    """
    :param database: nova.db.engine.Database
    :param odds: probability that a writing statement fails
    """

    def __init__(self, database, odds, seed=0):
        self._engine, self._odds, self._rng = database.engine, odds, random.Random(seed)
        self._errors, self._lock = ERRORS[database.engine.dialect.name](
            database.engine.dialect.loaded_dbapi), threading.Lock()
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


def lose_commit(database, committed, after=0):
    """The next commit of an SQLite database, or one after so many others, is made, or not, and its connection is
    lost.
    """
    dialect, commit, begun = database.engine.dialect, database.engine.dialect.do_commit, itertools.count()

    def lose(connection):
        if next(begun) < after:
            commit(connection)
            return
        dialect.do_commit = commit
        if committed:
            commit(connection)
        else:
            connection.rollback()
        raise sqlite3.OperationalError('database system is shutting down')
    dialect.do_commit = lose


# What else is secret beside the words that a test looks for: hashes of passwords, addresses of volumes.
SECRET_FORMS = re.compile(r'\$2[aby]\$\d\d\$|"driver_volume_type"')
CONSOLES = 'console_auth_tokens'
PROBE = 'fault_probe'
MARKS = {'sqlite': '?', 'mysql': '%s', 'postgresql': '%s'}
EVENTS = ('do_execute', 'do_executemany')
FAILURES = (f'INSERT INTO {PROBE} (word) VALUES ({{}})', 'INSERT INTO no_such_table (word) VALUES ({})',
            'SELECT 1 FROM WHERE word = {}')


class SecretInjector:
    """Lets each statement that carries a secret fail once, by an error of the server itself about that secret: a
    duplicate, a table that is not there, a syntax error, in turn.

    :param databases: nova.db.engine.Database, of which the probe's table is made
    :param secrets_in: function(text) -> the secret words in it
    """

    def __init__(self, databases, secrets_in):
        self._databases, self._secrets_in = databases, secrets_in
        self._seen, self._lock = set(), threading.Lock()
        self.tables, self.secrets = set(), set()         # that statements which failed were about; what they carried

    def __enter__(self):
        for database in self._databases:
            with database.writer() as conn:
                conn.execute(sa.text(f'CREATE TABLE {PROBE} (word VARCHAR(255) PRIMARY KEY)'))
            for event in EVENTS:
                sa.event.listen(database.engine, event, self._execute)
        return self

    def __exit__(self, *_):
        for database in self._databases:
            for event in EVENTS:
                sa.event.remove(database.engine, event, self._execute)

    def _execute(self, cursor, statement, parameters, context):
        rows = parameters if isinstance(parameters, list) else [parameters]
        values = [value for row in rows for value in (row.values() if isinstance(row, dict) else row)
                  if isinstance(value, str)]
        hidden = [value for value in values if SECRET_FORMS.search(value) or CONSOLES in statement and len(value) == 64]
        words = hidden + [word for value in values for word in self._secrets_in(value)]
        shape = statement[:200]
        with self._lock:
            if not words or shape in self._seen:
                return
            self._seen.add(shape)
            failure = FAILURES[len(self._seen) % len(FAILURES)]
        self.tables |= {word.strip('"`') for word in re.findall(r'(?:INTO|UPDATE|FROM)\s+([\w"`]+)', statement)}
        self.secrets.update(hidden)
        text = failure.format(MARKS[context.dialect.name])
        for _ in range(2):                               # the second one is a duplicate
            cursor.execute(text, (words[0][-250:],))
        raise AssertionError('the statement of the test went well')
