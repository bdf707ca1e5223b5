"""JSON Schema as every API here checks it: in time that grows with the document, not with its square."""
import collections.abc
import json
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


Validator = validators.extend(_BASE, {'items': _items, 'uniqueItems': _unique_items})
