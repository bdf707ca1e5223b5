"""Host aggregates and the zones that they make."""
import datetime
import threading
import time

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.db.placement import aggregates
from nova.db.placement import image_cache
from nova.db.placement import zones
from nova.db.services import services
from nova.db.tables import aggregates as tables_aggregates
from nova.db.tables import cell as tables_cell
from nova.scheduler import host_table
from nova.tests import core
from nova.tests import races
from nova.tests.functional import cloud as whole
from nova.tests.functional import cloud_rows
from nova.tests.support.waiting import settled


@pytest.fixture
def hosts(api):
    with api.cell_db.writer() as conn:
        for host in ('host1', 'host2', 'host3'):
            cloud_rows.service(conn, host)
            cloud_rows.node(conn, host)
    return api


def make(api, name, zone=None):
    answer = api.admin().post('/os-aggregates', {'aggregate': {'name': name, 'availability_zone': zone}})
    assert answer.status == 200, answer.body
    return answer.json['aggregate']['id']


def act(api, number, action, body, **more):
    return api.admin().post(f'/os-aggregates/{number}/action', {action: body}, **more)


def add(api, number, host):
    return act(api, number, 'add_host', {'host': host})


def zone_of(api, host):
    with api.cell_db.reader() as conn:
        return zones.of(conn)[host]


def test_aggregate_can_be_created_changed_and_deleted(hosts):
    admin, number = hosts.admin(version='2.41'), make(hosts, 'rack', 'z1')
    assert add(hosts, number, 'host2').status == add(hosts, number, 'host1').status == 200
    shown = admin.get(f'/os-aggregates/{number}').json['aggregate']
    assert shown['hosts'] == ['host1', 'host2'] and shown['metadata'] == {'availability_zone': 'z1'}
    assert shown['updated_at'] and shown['deleted'] is False and shown['deleted_at'] is None
    assert admin.get('/os-aggregates').json == {'aggregates': [shown]}
    changed = act(hosts, number, 'set_metadata', {'metadata': {'ssd': 'true', 'old': 'x'}}).json['aggregate']
    assert changed['metadata'] == {'ssd': 'true', 'old': 'x', 'availability_zone': 'z1'}
    changed = act(hosts, number, 'set_metadata', {'metadata': {'old': None, 'availability_zone': None}})
    assert changed.json['aggregate']['metadata'] == {'ssd': 'true'}
    assert changed.json['aggregate']['availability_zone'] is None
    assert zone_of(hosts, 'host1') == 'nova'
    renamed = admin.put(f'/os-aggregates/{number}', {'aggregate': {'name': 'row', 'availability_zone': 'z2'}})
    assert (renamed.json['aggregate']['name'], zone_of(hosts, 'host2')) == ('row', 'z2')
    answer = admin.delete(f'/os-aggregates/{number}')
    assert (answer.status, answer.fault[0]) == (400, 'badRequest')
    for host in ('host1', 'host2'):
        assert act(hosts, number, 'remove_host', {'host': host}).status == 200
        assert zone_of(hosts, host) == 'nova'
    answer = admin.delete(f'/os-aggregates/{number}')
    assert (answer.status, answer.body) == (200, b'')
    assert admin.get(f'/os-aggregates/{number}').status == 404


