"""GET and DELETE /servers/{id}."""
from nova import actions
from nova import hooks
from nova import states
from nova.api.servers import casts
from nova.api.servers import down_cells
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import fields as server_fields
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db.cells import cells as db_cells
from nova.db.servers import tasks
from nova.json_types import JsonDocument
from nova.web.routes import Route

_RULE = 'os_compute_api:servers:'
SOFT = actions.ACTIONS['softDelete']


def show(req: api_request.Request, id: str) -> JsonDocument:
    def read(cell: db_cells.Cell) -> JsonDocument:
        with cell.db.reader() as conn:
            row = server_lookup.find(req, conn, id, _RULE + 'show')
            return server_lookup.answer(req, conn, server_fields.SHOW, row)
    found, _down = req.services.cells.scatter(read, server_lookup.cell_of(req, id))
    return {'server': found[0][1] if found else down_cells.shown(req, id, _RULE + 'show')}


def delete(req: api_request.Request, id: str) -> None:
    remove(req, id, actions.ACTIONS['delete'], soft=req.services.conf.reclaim_instance_interval > 0)


@hooks.add_hook('delete_instance')
def remove(req: api_request.Request, server_id: str, action: actions.Action, soft: bool = False) -> None:
    """Begin a delete and cast it to the server's host, or to a conductor if the host is down.

    :param action: row of actions.ACTIONS
    :param soft: keep the server for a while, unless it never ran, is moving or is being shelved
    """
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id, action.policy, category_rule=server_category.DELETE)
        if soft and row['vm_state'] == states.SOFT_DELETED:
            return
        if soft and row['host'] and row['launched_at'] and row['vm_state'] in (SOFT.conditions.vm_states or ()):
            action = SOFT
        if row['network_info']:
            req.services.networks.check_detach(req.context, row['project_id'], server_id)
        alive = server_lookup.host_is_up(req, conn, row['host']) if row['host'] else False
    row = cell.db.run(tasks.begin, req.context, server_id, action, admin=req.context.is_admin,
                      values={'progress': 0})
    if action is SOFT:
        casts.to_host(req, cell, row, cell.rpc.compute.soft_delete_instance)
    elif alive and row['host']:
        casts.to_host(req, cell, row, cell.rpc.compute.terminate_instance)
    else:
        casts.send(cell, cell.rpc.conductor.delete_instance, req.context, instance_uuid=server_id)


ROUTES = (
    Route('GET', '/servers/{id}', show, policy=_RULE + 'show', query=server_schemas.NOTHING,
          checks=server_fields.RULES, errors=(401, 403, 404)),
    Route('DELETE', '/servers/{id}', delete, policy=_RULE + 'delete', status=204, checks=(server_category.DELETE,),
          query=server_schemas.OF_CATEGORY, errors=(401, 403, 404, 409)),
)
