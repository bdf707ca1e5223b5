"""Operations on volume types, extra specs and encryption: routes and handlers."""
from __future__ import annotations

import re
from typing import Any, Literal, TYPE_CHECKING, TypeVar

from nova import context as nova_context
from nova import exception
from nova.volume import api
from nova.volume.rest import listing
from nova.volume.rest import resources
from nova.volume.rest import schemas
from nova.volume.rest.resources import ENCRYPTION
from nova.volume.rest.resources import TYPE
from nova.volume.rest.schemas import route
from nova.web import json_schema
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import Page
from nova.web.resource import Plain
from nova.web.resource import Schema
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store.types import Type

_Value = TypeVar('_Value')
PROJECT_ID = re.compile('[0-9A-Za-z_.-]{1,255}')
DEFAULTS = 62                    # first microversion that has default types of projects
COMPARED: tuple[Literal['name', 'description'], ...] = ('name', 'description')     # filters of lists
PROVIDER = 'provider'            # python-cinderclient sends this word in place of an encryption id
_VOLUME_KEY = ('provider', 'cipher', 'key_size', 'control_location', 'encryption_key_id')


def list_types(request: VolumeRequest) -> JsonObject:
    """List accessible types; with is_public=false only private ones. With is_public=none, administrators see all."""
    word, caller = request.query.get('is_public', ''), request.context
    public = None if word.lower() in ('', 'none') else schemas.flag('is_public', word)
    everyones = caller.is_admin and word and not public
    found = [row for row in request.store.types.every(nova_context.ALL_PROJECTS if everyones else caller.project_id)
             if (public is not False or not row['is_public'])
             and all(request.query.get(name) in (None, row[name]) for name in COMPARED)]
    return listing.page_of_types(request, found)


def show_type(request: VolumeRequest, ident: str) -> Type:
    return request.store.types.of_new(None if ident == 'default' else ident, request.context)


def find(request: VolumeRequest, ident: str | None) -> Type:
    """Return a type by id or name, if the caller has access.

    :raises VolumeTypeNotFound:
    """
    return request.store.types.find(ident, request.context.sees)


def create_type(request: VolumeRequest) -> Type:
    given, public = request.body, _public(request.body)
    return request.store.types.create(given['name'], given.get('description'), given.get('extra_specs') or {},
                                      public is not False)


def update_type(request: VolumeRequest, ident: str) -> Type:
    given, public = request.body, _public(request.body)
    values = {'description': given['description']} if 'description' in given else {}
    if public is not None:
        values['is_public'] = public
    return request.store.types.update(ident, given.get('name'), values)


def _public(given: dict[str, Any]) -> bool | None:
    """Return whether a body makes a type public; None: not specified.

    :raises BadRequest: contradictory values
    """
    said = {given[name] for name in ('is_public', resources.IS_PUBLIC) if given.get(name) is not None}
    if len(said) > 1:
        raise exception.BadRequest(f'is_public and {resources.IS_PUBLIC} contradict each other.')
    return said.pop() if said else None


def show_extra_specs(request: VolumeRequest, ident: str) -> JsonObject:
    return {'extra_specs': {**_visible(request, ident)}}


def _visible(request: VolumeRequest, ident: str) -> dict[str, str]:
    return resources.visible_specs(request, find(request, ident)['extra_specs'])


def set_extra_specs(request: VolumeRequest, ident: str) -> JsonObject:
    request.store.types.set_specs(ident, request.body)
    return {'extra_specs': request.body}


def show_extra_spec(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(_visible(request, ident), key)}


def _of(found: dict[str, _Value], key: str) -> _Value:
    if key not in found:
        raise exception.MetadataItemNotFound(key=key[:255])
    return found[key]


