"""Real guests of ISO images and of disks of other programs; the same needs as test_libvirt.py."""
import os
import pathlib
import subprocess

import pycdlib
import pytest

from nova import states
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = base.pytestmark
libvirt = base.libvirt
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance

# 16-bit code at 0x7c00. It prints a line at the first serial port, writes the sector behind itself as the first one of
# the first disk (BIOS function 0x13/3), prints 'installed' or 'no disk', and resets the machine.
INSTALLER = bytes.fromhex(
    'fa31c08ed88ec08ed0bc007cfcbe4b7ce82000b80103b90100ba8000bb007ecd13be717c7203be657ce80700b0fee664f4ebfdac84c0741288'
    'c3bafd03eca82074fbbaf80388d8eeebe9c3737461727465642066726f6d207468652043442d524f4d0d0a00696e7374616c6c65640d0a006e'
    '6f206469736b0d0a')
# Prints a line at the first serial port and halts.
INSTALLED = bytes.fromhex(
    '31c08ed88ed0bc007cfcbe277cac84c0741288c3bafd03eca82074fbbaf80388d8eeebe9f4ebfd737461727465642066726f6d207468652064'
    '69736b0d0a').ljust(510, b'\0') + b'\x55\xaa'
CD, DISK = b'started from the CD-ROM', b'started from the disk'
FOREIGN = {'vmdk': ('vmdk', 'subformat=streamOptimized'), 'vdi': ('vdi', None), 'vhdx': ('vhdx', None),
           'vhd': ('vpc', None)}


def medium(path):
    """A CD-ROM that a BIOS boots (El Torito, without emulation)."""
    made = pycdlib.PyCdlib()
    made.new()
    code = (INSTALLER.ljust(512, b'\0') + INSTALLED).ljust(2048, b'\0')
    source = path.with_suffix('.boot')
    source.write_bytes(code)
    made.add_file(str(source), '/BOOT.;1')
    made.add_eltorito('/BOOT.;1', boot_load_size=4)
    made.write(str(path))
    made.close()


@pytest.fixture
def iso(rig, tmp_path, monkeypatch):
    medium(tmp_path / 'medium.iso')
    monkeypatch.setitem(rig.images.rows, 'medium', ('iso', tmp_path / 'medium.iso'))

    def image(**properties):
        return {**rig.images.show(None, 'medium'), 'properties': properties}
    return image


def printed(rig, instance, line):
    base.wait_for(lambda: line in rig.console(instance), base.BOOT_SECONDS, f'{line!r}')


@pytest.mark.parametrize('properties', [{}, {'hw_machine_type': 'q35'}, {'hw_cdrom_bus': 'scsi'}])
def test_a_system_is_installed_from_an_iso_image(rig, instance, iso, properties):
    rig.driver.spawn(None, instance, contract.SpawnRequest(image=iso(**properties), network_info=[]))
    printed(rig, instance, DISK)                             # after the reset, without a word of ours
    assert rig.console(instance).index(CD) < rig.console(instance).index(DISK)
    assert rig.console(instance).count(CD) == 1
    rig.driver.destroy(None, instance, [], keep_machine=True)
    rig.driver.spawn(None, instance, contract.SpawnRequest(image=iso(**properties), network_info=[], keep_machine=True))
    printed(rig, instance, CD)                               # rebuilt: its disk is blank again
    printed(rig, instance, DISK)


def test_a_guest_is_rescued_from_an_iso_image(rig, instance, iso):
    base.spawn(rig, instance)
    rig.driver.power_off(instance)
    rig.driver.features[contract.Rescue].rescue(None, instance, [], iso(hw_rescue_device='cdrom'), 'x', [])
    printed(rig, instance, CD)
    assert rig.driver.power_state(instance) == states.RUNNING
    rig.driver.power_off(instance)


def test_the_root_disk_comes_when_a_rescue_system_of_the_same_image_has_booted(rig, instance):
    base.spawn(rig, instance)
    base.wait_for(lambda: rig.console(instance).count(b'guest ready') == 1, base.BOOT_SECONDS, 'the guest to boot')
    rig.driver.power_off(instance)
    instance.image_id = rig.image['id']
    rig.driver.features[contract.Rescue].rescue(None, instance, [], rig.image, 'x', [])
    assert rig.console(instance).count(b'guest ready') == 2          # before the disk came
    base.wait_for(lambda: base.PROMPT in rig.console(instance).rpartition(b'guest ready')[2], base.BOOT_SECONDS,
                  'the rescue system')
    # the kernel of the rescue system needs a moment to find the disk
    rig.type(instance, 'until mount /dev/vdb2 /tmp; do sleep 1; done; '
                       'echo mounted-$((40 + 2)) $(ls /sys/block | grep vd | tr "\\n" -)')
    printed(rig, instance, b'mounted-42 vda-vdb-')
    rig.driver.features[contract.Rescue].unrescue(None, instance, [])
    base.wait_for(lambda: rig.console(instance).count(b'guest ready') == 3, base.BOOT_SECONDS, 'the guest to boot')


@pytest.mark.parametrize('disk_format', FOREIGN)
def test_a_guest_boots_from_a_disk_of_another_program(rig, instance, tmp_path, monkeypatch, disk_format):
    name, option = FOREIGN[disk_format]
    path = tmp_path / 'disk'
    subprocess.run(['qemu-img', 'convert', '-O', name, *(('-o', option) if option else ()),
                    base.GUEST / 'guest.qcow2', path], check=True)
    monkeypatch.setitem(rig.images.rows, 'foreign', (disk_format, path))
    rig.driver.spawn(None, instance, contract.SpawnRequest(image=rig.images.show(None, 'foreign'), network_info=[]))
    rig.booted(instance)
    cached = pathlib.Path(rig.driver.storage.directory) / '_base' / 'foreign.qcow2'
    subprocess.run(['qemu-img', 'compare', '-F', 'qcow2', '-f', 'qcow2', cached, base.GUEST / 'guest.qcow2'],
                   check=True)
    rig.driver.destroy(None, instance, [])
    os.unlink(cached)
