"""Tests that parts of the list of long tests run, and nightly runs: they take long, shorter ones have their subject.

``doc/source/contributor/testing.rst`` says by groups which ones these are, and what is left of each subject.
"""
import collections.abc
import os
import typing
import zlib

import pytest

LONG = bool(os.environ.get('NOVA_TEST_LONG'))
only = pytest.mark.skipif(not LONG and os.environ.get('NOVA_TEST_SELECT') != 'long',
                          reason='a part of long runs: set NOVA_TEST_LONG=1')


def rest(values: collections.abc.Iterable[typing.Any], count: int = 1) -> list[typing.Any]:
    """Parameters of a test: the first ``count`` of them, and the others in long runs alone; tuples are several."""
    found = list(values)
    return found[:count] + [pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=only)
                            for value in found[count:]]


def sample(values: collections.abc.Iterable[typing.Any], share: int) -> list[typing.Any]:
    """All values in long runs; otherwise one of ``share``, the same ones each time, chosen by their text."""
    return [value for value in values if LONG or zlib.crc32(str(value).encode()) % share == 0]


def turn(key: str, values: collections.abc.Iterable[typing.Any], share: int) -> list[typing.Any]:
    """All values in long runs; otherwise every ``share``-th of them, from a place that is the key's."""
    found = list(values)
    return found if LONG else found[zlib.crc32(key.encode()) % max(min(share, len(found)), 1)::share]
