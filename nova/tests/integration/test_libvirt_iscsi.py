"""A real iSCSI target (tgt) for real QEMU guests: libiscsi in QEMU, CHAP by a secret of libvirt.

test_libvirt_storages.py has what guests do with volumes of such targets.
"""
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

from nova import exception
from nova.tests.integration import servers
from nova.tests.integration import test_libvirt
from nova.tests.integration import test_libvirt_volumes as with_volumes
from nova.virt import driver as contract

state_path, module_rig, rig, instance = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                         test_libvirt.instance)
IQN, USER, PASSWORD = 'iqn.2026-11.org.example:volume', 'guest', 'ein-langes-wort-9'


def missing():
    """Why there is no iSCSI here; None: there is."""
    if not (shutil.which('tgtd') and shutil.which('tgtadm')):
        return 'tgt is not installed'
    if not list(pathlib.Path('/usr/lib').glob('*/qemu/block-iscsi.so')):
        return 'QEMU has no libiscsi: qemu-block-extra is not installed'
    return None


pytestmark = [test_libvirt.pytestmark, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


class Target:
    """tgtd on loopback with one disk, a file, behind CHAP."""

    def __init__(self, disk, name=IQN):
        self.port, self.disk, self.name = servers.free_port(), disk, name
        self._control = str(self.port)
        if not disk.exists():
            disk.touch()
            os.truncate(disk, 1 << 30)
        self._process = None

    def start(self):
        self._process = subprocess.Popen(['tgtd', '-f', '-C', self._control, '--iscsi',
                                          f'portal=127.0.0.1:{self.port}'], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        with_volumes.wait_for(lambda: not self._ask('--op', 'show', '--mode', 'target').returncode, 20, 'tgtd')
        for row in (('new', 'target', '--tid', '1', '-T', self.name),
                    ('new', 'logicalunit', '--tid', '1', '--lun', '1', '-b', str(self.disk)),
                    ('bind', 'target', '--tid', '1', '-I', 'ALL'),
                    ('new', 'account', '--user', USER, '--password', PASSWORD),
                    ('bind', 'account', '--tid', '1', '--user', USER)):
            done = self._ask('--op', row[0], '--mode', row[1], *row[2:])
            assert not done.returncode, (row, done.stderr)

    def add_disk(self, number, path):
        done = self._ask('--op', 'new', '--mode', 'logicalunit', '--tid', '1', '--lun', str(number), '-b', str(path))
        assert not done.returncode, done.stderr

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def _ask(self, *words):
        return subprocess.run(['tgtadm', '-C', self._control, '--lld', 'iscsi', *words], capture_output=True, text=True,
                              timeout=20)


@pytest.fixture(scope='module')
def target(tmp_path_factory):
    made = Target(tmp_path_factory.mktemp('tgt') / 'disk')
    made.start()
    yield made
    made.kill()


@pytest.fixture(autouse=True)
def no_secret_left(module_rig):
    yield
    forget_secrets()


def forget_secrets():
    """libvirt keeps a password until libvirtd ends."""
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    for secret in connection.listAllSecrets():
        if IQN in secret.usageID():
            secret.undefine()
    connection.close()


def connection(target, password=PASSWORD):
    """As Cinder tells it of its LVM driver with tgt."""
    return {'driver_volume_type': 'iscsi', 'data': {
        'target_portal': f'127.0.0.1:{target.port}', 'target_iqn': target.name, 'target_lun': 1, 'auth_method': 'CHAP',
        'auth_username': USER, 'auth_password': password}}


def device(target, password=PASSWORD):
    """A row of block_device_mappings."""
    return {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
            'source_type': 'volume', 'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None,
            'connection_info': connection(target, password)}


def test_a_wrong_password_opens_nothing(target, rig, instance):
    test_libvirt.spawn(rig, instance)
    with pytest.raises(exception.VirtError):
        rig.driver.features[contract.Volumes].attach_volume(None, instance, device(target, 'ein-anderes-wort-9'))
    assert not rig.driver.storage.load(instance.uuid).volumes
