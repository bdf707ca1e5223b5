"""The image store on a small file system of its own: what happens when strangers fill it."""
import os
import pathlib
import subprocess
import threading

import pytest

from nova.runtime import disk_space
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
