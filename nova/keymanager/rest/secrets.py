"""Secrets, their payloads and metadata: routes and handlers."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nova import exception
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.db.tables.rows import KeySecretsRow
from nova.keymanager import payloads
from nova.keymanager import store
from nova.keymanager.rest import forms
from nova.keymanager.rest import listing
from nova.keymanager.rest import resources
from nova.web import bodies
from nova.web.request import Response
from nova.web.resource import Document
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.tables.rows import KeyConsumersRow
    from nova.json_types import JsonObject
    from nova.keymanager.rest.request import KeyManagerRequest


def create_secret(request: KeyManagerRequest) -> Response:
    given = request.body
    ident = request.store.create_secret(request.context, {
        'name': given.get('name'), 'secret_type': given.get('secret_type', store.OPAQUE),
        'algorithm': given.get('algorithm'), 'bit_length': given.get('bit_length'), 'mode': given.get('mode'),
        'expires_at': forms.expiration(given.get('expiration'))}, payloads.of_document(given))
    return created(request, 'secret', ident)


def created(request: KeyManagerRequest, kind: str, ident: str) -> Response:
    """Return the response to the creation of a resource."""
    ref = request.ref(f'{kind}s/{ident}')
    return Response({f'{kind}_ref': ref}, headers=[('Location', ref)])


def list_secrets(request: KeyManagerRequest) -> JsonObject:
    return listing.page(request, resources.SECRET, with_consumers)


class ShownSecret(KeySecretsRow):
    """A secret with its consumers."""

    consumers: list[KeyConsumersRow]


def with_consumers(conn: Connection, rows: list[KeySecretsRow]) -> list[ShownSecret]:
    found = records.consumers(conn, [row['id'] for row in rows])
    return [{**row, 'consumers': found[row['id']]} for row in rows]


def show_secret(request: KeyManagerRequest, ident: str) -> ShownSecret | Response:
    """Return a secret, or its payload if the Accept header (of early clients) asks for a type other than JSON."""
    row = request.secret(ident, 'secret:get')
    accept = request.header('Accept')
    if payloads.asks_for_payload(accept):
        request.secret(ident, 'secret:decrypt')
        return _payload(request, row)
    with request.store.db.reader() as conn:
        return with_consumers(conn, [row])[0]


def show_payload(request: KeyManagerRequest, ident: str) -> Response:
    return _payload(request, request.secret(ident, 'secret:decrypt'))


def _payload(request: KeyManagerRequest, row: KeySecretsRow) -> Response:
    found = request.store.payload(row)
    kind = payloads.chosen(request.header('Accept'), found)
    return Response(found.content, headers=[
        ('Content-Type', kind + '; charset=UTF-8' if kind == payloads.TEXT else kind), ('Cache-Control', 'no-store')])


def set_payload(request: KeyManagerRequest, ident: str) -> None:
    row = request.secret(ident, 'secret:put')
    raw = bodies.read(request.environ, 2 * payloads.MAX_BYTES)
    request.store.set_payload(row['id'], payloads.of_body(raw, request.header('Content-Type'), request.is_base64))


def delete_secret(request: KeyManagerRequest, ident: str) -> None:
    row = request.secret(ident, 'secret:delete')
    request.store.db.run(records.delete_secrets, [row['id']])


# ---- metadata

def list_metadata(request: KeyManagerRequest, ident: str) -> JsonObject:
    return {'metadata': request.secret(ident, 'secret_meta:get')['metadata']}


def replace_metadata(request: KeyManagerRequest, ident: str) -> JsonObject:
    wanted = {key.lower(): value for key, value in request.body.items()}
    _change(request, ident, 'secret_meta:put', lambda present: wanted)
    return {'metadata_ref': request.ref(f'secrets/{ident}/metadata')}


def create_metadatum(request: KeyManagerRequest, ident: str) -> JsonObject:
    key, value = request.body['key'].lower(), request.body['value']

    def add(present: dict[str, str]) -> dict[str, str]:
        if key in present:
            raise exception.Conflict(f'Secret {ident} already has metadata {key!r}.')
        if len(present) >= forms.MAX_KEYS:
            raise exception.BadRequest(f'A secret has at most {forms.MAX_KEYS} metadata items.')
        return {**present, key: value}
    _change(request, ident, 'secret_meta:post', add)
    return {'key': key, 'value': value}


def show_metadatum(request: KeyManagerRequest, ident: str, key: str) -> JsonObject:
    return {'key': key.lower(), 'value': _of_key(request.secret(ident, 'secret_meta:get')['metadata'], key)}


def update_metadatum(request: KeyManagerRequest, ident: str, key: str) -> JsonObject:
    value = request.body['value']
    if request.body['key'].lower() != key.lower():
        raise exception.Conflict('The key in the body differs from the key in the URL.')

    def change(present: dict[str, str]) -> dict[str, str]:
        _of_key(present, key)
        return {**present, key.lower(): value}
    _change(request, ident, 'secret_meta:put', change)
    return {'key': key.lower(), 'value': value}


def delete_metadatum(request: KeyManagerRequest, ident: str, key: str) -> None:
    def remove(present: dict[str, str]) -> dict[str, str]:
        _of_key(present, key)
        return {name: value for name, value in present.items() if name != key.lower()}
    _change(request, ident, 'secret_meta:delete', remove)


def _of_key(metadata: dict[str, str], key: str) -> str:
    if key.lower() not in metadata:
        raise exception.NotFound(f'The secret has no metadata {key[:64]!r}.')
    return metadata[key.lower()]


def _change(request: KeyManagerRequest, ident: str, rule: str,
            change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Replace the metadata of a secret with the result of ``change``."""
    row = request.secret(ident, rule)
    with request.store.db.writer() as conn:
        present = records.get(conn, t.key_secrets, row['id'], lock=True)
        if present is None:
            raise exception.NotFound(f'Secret {row["id"]} could not be found.')
        records.update(conn, t.key_secrets, row['id'], {'metadata': change(present['metadata'])})


