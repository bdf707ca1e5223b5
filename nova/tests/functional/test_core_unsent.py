"""A message that its sender could not send is sent at the reconciler's next look, not when its task is overdue."""
import contextlib
import datetime
import sqlite3
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.conductor.upkeep import reconciler
from nova.db import errors
from nova.db.projects import quotas
from nova.db.servers import instance_actions
from nova.db.tables import cell as tables_cell
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as moves
from nova.tests.support import core_shelve as shelve

cloud = moves.cloud


def unsent(method):
    """A broker that does not take this one."""
    def lost(topic, name, server):
        if topic == 'compute' and name == method:
            raise exception.HostUnavailable(host=server)
        return False
    return lost


def delete(cloud, uuid):
    cloud.delete(uuid)
    cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)


def resize(cloud, uuid):
    cloud.move(uuid, flavor=moves.BIG)


def resized(end):
    def run(cloud, uuid):
        lost, cloud.bus.lost = cloud.bus.lost, None
        resize(cloud, uuid)
        cloud.settle()
        cloud.bus.lost = lost
        cloud.end(uuid, end)
    return run


def unshelve(cloud, uuid):
    shelve.shelve(cloud, uuid)
    cloud.act(uuid, 'unshelve', host=None)


def offload(cloud, uuid):
    """Of itself, a time after it was shelved."""
    cloud.conf.set_override('shelved_offload_time', -1)
    shelve.shelve(cloud, uuid)
    cloud.conf.set_override('shelved_offload_time', 1)
    time.sleep(1.1)
    assert cloud.conductor.deferred.offload_shelved() == 1


@pytest.mark.parametrize(('method', 'begin', 'after'), [
    ('terminate_instance', delete, None),
    ('resize_instance', resize, states.RESIZED),
    ('finish_resize', resize, states.RESIZED),
    ('confirm_resize', resized('confirmResize'), states.ACTIVE),
    ('revert_resize', resized('revertResize'), states.ACTIVE),
    ('finish_revert_resize', resized('revertResize'), states.ACTIVE),
    ('unshelve_instance', unshelve, states.ACTIVE),
    ('shelve_offload_instance', offload, states.SHELVED_OFFLOADED),
    ('live_migrate_instance', live.migrate, states.ACTIVE),
], ids=['delete', 'resize-source', 'resize-destination', 'confirm', 'revert-destination', 'revert-source', 'unshelve',
        'offload', 'live-migration'])
