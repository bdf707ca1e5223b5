"""Bounded parsing of JSON texts from callers."""
import typing

import orjson

from nova.json_types import Json

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32           # maximum depth of nested objects and lists; the APIs' documents nest less than half as deep


def parse(text: str | bytes, size: int = MAX_BYTES, depth: int = MAX_DEPTH) -> typing.Any:
    """Parse a JSON text.

    :param size: maximum length in bytes or characters
    :param depth: maximum number of nested objects and lists
    :raises ValueError: the text is not JSON, too long or nested too deeply
    """
    if len(text) > size:
        raise ValueError(f'it is longer than {size}')
    value = orjson.loads(text)            # raises ValueError also for 1024 levels, NaN and invalid UTF-8
    opening = ('{', '[') if isinstance(text, str) else (b'{', b'[')
    count: typing.Callable[[typing.Any], int] = text.count
    if sum(map(count, opening)) > depth and _is_deeper(value, depth):
        raise ValueError(f'it has more than {depth} levels')
    return value


def _is_deeper(value: Json, depth: int) -> bool:
    """Return True if there are more than ``depth`` levels of objects and lists; does not use recursion."""
    level = [value]
    for _ in range(depth):
        level = [each for part in level if isinstance(part, (dict, list))
                 for each in (part.values() if isinstance(part, dict) else part)]
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
    return True
