"""Attaches, detaches and swaps whose messages or workers were lost: done again, or taken back."""
import datetime
import threading
import uuid

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import objects
from nova import utils
from nova.api.attachments import volumes as attachments
from nova.api.servers import create
from nova.cloud import assembly
from nova.db.servers import block_devices
from nova.db.servers import disk_keys
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.rpc import retrying_client
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import volumes
from nova.tests.support.waiting import wait_for
from nova.virt.fake.volumes import Volumes
from nova.volume.embedded import EmbeddedVolumes


class Half:
    """What a request leaves behind when everything ends before its host has done it."""

    def __init__(self, cloud):
        self.cloud, self.db = cloud, cloud.cells.default.db
        self.volumes = assembly.volumes(cloud.conf, cloud.api_db, cloud.images)
        self.system = context.admin_context()

    def open(self, server_id, action, **arguments):
        caller = context.admin_context('req-' + str(uuid.uuid4()))
        with self.db.writer() as conn:
            instance_actions.insert(conn, caller, [server_id], action, arguments=arguments)
        return caller.request_id

    def row(self, server_id):
        with self.db.reader() as conn:
            return instances.get(conn, server_id)

    def attach(self, server_id, volume_id, reserved=True):
        bdm = str(uuid.uuid4())
        attachment = self.volumes.attach(self.system, volume_id, server_id) if reserved else None
        with self.db.writer() as conn:
            block_devices.insert(conn, server_id, [{
                'uuid': bdm, 'source_type': 'volume', 'destination_type': 'volume', 'volume_id': volume_id,
                'device_name': '/dev/vdk' if reserved else '/dev/vdl', 'attachment_id': attachment}])
        return self.open(server_id, 'attach_volume', bdm_uuid=bdm)

    def mapping(self, server_id, volume_id):
        with self.db.reader() as conn:
            return next(row['uuid'] for row in block_devices.by_instance(conn, server_id)
                        if row['volume_id'] == volume_id)

    def detach(self, server_id, volume_id):
        self.volumes.begin_detaching(self.system, volume_id)
        self.open(server_id, 'detach_volume', bdm_uuid=self.mapping(server_id, volume_id))

    def swap(self, server_id, old, new):
        self.volumes.begin_detaching(self.system, old)
        self.open(server_id, 'swap_volume', bdm_uuid=self.mapping(server_id, old), new_volume_id=new,
                  new_attachment_id=self.volumes.attach(self.system, new, server_id))

    def open_actions(self):
        table = tables_cell.instance_actions
        with self.db.reader() as conn:
            return conn.execute(sa.select(table.c.action).where(table.c.finished_at.is_(None))).scalars().all()

    def overdue(self, **values):
        table = tables_cell.instance_actions
        with self.db.writer() as conn:
            conn.execute(sa.update(table).where(table.c.finished_at.is_(None)).values(
                deadline=table.c.started_at, **values))

    def conductor(self):
        return next(part.manager for part in self.cloud.services if part.binary == 'nova-conductor')


def prepare(cloud):
    """(client, server, volumes: two that are not attached, three that are, one for a swap)."""
    user = cloud.client(version='2.60')
    server_id = volumes.boot(user, user.upload_image())
    made = [volumes.volume(user) for _ in range(6)]
    for volume_id in made[2:5]:
        assert volumes.attach(user, server_id, volume_id).status_code == 200
        volumes.status(user, volume_id, 'in-use')
    wait_for(lambda: Half(cloud).open_actions() == [])
    return user, server_id, made


def interrupt(half, server_id, made):
    half.attach(server_id, made[0])
    half.attach(server_id, made[1], reserved=False)
    half.detach(server_id, made[2])
    half.swap(server_id, made[3], made[5])


def done(cloud, user, half, server_id, made):
    wait_for(lambda: half.open_actions() == [])
    attached = {made[0], made[1], made[4], made[5]}
    assert volumes.guest_volumes(cloud, server_id).keys() == attached
    assert {each['volumeId'] for each in volumes.attachments(user, server_id)} == attached
    assert {each['id'] for each in user.wait_for(server_id)['os-extended-volumes:volumes_attached']} == attached
    for volume_id in made:
        shown = volumes.show(user, volume_id)
        assert shown['status'] == ('in-use' if volume_id in attached else 'available')
        assert len(shown['attachments']) == (volume_id in attached)


