"""Orders of generated keys, and quotas: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova import utils
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.keymanager.rest import forms
from nova.keymanager.rest import listing
from nova.keymanager.rest import resources
from nova.keymanager.rest import secrets
from nova.keymanager.rest.request import MAX_ID
from nova.keymanager.rest.request import ORDER
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.tables.rows import KeyOrdersRow
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.keymanager.rest.request import KeyManagerRequest
    from nova.web.request import Response

_NO_AUTHORITIES = {'cas': 0}             # certificate authorities are not supported
MAX_PROJECT_ID = 255                     # characters


# ---- orders

def create_order(request: KeyManagerRequest) -> Response:
    meta = request.body['meta']
    forms.check_order(meta)
    expires_at = forms.expiration(meta.get('expiration'))
    shown = {'name': None, **meta, 'expiration': utils.exact_time(expires_at)}
    return secrets.created(request, 'order', request.store.create_order(
        request.context, request.body['type'], shown, {
            'name': meta.get('name'), 'algorithm': meta['algorithm'], 'bit_length': meta['bit_length'],
            'mode': meta.get('mode'), 'expires_at': expires_at}))


def list_orders(request: KeyManagerRequest) -> JsonObject:
    return listing.page(request, resources.ORDER)


def show_order(request: KeyManagerRequest, ident: str) -> KeyOrdersRow:
    return _found(request, ident, 'order:get')


def delete_order(request: KeyManagerRequest, ident: str) -> None:
    """Delete an order but not its generated keys."""
    row = _found(request, ident, 'order:delete')
    request.store.db.run(records.delete_order, row['id'])


def _found(request: KeyManagerRequest, ident: str, rule: str) -> KeyOrdersRow:
    """Return an order of the caller's project."""
    with request.store.db.reader() as conn:
        row = records.get(conn, t.key_orders, ident[:MAX_ID])
    if row is None or row['project_id'] != request.context.project_id:
        raise exception.NotFound(f'Order {ident[:MAX_ID]} could not be found.')
    request.authorize(rule, ORDER, row)
    return row


# ---- quotas

def show_quotas(request: KeyManagerRequest) -> JsonObject:
    """Show the limits of the caller's project; -1 is unlimited."""
    with request.store.db.reader() as conn:
        own = records.own_limits(conn, str(request.context.project_id))
    return {'quotas': {**{name: own.get(name, request.store.limit) for name in records.COUNTED}, **_NO_AUTHORITIES}}


def list_project_quotas(request: KeyManagerRequest) -> JsonObject:
    with request.store.db.reader() as conn:
        found, total = records.projects_with_limits(conn, *listing.bounds(request))
        documents: list[Json] = [{'project_id': each, 'project_quotas': _own(records.own_limits(conn, each))}
                                 for each in found]
    return listing.linked(request, 'project_quotas', documents, total)


def show_project_quotas(request: KeyManagerRequest, project_id: str) -> JsonObject:
    return {'project_quotas': _own(_limits(request, project_id))}


def set_project_quotas(request: KeyManagerRequest, project_id: str) -> None:
    if len(project_id) > MAX_PROJECT_ID:
        raise exception.BadRequest(f'A project id has at most {MAX_PROJECT_ID} characters.')
    request.store.db.run(records.set_limits, project_id, {
        name: request.body[name] for name in records.COUNTED if request.body.get(name) is not None})


def delete_project_quotas(request: KeyManagerRequest, project_id: str) -> None:
    _limits(request, project_id)
    request.store.db.run(records.set_limits, project_id, {})


def _limits(request: KeyManagerRequest, project_id: str) -> dict[str, int]:
    """Return the limits that are set for a project; raises NotFound if there are none."""
    with request.store.db.reader() as conn:
        found = records.own_limits(conn, project_id[:MAX_PROJECT_ID])
    if not found:
        raise exception.NotFound(f'Project {project_id[:MAX_PROJECT_ID]} has no quotas of its own.')
    return found


def _own(limits: dict[str, int]) -> JsonObject:
    return {**{name: limits.get(name) for name in records.COUNTED}, **_NO_AUTHORITIES}


_NAMES = (*records.COUNTED, *_NO_AUTHORITIES)
_OWN = closed(*_NAMES, **dict.fromkeys(_NAMES, resources.INTEGER_OR_NULL))
_ORDERS, _ORDER, _QUOTAS = '/v1/orders', '/v1/orders/{ident}', '/v1/project-quotas/{project_id}'
ROUTES = (
    Route('GET', _ORDERS, list_orders, 'orders:get', since=0, query=forms.PAGE,
          answer=resources.Pages('orders', resources.ORDER)),
    Route('POST', _ORDERS, create_order, 'orders:post', since=0, status=202, body=forms.NEW_ORDER,
          answer=secrets.ref_of('order')),
    Route('GET', _ORDER, show_order, None, ('order:get',), since=0, answer=resources.Bare(resources.ORDER)),
    Route('DELETE', _ORDER, delete_order, None, ('order:delete',), since=0, status=204),
    Route('GET', '/v1/quotas', show_quotas, 'quotas:get', since=0,
          answer=Document({'quotas': closed(*_NAMES, **dict.fromkeys(_NAMES, resources.INTEGER))})),
    Route('GET', '/v1/project-quotas', list_project_quotas, 'project_quotas:get', since=0, query=forms.PAGE,
          answer=resources.Pages('project_quotas', closed('project_id', 'project_quotas', project_id=resources.TEXT,
                                                          project_quotas=_OWN))),
    Route('GET', _QUOTAS, show_project_quotas, 'project_quotas:get', since=0,
          answer=Document({'project_quotas': _OWN})),
    Route('PUT', _QUOTAS, set_project_quotas, 'project_quotas:put', since=0, status=204, body=forms.QUOTAS),
    Route('DELETE', _QUOTAS, delete_project_quotas, 'project_quotas:delete', since=0, status=204),
)
