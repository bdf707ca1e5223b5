"""Live migrations of servers with volumes: their attachments at the block storage."""
import pytest

from nova import actions
from nova import context
from nova import exception
from nova import states
from nova.api.server_actions import actions as api
from nova.db import engine
from nova.db.servers import block_devices
from nova.objects import faults
from nova.tests import db_faults
from nova.tests.support import core_live_migration
from nova.tests.support.core_live_migration import boot
from nova.tests.support.core_live_migration import check
from nova.tests.support.core_live_migration import down
from nova.tests.support.core_live_migration import hosts_with
from nova.tests.support.core_live_migration import migrate
from nova.tests.support.core_live_migration import move
from nova.tests.support.core_live_migration import running
from nova.tests.support.waiting import wait_for
from nova.volume import embedded

cloud = core_live_migration.cloud


class Disk:
    """A server on host1 with a volume, and the block storage."""

    def __init__(self, cloud):
        self.cloud, self.system = cloud, context.admin_context()
        self.storage = embedded.EmbeddedVolumes(cloud.conf, cloud.api_db, None)
        cloud.new_conductor(volumes=self.storage)
        self.uuid = boot(cloud)
        self.add('/dev/vdb')

    def add(self, device_name):
        """Attach a new volume; return its id."""
        volume_id = self.storage.create(self.cloud.ctx, 1)['id']
        with self.cloud.db.writer() as conn:
            block_devices.insert(conn, self.uuid, [{
                'source_type': 'volume', 'destination_type': 'volume', 'volume_id': volume_id, 'volume_size': 1,
                'device_name': device_name}])
        wait_for(lambda: self.storage.get(self.system, volume_id)['status'] == 'available')
        self.cloud.conductor.methods.prepare_volumes(self.cloud.ctx, self.uuid, {'host': 'host1'})
        self.cloud.conductor.methods.complete_volumes(self.cloud.ctx, self.uuid)
        return volume_id

    def rows(self):
        with self.cloud.db.reader() as conn:
            return block_devices.by_instance(conn, self.uuid)

    def row(self):
        device, = self.rows()
        return device

    def refuse_once(self, monkeypatch, name, error):
        """Let the next call of a method of the block storage fail."""
        errors, method = [error], getattr(self.storage, name)

        def call(*args, **kwargs):
            if errors:
                raise errors.pop()
            return method(*args, **kwargs)
        monkeypatch.setattr(self.storage, name, call)
        return errors

    def check(self, host):
        """The block storage has for the server the attachment that the row names, and nothing else."""
        row = self.row()
        assert row['connection_info']['host'] == self.cloud.row(self.uuid)['host'] == host
        assert self.storage.attachments_of(self.system, self.uuid) == [row['attachment_id']]
        assert self.storage.get(self.system, row['volume_id'])['status'] == 'in-use'
        check(self.cloud)


@pytest.fixture
def disk(cloud):
    return Disk(cloud)


def arrives(cloud, disk):
    """The guest runs at host2, and its source dies before the conductor hears of it."""
    cloud.bus.lost = lambda topic, method, server: method == 'live_migration_arrived'
    number = migrate(cloud, disk.uuid, host='host2')
    wait_for(lambda: hosts_with(cloud, disk.uuid) == ['host2'], what='it does not arrive')
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    return number


def test_live_migration_moves_the_attachments(cloud, disk):
    former = disk.row()['attachment_id']
    migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    assert disk.row()['attachment_id'] != former
    disk.check('host2')


def test_the_reconciler_finishes_the_migration_while_the_block_storage_is_away(cloud, disk, monkeypatch):
    number = arrives(cloud, disk)
    down(cloud, 'host1')
    left = disk.refuse_once(monkeypatch, 'detach', exception.ServiceUnavailable(service='Block Storage'))
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert not left and move(cloud, number)['status'] == 'completed'
    cloud.conductor.volumes.settle_volumes()
    disk.check('host2')


