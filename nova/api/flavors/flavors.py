"""Flavors: list, show, create, change the description, delete."""
import uuid

from oslo_utils import strutils

from nova import context as nova_context
from nova import exception
from nova.api import notifications
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.db import engine
from nova.db.audit import log
from nova.db.projects import flavors
from nova.db.tables.rows import FlavorsRow
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

_MANAGE = 'os_compute_api:os-flavor-manage:'
EXTRA_SPECS = 'os_compute_api:os-flavor-extra-specs:index'


SUMMARY = Fields(
    Field('id', 'flavor_id', type='string required'),
    Field('name', 'name', type='string required'),
    Field('links', lambda row, req: req.links('flavors', row['flavor_id']), type=shapes.LINKS),
    Field('description', 'description', since=55, type='string|null required'),
)
VIEW = SUMMARY + Fields(
    Field('ram', 'memory_mb', type='integer required'),
    Field('disk', 'root_gb', type='integer required'),
    Field('vcpus', 'vcpus', type='integer required'),
    Field('swap', lambda row, req: row['swap'] or '', until=74, type='anyOf(integer / const=) required'),
    Field('swap', 'swap', since=75, type='integer required'),
    Field('OS-FLV-EXT-DATA:ephemeral', 'ephemeral_gb', type='integer required'),
    Field('OS-FLV-DISABLED:disabled', 'disabled', until=101, type='boolean required'),
    Field('rxtx_factor', 'rxtx_factor', until=101, type=' required'),
    Field('os-flavor-access:is_public', 'is_public', type=' required'),
    Field('extra_specs', 'extra_specs', since=61, rule=EXTRA_SPECS, type=shapes.EXTRA_SPECS),
)

# ---- parameters --------------------------------------------------------------

_ID = params.Type({'type': ['string', 'number', 'null'], 'minLength': 1, 'maxLength': 255,
                   'pattern': r'^(?! )[a-zA-Z0-9. _-]+(?<! )$'},
                  convert=lambda value: None if value is None else str(value))
_FACTOR = params.Type({'type': ['number', 'string'], 'pattern': r'^[0-9]+(\.[0-9]+)?$', 'format': 'factor',
                       'minimum': 0, 'exclusiveMinimum': 0, 'maximum': formats.MAX_FLOAT}, convert=float)

CREATE = params.document(
    'flavor', params.Param('name', params.NAME, required=True),
    params.Param('id', _ID),
    params.Param('ram', params.POSITIVE, required=True),
    params.Param('vcpus', params.POSITIVE, required=True),
    params.Param('disk', params.NON_NEGATIVE, required=True),
    params.Param('OS-FLV-EXT-DATA:ephemeral', params.NON_NEGATIVE),
    params.Param('swap', params.NON_NEGATIVE),
    params.Param('rxtx_factor', _FACTOR, until=101),
    params.Param('os-flavor-access:is_public', params.BOOLEAN),
    params.Param('description', params.DESCRIPTION, since=55))
UPDATE = params.document('flavor', params.Param('description', params.DESCRIPTION, required=True))

_BEFORE_102 = {'type': 'string', 'enum': sorted(flavors.SORT_KEYS)}
_FROM_102 = {'type': 'string', 'enum': sorted(flavors.SORT_KEYS.keys() - {'rxtx_factor'})}
LIST = params.Query(
    params.Param('limit', params.LIMIT),
    params.Param('marker', params.STRING),
    params.Param('is_public', params.STRING),
    params.Param('minRam', params.STRING),
    params.Param('minDisk', params.STRING),
    params.Param('sort_key', _BEFORE_102, until=101),
    params.Param('sort_key', _FROM_102, since=102),
    params.Param('sort_dir', {'type': 'string', 'enum': ['asc', 'desc']}),
    params.Param('name', params.STRING, since=102),
    closed=75)

# parameter of a create request -> column
_COLUMNS = {'name': 'name', 'ram': 'memory_mb', 'vcpus': 'vcpus', 'disk': 'root_gb', 'swap': 'swap',
            'OS-FLV-EXT-DATA:ephemeral': 'ephemeral_gb', 'rxtx_factor': 'rxtx_factor',
            'os-flavor-access:is_public': 'is_public', 'description': 'description'}


# ---- handlers ----------------------------------------------------------------