def test_a_restart_does_what_was_interrupted(tmp_path):
    with cloud_fixture.running(tmp_path) as cloud:
        user, server_id, made = prepare(cloud)
        interrupt(Half(cloud), server_id, made)
    with cloud_fixture.running(tmp_path) as cloud:
        done(cloud, cloud.client(version='2.60'), Half(cloud), server_id, made)


@pytest.fixture
def cloud(tmp_path):
    with cloud_fixture.running(tmp_path, conductor__reconcile_interval=3600) as made:      # the tests do it
        yield made


def test_a_lost_message_is_found(cloud):
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    interrupt(half, server_id, made)
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 4
    done(cloud, user, half, server_id, made)


def test_volume_stays_with_a_server_whose_guest_keeps_its_disk_after_a_failed_attachment(cloud, monkeypatch):
    user = cloud.client(version='2.60')
    server_id, volume_id, half = volumes.boot(user, user.upload_image()), volumes.volume(user), Half(cloud)
    manager = next(part.manager for part in cloud.services if part.binary == 'nova-compute')
    plug = Volumes.attach_volume
    held = exception.VirtError(operation='unplug', reason='the guest does not let it go')

    def attach(*args):
        plug(*args)
        raise exception.VirtError(operation='plug', reason='the answer came too late')
    monkeypatch.setattr(Volumes, 'attach_volume', attach)
    manager.driver.failures['detach_volume'] = held
    volumes.status(user, volume_id, 'available')
    assert volumes.attach(user, server_id, volume_id).status_code == 200
    wait_for(lambda: held.__traceback__)
    manager.host.queue.run(server_id, int)                     # after the attachment
    assert half.open_actions() == ['attach_volume'] and half.mapping(server_id, volume_id)
    assert volumes.guest_volumes(cloud, server_id).keys() == {volume_id}
    assert volumes.show(user, volume_id)['status'] != 'available'
    manager.driver.failures.clear()
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    volumes.status(user, volume_id, 'available')
    wait_for(lambda: half.open_actions() == [])
    assert volumes.guest_volumes(cloud, server_id) == {} and volumes.attachments(user, server_id) == []


def test_a_detachment_that_the_block_storage_has_not_heard_of_is_done(cloud):
    """A request that died between its two writes left the volume 'detaching' for ever."""
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    half.open(server_id, 'detach_volume', bdm_uuid=half.mapping(server_id, made[4]))
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    volumes.status(user, made[4], 'available')
    assert made[4] not in volumes.guest_volumes(cloud, server_id)


def test_a_detachment_that_the_block_storage_refuses_leaves_no_record(cloud):
    user, server_id, made = prepare(cloud)
    half, path = Half(cloud), f'/servers/{server_id}/os-volume_attachments/{made[4]}'
    half.volumes.begin_detaching(half.system, made[4])
    assert user.delete(path).status_code == 400 and half.open_actions() == []
    half.volumes.roll_detaching(half.system, made[4])
    assert user.delete(path).status_code == 202
    volumes.status(user, made[4], 'available')


@pytest.mark.parametrize('request_of', ['detach', 'swap'])
@pytest.mark.parametrize('marked', [False, True])
def test_volumes_are_free_after_a_mark_that_the_block_storage_does_not_answer(cloud, monkeypatch, request_of, marked):
    _user, server_id, made = prepare(cloud)
    half, admin, begin_detaching = Half(cloud), cloud.admin(version='2.60'), EmbeddedVolumes.begin_detaching

    def no_answer(*arguments):
        if marked:
            begin_detaching(*arguments)
        raise exception.ServiceUnavailable(service='Block Storage')

    def send():
        path = f'/servers/{server_id}/os-volume_attachments/{made[4]}'
        return (admin.delete(path) if request_of == 'detach' else
                admin.put(path, {'volumeAttachment': {'volumeId': made[5]}})).status_code
    with monkeypatch.context() as broken:
        broken.setattr(EmbeddedVolumes, 'begin_detaching', no_answer)
        assert send() == 503
    assert half.open_actions() == []
    assert [volumes.show(admin, made[number])['status'] for number in (4, 5)] == ['in-use', 'available']
    assert send() == 202


