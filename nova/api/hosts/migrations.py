"""/os-migrations, and the live migrations in progress of one server."""
import datetime
from typing import Any

from nova import context as nova_context
from nova import exception
from nova.api import cell_queries
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db.moves import migrations as server_migrations
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web import params
from nova.web.routes import Route

INDEX = 'os_compute_api:os-migrations:index'
ALL_PROJECTS = INDEX + ':all_projects'
HOSTS = INDEX + ':host'
_SERVER = 'os_compute_api:servers:migrations:'
SERVER_HOSTS = _SERVER + 'index:host'

Field = fields.Field
# fields that are null for callers who may not see hosts
_PLACES = ('source_compute', 'source_node', 'dest_compute', 'dest_node', 'dest_host')
# query key -> column
_FILTERS = {'status': 'status', 'instance_uuid': 'instance_uuid', 'source_compute': 'source_compute',
            'migration_type': 'migration_type', 'user_id': 'user_id'}


def _links(row: api_request.Row, req: api_request.Request) -> list[dict[str, str]] | fields.Absent:
    """Return the links to a live migration in progress; other migrations have no URL."""
    if row['migration_type'] != server_migrations.LIVE_MIGRATION or (
            row['status'] not in server_migrations.LIVE_IN_PROGRESS):
        return fields.ABSENT
    return req.links('servers', row['instance_uuid'], 'migrations', row['id'])


_COMMON = (
    Field('id', 'id', type='integer required'),
    *(Field(name, name, type='string|null required') for name in _PLACES),
    Field('status', 'status', type='string required'),
    Field('created_at', fields.exact_moment('created_at'), type='string format=date-time required'),
    Field('updated_at', fields.exact_moment('updated_at'), type=shapes.UPDATED_AT),
    Field('uuid', 'uuid', since=59, type='string format=uuid required'),
    Field('project_id', 'project_id', since=80,
          type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('user_id', 'user_id', since=80, type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
)

MIGRATION = fields.Fields(
    *_COMMON,
    Field('instance_uuid', 'instance_uuid', type='string format=uuid required'),
    Field('old_instance_type_id', lambda row, req: row['old_flavor'].get('id'), type='integer|null required'),
    Field('new_instance_type_id', lambda row, req: row['new_flavor'].get('id'), type='integer|null required'),
    Field('migration_type', 'migration_type', since=23,
          type='string one of migration,resize,live-migration,evacuation required'),
    Field('links', _links, since=23, optional=True, type=shapes.MIGRATIONS_LINKS),
)

SERVER_MIGRATION = fields.Fields(
    *_COMMON, Field('server_uuid', 'instance_uuid', type='string format=uuid required'),
    *(Field(f'{what}_{part}_bytes', f'{what}_{part}_bytes', type='integer|null minimum=0 required')
      for what in ('memory', 'disk') for part in ('total', 'processed', 'remaining')))

LIST = params.Query(
    *(params.Param(name, params.STRING) for name in ('hidden', 'host', 'instance_uuid', 'source_compute', 'status',
                                                     'migration_type')),
    params.Param('limit', params.LIMIT, since=59), params.Param('marker', params.STRING, since=59),
    params.Param('changes-since', params.DATE_TIME, since=59),
    params.Param('changes-before', params.DATE_TIME, since=66), params.Param('user_id', params.STRING, since=80),
    params.Param('project_id', params.STRING, since=80), closed=59, single=59)


def _visible(rows: list[Any], sees_hosts: bool) -> list[Any]:
    return rows if sees_hosts else [{**row, **dict.fromkeys(_PLACES)} for row in rows]


def index(req: api_request.Request) -> JsonDocument:
    query = req.query
    filters = {column: query.one(name) for name, column in _FILTERS.items() if name in query}
    everybody = req.allows(ALL_PROJECTS)
    project_id = query.one('project_id', nova_context.ALL_PROJECTS if everybody else req.project_id)
    if project_id != req.project_id and not everybody:
        req.authorize(ALL_PROJECTS)
    if not req.allows(HOSTS) and ('host' in query or 'source_compute' in query):
        req.authorize(HOSTS)                 # the filter would reveal the host
    paged = req.has('migration_paging')
    limit = paging.limit(req) if paged else None
    since, before = query.one('changes-since'), query.one('changes-before')
    paging.check_period(since, before)
    after, rows = None, []
    marker = paging.marker(req)
    if project_id and paged and marker is not None:
        after = _place(req, marker, project_id)
    # a filter for hidden migrations or for the project '' matches no migration
    if project_id and query.one('hidden', '0').lower() in ('0', 'false', 'no', 'off', ''):
        rows = cell_queries.rows(req, lambda conn: server_migrations.page(
            conn, project_id, filters, host=query.one('host'), limit=None if limit is None else limit + 1, after=after,
            changes_since=since, changes_before=before))
        rows.sort(key=lambda row: (row['created_at'], row['id'], row['uuid']), reverse=True)
    build = MIGRATION.builder(req)
    shown = _visible(rows if limit is None else rows[:limit], req.allows(HOSTS))
    body = {'migrations': [build(row) for row in shown]}
    if limit is None:
        return body
    return paging.add_links(body, req, 'os-migrations', 'migrations', shown[-1]['uuid'] if shown else None,
                            len(rows) > limit)


def _place(req: api_request.Request, marker: str, project_id: str | nova_context.Projects
           ) -> tuple[datetime.datetime, int, str] | None:
    """Return the position of the marker's migration in the list.

    :raises InvalidMarker: the project has no migration with this UUID
    """
    cell, place = cell_queries.first(req, lambda conn: server_migrations.place_of(conn, marker, project_id))
    if cell is None:
        raise exception.InvalidMarker(marker=marker)
    return place


# ---- migrations of one server ------------------------------------------------

def _in_progress(req: api_request.Request, server_id: str, rule: str) -> tuple[InstancesRow, list[MigrationsRow]]:
    """Return (row of the server, its live migrations in progress)."""
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server = server_lookup.find(req, conn, server_id, rule)
        rows = [row for row in server_migrations.open_of(conn, server_id)
                if row['migration_type'] == server_migrations.LIVE_MIGRATION
                and row['status'] in server_migrations.LIVE_IN_PROGRESS]
    return server, rows


def server_index(req: api_request.Request, server_id: str) -> JsonDocument:
    server, rows = _in_progress(req, server_id, _SERVER + 'index')
    build = SERVER_MIGRATION.builder(req)
    rows = _visible(rows, req.allows(SERVER_HOSTS, server_lookup.target(server)))
    return {'migrations': [build(row) for row in rows]}


def server_show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    _server, rows = _in_progress(req, server_id, _SERVER + 'show')
    for row in rows:
        if str(row['id']) == id:
            return {'migration': SERVER_MIGRATION.builder(req)(row)}
    raise exception.MigrationNotFound(
        f'In-progress live migration {id[:40]} is not found for server {server_id}.')


_PATH = '/servers/{server_id}/migrations'
ROUTES = (
    Route('GET', '/os-migrations', index, policy=INDEX, checks=(ALL_PROJECTS, HOSTS), query=LIST,
          errors=(400, 401, 403)),
    Route('GET', _PATH, server_index, policy=_SERVER + 'index', checks=(SERVER_HOSTS,), since=23,
          query=server_schemas.NOTHING, errors=(401, 403, 404)),
    Route('GET', _PATH + '/{id}', server_show, policy=_SERVER + 'show', since=23, query=server_schemas.NOTHING,
          errors=(401, 403, 404)),
)
