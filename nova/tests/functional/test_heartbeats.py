"""A service is up when its own queue answers: full workers, a consumer that stopped, names that are taken."""
import datetime
import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import utils
from nova.conductor.hosts import heartbeats
from nova.db import engine
from nova.db.services import heartbeats as heartbeats_db
from nova.db.services import services
from nova.db.tables import cell as tables_cell
from nova.runtime import host_identity
from nova.tests import schemas
from nova.tests.functional import cloud
from nova.tests.support.waiting import wait_for


@pytest.fixture
def running(tmp_path):
    with cloud.running(tmp_path / 'state', report_interval=1, service_down_time=3) as made:
        yield made


def compute(running):
    return next(part for part in running.services if part.binary == 'nova-compute')


def state(client, binary='nova-compute'):
    return client.get('/os-services?binary=' + binary).json()['services'][0]['state']


def placeable(running):
    """Whether the compute counts as up for the scheduler, at most a heartbeat longer than it is shown."""
    with running.cell_db.reader() as conn:
        return services.any_up(conn, services.list(conn, topic='compute'), 3)


def test_a_compute_whose_workers_are_all_busy_is_down_until_they_are_not(running, monkeypatch):
    admin, client = running.admin(), running.client()
    image = client.upload_image(b'\0' * 4096)
    service, release = compute(running), threading.Event()
    workers = service._server._rpc._work_executor._main
    monkeypatch.setattr(workers._threads, '_max_workers', 4)
    busy = [workers.submit(None, release.wait, 60) for _ in range(80)]
    wait_for(lambda: state(admin) == 'down', 15)
    wait_for(lambda: not placeable(running))
    made = client.boot(image, networks='none', version='2.37')
    wait_for(lambda: client.get(f'/servers/{made["id"]}').json()['server']['status'] == 'ERROR')    # no host is up
    release.set()
    wait_for(lambda: state(admin) == 'up')
    assert all(future.result(10) for future in busy)
    later = client.boot(image, networks='none', version='2.37')
    client.wait_for(later['id'])


def test_a_consumer_that_stopped_is_noticed_and_mended(running, caplog):
    admin, service = running.admin(), compute(running)
    before = service._server._rpc
    before.listener.stop()               # the process goes on; its queue is not read any more
    wait_for(lambda: service._server._rpc is not before)
    wait_for(lambda: state(admin) == 'up')
    assert 'does not receive messages from its own queue' in caplog.text
    assert 'subscribes to its queues again' in caplog.text
    assert running.bus.client(service_interface()).ping(context.admin_context(), server='host1') == 'pong'


def service_interface():
    from nova.compute import interface
    return interface.INTERFACE


def test_a_consumer_that_cannot_be_mended_is_down_in_time(running, monkeypatch):
    admin, service = running.admin(), compute(running)

    def fail():
        raise exception.ServiceUnavailable(service='message')
    monkeypatch.setattr(service._server, 'resubscribe', fail)
    service._server._rpc.listener.stop()
    wait_for(lambda: state(admin) == 'down' and state(admin, 'nova-scheduler') == 'up', 10)  # service_down_time is 3
    monkeypatch.undo()
    wait_for(lambda: state(admin) == 'up')


def test_failed_handling_of_lost_queues_is_repeated(running):
    service, told = compute(running), []

    def lost():
        told.append(None)
        if len(told) == 1:
            raise exception.ServiceUnavailable(service='database')
    service._heart.on_lost = lost
    service._server._again.set()
    wait_for(lambda: len(told) > 1)


def test_a_compute_that_was_thought_to_be_down_removes_what_was_deleted(running, monkeypatch):
    """It was not started again: it comes back."""
    admin, client, service = running.admin(), running.client(), compute(running)
    uuid = client.boot(client.upload_image(b'\0' * 4096), networks='none', version='2.37')['id']
    client.wait_for(uuid)

    def fail():
        raise exception.ServiceUnavailable(service='message')
    monkeypatch.setattr(service._server, 'resubscribe', fail)
    service._server._rpc.listener.stop()
    wait_for(lambda: state(admin) == 'down' and not placeable(running))
    assert client.delete('/servers/' + uuid).status_code == 204
    wait_for(lambda: client.get('/servers/' + uuid).status_code == 404)
    assert list(service.manager.driver.guests()) == [uuid]
    monkeypatch.undo()
    wait_for(lambda: service.manager.driver.guests() == {})


def test_heartbeat_reply_reports_the_disabled_state(running, monkeypatch):
    admin, service = running.admin(), compute(running)
    monkeypatch.setattr(service._heart, '_ask_s', 0.5)
    row = admin.get('/os-services?binary=nova-compute', version='2.53').json()['services'][0]
    assert admin.put(f'/os-services/{row["id"]}', {'status': 'disabled'}, version='2.53').status_code == 200
    wait_for(lambda: service._heart.answer['disabled'])


