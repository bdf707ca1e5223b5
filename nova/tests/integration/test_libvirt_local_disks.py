"""Local disks of a real QEMU guest as its request and the host's configuration say."""
import errno
import os
import subprocess

import pytest

from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_volumes as with_volumes
from nova.virt import driver as contract

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


@pytest.fixture
def small(state_path):
    """A volume of a GiB whose export has its file on a file system of SIZE."""
    place, export = state_path / 'small', state_path / 'export'
    for path in (place, export):
        path.mkdir(mode=0o711)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={SIZE},mode=711', 'tmpfs', place], check=True)
    made = with_volumes.Volume(place, '/dev/vdc')
    process = subprocess.Popen(
        ['qemu-storage-daemon', '--blockdev', f'driver=file,node-name=file,filename={made.path},locking=off',
         '--nbd-server', f'addr.type=unix,addr.path={export}/socket',
         '--export', 'type=nbd,id=e,node-name=file,name=volume,writable=on'])
    with_volumes.wait_for((export / 'socket').exists, 20, 'the export')
    (export / 'socket').chmod(0o666)
    made.device['connection_info'] = {'driver_volume_type': 'nbd', 'data': {
        'socket': f'{export}/socket', 'export': 'volume'}}
    yield made
    process.kill()
    process.wait()
    subprocess.run(['umount', place], check=True)


def stand_still(rig, instance, volume, caplog):
    """A guest that writes to a full disk waits, and the log says for what; it goes on when there is room."""
    rig.driver.features[contract.Volumes].attach_volume(None, instance, volume.device)
    with_volumes.wait_for(lambda: 'vdc' in with_volumes.run(rig, instance, 'ls /sys/block'), 60, 'the volume')
    rig.type(instance, f"tr '\\0' x </dev/zero | dd of=/dev/vdc bs=64k count={SIZE >> 15} iflag=fullblock conv=fsync "
                       "2>/dev/null; X=wr; echo ${X}itten")
    with_volumes.wait_for(lambda: rig.driver.power_state(instance) == states.POWER_PAUSED, 120, 'the guest to stop')
    said = f'Guest {instance.uuid} is paused after a failed write to its disk vdb: its storage is full'
    with_volumes.wait_for(lambda: said in caplog.text, 20, 'the log')
    with_volumes.wait_for(lambda: (instance.uuid, states.POWER_PAUSED) in rig.events, 20, 'the event')
    subprocess.run(['mount', '-o', f'remount,size={4 * SIZE}', volume.path.parent], check=True)
    rig.driver.features[contract.Pause].unpause(instance)
    with_volumes.wait_for(lambda: b'written' in rig.console(instance), 120, 'the write to end')
    assert volume.read(2 * SIZE) == b'x' * 2 * SIZE and rig.driver.power_state(instance) == states.RUNNING
    rig.driver.features[contract.Volumes].detach_volume(None, instance, volume.device)


@long_runs.only
def test_local_disks_have_the_requested_formats_buses_and_threads(configured, volumes, small, caplog):
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
        rig.driver.features[contract.Volumes].attach_volume(None, instance, later.device)
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
        rig.driver.features[contract.Volumes].detach_volume(None, instance, later.device)
        stand_still(rig, instance, small, caplog)
        overlay = instance_file(rig, instance, 'disk')
        with_volumes.run(rig, instance, FILL.format('/root/file'))
        full = used(overlay)
        with_volumes.run(rig, instance, ZERO.format('/root/file'))
        assert used(overlay) < full - SIZE * 3 // 4
    finally:
        rig.driver.destroy(None, instance, [])
