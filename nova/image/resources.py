"""Fields of the Image API: a row for each field of images and of their members."""
from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.tables.image import image_members
from nova.db.tables.image import images
from nova.image import fields
from nova.web import json_schema
from nova.web.fields import Constant
from nova.web.fields import moment
from nova.web.resource import Field
from nova.web.resource import Getter
from nova.web.resource import Resource
from nova.web.resource import Schema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from nova.json_types import Json
    from nova.json_types import JsonObject

VISIBILITIES = ('public', 'private', 'shared', 'community')
STAGED = 'uploading'             # status of an image with staged data that is not imported yet
STATUSES = ('queued', 'saving', STAGED, 'importing', 'active', 'deactivated')
MEMBER_STATUSES = ('pending', 'accepted', 'rejected')
STORE = 'embedded'               # id of the only store
MAX_PROPERTIES = 128
MAX_TAGS = 128
MAX_VALUE = 65535
# property names that clients cannot use
RESERVED = frozenset({'data_id', 'deleted', 'deleted_at', 'location'})
# values of a new image
NEW: JsonObject = {'name': None, 'visibility': 'shared', 'protected': False, 'os_hidden': False, 'disk_format': None,
                   'container_format': None, 'min_disk': 0, 'min_ram': 0}

# ---- types -------------------------------------------------------------------

TEXT: Schema = {'type': 'string'}
NAME: Schema = {'type': ['null', 'string'], 'maxLength': 255}
FLAG: Schema = {'type': 'boolean'}
NUMBER: Schema = {'type': 'integer', 'minimum': 0, 'maximum': 2 ** 31 - 1}
TAGS: Schema = {'type': 'array', 'items': {**TEXT, 'minLength': 1, 'maxLength': 255}, 'maxItems': MAX_TAGS}
PROPERTY: Schema = {**TEXT, 'maxLength': MAX_VALUE}
IMAGE_ID: Schema = {**TEXT, 'pattern': '^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}'
                                       '-([0-9a-fA-F]){12}$'}
IMAGE_REFERENCE: Schema = {**IMAGE_ID, 'type': ['null', 'string'], 'maxLength': 36, 'is_base': False}
LINK: Schema = {**TEXT, 'readOnly': True}
TIME: Schema = {**TEXT, 'readOnly': True}
SIZE: Schema = {'type': ['null', 'integer'], 'readOnly': True}


def _digest(longest: int) -> Schema:
    return {'type': ['null', 'string'], 'maxLength': longest, 'readOnly': True}


def _known(values: tuple[str, ...]) -> Schema:
    return {'type': ['null', 'string'], 'enum': [None, *values]}


# ---- rows --------------------------------------------------------------------

SHOWN = 'show schema'                    # the field is in documents of images, and in GET /v2/schemas/image
BOTH: dict[str, Any] = {'views': SHOWN, 'write': 'create update'}
READ: dict[str, Any] = {'views': SHOWN}


def _url(suffix: str = '') -> Getter:
    """Return a function that gets a URL, relative to the service's root, from an image's row."""
    return lambda row, request: f'/v2/images/{row["id"]}{suffix}'


