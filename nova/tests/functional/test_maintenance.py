"""Maintenance of hosts: their servers go to other hosts of the aggregate, and come back."""
import threading

import pytest
import sqlalchemy as sa

from nova import actions
from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.db.moves import maintenance
from nova.db.moves import migrations as server_migrations
from nova.db.placement import aggregates
from nova.db.servers import shares
from nova.db.servers import tasks
from nova.db.services import services
from nova.db.tables import cell as tables_cell
from nova.tests import core
from nova.tests.functional import cloud as whole
from nova.tests.functional import cloud_rows
from nova.tests.support import waiting

HOSTS = ('host1', 'host2', 'host3', 'outside')


@pytest.fixture
def cloud(tmp_path, database_url):
    made = core.Cloud(tmp_path, hosts=HOSTS, url=database_url)
    with made.api_db.writer() as conn:
        made.aggregate_id = aggregates.create(conn, 'rack', None)['id']
        for host in HOSTS[:3]:
            aggregates.add_host(conn, made.aggregate_id, host)
    made.conductor.synchronization.follow_zones()
    yield made
    made.close()


def on(cloud, host, count=1, **spec):
    """Servers on a host."""
    found = []
    for _ in range(count):
        uuid = cloud.boot(requested_host=host, **spec)
        assert cloud.row(uuid)['host'] == host
        found.append(uuid)
    return found


def start(cloud, host='host1'):
    return cloud.db.run(maintenance.start, cloud.ctx, host, cloud.aggregate_id, 'maintenance')


def stop(cloud, host='host1'):
    return cloud.db.run(maintenance.stop, host, cloud.aggregate_id)


def shown(cloud, host='host1'):
    with cloud.db.reader() as conn:
        return maintenance.of_host(conn, host, cloud.aggregate_id)


def look(cloud, conductor=None):
    """What the periodic task does at its next look, and what follows from it."""
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.host_maintenances).where(
            tables_cell.host_maintenances.c.next_check_at.is_not(None)).values(next_check_at=utils.utcnow()))
    number = (conductor or cloud.conductor).maintenance.maintain_hosts()
    cloud.settle()
    return number


def until(cloud, status, looks=40, host='host1'):
    for _ in range(looks):
        if shown(cloud, host)['status'] == status:
            return shown(cloud, host)
        look(cloud)
    raise AssertionError(shown(cloud, host))


def counts(row):
    return {state: number for state, number in row['counts'].items() if number}


def set_capability(cloud, host, **values):
    with cloud.db.writer() as conn:
        nodes = tables_cell.compute_nodes
        found = conn.execute(sa.select(nodes.c.capabilities).where(nodes.c.host == host)).scalar()
        conn.execute(sa.update(nodes).where(nodes.c.host == host).values(capabilities={**found, **values}))


def service(cloud, host='host1'):
    with cloud.db.reader() as conn:
        return services.list(conn, host=host)[0]


def kinds(cloud, uuid):
    with cloud.db.reader() as conn:
        return [(row['migration_type'], row['status']) for row in
                reversed(server_migrations.page(conn, nova_context.ALL_PROJECTS, {'instance_uuid': uuid}))]


def test_maintenance_moves_servers_away_and_back(cloud):
    running, stopped, elsewhere = on(cloud, 'host1', 6), on(cloud, 'host1'), on(cloud, 'host2')
    cloud.act(stopped[0], 'os-stop', clean_shutdown=True)
    cloud.settle()
    start(cloud)
    assert (service(cloud)['disabled'], service(cloud)['disabled_reason']) == (True, 'maintenance')
    assert counts(shown(cloud)) == {'waiting': 7}
    look(cloud)
    assert 0 < shown(cloud)['counts']['waiting'] and shown(cloud)['counts']['moving'] <= 4
    done = until(cloud, 'maintenance')
    assert counts(done) == {'moved': 7} and done['message'] is None and done['next_check_at'] is None
    for uuid in running + stopped:
        assert cloud.row(uuid)['host'] in ('host2', 'host3')
    assert kinds(cloud, running[0]) == [('live-migration', 'completed')]
    assert kinds(cloud, stopped[0]) == [('migration', 'confirmed')]
    assert cloud.row(stopped[0])['vm_state'] == states.STOPPED and cloud.row(running[0])['vm_state'] == states.ACTIVE
    cloud.check()
    # nothing is placed there meanwhile
    assert cloud.row(cloud.boot())['host'] != 'host1'
    stop(cloud)
    assert (service(cloud)['disabled'], service(cloud)['disabled_reason']) == (False, None)
    done = until(cloud, 'ended')
    assert counts(done) == {'moved': 7} and {each['direction'] for each in done['servers']} == {'back'}
    assert {cloud.row(uuid)['host'] for uuid in running + stopped} == {'host1'}
    assert cloud.row(elsewhere[0])['host'] == 'host2'
    cloud.check()
    # another one, from the beginning
    start(cloud)
    assert counts(until(cloud, 'maintenance')) == {'moved': 7}


