"""Bound the documents that callers can extend: one resource, and one page of a list.

What a caller adds to a resource has a bound of its own, measured as JSON, so that the whole stays below RESOURCE.
"""
from __future__ import annotations

from collections.abc import Iterable
import itertools
from typing import Any

from nova import exception
from nova import utils

KIB = 1 << 10
RESOURCE = 256 * KIB
PAGE = 8 << 20
METADATA = 96 * KIB              # of a server, a group, a volume or a snapshot: 128 items of 255 ASCII characters fit
IMAGE = 128 * KIB                # name, properties and tags of an image; a volume that is made of it shows them, too
SPECS = 72 * KIB                 # extra specs of a flavor, which its servers show: 128 of 255 ASCII characters fit


def size_of(document: Any) -> int:
    """Bytes of a document as JSON."""
    return len(utils.encode_json(document, default=str))


def check(document: Any, most: int, name: str, before: Any = None) -> None:
    """Refuse what makes a resource too large.

    :param name: of what is added, for the message
    :param before: what was there; one that is too large already may become smaller
    :raises TooLarge:
    """
    size = size_of(document)
    if size > most and (before is None or size >= size_of(before)):
        raise exception.TooLarge(f'{name}: {size} bytes as JSON; at most {most} are possible.')


def fitting(items: list[Any]) -> int:
    """How many of the first items of a list one page shows: at least one, and PAGE bytes."""
    if size_of(items) <= PAGE:
        return len(items)
    return max(1, sum(1 for total in itertools.accumulate(map(size_of, items)) if total <= PAGE))


def first(sizes: Iterable[int]) -> int:
    """The same where the sizes are known before the items are read."""
    return max(1, sum(1 for total in itertools.accumulate(sizes) if total <= PAGE))
