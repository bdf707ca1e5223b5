"""Shared parts of routes: body schemas and policies."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import jsonschema

from nova import exception
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import json_schema
from nova.web.routes import Route

NAME = {'type': ['string', 'null'], 'maxLength': 255}
MOST_ITEMS = 128                         # maximum number of metadata items
MOST_SHOWN = 64                          # characters of a key in an error message
METADATA = {'type': ['object', 'null'], 'maxProperties': MOST_ITEMS,
            'propertyNames': {'minLength': 1, 'maxLength': 255},
            'additionalProperties': {'type': 'string', 'maxLength': 255}}

NAMES = dict.fromkeys(('name', 'display_name', 'description', 'display_description'), NAME)
ITEMS = {**METADATA, 'type': 'object'}
# Policy of operations on a server's volume: administrators and services.
TRUSTED = 'trusted'
ADMIN = 'admin'                          # administrators only


def of(*required: str, **properties: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of an object with only these properties."""
    return {'type': 'object', 'properties': properties, 'additionalProperties': False,
            **({'required': list(required)} if required else {})}


def check_known(given: JsonObject, known: Collection[str], where: str) -> None:
    """Refuse unknown keys.

    :param where: path of ``given`` in the body; empty for the body
    :raises BadRequest: unknown key
    """
    unknown = ', '.join(repr(key[:MOST_SHOWN]) for key in sorted(given.keys() - known)[:3])
    if unknown:
        raise exception.BadRequest(f'Invalid input for field/attribute {where or "body"}: unknown key {unknown}.')


def refuse(given: JsonObject, refused: dict[str, str]) -> None:
    """Refuse unsupported keys with a value.

    :param refused: {key: reason}
    :raises BadRequest: one of the keys has a value
    """
    for key, reason in refused.items():
        if given.get(key):
            raise exception.BadRequest(f'Invalid input for field/attribute {key}: {reason}')


class Body:
    """Body with a key and a schema; handlers get the value in ``req.body``.

    :param schema: JSON Schema
    :param refused: {unsupported key of the body: reason}
    """

    def __init__(self, key: str, schema: Mapping[str, object], refused: dict[str, str] | None = None) -> None:
        self.key, self.content, self._refused = key, schema, refused or {}
        self._validator = json_schema.Validator(schema)

    def validate(self, document: JsonObject, _version: int = 0, _relaxed: bool = False) -> Json:
        """Validate a body and return the value below the key.

        :raises BadRequest: missing, invalid, unsupported or unknown key
        """
        refuse(document, self._refused)
        check_known(document, {self.key, *self._refused}, '')
        value = document.get(self.key)
        if value is None:
            raise exception.BadRequest(
                f"Invalid input for field/attribute {self.key}: '{self.key}' is a required property.")
        error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        if error is not None:
            path = '.'.join(str(part) for part in (self.key, *error.absolute_path))
            if error.validator == 'additionalProperties' and error.validator_value is False:
                check_known(error.instance, error.schema['properties'], path[:200])
            raise exception.BadRequest(f'Invalid input for field/attribute {path[:200]}: {error.validator} is not met.')
        return value


def named(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return name and description from either of their keys, if present."""
    found = {}
    for name in ('name', 'description'):
        for key in (name, f'display_{name}'):
            if key in given:
                found[name] = given[key]
    return found


def action(noun: str, name: str, handler: Callable[..., JsonObject | None], status: int = 202,
           policy: str | None = None, schema: Mapping[str, object] | None = None) -> Route:
    """Return the route of an action.

    :param policy: TRUSTED or ADMIN; None: any caller with access to the resource
    """
    return Route('POST', f'/{noun}/{{ident}}/action', handler, policy, status=status, action=name,
                 body=schema and Body(name, schema))


DESCRIPTION = of(**NAMES, metadata=METADATA)
