"""Disks in a real Ceph without guests: what a build, a resize, a revert and a delete leave in the pool."""
import contextlib
import json
import os
import shutil
import subprocess
import uuid

import pytest

from nova import exception
from nova.disk_files import qemu_img
from nova.tests import ceph as cephs
from nova.tests import long_runs
from nova.tests.contract import driver_contract
from nova.tests.support.waiting import wait_for
from nova.virt import driver
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import resize_backups
from nova.virt.libvirt.features import resize
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import pool
from nova.virt.libvirt.local_disks import rbd
from nova.virt.libvirt.moves import transferred_record
from nova.virt.libvirt.moves import fencing
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.domain import volume_disks as volumes

ceph = cephs.ceph
pytestmark = pytest.mark.skipif(shutil.which('qemu-img') is None, reason='qemu-img is not installed')
GIB = 1 << 30
IMAGES = {'first': 'qcow2', 'second': 'raw'}
CONTENT = b'of the image'
YOUNG_S = 3600           # so long an image is kept that nobody uses: longer than any of these tests


class Images:
    def show(self, _context, image_id):
        return {'id': image_id, 'disk_format': IMAGES[image_id], 'properties': {}}

    def download(self, _context, image_id, path, _moved=None):
        with open(f'{path}.raw', 'wb') as file:
            file.write(CONTENT)
            file.truncate(16 << 20)
        subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', IMAGES[image_id], f'{path}.raw', path], check=True)
        os.unlink(f'{path}.raw')


def make(ceph, directory, host='one', pool_name=None):
    tool = qemu_img.QemuImg(60)
    place = rbd.Rbd(pool.Pool(pool_name or ceph.pool, str(ceph.conf), ceph.user, 60), tool, host, None, 'writeback',
                    YOUNG_S)
    made = storage.Storage(str(directory), Images(), tool, disks=place, host=host)
    made.prepare()
    tool.prepare(str(directory))
    return made


@pytest.fixture
def store(ceph, tmp_path):
    made = make(ceph, tmp_path / 'instances')
    yield made
    for name in sorted(ceph.images()):               # disks first: images are below them
        if not name.startswith(rbd.IMAGE):
            made.backends.pool._pool.remove(name)
    made.backends.pool._max_age = -1
    made.remove_unused_images()
    assert ceph.images() == []


def build(store, image='first', **flavor):
    instance = driver_contract.make_instance(uuid=str(uuid.uuid4()))
    instance.flavor = flavor
    disks, _files = new_disks.create(store, None, instance, driver.SpawnRequest(
        image=Images().show(None, image), network_info=[]))
    guest = xml.Guest.of({'uuid': instance.uuid, 'name': 'a', 'owner': store.directory, 'virt_type': 'qemu', 'vcpus': 1,
                          'memory_mb': 64, 'console_log': store.path(instance.uuid, 'log'), 'disks': disks})
    store.save(guest)
    return instance


def disks(ceph, instance):
    return sorted(name.partition('_')[2] for name in ceph.images()
                  if name.startswith(instance.uuid) and not name.endswith(rbd.RECORD))


def begin(ceph, image):
    """As many bytes of an image as CONTENT has."""
    with subprocess.Popen(['rbd', '-c', ceph.conf, '-n', f'client.{ceph.user}', 'export', '--no-progress',
                           f'{ceph.pool}/{image}', '-'], stdout=subprocess.PIPE) as export:
        found = export.stdout.read(len(CONTENT))
        export.kill()
    return found


@pytest.mark.parametrize('image', long_runs.rest(IMAGES))
def test_an_image_comes_into_the_pool_once(ceph, store, image):
    first, second = build(store, image), build(store, image)
    assert len(ceph.rbd('children', f'image_{image}@base').split()) == 2
    assert 'protected: True' in ceph.rbd('info', f'image_{image}@base')
    for each in (first, second):
        assert json.loads(ceph.rbd('info', '--format', 'json', f'{each.uuid}_disk'))['size'] == GIB
        assert begin(ceph, f'{each.uuid}_disk') == CONTENT
        store.remove(each.uuid)
    assert ceph.images() == [f'image_{image}']
    store.remove_unused_images()                     # it is young
    assert ceph.images() == [f'image_{image}']


