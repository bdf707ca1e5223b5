"""Rescuing real QEMU guests; the same needs as test_libvirt.py."""
import json
import os
import pathlib
import subprocess

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_volumes
from nova.virt import driver as contract

pytestmark = base.pytestmark
libvirt = base.libvirt
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
volumes = libvirt_volumes.volumes


def rescue_image(rig, **properties):
    return {**rig.image, 'properties': properties}


def rescue_files(rig, instance):
    return sorted(path.name for path in pathlib.Path(rig.driver.storage.path(instance.uuid)).glob('*rescue'))


def targets(instance):
    """[(kind, name, bus)] of the disks of the guest that runs."""
    connection = libvirt.open(base.URI)
    text = connection.lookupByUUIDString(instance.uuid).XMLDesc(0)
    connection.close()
    return [(disk.get('device'), disk.find('target').get('dev'), disk.find('target').get('bus'))
            for disk in base.etree.fromstring(text).findall('./devices/disk')]


def starts(rig, instance):
    """How often its system has come up."""
    return rig.console(instance).count(b'guest ready')


def wait_for_start(rig, instance, number):
    """Wait until its system has come up ``number`` times, and can be typed at."""
    base.wait_for(lambda: starts(rig, instance) >= number and base.PROMPT in rig.console(instance).rpartition(
        b'guest ready')[2], base.BOOT_SECONDS, 'the guest to boot')


def answer(rig, instance, line, expected):
    rig.type(instance, line)
    base.wait_for(lambda: expected in rig.console(instance), base.BOOT_SECONDS, f'{expected!r}')


def test_a_broken_guest_is_repaired(rig, instance, volumes):
    """Its own disk is the second one; what is written there is there afterwards, and the rescue's disk is gone."""
    base.spawn(rig, instance, config_drive={'openstack/latest/meta_data.json': b'{}'})
    wait_for_start(rig, instance, 1)
    answer(rig, instance, 'echo own >/root/whose; sync; echo is $((40 + 2))', b'is 42')
    data = volumes('/dev/vdc')
    rig.driver.features[contract.Volumes].attach_volume(None, instance, data.device)
    password = json.dumps({'uuid': instance.uuid, 'hostname': 'rescue', 'admin_pass': 'pass-of-rescue'}).encode()
    rig.driver.features[contract.Rescue].rescue(None, instance, [], rig.image, 'pass-of-rescue', [],
                                                {'openstack/latest/meta_data.json': password})
    assert targets(instance) == [('disk', 'vda', 'virtio'), ('disk', 'vdb', 'virtio'), ('disk', 'vdc', 'virtio')]
    rig.driver.features[contract.ExtendVolume].extend_volume(None, instance, {**data.device, 'volume_size': 2})
    for name, size in (('vdb', libvirt_volumes.GIB), ('vdc', None)):     # the volume's name is another disk's now
        found = rig.driver.hypervisor.guest('look', instance.uuid, lambda domain, name=name: domain.blockInfo(name)[0])
        assert found == size or size is None and found < libvirt_volumes.GIB // 2
    assert data.path.stat().st_size == 2 * libvirt_volumes.GIB
    wait_for_start(rig, instance, 2)
    answer(rig, instance, 'mount /dev/vdb2 /tmp && echo found $(cat /tmp/root/whose); echo repaired >/tmp/root/whose',
           b'found own')
    answer(rig, instance, 'grep -o pass-of-[r]escue /run/config/openstack/latest/meta_data.json', b'pass-of-rescue\r')
    rig.type(instance, 'umount /tmp; sync')
    assert rescue_files(rig, instance) == ['disk.configrescue', 'disk.rescue']
    rig.driver.features[contract.Rescue].unrescue(None, instance, [])
    assert targets(instance) == [('disk', 'vda', 'virtio'), ('disk', 'vdb', 'virtio'), ('disk', 'vdc', 'virtio')]
    wait_for_start(rig, instance, 3)
    answer(rig, instance, 'echo back $(cat /root/whose)', b'back repaired')
    assert rescue_files(rig, instance) == []


@long_runs.only
@pytest.mark.parametrize('device, bus, name', [
    pytest.param('disk', 'scsi', 'sda', marks=long_runs.only), pytest.param('disk', 'usb', 'sda', marks=long_runs.only),
    ('cdrom', 'ide', 'hda')])
