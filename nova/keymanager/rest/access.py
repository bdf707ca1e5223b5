"""Access control lists and consumers of secrets and containers: routes and handlers."""
from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.db.key_manager import records
from nova.keymanager.rest import containers
from nova.keymanager.rest import forms
from nova.keymanager.rest import listing
from nova.keymanager.rest import resources
from nova.keymanager.rest import secrets
from nova.keymanager.rest.request import CONTAINER
from nova.keymanager.rest.request import SECRET
from nova.keymanager.rest.request import TABLES
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nova.json_types import JsonObject
    from nova.keymanager.rest.containers import ShownContainer
    from nova.keymanager.rest.request import KeyManagerRequest
    from nova.keymanager.rest.secrets import ShownSecret
    from nova.web.resource import Schema

_USERS: Schema = {'type': 'array', 'items': resources.TEXT}
_READ = closed('project-access', created=resources.TIME, updated=resources.TIME, users=_USERS,
               **{'project-access': resources.BOOLEAN})


# ---- access control lists

def show_acl(request: KeyManagerRequest, ident: str, *, kind: str) -> JsonObject:
    row = request.listed(kind, ident, f'{kind}_acls:get')
    if row['acl_created_at'] is None:
        return {'read': {'project-access': True}}
    with request.store.db.reader() as conn:
        users = records.users(conn, row['id'])
    return {'read': {'project-access': row['project_access'], 'users': [*users], 'created': utils.exact_time(
        row['acl_created_at']), 'updated': utils.exact_time(row['acl_updated_at'])}}


def replace_acl(request: KeyManagerRequest, ident: str, *, kind: str) -> JsonObject:
    """Replace the access control list. If the body has neither users nor project-access, delete the list."""
    read = request.body.get('read')
    return _change(request, ident, kind, 'put_patch', lambda users, project_access: (
        read.get('users', []) if read else None, read.get('project-access', True) if read else True))


def update_acl(request: KeyManagerRequest, ident: str, *, kind: str) -> JsonObject:
    """Change the users or the project access of the access control list; what the body omits stays unchanged."""
    read = request.body.get('read') or {}
    return _change(request, ident, kind, 'put_patch', lambda users, project_access: (
        read.get('users', users if users or not read else []), read.get('project-access', project_access)))


def _change(request: KeyManagerRequest, ident: str, kind: str, rule: str,
            change: Callable[[list[str] | None, bool], tuple[list[str] | None, bool]]) -> JsonObject:
    """Store an access control list.

    :param rule: end of the name of the rule
    :param change: function(users, project access) that returns the new values; users is None if there is no list
    """
    row = request.listed(kind, ident, f'{kind}_acls:{rule}')
    with request.store.db.writer() as conn:
        present = records.get(conn, TABLES[kind], row['id'], lock=True)
        if present is None:
            raise exception.NotFound(f'{kind.capitalize()} {row["id"]} could not be found.')
        users = records.users(conn, row['id']) if present['acl_created_at'] is not None else None
        records.set_acl(conn, TABLES[kind], present, *change(users, present['project_access']))
    return {'acl_ref': request.ref(f'{kind}s/{ident}/acl')}


def delete_acl(request: KeyManagerRequest, ident: str, *, kind: str) -> None:
    _change(request, ident, kind, 'delete', lambda users, project_access: (None, True))


# ---- consumers

def list_consumers(request: KeyManagerRequest, ident: str, *, kind: str) -> JsonObject:
    row = request.listed(kind, ident, f'{kind}_consumers:get')
    limit, offset = listing.bounds(request)
    with request.store.db.reader() as conn:
        found = records.consumers(conn, [row['id']])[row['id']]
    return listing.linked(request, 'consumers', [
        {'created': utils.exact_time(each['created_at']), 'updated': utils.exact_time(each['created_at']),
         'status': 'ACTIVE', **each['document']} for each in found[offset:offset + limit]], len(found))


def add_consumer(request: KeyManagerRequest, ident: str, *, kind: str) -> ShownSecret | ShownContainer:
    row = request.listed(kind, ident, f'{kind}_consumers:post')
    if not request.store.db.run(records.add_consumer, TABLES[kind], row, request.body, request.store.limit):
        raise exception.NotFound(f'{kind.capitalize()} {row["id"]} could not be found.')
    return _row(request, kind, row['id'])


def remove_consumer(request: KeyManagerRequest, ident: str, *, kind: str) -> ShownSecret | ShownContainer:
    row, document = request.listed(kind, ident, f'{kind}_consumers:delete'), request.document()
    if not request.store.db.run(records.remove_consumer, row['id'], document):
        raise exception.NotFound(f'{kind.capitalize()} {row["id"]} has no such consumer.')
    return _row(request, kind, row['id'])


def _row(request: KeyManagerRequest, kind: str, ident: str) -> ShownSecret | ShownContainer:
    """Return the row of a secret or container with its consumers; a container also has its secrets."""
    with request.store.db.reader() as conn:
        row: Any = records.get(conn, TABLES[kind], ident)
        if row is None:
            raise exception.NotFound(f'{kind.capitalize()} {ident} could not be found.')
        return secrets.with_consumers(conn, [row])[0] if kind == SECRET else containers.with_parts(conn, [row])[0]


def _routes(kind: str) -> Iterator[Route]:
    shown, body, names = (resources.SECRET, forms.SECRET_CONSUMER, resources.SECRET_CONSUMER) if kind == SECRET else (
        resources.CONTAINER, forms.CONTAINER_CONSUMER, resources.CONTAINER_CONSUMER)
    path, one = f'/v1/{kind}s/{{ident}}', resources.Bare(shown)
    consumer: dict[str, Schema] = {'created': resources.TIME, 'updated': resources.TIME, 'status': {'const': 'ACTIVE'},
                                   **dict.fromkeys(names, resources.TEXT)}
    yield Route('GET', f'{path}/acl', functools.partial(show_acl, kind=kind), None, (f'{kind}_acls:get',), since=0,
                answer=Document({'read': _READ}), name=f'show_{kind}_acl')
    for method, handler in (('PUT', replace_acl), ('PATCH', update_acl)):
        yield Route(method, f'{path}/acl', functools.partial(handler, kind=kind), None, (f'{kind}_acls:put_patch',),
                    since=0, body=forms.ACL, answer=secrets.ref_of('acl'),
                    name=handler.__name__.replace('acl', f'{kind}_acl'))
    yield Route('DELETE', f'{path}/acl', functools.partial(delete_acl, kind=kind), None, (f'{kind}_acls:delete',),
                since=0, name=f'delete_{kind}_acl')
    yield Route('GET', f'{path}/consumers', functools.partial(list_consumers, kind=kind), None,
                (f'{kind}_consumers:get',), since=0, query=forms.PAGE, name=f'list_{kind}_consumers',
                answer=resources.Pages('consumers', closed(*consumer, **consumer)))
    yield Route('POST', f'{path}/consumers', functools.partial(add_consumer, kind=kind), None,
                (f'{kind}_consumers:post',), since=0, body=body, answer=one, name=f'add_{kind}_consumer')
    yield Route('DELETE', f'{path}/consumers', functools.partial(remove_consumer, kind=kind), None,
                (f'{kind}_consumers:delete',), since=0, streams=True, errors=(413,), body=body, answer=one,
                name=f'remove_{kind}_consumer')


ROUTES = (*_routes(SECRET), *_routes(CONTAINER))
