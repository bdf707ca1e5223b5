"""Image cache, disks, config drive and console log: without libvirt, with the real qemu-img."""
import contextlib
import os
import shutil
import struct
import subprocess
import threading
import time

import pytest

from nova import exception
from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.image import inspector
from nova.runtime import disk_space
from nova.runtime import progress
from nova.tests.contract import driver_contract
from nova.tests.support import libvirt_storage
from nova.tests.support import waiting
from nova.tests.support.libvirt_storage import create
from nova.tests.support.libvirt_storage import needs_qemu_img
from nova.virt import driver
from nova.virt.libvirt.local_disks import configdrive
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.privileged import steps

images = libvirt_storage.images
store = libvirt_storage.store


MIB, GIB = 1024 ** 2, 1024 ** 3

pytestmark = needs_qemu_img


def qemu(*arguments):
    subprocess.run(['qemu-img', *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / 'raw'
    path.write_bytes(b'boot' * 1024)
    return path


@pytest.fixture
def qcow2(tmp_path):
    path = tmp_path / 'image.qcow2'
    qemu('create', '-f', 'qcow2', path, '8M')
    return path


def test_a_copy_of_a_disk_is_measured_with_what_is_below_it_and_without_compression(store, tmp_path):
    """By its file an image of 1 MB was let expand to 600 MB."""
    raw, base, disk, tool = tmp_path / 'raw', tmp_path / 'base', tmp_path / 'disk', qemu_img.QemuImg(60)
    tool.prepare(str(tmp_path))
    raw.write_bytes(b'x' * (6 << 20) + bytes(2 << 20))
    qemu('convert', '-c', '-f', 'raw', '-O', 'qcow2', raw, base)
    qemu('create', '-f', 'qcow2', '-b', base, '-F', 'qcow2', disk)
    for path in (base, disk):
        path.chmod(0o644)
    assert base.stat().st_size < 1 << 20
    for size in (tool.measure(str(base), 'qcow2'), tool.measure(str(disk), 'qcow2', str(base))):
        assert 6 << 20 <= size < 7 << 20


def test_an_image_without_room_is_not_downloaded(tmp_path, images, qcow2):
    reserve = disk_space.Reserve(1 << 60, str(tmp_path / 'ledger'))
    full = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60), reserve=reserve)
    full.prepare()
    with pytest.raises(exception.InsufficientStorage):
        create(full, images.add('one', qcow2, 'qcow2'))


# ---- the image cache ------------------------------------------------------------------

