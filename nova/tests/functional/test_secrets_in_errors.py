"""Every statement that carries a secret fails once, and the error is told to nobody with the secret in it."""
import io
import logging

import sqlalchemy as sa
from oslo_db import exception as db_exc
import pytest

from nova.db import engine
from nova.db import errors
from nova.tests.support import secrets as test_secrets
from nova.tests.support.secrets_in_errors import check


log_file = test_secrets.log_file
def test_errors_and_logs_contain_no_secret(tmp_path, log_file):
    check(tmp_path / 'state', log_file)


# ---- what the servers say themselves: shown here without them

MYSQL = [
    ((1062, "Duplicate entry 'ca'na\nry' for key 'uniq_x'"), "Duplicate entry '***' for key 'uniq_x'"),
    ((1366, "Incorrect string value: 'canary' for column `a`.`b` at row 1"), 'Incorrect string value: ***'),
    ((1064, "You have an error near 'canary'"), 'You have an error near ***'),
    ((1292, "Truncated incorrect DOUBLE value: 'canary'"), 'Truncated incorrect DOUBLE value: ***'),
    ((1146, "Table 'nova.x' doesn't exist"), "Table 'nova.x' doesn't exist"),
    ((1114, "The table 'instances' is full"), "The table 'instances' is full"),
    ((1021, "Disk full (/tmp/#sql-1.MAI); waiting for someone to free some space... (errno: 28 \"No space left\")"),
     "Disk full (/tmp/#sql-1.MAI); waiting for someone to free some space... (errno: 28 \"No space left\")"),
    ((2003, "Can't connect to MySQL server on 'db1'"), "Can't connect to MySQL server on 'db1'"),
]


@pytest.mark.parametrize('given, told', MYSQL)
def test_mysql_errors_are_reported_without_values(given, told):
    assert errors._mysql(*given) == told and 'canary' not in told


POSTGRESQL = [
    (('23505', 'duplicate key value violates unique constraint "u"\nDETAIL:  Key (a, b)=(x, canary) already exists.\n'),
     'duplicate key value violates unique constraint "u"\nDETAIL:  Key (a, b)=(***) already exists.\n'),
    (('23502', 'null value in column "a" of relation "t"\nDETAIL:  Failing row contains (canary, null).\n'),
     'null value in column "a" of relation "t"'),
    (('42P01', 'relation "t" does not exist\nLINE 1: SELECT FROM t WHERE a = \'canary\'\n'),
     'relation "t" does not exist'),
    (('22P02', 'ungültige Eingabesyntax für Typ integer: »canary«\n'), 'ungültige Eingabesyntax für Typ integer: ***'),
    (('42601', 'syntax error at or near "canary"\n'), 'syntax error at or near ***'),
    ((None, 'can\'t adapt type "canary"'), 'can***'),
]


@pytest.mark.parametrize('given, told', POSTGRESQL)
def test_postgresql_errors_are_reported_without_values(given, told):
    assert errors._postgresql(given[0], False, given[1]) == told and 'canary' not in told


SECRET = 'never told'


def test_a_lost_connection_and_a_missing_table_tell_no_value(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite')
    stream = io.StringIO()
    handler, log = logging.StreamHandler(stream), logging.getLogger('of_this_test')
    log.addHandler(handler)

    def lose(conn):
        conn.connection.dbapi_connection.close()
        conn.execute(sa.text('INSERT INTO t (a) VALUES (:a)'), {'a': SECRET})
    for fail in (lose, lambda conn: conn.execute(sa.text('INSERT INTO t (a) VALUES (:a)'), {'a': SECRET})):
        try:
            db.run(fail)
        except (sa.exc.DBAPIError, db_exc.DBError) as error:
            log.exception('It failed: %s', error)
        else:
            raise AssertionError('it went well')
    log.removeHandler(handler)
    assert stream.getvalue().count('hide_parameters') >= 2, stream.getvalue()
    assert SECRET not in stream.getvalue()
    db.dispose()
