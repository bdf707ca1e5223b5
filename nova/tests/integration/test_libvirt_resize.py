"""Resizing real QEMU guests on their own host; the same needs as test_libvirt.py."""
import os
import pathlib
import subprocess

import pytest

from nova import exception
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_resize
from nova.tests.support.libvirt_resize import GIB
from nova.tests.support.libvirt_resize import resize
from nova.tests.support.libvirt_resize import size
from nova.tests.support.volume_files import begin
from nova.virt import driver as contract

instance = libvirt_resize.instance
module_rig, rig = libvirt_resize.module_rig, libvirt_resize.rig
state_path = libvirt_resize.state_path


pytestmark = base.pytestmark
libvirt = base.libvirt
def definition(instance):
    """(MiB of memory, vCPUs, files of the disks)."""
    connection = libvirt.open(base.URI)
    domain = connection.lookupByUUIDString(instance.uuid)
    found = domain.info()[1] // 1024, domain.info()[3], [
        source.get('file') for source in base.etree.fromstring(domain.XMLDesc(0)).findall('./devices/disk/source')]
    connection.close()
    return found


def test_a_guest_grows_and_shrinks_back(rig, instance):
    """Its disk, memory and processors; what it wrote comes along, what it writes afterwards is gone with a revert."""
    base.spawn(rig, instance)
    rig.booted(instance)
    disk = rig.driver.storage.path(instance.uuid, 'disk')
    assert size(disk) == GIB
    before = resize(rig, instance, vcpus=2, memory_mb=192, root_gb=2, ephemeral_gb=1,
                    flavor={'name': 'big', 'swap': 64})
    memory, vcpus, disks = definition(instance)
    assert (memory, vcpus) == (192, 2) and size(disk) == 2 * GIB
    assert [os.path.basename(path) for path in disks] == ['disk', 'disk.ephemeral0', 'disk.swap']
    rig.booted(instance)
    for name, value in before.items():
        setattr(instance, name, value)
    rig.driver.features[contract.Resize].drop_migrated(None, instance, [])
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    memory, vcpus, disks = definition(instance)
    assert (memory, vcpus) == (128, 1) and size(disk) == GIB and len(disks) == 1
    rig.booted(instance)


@long_runs.only
def test_a_header_that_a_guest_wrote_is_data(state_path):
    """The guest of a raw disk writes a qcow2 header that names a file of the host: nobody reads it as one."""
    path = state_path / 'raw'
    path.mkdir(mode=0o711)
    rig = base.Rig(path)
    rig.driver = base.make_driver(path, rig.images, libvirt__images_type='raw')
    rig.driver.init_host()
    instance = base.make_instance(memory_mb=64)
    try:
        base.spawn(rig, instance)
        rig.driver.power_off(instance)
        evil, disk = path / 'evil', pathlib.Path(rig.driver.storage.path(instance.uuid, 'disk'))
        subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-u', '-b', '/etc/passwd', '-F', 'raw', evil,
                        '8G'], check=True)
        with open(disk, 'r+b') as file:
            file.write(evil.read_bytes()[:65536])
        head = begin(disk, 65536)
        resize(rig, instance, power_on=False, root_gb=2)
        assert disk.stat().st_size == 2 * GIB and begin(disk, 65536) == head
        connection = libvirt.open(base.URI)
        text = connection.lookupByUUIDString(instance.uuid).XMLDesc(0)
        connection.close()
        assert "type='raw'" in text and text.count('<backingStore') == text.count('<backingStore/>')
        assert 'passwd' not in text
    finally:
        rig.driver.destroy(None, instance, [])
        rig.driver.stop()
    assert not list(pathlib.Path(rig.driver.storage.directory).glob(f'{instance.uuid}*'))


@long_runs.only
def test_the_image_of_a_guest_that_was_put_aside_stays_cached(rig, instance):
    base.spawn(rig, instance)
    rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    backup = rig.driver.storage.load_backup(instance.uuid)
    bases = {disk.backing_file for disk in backup.disks if disk.backing_file}
    for path in bases:
        os.utime(path, (1, 1))
    rig.driver.storage.remove_unused_images()
    assert bases and all(os.path.exists(path) for path in bases)
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    rig.booted(instance)


@long_runs.only
def test_stale_resize_backup_is_replaced_by_the_next_move(rig, instance):
    """A move that was given up without its host: the next one begins with the guest as it is now."""
    base.spawn(rig, instance)
    stale = pathlib.Path(rig.driver.storage.backup_path(instance.uuid))
    stale.mkdir()
    (stale / 'guest.json').write_text('{}')
    rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    assert (stale / 'disk').exists()
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    assert rig.driver.features[contract.Resize].resize_backups() == []


@long_runs.only
def test_a_resize_that_fails_leaves_what_was_put_aside(rig, instance):
    base.spawn(rig, instance)
    sent = rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    image = {**rig.image, 'properties': {'hw_machine_type': 'no machine'}}
    with pytest.raises(exception.ImageUnacceptable):
        rig.driver.features[contract.Resize].finish_migration(None, instance, sent,
                                                              contract.SpawnRequest(image=image, network_info=[]), True)
    assert instance.uuid not in rig.driver.guests()
    assert rig.driver.features[contract.Resize].resize_backups() == [instance.uuid]
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    rig.booted(instance)
