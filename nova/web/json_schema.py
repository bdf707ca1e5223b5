"""JSON Schema validator with run time linear in the size of the document."""
import collections.abc
import functools
import json
import re

import jsonschema
from jsonschema import protocols
from jsonschema import validators

from nova.json_types import JsonDocument

_BASE = jsonschema.Draft202012Validator
Schema = JsonDocument                       # a JSON Schema
_Errors = collections.abc.Iterator[jsonschema.ValidationError]


def part(schema: Schema, key: str) -> Schema:
    """Return the subschema, or {name: subschema}, under a key of a schema; {} if there is none."""
    found = schema.get(key, {})
    return found if isinstance(found, collections.abc.Mapping) else {}


def _is_too_long(instance: object, schema: Schema) -> bool:
    """Return True if a list has more than maxItems items; its items are then not checked."""
    most = schema.get('maxItems')
    return isinstance(instance, list) and isinstance(most, (int, float)) and len(instance) > most


def _items(validator: protocols.Validator, items: Schema | bool, instance: object, schema: Schema) -> _Errors:
    if not _is_too_long(instance, schema):
        yield from _BASE.VALIDATORS['items'](validator, items, instance, schema)


def _unique_items(_validator: protocols.Validator, unique: bool, instance: object, schema: Schema) -> _Errors:
    """Compare the items as JSON texts. The library needs quadratic time for items of mixed types."""
    if unique and isinstance(instance, list) and not _is_too_long(instance, schema) and len(
            {json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield jsonschema.ValidationError('has items that are equal')


@functools.lru_cache(1000)
def anchored(pattern: str) -> str:
    """Replace a final ``$`` by ``\\Z``: Python's ``$`` also matches before a final line feed, unlike JSON Schema."""
    return re.sub(r'(?<!\\)\$$', r'\\Z', pattern)


def _pattern(_validator: protocols.Validator, pattern: str, instance: object, _schema: Schema) -> _Errors:
    if isinstance(instance, str) and not re.search(anchored(pattern), instance):
        yield jsonschema.ValidationError(f'{instance!r} does not match {pattern!r}')


def _pattern_properties(validator: protocols.Validator, patterns: Schema, instance: object,
                        schema: Schema) -> _Errors:
    yield from _BASE.VALIDATORS['patternProperties'](
        validator, {anchored(pattern): each for pattern, each in patterns.items()}, instance, schema)


def _additional_properties(validator: protocols.Validator, allowed: Schema | bool, instance: object,
                           schema: Schema) -> _Errors:
    patterns = schema.get('patternProperties')
    if isinstance(patterns, collections.abc.Mapping):
        schema = {**schema, 'patternProperties': {anchored(pattern): each for pattern, each in patterns.items()}}
    yield from _BASE.VALIDATORS['additionalProperties'](validator, allowed, instance, schema)


# 1.0 is not an integer, unlike in JSON Schema: the API would show and store another value than it accepted
_TYPES = _BASE.TYPE_CHECKER.redefine(
    'integer', lambda _checker, value: isinstance(value, int) and not isinstance(value, bool))
Validator = validators.extend(_BASE, {
    'items': _items, 'uniqueItems': _unique_items, 'pattern': _pattern, 'patternProperties': _pattern_properties,
    'additionalProperties': _additional_properties}, type_checker=_TYPES)
