"""The action os-migrateLive, and requests to abort or force-complete a running live migration."""
from typing import Any

from nova import actions
from nova import context as nova_context
from nova import exception
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.db import engine
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import tasks
from nova.db.services import services
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.objects import faults
from nova.web import params
from nova.web.routes import Route

ACTION = actions.ACTIONS['os-migrateLive']
HOST = 'os_compute_api:os-migrate-server:migrate_live:host'

_AUTO = params.Type({'enum': [*params.TRUE, *params.FALSE, 'auto']},
                    convert=lambda value: None if value == 'auto' else value in params.TRUE)
LIVE = params.Object(
    params.Param('host', params.nullable(params.HOST), required=True),
    params.Param('block_migration', params.BOOLEAN, until=24, required=True),
    params.Param('disk_over_commit', params.BOOLEAN, until=24, required=True),
    params.Param('block_migration', _AUTO, since=25, required=True),
    params.Param('force', params.BOOLEAN, since=30, until=67))
COMPLETE = params.Object(params.Param('force_complete', {'type': 'null'}, required=True))


def migrate_live(req: api_request.Request, id: str) -> None:
    body, cell = req.body['os-migrateLive'], server_lookup.cell_of(req, id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, ACTION)
        host, force = _destination(req, conn, row, body)
    arguments = {'host': host, 'force': force, 'block_migration': body['block_migration'],
                 'disk_over_commit': body.get('disk_over_commit', False)}
    cell.db.run(_begin, req.context, id, arguments)
    conductor = cell.rpc.conductor
    if req.has('async_live_migration_checks'):
        casts.send(cell, conductor.continue_live_migration, req.context, instance_uuid=id)
        return
    casts.send(None, conductor.check_and_live_migrate, req.context, instance_uuid=id)


def _destination(req: api_request.Request, conn: engine.Connection, row: InstancesRow,
                 body: api_request.Document) -> tuple[str | None, bool]:
    """Return (host or None, whether to skip the scheduler's filters) of a request.

    :raises BadRequest: the host is unknown, or the server is on it
    """
    host = body['host']
    if host is None:
        if body.get('force'):
            raise exception.BadRequest("Can't force to a non-provided destination")
        return None, False
    req.authorize(HOST, server_lookup.target(row))
    if host == row['host']:
        raise exception.BadRequest(f'Unable to migrate instance {row["uuid"]} to current host {host}.')
    if not services.list(conn, host=host, topic='compute'):
        raise exception.BadRequest(exception.ComputeHostNotFound.template % {'host': host})
    return host, body.get('force', False) if req.has('live_migrate_force') else True


def _begin(conn: engine.Connection, context: nova_context.RequestContext, server_id: str,
           arguments: dict[str, Any]) -> None:
    row = tasks.begin(conn, context, server_id, ACTION, values={'progress': 0}, admin=context.is_admin)
    server_migrations.create(conn, context, row, server_migrations.LIVE_MIGRATION, 'accepted', arguments=arguments)


# ---- running migrations --------------------------------------------------------

def abort(req: api_request.Request, server_id: str, id: str) -> None:
    """Abort a live migration: end a queued migration here, or make the source host abort a running one."""
    queued = req.has('abort_queued_migration')
    cell, row = server_actions.find(req, server_id, actions.ABORT_MIGRATION)
    allowed = ('queued', 'preparing', 'running') if queued else ('running',)
    migration = cell.db.run(_ask, req.context, server_id, id, actions.ABORT_MIGRATION, allowed, 'abort')
    if migration['status'] != 'queued':
        casts.to_host(req, cell, row, cell.rpc.compute.abort_live_migration)


def force_complete(req: api_request.Request, server_id: str, id: str) -> None:
    cell, row = server_actions.find(req, server_id, actions.FORCE_COMPLETE)
    cell.db.run(_ask, req.context, server_id, id, actions.FORCE_COMPLETE, ('running',), 'complete')
    casts.to_host(req, cell, row, cell.rpc.compute.force_complete_live_migration)


def _ask(conn: engine.Connection, context: nova_context.RequestContext, server_id: str, migration_id: str,
         action: actions.Action, allowed: tuple[str, ...], what: str) -> MigrationsRow:
    """Record a request to abort or complete in the migration's row; return the row. End a queued migration.

    The same transaction ends it, because otherwise its source could begin between the record and the end.

    :raises MigrationNotFound: the server has no such live migration
    :raises InvalidMigrationState: the migration's status is not in ``allowed``
    :raises InstanceInvalidState, InstanceIsLocked: the server is not migrating, or is locked
    """
    tasks.begin(conn, context, server_id, action, admin=context.is_admin)
    try:
        if not (migration_id.isascii() and migration_id.isdigit()) or len(migration_id) > 18:
            raise exception.MigrationNotFound(migration_id=migration_id[:40])
        migration = server_migrations.get(conn, int(migration_id))
        if (migration['instance_uuid'], migration['migration_type']) != (server_id, server_migrations.LIVE_MIGRATION):
            raise exception.MigrationNotFound(migration_id=migration_id)
    except exception.MigrationNotFound:
        raise exception.NotFound(f'Migration {migration_id[:40]} not found for instance {server_id}') from None
    try:
        migration = live_migrations.note(conn, migration['id'], allowed, {what: True})
    except exception.InvalidMigrationState as error:
        raise exception.InvalidMigrationState(**{**error.kwargs, 'method': action.name}) from None
    if migration['status'] == 'queued':
        fault = faults.fault(exception.MigrationAborted(instance_id=server_id), 'The live migration was aborted.')
        live_migrations.end(conn, migration, 'cancelled', event='compute_live_migration', host=None, fault=fault)
    return migration


_PATH = '/servers/{server_id}/migrations/{id}'
ROUTES = (
    server_actions.route('os-migrateLive', migrate_live, (LIVE, 1, None), checks=(HOST,)),
    Route('DELETE', _PATH, abort, policy=actions.ABORT_MIGRATION.policy, since=24, status=202,
          errors=(400, 401, 403, 404, 409)),
    Route('POST', _PATH + '/action', force_complete, policy=actions.FORCE_COMPLETE.policy, since=22,
          action='force_complete', status=202, body=COMPLETE, errors=(400, 401, 403, 404, 409)),
)
