"""Containers of secrets: routes and handlers."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova.db.key_manager import records
from nova.db.tables.rows import KeyContainersRow
from nova.keymanager.rest import forms
from nova.keymanager.rest import listing
from nova.keymanager.rest import resources
from nova.keymanager.rest import secrets
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.tables.rows import KeyConsumersRow
    from nova.json_types import JsonObject
    from nova.keymanager.rest.request import KeyManagerRequest
    from nova.web.request import Response


def create_container(request: KeyManagerRequest) -> Response:
    refs = [(each.get('name') or '', forms.secret_id(each['secret_ref']))
            for each in request.body.get('secret_refs', ())]
    ident = request.store.create_container(request.context, request.body['type'], request.body.get('name'), refs)
    return secrets.created(request, 'container', ident)


def list_containers(request: KeyManagerRequest) -> JsonObject:
    return listing.page(request, resources.CONTAINER, with_parts)


class ShownContainer(KeyContainersRow):
    """A container with its secrets as (name, id) pairs, and its consumers."""

    secrets: list[tuple[str, str]]
    consumers: list[KeyConsumersRow]


def with_parts(conn: Connection, rows: list[KeyContainersRow]) -> list[ShownContainer]:
    ids = [row['id'] for row in rows]
    found, consumers = records.secrets_of(conn, ids), records.consumers(conn, ids)
    return [{**row, 'secrets': found[row['id']], 'consumers': consumers[row['id']]} for row in rows]


def show_container(request: KeyManagerRequest, ident: str) -> ShownContainer:
    row = request.container(ident, 'container:get')
    with request.store.db.reader() as conn:
        return with_parts(conn, [row])[0]


def delete_container(request: KeyManagerRequest, ident: str) -> None:
    row = request.container(ident, 'container:delete')
    request.store.db.run(records.delete_container, row['id'])


def add_secret(request: KeyManagerRequest, ident: str) -> Response:
    row = request.container(ident, 'container_secret:post')
    request.store.add_secret(row, *_ref(request.body))
    return secrets.created(request, 'container', row['id'])


def remove_secret(request: KeyManagerRequest, ident: str) -> None:
    row = request.container(ident, 'container_secret:delete')
    request.store.remove_secret(row, *_ref(request.document()))


def _ref(document: Mapping[str, str]) -> tuple[str, str]:
    return document.get('name') or '', forms.secret_id(document['secret_ref'])


_CONTAINERS, _CONTAINER = '/v1/containers', '/v1/containers/{ident}'
ROUTES = (
    Route('GET', _CONTAINERS, list_containers, 'containers:get', since=0, query=forms.listing(resources.CONTAINER),
          answer=resources.Pages('containers', resources.CONTAINER)),
    Route('POST', _CONTAINERS, create_container, 'containers:post', since=0, status=201, errors=(404,),
          body=forms.NEW_CONTAINER, answer=secrets.ref_of('container')),
    Route('GET', _CONTAINER, show_container, None, ('container:get',), since=0,
          answer=resources.Bare(resources.CONTAINER)),
    Route('DELETE', _CONTAINER, delete_container, None, ('container:delete',), since=0, status=204),
    Route('POST', f'{_CONTAINER}/secrets', add_secret, None, ('container_secret:post',), since=0, status=201,
          errors=(409,), body=forms.SECRET_REF, answer=secrets.ref_of('container')),
    Route('DELETE', f'{_CONTAINER}/secrets', remove_secret, None, ('container_secret:delete',), since=0, status=204,
          streams=True, errors=(413,), body=forms.SECRET_REF),
)
