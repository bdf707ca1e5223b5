"""Parse the Image API's two patch formats, and apply patches to an image's fields and properties."""
from __future__ import annotations

from collections.abc import Callable
from typing import cast, TYPE_CHECKING

from nova import exception
from nova.image import resources
from nova.json_types import Json
from nova.json_types import JsonObject

if TYPE_CHECKING:
    from nova.image.embedded.service import Change
    from nova.image.embedded.stored_image import StoredImage

Operation = tuple[str, str, Json]                                    # (operation, name of a field or property, value)

OPERATIONS = ('add', 'replace', 'remove')
V21 = 'application/openstack-images-v2.1-json-patch'
V20 = 'application/openstack-images-v2.0-json-patch'
TYPES = (V21, V20)
MAX_OPERATIONS = 512


def parse(document: Json, media_type: str) -> list[Operation]:
    """Parse a body into [(operation, field or property, value)].

    :raises BadRequest: not a patch of this media type
    """
    if not isinstance(document, list) or len(document) > MAX_OPERATIONS:
        raise exception.BadRequest(f'The body must be a list of at most {MAX_OPERATIONS} operations.')
    return [_operation(change, media_type) for change in document]


def _operation(change: Json, media_type: str) -> Operation:
    if not isinstance(change, dict):
        raise exception.BadRequest('Operations must be JSON objects.')
    if media_type == V21:
        operation, pointer = change.get('op'), change.get('path')
        if operation not in OPERATIONS:
            raise exception.BadRequest(f'Operations must be one of {", ".join(OPERATIONS)}.')
    else:
        given = [name for name in OPERATIONS if name in change]
        if len(given) != 1:
            raise exception.BadRequest(f'Each operation must have one of {", ".join(OPERATIONS)}.')
        operation, pointer = given[0], change[given[0]]
    if operation != 'remove' and 'value' not in change:
        raise exception.BadRequest(f'Operation {operation} needs a value.')
    return operation, _name(pointer), change.get('value')


def _name(pointer: Json) -> str:
    """Return the member named by a JSON pointer (RFC 6901) of depth one."""
    if not isinstance(pointer, str) or not pointer.startswith('/') or '/' in pointer[1:] or len(pointer) < 2:
        raise exception.BadRequest('A path must be a slash and one name.')
    if '~' in pointer.replace('~0', '').replace('~1', ''):
        raise exception.BadRequest('A path has an invalid escape sequence.')
    return pointer[1:].replace('~1', '/').replace('~0', '~')


def change(operations: list[Operation]) -> Callable[[StoredImage], Change]:
    """Return the function that applies the operations, for nova.image.embedded.service.Store.update."""
    def apply(image: StoredImage) -> Change:
        values: JsonObject = {}
        properties: JsonObject = {**image['properties']}
        tags = image['tags']
        for operation, name, value in operations:
            resources.check_settable(name, 'update')
            if operation == 'remove':
                _remove(name, properties)
            elif name == 'tags':
                resources.check('tags', value)
                tags = cast(list[str], value)            # just checked
            elif name in resources.FIELDS:
                values[name] = value
            elif operation == 'replace' and name not in properties:
                raise exception.Conflict(f'Property {name} does not exist.')
            else:
                properties[name] = value
        return values, properties, tags
    return apply


def _remove(name: str, properties: JsonObject) -> None:
    if name in resources.FIELDS:
        raise exception.Forbidden(f'Property {name} may not be removed.')
    if name not in properties:
        raise exception.Conflict(f'Property {name} does not exist.')
    del properties[name]
