"""A rebuild is no way around the filters (class K of the vulnerabilities: CVE-2017-16239)."""
import pytest

from nova import actions
from nova import exception
from nova import states
from nova.db.servers import instance_actions
from nova.db.servers import request_specs
from nova.objects.instance import REIMAGE
from nova.tests import core
from nova.tests.support import core_rebuild_filters
from nova.tests.support.core_rebuild_filters import BAD
from nova.tests.support.core_rebuild_filters import GOOD

Picky = core_rebuild_filters.Picky


class Fragile:
    """A filter that refuses everything, or images with a property."""

    allows, refused = True, None

    def host_passes(self, host, spec):
        return Fragile.allows and Fragile.refused not in spec.image['properties']


@pytest.fixture
def cloud(tmp_path):
    cloud = core.Cloud(tmp_path, filter_scheduler__enabled_filters=[
        'ComputeFilter', 'RamFilter', f'{__name__}.Picky', f'{__name__}.Fragile'])
    yield cloud
    Fragile.allows, Fragile.refused = True, None
    cloud.close()


def rebuild(cloud, uuid, image_id):
    """As the API does it."""
    row, spec = cloud.row(uuid), cloud.conductor.methods.get_request_spec(None, uuid)
    previous = {'image': spec.image, 'columns': {'image_id': row['image_id'], 'image_properties': {}}}
    spec.image = {**core.IMAGE, 'id': image_id}
    cloud.act(uuid, 'rebuild', {'image_id': image_id}, spec=spec, preserve_ephemeral=False, previous=previous)
    cloud.settle()


@pytest.fixture(autouse=True)
def sent_without_what_is_stored(monkeypatch):
    """``previous`` is an argument of the record, not of the compute's method."""
    original = core.Client._sender

    def sender(self, row):
        send = original(self, row)
        if row.name != 'rebuild_instance':
            return send
        return lambda ctx, previous=None, **arguments: send(ctx, **arguments)
    monkeypatch.setattr(core.Client, '_sender', sender)


def image_of(cloud, uuid):
    return cloud.row(uuid)['image_id'], cloud.conductor.methods.get_request_spec(None, uuid).image['id']


def test_an_image_that_is_refused_changes_nothing(cloud):
    uuid = cloud.boot()
    guest = dict(cloud.computes['host1'].driver.machine.guests[uuid])
    rebuild(cloud, uuid, BAD)
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state']) == (states.ACTIVE, None)
    assert image_of(cloud, uuid) == (GOOD, GOOD)
    assert 'No valid host was found. 1 host: 1 does not pass Picky.' in row['fault']['message']
    assert cloud.actions(uuid)[-1][:2] == ('rebuild', 'Error')
    assert cloud.computes['host1'].driver.machine.guests[uuid] == guest
    cloud.check()


def test_allowed_image_rebuilds_on_a_full_or_disabled_host(cloud):
    uuid, other = cloud.boot(), BAD[:-1] + '0'
    with cloud.db.writer() as conn:                       # neither a full nor a disabled host stands in the way
        conn.exec_driver_sql('UPDATE compute_nodes SET memory_mb = 512')
        conn.exec_driver_sql('UPDATE services SET disabled = 1')
    rebuild(cloud, uuid, other)
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['image_id']) == (states.ACTIVE, None, other), row['fault']


def test_rebuild_resumed_after_a_crash_is_not_filtered_again(cloud):
    """After a crash the old disks may be gone: the rebuild is finished whatever the filters say now."""
    uuid, other = cloud.boot(), BAD[:-1] + '0'
    row, spec = cloud.row(uuid), cloud.conductor.methods.get_request_spec(None, uuid)
    previous = {'image': spec.image, 'columns': {'image_id': row['image_id'], 'image_properties': {}}}
    cloud.kill_in('host1', 'spawn', lambda: cloud.act(uuid, 'rebuild', {'image_id': other}, spec=spec,
                                                      preserve_ephemeral=False, previous=previous))
    assert cloud.row(uuid)['task_state'] == states.REBUILD_SPAWNING
    Fragile.allows = False
    cloud.start_compute('host1')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['image_id']) == (states.ACTIVE, None, other), row['fault']


def test_rebuild_without_a_scheduler_fails(cloud, monkeypatch):
    monkeypatch.setattr('nova.rpc.retrying_client.RETRIES', 2)
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, method, server: method == 'check_host'
    rebuild(cloud, uuid, BAD)
    cloud.bus.lost = None
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and image_of(cloud, uuid) == (GOOD, GOOD)
    assert cloud.row(uuid)['fault']
    cloud.check()