@pytest.mark.parametrize(('method', 'path', 'body', 'status'), [
    ('POST', '', {'aggregate': {'name': 'one'}}, 409),
    ('POST', '', {'aggregate': {'name': ' one'}}, 400),
    ('POST', '', {'aggregate': {'name': 'x', 'availability_zone': 'a:b'}}, 400),
    ('POST', '', {'aggregate': {'name': 'x', 'availability_zone': ''}}, 400),
    ('POST', '', {'aggregate': {'name': 'x', 'hosts': []}}, 400),
    ('GET', '/9', None, 404), ('GET', '/x', None, 400), ('GET', '/99999999999', None, 400), ('GET', '/-1', None, 404),
    ('PUT', '/9', {'aggregate': {'name': 'x'}}, 404), ('PUT', '/1', {'aggregate': {}}, 400),
    ('PUT', '/1', {'aggregate': {'name': 'two'}}, 409), ('DELETE', '/9', None, 404), ('DELETE', '/x', None, 400),
    ('POST', '/9/action', {'add_host': {'host': 'host1'}}, 404),
    ('POST', '/1/action', {'add_host': {'host': 'nowhere'}}, 404),
    ('POST', '/1/action', {'add_host': {'host': 'host1'}}, 409),
    ('POST', '/1/action', {'add_host': {'host': 'bad host'}}, 400),
    ('POST', '/1/action', {'remove_host': {'host': 'host2'}}, 404),
    ('POST', '/1/action', {'remove_host': {'host': 'nowhere'}}, 404),
    ('POST', '/9/action', {'set_metadata': {'metadata': {}}}, 404),
    ('POST', '/1/action', {'set_metadata': {'metadata': {'availability_zone': ''}}}, 400),
    ('POST', '/1/action', {'set_metadata': {'metadata': {'availability_zone': 'a:b'}}}, 400),
    ('POST', '/1/action', {'set_metadata': {'metadata': {'k': 'v' * 256}}}, 400),
    ('POST', '/1/action', {'set_metadata': {'metadata': {'k!': 'v'}}}, 400),
    ('POST', '/1/action', {'nothing': {}}, 400)])
def test_invalid_aggregate_requests_return_their_codes(hosts, method, path, body, status):
    make(hosts, 'one'), make(hosts, 'two')
    add(hosts, 1, 'host1')
    answer = hosts.admin().request(method, '/os-aggregates' + path, body)
    assert answer.status == status, answer.body
    assert answer.fault[1] == status


def test_a_host_is_in_one_zone(hosts):
    first, second, third, same = (make(hosts, name, zone) for name, zone in (
        ('a', 'z1'), ('b', 'z2'), ('c', None), ('d', 'z1')))
    for number in (first, third, same):
        assert add(hosts, number, 'host1').status == 200
    answer = add(hosts, second, 'host1')
    assert answer.status == 409 and answer.fault[2] == 'Host host1 is already in availability zone z1.'
    answer = hosts.admin().put(f'/os-aggregates/{third}', {'aggregate': {'availability_zone': 'z2'}})
    assert answer.status == 400 and 'already in availability zone z1' in answer.fault[2]
    answer = act(hosts, same, 'set_metadata', {'metadata': {'availability_zone': 'z9'}})
    assert answer.status == 400
    assert zone_of(hosts, 'host1') == 'z1'
    # out of one of the two that say the same, it stays where it is
    assert act(hosts, first, 'remove_host', {'host': 'host1'}).status == 200
    assert zone_of(hosts, 'host1') == 'z1'


def test_a_host_with_servers_keeps_its_zone(hosts):
    number, plain = make(hosts, 'a', 'z1'), make(hosts, 'b')
    add(hosts, number, 'host1')
    with hosts.cell_db.writer() as conn:
        cloud_rows.server(conn, 'host1')
        cloud_rows.server(conn, 'host2', 1)
    for answer, status in (
            (add(hosts, number, 'host2'), 409), (act(hosts, number, 'remove_host', {'host': 'host1'}), 409),
            (hosts.admin().put(f'/os-aggregates/{number}', {'aggregate': {'availability_zone': 'z2'}}), 400),
            (act(hosts, number, 'set_metadata', {'metadata': {'availability_zone': None}}), 400)):
        assert answer.status == status and 'has servers' in answer.fault[2], answer.body
    assert hosts.admin().get(f'/os-aggregates/{number}').json['aggregate']['hosts'] == ['host1']
    assert (zone_of(hosts, 'host1'), zone_of(hosts, 'host2')) == ('z1', 'nova')
    # what does not change a zone is fine
    assert add(hosts, plain, 'host1').status == add(hosts, plain, 'host2').status == 200
    assert act(hosts, number, 'set_metadata', {'metadata': {'k': 'v'}}).status == 200


def test_zones_are_shown(hosts):
    add(hosts, make(hosts, 'a', 'east'), 'host1')
    shown = hosts.client().get('/os-availability-zone').json['availabilityZoneInfo']
    assert [(zone['zoneName'], zone['zoneState']['available']) for zone in shown] == [('east', True), ('nova', True)]
    detail = {zone['zoneName']: zone['hosts'] for zone in
              hosts.admin().get('/os-availability-zone/detail').json['availabilityZoneInfo']}
    assert set(detail['east']) == {'host1'} and set(detail['nova']) == {'host2', 'host3'}
    listed = hosts.admin().get('/os-services').json['services']
    assert {service['host']: service['zone'] for service in listed} == {
        'host1': 'east', 'host2': 'nova', 'host3': 'nova'}


