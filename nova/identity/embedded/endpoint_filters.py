"""Endpoint filters: limit the catalog of a project to the endpoints that are associated with it.

A project without associated endpoints and endpoint groups gets the whole catalog.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TYPE_CHECKING, TypedDict

from nova import exception
from nova.db import engine
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityEndpointGroupsRow, IdentityEndpointsRow, IdentityProjectsRow
from nova.identity.embedded import catalog as catalogs
from nova.identity.embedded.resources import Resources

if TYPE_CHECKING:
    from nova.identity.embedded.directory import Directory

ENDPOINT, GROUP = 'endpoint', 'endpoint_group'         # kinds of objects that can be associated with a project
FILTERS = ('interface', 'service_id', 'region_id', 'enabled')


class Filtered(TypedDict):
    """The fields of an endpoint that filters may name."""

    interface: str
    service_id: str
    region_id: str | None
    enabled: bool


class EndpointGroups(Resources[IdentityEndpointGroupsRow]):
    """Endpoint groups, which are named filters of endpoints."""

    noun = queries.ENDPOINT_GROUP

    def release(self, conn: engine.Connection, row_id: str) -> None:
        queries.delete_project_endpoints(conn, kind=GROUP, target_id=row_id)


class EndpointFilters:
    """Associations of projects with endpoints and endpoint groups.

    :param directory: has the database and the projects
    :param resources: {noun: Resources} with the endpoints and endpoint groups
    """

    def __init__(self, directory: Directory, resources: Mapping[str, Resources[Any]]) -> None:
        self._directory, self._resources = directory, resources

    def add(self, project_id: str, kind: str, target_id: str) -> None:
        """Associate an endpoint or endpoint group with a project; idempotent.

        :raises IdentityNotFound: one of them does not exist
        """
        self._directory.get(queries.PROJECT, project_id)
        self._resources[kind].get(target_id)
        self._directory.write(queries.add_project_endpoint, project_id, kind, target_id)

    def remove(self, project_id: str, kind: str, target_id: str) -> None:
        self.expect(project_id, kind, target_id)
        self._directory.write(lambda conn: queries.delete_project_endpoints(
            conn, project_id=project_id, kind=kind, target_id=target_id))

    def expect(self, project_id: str, kind: str, target_id: str) -> IdentityEndpointsRow | IdentityEndpointGroupsRow:
        """Return an endpoint or endpoint group that is associated with a project.

        :raises IdentityNotFound: the project does not have it
        """
        if target_id not in self._ids(project_id, kind):
            raise exception.IdentityNotFound(noun=f'{kind.replace("_", " ")} in project {project_id}', id=target_id)
        return self._resources[kind].get(target_id)

    def groups(self, project_id: str) -> list[IdentityEndpointGroupsRow]:
        self._directory.get(queries.PROJECT, project_id)
        found = self._ids(project_id, GROUP)
        return [row for row in self._resources[GROUP].list() if row['id'] in found]

    def endpoints(self, project_id: str) -> list[IdentityEndpointsRow]:
        """Return the endpoints that are associated with a project, directly or through endpoint groups."""
        filters, ids = [row['filters'] for row in self.groups(project_id)], self._ids(project_id, ENDPOINT)
        return [row for row in self._resources[ENDPOINT].list()
                if row['id'] in ids or any(matches(row, each) for each in filters)]

    def endpoints_of_group(self, group_id: str) -> list[IdentityEndpointsRow]:
        filters = self._resources[GROUP].get(group_id)['filters']
        return [row for row in self._resources[ENDPOINT].list() if matches(row, filters)]

    def projects(self, kind: str, target_id: str) -> list[IdentityProjectsRow]:
        """Return the projects that are associated with an endpoint or endpoint group."""
        self._resources[kind].get(target_id)
        with self._directory.db.reader() as conn:
            found = queries.project_endpoints(conn, kind=kind, target_id=target_id)
            return queries.rows(conn, queries.PROJECT, [row['project_id'] for row in found])

    def _ids(self, project_id: str, kind: str) -> set[str]:
        with self._directory.db.reader() as conn:
            return {row['target_id'] for row in queries.project_endpoints(conn, project_id=project_id, kind=kind)}


def matches(endpoint: Filtered, filters: Mapping[str, str | bool]) -> bool:
    return all(endpoint.get(name) == value for name, value in filters.items())


def filtered(conn: engine.Connection, catalog: catalogs.Catalog, project_id: str) -> catalogs.Catalog:
    """Return the endpoints of a catalog that are associated with a project; without associations, all endpoints."""
    held = queries.project_endpoints(conn, project_id=project_id)
    if not held:
        return catalog
    ids = {row['target_id'] for row in held if row['kind'] == ENDPOINT}
    filters = [row['filters'] for row in queries.rows(
        conn, queries.ENDPOINT_GROUP, [row['target_id'] for row in held if row['kind'] == GROUP])]
    found: catalogs.Catalog = [{**service, 'endpoints': [*_kept(service, ids, filters)]} for service in catalog]
    return [service for service in found if service['endpoints']]


def _kept(service: catalogs.CatalogService, ids: set[str],
          filters: Sequence[Mapping[str, str | bool]]) -> Iterable[catalogs.Endpoint]:
    for endpoint in service['endpoints']:
        row: Filtered = {'interface': endpoint['interface'], 'region_id': endpoint['region_id'],
                         'service_id': service['id'], 'enabled': True}
        if endpoint['id'] in ids or any(matches(row, each) for each in filters):
            yield endpoint
