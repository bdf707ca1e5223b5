"""What a database server says of a failed statement is told without the secrets that it quotes."""
import traceback

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova.db import engine
from nova.tests.integration import servers
from nova.tests.support import secrets as test_secrets
from nova.tests.support import secrets_in_errors as walk

log_file = test_secrets.log_file
SERVERS = [name for name in servers.SHARED if name != 'sqlite']

# Statements that the server refuses, and how it is raised.
REFUSED = [
    ("INSERT INTO t VALUES (:a, 1, 'x')", db_exc.DBDuplicateEntry),
    ('INSERT INTO t VALUES (:a, :b, NULL)', db_exc.DBError),             # no number
    ('INSERT INTO t VALUES (:b, 9, :a)', Exception),                     # a check, or too long
    ('INSERT INTO t VALUES (NULL, 1, :a)', db_exc.DBError),
    ('INSERT INTO no_such_table VALUES (:a, :b)', Exception),
    ('INSERT INTO t VALUES (:a 1)', db_exc.DBError),
    ("INSERT INTO t VALUES (:b, CAST(:a AS date), 'x')", db_exc.DBError),
    ('SELECT :a + no_such_column FROM t', Exception),
]


@pytest.fixture(scope='module', params=SERVERS)
def url_of(request):
    with servers.SHARED[request.param]() as made:
        yield made


@pytest.fixture(scope='module')
def words(url_of):
    db = engine.Database(url_of('words'))
    yield db
    db.dispose()


@pytest.mark.parametrize('statement, kind', REFUSED)
def test_database_errors_show_no_values(words, log_file, statement, kind):
    db = words
    secrets = {'a': 'canary-a', 'b': 'canary-b'}
    with db.writer() as conn:
        conn.execute(sa.text('DROP TABLE IF EXISTS t'))
        conn.execute(sa.text('CREATE TABLE t (a VARCHAR(64) PRIMARY KEY, b INTEGER CHECK (b < 5), c VARCHAR(3))'))
        conn.execute(sa.text("INSERT INTO t VALUES (:a, 1, 'x')"), secrets)
    with pytest.raises(kind) as caught:
        db.run(lambda conn: conn.execute(sa.text(statement), {
            name: value for name, value in secrets.items() if ':' + name in statement}))
    error = caught.value
    told = ''.join(traceback.format_exception(error)) + repr(getattr(error, 'value', '')) + log_file.read_text()
    assert 'hide_parameters' in told and 'canary' not in told.replace(statement, '')


def test_no_error_tells_a_secret(url_of, tmp_path, log_file):
    walk.check(tmp_path / 'state', log_file, api_database__connection=url_of('api'),
               database__connection=url_of('cell'))
