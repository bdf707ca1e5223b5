"""/servers/{id}/os-volume_attachments: volumes of a server.

An attach first stores the block device mapping and the open action. Then it reserves the volume in the block storage
service, which refuses conflicting requests, and casts to the host. Without a host, the volume is only reserved.

A swap reserves the new volume first, because the arguments of its action name the attachment. If the request ends
before the action is stored, a detach of the new volume releases it.
"""
import contextlib
import dataclasses
import uuid
from collections.abc import Callable
from typing import Any

from nova import actions
from nova import context as nova_context
from nova import exception
from nova.json_types import JsonDocument
from nova import states
from nova.api import notifications
from nova.api import request as api_request
from nova.api import shapes
from nova.api.server_actions import actions as server_actions
from nova.api.servers import device_sources
from nova.api.servers import category as server_category
from nova.api.servers import devices as server_devices
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import compute_nodes
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.db.tables.rows import BlockDeviceMappingsRow
from nova.db.tables.rows import InstancesRow
from nova.virt import driver
from nova.volume.api import Volume
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.request import Response
from nova.web.routes import Route

_RULE = 'os_compute_api:os-volumes-attachments:'
ATTACH, DETACH, SWAP = (actions.ACTIONS[name] for name in ('attach_volume', 'detach_volume', 'swap_volume'))
_SHELVED = (states.SHELVED, states.SHELVED_OFFLOADED)

VIEW = Fields(
    Field('id', 'volume_id', until=88, type='string format=uuid required'),
    Field('serverId', 'instance_uuid', type='string format=uuid required'),
    Field('volumeId', 'volume_id', type='string format=uuid required'),
    Field('device', 'device_name', type='string|null pattern (^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*$'),
    Field('tag', 'tag', since=70, type=shapes.TAG),
    Field('delete_on_termination', 'delete_on_termination', since=79, type=shapes.DELETE_ON_TERMINATION),
    Field('attachment_id', 'attachment_id', since=89, type='string format=uuid required'),
    Field('bdm_uuid', 'uuid', since=89, type='string format=uuid required'),
)

_DEVICE = {'type': ['string', 'null'], 'pattern': r'(^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*$', 'maxLength': 255}
LIST = params.Query(params.Param('limit', params.LIMIT), params.Param('offset', params.LIMIT), closed=75)
CREATE = params.document(
    'volumeAttachment', params.Param('volumeId', params.UUID, required=True),
    params.Param('device', _DEVICE),
    params.Param('tag', server_schemas.TAG, since=49),
    params.Param('delete_on_termination', params.BOOLEAN, since=79))
UPDATE = params.document(
    'volumeAttachment', params.Param('volumeId', params.UUID, required=True),
    params.Param('device', _DEVICE, since=85),
    params.Param('tag', params.string(1, 60, '^[^,/]*$'), since=85),
    params.Param('delete_on_termination', params.BOOLEAN, since=85),
    params.Param('serverId', params.UUID, since=85),
    params.Param('id', params.UUID, since=85))


# ---- list and show -----------------------------------------------------------

def _volumes(conn: engine.Connection, server_id: str) -> list[BlockDeviceMappingsRow]:
    return [row for row in block_devices.by_instance(conn, server_id) if row['volume_id']]


def _attached(conn: engine.Connection, server_id: str, volume_id: str) -> BlockDeviceMappingsRow:
    """Return the block device mapping of an attached volume.

    :raises VolumeNotFound: the volume is not attached to the server
    """
    for row in _volumes(conn, server_id):
        if row['volume_id'] == volume_id:
            return row
    raise _not_attached(server_id, volume_id)


def _not_attached(server_id: str, volume_id: str) -> exception.VolumeNotFound:
    return exception.VolumeNotFound(f'Volume {volume_id[:80]} is not attached to server {server_id}.')


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server_lookup.find(req, conn, server_id, _RULE + 'index')
        rows = _volumes(conn, server_id)
    most = req.services.conf.api.max_limit
    start = req.query.one('offset', 0)
    limit = min(req.query.one('limit', most), most)
    build = VIEW.builder(req)
    return {'volumeAttachments': [build(row) for row in rows[start:start + limit]]}


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server_lookup.find(req, conn, server_id, _RULE + 'show')
        row = _attached(conn, server_id, id)
    return {'volumeAttachment': VIEW.builder(req)(row)}


# ---- shared steps of changes -------------------------------------------------