def test_an_image_with_clones_stays_however_old_it_is(ceph, store):
    build(store)
    store.backends.pool._max_age = -1
    store.remove_unused_images()
    assert 'image_first' in ceph.images()


@long_runs.only
def test_a_host_takes_away_the_parts_of_its_own_imports_alone(ceph, store, tmp_path):
    for host in ('one', 'two'):                      # both ended just before the rename
        ceph.rbd('create', '--size', '1M', f'image_x.{host}.part')
        ceph.rbd('snap', 'create', '--no-progress', f'image_x.{host}.part@base')
        ceph.rbd('snap', 'protect', f'image_x.{host}.part@base')
    make(ceph, tmp_path / 'instances')
    assert ceph.images() == ['image_x.two.part']
    store.backends.pool._max_age = -1
    store.remove_unused_images()                     # a host that never comes back
    assert ceph.images() == []


@pytest.mark.parametrize('revert', long_runs.rest([True, False]))
def test_a_resize_puts_aside_what_a_revert_takes_back(ceph, store, revert):
    """Also when an attempt is made twice; a swap that the flavor does not have any more goes when it is confirmed."""
    instance = build(store, swap=8)
    os.rename(store.path(instance.uuid), store.backup_path(instance.uuid))
    store.remove(instance.uuid)
    assert disks(ceph, instance) == ['disk', 'disk.swap']
    instance.root_gb, instance.ephemeral_gb, instance.flavor = 2, 1, {}
    for _attempt in range(2):
        store.remove(instance.uuid)
        guest = store.load_backup(instance.uuid)
        guest.disks, _files = resize._copies(store, instance, guest)
        store.save(guest)
        assert store.backends.of(guest.disks[0]).size(guest.disks[0]) == 2 * GIB
    if revert:
        store.remove(instance.uuid)
        resize_backups.restore(store, instance.uuid)
        os.rename(store.backup_path(instance.uuid), store.path(instance.uuid))
        store.backends.release(store.load(instance.uuid))
        assert disks(ceph, instance) == ['disk', 'disk.swap']
    else:
        resize_backups.forget(store, instance.uuid)
        assert disks(ceph, instance) == ['disk', 'disk.ephemeral0']
    root = store.load(instance.uuid).disks[0]
    assert store.backends.of(root).size(root) == (GIB if revert else 2 * GIB)
    assert ceph.rbd('snap', 'ls', f'{instance.uuid}_disk') == ''


@long_runs.only
def test_stale_snapshot_of_an_earlier_resize_is_replaced(ceph, store):
    instance = build(store)
    guest = store.load(instance.uuid)
    store.backends.of(guest.disks[0]).renew(guest.disks[0], '')
    store.backends.of(guest.disks[0]).grow(guest.disks[0], 2 * GIB)
    store.backends.release(guest)                             # as send_guest does
    store.backends.of(guest.disks[0]).renew(guest.disks[0], '')
    assert store.backends.of(guest.disks[0]).size(guest.disks[0]) == 2 * GIB


@long_runs.only
def test_a_server_that_is_deleted_while_it_is_put_aside_leaves_nothing(ceph, store):
    instance = build(store, swap=8)
    os.rename(store.path(instance.uuid), store.backup_path(instance.uuid))
    resize_backups.forget(store, instance.uuid)
    store.remove(instance.uuid)
    assert disks(ceph, instance) == []


def test_a_build_that_did_not_end_leaves_nothing(ceph, store):
    instance = build(store)
    os.unlink(store.path(instance.uuid, records.RECORD))
    store.remove(instance.uuid)
    assert disks(ceph, instance) == []


@long_runs.only
def test_a_host_without_the_record_neither_takes_nor_removes(ceph, store, tmp_path):
    instance = build(store)
    store.backends.pool._pool.remove(instance.uuid + rbd.RECORD)         # as an older release has made it
    other = make(ceph, tmp_path / 'other', 'two')
    for attempt in (lambda: other.check_reach(instance.uuid), lambda: new_disks.create(other,
            None, instance, driver.SpawnRequest(image=Images().show(None, 'first'), network_info=[]))):
        with pytest.raises(exception.VirtError, match='share the directory of the guests'):
            attempt()
    other.remove(instance.uuid)
    assert disks(ceph, instance) == ['disk']


