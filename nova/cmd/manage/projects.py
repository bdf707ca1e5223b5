"""nova-manage project: the projects of the embedded identity service, and their compute resources."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.cmd import tables
from nova.cmd.manage import api_calls

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.tables.rows import IdentityProjectsRow
    from nova.identity.embedded.service import IdentityService
    from nova.json_types import JsonDocument

Ask = Callable[..., Any]                 # type of the function that ``api`` yields
PROJECT = {'metavar': 'PROJECT', 'help': 'id or name of the project'}
NOT_DELETED = 3              # exit code: servers are left
DELETION_TIMEOUT_S = 120     # seconds that scrub waits for the deletion of servers
POLL_INTERVAL_S = 0.5        # seconds between two checks of the deletion
SCRUBBED = ('servers', 'server groups')      # what scrub deletes
PAGE = 1000                  # maximum number of servers in a page of the API


def list_projects(conf: cfg.ConfigOpts) -> None:
    """List the projects, with the servers that each one has."""
    from nova.db.identity import directory
    from nova.db.projects import quotas
    service = identity(conf)
    rows = sorted(service.list(directory.PROJECT), key=lambda row: row['name'])
    with service.db.reader() as conn:
        servers = quotas.server_counts(conn)
    tables.print_table(('ID', 'Name', 'Enabled', 'Servers', 'Description'), [
        (row['id'], row['name'], row['enabled'], servers.get(row['id'], 0), row['description']) for row in rows])


def create(conf: cfg.ConfigOpts, name: str, manager: str | None, description: str) -> None:
    """Create a project and print its id. If USER is given, this user gets the role "manager" in the project."""
    from nova.db.identity import directory as queries
    from nova.identity.embedded import directory
    from nova.identity.rest import resources
    from nova.identity.rest import schemas
    service = identity(conf)
    schemas.Body(resources.PROJECT.content('create'), 'project').validate({
        'project': {'name': name, 'description': description}})
    user = manager and (service.find(queries.USER, domain_id=directory.DOMAIN['id'], name=manager)
                        or service.find(queries.USER, id=manager))
    if manager and not user:
        raise exception.IdentityNotFound(noun='user', id=manager)
    made = service.create_project(name, description=description)
    if user:
        role, = service.list(queries.ROLE, name='manager', name_space='')
        service.assign_role(user['id'], role['id'], 'project', made['id'])
    print(made['id'])


def delete(conf: cfg.ConfigOpts, project: str) -> None:
    """Delete a project with the roles and credentials that belong to it. A project that has servers, server groups,
    images, volumes, snapshots, volume backups, secrets, networks, routers, ports or floating addresses is not deleted.
    """
    service = identity(conf)
    row = project_row(service, project)
    left = [f'{number} {noun}' for noun, number in _owned(service.db, row['id']).items() if number]
    if left:
        raise exception.InvalidInput(f"The project {row['name']} still has {', '.join(left)}. To remove servers, "
                                     'server groups and limits, run: nova-manage project scrub')
    service.delete_project(row['id'])


def quota(conf: cfg.ConfigOpts, project: str, key: str | None, value: int | None) -> None:
    """List a project's compute quotas and usage. --key and --value set a quota first."""
    service = identity(conf)
    row = project_row(service, project)
    if (key is None) != (value is None):
        raise exception.InvalidInput('--key and --value must be given together.')
    with api(conf, row['id']) as ask:
        path = f'/os-quota-sets/{row["id"]}'
        if key is not None:
            ask('PUT', path, {'quota_set': {key: value}})
        found = ask('GET', path + '/detail')['quota_set']
    tables.print_table(('Resource', 'Limit', 'In use'), [
        (name, one['limit'], one['in_use']) for name, one in found.items() if name != 'id'])


def scrub(conf: cfg.ConfigOpts, project: str) -> int:
    """Delete the servers, the server groups and the quotas of a project. Its images, volumes, backups, secrets and
    networks stay.

    Exit code 3: servers are left after 120 s.
    """
    service = identity(conf)
    row = project_row(service, project)
    with api(conf, row['id']) as ask:
        servers = _servers(ask, row['id'])
        for server in servers:
            ask('DELETE', f'/servers/{server}', missing=True)
        deadline = time.monotonic() + DELETION_TIMEOUT_S
        while (left := _servers(ask, row['id'])) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
        groups = _groups(service.db, row['id'])
        for group in groups:
            ask('DELETE', f'/os-server-groups/{group}', missing=True)
        ask('DELETE', f'/os-quota-sets/{row["id"]}')
    print(f'{len(servers) - len(left)} servers and {len(groups)} server groups were deleted.')
    if left:
        print('Not deleted yet: ' + ', '.join(left))
    kept = [f'{number} {noun}' for noun, number in _owned(service.db, row['id']).items()
            if number and noun not in SCRUBBED]
    if kept:
        print('The project still has ' + ', '.join(kept) + '.')
    return NOT_DELETED if left else 0


