"""What tests share with nova/tests/functional/test_cell_transfer.py."""
import pytest

from nova import actions
from nova import exception
from nova import states
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.tests import many_cells
from nova.tests import races

STEPS = 6                    # transactions of one placement in another cell, at least


@pytest.fixture
def deployment(tmp_path):
    made = many_cells.Deployment(tmp_path)
    yield made
    made.close()


def place(deployment, uuids, **process):
    scheduler = deployment.process(**process).scheduler()
    return scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuids[0]), uuids)


def recover(deployment):
    """What the conductors of all cells do in time; what is still to be placed then is placed."""
    for name in many_cells.NAMES:
        deployment.process(name).conductor().reconciler.settle_cell_moves()


def write(deployment, uuid, function):
    """``function(conn)`` in the cell of a server as the API does it, which resolves again where the row has gone."""
    for _ in range(10):
        name = deployment.resolve(uuid)
        try:
            return deployment.dbs[name].run(function)
        except exception.InstanceNotFound:
            continue
    raise AssertionError('the server is nowhere')


def rename(deployment, uuid):
    def change(conn):
        instances.update(conn, uuid, {'display_name': 'renamed', 'locked': True, 'tags': ',a,b,'})
        instance_actions.insert(conn, deployment.ctx, [uuid], 'lock', finished=True)
    write(deployment, uuid, change)


def delete(deployment, uuid):
    write(deployment, uuid, lambda conn: tasks.begin(conn, deployment.ctx, uuid, actions.ACTIONS['delete']))


def broken_off_everywhere(deployment, change, ways=range(1, 40)):
    """A scheduler dies after its first transaction, another one after its second, and so on.

    :param ways: after how many
    """
    for steps in ways:
        uuid, = deployment.create()
        life = many_cells.Life()
        scheduler = deployment.process(life=life).scheduler()
        spec = deployment.spec_of(uuid)
        life.number, life.most = 0, steps
        try:
            scheduler.methods.select_destinations(deployment.ctx, spec, [uuid])
            finished = True
        except many_cells.Killed:
            finished = False
        life.most = None
        assert deployment.cells_of(uuid), steps
        if change:
            change(deployment, uuid)
        recover(deployment)
        if change is not delete:
            assert place(deployment, [uuid])[0], steps
        there = deployment.check()
        row = deployment.cells_of(uuid)[there[uuid]]
        if change is rename:
            assert (row['display_name'], row['locked'], row['tags']) == ('renamed', True, ',a,b,'), steps
        assert row['task_state'] == (states.DELETING if change is delete else states.SCHEDULING), steps
        assert deployment.actions(uuid, there[uuid]) == ['create'] + (
            ['lock'] if change is rename else ['delete'] if change is delete else [])
        deployment.end_processes()
        if finished:
            break
    assert finished and steps >= STEPS or steps == ways[-1]


def placed_and_deleted_at_once(deployment):
    """Each server is placed by two schedulers, and every other one deleted, all at the same moment."""
    uuids = deployment.create(12)
    schedulers = [deployment.process().scheduler() for _ in range(2)]

    def placing(scheduler, uuid):
        return lambda: scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuid), [uuid])[0]
    first, second = ([placing(scheduler, uuid) for uuid in uuids] for scheduler in schedulers)
    deletes = [lambda uuid=uuid: delete(deployment, uuid) for uuid in uuids[::2]]
    found = races.at_once(*first, *second, *deletes)
    there = deployment.check()
    for number, uuid in enumerate(uuids):
        row = deployment.cells_of(uuid)[there[uuid]]
        told = {chosen[0].host for chosen in (found[number], found[12 + number]) if chosen}
        assert told <= {row['host']}
        if number % 2 == 0:
            assert row['task_state'] == states.DELETING
        else:
            assert told
    deployment.end_processes()