def test_it_is_sent_at_the_next_look(cloud, method, begin, after):
    uuid = cloud.boot(requested_host='host1')
    cloud.bus.lost = unsent(method)
    begin(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['task_state'] is not None
    cloud.bus.lost = None
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.gone(uuid) if after is None else cloud.row(uuid)['vm_state'] == after
    assert after is None or cloud.row(uuid)['task_state'] is None


def silence(cloud):
    """No heartbeat could be written for a while; then one is."""
    services = tables_cell.services
    with cloud.db.writer() as conn:
        conn.execute(sa.update(services).values(last_seen_at=utils.utcnow() - datetime.timedelta(seconds=300)))
    cloud.new_conductor()                        # which has not written any
    cloud.heartbeat('host2')


def break_connection(cloud):
    with cloud.db.engine.connect() as conn:
        conn.invalidate(OSError('The server has gone away.'))
    cloud.conductor.reconciler.reconcile()


@pytest.mark.parametrize('happens', [lambda cloud: cloud.conductor.messages_lost(), silence, break_connection],
                         ids=['queue-lost', 'silence', 'database-away'])
def test_tasks_that_no_host_can_have_started_are_resent_soon(cloud, happens):
    uuid = cloud.boot(requested_host='host1')
    cloud.bus.lost = lambda topic, name, server: name == 'stop_instance'
    cloud.act(uuid, 'os-stop', clean_shutdown=False)
    soon = utils.utcnow() + datetime.timedelta(seconds=reconciler.START_GRACE_S + 1)
    with cloud.db.reader() as conn:
        assert instance_actions.overdue(conn, soon) == []
    happens(cloud)
    with cloud.db.reader() as conn:
        assert [action['instance_uuid'] for action in instance_actions.overdue(conn, soon)] == [uuid]


@contextlib.contextmanager
def failing(database, statements):
    """A block in which the database does not carry out statements that begin so; what fails of it is left out."""
    refused = []

    def fail(_cursor, statement, *_more):
        if statement.startswith(statements):
            refused.append(statement)
            raise sqlite3.OperationalError('disk I/O error')
    sa.event.listen(database.engine, 'do_execute', fail)
    try:
        with contextlib.suppress(errors.Unwritable):
            yield
    finally:
        sa.event.remove(database.engine, 'do_execute', fail)
    assert refused


@pytest.mark.parametrize('happens', [silence, break_connection], ids=['silence', 'database-away'])
def test_failed_rescheduling_of_unsent_tasks_is_repeated(cloud, happens):
    """The database was away again: whoever had noticed the first time did not know of it any more."""
    uuid = cloud.boot(requested_host='host1')
    cloud.bus.lost = lambda topic, name, server: name == 'stop_instance'
    cloud.act(uuid, 'os-stop', clean_shutdown=False)

    with failing(cloud.db, 'UPDATE instance_actions'):
        happens(cloud)
    cloud.heartbeat('host2')
    cloud.conductor.reconciler.reconcile()
    soon = utils.utcnow() + datetime.timedelta(seconds=reconciler.START_GRACE_S + 1)
    with cloud.db.reader() as conn:
        assert [action['instance_uuid'] for action in instance_actions.overdue(conn, soon)] == [uuid]


@pytest.mark.parametrize('looks', [0, 1], ids=['look', 'mend'])
def test_failed_check_of_usage_is_repeated_soon(cloud, looks):
    uuid, conductor = cloud.boot(requested_host='host1'), cloud.conductor
    size = cloud.counted(uuid)
    assert conductor.quota_check.count_sizes() == 0
    cloud.api_db.run(quotas.set_size, uuid, 7, 7)
    conductor.messages_lost()
    assert [conductor.quota_check.count_sizes() for _ in range(looks)] == [0] * looks
    with failing(cloud.api_db, 'SELECT'):
        conductor.quota_check.count_sizes()
    assert [conductor.quota_check.count_sizes() for _ in range(2)] == [0, 1] and cloud.counted(uuid) == size


def test_server_chosen_for_a_deleted_cell_fails_alone(cloud, caplog, monkeypatch):
    """The cell was deleted after the scheduler had chosen a host there. It was an AttributeError, and the other servers
    of the request were not sent either."""
    select = cloud.scheduler.methods.select_destinations

    def select_destinations(ctx, spec, instance_uuids):
        first, *others = select(ctx, spec, instance_uuids)
        first[0].cell_uuid = '2f5c1f9e-5d0e-4b0a-9a0c-3f1a7f2f9b11'
        return [first, *others]
    monkeypatch.setattr(cloud.scheduler.methods, 'select_destinations', select_destinations)
    lost, other = cloud.create(2)
    cloud.settle()
    assert cloud.row(other)['vm_state'] == states.ACTIVE
    assert (cloud.row(lost)['vm_state'], cloud.row(lost)['task_state']) == (states.BUILDING, states.SCHEDULING)
    assert 'Cell 2f5c1f9e-5d0e-4b0a-9a0c-3f1a7f2f9b11 of host ' in caplog.text
    assert cloud.conductor.reconciler.reconcile() == 1               # here its row is in a cell that is there
    cloud.settle()
    assert cloud.row(lost)['vm_state'] == states.ACTIVE


def test_task_that_could_not_be_sent_is_sent_at_the_next_reconciliation(cloud):
    uuid = cloud.boot(requested_host='host1')
    cloud.bus.lost = unsent('stop_instance')
    cloud.act(uuid, 'os-stop', clean_shutdown=False)
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1                  # in vain
    cloud.bus.lost = None
    time.sleep(reconciler.RESEND_DELAY_S)
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.STOPPED
