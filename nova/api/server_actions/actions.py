"""POST /servers/{id}/action: the actions of actions.ACTIONS that compute hosts perform."""
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from oslo_db import exception as db_exc

from nova import actions
from nova import context as nova_context
from nova.db.types import ColumnValues
from nova import exception
from nova import objects
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.server_actions import guest_agent
from nova.api.servers import category as server_category
from nova.api.servers import image_references
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import servers
from nova.api.servers import spec as server_spec
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.projects import quotas
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.json_types import Encodable
from nova.json_types import JsonDocument
from nova.objects import image as image_objects
from nova.objects.image import ImageValues
from nova.web.params import Object
from nova.hardware import guest_options
from nova.web.params import Query
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route

ACTIONS = actions.ACTIONS
ALLOW_VOLUME_BACKED = 'os_compute_api:servers:create_image:allow_volume_backed'
UNLOCK_OVERRIDE = 'os_compute_api:os-lock-server:unlock:unlock_override'


def find_for(req: api_request.Request, conn: engine.Connection, server_id: str, action: actions.Action,
             category_rule: str | None = None) -> InstancesRow:
    """Return the server's row after checking policy, lock and driver capabilities for the action."""
    row = server_lookup.find(req, conn, server_id, action.policy, category_rule=category_rule)
    if action.conditions.locked and row['locked'] and not req.context.is_admin:
        raise exception.InstanceIsLocked(instance_id=server_id)
    requirements = action.requirements
    if requirements.capability and row['host']:
        check_capability(req, conn, row, action)
        guest_agent.check(conn, row, action)
    if requirements.refused_if_encrypted and guest_options.encrypted(row['flavor'], row['image_properties']):
        raise exception.Conflict(f'Cannot run {action.record}: the local disks of this server are encrypted; '
                                 f'{requirements.refused_if_encrypted}.')
    for part in requirements.loses:
        if guest_options.has_part(part, row['flavor'], row['image_properties']):
            raise exception.Conflict(f'Cannot run {action.record}: the server has {part}, whose content would '
                                     'be lost on its host.')
    return row


def find(req: api_request.Request, server_id: str, action: actions.Action,
         category_rule: str | None = None) -> tuple[db_cells.Cell, InstancesRow]:
    """Return (the server's cell, result of ``find_for`` in this cell)."""
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        return cell, find_for(req, conn, server_id, action, category_rule)


def check_capability(req: api_request.Request, conn: engine.Connection, row: InstancesRow,
                     action: actions.Action) -> None:
    """Check that the server's driver has the capability that an action requires.

    :raises Unsupported, Conflict: the capability is missing; the exception depends on the route's documented errors
    """
    capability = action.requirements.capability
    if capability and not capable(conn, row, capability):
        kind: type[exception.NovaException] = exception.Unsupported if 501 in req.route.errors else exception.Conflict
        if action.name == 'trigger_crash_dump':
            kind = exception.BadRequest
        raise kind(f'The hypervisor of this server does not support {action.record}.')


def capable(conn: engine.Connection, row: InstancesRow, feature: str) -> bool:
    """Return True if the driver of the server's host has a capability, or the host has not reported yet."""
    capabilities = compute_nodes.capabilities_of(conn, row['host'], row['node'])
    return capabilities is None or bool(capabilities.get(feature))


def ask_host(req: api_request.Request, server_id: str, rule: str, feature: str | None, method: str,
             **arguments: object) -> tuple[InstancesRow, Any]:
    """Call the server's host; return (the server's row, result of the RPC).

    :param feature: required driver capability, or None
    :raises InstanceNotReady: the server has no host, or the host does not respond
    :raises Unsupported: the driver lacks the capability
    """
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id, rule)
        if not row['host'] or not server_lookup.host_is_up(req, conn, row['host']):
            raise exception.InstanceNotReady(instance_id=server_id)
        if feature and not capable(conn, row, feature):
            raise exception.Unsupported(f'The hypervisor of this server does not support {feature}.')
    try:
        return row, getattr(cell.rpc.compute, method)(
            req.context, server=row['host'], instance=objects.Instance.from_row(row), **arguments)
    except exception.Unavailable:
        raise exception.InstanceNotReady(instance_id=server_id) from None


def begin(req: api_request.Request, cell: db_cells.Cell, server_id: str, action: actions.Action,
          arguments: JsonDocument | None = None, values: ColumnValues | None = None) -> InstancesRow:
    """Run tasks.begin in a transaction; return the updated row."""
    kept = req.services.passwords.encrypted(arguments, server_id)[0] if arguments else None
    return cell.db.run(tasks.begin, req.context, server_id, action, kept, values, req.context.is_admin)