def test_a_deleted_service_leaves_its_aggregates(hosts):
    number = make(hosts, 'a', 'z1')
    add(hosts, number, 'host1')
    listed = hosts.admin(version='2.53').get('/os-services?host=host1').json['services']
    with hosts.cell_db.writer() as conn:
        cloud_rows.stop(conn, 'host1')
    assert hosts.admin(version='2.53').delete('/os-services/' + listed[0]['id']).status == 204
    assert hosts.admin().get(f'/os-aggregates/{number}').json['aggregate']['hosts'] == []


def test_one_of_a_name_wins(hosts):
    answers = races.at_once(*[lambda: hosts.admin().post('/os-aggregates', {'aggregate': {'name': 'n'}})] * 8)
    assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    numbers = [make(hosts, f'other{number}') for number in range(6)]
    answers = races.at_once(*(lambda number=number: hosts.admin().put(
        f'/os-aggregates/{number}', {'aggregate': {'name': 'taken'}}) for number in numbers))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 5


def test_one_of_several_zones_wins(hosts):
    numbers = [make(hosts, f'a{number}', f'z{number}') for number in range(8)]
    answers = races.at_once(*(lambda number=number: add(hosts, number, 'host1') for number in numbers))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    winner = answers.index(next(answer for answer in answers if answer.status == 200))
    assert zone_of(hosts, 'host1') == f'z{winner}'


def test_parallel_requests_add_a_host_once(hosts):
    number = make(hosts, 'a')
    answers = races.at_once(*[lambda: add(hosts, number, 'host1')] * 6)
    assert sorted(answer.status for answer in answers) == [200] + [409] * 5
    answers = races.at_once(*[lambda: act(hosts, number, 'remove_host', {'host': 'host1'})] * 6)
    assert sorted(answer.status for answer in answers) == [200] + [404] * 5


def test_a_deleted_aggregate_has_no_hosts(hosts):
    """Whoever is first: the host is in it and it stays, or it is gone and the host is in nothing."""
    for turn in range(8):
        number = make(hosts, f'a{turn}', f'z{turn}')
        requests = [lambda: add(hosts, number, 'host1'), lambda: hosts.admin().delete(f'/os-aggregates/{number}')]
        added, deleted = (answer.status for answer in races.at_once(*requests))
        assert (added, deleted) in ((200, 400), (404, 200))
        with hosts.api_db.reader() as conn:
            left = conn.execute(sa.select(tables_aggregates.aggregate_hosts.c.host)).scalars().all()
        assert left == (['host1'] if added == 200 else [])
        assert zone_of(hosts, 'host1') == (f'z{turn}' if added == 200 else 'nova')
        if added == 200:
            act(hosts, number, 'remove_host', {'host': 'host1'})


# ---- below the API -----------------------------------------------------------

@pytest.fixture
def cloud(tmp_path, database_url):
    made = core.Cloud(tmp_path, hosts=('host1', 'host2', 'host3'), url=database_url)
    yield made
    made.close()


def put(cloud, host, zone):
    def run(conn):
        number = aggregates.create(conn, f'{host}-{zone}', zone)['id']
        aggregates.add_host(conn, number, host)
        cloud.db.run(zones.move, {host: zone})
    cloud.api_db.run(run)


def test_the_schedulers_follow(cloud):
    """A zone counts in the next decision, without a query of the aggregates."""
    put(cloud, 'host2', 'east')
    for _ in range(3):
        assert cloud.row(cloud.boot(availability_zone='east'))['host'] == 'host2'
    assert cloud.row(cloud.boot(availability_zone='nova'))['host'] != 'host2'
    uuid = cloud.boot(availability_zone='east')
    assert cloud.row(uuid)['availability_zone'] == 'east'


