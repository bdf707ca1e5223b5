"""Volumes and snapshots (until 2.35): a proxy for the block storage service."""
import datetime
from collections.abc import Callable

from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.json_types import JsonDocument
from nova.web import params
from nova.web import sizes
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.fields import Shape
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route

LAST = 35
_RULE = 'os_compute_api:os-volumes:'
_STATUSES = ('creating,available,deleting,error,error_deleting,attaching,in-use,detaching,maintenance,restoring-backup,'
             'error_restoring,reserved,awaiting-transfer,backing-up,error_backing-up,error_extending,downloading,'
             'uploading,retyping,extending')
_SNAPSHOT_STATUSES = 'error,available,creating,deleting,deleted,error_deleting,unmanaging,backing-up,restoring'


def _time(row: api_request.Row, req: api_request.Request) -> str | None:
    """Return the creation time; the block storage service returns a datetime or a string."""
    moment = row.get('created_at') or datetime.datetime.min
    if isinstance(moment, str):
        moment = datetime.datetime.fromisoformat(moment).replace(tzinfo=None)
    return utils.exact_time(moment)


def _attachments(volume: api_request.Document, req: api_request.Request) -> list[api_request.Document]:
    return [{'id': volume['id'], 'volumeId': volume['id'], 'serverId': each['instance_uuid'],
             **({'device': each['device']} if each.get('device') else {})} for each in volume['attachments']]


_COMMON = Fields(
    Field('id', 'id', type='string format=uuid required'),
    Field('status', 'status', type=f'string one of {_STATUSES} required'),
    Field('size', 'size', type='integer required'),
    Field('createdAt', _time, type='string format=date-time required'),
    Field('displayName', 'name', type='string|null required'),
    Field('displayDescription', lambda row, req: row.get('description'), type='string|null required'),
)
VOLUME = _COMMON + Fields(
    Field('availabilityZone', lambda row, req: row.get('availability_zone'), type='string|null required'),
    Field('volumeType', lambda row, req: row.get('volume_type'), type='string|null required'),
    Field('snapshotId', lambda row, req: row.get('snapshot_id'), type='oneOf(string format=uuid / null) required'),
    Field('metadata', lambda row, req: row.get('metadata') or {}, type=Shape(
        ('', 'object required'), ('.<^[a-zA-Z0-9-_:. ]{1,255}$>', 'string|null maxLength=255'))),
    Field('attachments', _attachments, type=Shape(
        ('', ' required'), ('[]', 'object'), ('[].id', 'string format=uuid required'), ('[].device', 'string'),
        ('[].serverId', 'string format=uuid required'), ('[].volumeId', 'string format=uuid required'))),
)
SNAPSHOT = Fields(*(row for row in _COMMON.rows if row.name != 'status'),
                  Field('status', 'status', type=f'string one of {_SNAPSHOT_STATUSES} required'),
                  Field('volumeId', 'volume_id', type='string format=uuid required'))

LIST = params.Query(params.Param('limit', params.LIMIT), params.Param('offset', params.LIMIT))
_TEXTS = tuple(params.Param(name, params.string()) for name in ('display_name', 'display_description'))
CREATE_VOLUME = params.document(
    'volume', params.Param('volume_type', params.string()), params.Param('metadata', params.Type({'type': 'object'})),
    params.Param('snapshot_id', params.string()), params.Param('size', params.integer(1), required=True),
    params.Param('availability_zone', params.string()), *_TEXTS)
CREATE_SNAPSHOT = params.document('snapshot', params.Param('volume_id', params.string(), required=True),
                                  params.Param('force', params.BOOLEAN), *_TEXTS)


def _page(req: api_request.Request, read: Callable[..., list[api_request.Row]]) -> list[api_request.Row]:
    most = req.services.conf.api.max_limit
    limit = min(req.query.one('limit', most), most)
    offset = min(req.query.one('offset', 0), params.MAX_INT)           # databases refuse numbers above 64 bits
    return read(req.context, limit=limit, offset=offset) if limit else []


def list_volumes(req: api_request.Request) -> JsonDocument:
    build = VOLUME.builder(req)
    return {'volumes': [build(row) for row in server_category.visible_volumes(
        req, _page(req, req.services.volumes.list))]}


def show_volume(req: api_request.Request, id: str) -> JsonDocument:
    return {'volume': VOLUME.builder(req)(server_category.find_volume(req, id))}