def test_servers_without_a_place_stay_and_say_why(cloud):
    """Room for one more on host2, none on host3; the host outside of the aggregate is not asked."""
    big, small = on(cloud, 'host1', flavor={'memory_mb': 4096}), on(cloud, 'host1')
    with cloud.db.writer() as conn:
        nodes = tables_cell.compute_nodes
        conn.execute(sa.update(nodes).where(nodes.c.host.in_(('host2', 'host3'))).values(
            memory_mb=1024, change_number=utils.change_number()))
    start(cloud)
    done = until(cloud, 'incomplete')
    assert counts(done) == {'moved': 1, 'failed': 1}
    failed, = [each for each in done['servers'] if each['state'] == 'failed']
    assert failed['instance_uuid'] == big[0] and cloud.row(small[0])['host'] != 'host1'
    assert 'not in the aggregate' in failed['reason'] and 'memory' in failed['reason'] or 'RAM' in failed['reason']
    assert done['message'].startswith('1 of 2 servers stay on host host1: 1 because: ')
    row = cloud.row(big[0])
    assert (row['host'], row['vm_state'], row['task_state']) == ('host1', states.ACTIVE, None)
    cloud.check()
    # with room, another start tries again
    with cloud.db.writer() as conn:
        conn.execute(sa.update(nodes).where(nodes.c.host == 'host3').values(
            memory_mb=16384, change_number=utils.change_number()))
    start(cloud)
    assert counts(until(cloud, 'maintenance')) == {'moved': 2}
    assert cloud.row(big[0])['host'] == 'host3'


def test_running_servers_are_moved_cold_where_the_driver_cannot_do_better(cloud):
    uuid, = on(cloud, 'host1')
    set_capability(cloud, 'host1', live_migration=False)
    start(cloud)
    until(cloud, 'maintenance')
    assert kinds(cloud, uuid) == [('migration', 'confirmed')] and cloud.row(uuid)['vm_state'] == states.ACTIVE
    set_capability(cloud, cloud.row(uuid)['host'], live_migration=False, resize=False)
    stop(cloud)
    done = until(cloud, 'ended')
    assert done['servers'][0]['reason'] == 'Its host cannot move servers that are active.'
    assert done['message'] == ('1 of 1 servers have not come back to host host1: 1 because: '
                               'Its host cannot move servers that are active.')
    cloud.check()


def migrate(cloud, uuid, source, dest):
    """A cold move of the user's own, which waits for its confirmation then."""
    with cloud.db.writer() as conn:
        row = tasks.begin(conn, cloud.ctx, uuid, actions.ACTIONS['migrate'])
        server_migrations.create(conn, cloud.ctx, row, 'migration', 'pre-migrating', arguments={
            'old_vm_state': 'active', 'host': dest, 'ignored_hosts': [source]})
    cloud.conductor.methods.continue_move(cloud.ctx, uuid)
    cloud.settle()


def test_server_that_cannot_be_moved_has_a_reason(cloud):
    suspended, resized = on(cloud, 'host1', 2)
    cloud.act(suspended, 'suspend')
    cloud.settle()
    migrate(cloud, resized, 'host1', 'outside')
    assert cloud.row(resized)['vm_state'] == states.RESIZED
    start(cloud, 'host1')
    assert until(cloud, 'incomplete')['servers'][0]['reason'] == 'A server that is suspended cannot be moved.'


