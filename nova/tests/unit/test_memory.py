"""Return of free memory to the operating system."""
import ctypes
import pathlib
import time

import pytest

from nova.runtime import memory
from nova.tests.support import waiting

BLOCK, BLOCKS = 100_000, 400


def resident():
    """Bytes of this process."""
    return int(pathlib.Path('/proc/self/statm').read_text().split()[1]) * 4096


@pytest.mark.skipif(memory._trim is None, reason='another C library')
def test_free_memory_between_blocks_in_use_is_returned_after_an_interval(monkeypatch):
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for block in blocks[:-1]:
        libc.free(block)                         # the last one keeps the heap from shrinking by itself
    before = resident()
    monkeypatch.setattr(memory, '_returned', time.monotonic())
    memory.tick()
    assert before - resident() < BLOCK * BLOCKS / 4
    monkeypatch.setattr(memory, '_returned', time.monotonic() - memory.INTERVAL_S - 1)
    memory.tick()
    waiting.wait_for(lambda: before - resident() > BLOCK * BLOCKS / 2, 10, 'the memory is returned')
    libc.free(blocks[-1])
