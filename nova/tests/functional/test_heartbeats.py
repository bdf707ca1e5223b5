"""A service is up when its own queue answers: full workers, a consumer that stopped, names that are taken."""
import threading
import time

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import identity_file
from nova.conductor import heartbeats
from nova.db import engine
from nova.db import heartbeats as heartbeats_db
from nova.db import services
from nova.db import tables_cell
from nova.tests.functional import cloud


def wait_for(condition, timeout=20):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, 'waited too long'
        time.sleep(0.05)


@pytest.fixture
def running(tmp_path):
    with cloud.running(tmp_path / 'state', report_interval=1, service_down_time=3) as made:
        yield made


def compute(running):
    return next(part for part in running.services if part.binary == 'nova-compute')


def state(client, binary='nova-compute'):
    return client.get('/os-services?binary=' + binary).json()['services'][0]['state']


def test_a_compute_whose_workers_are_all_busy_is_down_until_they_are_not(running, monkeypatch):
    admin, client = running.admin(), running.client()
    image = client.upload_image(b'\0' * 4096)
    service, release = compute(running), threading.Event()
    monkeypatch.setattr(service._server._rpc._work_executor._main, '_max_workers', 4)
    busy = [service._server._rpc._work_executor._main.submit(release.wait, 60) for _ in range(80)]
    wait_for(lambda: state(admin) == 'down', 15)
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
    assert 'does not take a message from its own queue' in caplog.text
    assert 'subscribes to its queues anew' in caplog.text
    assert running.bus.client(service_interface()).ping(context.admin_context(), server='host1') == 'pong'


def service_interface():
    from nova.compute import interface
    return interface.INTERFACE


def test_a_consumer_that_cannot_be_mended_is_down_in_time(running, monkeypatch):
    admin, service = running.admin(), compute(running)

    def fail():
        raise exception.ServiceUnavailable(service='message')
    monkeypatch.setattr(service._server, 'subscribe_again', fail)
    service._server._rpc.listener.stop()
    stopped = time.monotonic()
    wait_for(lambda: state(admin) == 'down')
    assert time.monotonic() - stopped < 3 + 1.5          # service_down_time, and this test's way to see it
    assert state(admin, 'nova-scheduler') == 'up'
    monkeypatch.undo()
    wait_for(lambda: state(admin) == 'up')


def test_what_became_of_a_service_reaches_it(running, monkeypatch):
    admin, service = running.admin(), compute(running)
    monkeypatch.setattr(service._heart, '_ask_s', 0.5)
    row = admin.get('/os-services?binary=nova-compute', version='2.53').json()['services'][0]
    assert admin.put(f'/os-services/{row["id"]}', {'status': 'disabled'}, version='2.53').status_code == 200
    wait_for(lambda: service._heart.told['disabled'])


@pytest.fixture
def db(tmp_path):
    made = engine.Database(f'sqlite:///{tmp_path}/cell.sqlite')
    tables_cell.metadata.create_all(made.engine)
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


def test_of_two_at_once_one_is_refused(db):
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
    first, second = (identity_file.IdentityFile(conf, 'nova-compute', 'h') for _ in range(2))
    first.take()
    with pytest.raises(exception.ServiceExists):
        second.take()
    first.release()
    second.take()
    assert second.text == first.text
    second.release()
    other = identity_file.IdentityFile(conf, 'nova-compute', '../h')
    other.take()
    other.release()
    assert other.text != first.text and [path.parent for path in (tmp_path / 'services').iterdir()] == [
        tmp_path / 'services'] * 2


def test_heartbeats_of_many_are_one_update(db):
    statements = []
    import sqlalchemy as sa
    for number in range(300):
        register(db, f'h{number}', f'i{number}')
    gathered = heartbeats.Heartbeats(db)
    beats = {(f'h{number}', 'nova-compute'): {'topic': 'compute', 'version': 2, 'zone': 'nova',
                                              'identity': f'i{number}'} for number in range(300)}
    assert gathered.write(beats) == 300
    sa.event.listen(db.engine, 'before_cursor_execute', lambda _c, _cursor, text, *_: statements.append(text))
    assert gathered.write(beats) == 300
    assert len([text for text in statements if text.startswith('UPDATE')]) == 1
    assert len([text for text in statements if text.startswith('SELECT')]) == 1


def test_a_heartbeat_makes_a_row_that_was_removed_and_not_another_s(db, caplog):
    gathered = heartbeats.Heartbeats(db)
    mine = {('h', 'nova-compute'): {'topic': 'compute', 'version': 2, 'zone': 'nova', 'identity': 'one'}}
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
