"""Storage pools, capabilities of the backend, filters of lists, and user messages: routes and handlers."""
from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from nova import exception
from nova.volume.rest import listing
from nova.volume.rest import resources
from nova.volume.rest import schemas
from nova.volume.rest.schemas import flag
from nova.volume.rest.schemas import route
from nova.volume.store import services
from nova.volume.store import types
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

# capabilities that pools show
_SHOWN = ('volume_backend_name', 'pool_name', 'storage_protocol', 'thin_provisioning_support', 'multiattach',
          'QoS_support')
GIB = 1024 ** 3
HOST, POOL = services.BACKEND_HOST, types.BACKEND['pool_name']    # parts of the field os-vol-host-attr:host
SINCE_MESSAGES, SINCE_FILTERS = 3, 33
LISTED = {'volume': resources.VOLUME, 'snapshot': resources.SNAPSHOT, 'backup': resources.BACKUP}


def pools(request: VolumeRequest) -> JsonObject:
    """List the pool of this service: the file system of its volumes."""
    pool: JsonObject = {'name': f'{HOST}#{POOL}'}
    if flag('detail', request.query.get('detail')):
        directory = request.store.files.directory            # missing before the first volume
        space = shutil.disk_usage(directory if os.path.isdir(directory) else os.path.dirname(directory))
        pool['capabilities'] = {
            **{name: types.BACKEND[name] for name in _SHOWN},
            'total_capacity_gb': round(space.total / GIB, 2), 'free_capacity_gb': round(space.free / GIB, 2)}
    return {'pools': [pool]}


def capabilities(request: VolumeRequest, host: str) -> JsonObject:
    """Show the capabilities of the backend of this service.

    :raises NotFound: another host
    """
    if host not in (HOST, f'{HOST}#{POOL}'):
        raise exception.NotFound(f'There is no volume backend {host[:255]}: the backend is {HOST}.')
    return {'namespace': f'OS::Storage::Capabilities::{HOST}', 'driver_version': '1',
            **{name: types.BACKEND[name] for name in _SHOWN[:3]}, 'vendor_name': types.BACKEND['vendor_name'],
            'display_name': 'Files',
            'description': 'Volumes as files of the block storage service', 'visibility': 'public',
            'replication_targets': [], 'properties': {}}


def filters(request: VolumeRequest) -> JsonObject:
    wanted = request.query.get('resource')
    return {'resource_filters': [{'resource': name, 'filters': [*sorted(listed.filters)]}
                                 for name, listed in LISTED.items() if wanted in (None, name)]}


def messages(request: VolumeRequest) -> JsonObject:
    """List user messages. The list is empty, because this service reports failures in the response of a request."""
    return {'messages': []}


def message(request: VolumeRequest, ident: str) -> None:
    raise exception.NotFound(f'Message {ident[:255]} could not be found.')


_NUMBER = {'type': 'number'}
_CAPABILITIES = closed(
    volume_backend_name=schemas.TEXT, pool_name=schemas.TEXT, storage_protocol=schemas.TEXT,
    total_capacity_gb=_NUMBER, free_capacity_gb=_NUMBER, thin_provisioning_support={'type': 'boolean'},
    multiattach={'type': 'boolean'}, QoS_support={'type': 'boolean'})
_TEXTS = ('namespace', 'vendor_name', 'volume_backend_name', 'pool_name', 'driver_version', 'storage_protocol',
          'display_name', 'description', 'visibility')

ROUTES = (
    route('GET', '/scheduler-stats/get_pools', pools, 'scheduler_extension:scheduler_stats:get_pools',
          query=listing.Query('detail'), answer=Document({'pools': [closed(
              'name', name=schemas.TEXT, capabilities=_CAPABILITIES)]})),
    route('GET', '/capabilities/{host}', capabilities, 'volume_extension:capabilities', answer=Document({
        **dict.fromkeys(_TEXTS, schemas.TEXT), 'replication_targets': schemas.EMPTY_LIST, 'properties': closed()})),
    route('GET', '/resource_filters', filters, query=listing.Query('resource'), since=SINCE_FILTERS,
          answer=Document({'resource_filters': [
              shape(resource=schemas.TEXT, filters={'type': 'array', 'items': schemas.TEXT})]})),
    route('GET', '/messages', messages, 'message:get_all', query=listing.Query(*listing.PAGED, *listing.SORTED),
          since=SINCE_MESSAGES, answer=Document({'messages': schemas.EMPTY_LIST})),
    route('GET', '/messages/{ident}', message, 'message:get', since=SINCE_MESSAGES,
          answer=Document({'message': closed()})),
    route('DELETE', '/messages/{ident}', message, 'message:delete', since=SINCE_MESSAGES, status=204,
          name='delete_message'),
)