def test_swap_whose_request_ends_before_its_record_leaves_the_old_volume_in_use(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)

    def end(*_arguments):
        raise RuntimeError('the process ends')
    monkeypatch.setattr(attachments, '_begin', end)
    monkeypatch.setattr(EmbeddedVolumes, 'detach', end)
    path = f'/servers/{server_id}/os-volume_attachments/{made[3]}'
    assert cloud.admin(version='2.60').put(path, {'volumeAttachment': {'volumeId': made[5]}}).status_code == 500
    monkeypatch.undo()
    assert volumes.show(user, made[3])['status'] == 'in-use' and Half(cloud).open_actions() == []
    assert user.delete(path).status_code == 202
    volumes.status(user, made[3], 'available')
    path = f'/servers/{server_id}/os-volume_attachments/{made[5]}'                   # the new volume
    assert volumes.show(user, made[5])['status'] == 'reserved'
    assert [user.delete(path).status_code for _ in range(2)] == [202, 404]
    assert volumes.show(user, made[5])['status'] == 'available'


def test_volume_that_an_open_swap_has_reserved_is_not_detached(cloud):
    user, server_id, made = prepare(cloud)
    Half(cloud).swap(server_id, made[3], made[5])
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{made[5]}').status_code == 404
    assert volumes.show(user, made[5])['status'] == 'reserved'


def test_overdue_attachments_are_rolled_back(cloud):
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    interrupt(half, server_id, made)
    half.overdue(started_at=sa.func.datetime('now', '-30 days'))
    assert half.conductor().reconciler.reconcile() == 4
    assert half.open_actions() == []
    kept = set(made[2:5])
    assert {each['volumeId'] for each in volumes.attachments(user, server_id)} == kept
    assert volumes.guest_volumes(cloud, server_id).keys() == kept
    for volume_id in made:
        assert volumes.show(user, volume_id)['status'] == ('in-use' if volume_id in kept else 'available')


@pytest.mark.parametrize('name', ['attach_volume', 'swap_volume'])
def test_a_volume_that_the_host_has_connected_is_not_given_up(cloud, monkeypatch, name):
    """A copy longer than task_timeout ended on a volume that was deleted meanwhile."""
    user = cloud.client(version='2.60')
    server_id, old, new = volumes.boot(user, user.upload_image()), volumes.volume(user), volumes.volume(user)
    half, slow, entered, done = Half(cloud), getattr(Volumes, name), threading.Event(), threading.Event()
    for volume_id in (old, new):
        volumes.status(user, volume_id, 'available')
    if name == 'swap_volume':
        assert volumes.attach(user, server_id, old).status_code == 200
        wait_for(lambda: half.open_actions() == [])

    def held(*args):
        entered.set()
        done.wait(60)
        slow(*args)
    monkeypatch.setattr(Volumes, name, held)
    if name == 'swap_volume':
        assert cloud.admin().put(f'/servers/{server_id}/os-volume_attachments/{old}', {
            'volumeAttachment': {'volumeId': new}}).status_code == 202
    else:
        assert volumes.attach(user, server_id, new).status_code == 200
    assert entered.wait(30)
    half.overdue(started_at=sa.func.datetime('now', '-30 days'))
    assert half.conductor().reconciler.reconcile() == 1 and half.open_actions() == [name]
    assert volumes.show(user, new)['status'] in ('attaching', 'in-use')
    done.set()
    wait_for(lambda: half.open_actions() == [])
    assert volumes.guest_volumes(cloud, server_id).keys() == {new}
    assert {each['volumeId'] for each in volumes.attachments(user, server_id)} == {new}
    volumes.status(user, new, 'in-use')
    volumes.status(user, old, 'available')


def test_a_deleted_server_gives_back_what_was_under_way(cloud):
    user, server_id, made = prepare(cloud)
    interrupt(Half(cloud), server_id, made)
    volumes.gone(user, server_id)
    assert {volumes.show(user, volume_id)['status'] for volume_id in made} == {'available'}
    assert Half(cloud).open_actions() == []


class Away:
    """Lets methods of a conductor's block storage give no answer, so many times altogether."""

    def __init__(self, conductor, monkeypatch, times):
        self._storage, self._monkeypatch, self.times = conductor.services.volumes, monkeypatch, times

    def refuse(self, name):
        method = getattr(self._storage, name)

        def call(*args, **kwargs):
            if self.times:
                self.times -= 1
                raise exception.Unavailable()
            return method(*args, **kwargs)
        self._monkeypatch.setattr(self._storage, name, call)


def test_a_deletion_waits_for_the_block_storage(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)
    away = Away(Half(cloud).conductor(), monkeypatch, 2)
    away.refuse('detach')
    volumes.gone(user, server_id)
    assert away.times == 0
    assert {volumes.show(user, volume_id)['status'] for volume_id in made} == {'available'}