def test_image_is_downloaded_once_by_parallel_requests(store, images, raw):
    image, images.slow = images.add('one', raw, 'raw'), 0.2
    found = []
    threads = [threading.Thread(target=lambda: found.append(store.cache.fetch(None, image))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert images.downloads == 1 and len(set(found)) == 1 and len(found) == 5


def test_download_and_conversion_progress_is_reported(store, images, raw, monkeypatch):
    image, seen = {**images.add('one', raw, 'raw'), 'size': 4096}, []
    request = driver.SpawnRequest(image=image, network_info=[], report=seen.append)
    new_disks.create(store, None, driver_contract.make_instance(), request)
    assert seen == [new_disks.FETCHED // 2]
    monkeypatch.setattr(progress, 'POLL_INTERVAL_S', 0.1)
    with progress.watched(str(raw), [str(raw), str(raw)], seen.append):      # a tool that says nothing
        waiting.wait_for(lambda: seen[1:], 20, 'a report')
    assert set(seen[1:]) == {50}
    stopped = threading.Event()

    def stop(percent):
        stopped.set()
        raise exception.InstanceChanged(instance_id=str(percent))
    with pytest.raises(exception.InstanceChanged, match='50'), progress.watched(str(raw), [str(raw), str(raw)], stop):
        assert stopped.wait(20)


def test_progress_is_at_most_100_percent():
    """A converted file can be larger than its compressed source."""
    seen = []
    report = progress.of_bytes(seen.append, 100)
    report(50)
    report(300)
    assert seen == [50, 100]


def test_a_part_of_work_that_has_no_report_has_none():
    """Files are watched by a thread: none was to start for work that nothing follows."""
    part = progress.part(progress.ignore, 0, 50)
    assert part is progress.ignore and progress.of_bytes(part, 4096) is progress.ignore
    assert progress.of_bytes([].append, None) is progress.ignore


def refused(store, images, path, declared):
    image = images.add('bad', path, declared)
    with pytest.raises(exception.ImageUnacceptable) as caught:
        store.cache.fetch(None, image)
    left = [name for name in os.listdir(os.path.join(store.directory, '_base')) if not name.endswith('.lock')]
    assert left == []
    return caught.value.kwargs['reason']


def test_backing_file_is_refused(store, images, tmp_path):
    """Class A."""
    secret = tmp_path / 'secret'
    secret.write_bytes(b's' * MIB)
    qemu('create', '-f', 'qcow2', '-b', secret, '-F', 'raw', tmp_path / 'bad')
    assert 'backing' in refused(store, images, tmp_path / 'bad', 'qcow2')


def test_data_file_is_refused(store, images, tmp_path):
    """Class A: CVE-2024-32498."""
    qemu('create', '-f', 'qcow2', '-o', f'data_file={tmp_path}/secret,data_file_raw=on', tmp_path / 'bad', '1M')
    assert 'data file' in refused(store, images, tmp_path / 'bad', 'qcow2')


def test_header_is_checked_before_any_tool_reads(images, tmp_path, qcow2):
    """The tool would open a data file that the header names."""
    class NoTool:
        def info(self, path, disk_format):
            raise AssertionError('qemu-img was asked')

    data = bytearray(qcow2.read_bytes())
    struct.pack_into('>Q', data, 72, struct.unpack_from('>Q', data, 72)[0] | image_cache.QCOW2_DATA_FILE)
    qcow2.write_bytes(data)
    cache = image_cache.ImageCache(str(tmp_path), images, NoTool(), None, 60)
    with pytest.raises(exception.ImageUnacceptable):
        cache.fetch(None, images.add('bad', qcow2, 'qcow2'))


@pytest.mark.parametrize('declared', ['raw', 'ami', 'aki'])
def test_qcow2_declared_as_something_else_is_refused(store, images, qcow2, declared):
    assert 'qcow2' in refused(store, images, qcow2, declared)


def test_raw_declared_as_qcow2_is_refused(store, images, raw):
    assert 'qcow2' in refused(store, images, raw, 'qcow2')


def test_encrypted_is_refused(store, images, qcow2):
    data = bytearray(qcow2.read_bytes())
    struct.pack_into('>I', data, 32, 2)
    qcow2.write_bytes(data)
    assert 'encrypted' in refused(store, images, qcow2, 'qcow2')


def test_truncated_header_is_refused(store, images, qcow2):
    qcow2.write_bytes(qcow2.read_bytes()[:80])
    assert refused(store, images, qcow2, 'qcow2')


@pytest.mark.parametrize('declared', ['ploop', None, '../raw'])
def test_unknown_format_is_refused(store, images, raw, declared):
    assert 'not supported' in refused(store, images, raw, declared)


# ---- formats that are converted

FOREIGN = {'vmdk': ('vmdk', 'subformat=streamOptimized'), 'vdi': ('vdi', None), 'vhdx': ('vhdx', None),
           'vhd': ('vpc', 'force_size=on')}


def inspect(path, declared):
    inspector.verify(inspector.inspect_file(path), declared)


def foreign(tmp_path, disk_format):
    """(raw file of 3 MiB, the same disk in a format)."""
    content, path = tmp_path / 'content', tmp_path / f'disk.{disk_format}'
    content.write_bytes(os.urandom(MIB) + bytes(MIB) + os.urandom(MIB))
    driver_name, option = FOREIGN[disk_format]
    qemu('convert', '-f', 'raw', '-O', driver_name, *(('-o', option) if option else ()), content, path)
    return content, path


@pytest.mark.parametrize('disk_format', FOREIGN)
def test_a_disk_of_another_program_is_converted_once(images, tmp_path, disk_format):
    content, path = foreign(tmp_path, disk_format)
    store = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60), inspect)
    store.prepare()
    image = images.add('one', path, disk_format)
    base = store.cache.fetch(None, image)
    assert (base.format, os.path.basename(base.path), base.virtual_size) == ('qcow2', 'one.qcow2', 3 * MIB)
    qemu('compare', '-f', 'raw', '-F', 'qcow2', content, base.path)
    assert store.cache.fetch(None, image) == base and images.downloads == 1
    assert [name for name in os.listdir(os.path.dirname(base.path)) if not name.endswith('.lock')] == ['one.qcow2']
    instance, (disks, _files) = create(store, image, root_gb=1)
    assert disks[0].backing_file == base.path and disks[0].backing_format == 'qcow2'


@pytest.mark.parametrize('disk_format', FOREIGN)
def test_a_disk_of_another_program_must_be_what_it_is_declared_to_be(images, tmp_path, disk_format):
    _content, path = foreign(tmp_path, disk_format)
    store = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60), inspect)
    store.prepare()
    for declared in {'raw', *FOREIGN} - {disk_format}:
        assert disk_format in refused(store, images, path, declared)
    assert refused(store, images, path, 'qcow2') == 'its disk format is qcow2, but its data is not'


