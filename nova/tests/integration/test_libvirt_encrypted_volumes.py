"""A real guest on encrypted volumes of the embedded block storage: it boots from one, and writes to another; the same
needs as test_libvirt.py."""
import os
import pathlib
import subprocess
import tempfile
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.db import engine
from nova.db.tables import volume as tables
from nova.image.embedded import service as image_store
from nova.image.embedded.images import EmbeddedImages
from nova.tests.support import waiting
from nova.tests.support import encrypted_volumes as test_encrypted_volumes
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_encryption as test_libvirt_encryption
from nova.tests.support import libvirt_volumes as test_libvirt_volumes
from nova.virt import driver as contract
from nova.volume import embedded

pytestmark = base.pytestmark
state_path, module_rig, rig = base.state_path, base.module_rig, base.rig
ALICE = context.RequestContext(user_id='u', project_id='alice', roles=['member'], overwrite=False)
SNAPSHOT = '5d1cf0e5-3c0e-4d11-9f4b-7f1f9c5a4a01'
LUKS, MARK = test_libvirt_encryption.LUKS, test_libvirt_encryption.MARK


@pytest.fixture
def store(state_path):
    db = engine.Database(f'sqlite:///{state_path}/volumes.sqlite')
    tables.volumes.metadata.create_all(db.engine)
    images = EmbeddedImages(image_store.Store(db, str(state_path / 'images-of-volumes')))
    conf = nova_conf.new(files=[], host='a-host', state_path=str(state_path), libvirt__sandbox_qemu_img=False,
                         image__free_disk_reserve=0)
    made = embedded.EmbeddedVolumes(conf, db, images)
    kind = made.types.create('sealed', None, {})
    made.types.set_encryption(kind['id'], {'provider': 'luks'}, new=True)
    yield made
    made.stop(5)


def ready(store, volume_id):
    waiting.wait_for(lambda: store.get(ALICE, volume_id)['status'] == 'available', 120, 'the volume')
    return volume_id


def attached(store, rig, instance, volume_id, name, **values):
    """The device of a volume for the driver."""
    attachment = store.attach(ALICE, volume_id, instance.uuid)
    info = store.connect(ALICE, attachment, rig.driver.features[contract.Volumes].volume_connector(), name)
    store.complete(ALICE, attachment)
    assert info['data']['encrypted'] is True and info['driver_volume_type'] == 'local'
    return {'uuid': str(uuid.uuid4()), 'volume_id': volume_id, 'destination_type': 'volume', 'source_type': 'volume',
            'device_name': name, 'volume_size': 1, 'boot_index': None, 'connection_info': info,
            'attachment_id': attachment, **values}


def test_a_guest_boots_from_an_encrypted_volume_and_a_copy_of_another_reads_the_same(rig, store, state_path, caplog):
    """What it writes is encrypted in both, and there after a power cycle, for which libvirt gets the keys again; what
    would copy it in the clear is refused; when a volume goes, libvirt forgets its key."""
    image = store.images.create(ALICE, {'name': 'guest', 'properties': {}})
    store.images.upload(ALICE, image['id'], str(base.GUEST / 'guest.qcow2'), 'qcow2')
    root = ready(store, store.create(ALICE, 1, image_id=image['id'], volume_type='sealed')['id'])
    data = ready(store, store.create(ALICE, 1, volume_type='sealed')['id'])
    made, asked = base.make_instance(root_gb=0), []
    rig.driver.use_keys(None, lambda *which: asked.append(which) or store.passphrase(ALICE, which[1]))
    devices = [attached(store, rig, made, root, '/dev/vda', boot_index=0),
               attached(store, rig, made, data, '/dev/vdb')]
    try:
        base.spawn(rig, made, image=None, block_devices=devices,
                   config_drive={'openstack/latest/meta_data.json': b'{}'})
        rig.booted(made)
        test_libvirt_volumes.run(rig, made, f'echo {MARK} >/root/file; sync')
        test_libvirt_volumes.write(rig, made, '/dev/vdb', MARK)
        said = test_libvirt_encryption.everything_said(rig, made)
        for volume_id in (root, data):
            assert _begins(store.files.volume(volume_id)) and not _has_mark(store.files.volume(volume_id))
            key = store.passphrase(ALICE, volume_id)
            assert key.encode() not in said and key not in caplog.text
            assert volume_id in test_libvirt_encryption.libvirt_secrets() and (made.uuid, volume_id) in asked
        refuse_what_would_copy_it(rig, made, devices[1], state_path)
        subprocess.run(['virsh', '-q', 'secret-undefine', data], check=True)
        rig.booted_again(made, lambda: rig.driver.reboot(None, made, [], True))
        assert MARK in test_libvirt_volumes.run(rig, made, 'cat /root/file')
        # the same after a suspension, which a lost key made one without a resumption
        rig.driver.features[contract.Suspend].suspend(made)
        subprocess.run(['virsh', '-q', 'secret-undefine', data], check=True)
        rig.driver.features[contract.Suspend].resume(None, made, [])
        assert MARK in test_libvirt_volumes.read(rig, made, '/dev/vdb', len(MARK))
        snapshot_in_use(rig, store, made, data)
        rig.driver.features[contract.Volumes].detach_volume(None, made, devices[1])
        store.detach(ALICE, devices[1]['attachment_id'])
        assert data not in test_libvirt_encryption.libvirt_secrets()
        snapshot = store.create_snapshot(ALICE, data, 'of one that nobody has')['id']
        waiting.wait_for(lambda: store.get_snapshot(ALICE, snapshot)['status'] == 'available', 60, 'the snapshot')
        clone = ready(store, store.create(ALICE, None, snapshot_id=snapshot)['id'])
        assert store.get(ALICE, clone)['encrypted'] and not _has_mark(store.files.volume(clone))
        device = attached(store, rig, made, clone, '/dev/vdb')
        for _attempt in range(2):                        # repeated after a crash
            rig.driver.features[contract.Volumes].attach_volume(None, made, device)
        base.wait_for(lambda: clone[:20] in test_libvirt_volumes.run(rig, made, 'cat /sys/block/vdb/serial'), 60,
                      'the disk')
        assert MARK in test_libvirt_volumes.read(rig, made, '/dev/vdb', len(MARK))
    finally:
        rig.driver.destroy(None, made, [])
    assert not rig.leftovers(made.uuid)


