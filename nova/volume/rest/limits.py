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
from nova.volume.rest import views
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.volume.rest.request import VolumeRequest

ZONE: JsonObject = {'zoneState': {'available': True}}
OF_PROJECT = ('project_id', 'tenant_id')         # query parameters for the project of limits
_NO_QUOTA = {'groups': 0}                # not supported
_QUOTAS = {'type': 'object', 'minProperties': 1, 'additionalProperties': False, 'properties': {
    **dict.fromkeys(storage_quotas.VOLUMES, {'type': ['integer', 'string'], 'pattern': '^(-1|[0-9]{1,9})$',
                                             'minimum': -1, 'maximum': 2147483647}),
    **dict.fromkeys(_NO_QUOTA, {'enum': [0, '0']})}}


def _limits(request: VolumeRequest, project_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return ({resource: limit}, {resource: usage}) of a project."""
    with request.store.db.reader() as conn:
        return request.store.limits.of(conn, project_id), db.used(conn, project_id)


def limits(request: VolumeRequest) -> JsonObject:
    listing.check(request, OF_PROJECT)
    project_id = next((request.query[name] for name in OF_PROJECT if name in request.query), None)
    most, used = _limits(request, _seen(request, project_id or request.context.project_id or ''))
    return {'limits': {'rate': [], 'absolute': {
        'maxTotalVolumes': most['volumes'], 'maxTotalSnapshots': most['snapshots'],
        'maxTotalVolumeGigabytes': most['gigabytes'], 'maxTotalBackups': most['backups'],
        'maxTotalBackupGigabytes': most['backup_gigabytes'],
        'totalVolumesUsed': used['volumes'], 'totalSnapshotsUsed': used['snapshots'],
        'totalGigabytesUsed': used['gigabytes'], 'totalBackupsUsed': used['backups'],
        'totalBackupGigabytesUsed': used['backup_gigabytes']}}}


def _seen(request: VolumeRequest, project_id: str) -> str:
    """Check access to a project's limits; raises NotFound (another project, and the caller is not an administrator)."""
    if project_id != request.context.project_id and not request.context.is_admin:
        raise exception.NotFound()
    return project_id


def quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    most, used = _limits(request, _seen(request, project_id))
    shown: dict[str, Any] = {**most, **_NO_QUOTA}
    if listing.flag('usage', request.query.get('usage')):
        shown = {name: {'limit': limit, 'in_use': used.get(name, 0), 'reserved': 0} for name, limit in shown.items()}
    return {'quota_set': {'id': project_id, **shown}}


def default_quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    with request.store.db.reader() as conn:
        return {'quota_set': {'id': project_id, **request.store.limits.defaults(conn), **_NO_QUOTA}}


def update_quotas(request: VolumeRequest, project_id: str) -> JsonObject:
    _check_project(project_id)
    wanted = {name: int(limit) for name, limit in request.body.items() if name not in _NO_QUOTA}
    most = request.store.limits.set(project_id, wanted, listing.flag(
        'skip_validation', request.query.get('skip_validation'), default=True))
    return {'quota_set': {**most, **_NO_QUOTA}}


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
    names = {'host': 'host', 'binary': 'binary', 'service': 'binary'}
    listing.check(request, names)
    wanted = {names[name]: value for name, value in request.query.items()}.items()
    return {'services': [views.service(row, request) for row in request.store.services.every()
                         if wanted <= {'host': row['host'], 'binary': row['binary']}.items()]}


def empty_list(key: str) -> Callable[[VolumeRequest], dict[str, Any]]:
    """Return a handler for an empty list of an unsupported resource."""
    def empty(request: VolumeRequest) -> JsonObject:
        return {key: []}
    return empty


ROUTES = (
    Route('GET', '/limits', limits),
    Route('GET', '/os-quota-sets/{project_id}', quotas),
    Route('GET', '/os-quota-sets/{project_id}/defaults', default_quotas),
    Route('PUT', '/os-quota-sets/{project_id}', update_quotas, policy=schemas.ADMIN,
          body=schemas.Body('quota_set', _QUOTAS)),
    Route('DELETE', '/os-quota-sets/{project_id}', delete_quotas, schemas.ADMIN),
    Route('GET', '/os-availability-zone', zones),
    *(Route('GET', path, empty_list(key)) for path, key in (
        ('/extensions', 'extensions'), ('/groups/detail', 'groups'), ('/qos-specs', 'qos_specs'))),
    Route('GET', '/os-services', services, schemas.ADMIN),
)
