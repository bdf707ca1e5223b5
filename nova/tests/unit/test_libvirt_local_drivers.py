"""Where the disks of guests lie is an entry point: an example of another package, and what a wrong name gets."""
import os
import sys

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import conf as configuration
from nova import exception
from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.runtime import progress
from nova.tests.support import libvirt_storage as base
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import backends
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import rbd
from nova.virt.libvirt.local_disks import storage

HERE = 'nova.tests.unit.test_libvirt_local_drivers'
MIB = 2 ** 20
images = base.images


class Allocated(local_files.Files):
    """The example: raw files whose room is taken when they are made, so that no guest meets a full disk later."""

    def from_image(self, path, image_id, base, size, target, bus, report=progress.ignore):
        self.qemu_img.convert(base.path, base.format, path, 'raw')
        with open(path, 'r+b') as file:
            os.posix_fallocate(file.fileno(), 0, size)
        files.give_to_guest(path)
        return xml.Disk(path, 'raw', target, bus, cache=self.cache)

    def grow(self, disk, size):
        with open(disk.file, 'r+b') as file:
            os.posix_fallocate(file.fileno(), 0, size)


@pytest.fixture
def package(tmp_path):
    """A distribution of somebody else."""
    folder = tmp_path / 'site'
    info = folder / 'allocated_disks-1.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: allocated-disks\nVersion: 1\n')
    (info / 'entry_points.txt').write_text(f'[{backends.GROUP}]\nallocated = {HERE}:Allocated\n')
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


def place(name, directory='/'):
    return backends.configured(configuration.new(files=[], libvirt__images_type=name), directory, qemu_img.QemuImg(60),
                            'here')


@pytest.mark.parametrize('name', ['allocated', f'{HERE}.Allocated'])
def test_a_driver_of_another_package_makes_the_root_disks(package, tmp_path, images, name):
    (tmp_path / 'image').write_bytes(b'boot!' + bytes(4 * MIB - 5))
    directory = str(tmp_path / 'instances')
    store = storage.Storage(directory, images, qemu_img.QemuImg(60), disks=place(name, directory), host='here')
    store.prepare()
    _instance, (disks, _files) = base.create(store, images.add('one', tmp_path / 'image', 'raw'), root_gb=0)
    status = os.stat(disks[0].file)
    assert status.st_blocks * 512 >= status.st_size == 4 * MIB and disks[0].format == 'raw'
    with open(disks[0].file, 'rb') as file:
        assert file.read(5) == b'boot!'
    store.backends.of(disks[0]).grow(disks[0], 8 * MIB)
    assert os.stat(disks[0].file).st_blocks * 512 >= 8 * MIB == store.backends.of(disks[0]).size(disks[0])


@pytest.mark.parametrize(('name', 'kind'), [('qcow2', local_files.Qcow2), ('raw', local_files.Raw), ('rbd', rbd.Rbd)])
def test_storage_backends_are_entry_points(name, kind):
    assert type(place(name)) is kind


@pytest.mark.parametrize('name', ['lvm', 'nova.nothing.Here'])
def test_a_wrong_name_is_told_what_there_is(package, name):
    with pytest.raises(exception.InvalidOption, match='Use one of allocated, qcow2, raw, rbd, or the path of a class'):
        place(name)