def test_a_stable_rescue_adds_a_disk(rig, instance, device, bus, name):
    """Every device stays what it is; the boot loader that runs is that of the rescue disk (emulated, and by the BIOS,
    all but SCSI takes minutes: the others are seen in the definition of the guest that runs)."""
    base.spawn(rig, instance)
    wait_for_start(rig, instance, 1)
    answer(rig, instance, 'dd if=/dev/zero of=/dev/vda bs=440 count=1 conv=notrunc; sync; echo zero $((40 + 3))',
           b'zero 43')                               # its own boot loader is gone
    rig.driver.features[contract.Rescue].rescue(None, instance, [], rescue_image(rig, hw_rescue_device=device,
                                                                                 hw_rescue_bus=bus), 'x', [])
    assert targets(instance) == [('disk', 'vda', 'virtio'), (device, name, bus)]
    if bus == 'scsi':
        wait_for_start(rig, instance, 2)
    rig.driver.features[contract.Rescue].unrescue(None, instance, [])
    assert targets(instance) == [('disk', 'vda', 'virtio')] and rescue_files(rig, instance) == []


@long_runs.only
def test_rescue_image_may_have_kernel_and_ramdisk(rig, instance):
    image = {**rig.images.show(None, base.ROOT_ID),
             'properties': {'kernel_id': base.KERNEL_ID, 'ramdisk_id': base.RAMDISK_ID}}
    base.spawn(rig, instance)
    rig.driver.power_off(instance)
    rig.driver.features[contract.Rescue].rescue(None, instance, [], image, 'x', [])
    assert rescue_files(rig, instance) == ['disk.rescue', 'kernel.rescue', 'ramdisk.rescue']
    wait_for_start(rig, instance, 1)
    answer(rig, instance, 'sed -n "s/.*root=.dev.\\([a-z]*\\).*/<\\1>/p" /proc/cmdline', b'<vda>')
    rig.driver.features[contract.Rescue].unrescue(None, instance, [])
    assert rescue_files(rig, instance) == []


@long_runs.only
def test_a_rescued_guest_is_rescued_after_a_restart(rig, instance):
    """The record says it: a guest that the host lost comes back as it was."""
    base.spawn(rig, instance)
    rig.driver.features[contract.Rescue].rescue(None, instance, [], rig.image, 'x', [])
    rig.driver.destroy(None, instance, [], keep_disks=True)
    rig.driver.power_on(None, instance, [])
    assert len(targets(instance)) == 2
    base_files = {disk.backing_file for disk in rig.driver.storage.load(instance.uuid).rescued.disks}
    for path in base_files:
        os.utime(path, (1, 1))
    rig.driver.storage.remove_unused_images()
    assert all(os.path.exists(path) for path in base_files)


@pytest.mark.parametrize('properties', [{'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'virtio'},
                                        {'hw_rescue_device': 'tape'}, {'hw_rescue_bus': 'fdc'}])
def test_an_impossible_rescue_leaves_the_guest_with_its_disks(rig, instance, properties):
    base.spawn(rig, instance)
    with pytest.raises(exception.ImageUnacceptable):
        rig.driver.features[contract.Rescue].rescue(None, instance, [], rescue_image(rig, **properties), 'x', [])
    assert rescue_files(rig, instance) == [] and rig.driver.power_state(instance) == states.SHUTDOWN
    rig.driver.power_on(None, instance, [])
    assert targets(instance) == [('disk', 'vda', 'virtio')]


def test_a_rescue_that_does_not_start_leaves_the_guest_with_its_disks(rig, instance, tmp_path, monkeypatch):
    base.spawn(rig, instance)
    monkeypatch.setitem(rig.images.rows, 'bad', ('qcow2', tmp_path / 'bad'))
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', tmp_path / 'bad', '3G'], check=True)
    with pytest.raises(exception.ImageUnacceptable):         # larger than the server's disk may be
        rig.driver.features[contract.Rescue].rescue(None, instance, [], rig.images.show(None, 'bad'), 'x', [])
    assert rescue_files(rig, instance) == []
    rig.driver.power_on(None, instance, [])
