"""Pictures of screens: bounded, of two forms alone, and JPEG at the end."""
import io
import random
import struct
import sys
import types
import zlib

from PIL import Image
import pytest

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import exception
from nova.compute import screenshots
from nova.virt import driver
from nova.virt.libvirt import graphics
from nova.virt.libvirt.features import consoles


def ppm(width, height, points=None):
    return b'P6\n%d %d\n255\n' % (width, height) + (points or bytes(3) * (width * height))


def read(jpeg):
    with Image.open(io.BytesIO(jpeg), formats=['JPEG']) as picture:
        return picture.convert('RGB')


def saved(form, mode='RGB'):
    made = io.BytesIO()
    Image.new(mode, (80, 50)).save(made, form)
    return made.getvalue()


@pytest.mark.parametrize('picture', [ppm(80, 50), saved('PNG'), saved('PNG', 'RGBA')])
def test_both_forms_become_jpeg(picture):
    assert read(screenshots.jpeg(picture)).size == (80, 50)


def test_a_large_screen_is_shown_smaller():
    assert read(screenshots.jpeg(ppm(3840, 2400))).size == screenshots.MAX_SIZE


def test_noise_stays_small():
    """What compresses badly gets a lower quality."""
    size = 1600, 1200
    noise = random.Random(1).randbytes(size[0] * size[1] * 3)
    made = screenshots.jpeg(ppm(*size, noise))
    assert len(made) <= screenshots.MAX_BYTES and read(made).size == size


def test_the_worst_of_the_largest_is_given_out():
    noise = random.Random(1).randbytes(2560 * 1600 * 3)
    assert len(screenshots.jpeg(ppm(2560, 1600, noise))) <= screenshots.MAX_BYTES


def _bomb():
    """A PNG of few bytes that says it is huge."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 60000, 60000, 8, 2, 0, 0, 0)) + chunk(
        b'IDAT', zlib.compress(bytes(1000))) + chunk(b'IEND', b'')


@pytest.mark.parametrize('picture', [
    b'', b'P6', b'P6\n80 50\n255\n' + bytes(100), ppm(5000, 5000, b'\0'), _bomb(), saved('GIF'), saved('JPEG'),
    b'P6\n-1 5\n255\n', b'\0' * 100, saved('PNG')[:60]])
def test_invalid_picture_is_refused(picture):
    with pytest.raises(exception.VirtError, match='take a screenshot'):
        screenshots.jpeg(picture)


def test_without_pillow_the_extra_is_named(monkeypatch):
    screenshots.check()
    monkeypatch.setitem(sys.modules, 'PIL', None)
    with pytest.raises(exception.Unsupported, match=r'nova\[screenshots\]'):
        screenshots.check()


@pytest.mark.parametrize(('devices', 'has'), [
    ('', False), ('<video><model type="none"/></video>', False), ('<video><model type="vga"/></video>', True)])
def test_a_guest_has_a_screen_with_a_graphics_device(devices, has):
    assert graphics.has_screen(f'<domain><devices>{devices}</devices></domain>') is has


class Stream:
    """As libvirt's."""

    def __init__(self, pieces):
        self._pieces, self.ended = iter(pieces), None

    def recv(self, _size):
        return next(self._pieces, b'')

    def finish(self):
        self.ended = 'finished'

    def abort(self):
        self.ended = 'aborted'


def _take(stream):
    domain = types.SimpleNamespace(screenshot=lambda _stream, screen, flags=0: 'image/x-portable-pixmap')
    connection = types.SimpleNamespace(newStream=lambda: stream, lookupByUUIDString=lambda _uuid: domain)
    return consoles._screenshot(connection, 'u')


def test_a_stream_is_read_to_its_end(monkeypatch):
    stream = Stream([b'ab', b'c'])
    assert (_take(stream), stream.ended) == (b'abc', 'finished')


def test_a_stream_is_bounded_by_size_and_time(monkeypatch):
    monkeypatch.setattr(driver, 'SCREENSHOT_BYTES', 4)
    stream = Stream([b'abc', b'de', b'f'])
    with pytest.raises(exception.VirtError, match='too large'):
        _take(stream)
    assert stream.ended == 'aborted'
    monkeypatch.setattr(consoles, 'SCREENSHOT_S', -1)
    stream = Stream([b'a'])
    with pytest.raises(exception.VirtError, match='in time'):
        _take(stream)
    assert stream.ended == 'aborted' and libvirt.virStream.abort        # the name that the binding has
