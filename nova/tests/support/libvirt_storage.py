"""What tests share with nova/tests/unit/test_libvirt_storage.py."""
import os
import shutil
import time

import pytest

from nova.disk_files import qemu_img
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt.libvirt import spec
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import storage

needs_qemu_img = pytest.mark.skipif(not shutil.which('qemu-img'), reason='qemu-img is not installed')


class Images:
    """An ImageSource over files."""

    def __init__(self):
        self.files, self.downloads, self.slow = {}, 0, 0

    def add(self, image_id, path, disk_format, **properties):
        self.files[image_id] = str(path)
        return {'id': image_id, 'disk_format': disk_format, 'properties': properties}

    def show(self, _context, image_id):
        return {'id': image_id, 'disk_format': 'aki', 'properties': {}}

    def download(self, _context, image_id, path, moved=None):
        self.downloads += 1
        time.sleep(self.slow)
        shutil.copyfile(self.files[image_id], path)
        moved(os.path.getsize(path) // 2)


@pytest.fixture
def images():
    return Images()


@pytest.fixture
def store(tmp_path, images):
    made = storage.Storage(str(tmp_path / 'instances'), images, qemu_img.QemuImg(60))
    made.prepare()
    return made


def create(store, image, **values):
    request = driver.SpawnRequest(image=image, network_info=[], config_drive=values.pop('config_drive', None),
                                  block_devices=values.pop('block_devices', []))
    traits = values.pop('traits', ())
    instance = driver_contract.make_instance(**values)
    return instance, new_disks.create(store, None, instance, request, spec.machine_of(instance, image, traits))