def test_server_with_shares_stays_and_says_why(cloud):
    """It was asked again every two seconds, and the maintenance never ended."""
    running, stopped, other = on(cloud, 'host1', 3)
    cloud.act(stopped, 'os-stop', clean_shutdown=True)
    cloud.settle()
    with cloud.db.writer() as conn:
        for uuid in (running, stopped):
            shares.insert(conn, {'instance_uuid': uuid, 'share_id': 's', 'tag': 's', 'status': 'active'})
    start(cloud)
    done = until(cloud, 'incomplete')
    assert counts(done) == {'failed': 2, 'moved': 1} and cloud.row(other)['host'] != 'host1'
    assert {each['instance_uuid']: each['reason'] for each in done['servers'] if each['state'] == 'failed'} == {
        running: 'It has shares: the state of virtiofsd stays with its host.',
        stopped: 'It has shares: the share is open to the host that the server is on.'}
    assert {cloud.row(uuid)['task_state'] for uuid in (running, stopped)} == {None}


def test_a_resized_server_waits_for_its_owner(cloud):
    uuid, = on(cloud, 'outside')
    migrate(cloud, uuid, 'outside', 'host1')
    start(cloud)
    assert until(cloud, 'incomplete')['servers'][0]['reason'] == 'Its resize waits to be confirmed or reverted.'


def test_start_twice_is_one(cloud):
    on(cloud, 'host1', 2)
    assert start(cloud) == start(cloud)
    look(cloud)
    row = shown(cloud)
    assert start(cloud)['id'] == row['id'] and counts(shown(cloud)) == counts(row)
    until(cloud, 'maintenance')
    assert start(cloud)['status'] == 'draining' and until(cloud, 'maintenance')['id'] == row['id']
    stop(cloud)
    assert stop(cloud)['status'] == 'rebalancing'
    until(cloud, 'ended')
    with pytest.raises(exception.HostNotInMaintenance):
        stop(cloud)
    with cloud.api_db.writer() as conn:
        other = aggregates.create(conn, 'other', None)['id']
    start(cloud)
    with pytest.raises(exception.HostInMaintenance):
        cloud.db.run(maintenance.start, cloud.ctx, 'host1', other, 'r')
    with pytest.raises(exception.HostNotInMaintenance):
        cloud.db.run(maintenance.stop, 'host1', other)
    with pytest.raises(exception.ComputeHostNotFound):
        start(cloud, 'nowhere')


def test_starts_at_once_are_one(cloud):
    on(cloud, 'host1', 2)
    barrier, found = threading.Barrier(6), []

    def run():
        barrier.wait()
        found.append(start(cloud)['id'])
    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1 and counts(shown(cloud)) == {'waiting': 2}


def test_stop_while_start_runs(cloud):
    """Servers that wait stay; what is being moved arrives, and comes back."""
    cloud.conf.set_override('max_concurrent_maintenance_moves', 2, 'conductor')
    uuids = on(cloud, 'host1', 5)
    start(cloud)
    look(cloud)
    assert counts(shown(cloud)) == {'moving': 2, 'waiting': 3}
    stop(cloud)
    assert counts(shown(cloud)) == {'moving': 2, 'skipped': 3}
    done = until(cloud, 'ended')
    assert counts(done) == {'moved': 2, 'skipped': 3} and {cloud.row(uuid)['host'] for uuid in uuids} == {'host1'}
    cloud.check()


def test_start_while_stop_runs(cloud):
    cloud.conf.set_override('max_concurrent_maintenance_moves', 2, 'conductor')
    uuids = on(cloud, 'host1', 5)
    start(cloud)
    until(cloud, 'maintenance')
    stop(cloud)
    look(cloud)
    assert counts(shown(cloud)) == {'moving': 2, 'waiting': 3}
    start(cloud)
    assert counts(until(cloud, 'maintenance')) == {'moved': 5}
    assert 'host1' not in {cloud.row(uuid)['host'] for uuid in uuids}
    cloud.check()