IMAGE = Resource('image', 'images', images, (
    Field('id', IMAGE_ID, 'id', 'An identifier for the image', SHOWN, write='create', filter='id', sort=True),
    Field('name', NAME, 'name', 'Descriptive name for the image', filter='name', sort=True, **BOTH),
    Field('visibility', {**TEXT, 'enum': [*VISIBILITIES]}, 'visibility', 'Scope of image accessibility', sort=True,
          **BOTH),
    Field('owner', NAME, 'owner', 'Owner of the image', filter='owner', sort=True, **BOTH),
    Field('protected', FLAG, 'protected', 'If true, image will not be deletable.', filter='protected', **BOTH),
    Field('os_hidden', FLAG, 'os_hidden', 'If true, image will not appear in default image list response.', **BOTH),
    Field('disk_format', _known(fields.DISK_FORMATS), 'disk_format', 'Format of the disk', filter='disk_format',
          sort=True, **BOTH),
    Field('container_format', _known(fields.CONTAINER_FORMATS), 'container_format', 'Format of the container',
          filter='container_format', sort=True, **BOTH),
    Field('min_disk', NUMBER, 'min_disk', 'Amount of disk space (in GB) required to boot image.',
          filter='min_disk min_disk_min min_disk_max', sort=True, **BOTH),
    Field('min_ram', NUMBER, 'min_ram', 'Amount of ram (in MB) required to boot image.',
          filter='min_ram min_ram_min min_ram_max', sort=True, **BOTH),
    Field('tags', TAGS, 'tags', 'List of strings related to the image', **BOTH),
    Field('status', {**TEXT, 'enum': [*STATUSES], 'readOnly': True}, 'status', 'Status of the image', filter='status',
          sort=True, **READ),
    Field('size', SIZE, 'size', 'Size of image file in bytes', filter='size size_min size_max', sort=True, **READ),
    Field('virtual_size', SIZE, 'virtual_size', 'Virtual size of image in bytes', filter='virtual_size', **READ),
    Field('checksum', _digest(32), 'checksum', 'md5 hash of image contents.', filter='checksum', **READ),
    Field('os_hash_algo', _digest(64), 'os_hash_algo', 'Algorithm to calculate the os_hash_value',
          filter='os_hash_algo', **READ),
    Field('os_hash_value', _digest(128), 'os_hash_value', 'Hexdigest of the image contents', filter='os_hash_value',
          **READ),
    Field('created_at', TIME, moment('created_at'), 'Date and time of image registration', column='created_at',
          filter='created_at', sort=True, **READ),
    Field('updated_at', TIME, moment('updated_at'), 'Date and time of the last image modification',
          column='updated_at', filter='updated_at', sort=True, **READ),
    Field('self', LINK, _url(), 'URL of the image', **READ),
    Field('file', LINK, _url('/file'), 'URL of the image data', **READ),
    Field('schema', LINK, Constant('/v2/schemas/image'), 'URL of the schema of the image', **READ),
    Field('direct_url', LINK, None, 'URL to access the image file kept in external store', 'schema'),
    Field('locations', {'type': 'array', 'readOnly': True}, None, 'A set of URLs to access the image file', 'schema'),
))
FIELDS = {field.name: field for field in IMAGE.fields}
KERNELS = Resource('', '', None, tuple(
    Field(name, IMAGE_REFERENCE, None, 'ID of the image that contains the kernel or ramdisk of this image.', 'schema',
          optional=True)
    for name in fields.REFERENCES))
MEMBER = Resource('member', 'members', image_members, (
    Field('member_id', TEXT, 'member', 'An identifier for the image member (tenantId)'),
    Field('image_id', IMAGE_ID, 'image_id', 'An identifier for the image'),
    Field('status', {**TEXT, 'enum': [*MEMBER_STATUSES]}, 'status', 'The status of this image member'),
    Field('created_at', TEXT, moment('created_at'), 'Date and time of image member creation'),
    Field('updated_at', TEXT, moment('updated_at'), 'Date and time of last modification of image member'),
    Field('schema', LINK, Constant('/v2/schemas/member'), 'URL of the schema of the member'),
))


# ---- checks ------------------------------------------------------------------

@functools.cache
def _validator(name: str) -> Validator:
    return json_schema.Validator(
        FIELDS[name].type if name in FIELDS else IMAGE_REFERENCE if name in fields.REFERENCES else PROPERTY)


def check(name: str, value: Json) -> None:
    """Raise BadRequest unless the value is valid for the field or property."""
    if name not in FIELDS and (not name or not fields.is_text(name, 255)):
        raise exception.BadRequest('A property name must have 1 to 255 characters.')
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and not fields.is_text(text, MAX_VALUE) for text in texts):
        raise exception.BadRequest(f'{name} is too long or holds invalid characters.')
    if not _validator(name).is_valid(value):
        raise exception.BadRequest(f'The value of {name} is not valid.')


def check_settable(name: str, when: str) -> None:
    """Raise Forbidden if a user may not set the field when creating or updating an image (``when``)."""
    if name in RESERVED:
        raise exception.Forbidden(f"Attribute '{name}' is reserved.")
    if name in FIELDS and when not in FIELDS[name].write.split():
        raise exception.Forbidden(f"Attribute '{name}' is read-only.")
