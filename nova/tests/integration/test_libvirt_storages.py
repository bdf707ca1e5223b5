"""Volumes by iSCSI and NFS in a whole cloud with real guests: they boot from them, share one, and one of them hangs.

The rows, files and faces are those of the embedded block storage. Its hosts reach a volume as the volume's type says:
by a tgtd of its own (``iscsi``), by nfs-ganesha (``nfs``), and as a file (all other types).
"""
import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import time
import types

import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support.volume_files import begin
from nova.tests.support.waiting import wait_for
from nova.volume.store import attach_backend
from nova.volume.store import attachments

if test_libvirt._REASON is not None:
    pytest.skip(test_libvirt._REASON, allow_module_level=True)

from nova.tests.support import libvirt_iscsi as iscsi
from nova.tests.support import libvirt_nfs as nfs
from nova.tests.support.libvirt_volumes import read
from nova.tests.support.libvirt_volumes import run as type_line
from nova.tests.support.libvirt_volumes import write

GIB = 2 ** 30
ISCSI, NFS, SHARED = 'iscsi', 'nfs', 'multiattach'
needs_iscsi = pytest.mark.skipif(iscsi.missing() is not None, reason=str(iscsi.missing()))
HELD_UP_S = 30               # so long an answer may take while an export is paused: emulated guests share two cores


class Storages(attach_backend.EmbeddedAttachBackend):
    """How hosts reach a volume, by its type."""

    def __init__(self, *args):
        super().__init__(*args)
        self.targets = {}                        # id of a volume: its iscsi.Target

    def open(self, row, attachment_id, connector):
        path = self._files.volume(row['id'])
        data = {'volume_id': row['id'], 'access_mode': 'rw', 'multiattach': bool(row['multiattach'])}
        if row['volume_type'] == ISCSI:
            if row['id'] not in self.targets:
                self.targets[row['id']] = iscsi.Target(pathlib.Path(path), f'{iscsi.IQN}-{row["id"]}')
                self.targets[row['id']].start()
            info = iscsi.connection(self.targets[row['id']])
        elif row['volume_type'] == NFS:
            os.chmod(path, 0o666)                # as Cinder makes them, unless it is told to be strict
            os.chmod(os.path.dirname(path), 0o711)
            info = nfs.connection(path)
        else:
            return super().open(row, attachment_id, connector)
        return {**info, 'data': {**data, **info['data']}}


class Cloud(cloud_fixture.Cloud):
    def _compose(self):
        super()._compose()
        self.storages = Storages(self.conf, self.api_db, self.volumes.files)
        self.volumes.attachments = attachments.Attachments(self.api_db, self.storages)


@pytest.fixture(scope='module')
def cloud():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-storages-', dir='/var/tmp'))
    directory.chmod(0o711)                       # QEMU's user passes through
    made = None
    try:
        with cloud_fixture.running(directory, kind=Cloud, compute_driver='libvirt', libvirt__virt_type='qemu') as made:
            admin = made.admin()
            for name in (ISCSI, NFS):
                answer = admin.post(f'/volume/v3/{admin.project_id}/types', {'volume_type': {'name': name}})
                assert answer.status_code == 200, answer.text
            yield made
    finally:
        for target in made.storages.targets.values() if made else ():
            target.signal(signal.SIGCONT)
            target.kill()
        iscsi.forget_secrets()
        shutil.rmtree(directory)


