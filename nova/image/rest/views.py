"""Documents of the Image API: images, members, lists, versions, schemas."""
from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import cast, TYPE_CHECKING

from nova import utils
from nova.image import fields
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import sizes

if TYPE_CHECKING:
    from nova.db.tables.rows import ImageMembersRow
    from nova.image.embedded.stored_image import StoredImage

MIB = 2 ** 20
SIZES = ('image_size_total',)
NOTHING_STAGED: JsonObject = {'limit': 0, 'usage': 0}        # staging is not supported
# supported features: 2.5 community images, 2.7 hidden images and os_hash_*
VERSIONS = ('v2.7', 'v2.5', 'v2.4', 'v2.3', 'v2.2', 'v2.1', 'v2.0')
PLAIN = ('id', 'name', 'status', 'visibility', 'owner', 'protected', 'os_hidden', 'disk_format', 'container_format',
         'min_disk', 'min_ram', 'size', 'virtual_size', 'checksum', 'os_hash_algo', 'os_hash_value', 'tags')


def image(row: StoredImage) -> JsonObject:
    """Return the flat form: columns, links and properties. Links are relative to the service's root."""
    url = f'/v2/images/{row["id"]}'
    columns = cast('Mapping[str, Json]', row)            # for the type checker: a TypedDict has literal keys
    return {**row['properties'], **{name: columns[name] for name in PLAIN},
            'created_at': utils.isotime(row['created_at']), 'updated_at': utils.isotime(row['updated_at']),
            'self': url, 'file': f'{url}/file', 'schema': '/v2/schemas/image'}


def images(rows: Sequence[StoredImage], query: list[tuple[str, str]], limit: int, cut: bool = False,
           ) -> JsonObject:
    """Return a page of images; ``next`` is present if a further page may follow."""
    kept = [(name, value) for name, value in query if name != 'marker']
    shown = [image(row) for row in rows]
    number = sizes.fitting(shown)
    document: JsonObject = {'images': [*shown[:number]], 'first': _link(kept), 'schema': '/v2/schemas/images'}
    if rows and (len(rows) == limit or cut or number < len(rows)):
        document['next'] = _link([*kept, ('marker', rows[number - 1]['id'])])
    return document


def _link(query: list[tuple[str, str]]) -> str:
    return '/v2/images' + ('?' + urllib.parse.urlencode(query) if query else '')


def member(row: ImageMembersRow) -> JsonObject:
    return {'image_id': row['image_id'], 'member_id': row['member'], 'status': row['status'],
            'created_at': utils.isotime(row['created_at']), 'updated_at': utils.isotime(row['updated_at']),
            'schema': '/v2/schemas/member'}


def members(rows: Sequence[ImageMembersRow]) -> JsonObject:
    return {'members': [member(row) for row in rows], 'schema': '/v2/schemas/members'}


def usage(used: Mapping[str, tuple[int, int]]) -> JsonObject:
    """Return the document of GET /v2/info/usage: sizes in MiB, rounded up.

    :param used: {resource: (limit, used)}, sizes in bytes
    """
    shown: JsonObject = {name: {'limit': limit if limit < 0 or name not in SIZES else limit // MIB,
                    'usage': number if name not in SIZES else -(-number // MIB)}
             for name, (limit, number) in used.items()}
    return {'usage': {**shown, 'image_stage_total': NOTHING_STAGED}}


def versions(root: str) -> JsonObject:
    """Return the version document.

    :param root: URL of this service, without a trailing slash
    """
    return {'versions': [{'id': version, 'status': 'CURRENT' if version == VERSIONS[0] else 'SUPPORTED',
                          'links': [{'rel': 'self', 'href': f'{root}/v2/'}]} for version in VERSIONS]}


# ---- schemas -----------------------------------------------------------------

def _field_schema(field: fields.Field) -> JsonObject:
    schema = {key: value for key, value in field.schema.items() if key != 'readOnly'}
    if field.set_by is None:
        schema['readOnly'] = True
    return {**schema, 'description': field.description}


IMAGE: JsonObject = {
    'name': 'image',
    'properties': {**{name: _field_schema(field) for name, field in fields.FIELDS.items()},
                   **{name: {**fields.IMAGE_REFERENCE, 'is_base': False,
                             'description': 'ID of the image that holds its kernel or ramdisk.'}
                      for name in fields.REFERENCES}},
    'additionalProperties': {'type': 'string'},
    'links': [{'rel': 'self', 'href': '{self}'}, {'rel': 'enclosure', 'href': '{file}'},
              {'rel': 'describedby', 'href': '{schema}'}],
}
MEMBER: JsonObject = {
    'name': 'member',
    'properties': {
        'member_id': {'type': 'string', 'description': 'An identifier for the image member (tenantId)'},
        'image_id': {'type': 'string', 'pattern': fields.IMAGE_REFERENCE['pattern'],
                     'description': 'An identifier for the image'},
        'status': {'type': 'string', 'enum': ['pending', 'accepted', 'rejected'],
                   'description': 'The status of this image member'},
        'created_at': {'type': 'string', 'description': 'Date and time of image member creation'},
        'updated_at': {'type': 'string', 'description': 'Date and time of last modification of image member'},
        'schema': {'type': 'string', 'readOnly': True},
    },
}
SCHEMAS: dict[str, JsonObject] = {
    'image': IMAGE,
    'images': {'name': 'images', 'properties': {
        'images': {'type': 'array', 'items': IMAGE}, 'first': {'type': 'string'}, 'next': {'type': 'string'},
        'schema': {'type': 'string'}},
        'links': [{'rel': 'first', 'href': '{first}'}, {'rel': 'next', 'href': '{next}'},
                  {'rel': 'describedby', 'href': '{schema}'}]},
    'member': MEMBER,
    'members': {'name': 'members', 'properties': {
        'members': {'type': 'array', 'items': MEMBER}, 'schema': {'type': 'string'}},
        'links': [{'rel': 'describedby', 'href': '{schema}'}]},
}
IMPORT: JsonObject = {'import-methods': {'description': 'Import methods available.', 'type': 'array', 'value': []}}
STORES: JsonObject = {'stores': [{'id': 'embedded', 'description': 'Files of this deployment', 'default': 'true'}]}
