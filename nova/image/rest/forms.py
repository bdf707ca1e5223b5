"""Schemas of the Image API: the query of the image list, and request bodies. Handlers call ``check`` for bodies."""
from __future__ import annotations

import urllib.parse
from typing import Any

from nova import exception
from nova.image import fetch
from nova.image import fields
from nova.image import resources
from nova.image.embedded import search
from nova.image.resources import IMAGE
from nova.image.resources import TEXT
from nova.image.rest import patch
from nova.json_types import JsonObject
from nova.web import json_schema
from nova.web import params
from nova.web.resource import closed
from nova.web.resource import Plain
from nova.web.resource import Schema

_PAGE = ('sort', 'sort_key', 'sort_dir', 'limit', 'marker')


class ListQuery(params.Query):
    """Query of the image list; the handler gets [(name, value)]. An unknown name is an image property."""

    def __init__(self) -> None:
        names = dict.fromkeys((*_PAGE, *search.READERS))
        super().__init__(*(params.Param(name, {**TEXT, 'enum': [*search.CHOICES[name]]} if name in search.CHOICES else
                                        TEXT) for name in names), params.Param(None, TEXT, pattern='^.+$'), closed=0)

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> Any:
        """Parse a query string.

        :raises BadRequest: the query is too long, or malformed
        """
        if len(query_string) > params.MAX_QUERY:
            raise exception.BadRequest('The query string is too long.')
        try:
            return urllib.parse.parse_qsl(query_string, keep_blank_values=True, errors='strict',
                                          max_num_fields=search.MAX_FILTERS)
        except ValueError:
            raise exception.BadRequest('The query string cannot be read.') from None


def _object(*required: str, more: Schema | bool = True, **properties: Schema) -> Plain:
    return Plain({'type': 'object', 'properties': properties, 'required': [*required], 'additionalProperties': more})


def _v20(operation: str) -> Schema:
    return {'type': 'object', 'required': [operation] if operation == 'remove' else [operation, 'value'],
            'properties': {operation: _POINTER, 'value': {}}}


_POINTER: Schema = {**TEXT, 'pattern': '^/[^/]+$'}
NEW_IMAGE = _object(more=resources.PROPERTY, **IMAGE.properties('create'),
                    **dict.fromkeys(fields.REFERENCES, resources.IMAGE_REFERENCE))
CHANGES = Plain({'type': 'array', 'maxItems': patch.MAX_OPERATIONS, 'items': {
    'type': 'object', 'required': ['op', 'path'],
    'properties': {'op': {'enum': [*patch.OPERATIONS]}, 'path': _POINTER, 'value': {}}}})
CHANGES_V20: Schema = {'type': 'array', 'maxItems': patch.MAX_OPERATIONS,
                       'items': {'oneOf': [*map(_v20, patch.OPERATIONS)]}}
NEW_MEMBER = _object('member', member={**TEXT, 'minLength': 1, 'maxLength': 255})
MEMBER_STATUS = _object('status', status={'enum': [*resources.MEMBER_STATUSES]})
# there is only one store: reject a request that names another store, rather than ignore the name
IMPORT = _object('method', more=False,
                 method=closed('name', name=TEXT, uri={**TEXT, 'maxLength': fetch.MAX_URL_LENGTH}),
                 stores={'type': 'array', 'items': {'const': resources.STORE}, 'maxItems': 1},
                 all_stores={'type': 'boolean'}, all_stores_must_succeed={'type': 'boolean'})
DATA = Plain({})


def check(form: Plain, body: JsonObject) -> None:
    """Check a body.

    :raises BadRequest: the body does not match the schema
    """
    error = next(json_schema.Validator(form.schema(0)).iter_errors(body), None)
    if error is not None:
        where = '.'.join(map(str, error.path)) or 'The body'
        raise exception.BadRequest(f'{where} is not valid: {error.message[:200]}.')


TASK_FILTERS = ('type', 'status')
TASK_QUERY = params.Pairs('limit', 'marker', *TASK_FILTERS, closed=0)
NEW_TASK = _object('type', 'input', more=False, type={'enum': ['import']}, input={
    'type': 'object', 'required': ['import_from', 'image_properties'], 'additionalProperties': False, 'properties': {
        'import_from': {**TEXT, 'maxLength': fetch.MAX_URL_LENGTH}, 'import_from_format': TEXT,
        'image_properties': {'type': 'object'}}})
