"""Volumes of a real iSCSI target (tgt) with real QEMU guests: libiscsi in QEMU, CHAP by a secret of libvirt."""
import pathlib
import shutil
import subprocess
import time
import uuid

import pytest

from nova import exception
from nova.tests.integration import servers
from nova.tests.integration import test_libvirt
from nova.tests.integration import test_libvirt_volumes as with_volumes

state_path, module_rig, rig, instance = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                         test_libvirt.instance)
pytestmark = [test_libvirt.pytestmark,
              pytest.mark.skipif(not (shutil.which('tgtd') and shutil.which('tgtadm')), reason='tgt is not installed'),
              pytest.mark.skipif(not list(pathlib.Path('/usr/lib').glob('*/qemu/block-iscsi.so')),
                                 reason='QEMU has no libiscsi: qemu-block-extra is not installed')]
IQN, USER, PASSWORD = 'iqn.2026-11.org.example:volume', 'guest', 'ein-langes-wort-9'


class Target:
    """tgtd on loopback with one disk behind CHAP."""

    def __init__(self, directory):
        self.port, self.disk = servers.free_port(), directory / 'disk'
        self._control = str(self.port)
        with open(self.disk, 'wb') as file:
            file.truncate(1 << 30)
        self._process = None

    def start(self):
        self._process = subprocess.Popen(['tgtd', '-f', '-C', self._control, '--iscsi',
                                          f'portal=127.0.0.1:{self.port}'], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        with_volumes.wait_for(lambda: not self._ask('--op', 'show', '--mode', 'target').returncode, 20, 'tgtd')
        for row in (('new', 'target', '--tid', '1', '-T', IQN),
                    ('new', 'logicalunit', '--tid', '1', '--lun', '1', '-b', str(self.disk)),
                    ('bind', 'target', '--tid', '1', '-I', 'ALL'),
                    ('new', 'account', '--user', USER, '--password', PASSWORD),
                    ('bind', 'account', '--tid', '1', '--user', USER)):
            done = self._ask('--op', row[0], '--mode', row[1], *row[2:])
            assert not done.returncode, (row, done.stderr)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def _ask(self, *words):
        return subprocess.run(['tgtadm', '-C', self._control, '--lld', 'iscsi', *words], capture_output=True, text=True,
                              timeout=20)


@pytest.fixture(scope='module')
def target(tmp_path_factory):
    made = Target(tmp_path_factory.mktemp('tgt'))
    made.start()
    yield made
    made.kill()


@pytest.fixture(autouse=True)
def no_secret_left(module_rig):
    """libvirt keeps a password until libvirtd ends."""
    yield
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    for secret in connection.listAllSecrets():
        if IQN in secret.usageID():
            secret.undefine()
    connection.close()


def device(target, password=PASSWORD):
    """A row of block_device_mappings, connected as Cinder tells it of its LVM driver with tgt."""
    return {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
            'source_type': 'volume', 'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None,
            'connection_info': {'driver_volume_type': 'iscsi', 'data': {
                'target_portal': f'127.0.0.1:{target.port}', 'target_iqn': IQN, 'target_lun': 1, 'auth_method': 'CHAP',
                'auth_username': USER, 'auth_password': password}}}


def test_a_volume_comes_is_awaited_and_goes(target, rig, instance):
    test_libvirt.spawn(rig, instance)
    rig.booted(instance)
    volume = device(target)
    rig.driver.attach_volume(None, instance, volume)
    with_volumes.wait_for(lambda: 'vdb' in with_volumes.run(rig, instance, 'ls /sys/block'), 60, 'the disk to be seen')
    with_volumes.write(rig, instance, '/dev/vdb', 'first')
    with open(target.disk, 'rb') as file:
        assert file.read(5) == b'first'
    target.kill()                                    # libiscsi logs in again
    time.sleep(1)
    target.start()
    with_volumes.write(rig, instance, '/dev/vdb', 'again')
    with open(target.disk, 'rb') as file:
        assert file.read(5) == b'again'
    rig.driver.detach_volume(None, instance, volume)
    assert 'vdb' not in with_volumes.run(rig, instance, 'ls /sys/block')


def test_a_wrong_password_opens_nothing(target, rig, instance):
    test_libvirt.spawn(rig, instance)
    with pytest.raises(exception.VirtError):
        rig.driver.attach_volume(None, instance, device(target, 'ein-anderes-wort-9'))
    assert not rig.driver.guest_record(instance.uuid).volumes
