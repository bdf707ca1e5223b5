"""Parse the query of an image list."""
from collections.abc import Callable, Mapping
import dataclasses
import datetime
from typing import Any

from nova import exception
from nova import utils
from nova.image import fields
from nova.image.resources import IMAGE
from nova.image.resources import TIME
from nova.image.resources import VISIBILITIES
from nova.web.resource import Field
from nova.web.resource import schema_of

DEFAULT_LIMIT, MAX_LIMIT = 25, 1000
MAX_FILTERS = 64
MAX_SORT_KEYS = 8
BIGGEST = 2 ** 63 - 1

SEVERAL = ('id', 'name', 'status', 'disk_format', 'container_format')       # filters with several values, as in:one,two
BOUNDS = {name: (column, 'gte' if name.endswith('_min') else 'lte') for name, column in IMAGE.filters.items()
          if name != column}
TIME_OPERATORS = ('eq', 'neq', 'gt', 'gte', 'lt', 'lte')
SORT_KEYS = tuple(IMAGE.sort_keys)
CHOICES = {'visibility': (*VISIBILITIES, 'all'),
           'member_status': ('accepted', 'pending', 'rejected', 'all')}
BOOLEANS = {'true': True, 'false': False, '1': True, '0': False}


@dataclasses.dataclass
class Search:
    """Filters, order and page of an image list."""

    equal: dict[str, list[Any]] = dataclasses.field(default_factory=dict)      # column: [values]
    compare: list[tuple[str, str, Any]] = dataclasses.field(default_factory=list)    # (column, operator, value)
    tags: list[str] = dataclasses.field(default_factory=list)
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    visibility: str | None = None
    member_status: str = 'accepted'
    os_hidden: bool = False
    sort: list[tuple[str, str]] = dataclasses.field(default_factory=list)     # (column, 'asc' or 'desc')
    limit: int = DEFAULT_LIMIT
    marker: str | None = None
    after: Mapping[str, Any] | None = None            # last image of the previous page; used instead of ``marker``
    # True if the page reached nova.web.sizes.PAGE bytes and therefore has fewer rows than the limit
    cut: bool = False


def parse(pairs: list[tuple[str, str]]) -> Search:
    """Parse (name, value) pairs of a query string.

    :raises BadRequest: invalid value. An unknown name filters by a property.
    """
    pairs = list(pairs)
    if len(pairs) > MAX_FILTERS:
        raise exception.BadRequest(f'At most {MAX_FILTERS} query parameters are accepted.')
    search = Search()
    keys: list[str] = []
    directions: list[str] = []
    for name, value in pairs:
        if not fields.is_text(name, 255) or not fields.is_text(value, 65535):
            raise exception.BadRequest('A query parameter is too long or holds invalid characters.')
        if name == 'sort':
            keys, directions = _sort(value)
        elif name == 'sort_key':
            keys.append(value)
        elif name == 'sort_dir':
            directions.append(value)
        else:
            _filter(search, name, value)
    search.sort = _order(keys, directions)
    return search


def _filter(search: Search, name: str, value: str) -> None:
    read = READERS.get(name)
    if read is None:
        search.properties[name] = value
    else:
        read(search, name, value)


def _read_limit(search: Search, name: str, value: str) -> None:
    search.limit = min(_number(name, value), MAX_LIMIT)


def _read_marker(search: Search, _name: str, value: str) -> None:
    search.marker = value


def _read_tag(search: Search, _name: str, value: str) -> None:
    search.tags.append(value)


def _read_choice(search: Search, name: str, value: str) -> None:
    if value not in CHOICES[name]:
        raise exception.BadRequest(f'{name} must be one of {", ".join(CHOICES[name])}.')
    setattr(search, name, value)


def _read_hidden(search: Search, name: str, value: str) -> None:
    search.os_hidden = _boolean(name, value)


def _read_protected(search: Search, name: str, value: str) -> None:
    search.equal[name] = [_boolean(name, value)]


