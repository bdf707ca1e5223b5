"""Root disks that share their blocks with the cached image, on real file systems: btrfs and XFS in a file."""
import os
import shutil
import subprocess
import tempfile

import pytest

from nova.disk_files import qemu_img
from nova.disk_files import reflink
from nova.tests.support import libvirt_storage as base
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import storage

MIB, GIB = 1024 ** 2, 1024 ** 3
MAKE = {'btrfs': ['mkfs.btrfs', '-q'], 'xfs': ['mkfs.xfs', '-q', '-m', 'reflink=1'], 'ext4': ['mkfs.ext4', '-q', '-F']}

pytestmark = base.needs_qemu_img
images = base.images


def mount(kind, tmp_path):
    """Directory of a new file system of 512 MiB, or a skip."""
    device, directory = tmp_path / f'{kind}.img', tmp_path / kind
    device.touch()
    os.truncate(device, 512 * MIB)
    directory.mkdir()
    if not shutil.which(MAKE[kind][0]):
        pytest.skip(f'{MAKE[kind][0]} is not installed')
    subprocess.run([*MAKE[kind], str(device)], check=True, capture_output=True)
    done = subprocess.run(['mount', '-o', 'loop', str(device), str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f'{kind} cannot be mounted here: {done.stderr.strip()}')
    return directory


@pytest.fixture
def mounted(request, tmp_path):
    directory = mount(request.param, tmp_path)
    yield directory
    subprocess.run(['umount', str(directory)], check=True)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / 'image'
    path.write_bytes(os.urandom(64 * MIB))
    return path


def used(directory):
    os.sync()
    status = os.statvfs(directory)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def make(directory, images):
    tool, path = qemu_img.QemuImg(60), str(directory / 'instances')
    store = storage.Storage(path, images, tool, disks=local_files.Raw(path, tool))
    store.prepare()
    return store


@pytest.mark.parametrize('mounted', ['btrfs', 'xfs'], indirect=True)
def test_raw_root_shares_the_blocks_of_its_image(mounted, image, images):
    store = make(mounted, images)
    row = images.add('one', image, 'raw')
    base.create(store, row)
    before = used(mounted)
    _instance, (disks, _files) = base.create(store, row)
    assert used(mounted) - before < 16 * MIB
    assert reflink.shared_bytes(disks[0].file) == 64 * MIB
    assert storage._promised(disks[0], True) == GIB             # every block that it shares may be written yet
    with open(disks[0].file, 'r+b') as file:
        file.write(bytes(4 * MIB))
        os.fsync(file.fileno())
    assert reflink.shared_bytes(disks[0].file) == 60 * MIB
    assert os.path.getsize(disks[0].file) == GIB
    cached = store.cache.path_of('one.raw')
    with open(cached, 'rb') as file, open(image, 'rb') as original:
        assert file.read() == original.read()                  # the image is what it was


@pytest.mark.parametrize('mounted', ['ext4'], indirect=True)
def test_elsewhere_it_is_a_copy(mounted, image, images):
    store = make(mounted, images)
    _instance, (disks, _files) = base.create(store, images.add('one', image, 'raw'))
    assert not reflink.possible(str(mounted))
    with open(disks[0].file, 'rb') as file:
        assert file.read(64 * MIB) == image.read_bytes()
    assert not [name for name in os.listdir(store.directory) if name.startswith('.reflink')]


def test_files_of_two_file_systems_share_no_blocks(tmp_path):
    """The answer is one of those after which images, disks and volumes are copied instead."""
    with open(tmp_path / 'old', 'wb') as old, tempfile.TemporaryFile(dir='/dev/shm') as new, \
            pytest.raises(OSError) as raised:
        reflink.share(old.fileno(), new.fileno())
    assert raised.value.errno in reflink.UNABLE