def _find(req: api_request.Request, conn: engine.Connection, server_id: str, action: actions.Action) -> InstancesRow:
    """Return the server's row after checking policy, lock, state and driver for the action."""
    row = server_actions.find_for(req, conn, server_id, action)
    if row['vm_state'] in _SHELVED and not req.has('volumes_on_shelved'):
        raise exception.InstanceInvalidState(attr='vm_state', instance_id=server_id, method=action.name,
                                             state=row['vm_state'])
    tasks.check_states(row, action)
    return row


def _begin(conn: engine.Connection, req: api_request.Request, server_id: str, action: actions.Action,
           arguments: dict[str, Any], change: Callable[[engine.Connection], Any]) -> tuple[InstancesRow, Any]:
    """Begin the action and run ``change(conn)`` under the server's lock; return (row, result of change).

    If the server has no host, ``change`` completes the action, so the action record is closed.
    """
    instances.lock(conn, server_id)
    current = instances.get(conn, server_id)
    if current['host'] is None:
        action = dataclasses.replace(action, calls=actions.Calls(), background=False)
    row = tasks.begin(conn, req.context, server_id, action, arguments, admin=req.context.is_admin)
    return row, change(conn)


def _arguments(req: api_request.Request, device: api_request.Row) -> api_request.Document:
    """Return the arguments needed to repeat the action and to publish its notifications."""
    return {'bdm_uuid': device['uuid'], **notifications.for_events(req, volume_id=device['volume_id'])}


def _forget(conn: engine.Connection, req: api_request.Request, server_id: str, bdm_uuid: str | None = None) -> None:
    """Undo ``_begin``."""
    instance_actions.forget(conn, server_id, req.context.request_id, finished=True)
    if bdm_uuid:
        block_devices.delete(conn, bdm_uuid)


# ---- attach ------------------------------------------------------------------

def create(req: api_request.Request, server_id: str) -> JsonDocument | Response:
    given = req.body['volumeAttachment']
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = _find(req, conn, server_id, ATTACH)
    volume = server_category.find_volume(req, given['volumeId'])
    device_sources.check_multiattach(req, volume)
    if volume['multiattach'] and row['vm_state'] == states.SHELVED_OFFLOADED:
        raise exception.BadRequest('Attaching multiattach volumes is not supported for shelved-offloaded instances.')
    if given.get('tag') and row['vm_state'] == states.SHELVED_OFFLOADED:
        raise exception.BadRequest('Tagged volume attachment is not supported for shelved-offloaded instances.')
    device = {'uuid': str(uuid.uuid4()), **server_devices.row('volume', destination_type='volume',
              volume_id=volume['id'], volume_size=volume['size'], device_name=given.get('device'), tag=given.get('tag'),
              delete_on_termination=given.get('delete_on_termination', False))}
    row, device = cell.db.run(_begin, req, server_id, ATTACH, _arguments(req, device),
                              lambda conn: _add(conn, req, row, device))
    device = _reserve(req, cell, server_id, device, complete=not row['host'])
    if row['host']:
        server_actions.cast(req, cell, row, ATTACH, bdm_uuid=device['uuid'])
    else:
        cell.db.run(block_devices.show_volumes, server_id)
    if req.has('async_attach'):
        return Response(status=202)
    return {'volumeAttachment': CREATED.builder(req)({**device, 'instance_uuid': server_id})}


CREATED = Fields(Field('id', 'volume_id'), *(field for field in VIEW.rows if field.until is None and field.since < 89))


def _add(conn: engine.Connection, req: api_request.Request, row: InstancesRow,
         device: api_request.Document) -> api_request.Document:
    """Store the block device mapping with the requested or a free device name."""
    present = block_devices.by_instance(conn, row['uuid'])
    if any(each['volume_id'] == device['volume_id'] for each in present):
        raise exception.InvalidVolume(reason=f'volume {device["volume_id"]} is already attached to {row["uuid"]}')
    honoured = req.header(shapes.DEVICE_NAME) == 'label' or _names_disks(conn, row)
    local = local_disks(row)
    if local + len(present) >= req.services.conf.volume.max_devices:
        raise exception.TooManyDiskDevices(maximum=req.services.conf.volume.max_devices)
    root = row['root_device_name'] or server_devices.ROOT
    taken = {each['device_name'] for each in present}
    taken |= {root[:-1] + chr(ord('a') + number) for number in range(local)}
    if device['device_name'] in taken:
        raise exception.DevicePathInUse(path=device['device_name'])
    wanted, taken = device['device_name'] if honoured else None, taken | {root}
    if not honoured and row['config_drive']:             # keep the first free name for the config drive
        taken |= {server_devices.next_name(taken, root)}
    device = {**device, 'device_name': wanted or server_devices.next_name(taken, root)}
    block_devices.insert(conn, row['uuid'], [device])
    return device