@pytest.fixture
def db(tmp_path):
    made = engine.Database(f'sqlite:///{tmp_path}/cell.sqlite')
    schemas.create(made, 'cell')
    yield made
    made.dispose()


def register(db, host, identity, binary='nova-compute', down_time=60):
    return db.run(heartbeats_db.register, host, binary, binary.partition('-')[2], 'nova', 2, identity, down_time)


def test_a_name_belongs_to_the_first(db):
    assert register(db, 'h', 'one')['identity'] == 'one'
    assert register(db, 'h', 'one')['identity'] == 'one'           # a restart
    with pytest.raises(exception.ServiceExists):
        register(db, 'h', 'two', down_time=0)                      # also when the first is away
    register(db, 'h', 'two', 'nova-scheduler', 60)
    register(db, 'h', 'three', 'nova-scheduler', 60)               # it was never heard of
    db.run(services.report, 'h', 'nova-scheduler', 'scheduler', 'internal', 2)
    with pytest.raises(exception.ServiceExists):
        register(db, 'h', 'four', 'nova-scheduler', 60)
    db.run(services.report, 'old', 'nova-compute', 'compute', 'nova', 1)
    assert register(db, 'old', 'mine')['identity'] == 'mine'       # of an older release


def test_only_one_of_concurrent_registrations_succeeds(db):
    barrier, done = threading.Barrier(8), []

    def start(number):
        barrier.wait()
        try:
            register(db, 'h', f'identity {number}')
            done.append(number)
        except exception.ServiceExists:
            done.append(None)
    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8 and len([number for number in done if number is not None]) == 1


def test_the_identity_of_a_host_is_kept_and_is_one_process_s(tmp_path):
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    first, second = (host_identity.IdentityFile(conf, 'nova-compute', 'h') for _ in range(2))
    first.take()
    with pytest.raises(exception.ServiceExists):
        second.take()
    first.release()
    second.take()
    assert second.text == first.text
    second.release()
    other = host_identity.IdentityFile(conf, 'nova-compute', '../h')
    other.take()
    other.release()
    assert other.text != first.text and [path.parent for path in (tmp_path / 'services').iterdir()] == [
        tmp_path / 'services'] * 2


@pytest.mark.parametrize('content', [b'\0' * 37, b'\xff\xfe', b'not an identity'])
def test_a_broken_identity_is_a_sentence_and_never_another_one(tmp_path, content):
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    mine = host_identity.IdentityFile(conf, 'nova-compute', 'h')
    mine.take()
    mine.release()
    with open(mine.path, 'wb') as file:
        file.write(content)
    with pytest.raises(exception.InvalidInput, match='nova-compute.h'):
        mine.take()
    with open(mine.path, 'rb') as file:
        assert file.read() == content


def test_a_file_system_without_locks_is_not_another_service(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, 'No locks available')
    monkeypatch.setattr(host_identity.fcntl, 'flock', refuse)
    with pytest.raises(exception.InvalidInput, match='No locks'):
        host_identity.IdentityFile(nova_conf.new(files=[], state_path=str(tmp_path)), 'nova-compute', 'h').take()


def test_a_process_that_was_killed_leaves_its_name_at_once(tmp_path):
    script = ('import sys; from nova import conf; from nova.runtime import host_identity; '
              'made = host_identity.IdentityFile('
              'conf.new(files=[], state_path=sys.argv[1]), "nova-compute", "h"); made.take(); '
              'import subprocess; helper = subprocess.Popen(["sleep", "60"]); print(made.text, flush=True); '
              'helper.wait()')
    held = subprocess.Popen([sys.executable, '-W', 'ignore', '-c', script, str(tmp_path)], stdout=subprocess.PIPE,
                            text=True, start_new_session=True)
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    try:
        text = held.stdout.readline().strip()
        with pytest.raises(exception.ServiceExists):
            host_identity.IdentityFile(conf, 'nova-compute', 'h').take()
        held.kill()                      # what it has begun goes on, as helpers of guests do
        held.wait(10)
        mine = host_identity.IdentityFile(conf, 'nova-compute', 'h')
        mine.take()
        assert mine.text == text
        mine.release()
    finally:
        os.killpg(held.pid, signal.SIGKILL)
        held.stdout.close()


def beat(host, identity, topic='compute'):
    return heartbeats.Beat(host, f'nova-{topic}', topic, 'nova', 2, identity)


def test_pending_heartbeats_are_written_when_a_conductor_stops(db):
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    gathered.add('h', 'nova-compute', 'compute', 2, 'nova', 'one')
    gathered.flush()
    with db.reader() as conn:
        row, = services.list(conn)
    assert row['identity'] == 'one' and row['last_seen_at'] is not None
    seen = []
    gathered.write = seen.append
    wait_for(lambda: not gathered._at_work)
    assert seen == []                    # nothing is left for later, when the databases are closed


