"""Endpoint filters (OS-EP-FILTER): routes and handlers."""
from __future__ import annotations

from collections.abc import Callable, Sequence
import functools
from typing import Any

from nova.db.identity.directory import Row
from nova.identity.embedded.endpoint_filters import ENDPOINT
from nova.identity.embedded.endpoint_filters import GROUP
from nova.identity.rest import crud
from nova.identity.rest import resources
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import Stored
from nova.identity.rest.schemas import Page
from nova.web.resource import One
from nova.web.routes import Route

ROOT = '/v3/OS-EP-FILTER'


class EndpointGroups(crud.Crud):
    root = ROOT


def add(req: Request, project_id: str, *, kind: str, **parts: str) -> None:
    req.service.endpoint_filters.add(project_id, kind, parts[f'{kind}_id'])


def remove(req: Request, project_id: str, *, kind: str, **parts: str) -> None:
    req.service.endpoint_filters.remove(project_id, kind, parts[f'{kind}_id'])


def check_endpoint(req: Request, project_id: str, endpoint_id: str) -> None:
    req.service.endpoint_filters.expect(project_id, ENDPOINT, endpoint_id)


def show_endpoint_group(req: Request, project_id: str, endpoint_group_id: str) -> Stored:
    return req.service.endpoint_filters.expect(project_id, GROUP, endpoint_group_id)


def list_projects(req: Request, *, kind: str, **parts: str) -> Sequence[Row]:
    return req.service.endpoint_filters.projects(kind, parts[f'{kind}_id'])


def _of(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(function, kind=kind)


_GROUP = f'{ROOT}/endpoint_groups/{{endpoint_group_id}}'
_OF_PROJECT = f'{ROOT}/projects/{{project_id}}'
_ENDPOINT, _GROUP_IN_PROJECT = f'{_OF_PROJECT}/endpoints/{{endpoint_id}}', f'{_GROUP}/projects/{{project_id}}'
ROUTES = [
    *EndpointGroups(resources.ENDPOINT_GROUP).routes(),
    Route('PUT', _ENDPOINT, _of(ENDPOINT, add), 'identity:add_endpoint_to_project', status=204,
          name='add_endpoint_to_project'),
    Route('GET', _ENDPOINT, check_endpoint, 'identity:check_endpoint_in_project', status=204),
    Route('DELETE', _ENDPOINT, _of(ENDPOINT, remove), 'identity:remove_endpoint_from_project', status=204,
          name='remove_endpoint_from_project'),
    Route('GET', f'{_OF_PROJECT}/endpoints', lambda req, project_id: req.service.endpoint_filters.endpoints(project_id),
          'identity:list_endpoints_for_project', answer=Page(resources.ENDPOINT), name='list_endpoints_of_project'),
    Route('GET', f'{ROOT}/endpoints/{{endpoint_id}}/projects', _of(ENDPOINT, list_projects),
          'identity:list_projects_for_endpoint', name='list_projects_of_endpoint', answer=Page(resources.PROJECT)),
    Route('PUT', _GROUP_IN_PROJECT, _of(GROUP, add), 'identity:add_endpoint_group_to_project', status=204,
          name='add_endpoint_group_to_project'),
    Route('GET', _GROUP_IN_PROJECT, show_endpoint_group, 'identity:get_endpoint_group_in_project',
          answer=One(resources.ENDPOINT_GROUP, 'show')),
    Route('DELETE', _GROUP_IN_PROJECT, _of(GROUP, remove), 'identity:remove_endpoint_group_from_project', status=204,
          name='remove_endpoint_group_from_project'),
    Route('GET', f'{_GROUP}/projects', _of(GROUP, list_projects),
          'identity:list_projects_associated_with_endpoint_group', name='list_projects_of_endpoint_group',
          answer=Page(resources.PROJECT)),
    Route('GET', f'{_GROUP}/endpoints',
          lambda req, endpoint_group_id: req.service.endpoint_filters.endpoints_of_group(endpoint_group_id),
          'identity:list_endpoints_associated_with_endpoint_group', answer=Page(resources.ENDPOINT),
          name='list_endpoints_of_group'),
    Route('GET', f'{_OF_PROJECT}/endpoint_groups',
          lambda req, project_id: req.service.endpoint_filters.groups(project_id),
          'identity:list_endpoint_groups_for_project', answer=Page(resources.ENDPOINT_GROUP),
          name='list_groups_of_project'),
]
