"""The networks' statements on database servers: what SQLite, with its one writer, does not show."""
import threading

import pytest
import sqlalchemy as sa

from nova.db.networks import ports
from nova.db.networks import revisions
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.tests.integration import servers


@pytest.fixture(scope='module', params=['mariadb', 'postgresql'])
def db(request):
    with servers.databases(request.param) as database:
        yield database('networks', 'api')


def current(db):
    with db.reader() as conn:
        return revisions.current(conn)


def test_writers_at_the_same_time_all_count(db):
    before = current(db)

    def write():
        for _ in range(20):
            db.run(revisions.changed)
    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert current(db) == before + 160


def test_what_is_committed_later_counts_later(db):
    """A transaction that began before another one and ends after it is a change for who has read in between."""
    with db.writer() as first:
        security_groups.ensure_default(first, 'slow')
        db.run(security_groups.ensure_default, 'quick')
        seen = current(db)
        assert revisions.after(first) == seen + 1
    assert current(db) == seen + 1
    with db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(t.security_groups)).scalar() == 2


def test_ports_and_the_default_group_in_one_statement(db):
    group = db.run(security_groups.ensure_default, 'one')
    with db.reader() as conn:
        assert ports.of_device_and_default_group(conn, 'no such server', 'one') == ([], group)
        assert ports.of_device_and_default_group(conn, 'no such server', 'none') == ([], None)
