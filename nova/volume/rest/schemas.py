"""JSON types of the Block Storage API, and functions that create its routes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TYPE_CHECKING, TypeVar

from oslo_utils import strutils

from nova import exception
from nova.json_types import Json
from nova.web import json_types
from nova.web.resource import Body
from nova.web.resource import Converted
from nova.web.resource import Document
from nova.web.resource import Schema
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.volume.embedded import EmbeddedVolumes
    from nova.volume.rest.request import VolumeRequest

Result = TypeVar('Result')
MAX_METADATA_ITEMS = 128                         # of a resource


def flag(name: str, value: Json, default: bool = False) -> bool:
    """Parse a boolean of a body or query.

    :raises BadRequest: the value is neither true nor false; a misspelt word must not mean the default
    """
    if value in (None, ''):
        return default
    try:
        return strutils.bool_from_string(value, strict=True)
    except ValueError:
        raise exception.BadRequest(f'{name} must be true or false, not {str(value)[:40]!r}.') from None


def _flag(*types: str) -> Converted:
    return Converted({'type': ['boolean', *types]}, lambda name, value: None if value is None else flag(name, value))


# ---- types of requests -------------------------------------------------------

NAME: Schema = {'type': ['string', 'null'], 'maxLength': 255}
SHORT_ID: Schema = {'type': ['string', 'null'], 'maxLength': 36}
ID: Schema = {'type': 'string', 'maxLength': 36}
ANY_ID: Schema = {'type': 'string'}
METADATA: Schema = {'type': ['object', 'null'], 'maxProperties': MAX_METADATA_ITEMS,
                    'propertyNames': {'minLength': 1, 'maxLength': 255},
                    'additionalProperties': {'type': 'string', 'maxLength': 255}}
ITEMS: Schema = {**METADATA, 'type': 'object'}
FLAG, FLAG_OR_NULL = _flag('string'), _flag('string', 'null')
DIGITS: Schema = {'type': ['integer', 'string', 'null'], 'pattern': '^[0-9]{1,9}$', 'maximum': 999999999}
SIZE_REQUIRED = Converted({**DIGITS, 'type': ['integer', 'string']}, lambda _name, value: int(value))
SIZE = Converted(DIGITS, lambda _name, value: None if value is None else int(value))

# ---- types of responses ------------------------------------------------------

TEXT: Schema = {'type': 'string'}
TEXT_OR_NULL: Schema = {'type': ['string', 'null']}
UUID: Schema = {'type': 'string', 'format': 'uuid'}
INTEGER: Schema = {'type': 'integer'}
BOOLEAN: Schema = {'type': 'boolean'}
JSON: Schema = {}
NULL: Schema = {'type': 'null'}
TIME: Schema = {'type': 'string', 'pattern': json_types.DATE_TIME['pattern']}
TIME_OR_NULL: Schema = {**TIME, 'type': ['string', 'null']}
EMPTY_LIST: Schema = {'type': 'array', 'maxItems': 0}
STRINGS: Schema = {'type': 'object', 'additionalProperties': TEXT}
ANY_OBJECT: Schema = {'type': 'object', 'additionalProperties': True}
LINKS: Schema = {'type': 'array', 'items': {'type': 'object', 'required': ['rel', 'href'], 'properties': {
    'rel': TEXT, 'href': TEXT}, 'additionalProperties': False}}
METADATA_ANSWER = Document({'metadata': STRINGS})


def route(method: str, path: str, handler: Callable[..., Any], policy: str | None = None, checks: tuple[str, ...] = (),
          answer: Document | None = None, since: int = 0, **more: Any) -> Route:
    """Return a Route. Its ``checks`` (policy rules) also contain the rules of the fields in ``answer``."""
    fields = answer.checks if answer is not None else ()
    return Route(method, path, handler, policy, (*checks, *fields), answer=answer, since=since, **more)


def forward(method: Callable[[EmbeddedVolumes], Callable[..., Result]], **values: bool) -> Callable[..., Result]:
    """Return a handler that only calls a method of the backend, with the caller and the ids in the path.

    :param method: function(backend) -> method
    :param values: further arguments
    """
    def handler(request: VolumeRequest, **parts: str) -> Result:
        return method(request.store)(request.context, *parts.values(), **values)
    return handler


def action(noun: str, key: str, handler: Callable[..., Any], policy: str, status: int = 202,
           schema: Schema | None = None, checks: tuple[str, ...] = (), answer: Document | None = None,
           name: str = '') -> Route:
    """Return the route of an action on a resource.

    :param key: key of the body, which names the action
    :param schema: JSON Schema of the value below the key
    """
    return route('POST', f'/{noun}/{{ident}}/action', handler, policy, checks, answer, status=status, action=key,
                 body=schema and Body(key, schema), name=name)
