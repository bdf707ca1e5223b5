"""The actions resize, migrate, confirmResize and revertResize; conductor/moves/cold.py continues them."""
import functools
from typing import Any


from nova import actions
from nova import context as nova_context
from nova import exception
from nova import states
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import create_facts
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.projects import flavors as flavors_db
from nova.db.projects import quotas
from nova.db.servers import request_specs
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.hardware import growth
from nova.hardware import guest_options
from nova.objects import pci
from nova.objects.flavor import Flavor
from nova.objects.image import StoredImage
from nova.web import params

ACTIONS = actions.ACTIONS
MIGRATE_HOST = 'os_compute_api:os-migrate-server:migrate:host'

RESIZE = params.Object(
    params.Param('flavorRef', server_schemas.FLAVOR_REF, required=True),
    params.Param('OS-DCF:diskConfig', server_schemas.DISK_CONFIG))
MIGRATE = params.Object(params.Param('host', params.nullable(params.HOST)), nullable=True)


# ---- resize ------------------------------------------------------------------

def resize(req: api_request.Request, id: str) -> None:
    body, action = req.body['resize'], ACTIONS['resize']
    cell, row = _ready(req, id, action)
    with req.services.api_db.reader() as conn:
        flavor = _flavor(req, conn, row, body['flavorRef'])
        spec = request_specs.get_many(conn, [id]).get(id)
        limits = quotas.limits_of(conn, req.services.conf, row['project_id'])
    _check_flavor(req, row, flavor, spec.image if spec else None)
    flavor = server_spec.with_devices(
        flavor, row['image_properties'], req.services.pci_aliases,
        [each for each in pci.requested(row['flavor']) if each.request_id])
    guest_options.check(flavor['extra_specs'], row['image_properties'])
    server_spec.guest_topology(flavor, row['image_properties'])
    values: dict[str, Any] = {'progress': 0}
    if 'OS-DCF:diskConfig' in body:
        values['disk_config'] = server_spec.disk_config(body['OS-DCF:diskConfig'], row['image_properties'])
    req.services.api_db.run(quotas.check_and_grow, limits, row['project_id'], id, flavor['vcpus'],
                            flavor['memory_mb'])
    try:
        cell.db.run(_begin_move, req.context, id, action, server_migrations.RESIZE, flavor,
                    _arguments(req, row, flavor), values)
    except Exception:
        _count_anew(req, cell, id)
        raise
    _continue(req, cell, id)


def _arguments(req: api_request.Request, row: InstancesRow, flavor: Flavor) -> dict[str, Any]:
    """Return the arguments of the move. A running server that only grows is resized on its present host."""
    if row['vm_state'] == states.ACTIVE and growth.while_running(row['flavor'], flavor):
        return {'in_place': True, 'host': row['host']}
    return {'ignored_hosts': [] if req.services.conf.allow_resize_to_same_host else [row['host']]}


def _ready(req: api_request.Request, server_id: str, action: actions.Action) -> tuple[db_cells.Cell, InstancesRow]:
    """Return (cell, row) of a server that can be moved now.

    :raises Conflict: the server's state does not allow the move, or its host is down
    """
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, server_id, action)
        tasks.check(row, action, req.context.is_admin)
        if not server_lookup.host_is_up(req, conn, row['host']):
            raise exception.Conflict(f'Cannot move instance {server_id}: its host is down.')
    return cell, row


def _flavor(req: api_request.Request, conn: engine.Connection, row: InstancesRow,
            flavor_id: str) -> Flavor:
    """Return the fields of the requested flavor that servers store.

    :raises BadRequest: the flavor is not visible to the caller, or the server already has it
    """
    with exception.AsBadRequest(exception.FlavorNotFound):
        found = flavors_db.get(conn, flavor_id, req.context.sees)
    if found['disabled']:
        raise exception.BadRequest(exception.FlavorNotFound.template % {'flavor_id': found['flavor_id']})
    flavor = flavors_db.stored(found)
    if flavor['flavor_id'] == row['flavor_id'] and flavor['id'] == row['flavor'].get('id', flavor['id']):
        raise exception.BadRequest('When resizing, instances must change flavor!')
    return flavor


