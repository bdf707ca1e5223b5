"""Volume types, extra specs and encryption: routes and handlers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING, TypeVar

from nova import context as nova_context
from nova import exception
from nova.volume import api
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest import views
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store.types import Type

_NAME = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_FLAG = {'type': ['boolean', 'string', 'null']}
_SPECS = {**schemas.ITEMS, 'maxProperties': 8}
_IS_PUBLIC = 'os-volume-type-access:is_public'
_TYPE: dict[str, Any] = {'name': _NAME, 'description': schemas.NAME, _IS_PUBLIC: _FLAG, 'is_public': _FLAG}
_NEW = schemas.Body('volume_type', {**schemas.of('name', **_TYPE, extra_specs={**_SPECS, 'type': ['object', 'null']})})
_CHANGED = schemas.Body('volume_type', schemas.of(**{**_TYPE, 'name': {**_NAME, 'type': ['string', 'null']}}))
_WORD = {'type': ['string', 'null'], 'maxLength': 255}
_ENCRYPTION: dict[str, Any] = {'provider': _WORD, 'cipher': _WORD, 'control_location': _WORD, 'key_size': {
    'type': ['integer', 'null'], 'minimum': 0, 'maximum': 65536}}
_NEW_ENCRYPTION = schemas.Body('encryption', schemas.of('provider', **_ENCRYPTION))
_CHANGED_ENCRYPTION = schemas.Body('encryption', schemas.of(**_ENCRYPTION))
_Value = TypeVar('_Value')
PROVIDER = 'provider'            # used by python-cinderclient in place of an encryption id


def list_types(request: VolumeRequest) -> JsonObject:
    """List accessible types, or private ones only. Administrators may list all types."""
    word, caller = request.query.get('is_public', ''), request.context
    public = None if word.lower() in ('', 'none') else listing.flag('is_public', word)
    everyones = caller.is_admin and word and not public
    found = [row for row in request.store.types.every(nova_context.ALL_PROJECTS if everyones else caller.project_id)
             if public is not False or not row['is_public']]
    return listing.page_of_rows(request, 'volume_types', found, views.volume_type, ['is_public'])


def show_type(request: VolumeRequest, ident: str) -> JsonObject:
    return {'volume_type': views.volume_type(find(request, None if ident == 'default' else ident))}


def find(request: VolumeRequest, ident: str | None) -> Type:
    """Return a type by id or name, if the caller has access.

    :raises VolumeTypeNotFound:
    """
    return request.store.types.find(ident, request.context.sees)


def create_type(request: VolumeRequest) -> JsonObject:
    given, public = request.body, _public(request.body)
    return {'volume_type': views.new_volume_type(request.store.types.create(
        given['name'], given.get('description'), given.get('extra_specs') or {}, public is not False))}


def update_type(request: VolumeRequest, ident: str) -> JsonObject:
    given, public = request.body, _public(request.body)
    values = {'description': given['description']} if 'description' in given else {}
    if public is not None:
        values['is_public'] = public
    return {'volume_type': views.changed_volume_type(request.store.types.update(ident, given.get('name'), values))}


def _public(given: dict[str, Any]) -> bool | None:
    """Return whether a body makes a type public; None: not specified.

    :raises BadRequest: contradictory values
    """
    said = {listing.flag(name, given[name]) for name in ('is_public', _IS_PUBLIC) if given.get(name) is not None}
    if len(said) > 1:
        raise exception.BadRequest(f'is_public and {_IS_PUBLIC} contradict each other.')
    return said.pop() if said else None


def delete_type(request: VolumeRequest, ident: str) -> None:
    request.store.types.delete(ident)


def show_extra_specs(request: VolumeRequest, ident: str) -> JsonObject:
    return {'extra_specs': {**find(request, ident)['extra_specs']}}


def set_extra_specs(request: VolumeRequest, ident: str) -> JsonObject:
    request.store.types.set_specs(ident, request.body)
    return {'extra_specs': request.body}


def show_extra_spec(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(find(request, ident)['extra_specs'], key)}


def _of(found: dict[str, _Value], key: str) -> _Value:
    if key not in found:
        raise exception.MetadataItemNotFound(key=key[:255])
    return found[key]


def delete_extra_spec(request: VolumeRequest, ident: str, key: str) -> None:
    request.store.types.unset_spec(ident, key)


def show_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    """Return the encryption of a type, or {} if it has none."""
    kind = find(request, ident)
    return views.encryption(kind['id'], kind['encryption']) if kind['encryption'] else {}


def show_encryption_item(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(show_encryption(request, ident), key)}


def create_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    kind = find(request, ident)
    made = request.store.types.set_encryption(ident, request.body, new=True)
    return {'encryption': views.new_encryption(kind['id'], made)}


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


# ---- encryption of a volume ----------------------------------------------------

def show_volume_encryption(request: VolumeRequest, ident: str) -> JsonObject:
    return views.volume_encryption(request.store.encryption(request.context, ident))


def show_volume_encryption_item(request: VolumeRequest, ident: str, key: str) -> JsonObject:
    return {key: _of(show_volume_encryption(request, ident), key)}


def give_passphrase(request: VolumeRequest, ident: str) -> JsonObject:
    """Return a passphrase to a service: a conductor needs it for the server's host. No other role is accepted."""
    caller = request.context
    if 'service' not in {*(caller.roles or ()), *caller.service_roles}:
        raise exception.PolicyDenied(rule='volume:passphrase')
    return {'passphrase': request.store.passphrase(caller, ident)}


_ONE, _SPEC, _KEY = '/types/{ident}', '/types/{ident}/extra_specs', '/types/{ident}/encryption'
ROUTES = (
    Route('GET', '/types', list_types),
    Route('POST', '/types', create_type, schemas.ADMIN, body=_NEW),
    Route('GET', _ONE, show_type),
    Route('PUT', _ONE, update_type, schemas.ADMIN, body=_CHANGED),
    Route('DELETE', _ONE, delete_type, schemas.ADMIN, status=202),
    Route('GET', _SPEC, show_extra_specs),
    Route('POST', _SPEC, set_extra_specs, schemas.ADMIN, body=schemas.Body('extra_specs', _SPECS)),
    Route('GET', f'{_SPEC}/{{key}}', show_extra_spec),
    Route('DELETE', f'{_SPEC}/{{key}}', delete_extra_spec, schemas.ADMIN, status=202),
    Route('GET', _KEY, show_encryption, schemas.TRUSTED),
    Route('POST', _KEY, create_encryption, schemas.ADMIN, body=_NEW_ENCRYPTION),
    Route('GET', f'{_KEY}/{{key}}', show_encryption_item, schemas.TRUSTED),
    Route('PUT', f'{_KEY}/{{key}}', update_encryption, schemas.ADMIN, body=_CHANGED_ENCRYPTION),
    Route('DELETE', f'{_KEY}/{{key}}', delete_encryption, schemas.ADMIN, status=202),
    Route('GET', '/volumes/{ident}/encryption', show_volume_encryption),
    Route('GET', '/volumes/{ident}/encryption/{key}', show_volume_encryption_item),
    schemas.action('volumes', api.PASSPHRASE, give_passphrase, 200),
)