def ref_of(kind: str) -> Document:
    """Return the schema of a response with the URL of a resource."""
    return Document({f'{kind}_ref': resources.REF})


_SECRETS, _SECRET = '/v1/secrets', '/v1/secrets/{ident}'
_ITEM = Document({'key': resources.TEXT, 'value': resources.TEXT})
ROUTES = (
    Route('GET', _SECRETS, list_secrets, 'secrets:get', since=0, query=forms.listing(resources.SECRET, forms.ACL_ONLY),
          answer=resources.Pages('secrets', resources.SECRET)),
    Route('POST', _SECRETS, create_secret, 'secrets:post', since=0, status=201, body=forms.NEW_SECRET,
          answer=ref_of('secret')),
    Route('GET', _SECRET, show_secret, None, ('secret:get', 'secret:decrypt'), since=0, errors=(406,),
          answer=resources.Bare(resources.SECRET)),
    Route('PUT', _SECRET, set_payload, None, ('secret:put',), since=0, status=204, streams=True, errors=(409, 415),
          body=forms.PAYLOAD),
    Route('DELETE', _SECRET, delete_secret, None, ('secret:delete',), since=0, status=204),
    Route('GET', f'{_SECRET}/payload', show_payload, None, ('secret:decrypt',), since=0, errors=(406,)),
    Route('GET', f'{_SECRET}/metadata', list_metadata, None, ('secret_meta:get',), since=0,
          answer=Document({'metadata': resources.STRINGS})),
    Route('PUT', f'{_SECRET}/metadata', replace_metadata, None, ('secret_meta:put',), since=0, status=201,
          body=forms.METADATA, answer=ref_of('metadata')),
    Route('POST', f'{_SECRET}/metadata', create_metadatum, None, ('secret_meta:post',), since=0, status=201,
          errors=(409,), body=forms.METADATUM, answer=_ITEM),
    Route('GET', f'{_SECRET}/metadata/{{key}}', show_metadatum, None, ('secret_meta:get',), since=0, answer=_ITEM),
    Route('PUT', f'{_SECRET}/metadata/{{key}}', update_metadatum, None, ('secret_meta:put',), since=0, errors=(409,),
          body=forms.METADATUM, answer=_ITEM),
    Route('DELETE', f'{_SECRET}/metadata/{{key}}', delete_metadatum, None, ('secret_meta:delete',), since=0,
          status=204),
)
