"""Answers of conductor and network service that a compute never gets, in a whole cloud with networks and volumes.

The service has done what it was asked for, or has refused it; it is asked again, and nothing is done twice.
"""
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.networks import ports
from nova.db.tables import cell as tables_cell
from nova.tests import long_runs
from nova.tests.functional import cloud as clouds
from nova.tests.support import live_cloud as live
from nova.tests.support import volumes
from nova.tests.support.waiting import wait_for

HOSTS = ['host1', 'host2', 'host3']
SHARE = 2              # the answers to one in so many methods; in long runs to all of them


class Losses:
    """Which answers are lost: the first one to ``method``, of those that computes ask for."""

    def __init__(self):
        self.method, self.asked, self.lost, self._lock = None, [], 0, threading.Lock()

    def __call__(self, method):
        with self._lock:
            self.asked.append(method)
            self.lost += method == self.method
            return method == self.method and self.lost == 1


class Losing:
    """A client whose answers may be lost on their way."""

    def __init__(self, client, topic, losses):
        self._client, self._topic, self._losses = client, topic, losses

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if not self._client._interface.methods[name].call:
            return method

        def send(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            finally:
                if self._losses((self._topic, name)):
                    raise exception.ServiceUnavailable(service=self._topic)
        return send


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('lost') / 'state', hosts=HOSTS, shelved_offload_time=0,
                        quota__instances=-1, quota__cores=-1, quota__ram=-1) as made:
        made.boss, made.losses = made.admin('2.104'), Losses()
        made.image = made.boss.upload_image()
        made.conductor = next(part.manager for part in made.services if part.binary == 'nova-conductor')
        for host in HOSTS:
            manager = live.compute(made, host).manager
            for topic in ('conductor', 'network'):
                patient = getattr(manager.host, topic)
                patient.client = Losing(patient.client, topic, made.losses)
        yield made


def act(cloud, server_id, name, body=None, status='ACTIVE'):
    answer = cloud.boss.post(f'/servers/{server_id}/action', {name: body})
    assert answer.status_code < 300, answer.text
    return cloud.boss.wait_for(server_id, status, 60)


def data_volume(cloud, server_id):
    volume_id = volumes.volume(cloud.boss)
    answer = volumes.attach(cloud.boss, server_id, volume_id)
    assert answer.status_code in (200, 202), answer.text
    volumes.status(cloud.boss, volume_id, 'in-use')
    return volume_id


def attached(cloud, server_id, *volume_ids):
    for volume_id in volume_ids:
        wait_for(lambda volume_id=volume_id: [
            held['host_name'] for held in volumes.show(cloud.boss, volume_id)['attachments']] == [
            live.home(cloud, server_id)], what='attachments')
    wait_for(lambda: set(volumes.guest_volumes(cloud, server_id)) == set(volume_ids), what='volumes')


def volume(cloud, server_id):
    volume_id = data_volume(cloud, server_id)
    attached(cloud, server_id, volume_id)
    assert cloud.boss.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    volumes.status(cloud.boss, volume_id, 'available')
    wait_for(lambda: volumes.guest_volumes(cloud, server_id) == {}, what='volumes')


def refused_volume(cloud, server_id):
    driver = live.driver(cloud, 'host1')
    driver.failures['attach_volume'] = exception.VirtError(operation='attach the volume', reason='canary')
    volume_id = volumes.volume(cloud.boss)
    try:
        volumes.attach(cloud.boss, server_id, volume_id)
        wait_for(lambda: not opened(cloud, server_id), what='it does not end')
    finally:
        driver.failures.clear()
    assert volumes.show(cloud.boss, volume_id)['status'] == 'available'
    assert volumes.attachments(cloud.boss, server_id) == []


def addresses(cloud, server_id):
    found = cloud.boss.get(f'/servers/{server_id}', version='2.60').json()['server']['addresses']
    return sorted(each['addr'] for network in found.values() for each in network)


def interface(cloud, server_id):
    before = addresses(cloud, server_id)
    network = cloud.boss.get('/network/v2.0/networks').json()['networks'][0]['id']
    answer = cloud.boss.post(f'/servers/{server_id}/os-interface', {'interfaceAttachment': {'net_id': network}})
    assert answer.status_code == 200, answer.text
    assert len(addresses(cloud, server_id)) == len(before) + 1
    port_id = answer.json()['interfaceAttachment']['port_id']
    assert cloud.boss.delete(f'/servers/{server_id}/os-interface/{port_id}').status_code == 202
    wait_for(lambda: addresses(cloud, server_id) == before, what='the port stays')


