"""Conversion of console screenshots to JPEG of a bounded size, with Pillow.

Pillow is in the package's extra ``screenshots`` and is loaded with the first screenshot. A guest controls the content
and the size of the screen. The decoder therefore accepts only PPM and PNG, the formats of hypervisors, and checks
the size first.
"""
import importlib.util
import io

from nova import exception

FORMS = ('PPM', 'PNG')
MAX_PIXELS = 10 * 1000 * 1000          # maximum pixels of a decoded screen; 3840 x 2400 are 9.2 million
MAX_SIZE = (2560, 1600)                  # maximum pixels of the result; larger screens are scaled down
QUALITIES = (85, 60, 30, 10)            # JPEG qualities, tried in this order until the result is small enough
MAX_BYTES = 1024 * 1024
MAX_CONCURRENT, RETRY_S = 2, 2                 # maximum concurrent screenshots of a host; further ones are refused


def check() -> None:
    """Check that screenshots are possible.

    :raises Unsupported: Pillow is not installed
    """
    if importlib.util.find_spec('PIL') is None:
        raise exception.Unsupported("The server's host makes no screenshots: the Python package pillow is not "
                                    'installed there (solonova[screenshots]).')


def jpeg(taken: bytes) -> bytes:
    """Return a screenshot as JPEG, at most MAX_BYTES.

    :param taken: PPM or PNG
    :raises VirtError: the format is not supported, or the image is broken or too large
    """
    from PIL import Image
    try:
        with Image.open(io.BytesIO(taken), formats=FORMS) as opened:
            width, height = opened.size
            shown = opened.convert('RGB') if width * height <= MAX_PIXELS else None
    except Exception as error:                  # Pillow may raise any error for the data of a guest
        raise _failed('it cannot be read') from error
    if shown is None:
        raise _failed(f'it has {width} x {height} points')
    shown.thumbnail(MAX_SIZE)
    for quality in QUALITIES:
        made = io.BytesIO()
        shown.save(made, 'JPEG', quality=quality)
        if made.tell() <= MAX_BYTES:
            return made.getvalue()
    raise _failed(f'its JPEG is larger than {MAX_BYTES} bytes')


def _failed(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='take a screenshot', reason=reason)
