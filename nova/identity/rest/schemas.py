"""Schemas of the Identity API: types, request bodies, lists and kinds of resources.

As in Keystone, request bodies may have unknown keys. Values of the wrong type are refused.
"""
from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from nova import exception
from nova.db.types import ColumnValues
from nova.identity.embedded import directory
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import url_of
from nova.json_types import JsonObject
from nova.web import json_schema
from nova.web import params
from nova.web import resource
from nova.web.resource import Converted
from nova.web.resource import Field
from nova.web.resource import Resource
from nova.web.resource import Schema
from nova.web.resource import shape
from nova.web.resource import View

# ---- types of requests

TEXT: Schema = {'type': 'string', 'maxLength': 65535, 'pattern': r'^[^\x00]*$'}      # PostgreSQL cannot store NUL
ID: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 64, 'pattern': r'^[^\x00]*$'}
SECRET: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 4096}
NUMBER: Schema = {'type': 'integer', 'minimum': -1, 'maximum': 2 ** 31 - 1}
FLAG: Schema = {'type': 'boolean'}
# names of fields that the service sets; clients cannot store attributes with these names
MADE = frozenset(('id', 'links', 'created_at', 'region', 'password_expires_at', 'original_password'))


def obj(required: Sequence[str] = (), /, **properties: Schema) -> Schema:
    return {'type': 'object', 'required': list(required), 'properties': properties}


def name(length: int) -> Schema:
    """Return the schema of a name, which must not consist only of spaces."""
    return {'type': 'string', 'minLength': 1, 'maxLength': length, 'pattern': r'^[^\x00]*[^\s\x00][^\x00]*$'}


def maybe(schema: Schema) -> Schema:
    return {'anyOf': [schema, {'type': 'null'}]}


def array(items: Schema, least: int, most: int, **more: Any) -> Schema:
    return {'type': 'array', 'items': items, 'minItems': least, 'maxItems': most, **more}


class Body:
    """A request body. The handler gets the value under ``key``.

    :param key: key of the body; '': the handler gets the whole body
    """

    def __init__(self, content: Schema, key: str = '') -> None:
        self._key, self._schema = key, obj([key], **{key: content}) if key else content
        self._validator = json_schema.Validator(self._schema)

    def schema(self, version: int = 0, relaxed: bool = False) -> Schema:
        return self._schema

    def validate(self, body: dict[str, Any], version: int = 0, relaxed: bool = False) -> Any:
        """Validate a body.

        :raises BadRequest: names the invalid field without its value, which may be a password
        """
        error = next(self._validator.iter_errors(body), None)
        if error is not None:
            where = '.'.join(str(step) for step in error.absolute_path) or 'body'
            missing = re.match(r"'([^']{1,64})' is a required property", error.message)
            reason = f'{missing[1]} is missing' if missing else f'invalid ({error.validator})'
            raise exception.BadRequest(f'Invalid input for {where[:255]}: {reason}.')
        return body[self._key] if self._key else body


class Query(params.Pairs):
    """Parameters of a query string. The handler gets {name: last value}, including unknown names."""

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> Any:
        return dict(super().validate(query_string, version))


# ---- types of responses

STRING: Schema = {'type': 'string'}
STRING_OR_NULL: Schema = {'type': ['string', 'null']}
INTEGER: Schema = {'type': 'integer'}
NULL: Schema = {'type': 'null'}
STRINGS: Schema = {'type': 'array', 'items': STRING}
REFERENCE = shape(id=STRING)
NAMED = shape(id=STRING, name=STRING)
TIME: Schema = {'type': 'string', 'pattern': r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$'}
TIME_OR_NULL: Schema = {**TIME, 'type': ['string', 'null']}
LINK = shape(self=STRING)
LINKS = shape(self=STRING, next=NULL, previous=NULL)


def linked(path: str) -> Field:
    """Return the field ``links``, which contains the URL of a row.

    :param path: below /v3, with columns in braces
    """
    def link(row: ColumnValues, req: Request) -> JsonObject:
        return {'self': f'{req.root_url}/v3/{path.format_map(row)}'}
    return Field('links', LINK, link, 'URL of the resource.')


class Page(resource.Document):
    """A response with a list; the handler returns the rows.

    :param most: callable() -> number of rows; a list with at least so many rows is marked as truncated
    """

    def __init__(self, shown: Resource, view: str = 'show', most: Callable[[], float] = lambda: math.inf) -> None:
        self._key, self._view, self._most = shown.plural, shown.view(view), most
        super().__init__({shown.plural: [self._view], 'links': LINKS, 'truncated': FLAG})

    def render(self, request: Request, result: Sequence[Any]) -> JsonObject:
        return {self._key: [*map(self._view.documents(request), result)], 'truncated': len(result) >= self._most(),
                'links': {'self': url_of(request), 'next': None, 'previous': None}}


# ---- kinds of resources

@dataclasses.dataclass(frozen=True)
class Kind(Resource):
    """A resource that clients create and change.

    defaults   {column: value} for a new row if the request omits the field or has null
    fixed      {column that cannot be changed: its name in error messages}
    """

    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def content(self, write: str) -> Schema:
        """Return the schema of the resource in the body of a create or update request."""
        return obj([field.name for field in self.fields if field.required and write == 'create'],
                   **self.properties(write))

    def values(self, given: JsonObject, new: bool) -> dict[str, Any]:
        """Return {column: value} from a request body. Fields without a column are checked but not returned."""
        found = {}
        for field in self.fields:
            if field.write and field.name in given:
                value: Any = given[field.name]
                if isinstance(field.accepts, Converted):
                    value = field.accepts.convert(field.name, value)
                column = field.column or field.get
                if isinstance(column, str):
                    found[column] = self.defaults.get(column) if value is None else value
        return {**self.defaults, **found} if new else found


class _OpenView(View):
    """View that combines the fields of a row with the additional attributes that clients stored."""

    def documents(self, request: Any) -> Callable[[Any], dict[str, Any]]:
        build = super().documents(request)
        return lambda row: (row.get('extra') or {}) | build(row)

    def schema(self, version: int) -> Schema:
        return {**super().schema(version), 'additionalProperties': True}


class OpenKind(Kind):
    """A resource in which clients may store additional attributes."""

    view_class: ClassVar[type[View]] = _OpenView

    def values(self, given: JsonObject, new: bool) -> dict[str, Any]:
        """Return {column: value} from a request body.

        :raises BadRequest: the additional attributes are too large
        """
        known = {field.name for field in self.fields if field.write} | MADE
        extra: JsonObject = {key: value for key, value in given.items() if key not in known}
        found = super().values(given, new)
        return found | {'extra': directory.merged_extra(None, extra) if new else extra} if extra else found
