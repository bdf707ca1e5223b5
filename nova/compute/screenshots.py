"""Screenshots, as the compute service gives them out: JPEG of a bounded size, made by Pillow.

Pillow is the package's extra ``screenshots``: it is loaded with the first screenshot. A guest decides what it
shows and how large it is, so it is decoded in the two forms that hypervisors give alone, and its size is read before.
"""
import importlib.util
import io

from nova import exception

FORMS = ('PPM', 'PNG')
MOST_POINTS = 10 * 1000 * 1000          # of what is decoded: 3840 x 2400 are 9.2 million
LARGEST = (2560, 1600)                  # points of what is given out; a larger screen is shown smaller
QUALITIES = (85, 60, 30, 10)            # tried in this order, until it is small enough
MOST_BYTES = 1024 * 1024
AT_ONCE, RETRY_S = 2, 2                 # that a host takes at the same time; others are refused, and do not wait


def check() -> None:
    """:raises Unsupported: Pillow is not installed"""
    if importlib.util.find_spec('PIL') is None:
        raise exception.Unsupported("The server's host makes no screenshots: the Python package pillow is not "
                                    'installed there (nova[screenshots]).')


def jpeg(taken: bytes) -> bytes:
    """A screenshot as JPEG, at most MOST_BYTES.

    :param taken: PPM or PNG
    :raises VirtError: it is neither, broken or too large
    """
    from PIL import Image
    try:
        with Image.open(io.BytesIO(taken), formats=FORMS) as opened:
            width, height = opened.size
            shown = opened.convert('RGB') if width * height <= MOST_POINTS else None
    except Exception as error:                  # of any kind: what is read comes from a guest
        raise _failed('it cannot be read') from error
    if shown is None:
        raise _failed(f'it has {width} x {height} points')
    shown.thumbnail(LARGEST)
    for quality in QUALITIES:
        made = io.BytesIO()
        shown.save(made, 'JPEG', quality=quality)
        if made.tell() <= MOST_BYTES:
            return made.getvalue()
    raise _failed('it shows too much for a small file')


def _failed(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='take a screenshot', reason=reason)
