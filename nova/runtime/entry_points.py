"""Lookup of classes that options name by a path or by an entry point."""
from collections.abc import Iterable
import functools
import importlib.metadata
import itertools
import sys
from typing import Any, cast

from oslo_utils import importutils

from nova import exception


def installed(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return {name: entry point} of the installed packages in this group."""
    return {point.name: point for point in groups(tuple(sys.path)).get(group, ())}


@functools.cache
def groups(_path: tuple[str, ...]) -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Return {group: entry points}, cached for each sys.path: a search reads a file of every installed package."""
    every: object = importlib.metadata.entry_points()
    points = itertools.chain.from_iterable(dict.values(every)) if isinstance(every, dict) else every      # Python 3.11
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in cast(Iterable[importlib.metadata.EntryPoint], points):
        found.setdefault(point.group, []).append(point)
    return found


def named(option: str, name: str, group: str, known: Iterable[str] = ()) -> Any:
    """Return the object that a name stands for: an entry point of the group, or the path of a class.

    :param option: option that contains the name, for the error
    :param known: names that the option takes in addition to paths and the group's, for the error
    :raises InvalidOption: there is no such object; the text lists the available names
    """
    points = installed(group)
    try:
        if name in points:
            return points[name].load()
        if '.' not in name:
            raise ImportError('it is neither the name of an entry point nor the path of a class')
        return importutils.import_class(name)
    except Exception as error:           # e.g. any error while the package is imported
        reason = str(error).partition(' ([')[0]          # remove the traceback that importutils appends
        raise exception.InvalidOption(f'{option}: {name} could not be loaded ({reason}). Use one of '
                                      f'{", ".join([*known, *sorted(points)])}, or the path of a class.') from error
