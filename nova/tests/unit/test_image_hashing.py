"""Checksums of image data are made beside the thread that writes it, in bounded memory."""
import hashlib
import os
import threading
import time
import tracemalloc

import pytest

from nova import context
from nova.db import engine
from nova.image.embedded import files
from nova.image.embedded import hashing
from nova.image.embedded import pending_hashes
from nova.image.embedded import service
from nova.tests import schemas
from nova.tests.support import waiting

CHUNKS = 256                     # of files.CHUNK: 64 MiB


def test_checksums_are_those_of_hashlib():
    data = [os.urandom(size) for size in (0, 1, files.CHUNK, 4097, hashing.LITTLE, 5)]
    with hashing.Hashes() as hashes:
        for chunk in data:
            hashes.add(chunk)
        columns = hashes.columns()
    whole = b''.join(data)
    assert columns == {'checksum': hashlib.md5(whole).hexdigest(), 'os_hash_algo': 'sha512',
                       'os_hash_value': hashlib.sha512(whole).hexdigest()}


def test_the_writing_thread_does_not_hash(tmp_path):
    """The write of an upload waited for MD5 and then for SHA-512 of each chunk."""
    store, chunk = files.Files(str(tmp_path / 'images'), 2 ** 30), os.urandom(files.CHUNK)
    whole, mine = time.process_time(), time.thread_time()
    columns = store.write('data', (chunk for _each in range(CHUNKS)), 'raw', 2 ** 40, 'image')
    whole, mine = time.process_time() - whole, time.thread_time() - mine
    assert columns['checksum'] == hashlib.md5(chunk * CHUNKS).hexdigest()
    assert mine < whole / 2, f'{mine} of {whole} seconds'


def test_chunks_that_wait_are_bounded():
    tracemalloc.start()
    try:
        with hashing.Hashes() as hashes:
            for _each in range(CHUNKS):
                hashes.add(bytes(bytearray(files.CHUNK)))
            hashes.columns()
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * hashing.WAITING * files.CHUNK


def test_threads_end_with_an_upload_that_fails():
    with pytest.raises(RuntimeError), hashing.Hashes() as hashes:
        hashes.add(bytes(hashing.LITTLE + 1))
        assert [thread for thread in threading.enumerate() if thread.name == 'image-hash']
        raise RuntimeError
    assert not [thread for thread in threading.enumerate() if thread.name == 'image-hash']


class Cloud:
    """An image store with its database, an owner, and files that are given to it."""

    def __init__(self, path):
        self.path, self.db = path, engine.Database(f'sqlite:///{path}/api.sqlite')
        schemas.create(self.db, 'api')
        self.ctx = context.RequestContext(user_id='me', project_id='mine', roles=['member'])
        self.store = self.opened()

    def opened(self):
        return service.Store(self.db, str(self.path / 'images'))

    def given(self, data=b'\1' * 4096):
        """The id of an image whose data is a file that was moved into the store."""
        image = self.store.create(self.ctx, {'disk_format': 'raw', 'container_format': 'bare'})
        (self.path / 'given').write_bytes(data)
        assert self.store.adopt(self.ctx, image['id'], str(self.path / 'given'))
        return image['id']

    def show(self, ident):
        return self.store.show(self.ctx, ident)


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


@pytest.fixture
def held(monkeypatch):
    """An event; nothing is hashed before it is set."""
    event, compute = threading.Event(), pending_hashes.PendingHashes._hash

    def wait(*args):
        event.wait(30)
        compute(*args)
    monkeypatch.setattr(pending_hashes.PendingHashes, '_hash', wait)
    yield event
    event.set()


def _wait_for_checksum(cloud, ident, data):
    waiting.wait_for(lambda: cloud.show(ident)['checksum'], 30, 'the checksums')
    shown = cloud.show(ident)
    assert {name: shown[name] for name in ('checksum', 'os_hash_algo', 'os_hash_value')} == {
        'checksum': hashlib.md5(data).hexdigest(), 'os_hash_algo': 'sha512',
        'os_hash_value': hashlib.sha512(data).hexdigest()}


def test_an_image_whose_file_was_moved_is_active_before_it_is_hashed(cloud, held):
    data = os.urandom(2 * hashing.LITTLE)
    ident = cloud.given(data)
    shown = cloud.show(ident)
    assert (shown['status'], shown['size'], shown['checksum'], shown['os_hash_value']) == (
        'active', len(data), None, None)
    with cloud.store.open(cloud.ctx, ident)[1] as file, cloud.store.digests.checked(shown, file):
        assert file.read() == data
    held.set()
    _wait_for_checksum(cloud, ident, data)


def test_a_restart_computes_the_missing_checksums(cloud, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(pending_hashes.PendingHashes, 'add', lambda *_args: None)       # the process was killed
        idents = {cloud.given(data): data for data in (b'\1' * 5000, b'\2' * 6000)}
    cloud.store = cloud.opened()
    for ident in idents:                 # nothing remembers the file, and it can be read
        with cloud.store.open(cloud.ctx, ident)[1] as file, cloud.store.digests.checked(cloud.show(ident), file):
            pass
    cloud.store.recover()
    for ident, data in idents.items():
        _wait_for_checksum(cloud, ident, data)


def test_an_image_that_is_deleted_before_it_is_hashed_leaves_nothing(cloud, held, caplog):
    ident, other = cloud.given(), cloud.given(b'\3' * 9000)
    cloud.store.delete(cloud.ctx, ident)
    held.set()
    _wait_for_checksum(cloud, other, b'\3' * 9000)
    assert [path.name for path in (cloud.path / 'images').iterdir()] == [cloud.show(other)['data_id']]
    assert not [record for record in caplog.records if record.levelname in ('WARNING', 'ERROR')]


def test_images_are_hashed_although_a_thread_could_not_start(cloud, monkeypatch):
    with monkeypatch.context() as patched:
        def refuse(*_args):
            raise RuntimeError("can't start new thread")
        patched.setattr(pending_hashes.concurrency, 'spawn', refuse)
        first = cloud.given(b'\1' * 5000)
    assert cloud.show(first)['status'] == 'active'
    second = cloud.given(b'\2' * 6000)
    _wait_for_checksum(cloud, first, b'\1' * 5000)
    _wait_for_checksum(cloud, second, b'\2' * 6000)
