"""More than the cloud can do: 503 with Retry-After, never a 500 and never a server in ERROR."""
import contextlib
import threading
import time

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import exception
from nova.api import build_admission
from nova.conductor import interface as conductor_interface
from nova.db.projects import quotas
from nova.db.servers import instance_actions
from nova.db.tables import cell as tables_cell
from nova.rpc import bus
from nova.rpc import inprocess
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.tests.functional import base
from nova.tests.functional import cloud as whole
from nova.tests.functional import servers
from nova.tests.support.rpc import CONTEXT


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path, api__max_waiting_builds=4)
    yield fixture
    fixture.close()


def post(cloud, **more):
    return cloud.client(version='2.37').post('/servers', {'server': {
        'name': 's', 'flavorRef': '1', 'imageRef': cloud.image_id, 'networks': 'none', **more}})


def refused(answer):
    assert answer.status == 503 and answer.fault[0] == 'serviceUnavailable', answer.body
    return int(answer.headers['retry-after'])


def test_servers_that_wait_are_bounded(cloud):
    assert [post(cloud).status for _ in range(3)] == [202] * 3         # three quarters are one project's share
    assert 1 <= refused(post(cloud)) <= 30
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).values(task_state=None, vm_state='active'))
        conn.commit()
    time.sleep(build_admission.COUNT_INTERVAL_S + 0.1)
    assert post(cloud).status == 202


def test_a_request_for_many_passes_while_few_wait(cloud):
    assert post(cloud, min_count=6, max_count=6).status == 202
    refused(post(cloud))


def test_requests_refused_for_overload_use_no_quota(cloud):
    for _ in range(3):
        post(cloud)
    refused(post(cloud))
    with cloud.api_db.reader() as conn:
        assert quotas.usage(conn, base.PROJECT)['instances'] == 3
    assert len(cloud.conductor.sent) == 3


def test_the_wait_follows_from_the_rate():
    now, waiting = [0.0], [0]

    cells = Cells(lambda: waiting[0])
    builds = build_admission.BuildAdmission(100, lambda: now[0])
    waiting[0] = 150
    with pytest.raises(exception.TooManyBuilds) as caught:
        for _ in range(200):
            builds.admit(cells, 'a', 1)
    assert caught.value.kwargs['retry_after'] == 30          # no rate is known
    now[0], waiting[0] = 10.0, 110
    with pytest.raises(exception.TooManyBuilds) as caught:
        builds.admit(cells, 'a', 1)
    assert 2 <= caught.value.kwargs['retry_after'] <= 15
    now[0], waiting[0] = 20.0, 0
    builds.admit(cells, 'a', 1)


class Cells:
    """As db.cells.cells.Cells.

    :param numbers: for each cell, the servers that wait in it: of the project a, or {project: servers}
    """

    def __init__(self, *numbers):
        self._numbers = numbers

    def scatter(self, function):
        found = [number() for number in self._numbers]
        return [(None, each if isinstance(each, dict) else {'a': each}) for each in found], []


def test_servers_wait_in_every_cell():
    builds = build_admission.BuildAdmission(100)
    with pytest.raises(exception.TooManyBuilds):
        for _ in range(101):
            builds.admit(Cells(lambda: 0, lambda: 60, lambda: 60), 'a', 1)


def test_a_count_that_takes_long_holds_up_nobody_else():
    builds, entered, release = build_admission.BuildAdmission(10), threading.Event(), threading.Event()

    def slow():
        entered.set()
        release.wait(60)
        return 0
    builds.admit(Cells(), 'a', 10)
    counting = threading.Thread(target=builds.admit, args=(Cells(slow), 'a', 1))
    counting.start()
    assert entered.wait(20)
    begun = time.monotonic()
    with pytest.raises(exception.TooManyBuilds):
        builds.admit(Cells(slow), 'a', 1)
    assert time.monotonic() - begun < 20
    release.set()
    counting.join(20)
    builds.admit(Cells(slow), 'a', 1)


