"""A driver whose state folder has no room left: it starts, refuses what needs room, and deletes."""
import errno
import os
import pathlib
import subprocess
import tempfile

import pytest

from nova import exception
from nova.tests.contract.driver_contract import make_instance
from nova.tests.support import libvirt as base
from nova.virt import driver as virt

pytestmark = base.pytestmark
SIZE_MB = 64


@pytest.fixture
def place():
    """A file system of its own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-full-', dir='/var/tmp'))
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={SIZE_MB}m,mode=0711', 'tmpfs', str(path)], check=True)
    yield path
    subprocess.run(['umount', str(path)], check=True)
    path.rmdir()


def fill(place):
    """No byte is left, and no inode."""
    with open(place / 'filler', 'wb', buffering=0) as file:
        step = bytes(1 << 20)
        while step:
            try:
                file.write(step)
            except OSError as error:
                assert error.errno == errno.ENOSPC
                step = step[:len(step) // 2]
    subprocess.run(['mount', '-o', f'remount,size={SIZE_MB}m,nr_inodes={used_inodes(place)}', str(place)], check=True)
    with pytest.raises(OSError, match='No space left'):
        (place / 'one-more').write_bytes(b'x')


def used_inodes(place):
    found = os.statvfs(place)
    return found.f_files - found.f_ffree


def spawn(driver, images, instance):
    driver.spawn(None, instance, virt.SpawnRequest(image=images.show(None, base.DISK_ID), network_info=[]))


def test_compute_with_a_full_disk_starts_and_refuses_builds(place, caplog):
    """The libvirt of the machine does not see the file system, so no guest runs on it: the driver's own files are
    those that matter here."""
    images, one, two = base.Images(), make_instance(), make_instance()
    base.make_driver(place, images).init_host()
    kept = place / 'instances' / one.uuid
    kept.mkdir()
    (kept / 'disk').write_bytes(bytes(1 << 20))
    fill(place)
    driver = base.make_driver(place, images)
    try:
        driver.init_host()
        driver.resources()
        assert f'The file system of {place}/instances is full' in caplog.text
        assert 'The sandbox of qemu-img is checked once the disk has free space again' in caplog.text
        with pytest.raises(exception.BuildFailed, match='the disk of host a-host is full|room'):
            spawn(driver, images, two)
        driver.destroy(None, one, [])                    # deleting needs no room
        assert not kept.exists() and not (place / 'instances' / two.uuid).exists()
        (place / 'filler').unlink()
        subprocess.run(['mount', '-o', f'remount,size={SIZE_MB}m,nr_inodes=100000', str(place)], check=True)
        driver.resources()
        assert driver.storage.free_bytes() > 1 << 20
        (place / 'a-disk').touch()
        driver.storage.backends.files.qemu_img.create(str(place / 'a-disk'), 'qcow2', 1 << 20)
        assert driver.storage.backends.files.qemu_img.info(str(place / 'a-disk'), 'qcow2')['virtual-size'] == 1 << 20
    finally:
        driver.stop()
