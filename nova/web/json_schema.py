"""JSON Schema as every API here checks it: in time that grows with the document, not with its square."""
import collections.abc
import functools
import json
import re
import typing

import jsonschema
from jsonschema import validators

_BASE = jsonschema.Draft202012Validator
_Errors = collections.abc.Iterator[jsonschema.ValidationError]


def _is_too_long(instance: typing.Any, schema: dict[str, typing.Any]) -> bool:
    """Whether maxItems refuses the list already: then the library need not look at each of its items."""
    return isinstance(instance, list) and len(instance) > schema.get('maxItems', len(instance))


def _items(validator: typing.Any, items: typing.Any, instance: typing.Any, schema: dict[str, typing.Any]) -> _Errors:
    if not _is_too_long(instance, schema):
        yield from _BASE.VALIDATORS['items'](validator, items, instance, schema)


def _unique_items(_validator: typing.Any, unique: bool, instance: typing.Any, schema: dict[str, typing.Any]) -> _Errors:
    """The library compares each item with each where they cannot be sorted, as numbers mixed with texts cannot."""
    if unique and isinstance(instance, list) and not _is_too_long(instance, schema) and len(
            {json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield jsonschema.ValidationError('has items that are equal')


@functools.lru_cache(1000)
def anchored(pattern: str) -> str:
    """A pattern of a schema for Python: there ``$`` is the end of the text (ECMA-262), and here also the place before
    a line feed that ends it.
    """
    return re.sub(r'(?<!\\)\$$', r'\\Z', pattern)


def _pattern(_validator: typing.Any, pattern: str, instance: typing.Any, _schema: dict[str, typing.Any]) -> _Errors:
    if isinstance(instance, str) and not re.search(anchored(pattern), instance):
        yield jsonschema.ValidationError(f'{instance!r} does not match {pattern!r}')


def _pattern_properties(validator: typing.Any, patterns: dict[str, typing.Any], instance: typing.Any,
                        schema: dict[str, typing.Any]) -> _Errors:
    yield from _BASE.VALIDATORS['patternProperties'](
        validator, {anchored(pattern): each for pattern, each in patterns.items()}, instance, schema)


def _additional_properties(validator: typing.Any, allowed: typing.Any, instance: typing.Any,
                           schema: dict[str, typing.Any]) -> _Errors:
    patterns = schema.get('patternProperties')
    if patterns:
        schema = {**schema, 'patternProperties': {anchored(pattern): each for pattern, each in patterns.items()}}
    yield from _BASE.VALIDATORS['additionalProperties'](validator, allowed, instance, schema)


Validator = validators.extend(_BASE, {
    'items': _items, 'uniqueItems': _unique_items, 'pattern': _pattern, 'patternProperties': _pattern_properties,
    'additionalProperties': _additional_properties})