def cast(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow, action: actions.Action,
         **arguments: object) -> None:
    """Cast the action to the server's host."""
    casts.to_host(req, cell, row, getattr(cell.rpc.compute, action.calls.method or ''), **arguments)


def run(req: api_request.Request, server_id: str, action: actions.Action, category_rule: str | None = None,
        **arguments: Encodable) -> None:
    """Begin an action, and cast the action with its arguments to the server's host."""
    cell, _row = find(req, server_id, action, category_rule)
    row = begin(req, cell, server_id, action, arguments or None)
    cast(req, cell, row, action, **arguments)


def plain(name: str, **arguments: bool) -> Callable[[api_request.Request, str], None]:
    """Return the handler of an action that is cast to the host with fixed arguments."""
    return lambda req, id: run(req, id, ACTIONS[name], None, **arguments)


def reboot(req: api_request.Request, id: str) -> None:
    kind = req.body['reboot']['type'].upper()
    run(req, id, ACTIONS['reboot-hard' if kind == 'HARD' else 'reboot'], server_category.REBOOT, reboot_type=kind)


def force_delete(req: api_request.Request, id: str) -> None:
    servers.remove(req, id, ACTIONS['forceDelete'])


# ---- actions without a compute host ------------------------------------------

def lock(req: api_request.Request, id: str) -> None:
    reason = (req.body['lock'] or {}).get('locked_reason') if req.has('locked_reason') else None
    server_lookup.cell_of(req, id).db.run(_lock, req, id, ACTIONS['lock'], reason)


def _lock(conn: engine.Connection, req: api_request.Request, id: str, action: actions.Action,
          reason: str | None) -> None:
    row = server_lookup.locked_row(req, conn, id, action.policy)
    by_admin = row['locked_by'] == 'admin'
    if by_admin and not req.context.is_admin:
        return                       # the server stays locked by the administrator, with the administrator's reason
    owner = row['project_id'] == req.project_id and not by_admin
    tasks.begin(conn, req.context, id, action, admin=req.context.is_admin, values={
        'locked': True, 'locked_by': 'owner' if owner else 'admin', 'locked_reason': reason})


def unlock(req: api_request.Request, id: str) -> None:
    server_lookup.cell_of(req, id).db.run(_unlock, req, id, ACTIONS['unlock'])


def _unlock(conn: engine.Connection, req: api_request.Request, id: str, action: actions.Action) -> None:
    row = server_lookup.locked_row(req, conn, id, action.policy)
    if row['locked_by'] == 'admin':
        req.authorize(UNLOCK_OVERRIDE, server_lookup.target(row))
    tasks.begin(conn, req.context, id, action, admin=req.context.is_admin, values={
        'locked': False, 'locked_by': None, 'locked_reason': None})


def reset_state(req: api_request.Request, id: str) -> None:
    """Set the state of a server and abandon tasks in progress."""
    cell, action = server_lookup.cell_of(req, id), ACTIONS['os-resetState']
    with cell.db.reader() as conn:
        server_lookup.find(req, conn, id, action.policy)
    cell.db.run(_reset, req.context, id, action, req.body['os-resetState']['state'])


def _reset(conn: engine.Connection, context: nova_context.RequestContext, server_id: str, action: actions.Action,
           state: str) -> None:
    instance_actions.finish(conn, server_id, 'reset_state', error='The state was reset by an administrator.')
    server_migrations.abandon(conn, server_id)
    tasks.begin(conn, context, server_id, action, admin=True, values={'vm_state': state, 'task_state': None})


def console_output(req: api_request.Request, id: str) -> JsonDocument:
    length = req.body['os-getConsoleOutput'].get('length')
    _row, output = ask_host(req, id, ACTIONS['os-getConsoleOutput'].policy, None, 'get_console_output',
                            length=None if length is None or length < 0 else length)
    return {'output': output}


# ---- createImage -------------------------------------------------------------

def create_image(req: api_request.Request, id: str) -> JsonDocument | Response:
    wanted, action = req.body['createImage'], ACTIONS['createImage']
    cell, row = find(req, id, action)
    tasks.check_states(row, action)
    if not row['image_id']:
        req.authorize(ALLOW_VOLUME_BACKED, server_lookup.target(row))
        with cell.db.reader() as conn:
            devices = block_devices.by_instance(conn, id)
        for device in devices:
            if device['volume_id']:                  # the action creates a snapshot of each volume
                req.services.volumes.check_create_snapshot(req.context, device['volume_id'])
    row, image_id = begin_with_image(req, cell, id, action, requested_image(req, row, wanted))
    cast(req, cell, row, action, image_id=image_id)
    if req.has('image_id_in_answer'):
        return {'image_id': image_id}
    return Response(headers=(('Location', req.image_url(image_id)),))


