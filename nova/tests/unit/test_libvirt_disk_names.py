"""Names of disks: one table of prefixes, one search for a free name."""
import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')

from nova import exception
from nova.virt.libvirt import xml
from nova.virt.libvirt.features import rescue
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.domain import volume_disks

EVERY = {f'vd{letter}' for letter in volume_disks.TARGET_LETTERS}


@pytest.mark.parametrize('bus, names, letters, name', [
    ('virtio', (), (), 'vda'), ('virtio', ('vda', 'vdc'), (), 'vdb'), ('scsi', ('vda',), (), 'sda'),
    ('scsi', ('vda',), ('a',), 'sdb'), ('usb', ('sda',), (), 'sdb'), ('fdc', (), (), 'fda'),
    ('ide', (), ('a', 'b'), 'hdc'), ('ide', ('hda', 'hdb', 'hdc', 'hdd'), (), None), ('fdc', ('fda', 'fdb'), (), None),
    ('virtio', EVERY, (), None), ('virtio', (), volume_disks.TARGET_LETTERS, None)])
def test_the_first_name_that_is_free(bus, names, letters, name):
    assert volume_disks.free_target(bus, names, letters) == name


def test_new_disks_share_no_letter_whatever_their_buses():
    target = new_disks._targets(['b'], ['vda'])
    assert [target('virtio'), target('scsi'), target('virtio')] == ['vdc', 'sda', 'vdd']


def test_ide_has_four_names_which_may_share_letters_with_other_buses():
    target = new_disks._targets(['b', 'd'], ['hdc'])
    assert [target('virtio'), target('ide'), target('ide'), target('ide')] == ['vda', 'hda', 'hdb', 'hdd']
    with pytest.raises(exception.VirtError, match='letters of device names on the bus ide'):
        target('ide')


def test_a_volume_gets_the_letter_that_it_asks_for_or_the_first_one():
    taken = {'vda', 'vdf'}
    names = ('/dev/xvdc', '/dev/vdf', '/dev/vd9', '', None)
    assert [volume_disks._target(name, 'virtio', taken) for name in names] == ['vdc', 'vdb', 'vdb', 'vdb', 'vdb']
    assert volume_disks._target('/dev/vde', 'ide', taken) == 'hda'


def test_a_disk_more_than_there_are_letters_is_refused_in_words():
    target = new_disks._targets(volume_disks.TARGET_LETTERS)
    for more in (lambda: target('virtio'), lambda: rescue.free_target('virtio', EVERY),
                 lambda: volume_disks._target(None, 'virtio', EVERY)):
        with pytest.raises(exception.VirtError, match='letter'):
            more()


def test_local_disks_have_every_bus_but_that_of_floppies():
    assert set(xml.DISK_BUSES) == set(volume_disks.TARGET_PREFIXES) - {'fdc'}
