"""Classes that options name: by their path, or by the name of an entry point."""
from __future__ import annotations

import functools
import importlib.metadata
import sys
from typing import Any

from oslo_utils import importutils

from nova import exception


def installed(group: Any) -> Any:
    """{name: entry point} of what installed packages offer."""
    return _found(group, tuple(sys.path))


@functools.cache
def _found(group: Any, _path: Any) -> dict[Any, Any]:
    """The search reads a file of every package, so it is made once for a group and a path of modules."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def named(option: str, name: str, group: Any, known: Any = ()) -> Any:
    """What the entry point of this name in the group, or the path, is.

    :param option: that has the name
    :param known: names that the option takes besides paths and the group's, for the error
    :raises InvalidOption: there is no such thing; the text says what there is
    """
    points = installed(group)
    try:
        if name in points:
            return points[name].load()
        if '.' not in name:
            raise ImportError('it is neither the name of one nor the path of a class')
        return importutils.import_class(name)
    except (ImportError, ValueError, AttributeError) as error:
        reason = str(error).partition(' ([')[0]          # importutils puts a whole traceback behind it
        raise exception.InvalidOption(f'{option}: {name} could not be loaded ({reason}). There are '
                                      f'{", ".join([*known, *sorted(points)])}, and paths of classes.') from error
