"""A body that comes byte by byte: what is read of it is not kept as a list of bytes."""
import io
import os
import tracemalloc

import pytest

from nova.runtime.http import framing

SIZE = 1 << 18


class Trickle:
    """A connection that has a few bytes at a time, each time as an object of its own.

    :param most: bytes
    """

    def __init__(self, data, most):
        self._file, self._most = io.BytesIO(data), most

    def read(self, size):
        return bytes(bytearray(self._file.read(min(size, self._most))))

    def readline(self, size):
        return self._file.readline(size)


def chunked(data, size):
    pieces = (data[start:start + size] for start in range(0, len(data), size))
    return b''.join(b'%x\r\n%s\r\n' % (len(piece), piece) for piece in pieces) + b'0\r\n\r\n'


@pytest.mark.parametrize('chunks', [False, True], ids=['plain', 'chunked'])
def test_small_pieces_are_joined_as_they_come(chunks):
    """An upload to the object store that came byte by byte took 400 times its size of memory."""
    data = os.urandom(SIZE)
    flow = Trickle(chunked(data, 2) if chunks else data, 2)
    body = framing.Body(flow, None if chunks else SIZE, gathered=False)
    tracemalloc.start()
    try:
        assert body.read(SIZE) == data
        assert tracemalloc.get_traced_memory()[1] < 4 * SIZE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize('sizes', [[1], [5000], [1, 5000, 1, 1, 5000], [5000, 1, 1], [1, 1, 1], [4095, 4096, 4097]])
def test_the_bytes_are_the_same(sizes):
    data = os.urandom(sum(sizes))

    class Flow:
        def __init__(self):
            self._file, self._sizes = io.BytesIO(data), list(sizes)

        def read(self, size):
            return self._file.read(min(size, self._sizes.pop(0)))
    found = framing.Body(Flow(), len(data), gathered=False).read()
    assert found == data and type(found) is bytes
