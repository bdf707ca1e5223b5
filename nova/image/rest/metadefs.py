"""Metadata definitions of the Image API: routes and handlers."""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
import operator
from typing import Any, cast, TYPE_CHECKING
import urllib.parse

from nova import exception
from nova import utils
from nova.image.embedded import metadefs
from nova.image.resources import FLAG
from nova.image.resources import TEXT
from nova.web import params
from nova.web.request import Response
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Plain
from nova.web.resource import Schema
from nova.web.resource import shape
from nova.web.resource import Whole
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.image.rest.request import ImageRequest
    from nova.json_types import JsonObject

ROOT = '/v2/metadefs/namespaces'
ONE = ROOT + '/{namespace}'
MAX_LIMIT = 1000
SORTED_BY = ('created_at', 'updated_at', 'namespace', 'display_name')

# ---- documents

_NAME: Schema = {**TEXT, 'minLength': 1, 'maxLength': 80, 'pattern': '^[^/]+$'}     # a segment of a path
_LONG: Schema = {**TEXT, 'maxLength': 16384}
_TEXTS: Schema = {'type': 'array', 'items': {**TEXT, 'maxLength': 255}, 'maxItems': 128}
_COUNT: Schema = {'type': 'integer', 'minimum': 0}
_ANY: Schema = {'type': 'object', 'additionalProperties': True}
_MADE = dict.fromkeys(('created_at', 'updated_at', 'self', 'schema'), TEXT)      # set by the service
# keys of a property's definition, as in JSON Schema
_TYPED: dict[str, Schema] = {
    'type': {'enum': ['array', 'boolean', 'integer', 'number', 'object', 'string', None]}, 'title': _LONG,
    'description': _LONG, 'operators': _TEXTS, 'minimum': {'type': 'number'}, 'maximum': {'type': 'number'},
    'minLength': _COUNT, 'maxLength': _COUNT, 'pattern': _LONG, 'enum': {'type': 'array', 'maxItems': 1000},
    'readonly': FLAG, 'default': {}, 'items': _ANY, 'minItems': _COUNT, 'maxItems': _COUNT, 'uniqueItems': FLAG,
    'additionalItems': FLAG}


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """A kind of items in a namespace, such as objects or tags.

    :ivar plural: last part of the path of the list
    :ivar key: key of the list
    :ivar fields: of a document, beside the name
    :ivar required: fields that a new item must have
    :ivar rules: of list, show, create, update, delete, deletion of all; '': there is no such operation
    """

    name: str
    plural: str
    key: str
    fields: dict[str, Schema]
    required: tuple[str, ...]
    rules: tuple[str, str, str, str, str, str]

    def document(self, *required: str) -> Schema:
        return closed(*required, name=_NAME, **self.fields)

    def url(self, namespace: str, name: str) -> str:
        return f'{_url(namespace)}/{self.plural}/{urllib.parse.quote(name, safe="")}'


KINDS = (
    Kind(metadefs.OBJECT, 'objects', 'objects',
         {'description': _LONG, 'required': _TEXTS, 'properties': {
             'type': 'object', 'maxProperties': 255, 'additionalProperties': closed(**_TYPED)}}, (),
         ('get_metadef_objects', 'get_metadef_object', 'add_metadef_object', 'modify_metadef_object',
          'delete_metadef_object', 'delete_metadef_object')),
    Kind(metadefs.PROPERTY, 'properties', 'properties', _TYPED, ('title', 'type'),
         ('get_metadef_properties', 'get_metadef_property', 'add_metadef_property', 'modify_metadef_property',
          'remove_metadef_property', 'remove_metadef_property')),
    Kind(metadefs.TAG, 'tags', 'tags', {}, (),
         ('get_metadef_tags', 'get_metadef_tag', 'add_metadef_tag', 'modify_metadef_tag', 'delete_metadef_tag',
          'delete_metadef_tags')),
    Kind(metadefs.RESOURCE_TYPE, 'resource_types', 'resource_type_associations',
         {'prefix': {**TEXT, 'maxLength': 80}, 'properties_target': {**TEXT, 'maxLength': 80}}, (),
         ('get_metadef_resource_type', '', 'add_metadef_resource_type_association', '',
          'remove_metadef_resource_type_association', '')),
)
_OBJECT, _PROPERTY, _TAG, _RESOURCE_TYPE = KINDS
_FIELDS: dict[str, Schema] = {
    'namespace': _NAME, 'display_name': {**TEXT, 'type': ['string', 'null'], 'maxLength': 80},
    'description': {**_LONG, 'type': ['string', 'null']}, 'visibility': {'enum': ['public', 'private']},
    'protected': FLAG, 'owner': {**TEXT, 'minLength': 1, 'maxLength': 255}}
