"""Numbers in aggregate metadata, which override options for the hosts of the aggregate."""
import collections.abc
import logging
import math
import typing

import numpy as np

from nova.scheduler import host_view

LOG = logging.getLogger(__name__)

_Value = typing.TypeVar('_Value')


def smallest(hosts: host_view.Hosts, key: str, kind: type[int] | type[float] = float, least: float = 0
             ) -> np.ndarray | None:
    """Return each host's smallest number for a metadata key in its aggregates; None: no aggregate has a number.

    Hosts without a number get NaN.
    :param kind: int or float; values that do not parse, or are below ``least``, are ignored
    """
    def make() -> tuple[np.ndarray | None]:
        found = np.array([_smallest(merged.get(key, ()), key, kind, least) for merged in hosts.aggregate_sets],
                         dtype=float)
        return (None if np.isnan(found).all() else found[hosts.aggregate_set],)
    return hosts.cached(('smallest', key, kind, least), make)[0]


def overridden(hosts: host_view.Hosts, key: str, value: _Value, kind: type[int] | type[float] = float,
               least: float = 0) -> _Value | np.ndarray:
    """Return ``value``; if aggregates override it on any host, return an array with the value of each host."""
    given = smallest(hosts, key, kind, least)
    return value if given is None else np.where(np.isnan(given), np.asarray(value), given)


def _smallest(values: collections.abc.Iterable[str], key: str, kind: type[int] | type[float], least: float) -> float:
    numbers = []
    for value in values:
        try:
            number = float(kind(value))
        except ValueError:
            number = math.nan
        if not least <= number < math.inf:
            LOG.warning('Ignored metadata %s=%s of an aggregate: the value is not an allowed number.', key, value)
            continue
        numbers.append(number)
    return min(numbers, default=math.nan)