def _read_number(search: Search, name: str, value: str) -> None:
    search.equal[name] = [_number(name, value)]


def _read_bound(search: Search, name: str, value: str) -> None:
    search.compare.append((*BOUNDS[name], _number(name, value)))


def _read_time(search: Search, name: str, value: str) -> None:
    """Add a comparison with a time. A time without a fraction means the whole second, as in responses."""
    op, moment = _time(name, value)
    end = utils.end_of_second(moment)
    known: dict[str, tuple[str, Any]] = {'eq': ('between', (moment, end)), 'neq': ('outside', (moment, end)),
                                         'gt': ('gt', end), 'lte': ('lte', end)}
    search.compare.append((name, *known.get(op, (op, moment))))


def _read_equal(search: Search, name: str, value: str) -> None:
    several = name in SEVERAL and value.startswith('in:')
    search.equal[name] = _several(value[3:]) if several else [value]


def _reader(field: Field) -> Callable[[Search, str, str], None]:
    type_ = schema_of(field.type, 0)['type']
    types = type_ if isinstance(type_, list) else [type_]
    if field.type is TIME:
        return _read_time
    return _read_number if 'integer' in types else _read_protected if type_ == 'boolean' else _read_equal


# {query parameter: parser}; any other name is an image property
READERS: dict[str, Callable[[Search, str, str], None]] = {
    'limit': _read_limit, 'marker': _read_marker, 'tag': _read_tag, 'os_hidden': _read_hidden,
    **dict.fromkeys(CHOICES, _read_choice), **{field.source: _reader(field) for field in IMAGE.fields if field.filter},
    **dict.fromkeys(BOUNDS, _read_bound)}


def _order(keys: list[str], directions: list[str]) -> list[tuple[str, str]]:
    if len(keys) > MAX_SORT_KEYS or set(keys) - set(SORT_KEYS) or set(directions) - {'asc', 'desc'}:
        raise exception.BadRequest(f'Sort by at most {MAX_SORT_KEYS} of {", ".join(SORT_KEYS)}, asc or desc.')
    if len(directions) > max(1, len(keys)):
        raise exception.BadRequest('There are more sort directions than sort keys.')
    keys = keys or ['created_at']
    if len(directions) <= 1:
        directions = (directions or ['desc']) * len(keys)
    elif len(directions) < len(keys):
        raise exception.BadRequest('There must be one sort direction, or one for each sort key.')
    order = list(dict(zip(keys, directions)).items())
    known = {name for name, _direction in order}
    return order + [(name, directions[0]) for name in ('created_at', 'id') if name not in known]


def _sort(value: str) -> tuple[list[str], list[str]]:
    parts = [part.strip().partition(':') for part in value.split(',')]
    return [part[0] for part in parts], [part[2] or 'desc' for part in parts]


def _several(text: str) -> list[str]:
    """Split values at commas; a value in double quotes may contain commas."""
    values, rest = [], text
    while rest:
        if rest.startswith('"'):
            value, closed, rest = rest[1:].partition('"')
            if not closed or (rest and not rest.startswith(',')):
                raise exception.BadRequest('The quotes of an in: filter do not match.')
            rest = rest[1:]
        else:
            value, _comma, rest = rest.partition(',')
        values.append(value)
    return values


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) > BIGGEST:
        raise exception.BadRequest(f'{name} must be a number that is not negative.')
    return int(value)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise exception.BadRequest(f'{name} must be true or false.')
    return BOOLEANS[value.lower()]


def _time(name: str, value: str) -> tuple[str, datetime.datetime]:
    op, _colon, text = value.partition(':')
    if op not in TIME_OPERATORS:
        op, text = 'eq', value
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise exception.BadRequest(f'{name} must be an ISO 8601 time, or OPERATOR:TIME; the operators are '
                                   f'{", ".join(TIME_OPERATORS)}.') from None
    return op, moment
