"""Access to private volume types: routes and handlers."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nova.volume.rest import schemas
from nova.volume.rest import types
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

_PROJECT = schemas.of('project', project={'type': 'string', 'minLength': 1, 'maxLength': 255,
                                          'pattern': r'^[0-9A-Za-z_.-]+$'})


def list_projects(request: VolumeRequest, ident: str) -> JsonObject:
    kind = types.find(request, ident)
    return {'volume_type_access': [{'volume_type_id': kind['id'], 'project_id': project_id}
                                   for project_id in request.store.type_access.projects(kind)]}


def allow_project(request: VolumeRequest, ident: str) -> None:
    request.store.type_access.allow(ident, request.body['project'])


def forbid_project(request: VolumeRequest, ident: str) -> None:
    request.store.type_access.forbid(ident, request.body['project'])


def _action(name: str, handler: Callable[[VolumeRequest, str], None]) -> Route:
    return Route('POST', '/types/{ident}/action', handler, schemas.ADMIN, status=202, action=name,
                 body=schemas.Body(name, _PROJECT))


ROUTES = (
    Route('GET', '/types/{ident}/os-volume-type-access', list_projects, schemas.ADMIN),
    _action('addProjectAccess', allow_project),
    _action('removeProjectAccess', forbid_project),
)