def test_a_disk_of_another_program_is_bounded_before_it_is_converted(images, tmp_path):
    class Counting(qemu_img.QemuImg):
        converted = 0

        def convert(self, *args, **more):
            Counting.converted += 1
    qemu('create', '-f', 'vdi', tmp_path / 'large', '3G')
    store = storage.Storage(str(tmp_path / 'instances'), images, Counting(60), inspect)
    store.prepare()
    with pytest.raises(exception.ImageUnacceptable) as caught:
        create(store, images.add('one', tmp_path / 'large', 'vdi'), root_gb=2)
    assert 'virtual size of 3221225472 bytes is over the limit of 2147483648 bytes' in caught.value.message
    assert not Counting.converted


def test_a_conversion_takes_no_longer_than_it_may(images, tmp_path):
    class Slow(qemu_img.QemuImg):
        def convert(self, *args, **more):
            raise exception.VirtError(operation='copy a disk', reason='it took more than 60 seconds')
    _content, path = foreign(tmp_path, 'vmdk')
    store = storage.Storage(str(tmp_path / 'instances'), images, Slow(60), inspect)
    store.prepare()
    assert refused(store, images, path, 'vmdk') == 'it cannot be converted from vmdk to qcow2'


def test_the_signature_of_a_converted_image_is_that_of_what_was_downloaded(images, tmp_path):
    _content, path = foreign(tmp_path, 'vhdx')
    verified = []
    cache = image_cache.ImageCache(str(tmp_path), images, qemu_img.QemuImg(60), inspect, 60,
                                  lambda context, image, checked: verified.append(
                                      open(checked, 'rb').read() == path.read_bytes()))
    for _time in range(2):
        cache.fetch(None, images.add('one', path, 'vhdx', img_signature='s'))
    assert verified == [True, True] and images.downloads == 2


# ---- CD-ROM

def iso(tmp_path):
    path = tmp_path / 'medium.iso'
    configdrive.write(str(path), {'file': b'content'})
    return path


@pytest.mark.parametrize(('properties', 'bus', 'target'), [
    ({}, 'ide', 'hdb'), ({'hw_machine_type': 'q35'}, 'sata', 'sdb'), ({'hw_cdrom_bus': 'scsi'}, 'scsi', 'sdb'),
    ({'hw_cdrom_bus': 'usb'}, 'usb', 'sdb'), ({'hw_architecture': 'arm64'}, 'scsi', 'sdb'),
    ({'os_secure_boot': 'optional', 'hw_firmware_type': 'uefi'}, 'sata', 'sdb')])
def test_a_server_of_an_iso_image_has_a_blank_root_disk_and_its_medium(images, tmp_path, properties, bus, target):
    store = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60), inspect)
    store.prepare()
    _instance, (disks, _files) = create(
        store, images.add('medium', iso(tmp_path), 'iso', **properties), root_gb=2, image_properties=properties,
        traits={'COMPUTE_SECURITY_UEFI_SECURE_BOOT'})
    root, medium = disks
    assert (root.device, root.bus, root.target, os.path.getsize(root.file)) == ('disk', 'virtio', 'vda', 2 * GIB)
    assert os.path.basename(root.file) == 'disk' and disk_space.used_bytes(root.file) == 0
    assert (medium.device, medium.bus, medium.target) == ('cdrom', bus, target)
    assert os.path.basename(medium.file) == 'disk.cdrom' and medium.keeps_size and not root.keeps_size


def test_a_server_of_an_iso_image_whose_flavor_has_no_disk_has_the_medium_alone(images, tmp_path):
    store = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60), inspect)
    store.prepare()
    _instance, (disks, _files) = create(store, images.add('medium', iso(tmp_path), 'iso'), root_gb=0)
    assert [disk.device for disk in disks] == ['cdrom']


@pytest.mark.parametrize('image_id', ['../../etc/passwd', '/etc/passwd', 'a/b', '', '.', 'a\0b', 'x' * 100])
def test_image_id_is_no_path(store, image_id):
    """Class D."""
    with pytest.raises(exception.ImageUnacceptable):
        store.cache.fetch(None, {'id': image_id, 'disk_format': 'raw'})