def said(store, instance):
    """What the pool says: (host, before, successor)."""
    note = store.owners.read(instance.uuid)
    return note and (note.host, note.previous_host, note.successor)


@long_runs.only
def test_a_host_takes_a_guest_of_a_dead_one_over_by_what_the_pool_says(ceph, store, tmp_path):
    instance, other = build(store, swap=8), make(ceph, tmp_path / 'other', 'two')
    guest = store.load(instance.uuid)
    guest.boot.kernel = store.path(instance.uuid, 'kernel')
    guest.volumes = [volumes.Volume('v', 'vdc', 'virtio', {'type': 'file', 'path': '/v', 'secret': 'known-to-one'})]
    store.save(guest)
    text = ceph.rbd('image-meta', 'get', f'{instance.uuid}_record', 'nova')
    assert 'known-to-one' not in text and store.directory not in text
    with pytest.raises(exception.VirtError, match='its kernel is a file'):
        shared_storage.take_from_pool(other, instance.uuid, 'one', 'qemu')
    guest.boot.kernel = None
    store.save(guest)
    shared_storage.take_from_pool(other, instance.uuid, 'three', 'qemu')      # the pool does not say that it was there
    assert other.load(instance.uuid) is None
    ceph.rbd('create', '--size', '1M', f'{instance.uuid}_disk.rescue')
    shared_storage.take_from_pool(other, instance.uuid, 'one', 'qemu')
    found = other.load(instance.uuid)
    assert shared_storage.was_taken_over(found, 'one', 'two') and disks(ceph, instance) == ['disk', 'disk.swap']
    assert [disk.file for disk in found.disks] == [other.path(instance.uuid, name) for name in ('disk', 'disk.swap')]
    assert said(other, instance) == ('one', None, None)            # a crash here, and it is done again
    other.save(found)
    assert said(other, instance) == ('two', 'one', None) and store.has_lost(instance.uuid)
    store.remove(instance.uuid)                                  # the first, when it comes back
    assert not store.exists(instance.uuid) and disks(ceph, instance) == ['disk', 'disk.swap']
    other.remove(instance.uuid)
    assert [name for name in ceph.images() if name.startswith(instance.uuid)] == []


