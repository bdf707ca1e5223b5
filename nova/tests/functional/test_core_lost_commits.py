"""A COMMIT whose answer is lost: what others were asked for before it is found again."""
import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova.db import engine
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.tables import volume as tables_volume
from nova.tests import core
from nova.tests import db_faults
from nova.tests.support import core_shelve as shelve
from nova.tests.support import waiting
from nova.tests.support.volumes import UNFINISHED
from nova.volume import embedded


@pytest.fixture
def cloud(tmp_path):
    made = core.Cloud(tmp_path, hosts=('host1', 'host2'))
    yield made
    made.close()


@pytest.mark.parametrize('committed', [True, False], ids=['committed', 'not'])
def test_the_image_of_a_shelved_server_goes_with_it(cloud, committed):
    """It was known from the row that was gone, and stayed for ever."""
    uuid = cloud.boot()
    shelve.shelve(cloud, uuid)
    assert shelve.IMAGE in cloud.images.data and cloud.row(uuid)['host'] is None
    cloud.bus.lost = lambda topic, name, server: name == 'delete_instance'
    cloud.delete(uuid)
    db_faults.lose_commit(cloud.db, committed, after=1)              # the first one looks for what goes before the row
    with pytest.raises(engine.CommitUnanswered):
        cloud.conductor.methods.delete_instance(cloud.ctx, uuid)
    assert cloud.gone(uuid) is committed
    cloud.conductor.methods.delete_instance(cloud.ctx, uuid)         # asked again, as a reconciler or a compute does
    assert cloud.gone(uuid) and cloud.images.data == {}
    cloud.check()


class Disk:
    """A server with a device whose volume is still to be made, and the block storage."""

    def __init__(self, cloud):
        self.cloud, self.system = cloud, context.admin_context()
        self.volumes = embedded.EmbeddedVolumes(cloud.conf, cloud.api_db, None)
        cloud.new_conductor(volumes=self.volumes)
        self.uuid, = cloud.insert(1)
        with cloud.db.writer() as conn:
            block_devices.insert(conn, self.uuid, [{
                'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1, 'device_name': '/dev/vdb'}])

    def unanswered(self, ask, committed):
        """Ask for something whose COMMIT is not answered, and again, as a compute does."""
        db_faults.lose_commit(self.cloud.db, committed)
        with pytest.raises(engine.CommitUnanswered):
            ask()
        ask()
        waiting.wait_for(lambda: not self.column('status') & {*UNFINISHED}, 60, 'the data of the volumes')

    def prepare(self, host='host1'):
        """Prepare the device, again until its volume has its data, as a compute does."""
        def prepared():
            device, = self.cloud.conductor.methods.prepare_volumes(self.cloud.ctx, self.uuid, {'host': host})
            return device['connection_info']
        waiting.wait_for(prepared, 60, 'the connection')

    def renew(self):
        self.cloud.conductor.methods.disconnect_volumes(self.cloud.ctx, self.uuid)

    def row(self):
        with self.cloud.db.reader() as conn:
            device, = block_devices.by_instance(conn, self.uuid)
        return device

    def column(self, name):
        """The values of a column of all volumes."""
        with self.cloud.api_db.reader() as conn:
            return {*conn.execute(sa.select(tables_volume.volumes.c[name])).scalars()}

    def check(self):
        """The block storage has for the server what the row names, and nothing else."""
        row = self.row()
        assert self.column('id') == {row['volume_id']}
        assert self.volumes.attachments_of(self.system, self.uuid) == [row['attachment_id']]


@pytest.mark.parametrize('committed', [True, False], ids=['committed', 'not'])
@pytest.mark.parametrize('column', ['volume_id', 'attachment_id', 'renewed'])
def test_volumes_and_attachments_of_lost_commits_are_released(cloud, committed, column):
    """A volume, or an attachment that kept its volume reserved."""
    disk, ask = Disk(cloud), None
    if column == 'volume_id':
        ask = disk.prepare
    elif column == 'attachment_id':
        made = disk.volumes.create(cloud.ctx, 1)
        with cloud.db.writer() as conn:
            block_devices.update(conn, disk.row()['uuid'], {'volume_id': made['id']})
        ask = disk.prepare
    else:
        disk.prepare()
        ask = disk.renew
    disk.unanswered(ask, committed)
    cloud.conductor.volumes.settle_volumes()
    disk.check()
    disk.prepare('host2')
    assert disk.row()['connection_info']['host'] == 'host2'
    disk.check()


def test_former_attachment_is_released_when_the_block_storage_is_back(cloud, monkeypatch):
    """The row names the new attachment already, so the repeated call does not find the former one."""
    disk = Disk(cloud)
    disk.prepare()

    def away(*args, **kwargs):
        raise exception.ServiceUnavailable(service='Block Storage')
    with monkeypatch.context() as patched:
        patched.setattr(disk.volumes, 'detach', away)
        with pytest.raises(exception.Unavailable):
            disk.renew()
    disk.renew()
    assert len(disk.volumes.attachments_of(disk.system, disk.uuid)) == 2
    cloud.conductor.volumes.settle_volumes()
    disk.check()
    disk.prepare('host2')
    assert disk.row()['connection_info']['host'] == 'host2'


def test_it_is_given_back_when_the_block_storage_is_back(cloud, monkeypatch):
    disk = Disk(cloud)
    disk.unanswered(disk.prepare, committed=False)

    def away(*args, **kwargs):
        raise exception.ServiceUnavailable(service='Block Storage')
    with monkeypatch.context() as patched:
        patched.setattr(disk.volumes, 'delete', away)
        with pytest.raises(exception.Unavailable):
            cloud.conductor.volumes.settle_volumes()
    cloud.conductor.volumes.settle_volumes()
    disk.check()


@pytest.mark.parametrize('how', ['deleted', 'swapped'])
def test_a_volume_that_was_used_is_nobodys_to_remove(cloud, how):
    disk = Disk(cloud)
    disk.unanswered(disk.prepare, committed=True)
    used = disk.row()
    disk.volumes.detach(disk.system, used['attachment_id'])
    with cloud.db.writer() as conn:
        if how == 'deleted':
            block_devices.delete(conn, used['uuid'])
        else:
            instance_actions.insert(conn, cloud.ctx, [disk.uuid], 'swap_volume', finished=True)
            block_devices.update(conn, used['uuid'], {'volume_id': disk.volumes.create(cloud.ctx, 1)['id']})
    cloud.conductor.volumes.settle_volumes()
    assert disk.volumes.get(disk.system, used['volume_id'])['status'] == 'available'
