"""Operators in requirements. A requirement is the value of an extra spec that a host must satisfy.

Examples: ``>= 5``, ``s== 2.1.0``, ``<in> gcc``, ``<all-in> aes mmx``, ``<or> fpu <or> gpu``. A value without an
operator is compared as text. A host without a value satisfies no requirement.
"""
import collections.abc
import functools
import math
import operator
import re
import typing

from nova.json_types import Json

Value = Json | frozenset[str]
Comparison = collections.abc.Callable[[typing.Any, typing.Any], bool]
Matches = collections.abc.Callable[[Value], bool]

NUMERIC = {'=': operator.ge, '==': operator.eq, '!=': operator.ne, '>=': operator.ge, '<=': operator.le}
TEXT = {'s==': operator.eq, 's!=': operator.ne, 's>=': operator.ge, 's>': operator.gt, 's<=': operator.le,
        's<': operator.lt}
IN, ALL_IN, OR = '<in>', '<all-in>', '<or>'
OPERATORS = (*NUMERIC, *TEXT, IN, ALL_IN, OR)


@functools.lru_cache(maxsize=1024)
def matcher(requirement: str) -> Matches:
    """Return the function ``matches(value)`` for a requirement."""
    first, _, rest = requirement.strip().partition(' ')
    rest = rest.strip()
    if first in NUMERIC:
        return functools.partial(_numeric, NUMERIC[first], number(rest))
    if first in TEXT:
        return functools.partial(_text, TEXT[first], rest)
    if first == IN:
        return functools.partial(_within, rest)
    if first == ALL_IN:
        return functools.partial(_all_within, tuple(rest.split()))
    if first == OR:
        return functools.partial(_one_of, tuple(part.strip() for part in rest.split(OR)))
    return functools.partial(_text, operator.eq, requirement.strip())


def matches(value: Value, requirement: str) -> bool:
    """Tell whether the value of a host satisfies a requirement."""
    return matcher(requirement)(value)


def comparison(requirement: str) -> tuple[Comparison, float | None] | None:
    """Return (comparison function, number) of a requirement with a numeric operator, or None for other requirements."""
    first, _, rest = requirement.strip().partition(' ')
    return (NUMERIC[first], number(rest)) if first in NUMERIC else None


def number(value: Value) -> float | None:
    """Convert a value to a finite number, or return None if this is impossible."""
    try:
        found = float(value) if isinstance(value, (str, int, float)) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def words(value: Value) -> list[str]:
    """Return the elements of a list, or of text separated by spaces or commas."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [str(each) for each in value]
    return [part for part in re.split(r'[\s,]+', str(value)) if part]


def _numeric(compare: Comparison, required: float | None, value: Value) -> bool:
    found = None if isinstance(value, bool) else number(value)
    return required is not None and found is not None and compare(found, required)


def _text(compare: Comparison, required: str, value: Value) -> bool:
    if value is None or isinstance(value, (list, dict)):
        return False
    if isinstance(value, bool):
        return compare(str(value).lower(), required.lower())
    return compare(str(value), required)


def _within(part: str, value: Value) -> bool:
    if value is None or not part:
        return False
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(part in str(each) for each in value)
    return not isinstance(value, dict) and part in str(value)


def _all_within(parts: tuple[str, ...], value: Value) -> bool:
    return value is not None and not isinstance(value, dict) and bool(parts) and set(parts) <= set(words(value))


def _one_of(options: tuple[str, ...], value: Value) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(str(each) in options for each in value)
    return any(_text(operator.eq, each, value) for each in options)
