"""Local disks of a real QEMU guest as its request and the host's configuration say."""
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
        with_volumes.run(rig, instance, 'dd if=/dev/zero of=/dev/vdc bs=4096 count=1 conv=fsync 2>/dev/null')
        assert later.read(4) == bytes(4)
    finally:
        rig.driver.destroy(None, instance, [])
