"""Guests with encrypted local disks, by the real QEMU: what lies on the host, and who can open it; the same needs as
test_libvirt.py."""
import dataclasses
import pathlib
import secrets
import subprocess

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_encryption
from nova.tests.support import libvirt_resize as test_libvirt_resize
from nova.tests.support import libvirt_volumes as test_libvirt_volumes
from nova.tests.support.libvirt_encryption import LUKS
from nova.tests.support.libvirt_encryption import MARK
from nova.tests.support.libvirt_encryption import everything_said
from nova.tests.support.libvirt_encryption import libvirt
from nova.tests.support.libvirt_encryption import libvirt_secrets
from nova.virt import driver as contract

instance = libvirt_encryption.instance
keys = libvirt_encryption.keys
module_rig, rig = libvirt_encryption.module_rig, libvirt_encryption.rig
state_path = libvirt_encryption.state_path


pytestmark = base.pytestmark
def spawn(rig, instance):
    rig.driver.spawn(None, instance, contract.SpawnRequest(
        image=rig.image, network_info=[], config_drive={'openstack/latest/user_data': MARK.encode() * 100}))


def files(rig, instance):
    return sorted(pathlib.Path(rig.driver.storage.path(instance.uuid)).glob('disk*'))


def test_data_and_key_of_an_encrypted_guest_are_not_on_the_host(rig, instance, keys, caplog):
    """Every disk has a LUKS header; the key is in no file, log, definition or command line. After a stop and a start,
    and with a service and a libvirt that have forgotten all, the guest finds what it wrote."""
    spawn(rig, instance)
    rig.booted(instance)
    rig.type(instance, f'echo {MARK} >/mark; for i in 1 2 3 4 5 6 7 8; do cat /mark; done >/marks; sync; '
                       f'dd if=/marks of=/dev/vdb conv=fsync')
    rig.type(instance, 'sync')
    found = files(rig, instance)
    assert [path.name for path in found] == ['disk', 'disk.config', 'disk.swap']
    for path in found:
        content = path.read_bytes()
        assert LUKS in content and MARK.encode() not in content, path
    key = keys[instance.uuid]
    said = everything_said(rig, instance)
    assert key.encode() not in said and b"format='luks'" in said and key not in caplog.text
    with pytest.raises(libvirt.libvirtError):            # private: nobody reads it back
        libvirt_secrets()[instance.uuid].value()
    rig.driver.power_off(instance)
    subprocess.run(['virsh', '-q', 'secret-undefine', instance.uuid], check=True)        # as with a host that was off
    again = base.make_driver(pathlib.Path(rig.driver.storage.directory).parent, rig.images)
    again.init_host()
    try:
        with pytest.raises(exception.VirtError, match='no access to the keys'):
            again.power_on(None, instance, [])
        again.use_keys(keys.__getitem__)
        before = rig.booted_again(instance, lambda: again.power_on(None, instance, []))
    finally:
        again.stop()
    rig.type(instance, 'cat /mark; head -c 21 /dev/vdb')
    base.wait_for(lambda: rig.console(instance)[before:].count(MARK.encode()) >= 2, base.BOOT_SECONDS,
                  'the content of both disks')
    rig.driver.destroy(None, instance, [])
    assert instance.uuid not in libvirt_secrets()


@long_runs.only
def test_a_resize_keeps_the_key_and_a_copy_in_the_clear_is_refused(rig, instance, keys):
    spawn(rig, instance)
    with pytest.raises(exception.VirtError, match='encrypted, and the copy would not be'):
        rig.driver.features[contract.Snapshot].snapshot(None, instance, 'x', lambda _state: None)
    with pytest.raises(exception.VirtError, match='the file of its memory would not be'):
        rig.driver.features[contract.Suspend].suspend(instance)
    assert rig.driver.power_state(instance) == states.RUNNING
    before = test_libvirt_resize.resize(rig, instance, root_gb=2, ephemeral_gb=1)
    root = pathlib.Path(rig.driver.storage.path(instance.uuid, 'disk'))
    assert test_libvirt_resize.size(root) == 2 * test_libvirt_resize.GIB
    assert all(LUKS in path.read_bytes()[:1 << 22] for path in files(rig, instance))
    rig.booted(instance)
    for name, value in before.items():
        setattr(instance, name, value)
    rig.driver.features[contract.Resize].drop_migrated(None, instance, [])
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    rig.booted(instance)
    assert test_libvirt_resize.size(root) == test_libvirt_resize.GIB and len(keys) == 1


@long_runs.only
def test_rescue_disks_are_encrypted(rig, instance, keys):
    spawn(rig, instance)
    rig.booted(instance)
    rig.booted_again(instance, lambda: rig.driver.features[contract.Rescue].rescue(
        None, instance, [], rig.image, MARK, [], {'openstack/latest/meta_data.json': MARK.encode()}))
    found = {path.name: path.read_bytes() for path in files(rig, instance)}
    assert {'disk', 'disk.rescue', 'disk.configrescue'} <= set(found)
    assert all(LUKS in content and MARK.encode() not in content for content in found.values())
    rig.type(instance, 'blkid /dev/vdb >/dev/null; head -c 510 /dev/vdb >/dev/null && echo opened-$((40+2))')
    base.wait_for(lambda: b'opened-42' in rig.console(instance), base.BOOT_SECONDS, 'its own disk')
    rig.booted_again(instance, lambda: rig.driver.features[contract.Rescue].unrescue(None, instance, []))
    assert len(keys) == 1 and not [path for path in files(rig, instance) if 'rescue' in path.name]


@long_runs.only
def test_a_wrong_key_opens_nothing(rig, instance, keys):
    spawn(rig, instance)
    rig.driver.power_off(instance)
    keys[instance.uuid] = secrets.token_hex(32)
    with pytest.raises(exception.VirtError):
        rig.driver.power_on(None, instance, [])
    assert 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKS' in rig.driver.guest_traits()


@long_runs.only
def test_another_host_is_not_believed_in_whose_key_a_disk_has(rig, instance, keys):
    from nova.virt.libvirt.moves import transferred_record
    spawn(rig, instance)
    guest = rig.driver.storage.load(instance.uuid)
    values = transferred_record.packed(guest)
    made = transferred_record.unpacked(values, instance.uuid, rig.driver.storage, 'qemu', [])
    assert [disk.secret for disk in made.disks] == [instance.uuid] * 3
    values['disks'][0]['secret'] = '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d11'
    with pytest.raises(exception.VirtError):
        transferred_record.unpacked(values, instance.uuid, rig.driver.storage, 'qemu', [])
    plain = dataclasses.replace(guest, disks=[dataclasses.replace(disk, secret=None) for disk in guest.disks])
    assert [disk['secret'] for disk in transferred_record.packed(plain)['disks']] == [None] * 3


# ---- volumes

def test_a_volume_that_is_said_to_be_encrypted_and_is_not(rig, state_path, instance):
    made = test_libvirt_volumes.Volume(state_path)
    made.device['connection_info']['data']['encrypted'] = True
    rig.driver.use_keys(rig.driver.disk_key, lambda uuid, volume_id: '5' * 64)
    base.spawn(rig, instance)
    with pytest.raises(exception.VirtError, match='(?i)luks'):
        rig.driver.features[contract.Volumes].attach_volume(None, instance, made.device)
    assert rig.driver.storage.load(instance.uuid).volumes == []
    made.path.unlink()