def test_server_is_deleted_if_the_block_storage_refuses_to_release_a_volume(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    conductor = half.conductor()
    detach = conductor.services.volumes.detach
    with half.db.reader() as conn:
        refused = next(row['attachment_id'] for row in block_devices.by_instance(conn, server_id)
                       if row['volume_id'] == made[2])
    half.volumes.attach(half.system, made[0], server_id)                 # as an interrupted swap leaves it
    half.db.run(disk_keys.insert_of_volume, server_id, made[2], 'k', 'encrypted')

    def refuse(ctx, attachment_id):
        if attachment_id == refused:
            raise exception.InvalidVolume(reason='its attachment is in use')
        detach(ctx, attachment_id)
    monkeypatch.setattr(conductor.services.volumes, 'detach', refuse)
    volumes.gone(user, server_id)
    assert half.volumes.attachments_of(half.system, server_id) == [refused]
    assert {volumes.show(user, each)['status'] for each in made if each != made[2]} == {'available'}
    with half.db.reader() as conn:
        assert disk_keys.of_volume(conn, server_id, made[2]) is None


def test_server_is_offloaded_if_the_block_storage_refuses_to_disconnect_a_volume(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    storage = half.conductor().services.volumes
    renew = storage.renew

    def refuse(ctx, volume_id, instance_uuid, attachment_id):
        if volume_id == made[2]:
            raise exception.VolumeNotFound(volume_id=volume_id)
        return renew(ctx, volume_id, instance_uuid, attachment_id)
    monkeypatch.setattr(storage, 'renew', refuse)
    assert user.post(f'/servers/{server_id}/action', {'shelve': None}).status_code == 202
    user.wait_for(server_id, 'SHELVED_OFFLOADED')
    with half.db.reader() as conn:
        assert {row['volume_id'] for row in block_devices.by_instance(conn, server_id)
                if row['connection_info'] is not None} == {made[2]}
    assert user.post(f'/servers/{server_id}/action', {'unshelve': None}).status_code == 202
    user.wait_for(server_id)
    assert volumes.guest_volumes(cloud, server_id).keys() == set(made[2:5])


def test_guest_volume_changes_are_recorded_when_the_block_storage_returns(cloud, monkeypatch):
    """The guest lets go of a volume, has got another, or is to get one: until then nobody can say what became of it."""
    user, server_id, made = prepare(cloud)
    half = Half(cloud)
    conductor = half.conductor()
    monkeypatch.setattr(retrying_client, 'RELAYED_RETRY_TIME_S', 0)
    away = Away(conductor, monkeypatch, 1000)
    away.refuse('detach')
    path = f'/servers/{server_id}/os-volume_attachments/'
    assert user.delete(path + made[2]).status_code == 202
    assert cloud.admin(version='2.60').put(path + made[3], {'volumeAttachment': {
        'volumeId': made[5]}}).status_code == 202
    wait_for(lambda: volumes.guest_volumes(cloud, server_id).keys() == {made[4], made[5]})
    away.refuse('connect')
    compute = next(service.manager for service in cloud.services if service.binary == 'nova-compute')
    ctx = context.admin_context(half.attach(server_id, made[0]))
    compute.methods.resume_background(ctx, objects.Instance.from_row(half.row(server_id)), 'attach_volume',
                    {'bdm_uuid': half.mapping(server_id, made[0])})
    wait_for(lambda: not compute.queue.in_progress())
    assert sorted(half.open_actions()) == ['attach_volume', 'detach_volume', 'swap_volume']
    away.times = 0
    half.overdue()
    assert conductor.reconciler.reconcile() == 3
    wait_for(lambda: half.open_actions() == [])
    attached = {made[0], made[4], made[5]}
    assert volumes.guest_volumes(cloud, server_id).keys() == attached
    assert {each['volumeId'] for each in volumes.attachments(user, server_id)} == attached
    for volume_id in made:
        assert volumes.show(user, volume_id)['status'] == ('in-use' if volume_id in attached else 'available')


def test_failed_detachment_is_rolled_back_when_the_block_storage_returns(cloud, monkeypatch):
    """The guest keeps its disk, and the block storage does not hear of it: the volume stays 'detaching' meanwhile."""
    user, server_id, made = prepare(cloud)
    half, volume_id = Half(cloud), made[2]
    monkeypatch.setattr(retrying_client, 'RELAYED_RETRY_TIME_S', 0)
    away = Away(half.conductor(), monkeypatch, 1000)
    away.refuse('roll_detaching')
    compute = next(service.manager for service in cloud.services if service.binary == 'nova-compute')
    compute.driver.failures['detach_volume'] = exception.VirtError(operation='unplug', reason='the guest keeps it')
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    wait_for(lambda: away.times < 1000 and not compute.queue.in_progress())
    assert half.open_actions() == ['detach_volume'] and volumes.show(user, volume_id)['status'] == 'detaching'
    away.times = 0
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    wait_for(lambda: half.open_actions() == [])
    assert volumes.show(user, volume_id)['status'] == 'in-use'
    compute.driver.failures.clear()
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    volumes.status(user, volume_id, 'available')


def test_failed_attachment_is_rolled_back_when_the_block_storage_returns(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)
    half, volume_id = Half(cloud), made[0]
    monkeypatch.setattr(retrying_client, 'RELAYED_RETRY_TIME_S', 0)
    away = Away(half.conductor(), monkeypatch, 1000)
    away.refuse('detach')
    compute = next(service.manager for service in cloud.services if service.binary == 'nova-compute')
    compute.driver.failures['attach_volume'] = exception.VirtError(operation='plug', reason='no slot is free')
    assert volumes.attach(user, server_id, volume_id).status_code == 200
    wait_for(lambda: away.times < 1000 and not compute.queue.in_progress())
    assert half.open_actions() == ['attach_volume'] and half.mapping(server_id, volume_id)
    away.times = 0
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    wait_for(lambda: half.open_actions() == [])
    volumes.status(user, volume_id, 'available')
    assert volume_id not in {each['volumeId'] for each in volumes.attachments(user, server_id)}


def test_a_server_that_was_never_stored_holds_no_volume(cloud):
    """The API ended between the reservation of a volume and the rows of the server that was to have it."""
    user, half, server_id = cloud.client(), Half(cloud), str(uuid.uuid4())
    volume_id = volumes.volume(user)
    half.volumes.attach(half.system, volume_id, server_id)
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.instance_mappings).values(
            instance_uuid=server_id, cell_uuid=cloud.cells.default.uuid, project_id=user.project_id, user_id='u',
            vcpus=1, memory_mb=1, created_at=utils.utcnow()))
    assert half.conductor().lost_mappings.remove_lost_mappings(0) == 1
    assert volumes.show(user, volume_id)['status'] == 'available'


