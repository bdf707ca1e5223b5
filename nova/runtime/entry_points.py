"""Classes that options name, by their path or by an entry point."""
from collections.abc import Iterable
import functools
import importlib.metadata
import sys
from typing import Any

from oslo_utils import importutils

from nova import exception


def installed(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return {name: entry point} of the installed packages in this group."""
    return _found(group, tuple(sys.path))


@functools.cache
def _found(group: str, _path: tuple[str, ...]) -> dict[str, importlib.metadata.EntryPoint]:
    """Cache the search for each group and module path, as it reads a file of every package."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def named(option: str, name: str, group: str, known: Iterable[str] = ()) -> Any:
    """Return the object of an entry point of the group, or at a path. The caller declares its type.

    :param option: option that has the name
    :param known: names that the option takes in addition to paths and the group's, for the error
    :raises InvalidOption: there is no such object; the text lists the available names
    """
    points = installed(group)
    try:
        if name in points:
            return points[name].load()
        if '.' not in name:
            raise ImportError('it is neither the name of one nor the path of a class')
        return importutils.import_class(name)
    except Exception as error:           # of the package
        reason = str(error).partition(' ([')[0]          # importutils appends a whole traceback
        raise exception.InvalidOption(f'{option}: {name} could not be loaded ({reason}). There are '
                                      f'{", ".join([*known, *sorted(points)])}, and paths of classes.') from error
