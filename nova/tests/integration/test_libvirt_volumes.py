"""Volumes of real QEMU guests: what a guest writes is in the volume, whatever is done to it meanwhile."""
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt
from nova.virt import driver as contract

if test_libvirt._REASON is not None:
    pytest.skip(test_libvirt._REASON, allow_module_level=True)

from nova.tests.support import libvirt_volumes
from nova.tests.support.libvirt_volumes import Export
from nova.tests.support.libvirt_volumes import GIB
from nova.tests.support.libvirt_volumes import below
from nova.tests.support.libvirt_volumes import put_on
from nova.tests.support.libvirt_volumes import read
from nova.tests.support.libvirt_volumes import run
from nova.tests.support.libvirt_volumes import spawn
from nova.tests.support.libvirt_volumes import wait_for
from nova.tests.support.libvirt_volumes import write
from nova.virt.libvirt import guest_power
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.volumes import operations

instance = libvirt_volumes.instance
module_rig, rig = libvirt_volumes.module_rig, libvirt_volumes.rig
state_path = libvirt_volumes.state_path
volumes = libvirt_volumes.volumes


def content(path, length):
    """The first bytes of a qcow2 file."""
    return subprocess.run(['qemu-img', 'dd', '-f', 'qcow2', '-O', 'raw', 'bs=512', 'count=1', f'if={path}',
                           f'of={path}.raw'], check=True) and pathlib.Path(f'{path}.raw').read_bytes()[:length]


