"""Filters and pagination of Describe operations."""
import base64
import binascii
from collections.abc import Callable, Collection, Mapping, Sequence
import fnmatch
import functools
import re
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.json_types import JsonDocument

MAX_FILTERS, MAX_VALUES = 50, 200
# parts of a filter value: an escaped character, stars, a question mark, and a bracket, which is literal in EC2
_SPECIAL = re.compile(r'\\(?P<escaped>[*?\\])|(?P<stars>\*+)|(?P<one>\?)|\[')
MAX_PATTERNS = 50                # maximum values with wildcards in a request; every item is compared with all of them
MAX_PATTERN_LENGTH = 255         # maximum characters of a value with wildcards: the compilation needs the interpreter
Item = dict[str, Any]
Values = str | Callable[[Item], Any]     # dotted path of a value in an item, or a function that returns it


def answer(name: str, items: Sequence[Item], given: operations.Given, key: Values, rows: Mapping[str, Values],
           least: int = 5, most: int = 1000, prefix: str | None = None) -> JsonDocument:
    """Return the response of a Describe operation: a page of the items that match the filters, under the key ``name``.

    :param prefix: prefix of IDs, or None. If set, the request's list of IDs (VpcIds for the key VpcId) selects items
    :param key, least, most: see ``page``
    :param rows: see ``apply``
    :raises Ec2Error: an ID is unknown, or see ``apply`` and ``page``
    """
    if prefix is not None:
        wanted: Any = given.get(f'{key}s')
        items = choose(items, str(key), wanted, prefix)
    shown, token = page(apply(items, given.get('Filters'), rows), given, key, least, most)
    return {name: shown, 'NextToken': token}


def apply(items: Sequence[Item], given: Sequence[operations.Filter] | None, rows: Mapping[str, Values]) -> list[Item]:
    """Return the items that match every filter. A filter matches if one of its values does.

    ``*`` and ``?`` are wildcards. A backslash before one of them, or before a backslash, makes it literal.

    :param given: filters of the request: [{'Name', 'Values'}]
    :param rows: {filter: value or values of an item}; tag filters are always supported
    :raises Ec2Error: unsupported filter
    """
    found = list(items)
    if len(given or ()) > MAX_FILTERS:
        raise errors.Ec2Error('FilterLimitExceeded', f'A request can have at most {MAX_FILTERS} filters.')
    patterns = [value for filter_ in given or () for value in filter_.get('Values') or () if _is_pattern(value)]
    if len(patterns) > MAX_PATTERNS:
        raise errors.Ec2Error('FilterLimitExceeded',
                              f'The filters of a request can have at most {MAX_PATTERNS} values with wildcards.')
    if any(len(value) > MAX_PATTERN_LENGTH for value in patterns):
        raise errors.Ec2Error('InvalidParameterValue',
                              f'A filter value with wildcards can have at most {MAX_PATTERN_LENGTH} characters.')
    for filter_ in given or ():
        values = _values_of(filter_.get('Name') or '', rows)
        wanted = filter_.get('Values') or []
        if len(wanted) > MAX_VALUES:
            raise errors.Ec2Error('FilterLimitExceeded', f'A filter can have at most {MAX_VALUES} values.')
        pattern = _pattern(tuple(value for value in wanted if value in patterns))
        literals = {_SPECIAL.sub(_literal, value) for value in wanted if value not in patterns}
        found = [item for item in found if any(text in literals or pattern.match(text)
                                               for text in _texts(_value(item, values)))]
    return found


def unset(names: str) -> dict[str, Values]:
    """Return {filter: function that returns None} for attributes that no item has; such a filter matches no item.

    :param names: names separated by spaces
    """
    return dict.fromkeys(names.split(), lambda item: None)


def fixed(value: str, names: str) -> dict[str, Values]:
    """Return {filter: function that returns ``value``} for attributes that have this value in all items."""
    return dict.fromkeys(names.split(), lambda item: value)


def _value(item: Any, values: Values) -> Any:
    """Return the value of a path in an item; a list if the path leads through lists; None if a part is missing."""
    if callable(values):
        return values(item)
    if isinstance(item, list):
        return [_value(part, values) for part in item]
    name, _dot, rest = values.partition('.')
    found = item.get(name) if item else None
    return _value(found, rest) if rest else found


def _tags(item: Item) -> Sequence[dict[str, str]]:
    return item.get('Tags') or item.get('TagSet') or ()            # network interfaces have TagSet


