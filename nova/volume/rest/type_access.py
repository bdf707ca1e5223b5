"""Access to private volume types: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.volume.rest import schemas
from nova.volume.rest import types
from nova.volume.rest.schemas import route
from nova.web.resource import Document
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

_PROJECT = shape(project={'type': 'string', 'minLength': 1, 'maxLength': 255, 'pattern': r'^[0-9A-Za-z_.-]+$'})


def list_projects(request: VolumeRequest, ident: str) -> JsonObject:
    kind = types.find(request, ident)
    return {'volume_type_access': [{'volume_type_id': kind['id'], 'project_id': project_id}
                                   for project_id in request.store.type_access.projects(kind)]}


_RULE = 'volume_extension:volume_type_access'
_ACCESS = shape(volume_type_id=schemas.UUID, project_id=schemas.TEXT)
ROUTES = (
    route('GET', '/types/{ident}/os-volume-type-access', list_projects, f'{_RULE}:get_all_for_type',
          answer=Document({'volume_type_access': [_ACCESS]})),
    schemas.action('types', 'addProjectAccess',
                   lambda req, ident: req.store.type_access.allow(ident, req.body['project']),
                   f'{_RULE}:addProjectAccess', schema=_PROJECT, name='allow_project'),
    schemas.action('types', 'removeProjectAccess',
                   lambda req, ident: req.store.type_access.forbid(ident, req.body['project']),
                   f'{_RULE}:removeProjectAccess', schema=_PROJECT, name='forbid_project'),
)