@pytest.mark.parametrize('age_s, code', [(mappings.LOST_AFTER_S - 1, 202), (mappings.LOST_AFTER_S + 1, 503)])
def test_conductor_removes_only_servers_whose_request_is_late(cloud, monkeypatch, age_s, code):
    """The block storage answers slowly, and a conductor looks for lost mappings before and after the answer."""
    user, half, table = cloud.client(version='2.60'), Half(cloud), tables_api.instance_mappings
    image, volume_id, lost_mappings = user.upload_image(), volumes.volume(user), half.conductor().lost_mappings
    volumes.status(user, volume_id, 'available')
    attach, insert, removed = EmbeddedVolumes.attach, create._insert, []
    with half.db.writer() as conn:                    # the cell is older than the server
        conn.execute(sa.update(tables_cell.services).values(created_at=utils.utcnow() - datetime.timedelta(hours=1)))

    def slow(*arguments):
        attachment_id = attach(*arguments)
        with cloud.api_db.writer() as conn:
            conn.execute(sa.update(table).values(created_at=utils.utcnow() - datetime.timedelta(seconds=age_s)))
        removed.append(lost_mappings.remove_lost_mappings())
        return attachment_id

    def insert_later(*arguments):
        removed.append(lost_mappings.remove_lost_mappings(1))
        return insert(*arguments)
    monkeypatch.setattr(create, 'RENEW_AFTER_S', 0)
    monkeypatch.setattr(create, '_insert', insert_later)
    monkeypatch.setattr(EmbeddedVolumes, 'attach', slow)
    answer = user.post('/servers', {'server': {
        'name': 'slow', 'flavorRef': '42', 'imageRef': image, 'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'image', 'uuid': image, 'boot_index': 0, 'destination_type': 'local'},
            {'source_type': 'volume', 'uuid': volume_id, 'boot_index': -1, 'destination_type': 'volume'}]}})
    assert answer.status_code == code, answer.text
    with cloud.api_db.reader() as conn:
        mapped = conn.execute(sa.select(table.c.instance_uuid)).scalars().all()
    if code == 202:
        assert removed == [0, 0] and mapped == [answer.json()['server']['id']]
        assert user.wait_for(mapped[0])['status'] == 'ACTIVE'
    else:
        assert removed == [1] and mapped == [] and user.get('/servers').json()['servers'] == []
        assert volumes.show(user, volume_id)['status'] == 'available'