def begin_with_image(req: api_request.Request, cell: db_cells.Cell, server_id: str, action: actions.Action,
                     image: ImageValues, arguments: JsonDocument | None = None) -> tuple[InstancesRow, str]:
    """Begin an action and create the image that the action fills; return (the server's updated row, ID of the image).

    The action is stored first with the image's ID, so that an unfinished image can be found and deleted.
    """
    image_id = str(uuid.uuid4())
    row = begin(req, cell, server_id, action, {'image_id': image_id, **(arguments or {})})
    try:
        req.services.images.create(req.context, {'id': image_id, **image})
    except Exception as error:
        cell.db.run(tasks.cancel, req.context, server_id, action)
        if isinstance(error, (exception.Unavailable, engine.CommitUnanswered)):            # the image may be stored
            with contextlib.suppress(exception.NovaException, db_exc.DBError):
                req.services.images.delete(req.context, image_id)
        raise
    return row, image_id


def snapshot_of(req: api_request.Request, row: InstancesRow, name: str,
                metadata: dict[str, str]) -> ImageValues:
    """Return the image that a snapshot of the server will fill.

    The kernel and ramdisk of the server are included if the caller may see them.

    :raises BadRequest: ``metadata`` names an image that is not visible to the caller
    """
    image_references.check(req, metadata)
    inherited = {key: str(value) for key, value in row['image_properties'].items()
                 if key not in image_objects.NOT_INHERITED and value is not None}
    own = {'image_type': 'snapshot', 'instance_uuid': row['uuid'], 'user_id': row['user_id'],
           'owner_id': row['project_id']}
    if row['image_id']:
        own['base_image_ref'] = row['image_id']
    return {'name': name, 'visibility': 'private', 'min_disk': row['root_gb'] if row['image_id'] else 0,
            'properties': {**image_references.found(req, inherited), **own, **metadata}}


def requested_image(req: api_request.Request, row: InstancesRow,
                    wanted: dict[str, Any]) -> ImageValues:
    """Return the values of the image for a request with ``name`` and ``metadata``.

    :raises LimitExceeded, BadRequest: the metadata exceed the quota or name unknown images
    """
    metadata = wanted.get('metadata', {})
    if not req.has('no_image_metadata'):
        with req.services.api_db.reader() as conn:
            server_spec.check_metadata(metadata, quotas.limits_of(
                conn, req.services.conf, req.project_id, req.user_id))
    return snapshot_of(req, row, wanted['name'], metadata)


# ---- routes ------------------------------------------------------------------

_PATH = '/servers/{id}/action'
_ALWAYS = (401, 403, 404, 409)


def route(name: str, handler: Callable[..., Response | Content], *types: server_schemas.VersionedType,
          body: Object | None = None, errors: tuple[int, ...] = (400, *_ALWAYS), checks: tuple[str, ...] = (),
          query: Query | None = None, status: int = 202, since: int = 1, until: int | None = None) -> Route:
    """Return the Route of an action; for ``types`` see server_schemas.action."""
    return Route('POST', _PATH, handler, ACTIONS[name].policy, checks, since, until, status, errors=errors,
                 body=body or server_schemas.action(name, *types), query=query, action=name)


ROUTES = (
    *(route(name, plain(name, **arguments), errors=errors) for name, arguments, errors in (
        ('os-start', {}, _ALWAYS), ('os-stop', {'clean_shutdown': True}, _ALWAYS),
        ('pause', {}, (*_ALWAYS, 501)), ('unpause', {}, (*_ALWAYS, 501)),
        ('suspend', {}, (400, *_ALWAYS)), ('resume', {}, (400, *_ALWAYS)))),
    route('reboot', reboot, (server_schemas.REBOOT, 1, None), checks=(server_category.REBOOT,),
          query=server_schemas.OF_CATEGORY),
    route('forceDelete', force_delete, errors=_ALWAYS),
    route('lock', lock, (server_schemas.ANY, 1, 72), (server_schemas.LOCK, 73, None), errors=_ALWAYS),
    route('unlock', unlock, checks=(UNLOCK_OVERRIDE,), errors=_ALWAYS),
    route('os-resetState', reset_state, (server_schemas.RESET_STATE, 1, None)),
    route('os-getConsoleOutput', console_output, (server_schemas.CONSOLE_OUTPUT, 1, None), status=200,
          errors=(400, *_ALWAYS, 501)),
    route('createImage', create_image, (server_schemas.CREATE_IMAGE, 1, None), checks=(ALLOW_VOLUME_BACKED,)),
)