def test_injected_inspection_refuses(tmp_path, images, raw):
    def inspect(path, declared):
        raise exception.ImageUnacceptable(image_id='x', reason=f'{declared}: no')

    store = storage.Storage(str(tmp_path / 'i'), images, qemu_img.QemuImg(60), inspect)
    store.prepare()
    assert refused(store, images, raw, 'raw') == 'raw: no'


def test_a_download_that_crashed_is_begun_again(store, images, raw):
    image = images.add('one', raw, 'raw')
    part = os.path.join(store.directory, '_base', 'one.raw.part')
    with open(part, 'w') as file:
        file.write('half')
    assert store.cache.fetch(None, image).virtual_size == 4096
    assert not os.path.exists(part)


def test_unused_images_go_and_used_ones_stay(store, images, qcow2, raw):
    used, unused = images.add('used', qcow2, 'qcow2'), images.add('unused', raw, 'raw')
    instance, (disks, _files) = create(store, used)
    from nova.tests.support import libvirt_xml as test_libvirt_xml
    store.save(test_libvirt_xml.guest(uuid=instance.uuid, disks=disks))
    paths = {name: store.cache.fetch(None, image).path for name, image in (('used', used), ('unused', unused))}
    store.remove_unused_images()
    assert all(os.path.exists(path) for path in paths.values()), 'young'
    for path in paths.values():
        os.utime(path, (1, 1))
    store.remove_unused_images()
    assert os.path.exists(paths['used']) and not os.path.exists(paths['unused'])
    store.remove(instance.uuid)
    store.remove_unused_images()
    assert not os.path.exists(paths['used'])


NEWER = b'{"version": 3, "readable_by": 3, "anything": 1}'


@pytest.mark.parametrize('content', [b'', b'{"uuid": "', b'\xff' * 64, b'[]', b'{"disks": 5}', NEWER, None],
                         ids=['empty', 'torn', 'garbage', 'list', 'values', 'newer', 'huge'])
@pytest.mark.parametrize('put_aside', [False, True])
def test_a_record_that_cannot_be_read_affects_its_own_guest_only(store, images, qcow2, raw, caplog, content, put_aside):
    image = images.add('used', qcow2, 'qcow2')
    good, (disks, _files) = create(store, image)
    from nova.tests.support import libvirt_xml as test_libvirt_xml
    store.save(test_libvirt_xml.guest(uuid=good.uuid, disks=disks))
    bad = 'ffffffff-3c5f-4d55-9c53-3f3a4b1f2a01'
    directory = store.backup_path(bad) if put_aside else store.path(bad)
    os.makedirs(os.path.join(directory, 'snapshot-running'))
    unused = store.cache.fetch(None, images.add('of-the-bad-one', raw, 'raw')).path
    os.utime(unused, (1, 1))
    path = os.path.join(directory, 'guest.json')
    with open(path, 'wb') as file:
        file.write(content or b'')
        if content is None:
            file.truncate(1 << 40)
    for _time in range(2):
        store.prepare()
        store.remove_unused_images()
        store.check_free()
        assert [guest.uuid for guest in store.records()] == [guest.uuid for guest in store.guests()] == [good.uuid]
        assert store.free_bytes() and list(store.backups()) == []
    assert os.path.exists(unused), 'the record may use it'
    assert put_aside or os.path.exists(os.path.join(directory, 'snapshot-running')), 'it may be another host\'s'
    logged = [each.getMessage() for each in caplog.records if each.levelname == 'ERROR']
    assert len(logged) == 1 and path in logged[0] and logged[0].startswith('The hypervisor could not read'), (
        logged)
    with pytest.raises(exception.VirtError, match='record of a guest .* cannot be read'):
        (store.load_backup if put_aside else store.load)(bad)
    create(store, image)                 # other guests are made
    shutil.rmtree(directory)
    store.remove_unused_images()
    assert not os.path.exists(unused)


def test_a_cached_image_is_ours_and_read_only(store, images, raw, qcow2):
    paths = [store.cache.fetch(None, images.add(name, source, kind)).path
             for name, source, kind in (('one', raw, 'raw'), ('two', qcow2, 'qcow2'))]
    if os.geteuid() == 0:                # as libvirt left it for an earlier release
        os.chown(paths[1], 65534, 65534)
    os.chmod(paths[1], 0o660)
    store.prepare()
    store.cache.fetch(None, {'id': 'one', 'disk_format': 'raw'})
    for path in paths:
        status = os.stat(path)
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o444, os.geteuid(), os.getegid()), path
    store.prepare()
    assert images.downloads == 2


