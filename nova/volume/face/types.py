"""Types of volumes, their extra specs and their encryption: rows and handlers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.volume import api
from nova.volume.face import listing
from nova.volume.face import schemas
from nova.volume.face import views
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.volume.face.app import VolumeRequest

_NAME = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_FLAG = {'type': ['boolean', 'string', 'null']}
_SPECS = {**schemas.ITEMS, 'maxProperties': 8}
_TYPE: dict[str, Any] = {'name': _NAME, 'description': schemas.NAME, 'os-volume-type-access:is_public': _FLAG,
                         'is_public': _FLAG}
_NEW = schemas.Given('volume_type', {**schemas.of('name', **_TYPE, extra_specs={**_SPECS, 'type': ['object', 'null']})})
_CHANGED = schemas.Given('volume_type', schemas.of(**{**_TYPE, 'name': {**_NAME, 'type': ['string', 'null']}}))
_WORD = {'type': ['string', 'null'], 'maxLength': 255}
_ENCRYPTION: dict[str, Any] = {'provider': _WORD, 'cipher': _WORD, 'control_location': _WORD, 'key_size': {
    'type': ['integer', 'null'], 'minimum': 0, 'maximum': 65536}}
_NEW_ENCRYPTION = schemas.Given('encryption', schemas.of('provider', **_ENCRYPTION))
_CHANGED_ENCRYPTION = schemas.Given('encryption', schemas.of(**_ENCRYPTION))
PROVIDER = 'provider'            # what python-cinderclient writes in the place of the id of an encryption


def list_types(request: VolumeRequest) -> dict[str, Any]:
    return {'volume_types': [views.volume_type(row) for row in request.store.types.every()]}


def show_type(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'volume_type': views.volume_type(request.store.types.find(None if ident == 'default' else ident))}


def create_type(request: VolumeRequest) -> dict[str, Any]:
    given = request.body
    _check_public(given)
    return {'volume_type': views.volume_type(request.store.types.create(
        given['name'], given.get('description'), given.get('extra_specs') or {}))}


def update_type(request: VolumeRequest, ident: str) -> dict[str, Any]:
    given = request.body
    _check_public(given)
    values = {'description': given['description']} if 'description' in given else {}
    return {'volume_type': views.volume_type(request.store.types.update(ident, given.get('name'), values))}


def _check_public(given: dict[str, Any]) -> None:
    for name in ('is_public', 'os-volume-type-access:is_public'):
        if given.get(name) is not None and not listing.true(given[name]):
            raise exception.BadRequest('All projects may use a volume type here: there are no private ones.')


def delete_type(request: VolumeRequest, ident: str) -> None:
    request.store.types.delete(ident)


def show_extra_specs(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return {'extra_specs': request.store.types.find(ident)['extra_specs']}


def set_extra_specs(request: VolumeRequest, ident: str) -> dict[str, Any]:
    request.store.types.set_specs(ident, request.body)
    return {'extra_specs': request.body}


def show_extra_spec(request: VolumeRequest, ident: str, key: str) -> dict[str, Any]:
    return {key: _of(request.store.types.find(ident)['extra_specs'], key)}


def _of(found: dict[str, Any], key: str) -> Any:
    if key not in found:
        raise exception.MetadataItemNotFound(key=key[:255])
    return found[key]


def delete_extra_spec(request: VolumeRequest, ident: str, key: str) -> None:
    request.store.types.unset_spec(ident, key)


def show_encryption(request: VolumeRequest, ident: str) -> dict[str, Any]:
    """Nothing, of a type whose volumes are not encrypted."""
    found = request.store.types.find(ident)
    return views.encryption(found) if found['encryption'] else {}


def show_encryption_item(request: VolumeRequest, ident: str, key: str) -> dict[str, Any]:
    return {key: _of(show_encryption(request, ident), key)}


def create_encryption(request: VolumeRequest, ident: str) -> dict[str, Any]:
    kind = request.store.types.find(ident)
    made = request.store.types.set_encryption(ident, request.body, new=True)
    return {'encryption': views.new_encryption({**kind, 'encryption': made})}


def update_encryption(request: VolumeRequest, ident: str, key: str) -> dict[str, Any]:
    _check_named(request, ident, key)
    request.store.types.set_encryption(ident, request.body, new=False)
    return {'encryption': request.body}


def delete_encryption(request: VolumeRequest, ident: str, key: str) -> None:
    _check_named(request, ident, key)
    request.store.types.delete_encryption(ident)


def _check_named(request: VolumeRequest, ident: str, key: str) -> None:
    """:raises NotFound: the type has no such encryption"""
    found = request.store.types.find(ident)['encryption']
    if found is None or key not in (PROVIDER, found['encryption_id']):
        raise exception.NotFound()


# ---- the encryption of a volume -----------------------------------------------

def show_volume_encryption(request: VolumeRequest, ident: str) -> dict[str, Any]:
    return views.volume_encryption(request.store.encryption(request.context, ident))


def show_volume_encryption_item(request: VolumeRequest, ident: str, key: str) -> dict[str, Any]:
    return {key: _of(show_volume_encryption(request, ident), key)}


def give_passphrase(request: VolumeRequest, ident: str) -> dict[str, Any]:
    """To services: a conductor gives it to the host of the server that has the volume. No other role does for that."""
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
    Route('POST', _SPEC, set_extra_specs, schemas.ADMIN, body=schemas.Given('extra_specs', _SPECS)),
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