@pytest.mark.parametrize('detach_fails', [False, True])
def test_volume_whose_reservation_is_not_answered_is_released_with_the_lost_mapping(cloud, monkeypatch, detach_fails):
    user, half = cloud.client(version='2.60'), Half(cloud)
    image, made = user.upload_image(), [volumes.volume(user) for _ in range(2)]
    for volume_id in made:
        volumes.status(user, volume_id, 'available')
    attach = EmbeddedVolumes.attach

    def no_answer(storage, ctx, volume_id, server_id):
        attachment_id = attach(storage, ctx, volume_id, server_id)
        if volume_id == made[1]:
            raise exception.ServiceUnavailable(service='Block Storage')
        return attachment_id

    def away(*_arguments):
        raise exception.ServiceUnavailable(service='Block Storage')
    with monkeypatch.context() as broken:
        broken.setattr(EmbeddedVolumes, 'attach', no_answer)
        if detach_fails:
            broken.setattr(EmbeddedVolumes, 'detach', away)
        answer = user.post('/servers', {'server': {
            'name': 'vm', 'flavorRef': '42', 'imageRef': image, 'networks': 'none', 'block_device_mapping_v2': [
                {'source_type': 'image', 'uuid': image, 'boot_index': 0, 'destination_type': 'local'},
                *({'source_type': 'volume', 'uuid': each, 'boot_index': -1, 'destination_type': 'volume'}
                  for each in made)]}})
        assert answer.status_code == 503, answer.text
        lost_mappings = half.conductor().lost_mappings
        assert lost_mappings.remove_lost_mappings(0) == 1
    assert volumes.show(user, made[1])['status'] == ('reserved' if detach_fails else 'available')
    assert lost_mappings.remove_lost_mappings(0) == 0                    # tries again what failed
    assert {volumes.show(user, each)['status'] for each in made} == {'available'}
    assert user.get('/limits').json()['limits']['absolute']['totalInstancesUsed'] == 0


def test_a_detachment_that_was_done_before_a_crash_is_recorded_as_done(cloud):
    """The mapping had gone, and only the record was missing: repeated, it was recorded as a failure."""
    user, server_id, made = prepare(cloud)
    half, volume_id = Half(cloud), made[2]
    bdm = half.mapping(server_id, volume_id)
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    wait_for(lambda: half.open_actions() == [])
    half.open(server_id, 'detach_volume', bdm_uuid=bdm)
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    wait_for(lambda: half.open_actions() == [])
    newest = user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions'][0]
    assert (newest['action'], newest['message']) == ('detach_volume', None)
    assert volumes.show(user, volume_id)['status'] == 'available'


def test_a_swap_that_was_recorded_before_a_crash_renames_the_volume_of_the_guest(cloud, monkeypatch):
    user, server_id, made = prepare(cloud)
    half, old, new = Half(cloud), made[3], made[5]
    monkeypatch.setattr(half.conductor().services.volumes, 'complete_migration', lambda ctx, volume_id, *_: volume_id)
    half.swap(server_id, old, new)
    half.overdue()
    with monkeypatch.context() as crash:                       # the host ends after the record, before the new name
        crash.setattr(Volumes, 'rename_volume', lambda *_: None)
        assert half.conductor().reconciler.reconcile() == 1
        wait_for(lambda: half.open_actions() == [])
    assert volumes.guest_volumes(cloud, server_id).keys() == {made[2], new, made[4]}
    with half.db.reader() as conn:
        recorded = next(row for row in block_devices.by_instance(conn, server_id) if row['volume_id'] == old)
    half.open(server_id, 'swap_volume', bdm_uuid=recorded['uuid'], new_volume_id=new,
              new_attachment_id=recorded['attachment_id'])
    half.overdue()
    assert half.conductor().reconciler.reconcile() == 1
    wait_for(lambda: half.open_actions() == [])
    assert volumes.guest_volumes(cloud, server_id).keys() == {made[2], old, made[4]}
    assert user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions'][0]['message'] is None
