"""Private parts of stevedore 5.10.0.

stevedore searches all entry points once for each group. With the clients of an installation this takes a tenth of the
start of an all-in-one. Its file of the result is of no use to a daemon, which has no home directory.
"""
import sys

from stevedore import _cache

from nova.runtime import entry_points


def search_once() -> None:
    """Let stevedore use the entry points that ``nova.runtime.entry_points`` has found."""
    _cache._build_cacheable_data = _build


def _build() -> _cache._CacheEntry:
    groups = {group: list(dict.fromkeys((point.name, point.value, point.group) for point in points))
              for group, points in entry_points.groups(tuple(sys.path)).items()}
    return {'groups': groups, 'sys.executable': sys.executable, 'sys.prefix': sys.prefix, 'path_values': []}
