"""JSON texts of callers: read within bounds of size and depth, whatever they hold."""
import typing

import orjson

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32                    # nested objects and lists; no document of any API here has half of them


def parse(text: str | bytes, size: int = MAX_BYTES, depth: int = MAX_DEPTH) -> typing.Any:
    """The value of a text.

    :param size: bytes, or characters, of the text at most
    :param depth: levels of objects and lists at most
    :raises ValueError: it is no JSON, too large or nested too deeply
    """
    if len(text) > size:
        raise ValueError(f'it is longer than {size}')
    value = orjson.loads(text)            # a ValueError from 1024 levels on, also for NaN and what is not UTF-8
    opening = ('{', '[') if isinstance(text, str) else (b'{', b'[')
    count: typing.Callable[[typing.Any], int] = text.count
    if sum(map(count, opening)) > depth and _is_deeper(value, depth):
        raise ValueError(f'it has more than {depth} levels')
    return value


def _is_deeper(value: typing.Any, depth: int) -> bool:
    """Whether there are more than ``depth`` levels of objects and lists; without recursion."""
    level = [value]
    for _ in range(depth):
        level = [each for part in level if isinstance(part, (dict, list))
                 for each in (part.values() if isinstance(part, dict) else part)]
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
    return True
