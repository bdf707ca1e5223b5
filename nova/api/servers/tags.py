"""/servers/{id}/tags, since 2.26: at most 50 tags of at most 60 characters, without '/' and ','."""
from collections.abc import Callable

from nova import actions
from nova import exception
from nova.api import notifications
from nova.api import request as api_request
from nova.api.servers import fields as server_fields
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.json_types import JsonDocument
from nova.web.request import Response
from nova.web.routes import Route

_RULE = 'os_compute_api:os-server-tags:'
MAX_TAGS = 50
MAX_LENGTH = 60


class TagNotFound(exception.NotFound, template="Server %(server_id)s has no tag '%(tag)s'"): ...


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    return {'tags': server_fields.tags(server_lookup.get(req, server_id, _RULE + 'index'))}


def show(req: api_request.Request, server_id: str, id: str) -> None:
    _present(server_fields.tags(server_lookup.get(req, server_id, _RULE + 'show')), server_id, id)


def update_all(req: api_request.Request, server_id: str) -> JsonDocument:
    given = list(dict.fromkeys(req.body['tags']))
    _change(req, server_id, 'update_all', lambda tags: given)
    return {'tags': given}


def update(req: api_request.Request, server_id: str, id: str) -> Response:
    """Add one tag: 201 if it is new, else 204."""
    if not 0 < len(id) <= MAX_LENGTH or ',' in id or '/' in id:
        raise exception.BadRequest(f'Tag {id[:80]!r} is invalid: 1 to {MAX_LENGTH} characters, no comma and '
                                   'no slash.')
    before = _change(req, server_id, 'update', lambda tags: _with(tags, id))
    if id in before:
        return Response(status=204)
    return Response(status=201, headers=(('Location', req.url('servers', server_id, 'tags', id)),))


def delete(req: api_request.Request, server_id: str, id: str) -> None:
    def without(tags: list[str]) -> list[str]:
        _present(tags, server_id, id)
        return [other for other in tags if other != id]
    _change(req, server_id, 'delete', without)


def delete_all(req: api_request.Request, server_id: str) -> None:
    _change(req, server_id, 'delete_all', lambda tags: [])


def _with(tags: list[str], tag: str) -> list[str]:
    if tag not in tags and len(tags) >= MAX_TAGS:
        raise exception.BadRequest(f'A server has at most {MAX_TAGS} tags.')
    return tags if tag in tags else [*tags, tag]


def _present(tags: list[str], server_id: str, tag: str) -> None:
    if tag not in tags:
        raise TagNotFound(server_id=server_id, tag=tag[:80])


def _change(req: api_request.Request, server_id: str, rule: str, change: Callable[[list[str]], list[str]]) -> list[str]:
    """Store ``change(tags)`` in the transaction that reads the tags; return the previous tags."""
    cell = server_lookup.cell_of(req, server_id)
    tags = cell.db.run(_apply, req, server_id, rule, change)
    notifications.updated(req, cell, notifications.read(req, cell.db, instances.get, server_id))
    return tags


def _apply(conn: engine.Connection, req: api_request.Request, server_id: str, rule: str,
           change: Callable[[list[str]], list[str]]) -> list[str]:
    row = server_lookup.locked_row(req, conn, server_id, _RULE + rule)
    tasks.check_states(row, actions.ACTIONS['metadata'], 'update tags')             # the states are the same
    tags = server_fields.tags(row)
    instances.update(conn, server_id, {'tags': server_spec.joined_tags(change(tags))})
    return tags


_ERRORS = (401, 403, 404, 409)
_PATH = '/servers/{server_id}/tags'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', since=26, errors=(401, 403, 404)),
    Route('PUT', _PATH, update_all, policy=_RULE + 'update_all', since=26, body=server_schemas.TAGS_BODY,
          errors=(400, *_ERRORS)),
    Route('DELETE', _PATH, delete_all, policy=_RULE + 'delete_all', since=26, status=204, errors=_ERRORS),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', since=26, status=204, errors=(401, 403, 404)),
    Route('PUT', _PATH + '/{id}', update, policy=_RULE + 'update', since=26, status=201, also=(204,),
          errors=(400, *_ERRORS)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', since=26, status=204, errors=_ERRORS),
)