def test_a_scheduler_that_is_behind_puts_nothing_into_another_zone(cloud):
    """The claim looks at the zone itself: a table from before the change counts for nothing."""
    table = cloud.scheduler.table
    look, old = table.hosts, table.hosts(full=True)
    table.hosts = lambda full=False, **_: look(full=True) if full else old
    for host in ('host1', 'host2', 'host3'):
        put(cloud, host, 'west')
    uuid, = cloud.create(availability_zone='nova')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == 'error' and 'not in availability zone nova' in cloud.row(uuid)['fault'][
        'message']
    uuid, = cloud.create(availability_zone='west')
    cloud.settle()
    assert cloud.row(uuid)['availability_zone'] == 'west'
    cloud.check()


def test_zone_change_during_placement_leaves_servers_in_their_zone(cloud):
    """Whoever is first: a server is never on a host of another zone than its own row says."""
    stop, moved = threading.Event(), []

    def change():
        number = 0
        while not stop.wait(0.001):            # green threads must be let in
            number += 1
            try:
                cloud.db.run(zones.move, {'host1': f'z{number}'})
                moved.append(number)
            except exception.HostHasServers:
                pass
    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(15):
            uuids = cloud.create(count=3)
            cloud.settle()
            for uuid in uuids:
                row = cloud.row(uuid)
                with cloud.db.reader() as conn:
                    assert row['availability_zone'] == zones.of(conn)[row['host']]
                cloud.delete(uuid)
            cloud.settle()
    finally:
        stop.set()
        changer.join()
    assert moved
    cloud.check()


def test_zone_synchronization_repairs_host_rows_after_a_crash(cloud):
    """The aggregates were committed, the host's row was not written."""
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    with cloud.api_db.writer() as conn:
        aggregates.add_host(conn, aggregates.create(conn, 'a', 'east')['id'], host)
    assert cloud.conductor.synchronization.follow_zones() == {host: 'east'}
    assert cloud.row(uuid)['availability_zone'] == 'east'
    assert cloud.conductor.synchronization.follow_zones() == {}
    cloud.conf.set_override('default_availability_zone', 'main')
    assert set(cloud.conductor.synchronization.follow_zones().values()) == {'main'}
    cloud.heartbeat('host9')
    with cloud.db.reader() as conn:
        assert services.list(conn, host='host9')[0]['availability_zone'] == 'main'


def listed(cloud, host):
    """The aggregates that a scheduler sees of a host, without its uuid."""
    rows = cloud.scheduler.table.hosts().rows
    found, = [row['aggregates'] for row in rows if row['host'] == host]
    return [{name: value for name, value in each.items() if name != 'uuid'} for each in found]


def test_the_schedulers_see_aggregates(hosts):
    """By change number: nothing but what changed is read, and nothing is asked of the API database."""
    table = host_table.HostTable(hosts.cells)

    def seen(host):
        time.sleep(0.006)
        found, = [row['aggregates'] for row in table.hosts().rows if row['host'] == host]
        return [(each['name'], each['metadata']) for each in found]
    assert seen('host1') == []
    rack, zone = make(hosts, 'rack'), make(hosts, 'zone', 'east')
    for number, host in ((zone, 'host1'), (rack, 'host1'), (rack, 'host2')):
        assert add(hosts, number, host).status == 200
    assert act(hosts, rack, 'set_metadata', {'metadata': {'ssd': 'true', 'net': '10g'}}).status == 200
    metadata = {'ssd': 'true', 'net': '10g'}
    assert seen('host1') == [('rack', metadata), ('zone', {'availability_zone': 'east'})]
    assert seen('host2') == [('rack', metadata)] and seen('host3') == []
    assert act(hosts, rack, 'set_metadata', {'metadata': {'net': None}}).status == 200
    assert hosts.admin().put(f'/os-aggregates/{rack}', {'aggregate': {'name': 'row'}}).status == 200
    assert seen('host2') == [('row', {'ssd': 'true'})]
    assert act(hosts, rack, 'remove_host', {'host': 'host2'}).status == 200
    assert seen('host2') == [] and [name for name, _ in seen('host1')] == ['row', 'zone']