def test_one_project_leaves_room_for_others():
    """The servers of one project were all that could wait, and everyone else got 503."""
    builds = build_admission.BuildAdmission(4)
    for _ in range(3):
        builds.admit(Cells(dict), 'a', 1)
    with pytest.raises(exception.TooManyBuilds):
        builds.admit(Cells(lambda: {'a': 3}), 'a', 1)
    builds.admit(Cells(lambda: {'a': 3}), 'b', 1)
    for waiting, refused in (({'a': 1000}, 'a'), ({'a': 75, 'b': 25}, 'abc'), ({'a': 1000, 'b': 24}, 'a')):
        for project_id in 'abc':
            builds = build_admission.BuildAdmission(100)
            builds._count(Cells(lambda waiting=waiting: waiting))
            if project_id in refused:
                with pytest.raises(exception.TooManyBuilds):
                    builds.admit(Cells(lambda waiting=waiting: waiting), project_id, 1)
            else:
                builds.admit(Cells(lambda waiting=waiting: waiting), project_id, 1)


def test_all_servers_that_a_request_may_make_are_counted(cloud):
    assert post(cloud, min_count=1, max_count=6).status == 202
    assert cloud.services.builds._accepted == {base.PROJECT: 6}


@contextlib.contextmanager
def exhausted(database):
    """All connections of a database are in use elsewhere, and nobody waits long for one."""
    database.engine.pool._timeout = 0.1
    database._idle.clear()
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(database.engine.connect())
            except sa.exc.TimeoutError:
                break
        yield


@pytest.mark.parametrize('name', ('api_db', 'cell_db'))
def test_no_connection_is_a_503(cloud, name):
    with exhausted(getattr(cloud, name)):
        refused(post(cloud))
    assert post(cloud).status == 202
    with cloud.api_db.reader() as conn:
        assert quotas.usage(conn, base.PROJECT)['instances'] == 1


def test_a_broker_that_is_lost_during_a_post_delays_the_server(tmp_path, monkeypatch):
    with whole.running(tmp_path / 'state', conductor__reconcile_interval=1) as running:
        client = running.client()
        image = client.upload_image(b'\0' * 4096)
        send, lost = inprocess.Driver.send, []

        def failing(driver, target, ctxt, message, *args, **kwargs):
            if target.topic == 'conductor' and message['method'] == 'build_instances' and not lost:
                lost.append(message)
                raise inprocess.oslo_messaging.MessageDeliveryFailure('the broker is away')
            return send(driver, target, ctxt, message, *args, **kwargs)
        monkeypatch.setattr(inprocess.Driver, 'send', failing)
        made = client.boot(image, networks='none', version='2.37')
        assert lost and client.get(f'/servers/{made["id"]}').json()['server']['status'] == 'BUILD'
        passed = instance_actions.utils.utcnow()
        running.cell_db.run(instance_actions.expedite, passed)
        client.wait_for(made['id'])


def test_builds_that_wait_do_not_keep_calls_of_computes_waiting():
    row = conductor_interface.INTERFACE.methods['build_instances']
    assert row.at_once
    interface = Interface('lanes', '1.0', Method('slow', (), at_once=2), Method('quick', (), call=True))
    release, running, most, lock = threading.Event(), [0], [0], threading.Lock()

    class Manager:
        def slow(self, ctx):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            release.wait(20)
            with lock:
                running[0] -= 1

        def quick(self, ctx):
            return 'done'
    made = bus.Bus(nova_conf.new(files=[]), 'nova-inprocess:///lanes')
    server = made.serve(interface, Manager(), 'one')
    server.start()
    client = made.client(interface)
    for _ in range(100):                         # more than there are workers
        client.slow(CONTEXT)
    assert client.quick(CONTEXT) == 'done'
    assert most[0] <= 2
    release.set()
    server.stop()
    assert server.wait(20)
    made.close()
