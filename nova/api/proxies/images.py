"""Images (until 2.35): a proxy for the image service."""
import functools
from collections.abc import Callable
from typing import Any

from nova import utils
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.api.servers import category as server_category
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

UNTIL = 35
_STATUS = {'active': 'ACTIVE', 'queued': 'SAVING', 'saving': 'SAVING', 'uploading': 'SAVING',
           'importing': 'SAVING', 'deleted': 'DELETED', 'pending_delete': 'DELETED', 'killed': 'ERROR'}
_PROGRESS = {'queued': 25, 'saving': 50, 'active': 100}
_SERVER = 'instance_uuid'                # property of a snapshot: UUID of its server


def _status(image: api_request.Document, req: api_request.Request | None) -> str:
    return _STATUS.get(image['status'], 'UNKNOWN')


def _links(image: api_request.Document, req: api_request.Request) -> list[dict[str, str]]:
    return [*req.links('images', image['id']),
            {'rel': 'alternate', 'type': 'application/vnd.openstack.image', 'href': req.image_url(image['id'])}]


def _server(image: api_request.Document, req: api_request.Request) -> api_request.Document | fields.Absent:
    server_id = image['properties'].get(_SERVER)
    return {'id': server_id, 'links': req.links('servers', server_id)} if server_id else fields.ABSENT


def _disk_config(image: api_request.Document, req: api_request.Request) -> str | fields.Absent:
    automatic = image['properties'].get('auto_disk_config')
    if automatic is None:
        return fields.ABSENT
    return 'AUTO' if automatic in params.TRUE else 'MANUAL'


SUMMARY = Fields(
    Field('id', 'id', type='string format=uuid required'),
    Field('name', 'name', type='string|null required'),
    Field('links', _links, type='array minItems=3 maxItems=3 required'),
)
VIEW = SUMMARY + Fields(
    Field('created', lambda image, req: utils.isotime(image['created_at']), type='string format=date-time required'),
    Field('updated', lambda image, req: utils.isotime(image['updated_at']),
          type='string|null format=date-time required'),
    Field('status', _status, type='string one of ACTIVE,SAVING,DELETED,ERROR,UNKNOWN required'),
    Field('progress', lambda image, req: _PROGRESS.get(image['status'], 0), type='integer one of 0,25,50,100 required'),
    Field('minDisk', lambda image, req: image['min_disk'] or 0, type='integer minimum=0 required'),
    Field('minRam', lambda image, req: image['min_ram'] or 0, type='integer minimum=0 required'),
    Field('metadata', 'properties', type=shapes.METADATA),
    Field('OS-EXT-IMG-SIZE:size', lambda image, req: image['size'] or 0, type='integer required'),
    Field('server', _server, optional=True, type=shapes.SERVER),
    Field('OS-DCF:diskConfig', _disk_config, optional=True, type='string one of AUTO,MANUAL'),
)

_ANY = params.Type({})
_POSITIVE = params.integer(1)
_CONDITIONS: dict[str, Callable[[api_request.Document, Any], bool]] = {
    'name': lambda image, wanted: image['name'] == wanted,
    'status': lambda image, wanted: _status(image, None) == wanted.upper(),
    'server': lambda image, wanted: image['properties'].get(_SERVER) == wanted.rstrip('/').rpartition('/')[2],
    'type': lambda image, wanted: wanted == (image['properties'].get('image_type') or (
        'snapshot' if _SERVER in image['properties'] else 'base')),
    'minRam': lambda image, wanted: (image['min_ram'] or 0) >= int(wanted),
    'minDisk': lambda image, wanted: (image['min_disk'] or 0) >= int(wanted),
    'changes-since': lambda image, wanted: image['updated_at'] >= wanted,
}
LIST = params.Query(
    params.Param('name', _ANY), params.Param('status', _ANY), params.Param('server', _ANY), params.Param('type', _ANY),
    params.Param('changes-since', params.DATE_TIME), params.Param('minRam', params.integer(0)),
    params.Param('minDisk', params.integer(0)), params.Param('limit', _POSITIVE), params.Param('page_size', _POSITIVE),
    params.Param('marker', _ANY), params.Param('offset', _POSITIVE), params.Param(None, _ANY, pattern='^property-.*$'))


def _matches(image: api_request.Document, query: params.QueryValues) -> bool:
    return (all(check(image, query.one(name)) for name, check in _CONDITIONS.items() if name in query)
            and all(image['properties'].get(name[len('property-'):]) == query.one(name)
                    for name in query if name.startswith('property-')))


def _all(req: api_request.Request) -> list[api_request.Document]:
    """Return all images that are visible to the caller, read in pages.

    The client's page_size is ignored, because small pages would need more requests to the image service.
    """
    found, marker, hidden = [], None, server_category.hidden_images(req)
    while True:
        rows = req.services.images.list(req.context, limit=req.services.conf.api.max_limit, marker=marker)
        found += [row for row in rows if row['id'] not in hidden]
        if not rows or rows[-1]['id'] == marker:
            return found
        marker = rows[-1]['id']


def _list(req: api_request.Request, view: Fields, path: str) -> JsonDocument:
    images = [image for image in _all(req) if _matches(image, req.query)]
    rows, more = paging.page(images[req.query.one('offset', 0):], req)
    build = view.builder(req)
    body = {'images': [build(image) for image in rows]}
    return paging.add_links(body, req, path, 'images', rows[-1]['id'] if rows else None, more, paging.BY_ID)


def index(req: api_request.Request) -> JsonDocument:
    return _list(req, SUMMARY, 'images')


def detail(req: api_request.Request) -> JsonDocument:
    return _list(req, VIEW, 'images/detail')


def show(req: api_request.Request, id: str) -> JsonDocument:
    return {'image': VIEW.builder(req)(server_category.find_image(req, id))}


def delete(req: api_request.Request, id: str) -> None:
    if server_category.hidden_images(req):
        server_category.find_image(req, id)
    req.services.images.delete(req.context, id)


_route = functools.partial(Route, until=UNTIL)
ROUTES = (
    _route('GET', '/images', index, query=LIST, errors=(400,)),
    _route('GET', '/images/detail', detail, query=LIST, errors=(400,)),
    _route('GET', '/images/{id}', show, errors=(404,)),
    _route('DELETE', '/images/{id}', delete, status=204, errors=(403, 404)),
)