def test_heartbeats_of_many_are_one_update(db):
    statements = []
    import sqlalchemy as sa
    for number in range(300):
        register(db, f'h{number}', f'i{number}')
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    beats = [beat(f'h{number}', f'i{number}') for number in range(300)]
    assert gathered.write(beats) == 300
    sa.event.listen(db.engine, 'before_cursor_execute', lambda _c, _cursor, text, *_: statements.append(text))
    assert gathered.write(beats) == 300
    assert len([text for text in statements if text.startswith('UPDATE')]) == 1
    assert len([text for text in statements if text.startswith('SELECT')]) == 1


def test_a_heartbeat_makes_a_row_that_was_removed_and_not_another_s(db, caplog):
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    mine = [beat('h', 'one')]
    assert gathered.write(mine) == 1
    with db.reader() as conn:
        row, = services.list(conn)
    assert row['identity'] == 'one' and row['last_seen_at'] is not None
    db.run(services.delete, row['id'])
    assert gathered.write(mine) == 1
    with db.reader() as conn:
        row, = services.list(conn)
    db.run(services.delete, row['id'])
    register(db, 'h', 'two')
    gathered.write(mine)
    with db.reader() as conn:
        row, = services.list(conn)
    assert row['identity'] == 'two' and row['last_seen_at'] is None
    gathered.write(mine)
    assert 'A second nova-compute' in caplog.text


def test_second_claimant_of_a_name_does_not_replace_the_heartbeat_of_its_owner(db, caplog):
    register(db, 'h', 'one')
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    for identity in ('one', 'two'):
        gathered.add('h', 'nova-compute', 'compute', 2, 'nova', identity)
    gathered.flush()
    with db.reader() as conn:
        row, = services.list(conn)
    assert row['identity'] == 'one' and row['last_seen_at'] is not None
    assert caplog.text.count('A second nova-compute') == 1


@pytest.mark.parametrize('topic', ['compute', 'scheduler'])
def test_name_that_another_service_has_registered_does_not_stop_the_rest_of_the_batch(db, caplog, topic):
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    assert gathered.write([beat('h', 'one', topic), beat('h', 'two', topic), beat('other', 'three')]) == 2
    with db.reader() as conn:
        found = {row['host']: (row['identity'], row['last_seen_at'] is not None) for row in services.list(conn)}
    assert found == {'h': ('one', True), 'other': ('three', True)}
    assert caplog.text.count(f'A second nova-{topic} claims to be host h') == 1


def silent(db, **seconds):
    """Rows of computes, and of a conductor, that were heard of so many seconds ago: {host: number}."""
    for host, ago in seconds.items():
        binary = f'nova-{"conductor" if host == "controller" else "compute"}'
        row = db.run(services.report, host, binary, binary[5:], 'nova', 2)
        db.run(services.update, row['id'], {'last_seen_at': utils.utcnow() - datetime.timedelta(seconds=ago)})


def judged(db, host):
    """(shown as up, counts as up for who decides)."""
    with db.reader() as conn:
        row, = services.list(conn, host=host)
        return services.is_up(row, 60, utils.utcnow()), services.any_up(conn, [row], 60)


def test_services_stay_up_while_heartbeats_cannot_be_written(db):
    silent(db, controller=300, near=309, before=340, dead=365)
    assert [judged(db, host) for host in ('controller', 'near', 'before', 'dead')] == [
        (False, True), (False, True), (False, True), (False, False)]
    gathered = heartbeats.Heartbeats(db, nova_conf.new(files=[]))
    assert gathered.write([heartbeats.Beat('controller', 'nova-conductor', 'conductor', 'internal', 2, None)]) == 1
    assert [judged(db, host) for host in ('controller', 'near', 'before', 'dead')] == [
        (True, True), (True, True), (True, True), (False, False)]


@pytest.mark.parametrize('others, grace', [(25, 0), (35, 3)])
def test_a_service_that_is_silent_alone_goes_down(db, others, grace):
    """A gap of the length of three report intervals tells that nobody could report; less is nothing."""
    silent(db, controller=others, near=others, alone=55)
    assert db.run(services.resume, 60, 30) == grace
    assert db.run(services.resume, 60, 30) == 0                     # another conductor at the same time
    silent(db, controller=0, near=5, alone=61)
    assert [judged(db, host) for host in ('near', 'alone')] == [(True, True), (False, False)]


def test_a_running_service_whose_name_was_given_away_stops(running, monkeypatch):
    admin, service = running.admin(), compute(running)
    monkeypatch.setattr(service._heart, '_ask_s', 0.5)
    row = admin.get('/os-services?binary=nova-compute').json()['services'][0]
    with running.cell_db.writer() as conn:
        conn.execute(tables_cell.services.update().where(tables_cell.services.c.host == row['host'],
                                                         tables_cell.services.c.binary == 'nova-compute').values(
            identity='another'))
        conn.commit()
    wait_for(lambda: service.refused is not None)
    assert isinstance(service.refused, exception.ServiceExists)
    wait_for(lambda: state(admin) == 'down')