def _names_disks(conn: engine.Connection, row: InstancesRow) -> bool:
    """Return True if the server's guest uses requested device names; some hypervisors choose the names."""
    found = compute_nodes.capabilities_of(conn, row['host'], row['node']) or {}
    return found.get(driver.DEVICE_NAMES, True)


def local_disks(row: InstancesRow) -> int:
    """Return the number of disks that are not volumes: root, ephemeral, swap."""
    return sum((bool(row['image_id']), bool(row['ephemeral_gb']), bool((row['flavor'] or {}).get('swap'))))


def _reserve(req: api_request.Request, cell: db_cells.Cell, server_id: str, device: api_request.Document,
             complete: bool) -> api_request.Document:
    """Reserve the volume in the block storage service; return the device with the ID of the attachment.

    :param complete: whether to mark the volume as in use, because no host will attach it now
    """
    volumes, attachment_id = req.services.volumes, None
    try:
        attachment_id = volumes.attach(req.context, device['volume_id'], server_id)
        if complete:
            volumes.complete(req.context, attachment_id)
    except Exception:
        if attachment_id is not None:
            try:
                volumes.detach(req.context, attachment_id)
            except Exception:                 # the volume remains reserved for the server, and can be detached
                cell.db.run(block_devices.update, device['uuid'], {'attachment_id': attachment_id})
                raise
        cell.db.run(_forget, req, server_id, device['uuid'])
        raise
    if not cell.db.run(block_devices.update, device['uuid'], {'attachment_id': attachment_id}):
        req.services.volumes.detach(req.context, attachment_id)
        raise exception.InstanceNotFound(instance_id=server_id)        # the server was deleted during the request
    return {**device, 'attachment_id': attachment_id}


# ---- detach ------------------------------------------------------------------

def delete(req: api_request.Request, server_id: str, id: str) -> None:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = _find(req, conn, server_id, DETACH)
        try:
            device = _attached(conn, server_id, id)
        except exception.VolumeNotFound:
            if instance_actions.is_open(conn, server_id, SWAP.record):            # it may have reserved the volume
                raise
            device = None
    if device is None:
        return _release(req, server_id, id)
    if device['boot_index'] == 0:
        raise exception.Forbidden('Cannot detach a root device volume')
    req.services.volumes.check_detach(req.context, id)
    row, _ = cell.db.run(_begin, req, server_id, DETACH, _arguments(req, device),
                         lambda conn: _attached(conn, server_id, id))
    if row['host']:
        _begin_detaching(req, cell, server_id, device)
        server_actions.cast(req, cell, row, DETACH, bdm_uuid=device['uuid'])
    else:                                     # no host: the volume is only reserved
        try:
            if device['attachment_id']:
                req.services.volumes.detach(req.context, device['attachment_id'])
        except Exception:
            cell.db.run(_forget, req, server_id)
            raise
        cell.db.run(_drop, server_id, device['uuid'])


def _release(req: api_request.Request, server_id: str, volume_id: str) -> None:
    """Release a volume that a swap has reserved whose request ended before it was recorded.

    :raises VolumeNotFound: the volume is not reserved for the server
    """
    volumes = req.services.volumes
    reserved = volumes.attachments_of(req.context, server_id, volume_id)
    if not reserved:
        raise _not_attached(server_id, volume_id)
    volumes.check_detach(req.context, volume_id)
    for attachment_id in reserved:
        volumes.detach(req.context, attachment_id)


def _begin_detaching(req: api_request.Request, cell: db_cells.Cell, server_id: str,
                     device: BlockDeviceMappingsRow) -> None:
    """Mark the volume as being detached; if this fails, undo ``_begin``.

    Call this after ``_begin``: if the volume were marked first, a request that ends in between would leave the volume
    'detaching'.
    """
    try:
        _mark_as_detaching(req, device)
    except Exception as error:
        cell.db.run(_forget, req, server_id)
        if isinstance(error, (exception.Unavailable, engine.CommitUnanswered)):            # the volume may be marked
            with contextlib.suppress(exception.NovaException):
                req.services.volumes.roll_detaching(req.context, device['volume_id'])
        raise