def test_servers_deleted_during_maintenance_are_skipped(cloud):
    cloud.conf.set_override('max_concurrent_maintenance_moves', 1, 'conductor')
    first, second, third = on(cloud, 'host1', 3)
    start(cloud)
    cloud.delete(first)
    cloud.settle()
    done = until(cloud, 'maintenance')
    assert counts(done) == {'moved': 2, 'deleted': 1}
    cloud.delete(second)
    cloud.settle()
    # the third is moved by somebody else: it is not ours to bring back
    with cloud.db.writer() as conn:
        row = tasks.begin(conn, cloud.ctx, third, actions.ACTIONS['os-migrateLive'])
        server_migrations.create(conn, cloud.ctx, row, 'live-migration', 'accepted', arguments={
            'host': 'outside', 'force': False, 'block_migration': None, 'disk_over_commit': False})
    cloud.conductor.methods.continue_live_migration(cloud.ctx, third)
    cloud.settle()
    stop(cloud)
    done = until(cloud, 'ended')
    assert counts(done) == {'deleted': 2, 'skipped': 1} and cloud.row(third)['host'] == 'outside'
    cloud.check()


def test_a_server_that_arrives_meanwhile_goes_too(cloud):
    """It was claimed before the host was disabled, or somebody forced it there."""
    on(cloud, 'host1')
    start(cloud)
    late = cloud.create(force_host='host1')[0]
    cloud.settle()
    assert cloud.row(late)['host'] == 'host1'
    assert counts(until(cloud, 'maintenance')) == {'moved': 2}
    assert cloud.row(late)['host'] in ('host2', 'host3')


def test_maintenance_of_a_host_that_is_down_stays_incomplete(cloud):
    on(cloud, 'host1', 2)
    cloud.force_down('host1')
    start(cloud)
    done = until(cloud, 'incomplete')
    assert {each['reason'] for each in done['servers']} == {
        'Host host1 is down: its servers can be evacuated, not moved.'}
    cloud.force_down('host1', down=False)
    start(cloud)
    until(cloud, 'maintenance')
    # it is being started again while its servers are asked back: they wait
    cloud.force_down('host1')
    stop(cloud)
    for _ in range(3):
        look(cloud)
    assert counts(shown(cloud)) == {'waiting': 2}
    cloud.force_down('host1', down=False)
    assert counts(until(cloud, 'ended')) == {'moved': 2}
    cloud.check()


# ---- crashes -----------------------------------------------------------------

def test_maintenance_continues_after_a_conductor_died_at_any_point(cloud, monkeypatch):
    """Wherever it stops, the next look, of whatever conductor, goes on; what it has begun is the reconciler's."""
    uuids = on(cloud, 'host1', 3)
    start(cloud)
    conductor, dead = cloud.conductor, RuntimeError('the process was killed')

    def die(*args, **kwargs):
        raise dead
    for owner, name in ((maintenance, 'in_state'), (maintenance, 'moves'), (maintenance, 'begin_move'),
                        (conductor.live, 'continue_live_migration'), (maintenance, 'settle')):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, die)
            with cloud.db.writer() as conn:
                conn.execute(sa.update(tables_cell.host_maintenances).values(next_check_at=utils.utcnow()))
            with pytest.raises(RuntimeError):
                conductor.maintenance.maintain_hosts()
        assert conductor.maintenance.maintain_hosts() == 0        # it is taken for as long as one look may last
        cloud.settle()
        with cloud.db.writer() as conn:               # a task that nobody works on is taken up again
            conn.execute(sa.update(tables_cell.instance_actions).where(
                tables_cell.instance_actions.c.finished_at.is_(None)).values(deadline=utils.utcnow()))
        conductor.reconciler.reconcile()
        cloud.settle()
    assert counts(until(cloud, 'maintenance')) == {'moved': 3}
    assert 'host1' not in {cloud.row(uuid)['host'] for uuid in uuids}
    cloud.check()