def address(cloud, server_id):
    before = addresses(cloud, server_id)
    network = cloud.boss.get('/network/v2.0/networks').json()['networks'][0]['id']
    answer = cloud.boss.post(f'/servers/{server_id}/action', {'addFixedIp': {'networkId': network}}, version='2.43')
    assert answer.status_code == 202, answer.text
    wait_for(lambda: not opened(cloud, server_id), what='it does not end')
    more = set(addresses(cloud, server_id)) - set(before)
    assert len(more) == 1, more
    answer = cloud.boss.post(f'/servers/{server_id}/action', {'removeFixedIp': {'address': more.pop()}}, version='2.43')
    assert answer.status_code == 202, answer.text
    wait_for(lambda: addresses(cloud, server_id) == before, what='the address stays')


def shelve(cloud, server_id):
    volume_id, before = data_volume(cloud, server_id), addresses(cloud, server_id)
    act(cloud, server_id, 'shelve', status='SHELVED_OFFLOADED')
    act(cloud, server_id, 'unshelve')
    assert addresses(cloud, server_id) == before
    attached(cloud, server_id, volume_id)


def evacuate(cloud, server_id):
    volume_id, before = data_volume(cloud, server_id), addresses(cloud, server_id)
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == 'host1')
    cloud.boss.put(f'/os-services/{service}', {'forced_down': True})
    try:
        assert live.act(cloud, server_id, 'evacuate').status_code == 200
        wait_for(lambda: live.home(cloud, server_id) != 'host1', what='it stays')
        wait_for(lambda: not opened(cloud, server_id), what='it does not end')
    finally:
        cloud.boss.put(f'/os-services/{service}', {'forced_down': False})
    wait_for(lambda: len(live.guests(cloud, server_id)) == 1, what='two guests')
    assert addresses(cloud, server_id) == before
    attached(cloud, server_id, volume_id)


def rebuild(cloud, server_id):
    other = cloud.boss.upload_image()
    act(cloud, server_id, 'rebuild', {'imageRef': other})
    assert cloud.boss.get(f'/servers/{server_id}').json()['server']['image']['id'] == other
    assert result(cloud, server_id) is None


def rescue(cloud, server_id):
    act(cloud, server_id, 'rescue', {}, status='RESCUE')
    act(cloud, server_id, 'unrescue')
    assert result(cloud, server_id) is None


def image(cloud, server_id):
    answer = cloud.boss.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202, answer.text
    cloud.boss.wait_for(server_id)
    assert result(cloud, server_id) is None
    made = cloud.boss.get('/image/v2/images/' + answer.json()['image_id']).json()
    assert made['status'] == 'active'


def from_volume(cloud):
    answer = cloud.boss.post('/servers', {'server': {
        'name': 'backed', 'flavorRef': '42', 'networks': 'auto', 'host': 'host1', 'block_device_mapping_v2': [{
            'boot_index': 0, 'source_type': 'image', 'destination_type': 'volume', 'uuid': cloud.image,
            'volume_size': 1, 'delete_on_termination': True}]}})
    assert answer.status_code == 202, answer.text
    server_id = answer.json()['server']['id']
    cloud.boss.wait_for(server_id)
    return server_id


def snapshots(cloud):
    return {each['id'] for each in cloud.boss.get('/volume/v3/snapshots').json()['snapshots']}


def volume_image(cloud, _server_id):
    server_id, before = from_volume(cloud), snapshots(cloud)
    image(cloud, server_id)
    assert len(snapshots(cloud) - before) == 1
    other = cloud.boss.upload_image()
    act(cloud, server_id, 'rebuild', {'imageRef': other})
    assert result(cloud, server_id) is None
    volumes.gone(cloud.boss, server_id)


def delete(cloud, server_id):
    volume_id = data_volume(cloud, server_id)
    volumes.gone(cloud.boss, server_id)
    assert volumes.status(cloud.boss, volume_id, 'available')['attachments'] == []
    with cloud.api_db.reader() as conn:
        assert ports.of_device(conn, server_id) == []