# ---- disks ------------------------------------------------------------------------------

def test_root_is_an_overlay_with_explicit_format(store, images, raw):
    instance, (disks, files_) = create(store, images.add('one', raw, 'raw'), root_gb=2)
    info = qemu_img.QemuImg(60).info(disks[0].file, 'qcow2')
    assert info['virtual-size'] == 2 * GIB
    assert info['backing-filename-format'] == 'raw' and disks[0].backing_format == 'raw'
    assert files_ == {}


def test_root_gb_0_is_the_size_of_the_image(store, images, qcow2):
    _instance, (disks, _files) = create(store, images.add('one', qcow2, 'qcow2'), root_gb=0)
    assert qemu_img.QemuImg(60).info(disks[0].file, 'qcow2')['virtual-size'] == 8 * MIB


def test_raw_root_is_a_copy_of_its_own(tmp_path, images, qcow2):
    tool, path = qemu_img.QemuImg(60), str(tmp_path / 'i')
    store = storage.Storage(path, images, tool, disks=local_files.Raw(path, tool))
    store.prepare()
    _instance, (disks, _files) = create(store, images.add('one', qcow2, 'qcow2'))
    assert disks[0].format == 'raw' and disks[0].backing_file is None
    assert os.path.getsize(disks[0].file) == GIB


@pytest.mark.parametrize('root_gb', [1, 0])
def test_virtual_size_bomb_is_refused(store, images, tmp_path, root_gb):
    """Class C: a few hundred KiB that claim to be 63 TiB."""
    qemu('create', '-f', 'qcow2', '-o', 'cluster_size=2M', tmp_path / 'bomb', '63T')
    with pytest.raises(exception.ImageUnacceptable):
        create(store, images.add('bomb', tmp_path / 'bomb', 'qcow2'), root_gb=root_gb)


def test_format_written_by_a_guest_is_not_believed(store, images, raw, tmp_path):
    """Class B: a raw disk that carries a qcow2 header is copied as raw, with the header in it."""
    secret = tmp_path / 'secret'
    secret.write_bytes(b'secret' * 100000)
    qemu('create', '-f', 'qcow2', '-b', secret, '-F', 'raw', tmp_path / 'header')
    header = (tmp_path / 'header').read_bytes()
    target = tmp_path / 'copy'
    qemu_img.QemuImg(60).convert(tmp_path / 'header', 'raw', target, 'raw')
    assert target.read_bytes()[:len(header)] == header and b'secret' * 100 not in target.read_bytes()


def test_ephemeral_swap_and_config_drive_are_created(store, images, raw):
    _instance, (disks, _files) = create(
        store, images.add('one', raw, 'raw', hw_disk_bus='scsi'), ephemeral_gb=1, flavor={'swap': 16},
        config_drive={'openstack/latest/meta_data.json': b'{}'})
    assert [disk.target for disk in disks] == ['sda', 'sdb', 'sdc', 'sdd']
    assert [os.path.basename(disk.file) for disk in disks] == [
        'disk', 'disk.ephemeral0', 'disk.swap', 'disk.config']
    assert [disk.readonly for disk in disks] == [False, False, False, True]
    assert os.path.getsize(disks[1].file) == GIB and os.path.getsize(disks[2].file) == 16 * MIB
    with open(disks[2].file, 'rb') as file:
        assert b'SWAPSPACE2' in file.read(4096)


def test_requested_ephemeral_disks_are_created(store, images, raw):
    rows = [{'source_type': 'blank', 'destination_type': 'local', 'volume_size': 1, 'guest_format': None}] * 2
    _instance, (disks, _files) = create(store, images.add('one', raw, 'raw'), ephemeral_gb=2, block_devices=rows)
    assert [os.path.getsize(disk.file) for disk in disks[1:]] == [GIB, GIB]