def test_several_conductors_move_no_more_than_allowed(cloud):
    cloud.conf.set_override('max_concurrent_maintenance_moves', 2, 'conductor')
    on(cloud, 'host1', 6)
    start(cloud)
    most, over = [], threading.Event()

    def watch():
        while not over.wait(0.002):
            most.append(shown(cloud)['counts']['moving'])
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(60):
            if shown(cloud)['status'] != 'draining':
                break
            with cloud.db.writer() as conn:
                conn.execute(sa.update(tables_cell.host_maintenances).values(next_check_at=utils.utcnow()))
            threads = [threading.Thread(target=cloud.conductor.maintenance.maintain_hosts) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            cloud.settle()
    finally:
        over.set()
        watcher.join()
    assert shown(cloud)['status'] == 'maintenance' and 0 < max(most) <= 2
    cloud.check()


def test_the_source_dies_while_it_moves_a_server(cloud):
    """The move goes on when the host is back, and so does the maintenance."""
    uuids = on(cloud, 'host1', 2)
    for uuid in uuids:
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
    cloud.settle()
    start(cloud)
    cloud.bus.lost = lambda topic, method, server: topic == 'compute' and server == 'host1'
    look(cloud)
    assert counts(shown(cloud)) == {'moving': 2}
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    look(cloud)
    cloud.start_compute('host1')
    cloud.settle()
    assert counts(until(cloud, 'maintenance')) == {'moved': 2}
    cloud.check()


# ---- the API -------------------------------------------------------------------

@pytest.fixture
def hosts(api):
    with api.cell_db.writer() as conn:
        for host in ('host1', 'host2', 'host3'):
            cloud_rows.service(conn, host)
            cloud_rows.node(conn, host)
        api.server_id = cloud_rows.server(conn, 'host1')
    api.admin().post('/os-aggregates', {'aggregate': {'name': 'rack'}})
    for host in ('host1', 'host2'):
        assert ask(api, 'add_host', host).status == 200
    return api


def ask(api, action, host, number=1):
    return api.admin().post(f'/os-aggregates/{number}/action', {action: {'host': host}})


START, STOP, KEY = 'os-host-maintenance:start', 'os-host-maintenance:stop', 'os-host-maintenance'
PATH = '/os-aggregates/1/' + KEY


def test_maintenance_answers_show_the_progress(hosts):
    admin = hosts.admin()
    assert admin.get(PATH).json == {KEY: []}
    answer = ask(hosts, START, 'host1')
    assert answer.status == 202
    shown = answer.json[KEY]
    assert (shown['host'], shown['aggregate_id'], shown['status'], shown['message'], shown['stopped_at']) == (
        'host1', 1, 'draining', None, None)
    server, = shown['servers']
    assert (server['id'], server['direction'], server['state']) == (hosts.server_id, 'away', 'waiting')
    assert ask(hosts, START, 'host1').json == answer.json
    assert admin.get(f'{PATH}/host1').json == answer.json
    listed, = admin.get(PATH).json[KEY]
    assert listed == {name: value for name, value in shown.items() if name != 'servers'}
    service, = admin.get('/os-services?host=host1', version='2.53').json['services']
    assert (service['status'], service['disabled_reason']) == (
        'disabled', 'In maintenance: its servers move to other hosts of aggregate 1.')
    stopped = ask(hosts, STOP, 'host1')
    assert stopped.status == 202 and stopped.json[KEY]['status'] == 'rebalancing' and stopped.json[KEY]['stopped_at']
    assert stopped.json[KEY]['servers'][0]['state'] == 'skipped'
    service, = admin.get('/os-services?host=host1', version='2.53').json['services']
    assert (service['status'], service['disabled_reason']) == ('enabled', None)


@pytest.mark.parametrize(('method', 'path', 'body', 'status'), [
    ('POST', '/os-aggregates/9/action', {START: {'host': 'host1'}}, 404),
    ('POST', '/os-aggregates/x/action', {START: {'host': 'host1'}}, 400),
    ('POST', '/os-aggregates/1/action', {START: {'host': 'host3'}}, 404),
    ('POST', '/os-aggregates/1/action', {START: {'host': 'nowhere'}}, 404),
    ('POST', '/os-aggregates/1/action', {START: {'host': 'bad host'}}, 400),
    ('POST', '/os-aggregates/1/action', {START: {}}, 400),
    ('POST', '/os-aggregates/1/action', {START: None}, 400),
    ('POST', '/os-aggregates/1/action', {START: {'host': 'host1', 'more': 1}}, 400),
    ('POST', '/os-aggregates/2/action', {START: {'host': 'host2'}}, 409),
    ('POST', '/os-aggregates/1/action', {STOP: {'host': 'host1'}}, 409),
    ('POST', '/os-aggregates/2/action', {STOP: {'host': 'host2'}}, 409),
    ('POST', '/os-aggregates/9/action', {STOP: {'host': 'host2'}}, 404),
    ('POST', '/os-aggregates/1/action', {STOP: {'host': 'nowhere'}}, 404),
    ('GET', PATH + '/host1', None, 404), ('GET', '/os-aggregates/2/' + KEY + '/host2', None, 404),
    ('GET', '/os-aggregates/9/' + KEY, None, 404), ('GET', '/os-aggregates/x/' + KEY, None, 400),
    ('GET', PATH + '?x=1', None, 400)])
def test_invalid_maintenance_requests_are_refused(hosts, method, path, body, status):
    hosts.admin().post('/os-aggregates', {'aggregate': {'name': 'other'}})
    assert ask(hosts, 'add_host', 'host2', 2).status == 200 and ask(hosts, START, 'host2').status == 202
    answer = hosts.admin().request(method, path, body)
    assert (answer.status, answer.fault[1]) == (status, status), answer.body


def test_a_host_that_is_gone_is_forgotten(hosts):
    """A deleted service takes the maintenance of its host with it."""
    with hosts.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).values(host=None))
    ask(hosts, START, 'host1')
    service, = hosts.admin(version='2.53').get('/os-services?host=host1').json['services']
    with hosts.cell_db.writer() as conn:
        cloud_rows.stop(conn, 'host1')
    assert hosts.admin(version='2.53').delete('/os-services/' + service['id']).status == 204
    assert hosts.admin().get(PATH).json == {KEY: []}


