"""Volumes in a real Ceph with real QEMU guests: librbd in QEMU, the key in a secret of libvirt."""
import subprocess
import uuid

import pytest

from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_ceph
from nova.tests.support import libvirt_volumes as with_volumes
from nova.tests.support.libvirt_ceph import SECRET
from nova.tests.support.libvirt_ceph import device
from nova.virt import driver as contract

ceph = libvirt_ceph.ceph


state_path, module_rig, rig, instance = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                         test_libvirt.instance)
pytestmark = test_libvirt.pytestmark
@pytest.fixture(scope='module', autouse=True)
def no_secret_left(module_rig):
    """libvirt keeps the key until libvirtd ends."""
    yield
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    for secret in connection.listAllSecrets():
        if secret.UUIDString() == SECRET:
            secret.undefine()
    connection.close()


def first(ceph, name, length):
    """The first bytes of an image in the pool."""
    return subprocess.run(['rbd', '-c', ceph.conf, '-n', f'client.{ceph.user}', 'export', '--no-progress',
                           f'{ceph.pool}/{name}', '-'], check=True, capture_output=True, timeout=60).stdout[:length]


@pytest.fixture
def image(ceph):
    """Makes an image in the pool: empty, or with the content of a qcow2 file."""
    made = []

    def make(source=None, size='1G'):
        name = str(uuid.uuid4())
        if source:
            subprocess.run(['qemu-img', 'convert', '-O', 'raw', source,
                            f'rbd:{ceph.pool}/{name}:id={ceph.user}:conf={ceph.conf}'], check=True, timeout=120)
        else:
            ceph.rbd('create', '--size', size, name)
        made.append(name)
        return name
    yield make
    for each in made:
        ceph.rbd('rm', '--no-progress', each)            # fails while somebody has it open


def test_a_volume_comes_and_goes(ceph, image, rig, instance):
    test_libvirt.spawn(rig, instance)
    rig.booted(instance)
    volume = device(ceph, image())
    rig.driver.features[contract.Volumes].attach_volume(None, instance, volume)
    with_volumes.wait_for(lambda: volume['volume_id'][:20] in with_volumes.run(
        rig, instance, 'cat /sys/block/vdb/serial'), 60, 'the disk to be seen')
    with_volumes.write(rig, instance, '/dev/vdb', 'first')
    assert first(ceph, volume['volume_id'], 5) == b'first'
    rig.driver.features[contract.Volumes].detach_volume(None, instance, volume)
    assert 'vdb' not in with_volumes.run(rig, instance, 'ls /sys/block')
    with_volumes.wait_for(lambda: 'Watchers: none' in ceph.rbd('status', volume['volume_id']), 20, 'QEMU to close it')


@long_runs.only
def test_a_guest_boots_from_a_volume_and_goes_on_when_ceph_was_away(ceph, image, rig):
    root = device(ceph, image(test_libvirt.GUEST / 'guest.qcow2'), '/dev/vda', boot_index=0)
    guest = test_libvirt.make_instance(root_gb=0)
    try:
        test_libvirt.spawn(rig, guest, image=None, block_devices=[root])
        rig.booted(guest)
        ceph.stop()
        ceph.start()
        with_volumes.run(rig, guest, 'echo kept >/root/file; sync')
        before = len(rig.console(guest))
        rig.driver.reboot(None, guest, [], True)
        with_volumes.wait_for(lambda: test_libvirt.PROMPT in rig.console(guest)[before:], test_libvirt.BOOT_SECONDS,
                              'the guest to boot again')
        assert 'kept' in with_volumes.run(rig, guest, 'cat /root/file')
    finally:
        rig.driver.destroy(None, guest, [])
