"""Files of a guest that is resized on its host, with the real qemu-img."""
import os
import subprocess

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.tests.contract.driver_contract import make_instance
from nova.tests.support import libvirt_storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.features import resize
from nova.virt.libvirt.local_disks import files
from nova.virt.libvirt.local_disks import image_cache

pytestmark = libvirt_storage.needs_qemu_img
images, store = libvirt_storage.images, libvirt_storage.store


def qemu(*arguments):
    subprocess.run(['qemu-img', *map(str, arguments)], check=True, capture_output=True)


def test_resize_copies_an_image_that_came_with_its_disk(store):
    """The disk is an overlay on it, and stayed without it: each resize of such a server failed."""
    instance = make_instance(root_gb=2)
    uuid = instance.uuid
    store.make_directory(uuid)
    disk, base = store.path(uuid, 'disk'), store.path(uuid, resize.BASE_IMAGE)
    qemu('create', '-f', 'qcow2', base, '8M')
    qemu('create', '-f', 'qcow2', '-b', base, '-F', 'qcow2', disk)
    old = xml.Guest.of({'uuid': uuid, 'name': 'n', 'owner': '/o', 'virt_type': 'qemu', 'vcpus': 1, 'memory_mb': 64,
                        'console_log': '/c', 'disks': [xml.Disk(disk, 'qcow2', 'vda', backing_file=base,
                                                                backing_format='qcow2')]})
    os.rename(store.path(uuid), store.backup_path(uuid))
    (made,), _boot_files = resize._copies(store, instance, old)
    assert made.file == disk and files.qcow2_size(disk) == 2 << 30
    assert os.stat(base).st_mode & 0o777 == image_cache.BASE_MODE
    assert os.path.exists(os.path.join(store.backup_path(uuid), resize.BASE_IMAGE))
    qemu('check', disk)                                  # opens what is below it
