"""Writes of many hosts in one transaction: what one is refused, or lost, is not the others'.

SQLite always; MariaDB and PostgreSQL when NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import threading
import time

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova.conductor.moves import write_batch
from nova.db.servers import instances
from nova.tests import core


@pytest.fixture
def cloud(tmp_path, database_url):
    cloud = core.Cloud(tmp_path, hosts=(), url=database_url)
    yield cloud
    cloud.close()


def name(cloud, uuid, text, then=None):
    """A write: a server gets this name, and then what ``then`` does."""
    def function(conn):
        instances.update(conn, uuid, {'display_name': text})
        if then is not None:
            then()
        return text
    return write_batch.Write(uuid, function)


def names(cloud, uuids):
    return [cloud.row(uuid)['display_name'] for uuid in uuids]


def refuse():
    raise exception.InstanceChanged(instance_id='it')


def test_refused_write_of_a_batch_does_not_affect_the_others(cloud):
    uuids = cloud.insert(3)
    writes = [name(cloud, uuid, 'new', refuse if number == 1 else None) for number, uuid in enumerate(uuids)]
    write_batch.WriteBatches(cloud.db).write(writes)
    assert names(cloud, uuids) == ['new', 'vm', 'new']
    assert [write.result for write in writes if write.error is None] == ['new', 'new']
    assert [type(write.error) for write in writes] == [type(None), exception.InstanceChanged, type(None)]


def test_all_are_done_again_after_a_deadlock(cloud):
    uuids, lost = cloud.insert(3), []

    def lose():
        if not lost:
            lost.append(True)
            raise db_exc.DBDeadlock()
    write_batch.WriteBatches(cloud.db).write([name(cloud, uuid, 'new', lose) for uuid in uuids])
    assert names(cloud, uuids) == ['new'] * 3 and lost


def test_an_error_that_is_nobodys_own_writes_nothing(cloud):
    uuids = cloud.insert(2)

    def fail():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        write_batch.WriteBatches(cloud.db).write([name(cloud, uuids[0], 'new'), name(cloud, uuids[1], 'new', fail)])
    assert names(cloud, uuids) == ['vm', 'vm']


def test_writes_that_arrive_during_a_batch_share_one_transaction(cloud):
    made, commits, answers = write_batch.WriteBatches(cloud.db), [], []
    uuids = cloud.insert(20)
    threads = [threading.Thread(target=lambda uuid=uuid: answers.append(made.run(
        uuid, lambda conn: instances.update(conn, uuid, {'progress': 50})))) for uuid in uuids]
    sa.event.listen(cloud.db.engine, 'commit', commits.append)
    with cloud.db.writer() as conn:
        instances.lock(conn, uuids[0])                       # the first one waits for this
        threads[0].start()
        deadline = time.monotonic() + 120
        while not made.working:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for thread in threads[1:]:
            thread.start()
        while made.waiting < 19:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert len(commits) <= 3                                 # the lock's, the first one's, and that of all others
    assert answers == [True] * 20 and {cloud.row(uuid)['progress'] for uuid in uuids} == {50}
