"""External events, host control and files of volume snapshots: what a compute does about them."""
import dataclasses
import time

import pytest

from nova import exception
from nova import states
from nova.compute import device_addresses
from nova.compute.moves import live_migration
from nova.db.servers import block_devices
from nova.tests import core
from nova.virt import driver as virt

VOLUME = '70a599e0-31e7-49b7-b260-868f441e8633'


class BlockStorage:
    """What the conductor needs of the block storage here: sizes, and what it was told of snapshots."""

    def __init__(self):
        self.size, self.told = 2, []

    def get(self, ctx, volume_id):
        return {'id': volume_id, 'size': self.size}

    def get_snapshot(self, ctx, snapshot_id):
        return {'id': snapshot_id, 'volume_id': VOLUME}

    def update_snapshot_status(self, ctx, snapshot_id, status, progress):
        self.told.append((snapshot_id, status, progress))


@pytest.fixture
def cloud(tmp_path):
    made = core.Cloud(tmp_path)
    made.new_conductor(volumes=BlockStorage())
    yield made
    made.close()


def tell(cloud, uuid, *events):
    cloud.client['compute'].external_instance_event(
        cloud.ctx, server='host1', instance=cloud.conductor.methods.update_instance(None, uuid, {}),
        events=[{'tag': None, 'status': 'completed', **event} for event in events])
    cloud.settle()


def vifs(cloud, uuid):
    return cloud.row(uuid)['network_info']


def test_a_changed_network_is_read_again(cloud):
    uuid = cloud.boot()
    host, ports = cloud.network.allocated[uuid]
    second = {**ports[0], 'id': '70a599e0-31e7-49b7-b260-868f441e8634', 'address': 'fa:16:3e:00:00:02'}
    cloud.network.allocated[uuid] = (host, [*ports, second])
    tell(cloud, uuid, {'name': 'network-changed'})
    assert [vif['address'] for vif in vifs(cloud, uuid)] == ['fa:16:3e:00:00:01', 'fa:16:3e:00:00:02']


def test_plug_events_update_the_port_state(cloud):
    uuid = cloud.boot()
    port = vifs(cloud, uuid)[0]['id']
    tell(cloud, uuid, {'name': 'network-vif-unplugged', 'tag': port})
    assert vifs(cloud, uuid)[0]['active'] is False
    tell(cloud, uuid, {'name': 'network-changed'})
    assert vifs(cloud, uuid)[0]['active'] is False
    tell(cloud, uuid, {'name': 'network-vif-plugged', 'tag': port, 'status': 'failed'})
    assert vifs(cloud, uuid)[0]['active'] is False
    tell(cloud, uuid, {'name': 'network-vif-plugged', 'tag': port})
    assert vifs(cloud, uuid)[0]['active'] is True


def test_a_port_that_is_gone_leaves_the_guest(cloud):
    uuid = cloud.boot()
    port = vifs(cloud, uuid)[0]['id']
    tell(cloud, uuid, {'name': 'network-vif-deleted', 'tag': '70a599e0-31e7-49b7-b260-868f441e8634'})
    assert len(vifs(cloud, uuid)) == 1
    tell(cloud, uuid, {'name': 'network-vif-deleted', 'tag': port})
    assert vifs(cloud, uuid) == [] and cloud.computes['host1'].driver.machine.guests[uuid]['networks'] == []


def test_an_extended_volume_is_seen_by_the_guest(cloud):
    uuid = cloud.boot()
    with cloud.db.writer() as conn:
        block_devices.insert(conn, uuid, [{
            'source_type': 'volume', 'destination_type': 'volume', 'volume_id': VOLUME, 'device_name': '/dev/vdb',
            'volume_size': 1}])
    tell(cloud, uuid, {'name': 'volume-extended', 'tag': 'another'})
    assert 'sizes' not in cloud.computes['host1'].driver.machine.guests[uuid]
    tell(cloud, uuid, {'name': 'volume-extended', 'tag': VOLUME})
    assert cloud.computes['host1'].driver.machine.guests[uuid]['sizes'] == {VOLUME: 2}
    with cloud.db.reader() as conn:
        assert block_devices.by_instance(conn, uuid)[0]['volume_size'] == 2


def test_an_event_that_fails_does_not_stop_the_others(cloud):
    uuid = cloud.boot()
    port = vifs(cloud, uuid)[0]['id']
    cloud.computes['host1'].driver.failures['detach_interface'] = RuntimeError('canary')
    tell(cloud, uuid, {'name': 'network-vif-deleted', 'tag': port}, {'name': 'accelerator-request-bound', 'tag': 'x'},
         {'name': 'network-vif-unplugged', 'tag': port})
    assert vifs(cloud, uuid)[0]['active'] is False


def test_an_event_of_a_server_that_has_left_is_dropped(cloud):
    uuid = cloud.boot()
    before = vifs(cloud, uuid)
    instance = cloud.conductor.methods.update_instance(None, uuid, {'host': 'elsewhere'})
    cloud.network.allocated[uuid] = ('elsewhere', [])
    cloud.client['compute'].external_instance_event(
        cloud.ctx, server='host1', instance=instance,
        events=[{'name': 'network-changed', 'tag': None, 'status': 'completed'}])
    cloud.settle()
    assert vifs(cloud, uuid) == before


