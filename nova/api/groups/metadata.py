"""/os-server-groups/{id}/metadata: metadata of a server group.

Items with the prefix ``capabilities:`` are host requirements of a group with the policy host-capabilities. These items
may change only while the group has no members.
"""

from nova.api import metadata_items
from nova.api import request as api_request
from nova.api.groups import server_groups
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.placement import server_groups as db
from nova.db.projects import quotas
from nova.json_types import JsonDocument
from nova.web import sizes
from nova.web.routes import Route

SHOW = 'nova:os-server-groups:metadata:show'
CHANGE = 'nova:os-server-groups:metadata:update'


def _metadata(req: api_request.Request, id: str) -> dict[str, str]:
    with req.services.api_db.reader() as conn:
        return server_groups.find(req, conn, id, SHOW)['metadata']


def index(req: api_request.Request, id: str) -> JsonDocument:
    return {'metadata': _metadata(req, id)}


def show(req: api_request.Request, id: str, key: str) -> JsonDocument:
    return metadata_items.show(_metadata(req, id), key)


def create(req: api_request.Request, id: str) -> JsonDocument:
    """Add or update items."""
    given = req.body['metadata']
    return {'metadata': _change(req, id, lambda metadata: {**metadata, **given})}


def update_all(req: api_request.Request, id: str) -> JsonDocument:
    """Replace all items."""
    given = req.body['metadata']
    return {'metadata': _change(req, id, lambda metadata: given)}


def update(req: api_request.Request, id: str, key: str) -> JsonDocument:
    given = metadata_items.given(req, key)
    _change(req, id, lambda metadata: {**metadata, **given})
    return {'meta': given}


def delete(req: api_request.Request, id: str, key: str) -> None:
    _change(req, id, metadata_items.without(key))


def _change(req: api_request.Request, id: str, changed: metadata_items.Change) -> dict[str, str]:
    """Store ``changed(metadata)`` in the transaction that reads the metadata, and return the new metadata."""
    def run(conn: engine.Connection, row: db.Group) -> dict[str, str]:
        metadata = changed(row['metadata'])
        check(req, conn, row, metadata)
        return db.update(conn, row, {'metadata': metadata})['metadata']
    return server_groups.change(req, id, CHANGE, run)


def check(req: api_request.Request, conn: engine.Connection, row: db.Group, metadata: dict[str, str]) -> None:
    """Check number and size of items.

    :raises LimitExceeded: the number grows and exceeds the project's quota
    """
    if len(metadata) > len(row['metadata']):
        server_spec.check_metadata(metadata, quotas.limits_of(conn, req.services.conf, row['project_id']))
    sizes.check(metadata, sizes.METADATA, 'Metadata', row['metadata'])


_PATH = '/os-server-groups/{id}/metadata'
_ERRORS = (400, 401, 403, 404, 409)
ROUTES = (
    Route('GET', _PATH, index, checks=(SHOW,), errors=(401, 403, 404)),
    Route('POST', _PATH, create, checks=(CHANGE,), body=server_schemas.METADATA_BODY, errors=_ERRORS),
    Route('PUT', _PATH, update_all, checks=(CHANGE,), body=server_schemas.METADATA_BODY, errors=_ERRORS),
    Route('GET', _PATH + '/{key}', show, checks=(SHOW,), errors=(401, 403, 404)),
    Route('PUT', _PATH + '/{key}', update, checks=(CHANGE,), body=server_schemas.META_BODY, errors=_ERRORS),
    Route('DELETE', _PATH + '/{key}', delete, checks=(CHANGE,), status=204, errors=_ERRORS),
)