def test_each_local_disk_has_the_bus_and_the_format_that_it_was_asked_with(store, images, raw):
    """All of them were ext4 on the image's bus."""
    rows = [{'source_type': 'image', 'destination_type': 'local', 'boot_index': 0, 'device_type': 'cdrom'},
            *({'source_type': 'blank', 'destination_type': 'local', 'volume_size': 1, 'guest_format': form,
               'disk_bus': bus} for form, bus in (('xfs', 'scsi'), ('vfat', None), (None, 'sata'))),
            {'source_type': 'blank', 'destination_type': 'local', 'volume_size': 8, 'guest_format': 'swap'}]
    _instance, (disks, _files) = create(store, images.add('one', raw, 'raw'), root_gb=2, ephemeral_gb=3,
                                        flavor={'swap': 16}, block_devices=rows)
    assert [(disk.device, disk.bus, disk.target) for disk in disks] == [
        ('cdrom', 'ide', 'hda'), ('disk', 'scsi', 'sdb'), ('disk', 'virtio', 'vdc'), ('disk', 'sata', 'sdd'),
        ('disk', 'virtio', 'vde')]
    kinds = [subprocess.run(['blkid', '-p', '-o', 'value', '-s', 'TYPE', disk.file], capture_output=True,
                            text=True).stdout.strip() for disk in disks[1:]]
    assert kinds == ['xfs', 'vfat', 'ext4', 'swap'] and os.path.getsize(disks[4].file) == 8 * MIB
    before = store.backends.of(disks[0]).size(disks[0])
    store.backends.of(disks[0]).grow(disks[0], 4 * GIB)
    assert store.backends.of(disks[0]).size(disks[0]) == before == raw.stat().st_size


def test_unsupported_disk_format_is_refused(store, images, raw, monkeypatch):
    rows = [{'source_type': 'blank', 'destination_type': 'local', 'volume_size': 1, 'guest_format': 'vfat'}]
    monkeypatch.setitem(new_disks.MAKE, 'vfat', ['mkfs.of-no-host'])
    with pytest.raises(exception.BuildFailed, match='cannot make a disk of the format vfat: it has no mkfs.of-no-host'):
        create(store, images.add('one', raw, 'raw'), ephemeral_gb=1, block_devices=rows)


def test_kernel_and_ramdisk_are_copied_into_the_guest_directory(store, images, raw):
    images.add('k', raw, 'aki')
    images.add('r', raw, 'ari')
    instance, (_disks, found) = create(store, images.add('one', raw, 'ami'), kernel_id='k', ramdisk_id='r')
    assert found == {name: store.path(instance.uuid, name) for name in ('kernel', 'ramdisk')}


def test_kernel_is_limited_and_its_holes_take_no_space(store, images, raw):
    images.add('k', raw, 'aki')
    cached = store.cache.path_of('k.raw')
    with open(cached, 'wb') as file:
        file.truncate(64 * MIB)
    instance, (_disks, found) = create(store, images.add('one', raw, 'ami'), kernel_id='k')
    copied = os.stat(found['kernel'])
    assert copied.st_size == 64 * MIB and copied.st_blocks * 512 < MIB
    os.chmod(cached, 0o644)
    os.truncate(cached, GIB + 1)
    with pytest.raises(exception.ImageUnacceptable, match='over the limit'):
        create(store, images.add('one', raw, 'ami'), kernel_id='k')


def test_an_image_does_not_say_which_kernel(store, images, raw):
    """What the row names was looked up as the user who made the server; an image may be changed since."""
    images.add('k', raw, 'aki')
    _instance, (_disks, found) = create(store, images.add('one', raw, 'ami', kernel_id='k', ramdisk_id='k'))
    assert found == {}


def test_guest_with_more_than_four_ide_disks_is_refused(store, images, raw):
    rows = [{'source_type': 'blank', 'destination_type': 'local', 'volume_size': 1}] * 4
    with pytest.raises(exception.VirtError, match='on the bus ide are in use'):
        create(store, images.add('one', raw, 'raw', hw_disk_bus='ide'), block_devices=rows)


def test_unknown_bus_is_refused(store, images, raw):
    with pytest.raises(exception.ImageUnacceptable):
        create(store, images.add('one', raw, 'raw', hw_disk_bus='floppy'))


@pytest.mark.parametrize('uuid', ['../x', '', 'abc', '/etc', '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50/..',
                                  '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50\n'])
def test_only_a_uuid_is_a_guest(store, uuid):
    """Class D: a name that leads elsewhere would be removed with its directory."""
    with pytest.raises(exception.VirtError):
        store.remove(uuid)


def test_removal_does_not_follow_links(store, images, raw, tmp_path):
    instance, _made = create(store, images.add('one', raw, 'raw'))
    (tmp_path / 'precious').mkdir()
    (tmp_path / 'precious' / 'file').write_text('x')
    os.symlink(tmp_path / 'precious', store.path(instance.uuid, 'link'))
    store.remove(instance.uuid)
    assert (tmp_path / 'precious' / 'file').exists() and not store.exists(instance.uuid)