# ---- a whole cloud -------------------------------------------------------------

def test_maintenance_moves_servers_in_a_running_cloud(tmp_path):
    """The periodic task itself."""
    with whole.running(tmp_path, ['host1', 'host2', 'host3']) as cloud:
        admin = cloud.admin('2.90')
        image_id = admin.upload_image()
        number = admin.post('/os-aggregates', {'aggregate': {'name': 'rack'}}).json()['aggregate']['id']
        for host in ('host1', 'host2'):
            assert admin.post(f'/os-aggregates/{number}/action', {'add_host': {'host': host}}).status_code == 200
        made = [admin.boot(image_id, host='host1', networks='none')['id'] for _ in range(3)]
        for server_id in made:
            admin.wait_for(server_id)
        path = f'/os-aggregates/{number}/{KEY}/host1'

        def until(status):
            return waiting.wait_for(lambda: (found := admin.get(path).json()[KEY])['status'] == status and found, 40,
                                    status, 0.1)
        where = 'OS-EXT-SRV-ATTR:host'
        assert admin.post(f'/os-aggregates/{number}/action', {START: {'host': 'host1'}}).status_code == 202
        done = until('maintenance')
        assert done['counts']['moved'] == 3 and {each['dest_host'] for each in done['servers']} == {'host2'}
        assert {admin.wait_for(server_id)[where] for server_id in made} == {'host2'}
        assert admin.post(f'/os-aggregates/{number}/action', {STOP: {'host': 'host1'}}).status_code == 202
        until('ended')
        assert {admin.wait_for(server_id)[where] for server_id in made} == {'host1'}
        # the same by PUT /os-hosts until 2.42
        assert admin.put('/os-hosts/host1', {'maintenance_mode': 'enable'}, version='2.42').json() == {
            'host': 'host1', 'maintenance_mode': 'on_maintenance'}
        until('maintenance')
        assert {admin.wait_for(server_id)[where] for server_id in made} == {'host2'}
        service, = admin.get('/os-services?host=host1&binary=nova-compute').json()['services']
        assert service['status'] == 'disabled' and 'In maintenance' in service['disabled_reason']
        assert admin.put('/os-hosts/host1', {'maintenance_mode': 'disable'}, version='2.42').json() == {
            'host': 'host1', 'maintenance_mode': 'off_maintenance'}
        until('ended')
        assert {admin.wait_for(server_id)[where] for server_id in made} == {'host1'}