def _values_of(name: str, rows: Mapping[str, Values]) -> Values:
    if name in rows:
        return rows[name]
    if name == 'tag-key':
        return lambda item: [tag['Key'] for tag in _tags(item)]
    if name == 'tag-value':
        return lambda item: [tag['Value'] for tag in _tags(item)]
    if name.startswith('tag:'):
        return lambda item: [tag['Value'] for tag in _tags(item) if tag['Key'] == name[4:]]
    raise errors.Ec2Error('InvalidParameterValue', f'The filter {name[:255]!r} is invalid.')


@functools.lru_cache(256)
def _pattern(wanted: tuple[str, ...]) -> re.Pattern[str]:
    """Compile one regular expression for all values. Repeated stars are merged for speed."""
    if any(_stars(value) > 8 for value in wanted):
        raise errors.Ec2Error('InvalidParameterValue', 'A filter value can have at most 8 stars.')
    return re.compile('|'.join(fnmatch.translate(_SPECIAL.sub(_of_fnmatch, value)) for value in wanted) or r'(?!)')


def _stars(value: str) -> int:
    return sum(found['stars'] is not None for found in _SPECIAL.finditer(value))


def _is_pattern(value: str) -> bool:
    return any(found['stars'] or found['one'] for found in _SPECIAL.finditer(value))


def _literal(special: re.Match[str]) -> str:
    return special['escaped'] or special[0]


def _of_fnmatch(special: re.Match[str]) -> str:
    """Return the text that means a match of ``_SPECIAL`` in fnmatch, in which a backslash is literal."""
    if special['stars'] or special['one']:
        return special[0][0]
    character = _literal(special)
    return character if character == '\\' else f'[{character}]'


def _texts(values: object) -> list[str]:
    if values is None:
        return []
    if isinstance(values, bool):
        return ['true' if values else 'false']
    if isinstance(values, (list, tuple, set)):
        return [text for value in values for text in _texts(value)]
    return [str(values)]


def page(items: Sequence[Item], given: operations.Given, key: Values, least: int = 5,
         most: int = 1000) -> tuple[list[Item], str | None]:
    """Return the items of one page, and the token of the next one.

    :param given: parameters of the request (MaxResults, NextToken)
    :param key: unique value of an item, such as its ID, by which items are sorted
    :raises Ec2Error: malformed token, or size out of range
    """
    size, token = given.get('MaxResults'), given.get('NextToken')
    if size is None and token is None:
        return list(items), None
    size = most if size is None else size
    if not least <= size <= most:
        raise errors.invalid('MaxResults', size)
    ordered = sorted((str(_value(item, key)), number) for number, item in enumerate(items))
    if token is not None:
        after = _opened(token)
        ordered = [each for each in ordered if each[0] > after]
    following = base64.urlsafe_b64encode(ordered[size - 1][0].encode()).decode() if len(ordered) > size else None
    return [items[number] for _place, number in ordered[:size]], following


def _opened(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, ValueError):
        raise errors.Ec2Error('InvalidNextToken', 'NextToken is invalid.') from None


def choose(items: Sequence[Item], key: str, wanted: Collection[str] | None, prefix: str) -> list[Item]:
    """Return the items with the requested IDs, or all items if no IDs are requested.

    :raises Ec2Error: an ID is unknown
    """
    if not wanted:
        return list(items)
    by_id = {item[key]: item for item in items}
    long = {shown: shown if len(shown.partition('-')[2]) == 17 else
            f'{shown.partition("-")[0]}-{shown.partition("-")[2]:0>17}' for shown in wanted}
    long |= {shown: shown for shown in wanted if shown in by_id}
    for shown in wanted:
        if long[shown] not in by_id:
            raise errors.not_found(prefix, shown)
    return [by_id[long[shown]] for shown in dict.fromkeys(wanted)]


def choose_named(items: Sequence[Item], key: str, wanted: Collection[str] | None, code: str,
                 sentence: str) -> list[Item]:
    """Return the items with the requested names, or all items if no names are requested.

    :param code: code of the error
    :param sentence: message of the error, with {} for the unknown name
    :raises Ec2Error: a name is unknown
    """
    if not wanted:
        return list(items)
    known = {item[key] for item in items}
    for name in wanted:
        if name not in known:
            raise errors.Ec2Error(code, sentence.format(repr(name[:255])))
    return [item for item in items if item[key] in wanted]