def test_prepare_leaves_no_lock_without_an_image(store, images, raw):
    """Each download that a crash ended left a lock file for ever, one for the parts of the download's own."""
    base = os.path.join(store.directory, '_base')
    store.cache.fetch(None, images.add('one', raw, 'raw'))
    for name in ('two.raw.part', 'two.raw.lock', 'three.raw.part.ab12.part', 'three.raw.lock'):
        open(os.path.join(base, name), 'w').close()
    store.prepare()
    assert sorted(os.listdir(base)) == ['one.raw', 'one.raw.lock']


def test_prepare_removes_what_a_crash_left(store, images, raw):
    instance, _made = create(store, images.add('one', raw, 'raw'))
    with pytest.raises(KeyError), store.snapshot_path(instance.uuid) as path:
        directory = os.path.dirname(path)
        assert os.stat(directory).st_mode & 0o777 == 0o711
        raise KeyError
    assert not os.path.exists(directory)
    os.mkdir(store.path(instance.uuid, 'snapshot-old'))
    open(os.path.join(store.directory, '_base', 'x.raw.part'), 'w').close()
    store.prepare()
    assert not os.path.exists(store.path(instance.uuid, 'snapshot-old'))
    assert 'x.raw.part' not in os.listdir(os.path.join(store.directory, '_base'))
    assert os.path.exists(store.path(instance.uuid, 'disk'))


def test_qemu_img_is_stopped_at_its_timeout(tmp_path, monkeypatch):
    """Class C."""
    tool = tmp_path / 'qemu-img'
    tool.write_text('#!/bin/sh\nexec sleep 120\n')
    tool.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    began = time.monotonic()
    with pytest.raises(exception.VirtError):
        qemu_img.QemuImg(0.3).create(str(tmp_path / 'x'), 'raw', 1)
    assert time.monotonic() - began < 60