def block_of(number):
    """Where the guest writes a number: all over the disk, so that a copy from its beginning to its end passes by most
    of what is written meanwhile."""
    return 1000 + number * 7919 % 200000


class Writer:
    """A guest that writes the numbers from 1 on to /dev/vdb, each when the one before is on the disk."""

    def __init__(self, rig, instance):
        self._run = lambda line: test_libvirt_volumes.run(rig, instance, line)
        self._run('echo 0 >/tmp/written; (i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); printf %08d $i | dd bs=4096 '
                  'of=/dev/vdb seek=$((1000 + i * 7919 % 200000)) conv=fsync 2>/dev/null && echo $i >/tmp/written.new '
                  '&& mv /tmp/written.new /tmp/written; done; touch /tmp/stopped) & :')

    def written(self):
        return int(self._run('cat /tmp/written').split()[-1])

    def stop(self):
        self._run('touch /tmp/stop; while [ ! -e /tmp/stopped ]; do sleep 1; done; rm /tmp/stop /tmp/stopped')


def last_number(path, key, most):
    """The last number in an encrypted file, which has all that were written before, and none of those after."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as directory:
        secret, plain = f'{directory}/key', f'{directory}/plain'
        pathlib.Path(secret).write_text(key)
        subprocess.run(['qemu-img', 'convert', '-O', 'raw', '--object', f'secret,id=key,file={secret}', '--image-opts',
                        f'driver=luks,key-secret=key,file.filename={path}', plain], check=True)
        with open(plain, 'rb') as file:
            there = [os.pread(file.fileno(), 8, block_of(number) * 4096) == b'%08d' % number
                     for number in range(1, most + 1)]
    found = there.index(False)
    assert not any(there[found:]), (found, [number + 1 for number, each in enumerate(there) if each][-9:])
    return found


def snapshot_in_use(rig, store, instance, volume_id):
    """The guest's QEMU copies a volume into an encrypted file, as it was when it began, on every file system: a guest
    that writes meanwhile finds all in it that was on the disk at one moment, and nothing that came later."""
    key, path = store.passphrase(ALICE, volume_id), store.files.snapshot(SNAPSHOT)
    for running in (True, False):
        part = store.files.prepare_copy(path, 1 << 30, store.files.volume(volume_id), key)
        if running:
            writer = Writer(rig, instance)
            base.wait_for(lambda: writer.written() > 5, 60, 'the guest to write')
            before = writer.written()
        else:
            rig.driver.power_off(instance)
        rig.driver.features[contract.VolumeCopies].copy_volume(None, instance, volume_id, {
            'type': 'copy', 'new_file': part, 'encrypted': True})
        if running:
            copied = writer.written()
            writer.stop()
        store.files.finish_copy(path, 1 << 30, None, encrypted=True)
        assert _begins(path) and not _has_mark(path) and not os.path.exists(part)
        test_encrypted_volumes.io(path, key, f'read -P {ord(MARK[0])} 0 1')
        if running:
            found = last_number(path, key, copied + 1000)
            print(f'written before {before}, in the copy {found}, written at its end {copied}')
            assert before <= found < copied
        os.unlink(path)
    rig.booted_again(instance, lambda: rig.driver.power_on(None, instance, []))


def refuse_what_would_copy_it(rig, instance, device, state_path):
    other = test_libvirt_volumes.Volume(state_path)
    with pytest.raises(exception.VirtError, match='would copy its data without'):
        rig.driver.features[contract.Volumes].swap_volume(None, instance, device, other.device)
    with pytest.raises(exception.VirtError, match='would copy its data without'):
        rig.driver.features[contract.VolumeCopies].copy_volume(None, instance, device['volume_id'],
                                                               {'type': 'copy', 'new_file': '/nowhere'})
    with pytest.raises(exception.VirtError, match='after a stop and a start'):
        rig.driver.features[contract.ExtendVolume].extend_volume(None, instance, device)
    other.path.unlink()


def _begins(path):
    with open(path, 'rb') as file:
        return file.read(6) == LUKS


def _has_mark(path):
    """Whether a file has what the guest wrote; looked for where it has data alone."""
    with open(path, 'rb') as file:
        end = 0
        while True:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                return False
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            if MARK.encode() in os.pread(file.fileno(), end - begin, begin):
                return True