def _mark_as_detaching(req: api_request.Request, device: BlockDeviceMappingsRow) -> None:
    """Mark a volume as being detached, and before as in use if a move ended while the block storage was away."""
    volumes, volume_id = req.services.volumes, device['volume_id']
    try:
        volumes.begin_detaching(req.context, volume_id)
    except exception.InvalidVolume:
        if (not device['attachment_id'] or device['connection_info'] is None
                or volumes.get(req.context, volume_id)['status'] != 'attaching'):
            raise
        volumes.complete(nova_context.admin_context(req.request_id), device['attachment_id'])
        volumes.begin_detaching(req.context, volume_id)


def _drop(conn: engine.Connection, server_id: str, bdm_uuid: str) -> None:
    block_devices.delete(conn, bdm_uuid)
    block_devices.show_volumes(conn, server_id)


# ---- update and swap ---------------------------------------------------------

def update(req: api_request.Request, server_id: str, id: str) -> None:
    """Until 2.84 swap the volume; since 2.85 optionally change delete_on_termination instead."""
    given = req.body['volumeAttachment']
    if req.has('volume_attachment_update') and given['volumeId'] == id:
        return _change(req, server_id, id, given)
    return _swap(req, server_id, id, given['volumeId'])


def _change(req: api_request.Request, server_id: str, volume_id: str, given: api_request.Document) -> None:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        server_lookup.find(req, conn, server_id, _RULE + 'update')
        device = _attached(conn, server_id, volume_id)
    same = {'device': device['device_name'], 'tag': device['tag'], 'serverId': server_id, 'id': volume_id}
    for name, value in same.items():
        if name in given and given[name] != value:
            raise exception.BadRequest(f'The volume attachment field {name} cannot be updated.')
    if 'delete_on_termination' in given:
        cell.db.run(_rewrite, server_id, device['uuid'], given['delete_on_termination'])


def _rewrite(conn: engine.Connection, server_id: str, bdm_uuid: str, value: bool) -> None:
    instances.lock(conn, server_id)
    block_devices.update(conn, bdm_uuid, {'delete_on_termination': value})
    block_devices.show_volumes(conn, server_id)


def _swap(req: api_request.Request, server_id: str, old_id: str, new_id: str) -> None:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = _find(req, conn, server_id, SWAP)
        device = _attached(conn, server_id, old_id)
    old = req.services.volumes.get(req.context, old_id)
    new = _replacement(req, old, new_id)
    volumes = req.services.volumes
    volumes.check_detach(req.context, old_id)
    attachment_id = volumes.attach(req.context, new['id'], server_id)
    arguments = {'bdm_uuid': device['uuid'], 'new_volume_id': new['id'], 'new_attachment_id': attachment_id}
    try:
        row, _ = cell.db.run(_begin, req, server_id, SWAP, {**_arguments(req, device), **arguments},
                             lambda conn: _attached(conn, server_id, old_id))
    except engine.CommitUnanswered:
        raise                                     # the action may be stored: the reconciler repeats it or gives it up
    except Exception:
        volumes.detach(req.context, attachment_id)
        raise
    try:
        _begin_detaching(req, cell, server_id, device)
    except Exception:
        volumes.detach(req.context, attachment_id)
        raise
    server_actions.cast(req, cell, row, SWAP, **arguments)


def _replacement(req: api_request.Request, old: api_request.Document, new_id: str) -> Volume:
    """Return the new volume of a swap, after checking that it can replace the old one.

    :raises BadRequest: the volume does not exist or is unsuitable
    """
    with exception.AsBadRequest(exception.VolumeNotFound):
        new = server_category.find_volume(req, new_id)
    if new['id'] == old['id']:
        raise exception.InvalidVolume(reason='old and new volume are the same')
    if new['status'] != 'available':
        raise exception.InvalidVolume(reason=f"volume '{new['id']}' status must be 'available'. Currently in "
                                             f"'{new['status']}'")
    if new['size'] < old['size']:
        raise exception.InvalidVolume(reason='New volume must be the same size or larger.')
    if old['multiattach'] and len(old['attachments']) > 1:
        raise exception.BadRequest('Swapping multi-attach volumes with more than one attachment is not supported.')
    return new


# ---- routes ------------------------------------------------------------------

_PATH = '/servers/{server_id}/os-volume_attachments'
_READ = (401, 403, 404)
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', query=LIST, errors=_READ),
    Route('POST', _PATH, create, policy=_RULE + 'create', body=CREATE, status={1: 200, 101: 202},
          errors=(400, *_READ, 409)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', errors=_READ),
    Route('PUT', _PATH + '/{id}', update, policy=None, checks=(_RULE + 'update', SWAP.policy), body=UPDATE,
          status=202, errors=(400, *_READ, 409)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', status=202, errors=(400, *_READ, 409)),
)