def test_a_volume_comes_grows_is_copied_changes_and_goes(rig, instance, volumes, state_path):
    """All that is done to a volume of a running guest; it keeps its data."""
    spawn(rig, instance)
    rig.booted(instance)
    data, other = volumes(), volumes(size=2)
    data.device['connection_info']['data']['qos_specs'] = {'write_iops_sec': '900'}
    rig.driver.features[contract.Volumes].attach_volume(None, instance, data.device)
    bounds = rig.driver.hypervisor.guest('look', instance.uuid, lambda domain: domain.blockIoTune('vdb'))
    assert bounds['write_iops_sec'] == 900               # which the block storage leaves to the hypervisor
    rig.driver.features[contract.Volumes].attach_volume(None, instance,
                                                        data.device)                 # repeated after a crash
    wait_for(lambda: data.id[:20] in run(rig, instance, 'cat /sys/block/vdb/serial'), 60, 'the disk to be seen')
    write(rig, instance, '/dev/vdb', 'first')
    assert data.read(5) == b'first'
    # larger, while the guest has it
    rig.driver.features[contract.ExtendVolume].extend_volume(None, instance, {**data.device, 'volume_size': 2})
    wait_for(lambda: str(2 * GIB // 512) in run(rig, instance, 'cat /sys/block/vdb/size'), 60, 'the new size')
    write(rig, instance, '/dev/vdb', 'beyond', block=300000)
    assert data.read(6, at=300000 * 4096) == b'beyond'
    # a copy of one moment
    copy = state_path / 'copy'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', copy, '2G'], check=True)
    rig.driver.features[contract.VolumeCopies].copy_volume(None, instance, data.id, {'type': 'copy',
                                                                                     'new_file': str(copy)})
    write(rig, instance, '/dev/vdb', 'after')
    assert copy.stat().st_size < 2 ** 21 and content(copy, 5) == b'first'
    copy.unlink()
    # a server's own snapshot has its root disk alone
    rig.driver.features[contract.Snapshot].snapshot(None, instance, 'snap', lambda step: None)
    assert len(rig.uploads['snap'][0]) < GIB // 2
    # another volume in its place
    rig.driver.features[contract.Volumes].swap_volume(None, instance, data.device, other.device)
    rig.driver.features[contract.Volumes].swap_volume(None, instance, data.device, other.device)
    write(rig, instance, '/dev/vdb', 'swapped')
    assert other.read(7) == b'swapped' and data.read(5) == b'after'
    assert other.read(6, at=300000 * 4096) == b'beyond'
    # it stays through a power cycle, with its new serial number
    rig.booted_again(instance, lambda: rig.driver.reboot(None, instance, [], True))
    assert other.id[:20] in run(rig, instance, 'cat /sys/block/vdb/serial')
    assert 'swapped' in read(rig, instance, '/dev/vdb', 7)
    # and goes
    rig.driver.features[contract.Volumes].detach_volume(None, instance, other.device)
    rig.driver.features[contract.Volumes].detach_volume(None, instance, other.device)
    assert 'vdb' not in run(rig, instance, 'ls /sys/block')
    assert rig.driver.storage.load(instance.uuid).volumes == []


def test_snapshots_of_a_volume_are_files_that_lie_on_each_other(rig, instance, volumes, state_path):
    """os-assisted-volume-snapshots: the guest goes on in further files, which are merged while it runs and while it is
    off. It keeps its data, and finds them after a stop."""
    directory = state_path / 'chain'
    directory.mkdir()
    directory.chmod(0o711)
    data, driver, ident = volumes(), rig.driver, instance.uuid
    data.path = data.path.rename(directory / data.path.name)
    data.path.chmod(0o666)
    data.device['connection_info']['data']['device_path'] = str(data.path)
    base = data.path.name
    try:
        spawn(rig, instance)
        rig.booted(instance)
        driver.features[contract.Volumes].attach_volume(None, instance, data.device)
        wait_for(lambda: 'vdb' in run(rig, instance, 'ls /sys/block'), 60, 'the disk to be seen')
        write(rig, instance, '/dev/vdb', 'first')
        one = put_on(data.path, base)
        wrong = put_on(data.path, one, 'qcow2')
        small = f'{base}.small'
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', base, '-F', 'raw', small, '1M'],
                       cwd=directory, check=True)
        for new, why in (('../' + base, 'without directories'), ('nothing', 'No such file'),
                         (wrong, 'its backing file'), (small, 'another size')):
            with pytest.raises(exception.VirtError, match=why):
                driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id,
                                                                                   {'new_file': new})
        for _again in range(2):
            assert driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id,
                                                                                      {'new_file': one}) == {
                'name': one, 'format': 'qcow2'}
        write(rig, instance, '/dev/vdb', 'other')
        assert data.read(5) == b'first'                              # the snapshot
        (directory / wrong).unlink()
        two = put_on(data.path, one, 'qcow2')
        driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id, {'new_file': two})
        write(rig, instance, '/dev/vdb', 'third', block=1)
        # what is not there is not merged
        for info, why in (({'file_to_merge': 'x', 'merge_target_file': base}, 'no file x'),
                          ({'file_to_merge': base, 'merge_target_file': one}, 'is not a backing file of'),
                          ({'file_to_merge': two}, 'its own backing file')):
            with pytest.raises(exception.VirtError, match=why):
                driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's', info)
        # the newest snapshot goes: what is in its file comes into the guest's
        said = []
        driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's',
                                                                           {'file_to_merge': base}, said.append)
        assert below(directory / two) == [base, None]
        (directory / one).unlink()
        # an older one: its file goes into the one below
        three = put_on(data.path, two, 'qcow2')
        driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id, {'new_file': three})
        assert data.read(5) == b'first'
        driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's',
                                                                           {'file_to_merge': two,
                                                                            'merge_target_file': base})
        assert below(directory / three) == [base, None] and data.read(5) == b'other'
        (directory / two).unlink()
        write(rig, instance, '/dev/vdb', 'fourth', block=2)
        assert 'other' in read(rig, instance, '/dev/vdb', 5) and 'fourth' in read(rig, instance, '/dev/vdb', 6, block=2)
        # into the file below while the guest writes to the upper one, which it leaves
        found = driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's', {
            'file_to_merge': three, 'merge_target_file': base})
        assert found == {'name': base, 'format': 'raw'} and data.read(6, 2 * 4096) == b'fourth'
        write(rig, instance, '/dev/vdb', 'fifth', block=3)
        assert data.read(5, 3 * 4096) == b'fifth'
        # and one that is off
        driver.power_off(instance)
        (directory / three).unlink()
        with pytest.raises(exception.VirtError, match='another size'):
            driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id,
                                                                               {'new_file': small})
        four = put_on(data.path, base)
        driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id, {'new_file': four})
        five = put_on(data.path, four, 'qcow2')
        driver.features[contract.AssistedSnapshots].create_volume_snapshot(None, instance, data.id, {'new_file': five})
        driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's',
                                                                           {'file_to_merge': four,
                                                                            'merge_target_file': base})
        assert below(directory / five) == [base, None]
        for _again in range(2):
            driver.features[contract.AssistedSnapshots].delete_volume_snapshot(None, instance, data.id, 's',
                                                                               {'file_to_merge': None})
        assert below(directory / five) == [None]
        data.path.unlink()
        driver.features[contract.Volumes].detach_volume(None, instance, data.device)
        # as its block storage tells of it later
        data.device['connection_info']['data'].update(device_path=str(directory / five), format='qcow2')
        driver.features[contract.Volumes].attach_volume(None, instance, data.device)
        rig.booted_again(instance, lambda: driver.power_on(None, instance, []))
        assert 'fifth' in read(rig, instance, '/dev/vdb', 5, block=3) and 'third' in read(rig, instance, '/dev/vdb', 5,
                                                                                           block=1)
        assert driver.storage.load(ident).volumes[0].source['format'] == 'qcow2'
        driver.features[contract.Volumes].detach_volume(None, instance, data.device)
    finally:
        shutil.rmtree(directory)


