"""Volumes of a real NFS server (nfs-ganesha, in user space) with real QEMU guests, and storages that hang."""
import os
import pathlib
import signal
import subprocess
import time
import uuid

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_volumes as with_volumes
from nova.tests.support.libvirt_nfs import Server
from nova.tests.support.libvirt_nfs import connection
from nova.tests.support.libvirt_nfs import missing
from nova.tests.support.volume_files import begin
from nova.virt import driver as contract
from nova.virt.libvirt.volumes import probe


state_path, module_rig, rig, instance, volumes = (
    test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig, test_libvirt.instance, with_volumes.volumes)
pytestmark = test_libvirt.pytestmark
@pytest.fixture
def server(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    made = Server(tmp_path)
    yield made
    made.process.send_signal(signal.SIGCONT)
    made.stop()


@long_runs.only
def test_guest_waits_for_an_nfs_server_that_hangs(server, rig, instance, monkeypatch):
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