def test_rebuild_with_the_same_image_is_not_filtered_and_keeps_the_key_if_it_fails(cloud, monkeypatch):
    monkeypatch.setattr('nova.rpc.retrying_client.RETRIES', 2)
    uuid, Fragile.allows = cloud.boot(), False
    spec = cloud.conductor.methods.get_request_spec(None, uuid)

    def again():
        cloud.act(uuid, 'rebuild', {'key_name': 'new'}, spec=spec, preserve_ephemeral=False, previous={
            'image': spec.image, 'other_image': False, 'columns': {'key_name': None}})
        cloud.settle()
        return cloud.row(uuid)['vm_state'], cloud.actions(uuid)[-1][:2], cloud.row(uuid)['key_name']
    cloud.bus.lost = lambda topic, method, server: method == 'check_rebuild'
    assert again() == (states.ACTIVE, ('rebuild', 'Error'), None)
    cloud.bus.lost = None
    assert again() == (states.ACTIVE, ('rebuild', None), 'new')
    cloud.check()


def lost_once(method):
    times = []

    def lose(topic, name, server=None):
        times.append(name)
        return name == method and times.count(name) == 1
    return lose


@pytest.mark.parametrize('what', ['reply_lost', 'lost'], ids=['the answer', 'the scheduler'])
def test_a_refusal_that_is_asked_for_again_is_one(cloud, what):
    """Asked a second time it must not judge the image that the server is left with: its disks would be made anew."""
    uuid = cloud.boot()
    guest = dict(cloud.computes['host1'].driver.machine.guests[uuid])
    lose = lost_once('check_rebuild' if what == 'reply_lost' else 'check_host')
    setattr(cloud.bus, what, lose)
    rebuild(cloud, uuid, BAD)
    assert cloud.bus.messages.count('conductor.check_rebuild') == 2
    assert 'does not pass Picky' in cloud.row(uuid)['fault']['message'] and cloud.row(uuid)['task_state'] is None
    assert image_of(cloud, uuid) == (GOOD, GOOD) and cloud.row(uuid)['vm_state'] == states.ACTIVE
    assert cloud.computes['host1'].driver.machine.guests[uuid] == guest
    cloud.check()


@pytest.mark.parametrize('backed', [True, False], ids=['volume', 'image'])
def test_repeated_check_tests_the_new_image(cloud, monkeypatch, backed):
    """The request spec has its old image again, but the end of the task was not written."""
    old, new_id, certificates = {**core.IMAGE, 'id': None if backed else GOOD}, None if backed else BAD, ['certificate']
    new = {**old, 'id': new_id, 'properties': {'new': 'yes'}}
    uuid = cloud.boot(image=old)
    previous = {'image': old, 'columns': {'image_id': old['id'], 'image_properties': {}}}
    with cloud.api_db.writer() as conn:
        spec = request_specs.get(conn, uuid)
        spec.image = new
        request_specs.update(conn, spec)
    cloud.db.run(core.tasks.begin, cloud.ctx, uuid, actions.ACTIONS['rebuild'], arguments={'previous': previous},
                 values={'image_id': new_id, 'trusted_certs': certificates,
                         'system_metadata': {REIMAGE: BAD} if backed else {}})
    show = cloud.images.show
    monkeypatch.setattr(cloud.images, 'show', lambda ctx, image_id: {
        **show(ctx, image_id), 'properties': {'new': 'yes'} if image_id == BAD else {}})
    Fragile.refused = 'new'
    conductor = cloud.conductor.methods
    with pytest.raises(exception.NoValidHost):
        conductor.check_rebuild(cloud.ctx, uuid)
    cloud.conductor.rebuilds.image_kept(uuid)
    assert conductor.get_request_spec(None, uuid).image == old
    with pytest.raises(exception.NoValidHost):
        conductor.check_rebuild(cloud.ctx, uuid)
    Fragile.refused = None
    monkeypatch.setattr(Picky, 'host_passes', lambda *words: True)
    conductor.check_rebuild(cloud.ctx, uuid)
    found = conductor.get_request_spec(None, uuid).image
    assert (found['id'], found['properties'], found['trusted_certs']) == (new_id, {'new': 'yes'}, certificates)
    with cloud.db.reader() as conn:
        assert 'previous' not in instance_actions.arguments_of_open(conn, [uuid])[uuid]


def test_an_image_that_was_never_judged_is_not_kept(cloud):
    """Its host has died before it could ask: the server still has the disks that it had."""
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, method, server: method == 'rebuild_instance'
    rebuild(cloud, uuid, BAD)
    cloud.bus.lost = None
    row = cloud.row(uuid)
    fault = {'code': 503, 'message': 'canary', 'details': ''}
    cloud.conductor.methods.end_task(None, uuid, 'conductor_reconcile', row['host'], {'task_state': None},
                             {'task_state': states.REBUILDING}, fault, '')
    assert image_of(cloud, uuid) == (GOOD, GOOD)
    cloud.check()
