"""Local disks of a real QEMU guest as its request and the host's configuration say."""
import errno
import os

import pytest

from nova.tests.integration import test_libvirt
from nova.tests.integration import test_libvirt_volumes as with_volumes

state_path, module_rig, rig, volumes = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                        with_volumes.volumes)
pytestmark = test_libvirt.pytestmark
OPTIONS = {'io_threads': 2, 'detect_zeroes': 'unmap', 'disk_cachemodes': {'file': 'writeback'}}


@pytest.fixture
def configured(rig):
    for name, value in OPTIONS.items():
        rig.driver.conf.set_override(name, value, 'libvirt')
    yield rig
    for name in OPTIONS:
        rig.driver.conf.clear_override(name, 'libvirt')


SIZE = 4 * 2 ** 20
FILL = f"tr '\\0' x </dev/zero | dd of={{}} bs=64k count={SIZE >> 16} iflag=fullblock conv=fsync 2>/dev/null; sync"
ZERO = f'dd if=/dev/zero of={{}} bs=64k count={SIZE >> 16} conv=fsync,notrunc 2>/dev/null; sync'


def used(path):
    return os.stat(path).st_blocks * 512


def data(path):
    """Where a file has its first data; None: it is one hole."""
    with open(path, 'rb') as file:
        try:
            return os.lseek(file.fileno(), 0, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return None


def instance_file(rig, instance, name):
    return rig.driver.storage.path(instance.uuid, name)


def test_formats_buses_and_threads(configured, volumes):
    rig = configured
    instance = test_libvirt.make_instance(ephemeral_gb=1, flavor={'name': 'f', 'swap': 16, 'extra_specs': {}})
    rows = [{'source_type': 'image', 'destination_type': 'local', 'boot_index': 0},
            {'source_type': 'blank', 'destination_type': 'local', 'volume_size': 1, 'guest_format': 'ext2',
             'disk_bus': 'scsi'},
            {'source_type': 'blank', 'destination_type': 'local', 'volume_size': 8, 'guest_format': 'swap'}]
    later = volumes('/dev/vdd')
    try:
        test_libvirt.spawn(rig, instance, block_devices=rows)
        rig.booted(instance)
        rig.driver.attach_volume(None, instance, later.device)
        connection = test_libvirt.libvirt.open(test_libvirt.URI)
        root = test_libvirt.etree.fromstring(connection.lookupByUUIDString(instance.uuid).XMLDesc(0))
        connection.close()
        drivers = {disk.find('target').get('dev'): disk.find('driver').attrib
                   for disk in root.findall('devices/disk')}
        assert root.findtext('iothreads') == '2' and sorted(drivers) == ['sdb', 'vda', 'vdc', 'vdd']
        assert [drivers[name].get('iothread') for name in ('vda', 'sdb', 'vdc', 'vdd')] == ['1', None, '2', '1']
        assert {each['detect_zeroes'] for each in drivers.values()} == {'unmap'}
        assert {each['cache'] for each in drivers.values()} == {'writeback'}
        # the guest counts its virtio disks by itself: vdb is the swap, vdc the volume
        with_volumes.wait_for(lambda: 'vdc' in with_volumes.run(rig, instance, 'ls /sys/block'), 60, 'the volume')
        assert str(8 * 2048) in with_volumes.run(rig, instance, 'cat /sys/block/vdb/size')
        with_volumes.write(rig, instance, '/dev/vdc', 'data')
        assert later.read(4) == b'data'
        # zeros become holes, in a raw file as in an overlay; what is left of blocks has the file's attributes
        for disk, path in (('vdb', instance_file(rig, instance, 'disk.swap')), ('vdc', later.path)):
            with_volumes.run(rig, instance, FILL.format(f'/dev/{disk}'))
            assert data(path) == 0 and used(path) >= SIZE
            with_volumes.run(rig, instance, ZERO.format(f'/dev/{disk}'))
            assert data(path) is None and used(path) < 16384
        with_volumes.run(rig, instance, FILL.format('/dev/vdc'))
        assert data(later.path) == 0
        with_volumes.run(rig, instance, 'blkdiscard /dev/vdc')
        assert data(later.path) is None
        overlay = instance_file(rig, instance, 'disk')
        with_volumes.run(rig, instance, FILL.format('/root/file'))
        full = used(overlay)
        with_volumes.run(rig, instance, ZERO.format('/root/file'))
        assert used(overlay) < full - SIZE * 3 // 4
    finally:
        rig.driver.destroy(None, instance, [])