class Qemu:
    """QEMU's own block layer with an image open, as a guest's QEMU has it, in a process that does what it is told."""

    PROMPT = 'qemu-io> '

    def __init__(self, ceph, image, log):
        self._log = log
        with open(log, 'w') as said:
            self._process = subprocess.Popen(
                ['stdbuf', '-oL', 'qemu-io', '-f', 'raw', f'rbd:{image}:id={ceph.user}:conf={ceph.conf}'],
                stdin=subprocess.PIPE, stdout=said, stderr=said, text=True)

    def tell(self, command):
        """What it says of a command."""
        before = len(self._said())
        self._process.stdin.write(command + '\n')
        self._process.stdin.flush()
        return self._said(before)

    def _said(self, before=0):
        """All that it has said, when it waits for the next command."""
        wait_for(lambda: self._log.read_text()[before:].endswith(self.PROMPT), 60, 'an answer of qemu-io')
        return self._log.read_text()[before:]

    def end(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def qemu(ceph, tmp_path):
    """Opens an image; all are ended."""
    with contextlib.ExitStack() as stack:
        def start(image):
            made = Qemu(ceph, image, tmp_path / f'qemu-{uuid.uuid4()}')
            stack.callback(made.end)
            return made
        yield start


WRITE, READ = 'write -P {} 0 4k', 'read -P {} 0 4k'


@pytest.mark.parametrize('shared', [False, pytest.param(True, marks=long_runs.only)])
def test_a_qemu_that_still_runs_on_a_dead_host_writes_nothing_more(ceph, store, tmp_path, qemu, shared):
    """Ceph let both of them write in turn: each got the lock when it asked for it."""
    instance, untouched = build(store), build(store)
    other = make(ceph, store.directory if shared else tmp_path / 'other', 'two')
    volume = f'{ceph.pool}/{instance.uuid}-volume'
    ceph.rbd('create', '--size', '1M', volume.partition('/')[2])
    image = f'{ceph.pool}/{instance.uuid}_disk'
    disk, data, neighbour = qemu(image), qemu(volume), qemu(f'{ceph.pool}/{untouched.uuid}_disk')
    for each in (disk, data, neighbour):
        assert 'wrote' in each.tell(WRITE.format(1)) and 'failed' not in each.tell('flush')
    access = other.backends.pool._pool
    images = {each: sorted(access.watchers(each)) for each in (image, volume)}

    def fence(clients, *devices, accepts=False):
        return fencing.fence(other, access, instance.uuid, driver.FormerHost('one', False, [
            {'destination_type': 'volume', 'volume_id': name, 'connection_info': {
                'driver_volume_type': kind, 'data': data}} for name, kind, data in devices], clients, accepts))
    mine = 'v', 'rbd', {'name': volume}
    for clients, devices, reason in (
            (None, [mine], 'no record of the Ceph'), ({image: None}, [mine], 'no record of the Ceph'),
            ({image: images[image]}, [mine], 'no record of the Ceph'),
            (images, [mine, ('w', 'rbd', {'name': 'nothing/here'})], 'No such file'),
            (images, [mine, ('x', 'local', {})], 'volumes of kind local cannot be fenced')):
        with pytest.raises(exception.NotFenced, match=reason):
            fence(clients, *devices)
        assert 'wrote' in disk.tell(WRITE.format(1))     # nothing was shut out
    assert fence(images, mine)
    shared_storage.take_from_pool(other, instance.uuid, 'one', 'qemu')
    assert shared_storage.was_taken_over(other.load(instance.uuid), 'one', 'two')
    for old, name in ((disk, image), (data, volume)):
        assert 'write failed: ' in old.tell(WRITE.format(2))
        new = qemu(name)
        assert 'verification failed' not in new.tell(READ.format(1)) and 'wrote' in new.tell(WRITE.format(3))
        assert 'write failed: ' in old.tell(WRITE.format(2))
        assert 'verification failed' not in new.tell(READ.format(3))
        new.end()
    assert 'wrote' in neighbour.tell(WRITE.format(2))                # a guest that nobody has taken over
    for each in (disk, data, neighbour):
        each.end()
    ceph.rbd('rm', '--no-progress', volume.partition('/')[2])


def test_an_operator_may_let_a_server_start_that_nobody_has_shut_out(ceph, store, tmp_path):
    instance = build(store)
    other = make(ceph, tmp_path / 'other', 'two')
    former = driver.FormerHost('one', False, [], None, True)
    assert fencing.fence(other, other.backends.pool._pool, instance.uuid, former) is False


@pytest.mark.parametrize(('mon', 'osd', 'missing'), [
    ('profile rbd', 'profile rbd pool=vms', []), ('allow r', 'profile rbd pool=vms', ['cannot block clients']),
    ('profile rbd', 'profile rbd pool=other', ['cannot read'])])
def test_rights_that_a_fence_needs_are_tested(ceph, store, mon, osd, missing):
    instance, user = build(store), f'user-{uuid.uuid4().hex[:8]}'
    subprocess.run(['ceph', '-c', ceph.conf, 'auth', 'get-or-create', f'client.{user}', 'mon', mon, 'osd', osd, '-o',
                    ceph.directory / f'ceph.client.{user}.keyring'], check=True)
    tried = pool.Pool(ceph.pool, str(ceph.conf), user, 60)
    found = fencing.missing_rights(tried, {f'{ceph.pool}/{instance.uuid}_disk'})
    assert len(found) == len(missing) and all(each in found[number] for number, each in enumerate(missing)), found


@long_runs.only
def test_disks_that_are_lent_to_a_guest_on_its_way_are_not_removed(ceph, store, tmp_path):
    instance, other = build(store), make(ceph, tmp_path / 'other', 'two')
    store.owners.promise(instance.uuid, 'two')
    assert said(store, instance) == ('one', None, 'two')
    sent = transferred_record.packed(store.load(instance.uuid))
    arrived = transferred_record.unpacked(sent, instance.uuid, other, 'qemu', [])
    os.mkdir(other.path(instance.uuid))
    owners.mark_in_migration(other.path(instance.uuid), True)
    other.save(arrived)
    assert said(store, instance) == ('one', None, 'two')
    other.remove(instance.uuid)                                  # a rollback
    store.remove(instance.uuid)                                  # it runs at the other host for all that is known here
    assert disks(ceph, instance) == ['disk']
    os.mkdir(other.path(instance.uuid))
    arrived.ownership.host = None
    other.save(arrived)
    assert said(other, instance) == ('two', 'one', None)
    other.remove(instance.uuid)
    assert disks(ceph, instance) == []


@pytest.mark.parametrize('end', long_runs.rest(['revert', 'confirm', 'delete']))
def test_resize_to_another_host_of_the_pool_moves_the_disks(ceph, store, tmp_path, end):
    instance, other = build(store, swap=8), make(ceph, tmp_path / 'other', 'two')
    uuid = instance.uuid
    os.rename(store.path(uuid), store.backup_path(uuid))
    sent = transferred_record.packed(store.load_backup(uuid), store.backup_path(uuid))
    moved = transferred_record.unpacked(sent, uuid, other, 'qemu', [])
    os.mkdir(other.path(uuid))
    owners.mark_in_migration(other.path(uuid), True)
    root = moved.disks.pop(0)
    other.backends.of(root).renew(root, root.file)
    other.backends.of(root).grow(root, 2 * GIB)
    more = new_disks.blanks(other, uuid, {'disk.ephemeral0': GIB}, [root])
    moved.disks = [root, *more]
    owners.mark_in_migration(other.path(uuid), False)
    other.save(moved)
    assert said(other, instance) == ('two', 'one', None)
    assert disks(ceph, instance) == ['disk', 'disk.ephemeral0', 'disk.swap']
    with pytest.raises(exception.VirtError, match='another host still owns them'):
        resize_backups.restore(store, uuid)
    resize_backups.forget(other, uuid)                                      # there is nothing
    if end == 'revert':
        other.owners.give_back(uuid)
        other.remove(uuid)
        resize_backups.restore(store, uuid)
        os.rename(store.backup_path(uuid), store.path(uuid))
        store.backends.release(store.load(uuid))
        store.save(store.load(uuid))
        assert said(store, instance) == ('one', None, None) and disks(ceph, instance) == ['disk', 'disk.swap']
        root = store.load(uuid).disks[0]
        assert store.backends.of(root).size(root) == GIB and ceph.rbd('snap', 'ls', f'{uuid}_disk') == ''
        return store.remove(uuid)
    if end == 'delete':
        other.remove(uuid)
        assert disks(ceph, instance) == []
    resize_backups.forget(store, uuid)
    assert not os.path.exists(store.backup_path(uuid))
    if end == 'confirm':
        assert disks(ceph, instance) == ['disk', 'disk.ephemeral0'] and ceph.rbd('snap', 'ls', f'{uuid}_disk') == ''
        other.remove(uuid)
    assert [name for name in ceph.images() if name.startswith(uuid)] == []


@long_runs.only
def test_resize_backup_of_another_host_is_kept(ceph, store):
    """A host that comes back after an evacuation, while a resize of the server from the next one is to be decided."""
    instance, other = build(store, swap=8), make(ceph, store.directory, 'two')
    other.save(store.load(instance.uuid))                        # they share the directory; the second has it now
    os.rename(store.path(instance.uuid), store.backup_path(instance.uuid))
    resize_backups.forget(store, instance.uuid)
    assert other.load_backup(instance.uuid) is not None and disks(ceph, instance) == ['disk', 'disk.swap']
    resize_backups.forget(other, instance.uuid)
    assert other.load_backup(instance.uuid) is None and disks(ceph, instance) == []


def test_room_is_that_of_the_pool(ceph, store):
    def known():
        with contextlib.suppress(pool.Failed):
            return store.backends.unused_bytes(), store.backends.total_bytes()
    # Ceph's manager tells of a new pool a moment after it was made, and of what was written a moment later
    unused, total = wait_for(known, 120, 'the manager to know the pool')
    assert 0 < unused < total + GIB // 16 and total <= 2 * GIB
    with pytest.raises(exception.VirtError, match='Operation not permitted|no pool|No such file'):
        make(ceph, store.directory, pool_name='other')


def test_a_disk_in_use_is_not_removed_and_the_sentence_says_so(ceph, store, monkeypatch):
    instance = build(store)
    monkeypatch.setattr(pool, 'REMOVE_TIMEOUT_S', 0)
    image = f'{ceph.pool}/{instance.uuid}_disk'
    ceph.rbd('snap', 'create', '--no-progress', f'{image}@by-an-operator')
    ceph.rbd('snap', 'protect', f'{image}@by-an-operator')
    with pytest.raises(exception.VirtError, match='remove a disk'):
        store.remove(instance.uuid)
    assert store.load(instance.uuid) is not None     # so that the deletion can be tried again
    ceph.rbd('snap', 'unprotect', f'{image}@by-an-operator')
    store.remove(instance.uuid)
    assert disks(ceph, instance) == []


def test_disk_can_be_copied_and_rescued(ceph, store):
    instance = build(store)
    root, path = store.load(instance.uuid).disks[0], store.path(instance.uuid, 'disk.out')
    store.backends.of(root).copy(root, path)
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', path, f'{path}.raw'], check=True)
    with open(f'{path}.raw', 'rb') as file:
        assert file.read(len(CONTENT)) == CONTENT
    assert not os.path.exists(store.path(instance.uuid, rbd.COPY))
    new_disks.image_disk(store, None, instance, Images().show(None, 'first'), 'vdb', 'virtio', 'disk.rescue')
    new_disks.config_drive(store, instance.uuid, {'a': b'b'}, 'vdc', 'virtio', 'disk.configrescue')
    assert disks(ceph, instance) == ['disk', 'disk.configrescue', 'disk.rescue']
    for name in ('disk.rescue', 'disk.configrescue', 'disk.rescue'):
        store.backends.remove(store.path(instance.uuid, name))
    assert disks(ceph, instance) == ['disk']


def test_a_copy_of_a_disk_in_use_is_of_one_moment_and_has_no_zeros(ceph, store, qemu):
    """QEMU's own copy of a clone of 1 GiB had 1,074,135,040 bytes. What a crash has left does not hinder it."""
    instance = build(store)
    root, path = store.load(instance.uuid).disks[0], store.path(instance.uuid, 'disk.out')
    guest, place = qemu(f'{ceph.pool}/{instance.uuid}_disk'), store.backends.of(root)
    assert 'wrote' in guest.tell(WRITE.format(1)) and 'wrote' in guest.tell('write -P 0 32M 64M')
    place.keep_moment(root)                          # and then its host crashes
    assert 'wrote' in guest.tell(WRITE.format(2)) and 'failed' not in guest.tell('flush')
    place.keep_moment(root)
    assert 'wrote' in guest.tell(WRITE.format(3)) and 'failed' not in guest.tell('flush')
    place.copy_moment(root, path)
    place.forget_moment(root)
    assert os.path.getsize(path) < 4 << 20
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', path, f'{path}.raw'], check=True)
    with open(f'{path}.raw', 'rb') as file:
        assert file.read(4096) == b'\2' * 4096
    assert 'wrote' in guest.tell(WRITE.format(4)) and ceph.rbd('snap', 'ls', f'{instance.uuid}_disk') == ''
    guest.end()


def test_a_host_that_shares_the_record_takes_the_disks_over(ceph, store):
    instance = build(store)
    other = make(ceph, store.directory, 'two')
    other.check_reach(instance.uuid)
    assert shared_storage.was_taken_over(other.load(instance.uuid), 'one', 'two')
    guest = other.load(instance.uuid)
    other.backends.refresh(guest)
    other.save(guest)
    assert not shared_storage.may_remove(store.load(instance.uuid), 'one')       # the first, when it comes back
    assert shared_storage.may_remove(other.load(instance.uuid), 'two')
    other.remove(instance.uuid)
    assert disks(ceph, instance) == []