# ---- shared parts ------------------------------------------------------------

def identity(conf: cfg.ConfigOpts) -> IdentityService:
    """Return the embedded identity service.

    :raises InvalidInput: the projects are Keystone's, or no cloud has started here
    """
    from nova.cloud import assembly
    from nova.cmd.manage import identity as manage_identity
    if conf.identity.backend != 'embedded':
        raise exception.InvalidInput('Keystone manages the projects of this deployment: use openstack project.')
    manage_identity.key_ring(conf)
    api_db, _cells = assembly.checked_databases(conf)
    return assembly.identity(conf, api_db, '')


def project_row(service: IdentityService, project: str) -> IdentityProjectsRow:
    from nova.db.identity import directory as queries
    from nova.identity.embedded import directory
    row = service.find(queries.PROJECT, id=project) or service.find(
        queries.PROJECT, domain_id=directory.DOMAIN['id'], name=project)
    if row is None:
        raise exception.IdentityNotFound(noun='project', id=project)
    return row


def _owned(api_db: engine.Database, project_id: str) -> dict[str, int]:
    """Return {kind of resource: number} of a project."""
    from nova.db.images import images
    from nova.db.key_manager import records
    from nova.db.networks import networks
    from nova.db.projects import quotas
    from nova.db.tables import network
    from nova.db.volumes import volumes
    with api_db.reader() as conn:
        used = quotas.project_usage(conn, project_id)
        stored = volumes.used(conn, project_id)
        return {'servers': used['instances'], 'server groups': used['server_groups'],
                'images': images.used(conn, project_id)[1], 'volumes': stored['volumes'],
                'snapshots': stored['snapshots'], 'volume backups': stored['backups'],
                'secrets': records.secrets(conn, project_id),
                **{noun: networks.count(conn, table, project_id) for noun, table in (
                    ('networks', network.networks), ('routers', network.routers), ('ports', network.ports),
                    ('floating addresses', network.floating_ips))}}


def _groups(api_db: engine.Database, project_id: str) -> list[str]:
    from nova.db.placement import server_groups
    with api_db.reader() as conn:
        return [row['uuid'] for row in server_groups.page(conn, project_id)]


def _servers(ask: Ask, project_id: str) -> list[str]:
    """Return ids of the servers that still exist."""
    found, marker = [], ''
    while True:
        page = ask('GET', '/servers', query=f'all_tenants=1&project_id={project_id}&limit={PAGE}{marker}')['servers']
        found += [server['id'] for server in page]
        if len(page) < PAGE:
            return found
        marker = f'&marker={found[-1]}'


@contextlib.contextmanager
def api(conf: cfg.ConfigOpts, project_id: str) -> Iterator[Ask]:
    """Yield ask(method, path, body, query, missing), which runs an API operation and returns the response body."""
    with api_calls.opened(conf) as (application, _api_db, _cells):
        def ask(method: str, path: str, body: JsonDocument | None = None, query: str = '',
                missing: bool = False) -> Any:
            """Run an operation.

            :param missing: accept that the resource is gone already
            """
            try:
                if application is None:
                    return api_calls.ask_all_in_one(conf, path, body, 'latest', method, query)[0]
                return api_calls.ask(application, project_id, method, path, body, query=query)
            except exception.NotFound:
                if not missing:
                    raise
                return None
        yield ask


COMMANDS = {'list': list_projects, 'create': create, 'delete': delete, 'quota': quota, 'scrub': scrub}
OPTIONS = {
    create: {'name': {'metavar': 'NAME', 'help': 'name of the project; it must be unique'},
             'manager': {'metavar': 'USER', 'nargs': '?', 'help': 'id or name of a user'},
             '--description': {'metavar': 'TEXT', 'default': '', 'help': 'description of the project'}},
    delete: {'project': PROJECT},
    quota: {'project': PROJECT, '--key': {'metavar': 'RESOURCE', 'help': 'resource, as project quota prints it'},
            '--value': {'metavar': 'LIMIT', 'type': int, 'help': 'limit; -1 for no limit'}},
    scrub: {'project': PROJECT},
}
EXIT_CODES = {scrub: {0: 'everything was deleted', 1: 'the command failed', NOT_DELETED: 'servers are left'}}