def update_extra_spec(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    """Set one extra spec; raises BadRequest unless the body has only this spec."""
    if request.body.keys() != {key}:
        raise exception.BadRequest(f'The body must have only the item of the URL, {key[:255]!r}.')
    request.store.types.set_specs(ident, request.body)
    return {**request.body}


def show_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    """Return the encryption of a type, or {} if it has none."""
    kind = find(request, ident)
    if not kind['encryption']:
        return {}
    return ENCRYPTION.view('show').documents(request)({**kind['encryption'], 'volume_type_id': kind['id']})


def show_encryption_item(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(show_encryption(request, ident), key)}


def create_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    kind = find(request, ident)
    return {**request.store.types.set_encryption(ident, request.body, new=True), 'volume_type_id': kind['id']}


def update_encryption(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    _check_named(request, ident, key)
    request.store.types.set_encryption(ident, request.body, new=False)
    return {'encryption': request.body}


def delete_encryption(request: VolumeRequest, ident: str, key: str) -> None:
    _check_named(request, ident, key)
    request.store.types.delete_encryption(ident)


def _check_named(request: VolumeRequest, ident: str, key: str) -> None:
    """Check that the type has this encryption; raises NotFound."""
    found = find(request, ident)['encryption']
    if found is None or key not in (PROVIDER, found['encryption_id']):
        raise exception.NotFound()


# ---- default types of projects -------------------------------------------------

def _default(project_id: str, type_id: str) -> JsonObject:
    return {'project_id': project_id, 'volume_type_id': type_id}


def list_default_types(request: VolumeRequest) -> JsonObject:
    return {'default_types': [_default(row['project_id'], row['type_id']) for row in request.store.types.defaults()]}


def show_default_type(request: VolumeRequest, project_id: str) -> JsonObject:
    return {'default_type': _default(project_id, request.store.types.default_of(project_id))}


def set_default_type(request: VolumeRequest, project_id: str) -> JsonObject:
    with exception.AsBadRequest(exception.VolumeTypeNotFound):
        row = request.store.types.set_default(_project(project_id), request.body['volume_type'])
    return {'default_type': _default(row['project_id'], row['type_id'])}


def _project(ident: str) -> str:
    """Check the id of a project; raises BadRequest (not an id)."""
    if not PROJECT_ID.fullmatch(ident):
        raise exception.BadRequest('The id of a project has at most 255 letters, digits, "_", "." or "-".')
    return ident


# ---- encryption of a volume ----------------------------------------------------

def show_volume_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    found = request.store.encryption(request.context, ident)
    if not found:
        return {'encryption_key_id': None}
    return {**{name: found[name] for name in _VOLUME_KEY}, api.KEEPER: api.BLOCK_STORAGE}


def show_volume_encryption_item(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(show_volume_encryption(request, ident), key)}


def give_passphrase(request: VolumeRequest, ident: str) -> JsonObject:
    """Return a passphrase to a service: a conductor needs it for the server's host."""
    return {'passphrase': request.store.passphrase(request.context, ident)}


class _Spec:
    """The body of one extra spec: its key with its value."""

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        return {**resources.SPECS, 'minProperties': 1, 'maxProperties': 1}

    def validate(self, document: JsonObject, version: int = 0, relaxed: bool = False) -> JsonObject:
        """Return the item; raises BadRequest."""
        if not json_schema.Validator(self.schema(version)).is_valid(document):
            raise exception.BadRequest('The body must be an object with one item, a text of at most 255 characters.')
        return document


_ONE, _SPEC, _KEY = '/types/{ident}', '/types/{ident}/extra_specs', '/types/{ident}/encryption'
_SENSITIVE = (resources.READ_SENSITIVE,)
_TYPES, _SPECS_RULE = 'volume_extension:type_', 'volume_extension:types_extra_specs:'
_KEY_RULE, _OF_VOLUME = 'volume_extension:volume_type_encryption:', 'volume_extension:volume_encryption_metadata'
_ITEM = Plain({'type': 'object', 'minProperties': 1, 'maxProperties': 1})
_SPECS, _SHOWN = Document({'extra_specs': schemas.STRINGS}), One(TYPE, 'show')
_DEFAULT_TYPES, _DEFAULT_RULE = '/default-types', 'volume_extension:default_'
_DEFAULT = shape(project_id=schemas.TEXT, volume_type_id=schemas.UUID)
_KEYS = {name: schemas.JSON for name in _VOLUME_KEY[:-1]}
ROUTES = (
    route('GET', '/types', list_types, _TYPES + 'get_all', _SENSITIVE,
          query=listing.Query('is_public', *COMPARED, *listing.EVERYONE, *listing.PAGED, *listing.SORTED),
          answer=Page(TYPE, 'show', more={'volume_types_links': schemas.LINKS})),
    route('POST', '/types', create_type, _TYPES + 'create', body=TYPE.body('create'),
          answer=One(TYPE, 'create')),
    route('GET', _ONE, show_type, _TYPES + 'get', _SENSITIVE, answer=_SHOWN),
    route('PUT', _ONE, update_type, _TYPES + 'update', body=TYPE.body('update'),
          answer=One(TYPE, 'update')),
    route('DELETE', _ONE, lambda req, ident: req.store.types.delete(ident), _TYPES + 'delete', status=202,
          name='delete_type'),
    route('GET', _SPEC, show_extra_specs, _SPECS_RULE + 'index', _SENSITIVE, answer=_SPECS),
    route('POST', _SPEC, set_extra_specs, _SPECS_RULE + 'create', body=Body('extra_specs', resources.SPECS),
          answer=_SPECS),
    route('GET', f'{_SPEC}/{{key}}', show_extra_spec, _SPECS_RULE + 'show', _SENSITIVE, answer=_ITEM),
    route('PUT', f'{_SPEC}/{{key}}', update_extra_spec, _SPECS_RULE + 'update', body=_Spec(), answer=_ITEM),
    route('DELETE', f'{_SPEC}/{{key}}', lambda req, ident, key: req.store.types.unset_spec(ident, key),
          _SPECS_RULE + 'delete', status=202, name='delete_extra_spec'),
    route('GET', _KEY, show_encryption, _KEY_RULE + 'get',
          answer=Plain({'anyOf': [ENCRYPTION.view('show').schema(0), closed()]})),
    route('POST', _KEY, create_encryption, _KEY_RULE + 'create', body=ENCRYPTION.body('create'),
          answer=One(ENCRYPTION, 'create')),
    route('GET', f'{_KEY}/{{key}}', show_encryption_item, _KEY_RULE + 'get', answer=_ITEM),
    route('PUT', f'{_KEY}/{{key}}', update_encryption, _KEY_RULE + 'update', body=ENCRYPTION.body('update'),
          answer=Document({'encryption': closed(**ENCRYPTION.properties('update'))})),
    route('DELETE', f'{_KEY}/{{key}}', delete_encryption, _KEY_RULE + 'delete', status=202),
    route('GET', _DEFAULT_TYPES, list_default_types, _DEFAULT_RULE + 'get_all', since=DEFAULTS,
          answer=Document({'default_types': [_DEFAULT]})),
    route('GET', f'{_DEFAULT_TYPES}/{{project_id}}', show_default_type, _DEFAULT_RULE + 'get', since=DEFAULTS,
          answer=Document({'default_type': _DEFAULT})),
    route('PUT', f'{_DEFAULT_TYPES}/{{project_id}}', set_default_type, _DEFAULT_RULE + 'set_or_update', since=DEFAULTS,
          body=Body('default_type', shape(volume_type={'type': 'string', 'minLength': 1, 'maxLength': 255})),
          answer=Document({'default_type': _DEFAULT})),
    route('DELETE', f'{_DEFAULT_TYPES}/{{project_id}}',
          lambda req, project_id: req.store.types.unset_default(project_id), _DEFAULT_RULE + 'unset', since=DEFAULTS,
          status=204, name='unset_default_type'),
    route('GET', '/volumes/{ident}/encryption', show_volume_encryption, _OF_VOLUME,
          answer=Document({'encryption_key_id': schemas.TEXT_OR_NULL}, {**_KEYS, api.KEEPER: schemas.TEXT})),
    route('GET', '/volumes/{ident}/encryption/{key}', show_volume_encryption_item, _OF_VOLUME, answer=_ITEM),
    schemas.action('volumes', api.PASSPHRASE, give_passphrase, 'nova:volumes:passphrase', 200,
                   answer=Document({'passphrase': schemas.TEXT})),
)
