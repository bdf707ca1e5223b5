"""Size limits for documents that callers can extend: one resource, and one page of a list.

Each part that callers can extend has a limit in bytes of JSON; the parts of a resource total less than RESOURCE.
"""
from collections.abc import Iterable, Sequence
import itertools

from nova import exception
from nova import utils

KIB = 1 << 10
RESOURCE = 256 * KIB
PAGE = 8 << 20
METADATA = 96 * KIB      # metadata of a server, group, volume or snapshot; enough for 128 items of 255 ASCII characters
IMAGE = 128 * KIB                # name, properties and tags of an image, also shown by volumes created from the image
SPECS = 72 * KIB                 # extra specs of a flavor, also shown by servers: 128 specs of 255 characters


def size_of(document: object) -> int:
    """Return the size of a document in bytes of JSON."""
    return len(utils.encode_json(document, default=str))


def check(document: object, most: int, name: str, before: object = None) -> None:
    """Refuse a change that makes a resource too large.

    :param name: the changed part, for the message
    :param before: value before the change; a value that is too large may become smaller
    :raises TooLarge: the document exceeds ``most`` bytes
    """
    size = size_of(document)
    if size > most and (before is None or size >= size_of(before)):
        raise exception.TooLarge(f'{name}: {size} bytes as JSON exceed the limit of {most} bytes.')


def fitting(items: Sequence[object]) -> int:
    """Return how many of the first items of a list fit into PAGE bytes, but at least one."""
    if size_of(items) <= PAGE:
        return len(items)
    return max(1, sum(1 for total in itertools.accumulate(map(size_of, items)) if total <= PAGE))


def first(sizes: Iterable[int]) -> int:
    """Return how many items with these sizes in bytes fit into one page; at least one."""
    return max(1, sum(1 for total in itertools.accumulate(sizes) if total <= PAGE))