def create_volume(req: api_request.Request) -> JsonDocument:
    given = req.body['volume']
    for name in ('display_name', 'display_description'):
        _check_text(given, name)
    metadata = given.get('metadata') or {}
    if len(metadata) > 128 or not all(isinstance(value, str) and len(value) <= 255 and 0 < len(key) <= 255
                                      for key, value in metadata.items()):
        raise exception.BadRequest('Metadata must have at most 128 items; keys and values have at most 255 characters.')
    sizes.check(metadata, sizes.METADATA, 'metadata')
    if given.get('snapshot_id'):
        server_category.find_snapshot(req, given['snapshot_id'])
    made = req.services.volumes.create(
        req.context, given['size'], name=given.get('display_name') or '',
        description=given.get('display_description'), snapshot_id=given.get('snapshot_id') or None,
        volume_type=given.get('volume_type'), availability_zone=given.get('availability_zone'), metadata=metadata)
    return {'volume': VOLUME.builder(req)(made)}


def _check_text(given: api_request.Document, name: str) -> None:
    if len(given.get(name) or '') > 255:
        raise exception.BadRequest(f'{name} must have at most 255 characters.')


def delete_volume(req: api_request.Request, id: str) -> None:
    server_category.find_volume(req, id)
    req.services.volumes.delete(req.context, id)


# ---- snapshots -----------------------------------------------------------------

def list_snapshots(req: api_request.Request) -> JsonDocument:
    build = SNAPSHOT.builder(req)
    return {'snapshots': [build(row) for row in server_category.visible_snapshots(
        req, _page(req, req.services.volumes.list_snapshots))]}


def show_snapshot(req: api_request.Request, id: str) -> JsonDocument:
    return {'snapshot': SNAPSHOT.builder(req)(server_category.find_snapshot(req, id))}


def create_snapshot(req: api_request.Request) -> JsonDocument:
    given = req.body['snapshot']
    for name in ('display_name', 'display_description'):
        _check_text(given, name)
    with exception.AsBadRequest(exception.NotFound):
        volume = server_category.find_volume(req, given['volume_id'])
    if volume['status'] != 'available' and not given.get('force', False):
        raise exception.InvalidVolume(reason=f'its status must be available, but is {volume["status"]}.')
    made = req.services.volumes.create_snapshot(req.context, volume['id'], given.get('display_name') or '',
                                                given.get('display_description'))
    return {'snapshot': SNAPSHOT.builder(req)(made)}


def delete_snapshot(req: api_request.Request, id: str) -> None:
    server_category.find_snapshot(req, id)
    req.services.volumes.delete_snapshot(req.context, id)


# ---- routes --------------------------------------------------------------------

def _route(method: str, path: str, handler: Callable[..., Response | Content], rule: str,
           body: params.Object | None = None, query: params.Query | None = None, status: int = 200,
           errors: tuple[int, ...] = ()) -> Route:
    return Route(method, path, handler, _RULE + rule, until=LAST, status=status, errors=errors, body=body, query=query)


_READ = (401, 403)
ROUTES = (
    _route('GET', '/os-volumes', list_volumes, 'list', query=LIST, errors=_READ),
    _route('POST', '/os-volumes', create_volume, 'create', body=CREATE_VOLUME, errors=(400, *_READ, 404)),
    _route('GET', '/os-volumes/detail', list_volumes, 'detail', query=LIST, errors=_READ),
    _route('GET', '/os-volumes/{id}', show_volume, 'show', errors=(*_READ, 404)),
    _route('DELETE', '/os-volumes/{id}', delete_volume, 'delete', status=202, errors=(400, *_READ, 404)),
    _route('GET', '/os-snapshots', list_snapshots, 'snapshots:list', query=LIST, errors=_READ),
    _route('POST', '/os-snapshots', create_snapshot, 'snapshots:create', body=CREATE_SNAPSHOT, errors=(400, *_READ)),
    _route('GET', '/os-snapshots/detail', list_snapshots, 'snapshots:detail', query=LIST, errors=_READ),
    _route('GET', '/os-snapshots/{id}', show_snapshot, 'snapshots:show', errors=(*_READ, 404)),
    _route('DELETE', '/os-snapshots/{id}', delete_snapshot, 'snapshots:delete', status=202, errors=(*_READ, 404)),
)
