"""What bodies of the face may hold."""
import typing

import jsonschema

from nova import exception
from nova.web import json_schema

NAME = {'type': ['string', 'null'], 'maxLength': 255}
METADATA = {'type': ['object', 'null'], 'maxProperties': 128, 'propertyNames': {'minLength': 1, 'maxLength': 255},
            'additionalProperties': {'type': 'string', 'maxLength': 255}}


def of(**properties: typing.Any) -> dict[str, typing.Any]:
    """An object with these properties."""
    return {'type': 'object', 'properties': properties}


class Given:
    """What a body must hold below a key; a handler finds it in ``req.body``.

    :param schema: JSON Schema
    """

    def __init__(self, key: str, schema: dict[str, typing.Any]) -> None:
        self.key, self.content = key, schema
        self._validator = json_schema.Validator(schema)

    def validate(self, document: dict[str, typing.Any], _version: int = 0, _relaxed: bool = False) -> typing.Any:
        """The value below the key.

        :raises BadRequest: it is not there, or not of the schema
        """
        value = document.get(self.key)
        if value is None:
            raise exception.BadRequest(
                f"Invalid input for field/attribute {self.key}: '{self.key}' is a required property.")
        error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        if error is not None:
            path = '.'.join(str(part) for part in (self.key, *error.absolute_path))
            raise exception.BadRequest(f'Invalid input for field/attribute {path[:200]}: {error.validator} is not met.')
        return value
