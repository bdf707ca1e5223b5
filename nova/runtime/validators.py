"""Validators of JSON values that cross a trust boundary: arguments of privileged operations and of host agents.

A validator takes a value and returns it, possibly in a canonical form. It raises ValueError for an invalid value. It
never converts a type: ``'1'``, ``1.0`` and ``True`` are not accepted as numbers. ADR 0015
explains why no validation library is used.
"""
from collections.abc import Callable
import inspect
import ipaddress
import re
from typing import Any, TypeVar

from nova.json_types import Json

T = TypeVar('T')
Validator = Callable[[Json], T]
MAX_ADDRESS = 100            # maximum characters of an address or range


def text(pattern: str | re.Pattern[str], what: str, shown: int = 80) -> Validator[str]:
    """Accept a string that matches the pattern completely.

    :param what: the end of the error message: ``'x' is not ...``
    :param shown: characters of an invalid value in the message; 0 for secrets
    """
    compiled = re.compile(pattern)

    def validate(given: Json) -> str:
        if not isinstance(given, str) or not compiled.fullmatch(given):
            raise ValueError(f'{given!r:.{shown}} is not {what}')
        return given
    return validate


def number(low: int, high: int) -> Validator[int]:
    def validate(given: Json) -> int:
        if type(given) is not int or not low <= given <= high:
            raise ValueError(f'{given!r:.40} is not a number from {low} to {high}')
        return given
    return validate


def one_of(*values: T) -> Validator[T]:
    def validate(given: Json) -> T:
        for value in values:
            if given == value and type(given) is type(value):
                return value
        raise ValueError(f'{given!r:.40} is none of {", ".join(map(str, values))}')
    return validate


flag = one_of(True, False)


def maybe(validator: Validator[T]) -> Validator[T | None]:
    """Accept null too."""
    return lambda given: None if given is None else validator(given)


def either(value: str, validator: Validator[str]) -> Validator[str]:
    """Accept the string ``value`` and all values that ``validator`` accepts."""
    return lambda given: value if given == value else validator(given)


def items(validator: Validator[T], most: int | None = None) -> Validator[list[T]]:
    """Accept a list.

    :param most: maximum number of items; None: only the length of the message bounds it
    """
    def validate(given: Json) -> list[T]:
        if not isinstance(given, list) or most is not None and len(given) > most:
            raise ValueError('a value is not a list' if most is None else f'a value is not a list of at most {most}')
        return [validator(each) for each in given]
    return validate


def row(*validators: Validator[Any]) -> Validator[list[Any]]:
    """Accept a list with one item for each validator."""
    def validate(given: Json) -> list[Any]:
        if not isinstance(given, list) or len(given) != len(validators):
            raise ValueError(f'a value is not a list of {len(validators)} items')
        return [each(value) for each, value in zip(validators, given, strict=True)]
    return validate


def mapping(key: Validator[str], value: Validator[T]) -> Validator[dict[str, T]]:
    def validate(given: Json) -> dict[str, T]:
        if not isinstance(given, dict):
            raise ValueError('a value is not an object')
        return {key(name): value(each) for name, each in given.items()}
    return validate


def record(kind: Callable[..., T], /, **fields: Validator[Any]) -> Validator[T]:
    """Accept an object with exactly these fields, and return ``kind(**fields)``."""
    def validate(given: Json) -> T:
        if not isinstance(given, dict) or given.keys() != fields.keys():
            raise ValueError(f'an object must have exactly the fields {", ".join(fields)}')
        return kind(**{name: fields[name](value) for name, value in given.items()})
    return validate


def operation(function: Callable[..., T], /, **arguments: Validator[Any]) -> Callable[..., T]:
    """Return ``function`` with validation of its keyword arguments. A missing argument is validated as null.

    :raises TypeError: the function does not take arguments of these names
    """
    inspect.signature(function).bind(**arguments)

    def validated(**given: Any) -> T:
        if unknown := given.keys() - arguments.keys():
            raise ValueError(f'there is no argument {min(unknown):.40}')
        return function(**{name: validator(given.get(name)) for name, validator in arguments.items()})
    return validated


def _internet(parse: Callable[[str], object], what: str) -> Validator[str]:
    def validate(given: Json) -> str:
        if not isinstance(given, str) or '%' in given or len(given) > MAX_ADDRESS:
            raise ValueError(f'{given!r:.80} is not {what}')
        return str(parse(given))
    return validate


# These validators return the canonical form of the module ipaddress, and refuse an IPv6 zone.
address = _internet(ipaddress.ip_address, 'an address')
prefix = _internet(lambda given: ipaddress.ip_network(given, strict=False), 'a range')
interface_address = _internet(ipaddress.ip_interface, 'an address with a prefix length')
