"""/servers/{id}/metadata: each change reads and writes in one transaction, so that concurrent changes are not lost."""
from nova import actions
from nova import exception
from nova.api import metadata_items
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.projects import quotas
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.json_types import JsonDocument
from nova.web import sizes
from nova.web.routes import Route

_RULE = 'os_compute_api:server-metadata:'
_ACTION = actions.ACTIONS['metadata']


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    return {'metadata': server_lookup.get(req, server_id, _RULE + 'index')['metadata']}


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    return metadata_items.show(server_lookup.get(req, server_id, _RULE + 'show')['metadata'], id)


def create(req: api_request.Request, server_id: str) -> JsonDocument:
    """Add or update items."""
    given = req.body['metadata']
    return {'metadata': _change(req, server_id, 'create', lambda metadata: {**metadata, **given})}


def update_all(req: api_request.Request, server_id: str) -> JsonDocument:
    """Replace all items."""
    given = req.body['metadata']
    return {'metadata': _change(req, server_id, 'update_all', lambda metadata: given)}


def update(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    given = metadata_items.given(req, id)
    _change(req, server_id, 'update', lambda metadata: {**metadata, **given})
    return {'meta': given}


def delete(req: api_request.Request, server_id: str, id: str) -> None:
    _change(req, server_id, 'delete', metadata_items.without(id))


def _change(req: api_request.Request, server_id: str, rule: str, change: metadata_items.Change) -> dict[str, str]:
    """Store ``change(metadata)`` in the transaction that reads the metadata, and return the new metadata."""
    cell = server_lookup.cell_of(req, server_id)
    with req.services.api_db.reader() as conn:
        limits = quotas.limits_of(conn, req.services.conf, req.project_id, req.user_id)
    return cell.db.run(_apply, req, server_id, rule, change, limits)


def _apply(conn: engine.Connection, req: api_request.Request, server_id: str, rule: str, change: metadata_items.Change,
           limits: dict[str, int]) -> dict[str, str]:
    row = server_lookup.locked_row(req, conn, server_id, _RULE + rule)
    if row['locked'] and not req.context.is_admin:
        raise exception.InstanceIsLocked(instance_id=server_id)
    tasks.check_states(row, _ACTION, 'update metadata')
    metadata = change(row['metadata'])
    if len(metadata) > len(row['metadata']):
        server_spec.check_metadata(metadata, limits)
    sizes.check(metadata, sizes.METADATA, 'Metadata', row['metadata'])
    instances.update(conn, server_id, {'metadata': metadata})
    return metadata


_ERRORS = (400, 401, 403, 404, 409)
_PATH = '/servers/{server_id}/metadata'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', query=server_schemas.NOTHING, errors=(401, 403, 404)),
    Route('POST', _PATH, create, policy=_RULE + 'create', body=server_schemas.METADATA_BODY, errors=_ERRORS),
    Route('PUT', _PATH, update_all, policy=_RULE + 'update_all', body=server_schemas.METADATA_BODY,
          errors=_ERRORS),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', query=server_schemas.NOTHING,
          errors=(401, 403, 404)),
    Route('PUT', _PATH + '/{id}', update, policy=_RULE + 'update', body=server_schemas.META_BODY,
          errors=_ERRORS),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', status=204, errors=_ERRORS),
)
