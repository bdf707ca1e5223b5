"""What tests share with nova/tests/integration/test_libvirt_volumes.py."""
import json
import os
import subprocess
import uuid

import pytest

from nova.tests.support import libvirt as test_libvirt


GIB = 2 ** 30
BLANKS = 40 * ' '
BOOT_SECONDS = test_libvirt.BOOT_SECONDS
state_path, module_rig, rig, instance = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                         test_libvirt.instance)
wait_for, spawn = test_libvirt.wait_for, test_libvirt.spawn


class Volume:
    """A raw file, and its row of block_device_mappings."""

    def __init__(self, directory, name='/dev/vdb', size=1, image=None, **values):
        self.id = str(uuid.uuid4())
        self.path = directory / self.id
        if image:
            subprocess.run(['qemu-img', 'convert', '-O', 'raw', image, self.path], check=True)
        else:
            self.path.touch()
        os.truncate(self.path, size * GIB)
        self.device = {'uuid': str(uuid.uuid4()), 'volume_id': self.id, 'destination_type': 'volume',
                       'source_type': 'volume', 'device_name': name, 'volume_size': size, 'boot_index': None,
                       'connection_info': {'driver_volume_type': 'local', 'data': {'device_path': str(self.path)}},
                       **values}

    def read(self, length, at=0):
        with open(self.path, 'rb') as file:
            file.seek(at)
            return file.read(length)


@pytest.fixture
def volumes(state_path):
    made = []

    def volume(*args, **kwargs):
        made.append(Volume(state_path, *args, **kwargs))
        return made[-1]
    yield volume
    for each in made:
        each.path.unlink(missing_ok=True)


def run(rig, instance, line):
    """What a line that is typed in the guest prints. A system that is just up may lose the first letters: of blanks."""
    mark = uuid.uuid4().hex
    rig.type(instance, f'{BLANKS}\n{line}; echo "{mark[:16]}""{mark[16:]}"')
    wait_for(lambda: mark.encode() in rig.console(instance), BOOT_SECONDS, 'the line to end')
    return rig.console(instance).decode(errors='replace').rpartition(mark)[0].rpartition(mark[16:] + '"')[2]


def write(rig, instance, disk, text, block=0):
    run(rig, instance, f'echo {text} | dd of={disk} bs=4096 seek={block} conv=fsync 2>/dev/null')


def read(rig, instance, disk, length, block=0):
    run(rig, instance, 'echo 3 >/proc/sys/vm/drop_caches')
    return run(rig, instance, f'dd if={disk} bs=4096 skip={block} count=1 2>/dev/null | head -c {length}')


def put_on(path, name, form='raw'):
    """A file on another one, as a block storage makes it; its name."""
    made = f'{path.name}.{uuid.uuid4().hex[:8]}'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', name, '-F', form, made], cwd=path.parent,
                   check=True)
    os.chmod(path.parent / made, 0o666)
    return made


def below(path):
    """The names in the headers of a file and of those below it."""
    shown = subprocess.run(['qemu-img', 'info', '-U', '--backing-chain', '--output=json', path], check=True,
                           capture_output=True)
    return [each.get('backing-filename') for each in json.loads(shown.stdout)]


class Export:
    """A volume behind an NBD server of its own, on a socket."""

    def __init__(self, directory, volume):
        self.socket = directory / f'{volume.id[:8]}.sock'
        self._path, self._process = volume.path, None
        self.info = {'driver_volume_type': 'nbd', 'data': {'export': 'volume', 'socket': str(self.socket)}}

    def start(self):
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            ['qemu-nbd', '--persistent', '--shared=0', '--format=raw', '--cache=writeback', '--export-name=volume',
             f'--socket={self.socket}', str(self._path)])
        wait_for(self.socket.exists, 30, 'the export')
        self.socket.chmod(0o777)

    def signal(self, number):
        self._process.send_signal(number)

    def stop(self):
        self._process.kill()
        self._process.wait()
