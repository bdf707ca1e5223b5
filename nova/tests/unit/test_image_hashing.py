"""Checksums of image data are made beside the thread that writes it, in bounded memory."""
import hashlib
import os
import threading
import time
import tracemalloc

import pytest

from nova.image.embedded import files
from nova.image.embedded import hashing

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
