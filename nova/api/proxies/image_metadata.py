"""Image metadata (until 2.38): a proxy for the properties of images."""
import functools

from nova import exception
from nova.api import metadata_items
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import schemas as server_schemas
from nova.db.projects import quotas
from nova.json_types import JsonDocument
from nova.web.routes import Route

UNTIL = 38
_PATH = '/images/{image_id}/metadata'


def _properties(req: api_request.Request, image_id: str) -> dict[str, str]:
    return server_category.find_image(req, image_id)['properties']


def _store(req: api_request.Request, image_id: str, properties: dict[str, str]) -> dict[str, str]:
    with req.services.api_db.reader() as conn:
        limit = quotas.limits_of(conn, req.services.conf, req.project_id, req.user_id)['metadata_items']
    if 0 <= limit < len(properties):
        raise exception.LimitExceeded(resource='image metadata items', limit=limit)
    image = req.services.images.update(req.context, image_id, {'properties': properties}, purge_props=True)
    return image['properties']


def index(req: api_request.Request, image_id: str) -> JsonDocument:
    return {'metadata': _properties(req, image_id)}


def create(req: api_request.Request, image_id: str) -> JsonDocument:
    return {'metadata': _store(req, image_id, {**_properties(req, image_id), **req.body['metadata']})}


def replace(req: api_request.Request, image_id: str) -> JsonDocument:
    _properties(req, image_id)
    return {'metadata': _store(req, image_id, req.body['metadata'])}


def show(req: api_request.Request, image_id: str, id: str) -> JsonDocument:
    return metadata_items.show(_properties(req, image_id), id)


def update(req: api_request.Request, image_id: str, id: str) -> JsonDocument:
    given = metadata_items.given(req, id)
    _store(req, image_id, {**_properties(req, image_id), **given})
    return {'meta': given}


def delete(req: api_request.Request, image_id: str, id: str) -> None:
    _store(req, image_id, metadata_items.without(id)(_properties(req, image_id)))


_route = functools.partial(Route, until=UNTIL)
ROUTES = (
    _route('GET', _PATH, index, errors=(403, 404)),
    _route('POST', _PATH, create, body=server_schemas.METADATA_BODY, errors=(400, 403, 404)),
    _route('PUT', _PATH, replace, body=server_schemas.METADATA_BODY, errors=(400, 403, 404)),
    _route('GET', _PATH + '/{id}', show, errors=(403, 404)),
    _route('PUT', _PATH + '/{id}', update, body=server_schemas.META_BODY, errors=(400, 403, 404)),
    _route('DELETE', _PATH + '/{id}', delete, status=204, errors=(403, 404)),
)