def find(req: api_request.Request, conn: engine.Connection, flavor_id: str) -> FlavorsRow:
    """Return a flavor that is visible to the caller.

    :raises FlavorNotFound: the flavor does not exist or is not visible
    """
    return flavors.get(conn, flavor_id, nova_context.ALL_PROJECTS if req.context.is_admin else _own(req))


def _own(req: api_request.Request) -> str | nova_context.Projects:
    """Return the caller's project. A token without a project gets NO_PROJECT and sees only public flavors."""
    return req.project_id or nova_context.NO_PROJECT


def index(req: api_request.Request) -> JsonDocument:
    return _list(req, SUMMARY, 'flavors')


def detail(req: api_request.Request) -> JsonDocument:
    return _list(req, VIEW, 'flavors/detail')


def _list(req: api_request.Request, view: Fields, path: str) -> JsonDocument:
    query, limit = req.query, paging.limit(req)
    with req.services.api_db.reader() as conn:
        rows = flavors.page(
            conn, **_visibility(req), min_memory_mb=_whole(query, 'minRam'), min_root_gb=_whole(query, 'minDisk'),
            name=query.one('name'), sort_key=query.one('sort_key', 'flavorid'),
            descending=query.one('sort_dir') == 'desc', marker=paging.marker(req), limit=limit + 1)
    build = view.builder(req)
    body = {'flavors': [build(row) for row in rows[:limit]]}
    more = len(rows) > limit
    return paging.add_links(body, req, path, 'flavors', rows[limit - 1]['flavor_id'] if more and limit else None, more,
                            paging.BY_ID)


def _visibility(req: api_request.Request) -> api_request.Document:
    """Return the filter for visible flavors. Administrators may list private or all flavors."""
    wanted = req.query.one('is_public')
    if not req.context.is_admin or wanted is None:
        return {'project_id': _own(req)}
    if wanted.lower() == 'none':
        return {'project_id': nova_context.ALL_PROJECTS}
    try:
        public = strutils.bool_from_string(wanted, strict=True)
    except ValueError:
        raise exception.BadRequest(f'Invalid is_public filter [{wanted[:40]}]') from None
    return {'project_id': _own(req)} if public else {'project_id': nova_context.ALL_PROJECTS, 'is_public': False}


def _whole(query: params.QueryValues, name: str) -> int | None:
    text = query.one(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > params.MAX_INT:
        raise exception.BadRequest(f'Invalid {name} filter [{text[:40]}]')
    return int(text)


def show(req: api_request.Request, id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        return _one(req, find(req, conn, id))


def _one(req: api_request.Request, row: api_request.Row) -> api_request.Document:
    return {'flavor': VIEW.builder(req)(row)}


def create(req: api_request.Request) -> JsonDocument:
    given = req.body['flavor']
    values = {column: given[name] for name, column in _COLUMNS.items() if name in given}
    flavor_id = given.get('id')
    values['flavor_id'] = str(uuid.uuid4()) if flavor_id in (None, 'auto') else flavor_id
    row = req.services.api_db.run(log.naming(flavors.create, 'flavor_id'), values)
    notifications.send(req, 'flavor.create', row)
    return _one(req, row)


def update(req: api_request.Request, id: str) -> JsonDocument:
    values = {'description': req.body['flavor']['description']}
    row = req.services.api_db.run(flavors.update, id, values)
    notifications.send(req, 'flavor.update', row)
    return _one(req, row)


def delete(req: api_request.Request, id: str) -> None:
    row = notifications.read(req, req.services.api_db, flavors.get, id, nova_context.ALL_PROJECTS)
    req.services.api_db.run(flavors.delete, id)
    notifications.send(req, 'flavor.delete', row)


ROUTES = (
    Route('GET', '/flavors', index, query=LIST, errors=(400,), any_scope=True),
    Route('POST', '/flavors', create, policy=_MANAGE + 'create', checks=(EXTRA_SPECS,), body=CREATE,
          errors=(400, 409)),
    Route('GET', '/flavors/detail', detail, checks=(EXTRA_SPECS,), query=LIST, errors=(400,), any_scope=True),
    Route('GET', '/flavors/{id}', show, checks=(EXTRA_SPECS,), query=params.Query(closed=102), errors=(404,),
          any_scope=True),
    Route('PUT', '/flavors/{id}', update, policy=_MANAGE + 'update', checks=(EXTRA_SPECS,), since=55,
          body=UPDATE, errors=(400, 404)),
    Route('DELETE', '/flavors/{id}', delete, policy=_MANAGE + 'delete', status=202, errors=(404,)),
)