_NEW_ITEMS: dict[str, Schema] = {kind.key: {
    'type': 'object', 'maxProperties': metadefs.MAX_ITEMS, 'propertyNames': _NAME,
    'additionalProperties': closed(**_TYPED)}
    if kind is _PROPERTY else {'type': 'array', 'maxItems': metadefs.MAX_ITEMS, 'items': kind.document('name')}
    for kind in KINDS}


def _url(namespace: str) -> str:
    return f'{ROOT}/{urllib.parse.quote(namespace, safe="")}'


def _times(row: Mapping[str, Any]) -> JsonObject:
    return {name: utils.isotime(row[name]) for name in ('created_at', 'updated_at')}


def _item(kind: Kind, namespace: str, row: Mapping[str, Any]) -> JsonObject:
    shown: JsonObject = {'name': row['name'], **row['document']}
    if kind is _PROPERTY:
        return shown
    more: JsonObject = {} if kind is not _OBJECT else {
        'self': kind.url(namespace, row['name']), 'schema': '/v2/schemas/metadefs/object'}
    return {**shown, **_times(row), **more}


def _listed(kind: Kind, namespace: str, rows: metadefs.Rows, prefix: str = '') -> Any:
    if kind is _PROPERTY:
        return {prefix + row['name']: row['document'] for row in rows}
    return [_item(kind, namespace, row) for row in rows]


def _namespace(row: Mapping[str, Any], whole: bool = True, resource_type: str | None = None) -> JsonObject:
    """Return the document of a namespace.

    :param whole: with the items that are no resource types, if there are any
    :param resource_type: of the prefix that names of properties get
    """
    name = row['namespace']
    items = {kind: [item for item in row['items'] if item['kind'] == kind.name] for kind in KINDS}
    prefix = next((item['document'].get('prefix', '') for item in items[_RESOURCE_TYPE]
                   if item['name'] == resource_type), '')
    shown: JsonObject = {field: row[field] for field in _FIELDS if row[field] is not None}
    shown |= {**_times(row), 'self': _url(name), 'schema': '/v2/schemas/metadefs/namespace'}
    return shown | {kind.key: _listed(kind, name, found, prefix) for kind, found in items.items()
                    if found and (whole or kind is _RESOURCE_TYPE)}


# ---- namespaces

def list_metadef_namespaces(req: ImageRequest) -> JsonObject:
    """List namespaces.

    :raises BadRequest: the marker is not a visible namespace, or the order is unknown
    """
    query = req.query
    match = {'visibility': query['visibility']} if query.get('visibility') else {}
    wanted = set(query['resource_types'].split(',')) if query.get('resource_types') else None
    rows = [row for row in req.metadefs.visible(req.context, **match)
            if wanted is None or wanted & {item['name'] for item in row['items']}]
    sorted_by = operator.itemgetter(query.get('sort_key', SORTED_BY[0]))
    rows.sort(key=lambda row: (sorted_by(row) or '', row['namespace']),
              reverse=query.get('sort_dir', 'desc') == 'desc')
    names = [row['namespace'] for row in rows]
    if query.get('marker'):
        if query['marker'] not in names:
            raise exception.InvalidMarker(marker=query['marker'])
        rows = rows[names.index(query['marker']) + 1:]
    limit = min(int(query.get('limit', MAX_LIMIT)), MAX_LIMIT)
    kept = {name: value for name, value in query.items() if name != 'marker'}
    document: JsonObject = {'namespaces': [_namespace(row, whole=False) for row in rows[:limit]],
                            'first': _query(kept), 'schema': '/v2/schemas/metadefs/namespaces'}
    if limit and len(rows) > limit:
        document['next'] = _query({**kept, 'marker': rows[limit - 1]['namespace']})
    return document


def _query(values: Mapping[str, str]) -> str:
    return ROOT + ('?' + urllib.parse.urlencode(values) if values else '')


def _values(body: dict[str, Any]) -> metadefs.NamespaceValues:
    """Return the fields of a namespace that a checked body contains."""
    return cast(metadefs.NamespaceValues, {name: body[name] for name in _FIELDS if name in body})


def create_metadef_namespace(req: ImageRequest) -> Response:
    body: dict[str, Any] = req.body
    items: dict[str, list[JsonObject]] = {}
    for kind in KINDS:
        given = body.get(kind.key) or ()
        items[kind.name] = [{'name': name, **document} for name, document in given.items()] if isinstance(
            given, dict) else list(given)
    row = req.metadefs.create(req.context, _values(body), items)
    return _created(req, _namespace(row), _url(row['namespace']))