def test_qemu_img_cannot_take_all_memory(tmp_path, monkeypatch):
    """Class C."""
    tool = tmp_path / 'qemu-img'
    tool.write_text('#!/bin/sh\nulimit -v >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    with pytest.raises(exception.VirtError) as caught:
        qemu_img.QemuImg(60).create(str(tmp_path / 'x'), 'raw', 1)
    assert caught.value.kwargs['reason'] == str(qemu_img.MEMORY // 1024)


def test_errors_of_qemu_img_name_no_directory(tmp_path):
    with pytest.raises(exception.VirtError) as caught:
        qemu_img.QemuImg(60).info(str(tmp_path / 'absent'), 'qcow2')
    assert str(tmp_path) not in caught.value.message


# ---- config drive, console, locks ---------------------------------------------------------

def test_config_drive_is_read_back(tmp_path):
    contents = {'openstack/latest/meta_data.json': b'{"a": 1}', 'openstack/content/0000': b'', 'ec2/x': b'\0' * 5000,
                'openstack/latest/' + 'n' * 60: b'long'}
    path = str(tmp_path / 'drive')
    configdrive.write(path, contents)
    with open(path, 'rb') as file:
        file.seek(0x8000)
        assert file.read(80)[1:6] == b'CD001'
        file.seek(0x8000 + 40)
        assert file.read(32).rstrip() == b'config-2'
    import io

    import pycdlib
    iso = pycdlib.PyCdlib()
    iso.open(path)
    for name, data in contents.items():
        for facade in ('rr_path', 'joliet_path'):
            buffer = io.BytesIO()
            iso.get_file_from_iso_fp(buffer, **{facade: '/' + name})
            assert buffer.getvalue() == data
    iso.close()


@pytest.mark.parametrize('name', ['/etc/passwd', '../x', 'a/../b', 'a//b', '', 'a/', 'a\0b', './a', 'n' * 65])
def test_config_drive_paths_stay_inside(tmp_path, name):
    """Class D."""
    with pytest.raises(ValueError):
        configdrive.write(str(tmp_path / 'drive'), {name: b''})


def test_config_drive_is_bounded(tmp_path):
    with pytest.raises(ValueError):
        configdrive.write(str(tmp_path / 'drive'), {'a': bytes(configdrive.MAX_BYTES + 1)})


def test_console_tail_reaches_into_the_rotated_log(tmp_path):
    path = tmp_path / 'console.log'
    assert steps.tail(str(path)) == b''
    path.write_bytes(b'new')
    assert steps.tail(str(path)) == b'new'
    (tmp_path / 'console.log.0').write_bytes(b'x' * 200 * 1024 + b'old')
    assert steps.tail(str(path), 6) == b'oldnew'
    assert len(steps.tail(str(path))) == steps.TAIL


def test_lock_is_exclusive_and_survives_removal(tmp_path):
    path = str(tmp_path / 'lock')
    with files.lock(path) as held:
        assert held
        with files.lock(path, wait=False) as second:
            assert not second
        os.unlink(path)
        with files.lock(path, wait=False) as fresh:
            assert fresh
    with files.lock(path, wait=False) as again:
        assert again


def test_a_snapshot_leaves_the_reserve(images, tmp_path):
    uuid, source = '8d1b9a1c-3c5f-4d55-9c53-3f3a4b1f2a01', tmp_path / 'disk'
    with open(source, 'wb') as file:                 # others write to this disk, too
        os.posix_fallocate(file.fileno(), 0, 256 * MIB)
    directory = tmp_path / 'instances'
    for reserve, sources, refused in ((0, [source], False), (disk_space.free_bytes(str(tmp_path)) * 2, [], True),
                                      (disk_space.free_bytes(str(tmp_path)) - 128 * MIB, [source], True)):
        made = storage.Storage(str(directory), images, qemu_img.QemuImg(60), reserve=disk_space.Reserve(reserve))
        made.prepare()
        (directory / uuid).mkdir(exist_ok=True)
        if refused:
            with pytest.raises(exception.InsufficientStorage), made.snapshot_path(uuid, sources):
                pass
        else:
            with made.snapshot_path(uuid, sources) as path:
                assert os.path.isdir(os.path.dirname(path))
        assert os.listdir(directory / uuid) == []


@pytest.mark.parametrize('sandboxed', [True, False])
def test_encrypted_disks_open_with_the_key_of_their_guest_alone(tmp_path, images, raw, sandboxed):
    """Root, swap and config drive: qcow2 files with a LUKS layer; nothing of them is in the clear, also while one
    grows."""
    key, asked = '5' * 64, []
    store = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60, sandboxed),
                            key=lambda uuid: asked.append(uuid) or key)
    store.prepare()
    flavor = {'swap': 1, 'extra_specs': {'hw:ephemeral_encryption': 'true'}}
    instance, (disks, _) = create(store, images.add('base', raw, 'raw'), flavor=flavor, root_gb=1,
                                  image_properties={}, config_drive={'user_data': b'very secret'})
    root = disks[0]
    assert {disk.format for disk in disks} == {'qcow2'} and {disk.secret for disk in disks} == {instance.uuid}
    store.backends.of(root).grow(root, 2 * GIB)
    assert store.backends.of(root).size(root) == 2 * GIB and set(asked) == {instance.uuid}
    (tmp_path / 'key').write_text(key)
    (tmp_path / 'wrong').write_text('6' * 64)
    for disk in disks:
        with open(disk.file, 'rb') as file:
            content = file.read()
        assert b'LUKS\xba\xbe' in content and b'very secret' not in content
        assert _opens(disk, tmp_path / 'key') and not _opens(disk, tmp_path / 'wrong')
    assert not os.path.exists(store.path(instance.uuid, 'disk.plain'))
    with pytest.raises(exception.VirtError, match='the copy would not be'):
        store.backends.of(root).copy(root, str(tmp_path / 'copy'))


def _opens(disk, key):
    return subprocess.run(['qemu-io', '--object', f'secret,id=key,file={key}', '-r', '-c', 'read 0 512', '--image-opts',
                           f'driver=qcow2,encrypt.key-secret=key,file.filename={disk.file}'],
                          capture_output=True).returncode == 0


@pytest.mark.parametrize(('key', 'runs'), [('5' * 64, 3), (None, 1)])
def test_a_processor_that_could_not_be_measured_is_measured_again(tmp_path, monkeypatch, key, runs):
    """LUKS wants to know how fast it is; where the kernel counts by ticks QEMU saw no time pass, and a build failed."""
    program, count = tmp_path / 'bin' / 'qemu-img', tmp_path / 'count'
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho run >>{count}\n[ $(wc -l <{count}) -ge 3 ] && exit 0\n'
                       'echo "qemu-img: disk: Unable to get accurate CPU usage" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv('PATH', f'{program.parent}:{os.environ["PATH"]}')
    with contextlib.nullcontext() if key else pytest.raises(exception.VirtError):
        qemu_img.QemuImg(60, sandboxed=False).create(str(tmp_path / 'disk'), 'qcow2', MIB, key=key)
    assert len(count.read_text().split()) == runs
