"""Create, read, update and delete domains, projects, users, roles, groups, limits and the resources of the catalog.

The services, endpoints and regions of this deployment come from its configuration and cannot be changed. Clients can
add services, endpoints and regions. The catalog of a token contains both kinds.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import re
from typing import Any, cast, Generic, Literal, TYPE_CHECKING
import uuid

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.db.identity.directory import Noun, RowT
from nova.db.projects import storage_quotas
from nova.db.tables.rows import (
    IdentityDomainsRow, IdentityEndpointsRow, IdentityGroupsRow, IdentityLimitsRow, IdentityPoliciesRow,
    IdentityRegionsRow, IdentityRegisteredLimitsRow, IdentityServicesRow)
from nova.identity.embedded import catalog as catalogs
from nova.identity.embedded import domains
from nova.identity.embedded import effective_roles

if TYPE_CHECKING:
    from nova.db.types import ColumnValues
    from nova.identity.embedded.directory import Directory

BuiltIn = Callable[[], catalogs.Catalog]
ImageLimits = Callable[[], Mapping[str, int]]

_PLACEHOLDER = re.compile(r'[$%]\(([^)]*)\)s')
PLACEHOLDERS = frozenset(('project_id', 'tenant_id', 'user_id'))
LimitKey = Literal['service_id', 'region_id', 'resource_name']
LIMIT_KEY: tuple[LimitKey, ...] = ('service_id', 'region_id', 'resource_name')  # unique key of registered limits
NEVER = effective_roles.DOMAIN['created_at']                     # creation time of rows that the configuration defines


class Resources(Generic[RowT]):
    """The resources of one kind (noun), such as all regions.

    :param directory: has the database
    :param built_in: callable() -> catalog of this deployment
    :cvar most: maximum number of stored rows
    """

    noun: Noun[RowT]
    most = 1000

    def __init__(self, directory: Directory, built_in: BuiltIn) -> None:
        self.directory, self.catalog = directory, built_in

    def built_in(self) -> Sequence[RowT]:
        """Return the rows that the configuration defines."""
        return []

    def list(self, **match: str | bool | None) -> Sequence[RowT]:
        own = [row for row in self.built_in() if all(row.get(name) == value for name, value in match.items())]
        return own + self.directory.list(self.noun, **match)

    def get(self, row_id: str) -> RowT:
        return next((row for row in self.built_in() if row['id'] == row_id), None) or self.directory.get(
            self.noun, row_id)

    def create(self, given: Sequence[ColumnValues]) -> Sequence[RowT]:
        """Create rows in one transaction.

        :raises Forbidden: the new rows would exceed ``most``
        """
        found: Any = [{'id': uuid.uuid4().hex, **values, 'created_at': utils.utcnow()} for values in given]
        known = {row['id'] for row in self.built_in()}

        def insert(conn: engine.Connection) -> None:
            if queries.count(conn, self.noun) + len(found) > self.most:
                raise exception.Forbidden(f'There can be at most {self.most} resources of the kind {self.noun}.')
            for row in found:
                if row['id'] in known or queries.get(conn, self.noun, id=row['id']):
                    raise exception.IdentityExists(noun=self.noun, name=row['id'])
                self.check(conn, row, None)
                queries.create(conn, self.noun, row)
        log.about(found[0]['id'])
        self.directory.write(insert, noun=self.noun, name=str(found[0].get('name') or found[0]['id']))
        return found

    def update(self, row_id: str, values: ColumnValues) -> RowT:
        self._refuse_built_in(row_id)
        return self.directory.update_row(self.noun, row_id, values, lambda conn, row: self.check(
            conn, cast('RowT', {**row, **values}), row))

    def delete(self, row_id: str) -> None:
        self._refuse_built_in(row_id)

        def remove(conn: engine.Connection, found: str) -> bool:
            self.release(conn, found)
            return queries.delete(conn, self.noun, found)
        self.directory.delete_with(self.noun, remove, row_id)

    def expect(self, conn: engine.Connection, row_id: str) -> None:
        """Check that a row to which a request refers exists.

        :raises BadRequest: unknown id
        """
        if queries.get(conn, self.noun, id=row_id) is None and not self.is_built_in(row_id):
            raise exception.BadRequest(f'Could not find {self.noun}: {row_id}.')

    def is_built_in(self, row_id: str) -> bool:
        return any(row['id'] == row_id for row in self.built_in())

    def _refuse_built_in(self, row_id: str) -> None:
        if self.is_built_in(row_id):
            raise exception.Forbidden(f'The {self.noun} {row_id} is part of the configuration and cannot be changed.')

    def check(self, conn: engine.Connection, row: RowT, before: RowT | None) -> None:
        """Check a row before it is stored.

        :param row: complete row
        :param before: the row before an update, None for a new one
        """

    def release(self, conn: engine.Connection, row_id: str) -> None:
        """Delete the dependent rows of a row that is being deleted, or refuse the deletion."""

    def refuse_use(self, conn: engine.Connection, noun: str, row_id: str, **match: str) -> None:
        if queries.count(conn, noun, **match):
            raise exception.Forbidden(f'Cannot delete {self.noun.replace("_", " ")} {row_id}: '
                                      f'a {noun.replace("_", " ")} belongs to it.')


class Managed(Resources[RowT]):
    """Resources for which the directory has special methods.

    :param create, update, delete: these methods
    """

    def __init__(self, directory: Directory, noun: Noun[RowT], create: Callable[..., RowT], update: Callable[..., RowT],
                 delete: Callable[[str], None]) -> None:
        super().__init__(directory, list)
        self.noun, self._create, self._update, self._delete = noun, create, update, delete

    def create(self, given: Sequence[ColumnValues]) -> Sequence[RowT]:
        return [self._create(**values) for values in given]

    def update(self, row_id: str, values: ColumnValues) -> RowT:
        return self._update(row_id, **values)

    def delete(self, row_id: str) -> None:
        self._delete(row_id)


class Domains(Resources[IdentityDomainsRow]):
    """Domains, including the built-in default domain. Names are unique."""

    noun = queries.DOMAIN

    def built_in(self) -> Sequence[IdentityDomainsRow]:
        return [domains.DEFAULT]

    def list(self, **match: str | bool | None) -> Sequence[IdentityDomainsRow]:
        if str(match.get('name')).lower() == domains.DEFAULT['name'].lower():
            match['name'] = domains.DEFAULT['name']
        return super().list(**match)

    def check(self, conn: engine.Connection, row: IdentityDomainsRow, before: IdentityDomainsRow | None) -> None:
        if row['name'].lower() == domains.DEFAULT['name'].lower():
            raise exception.IdentityExists(noun=self.noun, name=row['name'])
        if before is not None and before['enabled'] and not row['enabled']:
            queries.revoke_tokens_of_domain(conn, row['id'], utils.utcnow())

    def delete(self, row_id: str) -> None:
        """Delete a domain with its users, groups, projects and roles.

        :raises Forbidden: it is enabled
        """
        self._refuse_built_in(row_id)

        def remove(conn: engine.Connection, found: str) -> bool:
            row = queries.get(conn, self.noun, id=found) if queries.lock(conn, self.noun, found) else None
            if row is not None and row['enabled']:
                raise exception.Forbidden(f'Cannot delete domain {found}: it is enabled. Disable it first.')
            return queries.delete_domain(conn, found)
        self.directory.delete_with(self.noun, remove, row_id)


class Policies(Resources[IdentityPoliciesRow]):
    noun = queries.POLICY


class Groups(Resources[IdentityGroupsRow]):
    noun = queries.GROUP

    def check(self, conn: engine.Connection, row: IdentityGroupsRow, before: IdentityGroupsRow | None) -> None:
        domains.expect(conn, row['domain_id'])

    def delete(self, row_id: str) -> None:
        self.directory.delete_with(self.noun, queries.delete_group, row_id)


class Regions(Resources[IdentityRegionsRow]):
    noun = queries.REGION

    def built_in(self) -> Sequence[IdentityRegionsRow]:
        names = {name for service in self.catalog() for endpoint in service['endpoints']
                 if (name := endpoint['region_id'])}
        return [{'id': name, 'description': '', 'parent_region_id': None, 'extra': None, 'created_at': NEVER}
                for name in sorted(names or {catalogs.REGION})]

    def check(self, conn: engine.Connection, row: IdentityRegionsRow, before: IdentityRegionsRow | None) -> None:
        """Check the parent, which must not be below the region itself."""
        parent_id, seen = row['parent_region_id'], {row['id']}
        while parent_id is not None:
            if parent_id in seen:
                raise exception.BadRequest(f'Region {parent_id} cannot be its own parent.')
            seen.add(parent_id)
            self.expect(conn, parent_id)
            parent = queries.get(conn, queries.REGION, id=parent_id)
            parent_id = parent['parent_region_id'] if parent else None

    def release(self, conn: engine.Connection, row_id: str) -> None:
        self.refuse_use(conn, 'region', row_id, parent_region_id=row_id)
        self.refuse_use(conn, 'endpoint', row_id, region_id=row_id)   # the region's limits stay, as in Keystone


class Services(Resources[IdentityServicesRow]):
    noun = queries.SERVICE

    def built_in(self) -> Sequence[IdentityServicesRow]:
        return [{'id': row['id'], 'type': row['type'], 'name': row['name'], 'enabled': True, 'description': '',
                 'extra': None, 'created_at': NEVER}
                for row in self.catalog()]

    def release(self, conn: engine.Connection, row_id: str) -> None:
        for endpoint in queries.rows(conn, queries.ENDPOINT, service_id=row_id):
            queries.delete_project_endpoints(conn, kind=queries.ENDPOINT, target_id=endpoint['id'])
        queries.delete_matching(conn, queries.ENDPOINT, service_id=row_id)


class OfService(Resources[RowT]):
    """Resources that belong to a service and may belong to a region."""

    def __init__(self, directory: Directory, built_in: BuiltIn) -> None:
        super().__init__(directory, built_in)
        self.services, self.regions = Services(directory, built_in), Regions(directory, built_in)


class Endpoints(OfService[IdentityEndpointsRow]):
    noun = queries.ENDPOINT

    def built_in(self) -> Sequence[IdentityEndpointsRow]:
        return [{'id': endpoint['id'], 'service_id': row['id'], 'region_id': endpoint['region_id'],
                 'interface': endpoint['interface'], 'url': endpoint['url'], 'enabled': True, 'extra': None,
                 'created_at': NEVER}
                for row in self.catalog() for endpoint in row['endpoints']]

    def check(self, conn: engine.Connection, row: IdentityEndpointsRow, before: IdentityEndpointsRow | None) -> None:
        self.services.expect(conn, row['service_id'])
        if row['region_id'] is not None:
            self.regions.expect(conn, row['region_id'])
        unknown = {name for name in _PLACEHOLDER.findall(row['url']) if name not in PLACEHOLDERS}
        if unknown:
            raise exception.BadRequest(f'The URL of an endpoint may contain $(project_id)s, $(tenant_id)s and '
                                       f'$(user_id)s, but not: {", ".join(sorted(unknown))[:255]}.')

    def release(self, conn: engine.Connection, row_id: str) -> None:
        queries.delete_project_endpoints(conn, kind=self.noun, target_id=row_id)


class RegisteredLimits(OfService[IdentityRegisteredLimitsRow]):
    """Registered limits. The configuration defines the limits of the embedded image service; their ids are the names.

    :param image_limits: function() -> {resource: limit} of the embedded image service; None: no such service
    """

    noun = queries.REGISTERED_LIMIT

    def __init__(self, directory: Directory, built_in: BuiltIn, image_limits: ImageLimits | None = None) -> None:
        super().__init__(directory, built_in)
        self._image_limits = image_limits

    def built_in(self) -> Sequence[IdentityRegisteredLimitsRow]:
        service_id = self._images()
        if service_id is None or self._image_limits is None:
            return []
        return [{'id': name, 'service_id': service_id, 'region_id': '', 'resource_name': name, 'default_limit': limit,
                 'description': '', 'created_at': NEVER} for name, limit in self._image_limits().items()]

    def is_built_in(self, row_id: str) -> bool:
        return row_id in storage_quotas.IMAGES and self._images() is not None

    def _images(self) -> str | None:
        """Return the id of the embedded image service, or None."""
        found = [row['id'] for row in self.catalog() if row['type'] == 'image']
        return found[0] if found and self._image_limits is not None else None

    def check(self, conn: engine.Connection, row: IdentityRegisteredLimitsRow,
              before: IdentityRegisteredLimitsRow | None) -> None:
        if row['service_id'] == self._images():
            raise exception.Forbidden('The registered limits of the image service are part of the configuration. '
                                      'To override one for a project, create a limit for it without a region_id.')
        self.services.expect(conn, row['service_id'])
        if row['region_id']:
            self.regions.expect(conn, row['region_id'])
        if before is not None and any(row[name] != before[name] for name in LIMIT_KEY):
            self._refuse_change(conn, row['id'])
        same = queries.get(conn, queries.REGISTERED_LIMIT, **{name: row[name] for name in LIMIT_KEY})
        if same is not None and same['id'] != row['id']:
            raise exception.IdentityExists(noun='registered limit', name=row['resource_name'])

    def _refuse_change(self, conn: engine.Connection, row_id: str) -> None:
        if queries.count(conn, 'limit', registered_limit_id=row_id):
            raise exception.Forbidden(f'Cannot change service, region or resource name of registered limit {row_id}: '
                                      'a limit belongs to it.')

    def release(self, conn: engine.Connection, row_id: str) -> None:
        self.refuse_use(conn, 'limit', row_id, registered_limit_id=row_id)


class Limit(IdentityLimitsRow):
    """A limit with the columns that identify its registered limit."""

    service_id: str
    region_id: str
    resource_name: str


class Limits(Resources[IdentityLimitsRow]):
    noun = queries.LIMIT
    most = 10000

    def __init__(self, directory: Directory, built_in: BuiltIn, registered: RegisteredLimits) -> None:
        super().__init__(directory, built_in)
        self._registered = registered

    def list(self, **match: str | bool | None) -> Sequence[Limit]:
        registered = {row['id']: row for row in self._registered.list()}
        return [row for row in (_with_names(row, registered) for row in self.directory.list(self.noun)
                                if row['registered_limit_id'] in registered)  # omit image limits if Glance is used
                if all(row.get(name) == value for name, value in match.items())]

    def get(self, row_id: str) -> Limit:
        row = self.directory.get(self.noun, row_id)
        return _with_names(row, {row['registered_limit_id']: self._registered.get(row['registered_limit_id'])})

    def create(self, given: Sequence[ColumnValues]) -> Sequence[Limit]:
        rows = []
        for values in given:
            wanted = {name: str(values[name]) for name in LIMIT_KEY}
            registered = self._registered.list(**wanted)
            if not registered:
                raise exception.BadRequest('There is no registered limit for this service, region and resource: '
                                           f'{wanted["resource_name"]}.')
            rows.append({**{name: value for name, value in values.items() if name not in LIMIT_KEY},
                         'registered_limit_id': registered[0]['id']})
        return [self.get(row['id']) for row in super().create(rows)]

    def update(self, row_id: str, values: ColumnValues) -> Limit:
        super().update(row_id, values)
        return self.get(row_id)

    def check(self, conn: engine.Connection, row: IdentityLimitsRow, before: IdentityLimitsRow | None) -> None:
        if before is not None:
            return
        if bool(row['project_id']) == bool(row['domain_id']):
            raise exception.BadRequest('A limit is for a project or for a domain: give one of project_id and '
                                       'domain_id.')
        if row['domain_id'] and domains.find(conn, {'id': row['domain_id']}) is None:
            raise exception.BadRequest(f'Could not find domain: {row["domain_id"]}.')
        if row['project_id'] and not queries.lock(conn, 'project', row['project_id']):
            raise exception.BadRequest(f'Could not find project: {row["project_id"]}.')
        if self._registered.is_built_in(row['registered_limit_id']):
            if row['domain_id']:
                raise exception.BadRequest('A limit of the image service is for a project, not for a domain.')
        elif not queries.lock(conn, 'registered_limit', row['registered_limit_id']):
            raise exception.BadRequest('The registered limit was deleted.')
        if queries.get(conn, queries.LIMIT, **{name: row[name] for name in (
                'registered_limit_id', 'project_id', 'domain_id')}):
            raise exception.IdentityExists(noun='limit', name=row['project_id'] or row['domain_id'])


def _with_names(row: IdentityLimitsRow, registered: Mapping[str, IdentityRegisteredLimitsRow]) -> Limit:
    found = registered[row['registered_limit_id']]
    return {**row, 'service_id': found['service_id'], 'region_id': found['region_id'],
            'resource_name': found['resource_name']}


KINDS = (Domains, Policies, Groups, Regions, Services, Endpoints)


def of(directory: Directory, built_in: BuiltIn, image_limits: ImageLimits | None = None) -> dict[str, Resources[Any]]:
    """Return {noun: Resources}. For the parameters see RegisteredLimits."""
    d, registered = directory, RegisteredLimits(directory, built_in, image_limits)
    managed = (Managed(d, queries.PROJECT, d.create_project, d.update_project, d.delete_project),
               Managed(d, queries.USER, d.create_user, d.update_user, d.delete_user),
               Managed(d, queries.ROLE, d.create_role, d.update_role, d.delete_role))
    return {kind.noun: kind for kind in (*managed, *(kind(d, built_in) for kind in KINDS), registered,
                                         Limits(d, built_in, registered))}


def catalog(conn: engine.Connection, built_in: catalogs.Catalog, values: Mapping[str, str | None]) -> catalogs.Catalog:
    """Return the catalog of a token.

    The catalog includes services without endpoints. An endpoint is omitted if the token lacks a value for a placeholder
    in its URL, such as the project.

    :param values: {name of PLACEHOLDERS: value}
    """
    endpoints, services = (queries.rows(conn, queries.ENDPOINT, enabled=True),
                           queries.rows(conn, queries.SERVICE, enabled=True))
    if not endpoints and not services:
        return built_in
    found: dict[str, catalogs.CatalogService] = {
        row['id']: {**row, 'endpoints': [*row['endpoints']]} for row in built_in}
    found |= {row['id']: {'id': row['id'], 'type': row['type'], 'name': row['name'] or '', 'endpoints': []}
              for row in services}
    for row in endpoints:
        url = _filled(row['url'], values)
        if url is not None and row['service_id'] in found:
            found[row['service_id']]['endpoints'].append({
                'id': row['id'], 'interface': row['interface'], 'region': row['region_id'],
                'region_id': row['region_id'], 'url': url})
    return list(found.values())


def _filled(url: str, values: Mapping[str, str | None]) -> str | None:
    """Replace the placeholders of a URL; return None if a value is missing."""
    if any(not values.get(name) for name in _PLACEHOLDER.findall(url)):
        return None
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), url)
