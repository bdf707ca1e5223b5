"""The image store on a small file system of its own: what happens when strangers fill it."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

from nova.runtime import disk_space
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture

MIB = 2 ** 20
SIZE, RESERVE = 48, 16                 # MiB
RAW = {'name': 'test', 'disk_format': 'raw', 'container_format': 'bare'}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='mounts a file system')


@pytest.fixture
def small(tmp_path):
    """A directory of SIZE MiB that holds the state: databases and images."""
    directory = tmp_path / 'state'
    directory.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={SIZE}m', 'tmpfs', directory], check=True)
    yield directory
    subprocess.run(['umount', directory], check=True)


def queued(user):
    return user.post('/image/v2/images', RAW).json()['id']


def send(user, image_id, data):
    return user.request('PUT', f'/image/v2/images/{image_id}/file', data=data,
                        headers={'Content-Type': 'application/octet-stream'}).status_code


def test_uploads_leave_the_reserve_to_the_databases(small):
    with cloud_fixture.running(small, image__free_disk_reserve=RESERVE) as made:
        user = made.client()
        base = user.upload_image(os.urandom(MIB))
        images, least, codes = [queued(user) for _ in range(6)], [], {}

        def fill(image_id):
            def chunks():
                for _ in range(3 * SIZE):
                    least.append(disk_space.free_bytes(str(small)))
                    yield os.urandom(MIB // 4)
            codes[image_id] = send(user, image_id, chunks())
        threads = [threading.Thread(target=fill, args=(image_id,)) for image_id in images]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(codes) == 6 and set(codes.values()) <= {204, 507} and 507 in codes.values()
        # each of the six may have looked before the others wrote a chunk
        assert min(least) > (RESERVE - 4) * MIB, min(least) / MIB
        assert len(list(pathlib.Path(small, 'images').iterdir())) == 1 + sum(code == 204 for code in codes.values())

        # up to the reserve, whole images stay
        kept = []
        while send(user, kept.append(queued(user)) or kept[-1], os.urandom(2 * MIB)) == 204:
            assert len(kept) < SIZE
        assert send(user, kept[-1], os.urandom(8 * MIB)) == 507
        assert disk_space.free_bytes(str(small)) >= (RESERVE - 1) * MIB          # databases have grown since
        server = user.boot(base)
        user.wait_for(server['id'])
        user.post(f'/servers/{server["id"]}/action', {'createImage': {'name': 'copy'}})
        user.wait_for(server['id'])
        assert user.post('/os-keypairs', {'keypair': {'name': 'mine'}}).status_code == 200
        for image_id in [*images, *kept]:
            assert user.delete(f'/image/v2/images/{image_id}').status_code == 204
        assert send(user, queued(user), os.urandom(2 * MIB)) == 204


def volume_of(user, image_id):
    answer = user.post('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': image_id}})
    assert answer.status_code == 202, answer.text
    return answer.json()['volume']['id']


def ended(user, volumes):
    """Their statuses, when all have one that lasts."""
    def statuses():
        return [user.get(f'/volume/v3/volumes/{volume}').json()['volume']['status'] for volume in volumes]
    waiting.wait_for(lambda: not {'creating', 'downloading'} & set(statuses()), 120, 'the volumes')
    return statuses()


def compressed(path, size):
    """The bytes of a qcow2 file of some kB whose disk has ``size`` bytes that are no zeros."""
    raw, packed = path / 'raw', path / 'packed'
    raw.write_bytes(b'a' * size)
    subprocess.run(['qemu-img', 'convert', '-c', '-f', 'raw', '-O', 'qcow2', raw, packed], check=True)
    raw.unlink()
    return packed.read_bytes()


class Watch(threading.Thread):
    """The least that is free while it runs."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.least, self._over = str(path), SIZE * MIB, threading.Event()
        self.start()

    def run(self):
        while not self._over.wait(0.002):
            self.least = min(self.least, disk_space.free_bytes(self.path))

    def stop(self):
        self._over.set()
        self.join()
        return self.least


@pytest.mark.skipif(shutil.which('qemu-img') is None, reason='needs qemu-img')
def test_an_image_that_expands_leaves_the_reserve(small, tmp_path):
    """A file of 1 MB became a volume of 600 MB: what it expands to was written and not reserved."""
    with cloud_fixture.running(small, image__free_disk_reserve=RESERVE, libvirt__sandbox_qemu_img=False) as made:
        user = made.client()
        bomb = user.upload_image(compressed(tmp_path, SIZE * MIB), disk_format='qcow2')
        fits = user.upload_image(compressed(tmp_path, 4 * MIB), disk_format='qcow2')
        watch = Watch(small)
        assert ended(user, [volume_of(user, bomb)]) == ['error']
        assert watch.stop() > RESERVE * MIB
        assert ended(user, [volume_of(user, fits)]) == ['available']


@pytest.mark.skipif(shutil.which('qemu-img') is None, reason='needs qemu-img')
def test_volumes_that_are_made_at_once_leave_the_reserve(small, tmp_path):
    """Each was compared with what is free alone: all of them passed, and filled the disk."""
    with cloud_fixture.running(small, image__free_disk_reserve=RESERVE, libvirt__sandbox_qemu_img=False) as made:
        user = made.client()
        images = [user.upload_image(compressed(tmp_path, 8 * MIB), disk_format='qcow2'),
                  user.upload_image(os.urandom(6 * MIB))]
        watch = Watch(small)
        statuses = ended(user, [volume_of(user, images[number % 2]) for number in range(8)])
        assert watch.stop() > (RESERVE - 1) * MIB                # databases have grown since
        assert set(statuses) == {'available', 'error'}, statuses
        for volume in user.get('/volume/v3/volumes').json()['volumes']:
            assert user.delete(f'/volume/v3/volumes/{volume["id"]}').status_code == 202
        waiting.wait_for(lambda: not user.get('/volume/v3/volumes').json()['volumes'], 60, 'the deletions')
        assert ended(user, [volume_of(user, images[0])]) == ['available']


def fill(directory):
    with open(directory / 'filler', 'ab', buffering=0) as file:
        for size in (MIB, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


def test_a_full_disk_is_emptied_through_the_api(small):
    """DELETE of a volume or an image was 503, because it is a write of the database."""
    with cloud_fixture.running(small, image__free_disk_reserve=1) as made:
        user, admin = made.client(), made.admin()
        images = [user.upload_image(os.urandom(2 * MIB)) for _ in range(3)]
        volumes = [volume_of(user, images[0]) for _ in range(3)]
        assert ended(user, volumes) == ['available'] * 3
        fill(small)
        codes = set()
        for number in range(400):
            fill(small)                                      # whoever fills it takes what logs and others give back
            codes.add(user.post('/os-keypairs', {'keypair': {'name': f'k{number}'}}).status_code)
            if 503 in codes:
                break
        assert 503 in codes, codes
        assert user.delete(f'/volume/v3/volumes/{volumes[0]}').status_code == 202
        assert user.delete(f'/image/v2/images/{images[1]}').status_code == 204
        assert admin.delete(f'/volume/v3/volumes/{volumes[1]}').status_code in (202, 404)
        assert made.client().delete(f'/image/v2/images/{images[2]}').status_code == 204, 'a new token'
        waiting.wait_for(lambda: disk_space.free_bytes(str(small)) > 5 * MIB, 60, 'free space')
        assert user.post('/os-keypairs', {'keypair': {'name': 'again'}}).status_code == 200