def build(cloud, _server_id):
    server_id = live.boot(cloud)
    assert len(addresses(cloud, server_id)) == 1
    live.check(cloud, server_id)


def resize(cloud, server_id):
    volume_id, before = data_volume(cloud, server_id), addresses(cloud, server_id)
    for end in ('revertResize', 'confirmResize'):
        act(cloud, server_id, 'resize', {'flavorRef': '84'}, status='VERIFY_RESIZE')
        act(cloud, server_id, end)
        assert addresses(cloud, server_id) == before
        attached(cloud, server_id, volume_id)


def migrate_live(cloud, server_id):
    volume_id, before = data_volume(cloud, server_id), addresses(cloud, server_id)
    act(cloud, server_id, 'os-migrateLive', {'host': 'host2', 'block_migration': 'auto'})
    wait_for(lambda: live.home(cloud, server_id) == 'host2', what='it stays')
    assert addresses(cloud, server_id) == before
    attached(cloud, server_id, volume_id)


SCENARIOS = [build, delete, volume, refused_volume, interface, address, shelve, evacuate, rebuild, rescue, image,
             volume_image, resize, migrate_live]


def result(cloud, server_id):
    """What the last action says of itself: None when it went well."""
    return cloud.boss.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions'][0]['message']


def opened(cloud, server_id):
    table = tables_cell.instance_actions
    with cloud.cell_db.reader() as conn:
        return conn.execute(sa.select(table.c.action).where(
            table.c.finished_at.is_(None), table.c.instance_uuid == server_id)).scalars().all()


def rest(cloud):
    """Wait until no host is at work, nor asks anything of what has ended."""
    wait_for(
        lambda: not any(live.compute(cloud, host).manager.queue.in_progress() for host in HOSTS), what='hosts at work')


def run(cloud, scenario, method=None):
    """The calls that computes made; of ``method`` the first answer is lost."""
    server_id = live.boot(cloud)
    rest(cloud)
    cloud.losses.asked, cloud.losses.lost, cloud.losses.method = [], 0, method
    try:
        scenario(cloud, server_id)
        wait_for(lambda: not opened(cloud, server_id), what='it does not end')
        asked = set(cloud.losses.asked)
        if method is not None:
            wait_for(lambda: cloud.losses.lost > 1, what=f'{method} was not asked again')
    finally:
        cloud.losses.method = None
    if scenario is not delete:
        wait_for(lambda: live._settled(cloud, server_id), what='ports')
        live.check(cloud, server_id)
        volumes.gone(cloud.boss, server_id)
    assert cloud.conductor.claim_check.audit() == []
    return asked - {('conductor', name) for name in (
        'report_service', 'report_nodes', 'report_power_states', 'list_evacuated', 'evacuated_guest_removed')}


@pytest.mark.parametrize('scenario', SCENARIOS, ids=lambda each: each.__name__)
def test_each_answer_is_lost_once(cloud, scenario):
    methods = sorted(run(cloud, scenario))
    assert methods
    problems = {}
    for method in long_runs.turn(scenario.__name__, methods, SHARE):
        try:
            run(cloud, scenario, method)
        except Exception as error:
            problems[method] = error
    assert problems == {}


class Away:
    """A method of the block storage that does not answer its first call."""

    def __init__(self, method):
        self._method, self.times = method, 0

    def __call__(self, *args, **kwargs):
        self.times += 1
        if self.times == 1:
            raise exception.Unavailable('The Block Storage service does not answer.')
        return self._method(*args, **kwargs)


@pytest.mark.parametrize('method', ['complete', 'detach'])
def test_source_attachments_are_released_when_the_block_storage_returns(cloud, monkeypatch, method):
    """The server is at the destination by then: asked again, the conductor still knows the attachments that go."""
    server_id = live.boot(cloud)
    volume_id = data_volume(cloud, server_id)
    storage = cloud.conductor.services.volumes
    away = Away(getattr(storage, method))
    monkeypatch.setattr(storage, method, away)
    act(cloud, server_id, 'os-migrateLive', {'host': 'host2', 'block_migration': 'auto'})
    wait_for(lambda: live.home(cloud, server_id) == 'host2' and away.times > 1, what='it stays')
    wait_for(lambda: len(volumes.show(cloud.boss, volume_id)['attachments']) == 1, what='two attachments')
    attached(cloud, server_id, volume_id)
    volumes.gone(cloud.boss, server_id)
