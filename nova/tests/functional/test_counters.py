"""Counters from the driver through the conductor to GET /servers/{id}/os-metrics, in a whole cloud."""
import datetime
import json
import types

import pytest

from nova import exception
from nova.api.servers import usage_series
from nova.compute import counters as compute_counters
from nova.compute import manager as compute_manager
from nova.conductor.hosts import counters as conductor_counters
from nova.db import state_backup
from nova.db.servers import counter_rings as stored_rings
from nova.db.tables import cell as tables_cell
from nova.objects import counter_rings
from nova.objects import counters
from nova.runtime import metrics
from nova.tests.functional import callers
from nova.tests.functional import cloud
from nova.tests.support.waiting import wait_for

HOSTS = ('left', 'right')
T0 = 1_800_000_000


class World:
    """A cloud whose hosts take samples when a test says so, at the time of the test."""

    def __init__(self, running, patch):
        self.running, self.now = running, float(T0)
        clock = types.SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now)
        for module in (compute_counters, conductor_counters, usage_series):
            patch.setattr(module, 'time', clock)
        self.managers = {service.host: service.manager for service in running.services
                         if service.binary == 'nova-compute'}
        self.client, self.admin = running.client(version='2.96'), running.admin('2.96')
        self.image = self.client.upload_image()

    def boot(self, host='left'):
        made = self.admin.boot(self.image, networks='none', availability_zone=f'nova:{host}')['id']
        self.admin.wait_for(made)
        return made

    def sample(self, server, times=1, host='left', seconds=20):
        """Take samples; return when the last one is stored."""
        for _ in range(times):
            self.now += seconds
            self.managers[host].counters.report()
            wait_for(lambda: self.ring(server).at == self.now)

    def ring(self, owner):
        with self.running.cell_db.reader() as conn:
            return counter_rings.CounterRing(stored_rings.read(conn, owner, 20).get(20))

    def metrics(self, server, query='', client=None):
        answer = (client or self.admin).get(f'/servers/{server}/os-metrics{query}')
        assert answer.status_code == 200, answer.text
        return answer.json()['metrics']

    def moment(self, seconds):
        return datetime.datetime.fromtimestamp(self.now + seconds, datetime.UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compute_manager, 'SAMPLE_S', 86400)
        with cloud.running(tmp_path_factory.mktemp('cloud'), HOSTS, host='left') as made:
            yield World(made, patch)


@pytest.fixture
def server(world):
    made = world.boot()
    yield made
    world.admin.delete(f'/servers/{made}')
    world.admin.wait_for(made, 'DELETED')


def test_a_new_server_has_no_values(world, server):
    found = world.metrics(server)
    assert found['step'] == 20 and found['since'] == world.moment(-3600)
    assert {len(values) for values in found['series'].values()} == {181}
    assert not any(value is not None for values in found['series'].values() for value in values)
    assert set(found['totals'].values()) == {0}


def test_samples_are_returned_as_series(world, server):
    vcpus = world.admin.get(f'/servers/{server}').json()['server']['flavor']['vcpus']
    world.sample(server, 7)
    found = world.metrics(server, f'?since={world.moment(-120)}')
    assert len(found['series']['cpu']) == 7 and found['series']['cpu'][:6] == [.4 * vcpus] * 6      # 8 of 20 s
    assert found['series']['disk_read_bytes'][0] == pytest.approx(8 * 2 ** 20 / 20, rel=1e-5)
    assert found['series']['memory_bytes'][0] > 0
    totals = world.managers['left'].counters.guests[server]
    assert found['totals']['cpu_seconds'] == totals.cpu_ns / 1e9
    assert found['totals']['network_receive_bytes'] == totals.network_receive_bytes
    coarse = world.metrics(server, '?step=120')
    assert coarse['step'] == 120 and len(coarse['series']['cpu']) == 721
    assert [value for value in coarse['series']['cpu'] if value is not None] == [.4 * vcpus] * 2
    assert world.metrics(server, '?step=900')['series']['cpu'][-1] == .4 * vcpus


def test_the_step_follows_from_since(world, server):
    for age, step, slots in ((3600, 20, 181), (3700, 120, 31), (86400, 120, 721), (90000, 900, 101),
                             (604800, 900, 673)):
        found = world.metrics(server, f'?since={world.moment(-age)}')
        assert found['step'] == step and len(found['series']['cpu']) in (slots, slots + 1)


@pytest.mark.parametrize(('query', 'words'), [
    ('?step=21', '21'), ('?step=0', '0'), ('?step=20&step=120', 'step'), ('?since=yesterday', 'since'),
    ('?until=1', 'until'),
    ('?since=1970-01-01T00:00:00Z', '900: 604800 s'), ('?since=2099-01-01T00:00:00Z', 'since must be within')])
def test_bad_windows_are_refused(world, server, query, words):
    answer = world.admin.get(f'/servers/{server}/os-metrics{query}')
    assert answer.status_code == 400 and words in answer.json()['badRequest']['message'], answer.text


def test_a_step_that_does_not_reach_back_is_refused(world, server):
    answer = world.admin.get(f'/servers/{server}/os-metrics?step=20&since={world.moment(-7200)}')
    assert answer.status_code == 400 and 'last 3600 seconds for step 20' in answer.text