def test_the_guest_does_not_wait_for_the_block_storage(cloud, disk, monkeypatch):
    """It stayed paused: the last step began only when the volumes were released."""
    former = disk.row()['attachment_id']
    left = disk.refuse_once(monkeypatch, 'detach', exception.ServiceUnavailable(service='Block Storage'))
    number = migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    assert not left and move(cloud, number)['status'] == 'completed'
    assert former in disk.storage.attachments_of(disk.system, disk.uuid)
    cloud.conductor.volumes.settle_volumes()
    disk.check('host2')


def test_the_source_gets_an_answer_when_it_repeats_its_call(cloud, disk, monkeypatch):
    number = arrives(cloud, disk)
    disk.refuse_once(monkeypatch, 'detach', exception.ServiceUnavailable(service='Block Storage'))

    def resume(host):
        return cloud.conductor.methods.resume_live_migration(cloud.ctx, disk.uuid, host, False)
    assert resume('host3') is False and move(cloud, number)['status'] != 'completed'
    assert resume('host1') is True
    cloud.settle()
    assert move(cloud, number)['status'] == 'completed'
    cloud.conductor.volumes.settle_volumes()
    disk.check('host2')


@pytest.mark.parametrize('error', [exception.InvalidVolume(reason='no'),
                                   exception.ServiceUnavailable(service='Block Storage')])
def test_volume_that_cannot_be_completed_stops_neither_the_migration_nor_other_volumes(cloud, disk, monkeypatch, error):
    second = disk.add('/dev/vdc')
    left = disk.refuse_once(monkeypatch, 'complete', error)
    number = migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    assert not left and move(cloud, number)['status'] == 'completed'
    assert disk.storage.get(disk.system, second)['status'] == 'in-use'
    cloud.conductor.volumes.settle_volumes()             # of the other, once the block storage answers
    assert (disk.storage.get(disk.system, disk.rows()[0]['volume_id'])['status'] == 'in-use') == isinstance(
        error, exception.Unavailable)
    assert sorted(disk.storage.attachments_of(disk.system, disk.uuid)) == sorted(
        row['attachment_id'] for row in disk.rows())


def test_attachment_that_cannot_be_completed_does_not_keep_orphans(cloud, disk, monkeypatch):
    former = disk.row()['attachment_id']

    def complete(*_arguments):
        raise exception.ServiceUnavailable(service='Block Storage')
    with monkeypatch.context() as patch:
        patch.setattr(disk.storage, 'complete', complete)
        disk.refuse_once(patch, 'detach', exception.ServiceUnavailable(service='Block Storage'))
        migrate(cloud, disk.uuid, host='host2')
        cloud.settle()
        assert former in disk.storage.attachments_of(disk.system, disk.uuid)
        with pytest.raises(exception.Unavailable):
            cloud.conductor.volumes.settle_volumes()
    assert disk.storage.attachments_of(disk.system, disk.uuid) == [disk.row()['attachment_id']]
    cloud.conductor.volumes.settle_volumes()
    disk.check('host2')


def test_failed_migration_releases_volumes_of_the_destination_when_the_block_storage_returns(cloud, disk, monkeypatch):
    """The rollback is not repeated: the attachment stayed, and so did what was prepared at the destination."""
    cloud.computes['host1'].driver.failures['live_migrate'] = RuntimeError('canary')
    left = disk.refuse_once(monkeypatch, 'detach', exception.ServiceUnavailable(service='Block Storage'))
    number = migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    assert not left and move(cloud, number)['status'] == 'failed' and 'volumes' not in move(cloud, number)['arguments']
    cloud.conductor.volumes.settle_volumes()
    disk.check('host1')


def test_migration_that_ends_while_its_volumes_are_connected_leaves_no_attachment(cloud, disk, monkeypatch):
    """The source is restarted during the call to the block storage, and its recovery ends the migration."""
    cloud.bus.lost = lambda topic, method, server: method == 'live_migrate_instance'
    number = migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    attach, methods = disk.storage.attach_elsewhere, cloud.conductor.methods

    def late(*args):
        made = attach(*args)
        assert methods.resume_live_migration(cloud.ctx, disk.uuid, 'host1', True) is False
        return made
    monkeypatch.setattr(disk.storage, 'attach_elsewhere', late)
    with pytest.raises(exception.InstanceChanged):
        methods.prepare_live_migration(cloud.ctx, number)
    assert move(cloud, number)['status'] == 'failed'
    disk.check('host1')


