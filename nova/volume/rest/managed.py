"""Operations on files of the volume host that are not volumes: routes and handlers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.volume.rest import items
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import VOLUME
from nova.volume.rest.schemas import route
from nova.volume.store import managed
from nova.volume.store import rows as rows_of
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import Schema
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

SINCE = 8                # first microversion with the path manageable_volumes
_NAME = 'source-name'    # key of the file name in a reference


def list_unmanaged(request: VolumeRequest) -> JsonObject:
    _check_host(request.query.get('host', managed.HOST))
    return {'manageable-volumes': [{'reference': {_NAME: file.name}, 'size': file.size, 'safe_to_manage': True}
                                   for file in request.store.managed.unmanaged()]}


def list_unmanaged_in_detail(request: VolumeRequest) -> JsonObject:
    listed: Any = list_unmanaged(request)['manageable-volumes']
    return {'manageable-volumes': [{**each, 'reason_not_safe': None, 'cinder_id': None, 'extra_info': None}
                                   for each in listed]}


def manage_volume(request: VolumeRequest) -> rows_of.Volume:
    given = request.body
    _check_host(given.get('host') or '')
    row = request.store.managed.manage(
        request.context, given['ref'].get(_NAME, ''),
        given.get('availability_zone') or request.store.conf.default_availability_zone,
        {'name': given.get('name') or '', 'description': given.get('description'),
         'bootable': bool(given.get('bootable')), 'metadata': {**items.replaced(given.get('metadata'))}},
        given.get('volume_type'))
    return request.store.get(request.context, row['id'])


def _check_host(host: str) -> None:
    if host != managed.HOST:
        raise exception.InvalidInput(reason=f'The host must be {managed.HOST}, not {host[:255]!r}.')


_LIST, _MANAGE = 'volume_extension:list_manageable', 'volume_extension:volume_manage'
_LISTED: dict[str, Schema] = {'reference': closed(_NAME, **{_NAME: schemas.TEXT}), 'size': schemas.INTEGER,
           'safe_to_manage': {'const': True}}
_DETAILS = dict.fromkeys(('reason_not_safe', 'cinder_id', 'extra_info'), schemas.NULL)
_HOST = listing.Query('host')
# (path, first microversion, noun in the names of the GET operations, name of the POST operation)
_PATHS = (('/manageable_volumes', SINCE, 'manageable_volumes', 'manage_volume'),
          ('/os-volume-manage', 0, 'unmanaged_volumes', 'manage_existing_volume'))
_TEXT: Schema = {'type': 'string', 'maxLength': 255}
_BODY = Body('volume', closed(
    'host', 'ref', host=_TEXT, ref=closed(_NAME, **{_NAME: _TEXT}), name=schemas.NAME, description=schemas.NAME,
    volume_type=schemas.NAME, availability_zone=schemas.NAME, bootable=schemas.FLAG_OR_NULL, metadata=schemas.METADATA))


def _listed(**more: Schema) -> Document:
    return Document({'manageable-volumes': [shape(**_LISTED, **more)]})


ROUTES = (
    *(route('GET', path, list_unmanaged, _LIST, since=since, query=_HOST, name=f'list_{noun}', answer=_listed())
      for path, since, noun, _name in _PATHS),
    *(route('GET', f'{path}/detail', list_unmanaged_in_detail, _LIST, since=since, query=_HOST,
            name=f'list_{noun}_in_detail', answer=_listed(**_DETAILS)) for path, since, noun, _name in _PATHS),
    *(route('POST', path, manage_volume, _MANAGE, since=since, status=202, body=_BODY, name=name,
            answer=One(VOLUME, 'create')) for path, since, _noun, name in _PATHS),
    schemas.action('volumes', 'os-unmanage', schemas.forward(lambda store: store.managed.unmanage),
                   'volume_extension:volume_unmanage', schema=closed(), name='unmanage_volume'),
)
