"""The end of a body in chunks: what stands behind it is the next request, so nothing may look like the end."""
import io

import pytest

from nova import exception
from nova.runtime.http import framing

INNER = b'DELETE /servers HTTP/1.1\r\nHost: cloud\r\n\r\n'


def read(trailers):
    rfile = io.BytesIO(b'3\r\nabc\r\n0\r\n' + trailers + b'\r\n' + INNER)
    return framing.Body(rfile, None).read(), rfile.read()


@pytest.mark.parametrize('trailers', [
    b'', b'X-Sum: 1\r\n', b'X: y\r\n' * 100, b'X:' + b'y' * 4092 + b'\r\n'])
def test_valid_trailers_are_read_and_ignored(trailers):
    assert read(trailers) == (b'abc', INNER)


@pytest.mark.parametrize('trailers', [
    b'x' * 4096 + b'\r\n',                     # the rest of the line would be the line that ends the trailers
    b'X:' + b'y' * 4094 + b'\r\n', b'X:' + b'y' * 4093 + b'\r\n', b'x\n', b'X: y\n', b'X: y\n\n', b'x\r\n',
    b' x: y\r\n', b'X : y\r\n', b'X: \0\r\n', b'X: a\rb\r\n', b'X: y\r\n' * 101])
def test_invalid_trailers_are_refused(trailers):
    """A line of 4096 bytes or a bare line feed let the empty line come early: a proxy saw one request, we saw two."""
    with pytest.raises(exception.BadRequest):
        read(trailers)