@pytest.mark.parametrize('committed', [True, False], ids=['committed', 'not'])
def test_attachment_whose_record_had_no_answer_is_released_unless_the_migration_names_it(
        cloud, disk, monkeypatch, committed):
    cloud.bus.lost = lambda topic, method, server: method == 'live_migrate_instance'
    number = migrate(cloud, disk.uuid, host='host2')
    cloud.settle()
    attach, methods = disk.storage.attach_elsewhere, cloud.conductor.methods

    def attach_before_lost_commit(*args):
        made = attach(*args)
        db_faults.lose_commit(cloud.db, committed)
        return made
    with monkeypatch.context() as patch:
        patch.setattr(disk.storage, 'attach_elsewhere', attach_before_lost_commit)
        with pytest.raises(engine.CommitUnanswered):
            methods.prepare_live_migration(cloud.ctx, number)
    former = disk.row()['attachment_id']
    cloud.conductor.volumes.settle_volumes()
    methods.prepare_live_migration(cloud.ctx, number)
    cloud.conductor.volumes.settle_volumes()
    coming, = move(cloud, number)['arguments']['volumes'].values()
    assert {*disk.storage.attachments_of(disk.system, disk.uuid)} == {former, coming['attachment_id']}
    methods.resume_live_migration(cloud.ctx, disk.uuid, 'host1', True)            # the source was restarted
    cloud.settle()
    disk.check('host1')


def test_repeated_call_of_the_source_completes_an_interrupted_rollback(cloud, disk, monkeypatch):
    """The conductor dies when the migration is over, before it releases the volumes."""
    cloud.computes['host1'].driver.failures['live_migrate'] = RuntimeError('canary')
    with monkeypatch.context() as patch:
        left = disk.refuse_once(patch, 'detach', RuntimeError('This process is dead.'))
        number = migrate(cloud, disk.uuid, host='host2')
        cloud.settle()
    cloud.new_conductor(volumes=disk.storage)
    assert not left and move(cloud, number)['status'] == 'failed'
    assert len(disk.storage.attachments_of(disk.system, disk.uuid)) == 2
    fault = faults.fault(RuntimeError('canary'))
    for _ in range(2):
        cloud.conductor.methods.live_migration_failed(cloud.ctx, number, 'host1', fault, None, False)
    assert not {'volumes', 'connector'} & move(cloud, number)['arguments'].keys()
    disk.check('host1')


def test_rollback_without_destination_and_network_service_keeps_no_secrets_and_is_repeated(cloud, disk):
    """The source repeats its call while the network service does not answer."""
    cloud.computes['host1'].driver.failures['live_migrate'] = RuntimeError('canary')
    found = []

    def lost(topic, method, server):
        if method == 'rollback_live_migration':
            raise exception.HostUnavailable(host='host2')
        if method == 'unprepare_for_instance':
            found.append(move(cloud, number)['arguments'].get('volumes'))
            if len(found) == 1:
                raise exception.ServiceUnavailable(service='network')
    number = core_live_migration.begin(cloud, disk.uuid, host='host2')
    cloud.bus.lost = lost
    cloud.client['conductor'].continue_live_migration(cloud.ctx, instance_uuid=disk.uuid)
    cloud.settle()
    assert len(found) == 2 and not any(found) and cloud.network.expected == set()
    assert 'connector' not in move(cloud, number)['arguments']
    assert disk.storage.attachments_of(disk.system, disk.uuid) == [disk.row()['attachment_id']]


def test_migration_of_a_server_that_an_administrator_resets_is_rolled_back(cloud, disk):
    number = running(cloud, disk.uuid, host='host2')
    cloud.new_request()
    cloud.db.run(api._reset, cloud.ctx, disk.uuid, actions.ACTIONS['os-resetState'], states.ACTIVE)
    cloud.settle()
    assert move(cloud, number)['status'] == 'error' and hosts_with(cloud, disk.uuid) == ['host1']
    assert not {'volumes', 'connector'} & move(cloud, number)['arguments'].keys()
    disk.check('host1')
