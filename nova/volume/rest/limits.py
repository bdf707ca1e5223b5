"""Limits and quotas of projects, availability zones, services: routes and handlers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.projects import storage_quotas
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import SERVICE
from nova.volume.rest.schemas import flag
from nova.volume.rest.schemas import route
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Page
from nova.web.resource import Schema
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.volume.rest.request import VolumeRequest

# {key of the response: (whether the value is the limit and not the usage, name of the resource)}
ABSOLUTE = {
    'maxTotalVolumes': (True, 'volumes'), 'maxTotalSnapshots': (True, 'snapshots'),
    'maxTotalVolumeGigabytes': (True, 'gigabytes'), 'maxTotalBackups': (True, 'backups'),
    'maxTotalBackupGigabytes': (True, 'backup_gigabytes'), 'totalVolumesUsed': (False, 'volumes'),
    'totalSnapshotsUsed': (False, 'snapshots'), 'totalGigabytesUsed': (False, 'gigabytes'),
    'totalBackupsUsed': (False, 'backups'), 'totalBackupGigabytesUsed': (False, 'backup_gigabytes')}
ZONE: JsonObject = {'zoneState': {'available': True}}
OF_PROJECT = ('project_id', 'tenant_id')         # query parameters that select the project
USED_LIMITS, SHOW_QUOTAS = 'limits_extension:used_limits', 'volume_extension:quotas:show'
_LIMIT: Schema = {'type': ['integer', 'string'], 'pattern': '^(-1|[0-9]{1,9})$', 'minimum': -1, 'maximum': 2147483647}
OF_TYPE = f'^({"|".join(storage_quotas.PER_TYPE)})_.'         # pattern of the names of limits for single volume types
_QUOTAS: Schema = {'type': 'object', 'minProperties': 1, 'additionalProperties': False,
                   'properties': dict.fromkeys(storage_quotas.VOLUMES, _LIMIT), 'patternProperties': {OF_TYPE: _LIMIT}}


def _limits(request: VolumeRequest, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return ({resource: limit}, {resource: usage}) of a project."""
    with request.store.db.reader() as conn:
        return request.store.limits.of(conn, project_id), db.used(conn, project_id)


def limits(request: VolumeRequest) -> JsonObject:
    project_id = next((request.query[name] for name in OF_PROJECT if name in request.query), None)
    project_id = _seen(request, project_id or request.context.project_id or '')
    most, used = _limits(request, project_id)
    shows_usage = request.allows(USED_LIMITS, {'project_id': project_id})
    return {'limits': {'rate': [], 'absolute': {name: (most if is_limit else used)[noun] for name, (is_limit, noun)
                                                in ABSOLUTE.items() if is_limit or shows_usage}}}


def _seen(request: VolumeRequest, project_id: str) -> str:
    """Check access to a project's limits; raises NotFound if the caller may not read limits of another project."""
    if project_id != request.context.project_id and not request.allows(SHOW_QUOTAS, {'project_id': project_id}):
        raise exception.NotFound()
    return project_id


def quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    most, used = _limits(request, _seen(request, project_id))
    with request.store.db.reader() as conn:
        shown: dict[str, Any] = {**most, **request.store.limits.of_types(conn, project_id)}
        if flag('usage', request.query.get('usage')):
            used |= db.used_of_types(conn, project_id)
            shown = {name: {'limit': limit, 'in_use': used.get(name, 0), 'reserved': 0}
                     for name, limit in shown.items()}
    return {'quota_set': {'id': project_id, **shown}}


def default_quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    _seen(request, project_id)
    with request.store.db.reader() as conn:
        shown: JsonObject = {'id': project_id, **request.store.limits.defaults(conn)}
        return {'quota_set': shown}


def update_quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    _check_project(project_id)
    wanted = {name: int(limit) for name, limit in request.body.items()}
    limits = request.store.limits.set(project_id, wanted, flag(
        'skip_validation', request.query.get('skip_validation'), default=True))
    return {'quota_set': {**limits}}


def delete_quotas(request: VolumeRequest, project_id: str) -> None:
    _check_project(project_id)
    request.store.limits.delete(project_id)


def _check_project(project_id: str) -> None:
    if len(project_id) > 255:
        raise exception.BadRequest('A project id has at most 255 characters.')


def zones(request: VolumeRequest) -> JsonObject:
    with request.store.db.reader() as conn:
        return {'availabilityZoneInfo': [{'zoneName': name, **ZONE} for name in request.store.zones(conn)]}


def services(request: VolumeRequest) -> JsonObject:
    """List services. The filter ``host`` accepts the host with or without the name of the backend (host@backend)."""
    wanted = {SERVICE.filters[name]: value for name, value in request.query.items()}
    build = SERVICE.view('show').documents(request)
    return {'services': [build(row) for row in request.store.services.every()
                         if wanted.get('binary') in (None, row['binary'])
                         and wanted.get('host') in (None, row['host'], row['host'].partition('@')[0])]}


def empty_list(key: str) -> Callable[[VolumeRequest], JsonObject]:
    """Return a handler that returns an empty list, for resources that this service does not support."""
    def empty(request: VolumeRequest) -> JsonObject:
        return {key: []}
    return empty


_SET = '/os-quota-sets/{project_id}'
_QUOTA = dict.fromkeys(storage_quotas.VOLUMES, schemas.INTEGER)
_USAGE = shape(limit=schemas.INTEGER, in_use=schemas.INTEGER, reserved=schemas.INTEGER)
_ANY: Schema = {'anyOf': [schemas.INTEGER, _USAGE]}


def _quota_set(**more: Schema) -> Document:
    return Document({'quota_set': {**shape(**_QUOTA, **more),
                                   'patternProperties': {OF_TYPE: schemas.INTEGER}}})


ROUTES = (
    route('GET', '/limits', limits, None, (USED_LIMITS, SHOW_QUOTAS), query=listing.Query(*OF_PROJECT),
          answer=Document({'limits': shape(rate=schemas.EMPTY_LIST, absolute=closed(
              *(name for name, (is_limit, _noun) in ABSOLUTE.items() if is_limit),
              **dict.fromkeys(ABSOLUTE, schemas.INTEGER)))})),
    route('GET', _SET, quotas, SHOW_QUOTAS, query=listing.Query('usage', refuses=False),
          answer=Document({'quota_set': {**shape(id=schemas.TEXT, **dict.fromkeys(_QUOTA, _ANY)),
                                         'patternProperties': {OF_TYPE: _ANY}}})),
    route('GET', f'{_SET}/defaults', default_quotas, SHOW_QUOTAS, answer=_quota_set(id=schemas.TEXT)),
    route('PUT', _SET, update_quotas, 'volume_extension:quotas:update',
          body=Body('quota_set', _QUOTAS), query=listing.Query('skip_validation', refuses=False), answer=_quota_set()),
    route('DELETE', _SET, delete_quotas, 'volume_extension:quotas:delete'),
    route('GET', '/os-availability-zone', zones, answer=Document({
        'availabilityZoneInfo': [shape(zoneName=schemas.TEXT, zoneState={'const': ZONE['zoneState']})]})),
    *(route('GET', path, empty_list(key), rule, name=f'list_{key}', answer=Document({key: schemas.EMPTY_LIST}))
      for path, key, rule in (
          ('/extensions', 'extensions', None), ('/groups/detail', 'groups', 'group:get_all'))),
    route('GET', '/os-services', services, 'volume_extension:services:index', query=listing.Query(*SERVICE.filters),
          answer=Page(SERVICE, 'show')),
)
