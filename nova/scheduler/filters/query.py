"""JsonFilter: the hint ``query`` contains a condition on host attributes.

``["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 204800]]``: an operation is a list that begins with its
name; ``$name`` is a host attribute (attributes.py), and ``$capabilities.live_migration`` is a value within an
attribute.
"""
import collections.abc
import operator
import typing

import numpy as np
import orjson

from nova.json_types import Json
from nova.scheduler import host_view
from nova.scheduler.filters import attributes
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

MAX_DEPTH, MAX_PARTS = 16, 256

Comparison = collections.abc.Callable[[typing.Any, typing.Any], typing.Any]

_COMPARISONS = {'=': operator.eq, '<': operator.lt, '>': operator.gt, '<=': operator.le, '>=': operator.ge}


class Malformed(ValueError):
    """A malformed query; the message is shown to users."""


class JsonFilter(base.Filter):
    """Hosts that satisfy the query. No host satisfies a malformed query."""

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        query = request_fields.hint(request, 'query')
        if not query:
            return hosts.all_pass
        try:
            return evaluate(hosts, parsed(query))
        except Malformed:
            return np.zeros(len(hosts), dtype=bool)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        try:
            evaluate(hosts, parsed(request_fields.hint(request, 'query')))
        except Malformed as error:
            return f'cannot be judged by the hint query: {error}'
        return 'does|do not satisfy the hint query'


def parsed(query: Json) -> list[Json]:
    """Return the query as lists.

    :raises Malformed: the query is not valid
    """
    if isinstance(query, str):
        try:
            query = orjson.loads(query)
        except ValueError:
            raise Malformed('it is not JSON') from None
    if not isinstance(query, list) or not query:
        raise Malformed('it is not a list that begins with an operation')
    parts = 0
    waiting: list[tuple[Json, int]] = [(query, 1)]
    while waiting:
        item, depth = waiting.pop()
        parts += 1
        if depth > MAX_DEPTH or parts > MAX_PARTS:
            raise Malformed('it is too large')
        if isinstance(item, list):
            waiting += [(each, depth + 1) for each in item]
    return query


def evaluate(hosts: host_view.Hosts, query: list[Json]) -> np.ndarray:
    """Return the mask of a query.

    :raises Malformed: an operation or an attribute does not exist
    """
    name, *arguments = query
    if name in ('and', 'or', 'not'):
        masks = [_mask(hosts, each) for each in arguments]
        if not masks or (name == 'not' and len(masks) != 1):
            raise Malformed(f'{name!r} has {len(masks)} operands')
        if name == 'not':
            return ~masks[0]
        return np.all(masks, axis=0) if name == 'and' else np.any(masks, axis=0)
    if name == 'in' and (values := _flat(arguments[1:])):
        return np.any([_compared(hosts, operator.eq, arguments[0], each) for each in values], axis=0)
    if isinstance(name, str) and name in _COMPARISONS and len(arguments) > 1:
        return np.all([_compared(hosts, _COMPARISONS[name], arguments[0], each) for each in arguments[1:]], axis=0)
    raise Malformed(f'{str(name)[:32]!r} with {len(arguments)} operands is not an operation. Operations: not, or, and, '
                    f'in, {", ".join(_COMPARISONS)}')


def _mask(hosts: host_view.Hosts, item: Json) -> np.ndarray:
    if isinstance(item, list) and item:
        return evaluate(hosts, item)
    if isinstance(item, bool):
        return np.full(len(hosts), item)
    raise Malformed(f'{str(item)[:32]!r} is not a condition')


def _flat(items: list[Json]) -> list[Json]:
    """Flatten lists: ['in', '$x', [1, 2]] means ['in', '$x', 1, 2]."""
    return [each for item in items for each in (item if isinstance(item, list) else [item])]


def _value(hosts: host_view.Hosts, item: Json) -> np.ndarray | float | str | None:
    """Return an array for an attribute, or the constant."""
    if isinstance(item, (list, dict)):
        raise Malformed('an operand is a list or an object instead of a constant or an attribute')
    if not isinstance(item, str) or not item.startswith('$'):
        return item
    names = item[1:].split('.')
    if names[0] not in attributes.ATTRIBUTES:
        raise Malformed(f'{item[:64]!r} is not an attribute. Attributes: '
                        + ', '.join('$' + name for name in sorted(attributes.ATTRIBUTES)))
    return attributes.path(hosts, names)


def _compared(hosts: host_view.Hosts, compare: Comparison, first: Json, second: Json) -> np.ndarray:
    left, right = _value(hosts, first), _value(hosts, second)
    numeric = all(isinstance(each, (int, float)) or isinstance(each, np.ndarray) and each.dtype != object
                  for each in (left, right))
    if numeric:
        try:
            return np.broadcast_to(compare(left, right), (len(hosts),))
        except OverflowError:
            raise Malformed('a number is too large') from None
    pairs = zip(*(each if isinstance(each, np.ndarray) else [each] * len(hosts) for each in (left, right)))
    return np.array([_holds(compare, *pair) for pair in pairs], dtype=bool)


def _holds(compare: Comparison, left: object, right: object) -> bool:
    """Compare two values; incomparable types yield False."""
    if left is None or right is None:
        return False
    try:
        return bool(compare(left, right))
    except TypeError:
        return False


FILTERS = (JsonFilter,)
