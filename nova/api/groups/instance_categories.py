"""Instance categories (an API extension): the purpose of servers and their requirements on hosts.

A category is identified by ID or name; a name must not look like an ID.
"""
from typing import Any

from nova import context as nova_context
from nova import exception
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.db.audit import log
from nova.db.placement import categories
from nova.db.projects import flavors
from nova.json_types import JsonDocument
from nova.web import params
from nova.web import fields
from nova.web.request import Response
from nova.web.routes import Route

_RULE = 'nova:instance-categories:'
MAX_REQUIREMENTS = 64

# parameter -> column
_COLUMNS = {'name': 'name', 'description': 'description', 'default_image': 'image_id',
            'default_flavor': 'flavor_id', 'requirements': 'requirements'}


VIEW = fields.Fields(
    fields.Field('id', 'uuid', type='string format=uuid required'),
    fields.Field('name', 'name', type='string minLength=1 maxLength=255 required'),
    fields.Field('description', 'description', type='string|null required'),
    fields.Field('default_image', 'image_id', type='string|null format=uuid required'),
    fields.Field('default_flavor', 'flavor_id', type='string|null required'),
    fields.Field('requirements', 'requirements', type=shapes.REQUIREMENTS),
    fields.Field('created_at', fields.moment('created_at'), type='string format=date-time required'),
    fields.Field('updated_at', fields.moment('updated_at'), type='string|null format=date-time required'),
    fields.Field('deleted', lambda row, req: bool(row['deleted']), type='boolean required'),
    fields.Field('deleted_at', fields.moment('deleted_at'), type='string|null format=date-time required'),
)

# ---- parameters --------------------------------------------------------------

# Lowercase only, because databases differ in case sensitivity. Strings that look like an ID are excluded.
NAME = params.string(1, 255, '^(?!([0-9a-f]+-){4}[0-9a-f]+$)[a-z0-9][a-z0-9._-]*$', format='name')
_FLAVOR = params.Type({'type': ['string', 'integer', 'null'], 'minLength': 1, 'maxLength': 255},
                      convert=lambda value: None if value is None else str(value))
_COMMON = (
    params.Param('description', params.DESCRIPTION),
    params.Param('default_image', params.nullable(params.UUID)),
    params.Param('default_flavor', _FLAVOR),
    params.Param('requirements', params.Object(params.Param(None, params.string(1, 255), pattern=params.METADATA_KEY),
                                               maxProperties=MAX_REQUIREMENTS)),
)
CREATE = params.document('instance_category', params.Param('name', NAME, required=True), *_COMMON)
UPDATE = params.document('instance_category', params.Param('name', NAME), *_COMMON, minProperties=1)
PURGE = params.Object(params.Param('purge', {'type': 'null'}, required=True))
SHOW = params.Query(params.Param('deleted', params.BOOLEAN), closed=1)
LIST = params.Query(params.Param('deleted', params.BOOLEAN), params.Param('name', params.STRING),
                    params.Param('limit', params.LIMIT), params.Param('marker', params.STRING), closed=1)


def _values(req: api_request.Request) -> dict[str, Any]:
    """Convert the body to columns.

    :raises BadRequest: the image or flavor does not exist
    """
    given = req.body['instance_category']
    values = {column: given[name] for name, column in _COLUMNS.items() if name in given}
    if values.get('image_id'):
        with exception.AsBadRequest(exception.ImageNotFound):
            values['image_id'] = req.services.images.show(req.context, values['image_id'])['id']
    if values.get('flavor_id'):
        with req.services.api_db.reader() as conn, exception.AsBadRequest(exception.FlavorNotFound):
            flavors.get(conn, values['flavor_id'], nova_context.ALL_PROJECTS)
    return values


# ---- handlers ----------------------------------------------------------------

def _one(req: api_request.Request, row: api_request.Row) -> JsonDocument:
    return {'instance_category': VIEW.builder(req)(row)}


def index(req: api_request.Request) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        found = categories.page(conn, name=req.query.one('name'), deleted=req.query.one('deleted', False))
    rows, more = paging.page(found, req, 'uuid')
    build = VIEW.builder(req)
    body = {'instance_categories': [build(row) for row in rows]}
    return paging.add_links(body, req, 'os-instance-categories', 'instance_categories',
                            rows[-1]['uuid'] if rows else None, more)


def show(req: api_request.Request, category: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        return _one(req, categories.get(conn, category[:255], deleted=req.query.one('deleted', False)))


def create(req: api_request.Request) -> Response:
    row = req.services.api_db.run(log.naming(categories.create, 'uuid'), _values(req))
    return Response(_one(req, row), headers=(('Location', req.url('os-instance-categories', row['uuid'])),))


def update(req: api_request.Request, category: str) -> JsonDocument:
    return _one(req, req.services.api_db.run(categories.update, category[:255], _values(req)))


def delete(req: api_request.Request, category: str) -> None:
    req.services.api_db.run(categories.delete, category[:255])


def purge(req: api_request.Request, category: str) -> None:
    req.services.api_db.run(categories.purge, category[:255])


_PATH = '/os-instance-categories'
_ONE = _PATH + '/{category}'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', query=LIST, errors=(400, 401, 403)),
    Route('POST', _PATH, create, policy=_RULE + 'create', status=201, body=CREATE, errors=(400, 401, 403, 409)),
    Route('GET', _ONE, show, policy=_RULE + 'show', query=SHOW, errors=(400, 401, 403, 404)),
    Route('PUT', _ONE, update, policy=_RULE + 'update', body=UPDATE, errors=(400, 401, 403, 404, 409)),
    Route('DELETE', _ONE, delete, policy=_RULE + 'delete', status=204, errors=(401, 403, 404, 409)),
    Route('POST', _ONE + '/action', purge, action='purge', policy=_RULE + 'purge', status=204, body=PURGE,
          errors=(400, 401, 403, 404, 409)),
)
