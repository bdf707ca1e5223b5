"""The migrations, and the few statements that differ, on the three databases."""
import datetime
import threading
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova.db import engine
from nova.db import migration
from nova.db import services
from nova.db import tables_cell
from nova.tests.integration import servers


@pytest.fixture(scope='module', params=list(servers.DATABASES))
def make(request):
    """function(name) -> Database, on one of the servers."""
    with servers.DATABASES[request.param]() as url_of:
        made = []

        def database(name):
            made.append(engine.Database(url_of(name)))
            return made[-1]
        yield database
        for db in made:
            db.dispose()


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_the_migrations_make_the_tables_of_the_code(make, branch):
    db = make(f'same_{branch}')
    with pytest.raises(exception.DatabaseNotReady, match='nova-manage'):
        migration.check(db, branch)
    migration.sync(db, branch)
    assert migration.differences(db, branch) == []
    migration.check(db, branch)
    migration.sync(db, branch)                     # again: nothing to do
    assert migration.version(db) == migration.head(branch)


def test_parallel_migrations_do_not_collide(make):
    db = make('parallel')
    url = db.url.render_as_string(hide_password=False)
    errors = []

    def sync():
        try:
            other = engine.Database(url)
            migration.sync(other, 'cell')
            other.dispose()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=sync) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert migration.version(db) == migration.head('cell')


@pytest.fixture(scope='module')
def cell(make):
    db = make('cell')
    migration.sync(db, 'cell')
    return db


def test_heartbeats(cell):
    with cell.writer() as conn:
        first = services.report(conn, 'h', 'nova-compute', 'compute', 'nova', 1)
    with cell.writer() as conn:
        again = services.report(conn, 'h', 'nova-compute', 'compute', 'nova', 2)
    assert first['uuid'] == again['uuid'] and again['version'] == 2
    assert again['last_seen_at'] >= first['last_seen_at']
    assert again['last_seen_at'].microsecond or first['last_seen_at'].microsecond       # not cut to seconds


def test_insert_ignore_keeps_what_is_there(cell):
    row = {'uuid': str(uuid.uuid4()), 'host': 'twice', 'binary': 'b', 'topic': 't', 'availability_zone': 'z',
           'version': 1, 'created_at': datetime.datetime(2026, 11, 21), 'disabled': False, 'forced_down': False}
    with cell.writer() as conn:
        engine.insert_ignore(conn, tables_cell.services, row)
        engine.insert_ignore(conn, tables_cell.services, {**row, 'uuid': str(uuid.uuid4()), 'version': 2})
    with cell.reader() as conn:
        rows = conn.execute(sa.select(tables_cell.services).where(tables_cell.services.c.host == 'twice')).all()
    assert [found.uuid for found in rows] == [row['uuid']]


def test_a_failing_transaction_leaves_nothing(cell):
    with pytest.raises(ZeroDivisionError), cell.writer() as conn:
        services.report(conn, 'lost', 'b', 't', 'z', 1)
        raise ZeroDivisionError
    with cell.reader() as conn:
        assert [row['host'] for row in services.list(conn, host='lost')] == []
