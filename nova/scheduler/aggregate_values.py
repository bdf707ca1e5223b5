"""Numbers in the metadata of aggregates, which override options for the hosts in them."""
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
    """Of each host the smallest number that the metadata of its aggregates give for a key, NaN where they give none;
    None when no aggregate gives one.

    :param kind: int or float; values that are none, or below ``least``, do not count
    """
    def make() -> tuple[np.ndarray | None]:
        found = np.array([_smallest(merged.get(key, ()), key, kind, least) for merged in hosts.aggregate_sets],
                         dtype=float)
        return (None if np.isnan(found).all() else found[hosts.aggregate_set],)
    return hosts.once(('smallest', key), make)[0]


def overridden(hosts: host_view.Hosts, key: str, value: _Value, kind: type[int] | type[float] = float,
               least: float = 0) -> _Value | np.ndarray:
    """A value, or an array of values of the hosts, as ``smallest`` overrides it."""
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
            LOG.warning('The metadata %s=%s of an aggregate is no number that may be there: it does not count.', key,
                        value)
            continue
        numbers.append(number)
    return min(numbers, default=math.nan)