@long_runs.only
def test_a_guest_boots_from_a_volume_and_keeps_its_data(rig, volumes):
    root = volumes('/dev/vda', image=test_libvirt.GUEST / 'guest.qcow2', boot_index=0)
    data = volumes('/dev/vdb')
    made = test_libvirt.make_instance(root_gb=0)
    try:
        devices = [root.device, data.device]
        spawn(rig, made, image=None, block_devices=devices, config_drive={'openstack/latest/meta_data.json': b'{}'})
        rig.booted(made)
        run(rig, made, 'echo kept >/root/file; sync')
        write(rig, made, '/dev/vdb', 'data')
        rig.driver.destroy(None, made, [])
        assert root.path.exists() and rig.leftovers(made.uuid) == []
        again = test_libvirt.make_instance(root_gb=0)                     # another server of the same volumes
        try:
            spawn(rig, again, image=None, block_devices=devices)
            rig.booted(again)
            assert 'kept' in run(rig, again, 'cat /root/file') and 'data' in read(rig, again, '/dev/vdb', 4)
        finally:
            rig.driver.destroy(None, again, [])
    finally:
        rig.driver.destroy(None, made, [])


@long_runs.only
def test_a_guest_that_holds_a_volume_keeps_it(rig, instance, volumes, monkeypatch):
    """A guest whose kernel has not started hears no request."""
    monkeypatch.setattr(guest_power, 'RELEASE_S', 1)
    spawn(rig, instance)
    rig.driver.features[contract.Pause].pause(instance)
    held = volumes()
    rig.driver.features[contract.Volumes].attach_volume(None, instance, held.device)
    with pytest.raises(exception.VirtError, match='does not release it'):
        rig.driver.features[contract.Volumes].detach_volume(None, instance, held.device)
    assert [each.volume_id for each in rig.driver.storage.load(instance.uuid).volumes] == [held.id]


def test_volume_is_attached_to_a_guest_that_is_off(rig, instance, volumes, state_path):
    spawn(rig, instance)
    rig.driver.power_off(instance)
    data = volumes()
    rig.driver.features[contract.Volumes].attach_volume(None, instance, data.device)
    with open(data.path, 'r+b') as file:
        file.write(b'still')
    copy = state_path / 'copy-of-one-that-is-off'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', copy, '1G'], check=True)
    rig.driver.features[contract.VolumeCopies].copy_volume(None, instance, data.id, {'type': 'copy',
                                                                                     'new_file': str(copy)})
    assert content(copy, 5) == b'still'
    copy.unlink()
    rig.driver.features[contract.ExtendVolume].extend_volume(None, instance, {**data.device, 'volume_size': 2})
    assert data.path.stat().st_size == 2 * GIB
    rig.driver.power_on(None, instance, [])
    assert rig.driver.power_state(instance) == states.RUNNING
    rig.driver.power_off(instance)
    rig.driver.features[contract.Volumes].detach_volume(None, instance, data.device)
    rig.driver.power_on(None, instance, [])


