"""The action evacuate: rebuild a server of a failed host on another host."""
from typing import Any

from nova import actions
from nova import context as nova_context
from nova import exception
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.db.services import services
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.objects import disk_clients
from nova.web import params
from nova.web.params import Object
from nova.web.params import Param

ACTION = actions.ACTIONS['evacuate']

EVACUATE = Object(
    Param('host', params.HOST),
    Param('onSharedStorage', params.BOOLEAN, until=13, required=True),
    Param('adminPass', server_schemas.PASSWORD),
    Param('force', params.BOOLEAN, since=29, until=67),
    # extension: the caller accepts that the failed host may still write to the disks
    Param('accepted_risk', {'type': 'string', 'enum': [disk_clients.TWO_WRITERS]}))


def evacuate(req: api_request.Request, id: str) -> JsonDocument | None:
    body, cell = req.body['evacuate'], server_lookup.cell_of(req, id)
    shared = body.get('onSharedStorage')
    if shared and 'adminPass' in body:
        raise exception.BadRequest("admin password can't be changed on existing disk")
    password = None if shared else body.get('adminPass') or server_spec.password()
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, ACTION)
        host, force = _destination(req, conn, row, body)
    arguments = {'host': host, 'force': force, 'on_shared_storage': shared,
                 'leave_stopped': req.has('evacuate_stopped'), 'accepted_risk': body.get('accepted_risk')}
    kept, = req.services.passwords.encrypted({'evacuation': True, 'admin_password': password}, id)
    cell.db.run(_begin, req.context, id, arguments, kept, req.services.conf.service_down_time)
    casts.send(cell, cell.rpc.conductor.continue_evacuation, req.context, instance_uuid=id)
    if req.has('evacuate_shared_storage_detected'):
        return None
    return server_spec.shown_password(req.services.conf, password) or None


def _destination(req: api_request.Request, conn: engine.Connection, row: InstancesRow,
                 body: api_request.Document) -> tuple[str | None, bool]:
    """Return (host or None, whether to skip the scheduler's filters) of a request.

    :raises BadRequest: the server is on this host
    :raises ComputeHostNotFound: unknown host
    """
    host = body.get('host')
    if host is None:
        if body.get('force'):
            raise exception.BadRequest("Can't force to a non-provided destination")
        return None, False
    if host == row['host']:
        raise exception.BadRequest("The target host can't be the same one.")
    if not services.list(conn, host=host, topic='compute'):
        raise exception.ComputeHostNotFound(host=host)
    return host, body.get('force', False) if req.has('evacuate_force') else True


def _begin(conn: engine.Connection, context: nova_context.RequestContext, server_id: str, arguments: dict[str, Any],
           kept: JsonDocument, down_time: int) -> None:
    """Begin the evacuation in the transaction that checks that the host is down.

    :param arguments: arguments of the migration
    :param kept: arguments of the action
    :raises ComputeServiceInUse: the host is up
    """
    row = instances.get(conn, server_id)
    tasks.check(row, ACTION, context.is_admin)
    assert row['host'] is not None               # tasks.check refuses a server without a host
    if not services.host_is_down(conn, row['host'], down_time):
        raise exception.ComputeServiceInUse(host=row['host'])
    interrupted = live_migrations.open_of(conn, server_id, server_migrations.LIVE_MIGRATION)
    if interrupted and interrupted['dest_compute']:
        arguments = {**arguments, 'interrupted': {'host': interrupted['dest_compute'],
                                                  'facts': interrupted['arguments'].get('facts')}}
    arguments = {**arguments, 'interrupted_task': row['task_state']}
    instance_actions.finish(conn, server_id, 'evacuate', error='The host went down; the server is evacuated.',
                            background=False)
    begun = tasks.begin(conn, context, server_id, ACTION, kept, values={'progress': 0}, admin=context.is_admin)
    if begun['host'] != row['host']:
        raise exception.InstanceChanged(instance_id=server_id)
    server_migrations.create(conn, context, begun, server_migrations.EVACUATION, 'accepted', arguments=arguments)


ROUTES = (
    server_actions.route('evacuate', evacuate, (EVACUATE, 1, None), status=200),
)
