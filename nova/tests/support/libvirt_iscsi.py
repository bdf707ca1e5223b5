"""What tests share with nova/tests/integration/test_libvirt_iscsi.py."""
import os
import pathlib
import shutil
import subprocess

import pytest

from nova.tests.integration import servers
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_volumes as with_volumes

IQN, USER, PASSWORD = 'iqn.2026-11.org.example:volume', 'guest', 'ein-langes-wort-9'


def missing():
    """Why there is no iSCSI here; None: there is."""
    if not (shutil.which('tgtd') and shutil.which('tgtadm')):
        return 'tgt is not installed'
    if not list(pathlib.Path('/usr/lib').glob('*/qemu/block-iscsi.so')):
        return 'QEMU has no libiscsi: qemu-block-extra is not installed'
    return None


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
