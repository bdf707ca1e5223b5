"""What a host takes of the files that another host names and sends: without a hypervisor, on real files."""
import os
import pathlib
import subprocess
import types

import pytest

from nova import conf as configuration
from nova import exception
from nova import objects
from nova.disk_files import qemu_img
from nova.tests.support import libvirt_moves as moves
from nova.virt.libvirt import guest_power
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import transferred_record

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.features import cold_moves

UUID = moves.UUID
THERE = f'/var/lib/nova/instances/{UUID}_kept'


def make(*words):
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', *map(str, words)], check=True)


@pytest.fixture
def two(tmp_path, monkeypatch):
    """A destination; ``asked`` has the directories that were fetched from, ``sends`` makes what comes."""
    stored = moves.store(tmp_path / 'two', 'two')
    stored.backends._qemu_img = stored.backends.files.qemu_img = qemu_img.QemuImg(60, False)
    os.mkdir(stored.path(UUID))
    conf = configuration.new(files=[], libvirt__live_migration_uri='of:%s')
    made = types.SimpleNamespace(storage=stored, asked=[], feature=cold_moves.ColdMoves(
        conf, 'two', guest_power.GuestPower(stored, None), platform=None,
        addresses=disk_transfer.LibvirtAddresses(conf)))
    monkeypatch.setattr(stored.cache, 'has', lambda context, path: False)
    made.sends = {'disk': lambda path: make(path, '1M'), 'img.qcow2': lambda path: make(path, '1M'),
                  'disk.base': lambda path: make(path, '1M')}

    def fetch(uri, directory, names, target, timeout_s, copies=None, reserve=None):
        made.asked.append((uri, directory))
        for name in names:
            made.sends.get(name, lambda path: pathlib.Path(path).write_bytes(b''))(os.path.join(target, name))
    monkeypatch.setattr(disk_transfer, 'fetch', fetch)
    return made


def come(two, source=None, backing='img.qcow2'):
    values = moves.sent(two.storage)
    values['disks'][0]['backing_file'] = f'/x/_base/{backing}'
    guest = transferred_record.unpacked(values, UUID, two.storage, 'qemu', [moves.VIF])
    instance = objects.Instance(uuid=UUID, root_gb=0, ephemeral_gb=0, flavor={}, image_properties={})
    return two.feature._fetch(None, instance, guest, source or {'address': 'one', 'directory': THERE}, set(), None)[0]


def test_the_files_of_a_guest_come_from_its_own_directory(two):
    disks = come(two)
    assert two.asked == [('of:one', THERE), ('of:one', '/var/lib/nova/instances/_base')]
    assert disks[0].backing_file == two.storage.path(UUID, 'disk.base')


def test_received_backing_image_is_fetched_again(two):
    assert come(two, backing='disk.base')[0].backing_file == two.storage.path(UUID, 'disk.base')
    assert two.asked == [('of:one', THERE)] * 2


@pytest.mark.parametrize('source', [
    {'directory': '/var/lib/nova/instances/8a8f0f7e-55c2-4b2c-9d5e-0f4a4a1f0c12'},
    {'directory': f'/var/lib/nova/instances/8a8f0f7e-55c2-4b2c-9d5e-0f4a4a1f0c12/../{UUID}'}, {'directory': UUID},
    {'directory': '/etc'}, {'directory': None}, {'directory': [UUID]}, {}])
def test_a_host_that_was_taken_over_names_the_disks_of_no_other_guest(two, source):
    """It could let a third host, which trusts the destination, send them, and the guest would have their content."""
    with pytest.raises(exception.VirtError, match='not valid'):
        come(two, {'address': 'third', **source})
    assert two.asked == []


@pytest.mark.parametrize('name', ['disk', 'img.qcow2'])
def test_a_disk_that_comes_has_its_data_in_no_file_of_this_host(two, tmp_path, name):
    """QEMU opens what the header names, and with it any disk of this host's other guests."""
    victim = tmp_path / 'victim'
    victim.write_bytes(b'x' * (1 << 20))
    two.sends[name] = lambda path: make('-o', f'data_file={victim},data_file_raw=on', path, '1M')
    with pytest.raises(exception.VirtError, match='not valid'):
        come(two)


def test_received_image_with_a_backing_file_is_refused(two, tmp_path):
    make(tmp_path / 'below', '1M')
    two.sends['img.qcow2'] = lambda path: make('-b', tmp_path / 'below', '-F', 'qcow2', path)
    with pytest.raises(exception.VirtError, match='not valid'):
        come(two)