class User:
    """What a user does, each within the time that anybody waits for it."""

    def __init__(self, cloud):
        self.client = cloud.client(version='2.90')
        self.image = self.client.upload_image((test_libvirt.GUEST / 'guest.qcow2').read_bytes(), 'guest',
                                              disk_format='qcow2')
        self.volumes = f'/volume/v3/{self.client.project_id}/volumes'

    def boot(self, kind=None):
        """A server of the image, on a volume of a type or on a local disk."""
        if kind is None:
            made = self.client.boot(self.image, networks='none')
        else:
            made = self.client.boot('', networks='none', block_device_mapping_v2=[{
                'boot_index': 0, 'source_type': 'image', 'uuid': self.image, 'destination_type': 'volume',
                'volume_size': 1, 'volume_type': kind, 'delete_on_termination': True}])
        return types.SimpleNamespace(uuid=made['id'])

    def volume(self, kind):
        answer = self.client.post(self.volumes, {'volume': {'size': 1, 'volume_type': kind}})
        assert answer.status_code == 202, answer.text
        volume_id = answer.json()['volume']['id']
        self.becomes(volume_id, 'available')
        return volume_id

    def becomes(self, volume_id, status):
        wait_for(lambda: self.client.get(f'{self.volumes}/{volume_id}').json()['volume']['status'] == status,
                 HELD_UP_S, f'{volume_id} to be {status}')

    def attach(self, guest, volume_id):
        answer = self.client.post(f'/servers/{guest.uuid}/os-volume_attachments', {'volumeAttachment': {
            'volumeId': volume_id}})
        assert answer.status_code == 200, answer.text
        self.becomes(volume_id, 'in-use')
        return answer.json()['volumeAttachment']['device']

    def detach(self, guest, volume_id, then='available'):
        answer = self.client.delete(f'/servers/{guest.uuid}/os-volume_attachments/{volume_id}')
        assert answer.status_code == 202, answer.text
        wait_for(lambda: volume_id not in self.attached(guest), HELD_UP_S, 'the volume to go')
        self.becomes(volume_id, then)

    def attached(self, guest):
        found = self.client.get(f'/servers/{guest.uuid}/os-volume_attachments').json()['volumeAttachments']
        return [each['volumeId'] for each in found]

    def act(self, guest, name, values=None, status='ACTIVE'):
        answer = self.client.post(f'/servers/{guest.uuid}/action', {name: values})
        assert answer.status_code in (200, 202), answer.text
        self.client.wait_for(guest.uuid, status, timeout=HELD_UP_S)
        return answer

    def delete(self, guest):
        assert self.client.delete('/servers/' + guest.uuid).status_code == 204
        wait_for(lambda: self.client.get('/servers/' + guest.uuid).status_code == 404, HELD_UP_S, 'its end')


@pytest.fixture(scope='module')
def user(cloud):
    made = User(cloud)
    yield made
    for server in made.client.get('/servers').json()['servers']:
        made.delete(types.SimpleNamespace(uuid=server['id']))


class Guest(test_libvirt.Rig):
    """The rig's ways to a guest's console, for a guest of the cloud."""

    def __init__(self, cloud):
        self.driver, = (service.manager.driver for service in cloud.services if service.binary == 'nova-compute')

    def started(self, user, guest):
        user.client.wait_for(guest.uuid)
        self.booted(guest)

    def sees(self, guest, device):
        wait_for(lambda: os.path.basename(device) in type_line(self, guest, 'ls /sys/block'), 60, 'the disk to be seen')


@contextlib.contextmanager
def paused(target):
    target.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        target.signal(signal.SIGCONT)


@pytest.fixture(scope='module')
def guests(cloud, user):
    """One that boots from a target, and one with a local disk."""
    rig, made = Guest(cloud), (user.boot(ISCSI), user.boot())
    for each in made:
        rig.started(user, each)
    return made


