#!/usr/bin/env python3
"""How long a root disk takes to be made, and what room: qcow2 overlay, raw copy, raw clone. As root, for the mounts.

usage: tools/bench/storage/root_disks.py [MIB]      size of the raw image of random bytes (default 256)
"""
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any
from collections.abc import Iterator
import uuid

from nova.virt import driver
from nova.disk_files import qemu_img
from nova.virt.libvirt.local_disks import files
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import storage

MIB = 1024 ** 2
MAKE = {'ext4': ['mkfs.ext4', '-q', '-F'], 'xfs': ['mkfs.xfs', '-q', '-m', 'reflink=1'], 'btrfs': ['mkfs.btrfs', '-q']}
ROUNDS = 5
PLACES = {'qcow2': files.Qcow2, 'raw': files.Raw}


class Images:
    """One image, in a file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def download(self, _context: Any, _image_id: str, path: str, _moved: Any = None) -> None:
        with open(path, 'wb') as file:
            file.write(self._path.read_bytes())


class Instance:
    """Attributes of a server that the storage reads."""

    root_gb, ephemeral_gb, kernel_id, ramdisk_id = 1, 0, None, None
    flavor: dict[str, int] = {'swap': 0}
    image_properties: dict[str, str] = {}

    def __init__(self) -> None:
        self.uuid = str(uuid.uuid4())


@contextlib.contextmanager
def mounted(kind: str, top: pathlib.Path, size: int) -> Iterator[pathlib.Path]:
    device, directory = top / f'{kind}.img', top / kind
    directory.mkdir()
    device.touch()
    os.truncate(device, size)
    subprocess.run([*MAKE[kind], device], check=True, capture_output=True)
    subprocess.run(['mount', '-o', 'loop', device, directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(['umount', directory], check=True)
        device.unlink()


def used(directory: pathlib.Path) -> int:
    os.sync()
    status = os.statvfs(directory)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def measure(directory: pathlib.Path, images: Images, images_type: str) -> None:
    path, tool = str(directory / images_type), qemu_img.QemuImg(600)
    made = storage.Storage(path, images, tool, disks=PLACES[images_type](path, tool))
    made.prepare()
    request = driver.SpawnRequest(image={'id': 'image', 'disk_format': 'raw', 'properties': {}}, network_info=[],
                                  config_drive=None, block_devices=[])
    new_disks.create(made, None, Instance(), request)                    # the first has the image fetched
    before, took = used(directory), []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        new_disks.create(made, None, Instance(), request)
        took.append(time.perf_counter() - begun)
    room = (used(directory) - before) / ROUNDS / MIB
    print(f'{directory.name:6} {images_type:6} {statistics.median(took) * 1000:8.0f} ms {room:8.1f} MiB a disk')


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    with tempfile.TemporaryDirectory(prefix='nova-storage-') as name:
        top = pathlib.Path(name)
        top.chmod(0o711)
        (top / 'image').write_bytes(os.urandom(mib * MIB))
        for kind in MAKE:
            with mounted(kind, top, (512 + mib * (ROUNDS + 4)) * MIB) as directory:
                for images_type in ('qcow2', 'raw'):
                    measure(directory, Images(top / 'image'), images_type)


if __name__ == '__main__':
    main()