def _check_flavor(req: api_request.Request, row: InstancesRow, flavor: Flavor,
                  image: StoredImage | None) -> None:
    """Check the new flavor against the server's disks and image.

    :raises CannotResizeDisk, FlavorTooSmall, Forbidden: the flavor does not fit
    """
    if row['image_id'] is not None:
        if not flavor['root_gb'] and row['root_gb']:
            raise exception.CannotResizeDisk(reason='Resize to zero disk flavor is not allowed.')
        if not flavor['root_gb'] and not req.allows(create_facts.ZERO_DISK, server_lookup.target(row)):
            raise exception.Forbidden('Only volume-backed servers are allowed for flavors with zero disk.')
        if flavor['root_gb'] < row['root_gb']:
            raise exception.CannotResizeDisk(reason='The root disk cannot shrink.')
    properties = row['image_properties']
    if guest_options.encrypted(flavor, properties) != guest_options.encrypted(row['flavor'], properties):
        raise exception.CannotResizeDisk(reason='A resize cannot encrypt or decrypt existing disks.')
    if flavor['ephemeral_gb'] < row['ephemeral_gb']:
        raise exception.CannotResizeDisk(reason='The ephemeral disk cannot shrink.')
    for resource, have, need in (('memory', flavor['memory_mb'], image and image.get('min_ram') or 0),
                                 ('disk', flavor['root_gb'], image and image.get('min_disk') or 0)):
        if have < need and (resource == 'memory' or flavor['root_gb'] and row['image_id'] is not None):
            raise exception.FlavorTooSmall(resource=resource, have=have, need=need)


def _count_anew(req: api_request.Request, cell: db_cells.Cell, server_id: str) -> None:
    """Reset the quota usage to the server's present size after a move failed to begin."""
    with cell.db.reader() as conn:
        sizes = server_migrations.needs(conn, server_id)
    if sizes is not None:
        req.services.api_db.run(quotas.set_size, server_id, *sizes)


# ---- migrate -----------------------------------------------------------------

def migrate(req: api_request.Request, id: str) -> None:
    action = ACTIONS['migrate']
    cell, row = _ready(req, id, action)
    host = (req.body['migrate'] or {}).get('host') if req.has('migrate_host') else None
    if host is not None:
        req.authorize(MIGRATE_HOST, server_lookup.target(row))
        _check_host(cell, row, host)
    arguments = {'ignored_hosts': [row['host']], **({'host': host} if host else {})}
    cell.db.run(_begin_move, req.context, id, action, server_migrations.MIGRATION, None, arguments, {'progress': 0})
    _continue(req, cell, id)


def _check_host(cell: db_cells.Cell, row: InstancesRow, host: str) -> None:
    """Check that the requested host exists and is not the present host.

    :raises BadRequest: the host is unknown, or the server is on it
    """
    with cell.db.reader() as conn:
        known = compute_nodes.exists(conn, host)
    if not known:
        raise exception.BadRequest(exception.ComputeHostNotFound.template % {'host': host})
    if host == row['host']:
        raise exception.BadRequest(
            f'Unable to migrate instance ({row["uuid"]}) to current host ({host}).')


def _begin_move(conn: engine.Connection, context: nova_context.RequestContext, server_id: str, action: actions.Action,
                kind: str, flavor: Flavor | None, arguments: dict[str, Any],
                values: dict[str, Any]) -> None:
    row = tasks.begin(conn, context, server_id, action, values=values, admin=context.is_admin)
    if flavor is not None and pci.of_ports(flavor) != pci.of_ports(row['flavor']):
        raise exception.InstanceChanged(instance_id=server_id)   # ports were changed after the caller read ``flavor``
    server_migrations.create(conn, context, row, kind, 'pre-migrating', new_flavor=flavor,
                             arguments={'old_vm_state': row['vm_state'], **arguments})


def _continue(req: api_request.Request, cell: db_cells.Cell, server_id: str) -> None:
    casts.send(cell, cell.rpc.conductor.continue_move, req.context, instance_uuid=server_id)


# ---- confirm and revert ------------------------------------------------------

def _end(name: str, status: str, req: api_request.Request, id: str) -> None:
    action = ACTIONS[name]
    cell = server_lookup.cell_of(req, id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, action)
        tasks.check(row, action, req.context.is_admin)
        if name == 'revertResize':
            _check_source(req, conn, id)
    cell.db.run(server_migrations.begin_end, req.context, id, action, status, req.context.is_admin)
    _continue(req, cell, id)


def _check_source(req: api_request.Request, conn: engine.Connection, server_id: str) -> None:
    """Check that the source host is up before a revert.

    :raises Conflict: the source host is down
    """
    for move in server_migrations.open_of(conn, server_id):
        if move['source_compute'] and not server_lookup.host_is_up(req, conn, move['source_compute']):
            raise exception.Conflict(f'Cannot revert instance {server_id}: its source host is down.')


ROUTES = (
    server_actions.route('resize', resize, (RESIZE, 1, None), checks=(create_facts.ZERO_DISK,)),
    server_actions.route('migrate', migrate, until=55,
                         body=params.Object(params.Param('migrate', server_schemas.ANY), closed=False)),
    server_actions.route('migrate', migrate, (MIGRATE, 56, None), since=56, checks=(MIGRATE_HOST,)),
    server_actions.route('confirmResize', functools.partial(_end, 'confirmResize', 'confirming'), status=204),
    server_actions.route('revertResize', functools.partial(_end, 'revertResize', 'reverting')),
)
