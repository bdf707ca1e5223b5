"""What rows of the face share: what bodies may hold, and who may do what belongs to a server in use."""
import typing

import jsonschema

from nova import exception
from nova.web import json_schema
from nova.web.routes import Route

NAME = {'type': ['string', 'null'], 'maxLength': 255}
MOST_ITEMS = 128                         # of metadata
MOST_SHOWN = 64                          # characters of a key that an answer shows
METADATA = {'type': ['object', 'null'], 'maxProperties': MOST_ITEMS,
            'propertyNames': {'minLength': 1, 'maxLength': 255},
            'additionalProperties': {'type': 'string', 'maxLength': 255}}

NAMES = dict.fromkeys(('name', 'display_name', 'description', 'display_description'), NAME)
ITEMS = {**METADATA, 'type': 'object'}
# Policy of what belongs to a server in use: administrators and services.
TRUSTED = 'trusted'
ADMIN = 'admin'                          # administrators alone


def of(*required: str, **properties: typing.Any) -> dict[str, typing.Any]:
    """An object with these properties and no others, of which some are required."""
    return {'type': 'object', 'properties': properties, 'additionalProperties': False,
            **({'required': list(required)} if required else {})}


def check_known(given: dict[str, typing.Any], known: typing.Collection[str], where: str) -> None:
    """
    :param where: key of the body below which ``given`` stands; empty for the body
    :raises BadRequest: it has a key that is not known
    """
    unknown = ', '.join(repr(key[:MOST_SHOWN]) for key in sorted(given.keys() - known)[:3])
    if unknown:
        raise exception.BadRequest(f'Invalid input for field/attribute {where or "body"}: {unknown} is not known here.')


def refuse(given: dict[str, typing.Any], refused: dict[str, str]) -> None:
    """
    :param refused: {key: why what stands there cannot be carried out}
    :raises BadRequest: one of the keys has a value
    """
    for key, reason in refused.items():
        if given.get(key):
            raise exception.BadRequest(f'Invalid input for field/attribute {key}: {reason}')


class Given:
    """What a body must hold below a key; a handler finds it in ``req.body``.

    :param schema: JSON Schema
    :param refused: {another key of the body: why what stands there cannot be carried out}
    """

    def __init__(self, key: str, schema: dict[str, typing.Any], refused: dict[str, str] | None = None) -> None:
        self.key, self.content, self._refused = key, schema, refused or {}
        self._validator = json_schema.Validator(schema)

    def validate(self, document: dict[str, typing.Any], _version: int = 0, _relaxed: bool = False) -> typing.Any:
        """The value below the key.

        :raises BadRequest: it is not there, or not of the schema, or something is refused or not known
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


def named(given: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """name and description under either of their keys; only those that came."""
    found = {}
    for name in ('name', 'description'):
        for key in (name, f'display_{name}'):
            if key in given:
                found[name] = given[key]
    return found


def action(noun: str, name: str, handler: typing.Callable[..., typing.Any], status: int = 202,
           policy: str | None = None, schema: dict[str, typing.Any] | None = None) -> Route:
    """
    :param policy: TRUSTED or ADMIN; None: whoever has the resource
    """
    return Route('POST', f'/{noun}/{{ident}}/action', handler, policy, status=status, action=name,
                 body=schema and Given(name, schema))


DESCRIPTION = of(**NAMES, metadata=METADATA)
