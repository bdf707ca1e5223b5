"""Documents of the Image API: images, members, lists, versions, schemas."""
from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nova.image.resources import IMAGE
from nova.image.resources import KERNELS
from nova.image.resources import LINK
from nova.image.resources import MEMBER
from nova.image.resources import STORE
from nova.image.resources import TEXT
from nova.json_types import JsonObject
from nova.web import json_schema
from nova.web import resource
from nova.web import sizes
from nova.web.resource import Document
from nova.web.resource import Plain
from nova.web.resource import Schema
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.db.tables.rows import ImageMembersRow
    from nova.image.embedded.stored_image import StoredImage
    from nova.image.rest.request import ImageRequest

MIB = 2 ** 20
SIZES = ('image_size_total', 'image_stage_total')
IMPORT_METHODS = 'OpenStack-image-import-methods'            # header of the response to the creation of an image
# supported features: 2.5 community images, 2.6 imports, 2.7 hidden images and os_hash_*
VERSIONS = ('v2.7', 'v2.5', 'v2.4', 'v2.3', 'v2.2', 'v2.1', 'v2.0')
_image = IMAGE.view('show').compiled(0)
_member = MEMBER.view('show').compiled(0)


class OneImage(Document):
    """A response with an image: its fields, and its properties as further keys. The handler returns the image's row."""

    def schema(self, version: int) -> Schema:
        shown, kernels = IMAGE.view('show').schema(version), KERNELS.view('schema').schema(version)
        return {**shown, 'additionalProperties': TEXT, 'properties': {
            **json_schema.part(shown, 'properties'), **json_schema.part(kernels, 'properties')}}

    def render(self, request: ImageRequest, result: StoredImage) -> JsonObject:
        return {**result['properties'], **_image(result, request)}


class OneMember(Document):
    """A response with a member. The handler returns the member's row."""

    def schema(self, version: int) -> Schema:
        return MEMBER.view('show').schema(version)

    def render(self, request: ImageRequest, result: ImageMembersRow) -> JsonObject:
        return _member(result, request)


class Members(Document):
    """A response with the members of an image. The handler returns the members' rows."""

    def render(self, request: ImageRequest, result: Sequence[ImageMembersRow]) -> JsonObject:
        return {'members': [_member(row, request) for row in result], 'schema': '/v2/schemas/members'}


def images(rows: Sequence[StoredImage], query: list[tuple[str, str]], limit: int, cut: bool,
           shows: Callable[[StoredImage], bool]) -> JsonObject:
    """Return a page of images; ``next`` is present if a further page may follow.

    :param shows: function(row) -> whether the caller may read the image
    """
    kept = [(name, value) for name, value in query if name != 'marker']
    shown = [{**row['properties'], **_image(row, None)} for row in rows]
    number = sizes.fitting(shown)
    document: JsonObject = {'images': [view for row, view in zip(rows[:number], shown) if shows(row)],
                            'first': link('images', kept), 'schema': '/v2/schemas/images'}
    if rows and (len(rows) == limit or cut or number < len(rows)):
        document['next'] = link('images', [*kept, ('marker', rows[number - 1]['id'])])
    return document


def link(noun: str, query: list[tuple[str, str]]) -> str:
    return f'/v2/{noun}' + ('?' + urllib.parse.urlencode(query) if query else '')


