"""Volumes of a real NFS server (nfs-ganesha, in user space) with real QEMU guests, and storages that hang."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.functional.test_volume_files import begin
from nova.tests.integration import test_libvirt
from nova.tests.integration import test_libvirt_volumes as with_volumes
from nova.virt import driver as contract
from nova.virt.libvirt.volumes import probe

state_path, module_rig, rig, instance, volumes = (
    test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig, test_libvirt.instance, with_volumes.volumes)
pytestmark = test_libvirt.pytestmark
PROGRAMS = ('ganesha.nfsd', 'rpcbind', 'unshare')
PORTMAPPER, MOUNTS = 111, 20048
SOCKET = pathlib.Path('/run/rpcbind.sock')
CONFIGURATION = '''
NFS_CORE_PARAM {{ Bind_Addr = 127.0.0.1; NFS_Port = {port}; MNT_Port = {mounts}; Enable_NLM = false; Enable_UDP = false;
                  Enable_RQUOTA = false; Protocols = 3; allow_set_io_flusher_fail = true; }}
NFSV4 {{ RecoveryRoot = {directory}/recovery; }}
EXPORT {{ Export_Id = 1; Path = {files}; Pseudo = /files; Access_Type = RW; Squash = No_Root_Squash;
          SecType = sys; Protocols = 3; Transports = TCP; PrivilegedPort = false; FSAL {{ Name = VFS; }} }}
'''


class Server:
    """ganesha on loopback. rpcbind listens nowhere but at its socket and in a namespace; libnfs asks it by a relay."""

    def __init__(self, directory, files=None):
        self.directory, self.files = directory, files or directory / 'files'
        self.files.mkdir(exist_ok=True)
        (directory / 'recovery').mkdir()
        configuration = directory / 'ganesha.conf'
        configuration.write_text(CONFIGURATION.format(port=probe.NFS_PORT, mounts=MOUNTS, directory=directory,
                                                      files=self.files))
        self._listener = socket.create_server(('127.0.0.1', PORTMAPPER))
        threading.Thread(target=self._relay, daemon=True).start()
        SOCKET.unlink(missing_ok=True)           # of one that was killed: ganesha ends where no rpcbind answers
        with open(directory / 'log', 'w') as log:
            self._rpcbind = subprocess.Popen(['unshare', '--net', 'rpcbind', '-f'], stdout=log, stderr=log)
            test_libvirt.wait_for(SOCKET.exists, 20, 'rpcbind')
            self.process = subprocess.Popen(
                ['ganesha.nfsd', '-F', '-f', configuration, '-L', directory / 'ganesha.log', '-p', directory / 'pid'],
                stdout=log, stderr=log)
        try:
            test_libvirt.wait_for(self._serves, 30, 'ganesha')
        except AssertionError:
            self.stop()
            raise

    @staticmethod
    def _serves():
        with socket.socket() as tried:
            return not tried.connect_ex(('127.0.0.1', probe.NFS_PORT))

    def _relay(self):
        while True:
            try:
                asks = self._listener.accept()[0]
            except OSError:
                return
            knows = socket.socket(socket.AF_UNIX)
            knows.connect(str(SOCKET))
            for source, target in ((asks, knows), (knows, asks)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def stop(self):
        for process in (self.process, self._rpcbind):
            process.kill()
            process.wait()
        self._listener.shutdown(socket.SHUT_RDWR)        # or the port is taken for as long as a thread waits at it
        self._listener.close()


def _pump(source, target):
    try:
        while found := source.recv(65536):
            target.sendall(found)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def missing():
    """Why there is no NFS here; None: there is."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent or not list(pathlib.Path('/usr/lib').glob('*/qemu/block-nfs.so')):
        return f'not installed: {absent or "the NFS driver of QEMU (qemu-block-extra)"}'
    return None


def connection(path):
    """As Cinder tells it of its NFS driver."""
    return {'driver_volume_type': 'nfs', 'data': {
        'export': f'127.0.0.1:{os.path.dirname(path)}', 'name': os.path.basename(path), 'options': None,
        'format': 'raw'}}