def test_hosts_alike_are_written_by_one_statement(hosts):
    rack, row = make(hosts, 'rack'), make(hosts, 'row')
    with hosts.cell_db.writer() as conn:
        for number in range(10, 40):
            cloud_rows.service(conn, f'host{number}')
    with hosts.api_db.writer() as conn:
        conn.execute(sa.insert(tables_aggregates.aggregate_hosts), [
            {'aggregate_id': rack, 'host': f'host{number}'} for number in range(10, 40)])
        conn.execute(sa.insert(tables_aggregates.aggregate_hosts), [
            {'aggregate_id': row, 'host': f'host{number}'} for number in range(10, 15)])
    written = []

    def count(conn, cursor, statement, parameters, context, executemany):
        if statement.startswith('UPDATE'):
            written.append(statement.split()[1])
    sa.event.listen(hosts.cell_db.engine, 'before_cursor_execute', count)
    try:
        assert act(hosts, rack, 'set_metadata', {'metadata': {'k': 'v'}}).status == 200
    finally:
        sa.event.remove(hosts.cell_db.engine, 'before_cursor_execute', count)
    assert sorted(written) == ['compute_nodes', 'services', 'services']      # two different lists of aggregates
    with hosts.cell_db.reader() as conn:
        found = zones.aggregates_of(conn)
    assert [each['name'] for each in found['host14']] == ['rack', 'row']
    assert found['host15'] is found['host39'] and found['host39'][0]['metadata'] == {'k': 'v'}
    assert found['host1'] == []


def test_lost_aggregates_are_mended(cloud):
    with cloud.api_db.writer() as conn:
        number = aggregates.create(conn, 'a', None)['id']
        aggregates.add_host(conn, number, 'host2')
    assert cloud.conductor.synchronization.follow_zones() == {}                  # no zone has changed
    expected = {'id': number, 'name': 'a', 'metadata': {}}
    assert (listed(cloud, 'host2'), listed(cloud, 'host1')) == ([expected], [])
    with cloud.api_db.writer() as conn:
        aggregates.remove_host(conn, number, 'host2')
    cloud.conductor.synchronization.follow_zones()
    time.sleep(0.006)
    assert listed(cloud, 'host2') == []


# ---- images ahead of time ----------------------------------------------------

def test_images_are_fetched_ahead_of_time(tmp_path):
    with whole.running(tmp_path, ['host1', 'host2', 'host3']) as cloud:
        admin = cloud.admin('2.81')
        image_id = admin.upload_image()
        number = admin.post('/os-aggregates', {'aggregate': {'name': 'a'}}).json()['aggregate']['id']
        path = f'/os-aggregates/{number}/images'
        for host in ('host1', 'host2'):
            assert admin.post(f'/os-aggregates/{number}/action', {'add_host': {'host': host}}).status_code == 200
        assert admin.post(path, {'cache': [{'id': image_id}]}).status_code == 202
        drivers = {service.host: service.manager.driver for service in cloud.services
                   if service.binary == 'nova-compute'}
        deadline = threading.Event()
        for _ in range(200):
            if drivers['host1'].machine.cached_images and drivers['host2'].machine.cached_images:
                break
            deadline.wait(0.05)
        assert {host: driver.machine.cached_images for host, driver in drivers.items()} == {
            'host1': [image_id], 'host2': [image_id], 'host3': []}
        missing = '11111111-2222-4333-8444-555555555555'
        for body, status in (([{'id': missing}], 400), ([{'id': image_id}] * 2, 400), ([], 400), ([{}], 400),
                             ([{'id': 'x'}], 400)):
            answer = admin.post(path, {'cache': body})
            assert answer.status_code == status, answer.text
        assert admin.post('/os-aggregates/99/images', {'cache': [{'id': image_id}]}).status_code == 404
        assert admin.post(path, {'cache': [{'id': image_id}]}, version='2.80').status_code == 404

        def told():
            answer = admin.get(f'/os-aggregates/{number}/os-image-cache', version='2.1')
            assert answer.status_code == 200 and answer.json()['os-image-cache'] == {
                'waiting': 0, 'cached': 2, 'failed': 0,
                'images': [{'id': image_id, 'waiting': 0, 'cached': 2, 'failed': 0, 'failures': []}]}
        settled(told)                            # the hosts tell of it when they have it
        assert admin.get('/os-aggregates/99/os-image-cache').status_code == 404


IMAGES = ['11111111-2222-4333-8444-555555555555', '11111111-2222-4333-8444-666666666666']