def _created(req: ImageRequest, document: JsonObject, url: str) -> Response:
    return Response(document, 201, [('Location', req.root_url.rstrip('/') + url)])


def show_metadef_namespace(req: ImageRequest, namespace: str) -> JsonObject:
    return _namespace(req.metadefs.show(req.context, namespace), resource_type=req.query.get('resource_type'))


def update_metadef_namespace(req: ImageRequest, namespace: str) -> JsonObject:
    return _namespace(req.metadefs.update(req.context, namespace, _values(req.body)))


def list_metadef_resource_types(req: ImageRequest) -> JsonObject:
    found: dict[str, JsonObject] = {}
    for row in req.metadefs.visible(req.context):
        for item in row['items']:
            found.setdefault(item['name'], {'name': item['name'], **_times(item)})
    return {'resource_types': [*found.values()]}


# ---- items

def list_items(req: ImageRequest, namespace: str, *, kind: Kind) -> JsonObject:
    rows = req.metadefs.items(req.context, namespace, kind.name, kind.rules[0])
    more: JsonObject = {'first': f'{_url(namespace)}/{kind.plural}', 'schema': f'/v2/schemas/metadefs/{kind.plural}'}
    return {kind.key: _listed(kind, namespace, rows), **({} if kind in (_PROPERTY, _RESOURCE_TYPE) else more)}


def create_item(req: ImageRequest, namespace: str, *, kind: Kind) -> Response:
    row, = req.metadefs.add(req.context, namespace, kind.name, [_stored(req.body)], kind.rules[2])
    return _created(req, _item(kind, namespace, row), kind.url(namespace, row['name']))


def _stored(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in _MADE}


def show_item(req: ImageRequest, namespace: str, name: str, *, kind: Kind) -> JsonObject:
    row, = req.metadefs.items(req.context, namespace, kind.name, kind.rules[1], name)
    return _item(kind, namespace, row)


def update_item(req: ImageRequest, namespace: str, name: str, *, kind: Kind) -> JsonObject:
    return _item(kind, namespace, req.metadefs.replace(req.context, namespace, kind.name, name, _stored(req.body),
                                                       kind.rules[3]))


def create_metadef_tag(req: ImageRequest, namespace: str, name: str) -> Response:
    _TAG_NAME.validate({'name': name})
    row, = req.metadefs.add(req.context, namespace, _TAG.name, [{'name': name}], _TAG.rules[2])
    return _created(req, _item(_TAG, namespace, row), _TAG.url(namespace, name))


def create_metadef_tags(req: ImageRequest, namespace: str) -> Response:
    """Replace the tags of a namespace; with the header ``X-OpenStack-Append: True``, add tags instead."""
    append = req.header('X-OpenStack-Append').lower() == 'true'
    rows = req.metadefs.add(req.context, namespace, _TAG.name, [{'name': each['name']} for each in req.body['tags']],
                            'add_metadef_tags', replace=not append)
    return _created(req, {'tags': [{'name': row['name']} for row in rows]}, f'{_url(namespace)}/tags')


# ---- rows

_TAG_NAME = Whole(closed('name', name=_NAME, **_MADE))


class Query(params.Query):
    """Parameters of a query string; the handler gets {name: last value} of the known parameters."""

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> Any:
        found = super().validate(query_string, version, relaxed)
        given = {param.name: found.one(param.name) for param in self.params if param.name is not None}
        return {name: value for name, value in given.items() if value is not None}


_QUERY = Query(
    *(params.Param(name, TEXT) for name in ('marker', 'resource_types')),
    params.Param('visibility', {'enum': ['public', 'private']}), params.Param('sort_key', {'enum': [*SORTED_BY]}),
    params.Param('sort_dir', {'enum': ['asc', 'desc']}), params.Param('limit', {**TEXT, 'pattern': '^[0-9]{1,9}$'}))
_TYPES = {'created_at': TEXT, 'updated_at': TEXT}


def _shown(kind: Kind) -> Schema:
    made = {} if kind is _PROPERTY else _MADE if kind is _OBJECT else _TYPES
    return closed('name', *made, name=TEXT, **kind.fields, **made)


def _shown_list(kind: Kind) -> Schema:
    return {'type': 'object', 'additionalProperties': closed(**kind.fields)} if kind is _PROPERTY else {
        'type': 'array', 'items': _shown(kind)}


_SHOWN_NAMESPACE = closed('namespace', 'visibility', 'protected', 'owner', *_MADE, **_FIELDS, **_MADE, **{
    kind.key: _shown_list(kind) for kind in KINDS})