@pytest.fixture
def server(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    made = Server(tmp_path)
    yield made
    made.process.send_signal(signal.SIGCONT)
    made.stop()


@long_runs.only
def test_a_volume_of_a_server_of_files_that_hangs_for_a_while(server, rig, instance, monkeypatch):
    monkeypatch.setattr(probe, 'ANSWER_S', 2)
    path = server.files / 'volume-1'
    path.touch()
    path.chmod(0o666)                                # as Cinder makes them, unless it is told to be strict
    os.truncate(path, 1 << 30)
    device = {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
              'source_type': 'volume', 'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None,
              'connection_info': connection(path)}
    test_libvirt.spawn(rig, instance)
    rig.booted(instance)
    server.process.send_signal(signal.SIGSTOP)
    with pytest.raises(exception.VirtError, match='did not answer within'):
        rig.driver.features[contract.Volumes].attach_volume(None, instance, device)
    assert rig.driver.storage.load(instance.uuid).volumes == []
    server.process.send_signal(signal.SIGCONT)
    rig.driver.features[contract.Volumes].attach_volume(None, instance, device)
    with_volumes.wait_for(lambda: 'vdb' in with_volumes.run(rig, instance, 'ls /sys/block'), 60, 'the disk to be seen')
    with_volumes.write(rig, instance, '/dev/vdb', 'first')
    assert begin(path, 5) == b'first'
    os.truncate(path, 2 << 30)
    rig.driver.features[contract.ExtendVolume].extend_volume(None, instance, {**device, 'volume_size': 2})
    with_volumes.write(rig, instance, '/dev/vdb', 'beyond', block=300000)
    with open(path, 'rb') as file:
        file.seek(300000 * 4096)
        assert file.read(6) == b'beyond'
    rig.driver.features[contract.Volumes].detach_volume(None, instance, device)
    assert 'vdb' not in with_volumes.run(rig, instance, 'ls /sys/block')


def test_files_on_a_server_lie_on_each_other(server, rig, instance):
    """Where a merge writes a name into a header, its block storage is to find that of a file, not an address."""
    path, driver = server.files / 'volume-1', rig.driver
    path.write_bytes(b'first' + bytes(2 ** 20 - 5))
    path.chmod(0o666)
    server.files.chmod(0o777)
    info = connection(path)
    device = {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
              'source_type': 'volume', 'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None,
              'connection_info': info}

    def snapshot(*below):
        made = with_volumes.put_on(path, *below)
        assert driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, device['volume_id'],
                                                                                  {'new_file': made})['name'] == made
        return made

    def merge(merged, target=None):
        driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, device['volume_id'], 's', {
            'file_to_merge': merged, 'merge_target_file': target})
    test_libvirt.spawn(rig, instance)
    driver.features[contract.Volumes].attach_volume(None, instance, device)
    one = snapshot(path.name)
    merge(None)                                      # the only snapshot goes
    assert with_volumes.below(server.files / one) == [None]
    two = snapshot(one, 'qcow2')
    three = snapshot(two, 'qcow2')
    with pytest.raises(exception.VirtError, match='stop the server'):
        merge(two, one)
    driver.power_off(instance)
    merge(two, one)
    assert with_volumes.below(server.files / three) == [one, None]
    four = snapshot(three, 'qcow2')
    merge(one)
    assert with_volumes.below(server.files / four) == [one, None]
    (server.files / two).unlink()
    (server.files / three).unlink()
    driver.features[contract.Volumes].detach_volume(None, instance, device)
    info['data'].update(name=four, format='qcow2')
    driver.features[contract.Volumes].attach_volume(None, instance, device)
    driver.power_on(None, instance, [])
    assert driver.power_state(instance) == states.RUNNING
    content = server.files / 'content'
    subprocess.run(['qemu-img', 'convert', '-U', '-O', 'raw', server.files / four, content], check=True)
    assert begin(content, 5) == b'first'
    driver.power_off(instance)


@long_runs.only
def test_an_export_that_is_paused_stops_nothing_but_what_needs_it(rig, instance, volumes, state_path, monkeypatch):
    """QEMU waited for it in its main loop: the guest stood still, and a start did not end until the export went on."""
    monkeypatch.setattr(probe, 'ANSWER_S', 2)
    data = volumes()
    export = with_volumes.Export(pathlib.Path(state_path), data)
    export.start()
    device = {**data.device, 'connection_info': export.info}
    try:
        test_libvirt.spawn(rig, instance)
        export.signal(signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(exception.VirtError, match=f'the storage of volume {data.id} did not answer within'):
            rig.driver.features[contract.Volumes].attach_volume(None, instance, device)
        assert rig.driver.storage.load(instance.uuid).volumes == []
        shown = rig.driver.features[contract.Diagnostics].diagnostics(instance)
        assert shown['disk_details'] and time.monotonic() - begun < 30
        export.signal(signal.SIGCONT)
        rig.driver.features[contract.Volumes].attach_volume(None, instance, device)
        export.signal(signal.SIGSTOP)
        with pytest.raises(exception.VirtError, match='did not answer'):
            rig.driver.reboot(None, instance, [], True)
        assert rig.driver.power_state(instance) == states.RUNNING          # it was not stopped for nothing
        rig.driver.power_off(instance)
        with pytest.raises(exception.VirtError, match='did not answer'):
            rig.driver.power_on(None, instance, [])
        export.signal(signal.SIGCONT)
        rig.driver.power_on(None, instance, [])
        assert rig.driver.power_state(instance) == states.RUNNING
    finally:
        export.signal(signal.SIGCONT)
        export.stop()