# ---- volume snapshots ----------------------------------------------------------

def test_volume_snapshot_events_update_the_files(cloud):
    uuid = cloud.boot()
    with cloud.db.writer() as conn:
        block_devices.insert(conn, uuid, [{
            'source_type': 'volume', 'destination_type': 'volume', 'device_name': '/dev/vdb', 'volume_id': VOLUME}])
    instance, driver = cloud.conductor.methods.update_instance(None, uuid, {}), cloud.computes['host1'].driver
    compute, told = cloud.client['compute'], cloud.services.volumes.told
    for name in ('a', 'b'):
        compute.create_volume_snapshot(cloud.ctx, server='host1', instance=instance, volume_id=VOLUME, create_info={
            'snapshot_id': name, 'type': 'qcow2', 'new_file': name})
        cloud.settle()
    assert driver.machine.guests[uuid]['files'] == {VOLUME: ['a', 'b']}
    compute.delete_volume_snapshot(cloud.ctx, server='host1', instance=instance, volume_id=VOLUME, snapshot_id='a',
                                   delete_info={'volume_id': VOLUME})         # the guest's file is to lie on none
    cloud.settle()
    assert driver.machine.guests[uuid]['files'] == {VOLUME: ['b']}
    assert told == [('a', 'creating', '90%'), ('b', 'creating', '90%'), ('a', 'deleting', '90%')]
    compute.create_volume_snapshot(cloud.ctx, server='host1', instance=instance, volume_id=VOLUME, create_info={
        'snapshot_id': 'whole', 'type': 'copy', 'new_file': 'w'})
    cloud.settle()
    assert driver.machine.guests[uuid]['files'] == {VOLUME: ['b']} and told.pop() == ('whole', 'creating', '90%')
    assert driver.machine.guests[uuid]['copies'] == [[VOLUME, 'w', False]]
    driver.failures.update(create_volume_snapshot=1, delete_volume_snapshot=1)
    compute.create_volume_snapshot(cloud.ctx, server='host1', instance=instance, volume_id=VOLUME, create_info={
        'snapshot_id': 'c', 'type': 'qcow2', 'new_file': 'c'})
    cloud.settle()
    compute.delete_volume_snapshot(cloud.ctx, server='host1', instance=instance, volume_id=VOLUME, snapshot_id='b',
                                   delete_info={'volume_id': VOLUME, 'file_to_merge': 'b'})
    cloud.settle()
    assert told[3:] == [('c', 'error', '0%'), ('b', 'error_deleting', '0%')]


# ---- the machine ---------------------------------------------------------------

def test_guests_go_off_and_on_with_their_machine(cloud):
    runs, stopped = cloud.boot(), cloud.boot()
    cloud.act(stopped, 'os-stop', clean_shutdown=False)
    cloud.settle()
    compute = cloud.computes['host1']
    for action, word, expected in (('shutdown', 'shut down', states.STOPPED), ('startup', 'started', states.ACTIVE),
                                   ('reboot', 'rebooted', states.ACTIVE)):
        assert compute.methods.host_power_action(cloud.ctx, action) == word
        deadline = time.monotonic() + 120
        while cloud.row(runs)['vm_state'] != expected:
            assert time.monotonic() < deadline, action
            time.sleep(0.02)
        assert cloud.row(stopped)['vm_state'] == states.STOPPED


def test_a_host_in_maintenance_starts_no_guest(cloud):
    compute = cloud.computes['host1']
    compute.methods.set_host_maintenance(cloud.ctx, True)
    uuid, = cloud.create()
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR
    compute.methods.set_host_maintenance(cloud.ctx, False)
    cloud.boot()


def test_a_driver_that_cannot_migrate_says_so(cloud):
    instance = cloud.conductor.methods.update_instance(None, cloud.boot(), {})
    host = cloud.computes['host1'].host
    poor = dataclasses.replace(host, driver=virt.ComputeDriver(host.conf, 'host1', None))
    work = live_migration.LiveMigration(poor, volumes=None, notifier=None, orphans=None, max_outgoing=1)
    for check in (lambda: work.check_live_migration_destination(cloud.ctx, instance, None, False),
                  lambda: work.check_live_migration_source(cloud.ctx, instance, {})):
        with pytest.raises(exception.MigrationPreCheckError, match='host1'):
            check()


def test_the_addresses_of_devices_are_recorded_as_far_as_they_are_known(cloud, monkeypatch):
    host, uuid = cloud.computes['host1'].host, cloud.boot(host='host1')

    def recorded(found):
        def addresses(_instance):
            if isinstance(found, Exception):
                raise found
            return found
        monkeypatch.setattr(host.driver, 'device_addresses', addresses)
        server = cloud.conductor.methods.update_instance(None, uuid, {})
        device_addresses.record(host, cloud.ctx, server, tagged=True)
        return (cloud.row(uuid)['system_metadata'] or {}).get('device_addresses')
    assert recorded(exception.VirtError(operation='read', reason='libvirt is away')) is None
    known = {'fa:16:3e:00:00:01': ['pci', '0000:00:03.0']}
    assert recorded({**known, 'WD My Disk': ['pci', '0000:00:04.0']}) == known
    assert recorded(exception.GuestNotFound(instance_id=uuid)) == known