def usage(used: Mapping[str, tuple[int, int]]) -> JsonObject:
    """Return the document of GET /v2/info/usage: sizes in MiB, rounded up.

    :param used: {resource: (limit, used)}, sizes in bytes
    """
    shown: JsonObject = {name: {'limit': limit if limit < 0 or name not in SIZES else limit // MIB,
                    'usage': number if name not in SIZES else -(-number // MIB)}
             for name, (limit, number) in used.items()}
    return {'usage': shown}


def import_methods(methods: Sequence[str]) -> JsonObject:
    """Return the document of GET /v2/info/import."""
    return {'import-methods': {'description': 'Import methods available.', 'type': 'array', 'value': [*methods]}}


def versions(root: str) -> JsonObject:
    """Return the version document.

    :param root: URL of this service, without a trailing slash
    """
    return {'versions': [{'id': version, 'status': 'CURRENT' if version == VERSIONS[0] else 'SUPPORTED',
                          'links': [{'rel': 'self', 'href': f'{root}/v2/'}]} for version in VERSIONS]}


# ---- schemas -----------------------------------------------------------------

def _schema(name: str, properties: Schema, **links: str) -> Schema:
    return {'name': name, 'properties': properties,
            **({'links': [{'rel': rel, 'href': f'{{{key}}}'} for rel, key in links.items()]} if links else {})}


def _properties(of: resource.Resource, view: str) -> Schema:
    return json_schema.part(of.view(view).schema(0), 'properties')


_IMAGE: Schema = {
    **_schema('image', {**_properties(IMAGE, 'schema'), **_properties(KERNELS, 'schema')},
              self='self', enclosure='file', describedby='schema'), 'additionalProperties': {'type': 'string'}}
_MEMBER = _schema('member', {**_properties(MEMBER, 'show'), 'schema': LINK})
SCHEMAS: dict[str, Schema] = {
    'image': _IMAGE,
    'images': _schema('images', {'images': {'type': 'array', 'items': _IMAGE}, 'first': TEXT, 'next': TEXT,
                                 'schema': TEXT}, first='first', next='next', describedby='schema'),
    'member': _MEMBER,
    'members': _schema('members', {'members': {'type': 'array', 'items': _MEMBER}, 'schema': TEXT},
                       describedby='schema'),
}
STORES: JsonObject = {'stores': [{'id': STORE, 'description': 'Files of this deployment', 'default': 'true'}]}

# ---- answers -----------------------------------------------------------------

_USED = shape(limit={'type': 'integer'}, usage={'type': 'integer'})
_ANY: Schema = {'type': 'object', 'additionalProperties': True}
_WORDS: Schema = {'type': ['null', 'string']}
_SHOWN: dict[str, Schema] = {
    'id': TEXT, 'type': {'enum': ['api_image_import', 'import']},
    'status': {'enum': ['pending', 'processing', 'success', 'failure']}, 'message': TEXT, 'image_id': TEXT,
    'owner': _WORDS, 'user_id': _WORDS, 'request_id': _WORDS, 'result': {'type': 'null'}, 'input': _ANY,
    'created_at': TEXT, 'updated_at': TEXT}
_TASK = shape(**_SHOWN)
ANSWER_IMAGE, ANSWER_MEMBER = OneImage({}), OneMember({})
ANSWER_IMAGES = Document({'images': [ANSWER_IMAGE], 'first': TEXT, 'schema': TEXT}, {'next': TEXT})
ANSWER_MEMBERS = Members({'members': [MEMBER.view('show')], 'schema': TEXT})
ANSWER_TASK = Plain(_TASK)
ANSWER_ALL_TASKS = Document({'tasks': {'type': 'array', 'items': _TASK}, 'first': TEXT, 'schema': TEXT}, {'next': TEXT})
ANSWER_TASKS = Document({'tasks': {'type': 'array', 'items': _TASK}})
ANSWER_SCHEMA = Document({'name': TEXT, 'properties': _ANY},
                         {'required': {'type': 'array', 'items': TEXT}, 'additionalProperties': _ANY,
                          'links': [shape(rel=TEXT, href=TEXT)]})
ANSWER_IMPORT = Document({'import-methods': shape(description=TEXT, type=TEXT, value={
    'type': 'array', 'items': TEXT})})
ANSWER_STORES = Document({'stores': [shape(id=TEXT, description=TEXT, default=TEXT)]})
ANSWER_USAGE = Document({'usage': {'type': 'object', 'additionalProperties': _USED}})