def test_a_lost_file_is_a_clear_error(rig, instance, volumes):
    """Deleted behind the cloud's back: the guest stays as it was."""
    spawn(rig, instance)
    lost = volumes()
    lost.path.unlink()
    with pytest.raises(exception.VirtError):
        rig.driver.features[contract.Volumes].attach_volume(None, instance, lost.device)
    assert rig.driver.storage.load(instance.uuid).volumes == []
    assert rig.driver.power_state(instance) == states.RUNNING


@long_runs.only
def test_an_export_that_hangs_loses_nothing(rig, instance, volumes, state_path):
    """A guest waits for an export that is paused; what it wrote is there."""
    data = volumes()
    export = Export(pathlib.Path(state_path), data)
    export.start()
    try:
        spawn(rig, instance)
        rig.booted(instance)
        rig.driver.features[contract.Volumes].attach_volume(None, instance, {**data.device,
                                                                             'connection_info': export.info})
        wait_for(lambda: 'vdb' in run(rig, instance, 'ls /sys/block'), 60, 'the disk to be seen')
        write(rig, instance, '/dev/vdb', 'before')
        export.signal(signal.SIGSTOP)
        rig.type(instance, 'echo while | dd of=/dev/vdb bs=4096 seek=1 conv=fsync 2>/dev/null; echo "do""ne"')
        time.sleep(2)
        assert b'done' not in rig.console(instance)
        assert rig.driver.power_state(instance) == states.RUNNING          # others and the host are not held up
        export.signal(signal.SIGCONT)
        wait_for(lambda: b'done' in rig.console(instance), 60, 'the write to end')
        assert (data.read(6), data.read(5, 4096)) == (b'before', b'while')
        rig.driver.features[contract.Volumes].detach_volume(None, instance, data.device)
    finally:
        export.stop()


@long_runs.only
def test_a_swap_that_a_crash_cut_off_after_the_guest_had_it_is_finished(rig, instance, volumes):
    """The guest wrote to the new volume and went off by itself before nova-compute was back. The swap was taken back:
    what the guest wrote was on a volume that it did not have any more."""
    old, new = volumes(), volumes()
    spawn(rig, instance, block_devices=[old.device])
    rig.booted(instance)
    record = rig.driver.storage.load(instance.uuid)
    fresh = disk.Volume(new.id, record.volumes[0].target, 'virtio', {'type': 'file', 'path': str(new.path)})
    hypervisor, uuid = rig.driver.hypervisor, instance.uuid
    hypervisor.guest('swap', uuid, operations.begin_swap, fresh.target, xml.volume(fresh, record))
    wait_for(lambda: hypervisor.guest('swap', uuid, operations.swap_ready, fresh.target), 60, 'the copy')
    hypervisor.guest('swap', uuid, operations.end_swap, fresh.target)            # and here nova-compute was killed
    write(rig, instance, '/dev/' + fresh.target, 'after')
    rig.driver.power_off(instance)
    assert new.read(5) == b'after' and rig.driver.storage.load(uuid).volumes[0].volume_id == old.id
    for _attempt in range(2):
        rig.driver.features[contract.Volumes].swap_volume(None, instance, old.device, new.device)
    assert rig.driver.storage.load(uuid).volumes[0].volume_id == new.id
    rig.booted_again(instance, lambda: rig.driver.power_on(None, instance, []))
    assert 'after' in read(rig, instance, '/dev/' + fresh.target, 5)
    # a block storage that moves a volume gives it the old one's id
    for _attempt in range(2):
        rig.driver.features[contract.Volumes].rename_volume(None, instance, new.id, old.id)
    rig.driver.features[contract.Volumes].detach_volume(None, instance, {**new.device, 'volume_id': old.id})
    assert 'vdb' not in run(rig, instance, 'cat /proc/partitions') and rig.driver.storage.load(uuid).volumes == []