def waiting(cloud):
    with cloud.db.reader() as conn:
        return sorted(tuple(row) for row in conn.execute(sa.select(
            tables_cell.image_cache_tasks.c.host, tables_cell.image_cache_tasks.c.image_id).where(
            tables_cell.image_cache_tasks.c.state == 'waiting')))


def progress(cloud, *hosts):
    with cloud.db.reader() as conn:
        numbers, failures = image_cache.progress(conn, hosts)
    return sorted(tuple(row) for row in numbers), [tuple(row) for row in failures]


def overdue(cloud, **values):
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.image_cache_tasks).values(
            deadline=utils.utcnow() - datetime.timedelta(seconds=1), **values))


def test_a_host_that_did_not_hear_is_asked_again(cloud):
    """The messages of the API were lost; one of the hosts is away."""
    for _ in range(2):                                     # asked twice, done once
        cloud.db.run(image_cache.add, cloud.ctx, ['host1', 'host2'], IMAGES, 60)
    assert len(waiting(cloud)) == 4
    assert cloud.conductor.synchronization.resend_image_caching() == 0     # they have time yet
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == 'host2')
                     .values(forced_down=True))
    overdue(cloud)
    assert cloud.conductor.synchronization.resend_image_caching() == 2
    cloud.settle()
    assert sorted(cloud.computes['host1'].driver.machine.cached_images) == IMAGES
    assert waiting(cloud) == [('host2', image_id) for image_id in IMAGES]
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=False))
    overdue(cloud)
    assert cloud.conductor.synchronization.resend_image_caching() == 2
    cloud.settle()
    assert sorted(cloud.computes['host2'].driver.machine.cached_images) == IMAGES and waiting(cloud) == []


def test_an_image_that_cannot_be_had_is_given_up(cloud):
    driver = cloud.computes['host1'].driver
    cloud.db.run(image_cache.add, cloud.ctx, ['host1'], IMAGES, 60)
    driver.failures['cache_image'] = exception.ImageNotFound(image_id=IMAGES[0])
    overdue(cloud)
    cloud.conductor.synchronization.resend_image_caching()
    cloud.settle()
    assert driver.machine.cached_images == [] and waiting(cloud) == []
    numbers, failures = progress(cloud, 'host1', 'host2')
    assert numbers == [(image_id, 'failed', 1) for image_id in IMAGES]
    assert failures == [(image_id, 'host1', f'Image {IMAGES[0]} could not be found.') for image_id in IMAGES]
    # another failure may pass: it is asked again, but not for ever
    cloud.db.run(image_cache.add, cloud.ctx, ['host1'], IMAGES, 60)
    driver.failures['cache_image'] = exception.VirtError(operation='cache_image', reason='the disk is full')
    overdue(cloud)
    cloud.conductor.synchronization.resend_image_caching()
    cloud.settle()
    assert len(waiting(cloud)) == 2
    overdue(cloud, created_at=utils.utcnow() - datetime.timedelta(days=30))
    assert cloud.conductor.synchronization.resend_image_caching() == 0 and waiting(cloud) == []
    assert progress(cloud, 'host1')[1] == [(image_id, 'host1', image_cache.SILENT) for image_id in IMAGES]
    # what became of it is forgotten, in the end
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.image_cache_tasks).values(
            finished_at=utils.utcnow() - 2 * image_cache.RETENTION))
    cloud.conductor.synchronization.resend_image_caching()
    assert progress(cloud, 'host1') == ([], [])


def test_a_host_that_cannot_is_named(hosts):
    number = make(hosts, 'a')
    for host in ('host1', 'host2'):
        add(hosts, number, host)
    with hosts.cell_db.writer() as conn:
        image_cache.add(conn, context.RequestContext(overwrite=False), ['host1'], IMAGES[:1], 60, ['host2'])
    assert hosts.admin().get(f'/os-aggregates/{number}/os-image-cache').json == {'os-image-cache': {
        'waiting': 1, 'cached': 0, 'failed': 1, 'images': [{
            'id': IMAGES[0], 'waiting': 1, 'cached': 0, 'failed': 1,
            'failures': [{'host': 'host2', 'reason': image_cache.UNABLE}]}]}}