def _routes(kind: Kind) -> Iterator[Route]:
    list_rule, show, create, update, delete, delete_all = kind.rules
    many, one = f'{ONE}/{kind.plural}', f'{ONE}/{kind.plural}/{{name}}'
    noun, answer = f'metadef_{kind.name}', Plain(_shown(kind))
    with_links = () if kind in (_PROPERTY, _RESOURCE_TYPE) else ('first', 'schema')
    yield Route('GET', many, functools.partial(list_items, kind=kind), None, (list_rule,), name=f'list_{noun}s',
                answer=Document({kind.key: _shown_list(kind), **dict.fromkeys(with_links, TEXT)}))
    if kind is _TAG:
        yield Route('POST', many, create_metadef_tags, None, ('add_metadef_tags',), status=201, errors=(409,),
                    body=Whole(shape(tags={'type': 'array', 'maxItems': metadefs.MAX_ITEMS,
                                           'items': shape(name=_NAME)})),
                    answer=Document({'tags': {'type': 'array', 'items': shape(name=TEXT)}}))
        yield Route('POST', one, create_metadef_tag, None, (create,), status=201, errors=(409,), answer=answer)
    else:
        yield Route('POST', many, functools.partial(create_item, kind=kind), None, (create,), status=201, errors=(409,),
                    name=f'create_{noun}', answer=answer,
                    body=Whole(closed('name', *kind.required, name=_NAME, **kind.fields, **_MADE)))
    if show:
        yield Route('GET', one, functools.partial(show_item, kind=kind), None, (show,), name=f'show_{noun}',
                    answer=answer)
    if update:
        yield Route('PUT', one, functools.partial(update_item, kind=kind), None, (update,), name=f'update_{noun}',
                    errors=(409,), answer=answer, body=Whole(closed(name=_NAME, **kind.fields, **_MADE)))
    yield Route('DELETE', one, lambda req, namespace, name: req.metadefs.remove(
        req.context, namespace, kind.name, delete, name), None, (delete,), name=f'delete_{noun}', status=204)
    if delete_all:
        yield Route('DELETE', many, lambda req, namespace: req.metadefs.remove(
            req.context, namespace, kind.name, delete_all), None, (delete_all,), name=f'delete_{noun}s', status=204)


ROUTES = (
    Route('GET', ROOT, list_metadef_namespaces, 'get_metadef_namespaces', query=_QUERY,
          answer=Document({'namespaces': {'type': 'array', 'items': _SHOWN_NAMESPACE}, 'first': TEXT, 'schema': TEXT},
                          {'next': TEXT})),
    Route('POST', ROOT, create_metadef_namespace, 'add_metadef_namespace', status=201, errors=(409,),
          body=Whole(closed('namespace', **_FIELDS, **_NEW_ITEMS)), answer=Plain(_SHOWN_NAMESPACE)),
    Route('GET', ONE, show_metadef_namespace, None, ('get_metadef_namespace',), answer=Plain(_SHOWN_NAMESPACE),
          query=Query(params.Param('resource_type', TEXT))),
    Route('PUT', ONE, update_metadef_namespace, None, ('modify_metadef_namespace',), errors=(409,),
          answer=Plain(_SHOWN_NAMESPACE), body=Whole(closed(**_FIELDS, **_MADE, **dict.fromkeys(_NEW_ITEMS, {})))),
    Route('DELETE', ONE, lambda req, namespace: req.metadefs.delete(req.context, namespace), None,
          ('delete_metadef_namespace',), status=204, name='delete_metadef_namespace'),
    Route('GET', '/v2/metadefs/resource_types', list_metadef_resource_types, 'list_metadef_resource_types',
          answer=Document({'resource_types': {'type': 'array', 'items': shape(name=TEXT, **_TYPES)}})),
    *(row for kind in KINDS for row in _routes(kind)),
)


def schemas() -> dict[str, Schema]:
    """Return {name below /v2/schemas/metadefs: schema}."""
    found: dict[str, Schema] = {
        'namespace': {'name': 'namespace', 'properties': {**_FIELDS, **_MADE, **_NEW_ITEMS}, 'required': ['namespace']},
        'namespaces': {'name': 'namespaces', 'properties': {
            'namespaces': {'type': 'array', 'items': _SHOWN_NAMESPACE}, 'first': TEXT, 'next': TEXT, 'schema': TEXT}}}
    for kind in KINDS:
        found[kind.name] = {'name': kind.name, 'properties': {'name': _NAME, **kind.fields, **_TYPES},
                            'required': ['name', *kind.required]}
        found[kind.plural] = {'name': kind.plural, 'properties': {kind.key: _shown_list(kind)}}
    return found


SCHEMAS = schemas()