@needs_iscsi
def test_a_target_that_hangs_holds_up_no_other_guest(cloud, user, guests):
    """Neither what another one of the host reads and writes by iSCSI nor what is asked of the API."""
    rig, (one, two) = Guest(cloud), guests
    files = cloud.state_path / 'volumes'
    root, = user.attached(one)
    assert cloud.storages.targets.keys() == {root}
    data = {each.uuid: user.volume(ISCSI) for each in guests}
    for each in guests:
        rig.sees(each, user.attach(each, data[each.uuid]))
        write(rig, each, '/dev/vdb', 'first')
        assert begin(files / data[each.uuid], 5) == b'first'
    another = user.volume(None)
    with paused(cloud.storages.targets[data[one.uuid]]), paused(cloud.storages.targets[root]):
        rig.type(one, 'echo while | dd of=/dev/vdb bs=4096 conv=fsync 2>/dev/null; sync; echo "do""ne"')
        begun = time.monotonic()
        write(rig, two, '/dev/vdb', 'other')
        assert begin(files / data[two.uuid], 5) == b'other' and 'other' in read(rig, two, '/dev/vdb', 5)
        rig.sees(two, user.attach(two, another))
        user.detach(two, another)
        user.act(two, 'pause', status='PAUSED')
        user.act(two, 'unpause')
        third = user.boot()
        user.client.wait_for(third.uuid, timeout=HELD_UP_S)
        user.delete(third)
        for each in guests:
            assert user.client.get(f'/servers/{each.uuid}').json()['server']['status'] == 'ACTIVE'
            assert user.act(each, 'os-getConsoleOutput', {}).json()['output']
        assert b'done' not in rig.console(one) and begin(files / data[one.uuid], 5) == b'first'
        assert time.monotonic() - begun < 4 * HELD_UP_S
    wait_for(lambda: b'done' in rig.console(one), 60, 'the write to end')
    assert begin(files / data[one.uuid], 5) == b'while'
    for each in guests:
        user.detach(each, data[each.uuid])
        assert 'vdb' not in type_line(rig, each, 'ls /sys/block')


@needs_iscsi
def test_a_guest_on_a_target_goes_on_when_that_was_killed(cloud, user, guests):
    """libiscsi logs in again: for the root disk, too."""
    rig, one = Guest(cloud), guests[0]
    root, = user.attached(one)
    cloud.storages.targets[root].kill()
    time.sleep(1)
    cloud.storages.targets[root].start()
    type_line(rig, one, 'echo kept >/root/file; sync; echo 3 >/proc/sys/vm/drop_caches')
    assert 'kept' in type_line(rig, one, 'cat /root/file')


@needs_iscsi
def test_two_guests_share_a_multiattach_volume(cloud, user, guests):
    """Each reads what the other has written, past its own cache; when one loses it, the other keeps it."""
    rig, (one, two) = Guest(cloud), guests
    shared = user.volume(SHARED)
    disk = {each.uuid: user.attach(each, shared) for each in guests}
    for number, (writer, reader) in enumerate([(one, two), (two, one)]):
        for each in guests:
            rig.sees(each, disk[each.uuid])
        put(rig, writer, disk[writer.uuid], f'from-{number}', number)
        assert f'from-{number}' in got(rig, reader, disk[reader.uuid], number)
    user.detach(one, shared, then='in-use')
    assert 'vdb' not in type_line(rig, one, 'ls /sys/block')
    put(rig, two, disk[two.uuid], 'alone', 0)
    assert 'alone' in got(rig, two, disk[two.uuid], 0) and 'from-1' in got(rig, two, disk[two.uuid], 1)
    assert begin(cloud.state_path / 'volumes' / shared, 5) == b'alone'
    user.detach(two, shared)


def put(rig, guest, disk, text, block):
    """Write a block past the guest's cache (O_DIRECT)."""
    said = type_line(rig, guest, f'(echo {text}; cat /dev/zero) | head -c 4096 >/tmp/block; '
                                 f'dd if=/tmp/block of={disk} bs=4096 count=1 seek={block} oflag=direct conv=notrunc')
    assert '1+0 records out' in said, said


def got(rig, guest, disk, block):
    return type_line(rig, guest, f'dd if={disk} bs=4096 count=1 skip={block} iflag=direct 2>/dev/null | head -c 16')


def test_a_guest_boots_from_a_server_of_files(cloud, user, tmp_path):
    """A volume over NFS is its root disk."""
    if reason := nfs.missing():
        pytest.skip(reason)
    rig, server = Guest(cloud), nfs.Server(tmp_path, cloud.state_path / 'volumes')
    try:
        guest = user.boot(NFS)
        rig.started(user, guest)
        type_line(rig, guest, 'echo kept >/root/file; sync; echo 3 >/proc/sys/vm/drop_caches')
        assert 'kept' in type_line(rig, guest, 'cat /root/file')
        user.delete(guest)
    finally:
        server.stop()
