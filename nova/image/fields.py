"""Fields of an image: schema, description, and whether users may set them."""
from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, TypeGuard, TypeVar
import uuid

from nova import exception

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from nova.json_types import Json
    from nova.json_types import JsonObject

_Value = TypeVar('_Value')

VISIBILITIES = ('public', 'private', 'shared', 'community')
STATUSES = ('queued', 'saving', 'active', 'deactivated')
DISK_FORMATS = ('raw', 'qcow2', 'iso', 'ami', 'aki', 'ari', 'vmdk', 'vhd', 'vhdx', 'vdi')
CONTAINER_FORMATS = ('bare', 'ami', 'aki', 'ari')

MAX_PROPERTIES = 128
MAX_TAGS = 128
MAX_VALUE = 65535
MAX_INT = 2 ** 31 - 1

NAME: JsonObject = {'type': ['null', 'string'], 'maxLength': 255}
TAGS: JsonObject = {
    'type': 'array', 'items': {'type': 'string', 'minLength': 1, 'maxLength': 255}, 'maxItems': MAX_TAGS}
NUMBER: JsonObject = {'type': 'integer', 'minimum': 0, 'maximum': MAX_INT}
FLAG: JsonObject = {'type': 'boolean'}
TEXT: JsonObject = {'type': ['null', 'string']}
SIZE: JsonObject = {'type': ['null', 'integer'], 'readOnly': True}
PROPERTY: JsonObject = {'type': 'string', 'maxLength': MAX_VALUE}
IMAGE_REFERENCE: JsonObject = {'type': ['null', 'string'], 'maxLength': 36,
                   'pattern': '^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}'
                              '-([0-9a-fA-F]){12}$'}


@dataclasses.dataclass(frozen=True)
class Field:
    """schema: JSON schema of the value; set_by: 'create', 'all' (create and update) or None (read-only)."""

    name: str
    schema: JsonObject
    set_by: str | None = None
    description: str = ''


FIELDS = {field.name: field for field in (
    Field('id', {'type': 'string', 'pattern': IMAGE_REFERENCE['pattern']}, 'create', 'An identifier for the image'),
    Field('name', NAME, 'all', 'Descriptive name for the image'),
    Field('visibility', {'type': 'string', 'enum': list(VISIBILITIES)}, 'all', 'Scope of image accessibility'),
    Field('owner', NAME, 'all', 'Owner of the image'),
    Field('protected', FLAG, 'all', 'If true, image will not be deletable.'),
    Field('os_hidden', FLAG, 'all', 'If true, image will not appear in default image list response.'),
    Field('disk_format', {'type': ['null', 'string'], 'enum': [None, *DISK_FORMATS]}, 'all', 'Format of the disk'),
    Field('container_format', {'type': ['null', 'string'], 'enum': [None, *CONTAINER_FORMATS]}, 'all',
          'Format of the container'),
    Field('min_disk', NUMBER, 'all', 'Amount of disk space (in GB) required to boot image.'),
    Field('min_ram', NUMBER, 'all', 'Amount of ram (in MB) required to boot image.'),
    Field('tags', TAGS, 'all', 'List of strings related to the image'),
    Field('status', {'type': 'string', 'enum': list(STATUSES)}, None, 'Status of the image'),
    Field('size', SIZE, None, 'Size of image file in bytes'),
    Field('virtual_size', SIZE, None, 'Virtual size of image in bytes'),
    Field('checksum', {**TEXT, 'maxLength': 32}, None, 'md5 hash of image contents.'),
    Field('os_hash_algo', {**TEXT, 'maxLength': 64}, None, 'Algorithm to calculate the os_hash_value'),
    Field('os_hash_value', {**TEXT, 'maxLength': 128}, None, 'Hexdigest of the image contents'),
    Field('created_at', {'type': 'string'}, None, 'Date and time of image registration'),
    Field('updated_at', {'type': 'string'}, None, 'Date and time of the last image modification'),
    Field('self', {'type': 'string'}, None, 'URL of the image'),
    Field('file', {'type': 'string'}, None, 'URL of the image data'),
    Field('schema', {'type': 'string'}, None, 'URL of the schema of the image'),
    Field('direct_url', {'type': 'string'}, None, 'URL to access the image file kept in external store'),
    Field('locations', {'type': 'array'}, None, 'A set of URLs to access the image file'),
)}
LINKS = frozenset({'self', 'file', 'schema', 'direct_url', 'locations'})
# properties that refer to other images
REFERENCES = ('kernel_id', 'ramdisk_id')
# names that properties must not have
RESERVED = frozenset({'data_id', 'deleted', 'deleted_at', 'location', 'properties'})
NEW: JsonObject = {'name': None, 'visibility': 'shared', 'protected': False, 'os_hidden': False, 'disk_format': None,
       'container_format': None, 'min_disk': 0, 'min_ram': 0}


def is_text(value: Json, longest: int) -> TypeGuard[str]:
    """Return whether a string can be stored in every database."""
    return isinstance(value, str) and len(value) <= longest and '\0' not in value and not _surrogate(value)


def _surrogate(value: str) -> bool:
    return not value.isascii() and any('\ud800' <= character <= '\udfff' for character in value)


def is_uuid(value: str) -> bool:
    """Return whether a string is a UUID in canonical form."""
    try:
        return str(uuid.UUID(value)) == value.lower()
    except (ValueError, AttributeError, TypeError):
        return False


@functools.cache
def _validator(name: str) -> Validator:
    from nova.web import json_schema             # imported here because compute hosts do not need it
    schema = FIELDS[name].schema if name in FIELDS else IMAGE_REFERENCE if name in REFERENCES else PROPERTY
    return json_schema.Validator(schema)


def check(name: str, value: Json) -> None:
    """Raise BadRequest unless the value is valid for the field or property."""
    if name not in FIELDS and (not name or not is_text(name, 255)):
        raise exception.BadRequest('A property name must have 1 to 255 characters.')
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and not is_text(text, MAX_VALUE) for text in texts):
        raise exception.BadRequest(f'{name} is too long or holds invalid characters.')
    if not _validator(name).is_valid(value):
        raise exception.BadRequest(f'The value of {name} is not valid.')


def check_settable(name: str, when: str) -> None:
    """Raise Forbidden if a user may not set the field ``when`` ('create' or 'update')."""
    field = FIELDS.get(name)
    if name in RESERVED:
        raise exception.Forbidden(f"Attribute '{name}' is reserved.")
    if field and (field.set_by is None or (when == 'update' and field.set_by == 'create')):
        raise exception.Forbidden(f"Attribute '{name}' is read-only.")


def split(flat: dict[str, _Value]) -> tuple[dict[str, _Value], dict[str, _Value]]:
    """Split an image's flat form into ({column: value}, {property: value})."""
    columns = {name: value for name, value in flat.items() if name in FIELDS}
    return columns, {name: value for name, value in flat.items() if name not in FIELDS}