def test_members_and_readers_of_the_project_read_metrics(world):
    mine = world.client.boot(world.image, networks='none')['id']
    world.client.wait_for(mine)
    identity = callers.Identity(world.running.admin())
    reader = identity.user(f'/projects/{world.client.project_id}', 'reader')
    other = identity.user(f'/projects/{identity.project("other")}', 'member')
    name = '/servers/{}/os-metrics'.format(mine)
    assert login(world, reader, world.client.project_id).get(name).status_code == 200
    stranger = login(world, other, None).get(name)
    assert stranger.status_code == 404 and mine in stranger.text
    node = world.admin.get('/os-hypervisors').json()['hypervisors'][0]['id']
    assert world.client.get(f'/os-hypervisors/{node}/os-metrics').status_code == 403
    world.client.delete(f'/servers/{mine}')
    world.client.wait_for(mine, 'DELETED')


def login(world, made, _project):
    name, password, user = made
    return cloud.Client(world.running.url, name, password, 'demo' if _project else 'other', '2.96')


def test_a_hypervisor_has_the_same_series(world, server):
    node, = [row['id'] for row in world.admin.get('/os-hypervisors').json()['hypervisors']
             if row['hypervisor_hostname'] == 'left']
    world.sample(server, 4)
    found = world.admin.get(f'/os-hypervisors/{node}/os-metrics').json()['metrics']
    assert found['step'] == 20 and any(found['series']['cpu']) and found['totals']['cpu_seconds'] > 0


def test_counters_survive_a_move(world, server):
    world.sample(server, 3)
    before = world.metrics(server)['totals']['cpu_seconds']
    assert world.admin.post(f'/servers/{server}/action', {'os-migrateLive': {
        'host': 'right', 'block_migration': 'auto'}}).status_code == 202
    wait_for(lambda: world.admin.get(f'/servers/{server}').json()['server']['OS-EXT-SRV-ATTR:host'] == 'right'
             and world.admin.wait_for(server))
    world.sample(server, 3, host='right')
    found = world.metrics(server, f'?since={world.moment(-100)}')
    assert found['totals']['cpu_seconds'] > before
    assert None not in found['series']['cpu'][:-1] and min(found['series']['cpu'][:-1]) >= 0
    kept = world.ring(server).at
    world.now += 20
    world.managers['left'].counters.report()                 # the former host has no say
    world.sample(server, 1, host='right')
    assert world.ring(server).at == kept + 40


def test_a_host_writes_only_rings_of_its_servers(world, server):
    service = world.running.services[0].manager.counters
    taken = counters.dumped({server: counters.Counters('x', 1, *[10 ** 15] * 9), 'unknown': counters.Counters('y')})
    service.report_counters(None, host='right', boot='b', at=1.0, servers=taken,
                            nodes=counters.dumped({'left': counters.Counters('')}))
    assert world.metrics(server)['totals']['cpu_seconds'] == 0


def test_rings_of_a_deleted_server_are_hidden_at_once_and_deleted_within_an_hour(world):
    made = world.boot()
    world.sample(made, 8)
    assert len(rows(world, made)) == 2
    world.admin.delete(f'/servers/{made}')
    world.admin.wait_for(made, 'DELETED')
    assert world.admin.get(f'/servers/{made}/os-metrics').status_code == 404
    assert world.running.services[0].manager.counters.expire_counters() >= 2 and rows(world, made) == []


def rows(world, owner):
    with world.running.cell_db.reader() as conn:
        return [row for row in conn.execute(tables_cell.counter_rings.select()) if row.owner_uuid == owner]


def test_a_backup_has_the_rings(world, server):
    world.sample(server, 2)
    with world.running.cell_db.reader() as conn:
        (_name, columns, dumped), = [batch for batch in state_backup.batches(conn, 'cell')
                                     if batch[0] == 'counter_rings']
    state_backup.check('cell', 'counter_rings', columns, json.loads(json.dumps(dumped)))
    restored = state_backup._values(state_backup._raw_tables('cell')['counter_rings'], columns, dumped)
    ring, = [row['data'] for row in restored if row['owner_uuid'] == server and row['step'] == 20]
    assert counter_rings.CounterRing(ring).at == world.now
    dumped[0][columns.index('data')] = 'not base64'
    with pytest.raises(exception.InvalidInput, match='binary value'):
        state_backup.check('cell', 'counter_rings', columns, dumped)


def test_a_driver_that_fails_leaves_a_gap(world, server, monkeypatch, caplog):
    world.sample(server, 2)
    reporter = world.managers['left'].counters

    def fail():
        raise OSError('no such file')
    monkeypatch.setattr(reporter._host.driver.usage, 'guests', fail)
    reporter.report()
    assert 'Cannot read the counters: no such file' in caplog.text and reporter.guests == {}
    monkeypatch.undo()


def test_metrics_of_a_compute_have_a_bounded_number_of_servers(world, server):
    """Without the option there are none."""
    others = [world.boot() for _ in range(2)]
    reporter = world.managers['left'].counters
    world.sample(server)
    assert server not in metrics.exposed()[0].decode()
    world.running.conf.set_override('server_series', 2, group='monitoring')
    exposed = compute_counters.Reporter(reporter._host)
    world.running.conf.clear_override('server_series', group='monitoring')
    exposed.report()
    text = metrics.exposed()[0].decode()
    first, second, third = sorted([server, *others])
    found = exposed.guests[first]
    assert f'nova_server_cpu_seconds_total{{server="{first}"}} {found.cpu_ns / 1e9}' in text
    assert f'nova_server_memory_bytes{{server="{second}"}}' in text and third not in text
    assert '# TYPE nova_server_disk_read_bytes_total counter' in text
    for each in others:
        world.admin.delete(f'/servers/{each}')
        world.admin.wait_for(each, 'DELETED')
