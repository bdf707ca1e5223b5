"""/os-assisted-volume-snapshots: hypervisor-assisted snapshots for the block storage service."""
from typing import Any

from nova import exception
from nova.api.servers import casts
from nova.api import cell_queries
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.db.cells import cells as db_cells
from nova.db.placement import compute_nodes
from nova.db.servers import block_devices
from nova.db.servers import instances
from nova.db.tables.rows import InstancesRow
from nova.hardware import disks
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import json_text
from nova.web import params
from nova.web.routes import Route

_RULE = 'os_compute_api:os-assisted-volume-snapshots:'
FEATURE = 'assisted_snapshots'
FILES = ('file_to_merge', 'merge_target_file')

CREATE = params.document(
    'snapshot', params.Param('volume_id', params.string(1), required=True),
    params.Param('create_info', params.Object(
        params.Param('snapshot_id', params.string(1, 255), required=True),
        params.Param('type', {'type': 'string', 'enum': ['qcow2']}, required=True),
        params.Param('new_file', params.string(1, 4096), required=True),
        params.Param('id', params.string(1, 255)),
    ), required=True))
DELETE = params.Query(params.Param('delete_info', params.STRING), closed=75)


def create(req: api_request.Request) -> JsonDocument:
    wanted = req.body['snapshot']
    snapshot_id = wanted['create_info'].get('id')
    _check_file('new_file', wanted['create_info']['new_file'])
    if snapshot_id is not None and not formats.is_uuid(snapshot_id):
        raise exception.BadRequest(f'{snapshot_id!r} is not the UUID of a snapshot.')
    cell, row = _server_of(req, wanted['volume_id'], exception.BadRequest)
    casts.to_host(req, cell, row, cell.rpc.compute.create_volume_snapshot, volume_id=wanted['volume_id'],
                  create_info=wanted['create_info'])
    return {'snapshot': {'id': snapshot_id, 'volumeId': wanted['volume_id']}}


def delete(req: api_request.Request, id: str) -> None:
    info = _delete_info(req.query.one('delete_info'))
    cell, row = _server_of(req, info['volume_id'], exception.NotFound)
    casts.to_host(req, cell, row, cell.rpc.compute.delete_volume_snapshot, volume_id=info['volume_id'], snapshot_id=id,
                  delete_info=info)


def _delete_info(text: str | None) -> api_request.Document:
    """Parse delete_info, the JSON object in the query.

    :raises BadRequest: the object is malformed
    """
    try:
        info = json_text.parse(text or '')
    except ValueError:
        info = None
    if not isinstance(info, dict) or not isinstance(info.get('volume_id'), str) or '\0' in info['volume_id']:
        raise exception.BadRequest('delete_info must be a JSON object with the volume_id of the snapshot.')
    if info.get('type', disks.QCOW2) != disks.QCOW2:
        raise exception.BadRequest('The type in delete_info can only be qcow2.')
    for key in FILES:
        if info.get(key) is not None:
            _check_file(key, info[key])
    if info.get(FILES[1]) is not None and info.get(FILES[0]) is None:
        raise exception.BadRequest('delete_info names no file_to_merge for its merge_target_file.')
    return {key: info.get(key) for key in ('volume_id', 'type', *FILES)}


def _check_file(key: str, name: object) -> None:
    """Check a file name.

    :raises BadRequest: the name may lead out of the directory of the volume
    """
    if not isinstance(name, str) or not disks.FILE_NAME.match(name):
        raise exception.BadRequest(f'{key} must be {disks.FILE_NAME_RULE}, not {name!r:.80}.')


def _server_of(req: api_request.Request, volume_id: str,
               missing: type[exception.NovaException]) -> tuple[db_cells.Cell, InstancesRow]:
    """Return (cell, row) of the only server with the volume, if its host supports these snapshots.

    :param missing: exception class if the volume is not attached
    :raises BadRequest: several servers have the volume, the host is down, or its driver lacks the capability
    """
    cell, devices = cell_queries.first(req, lambda conn: block_devices.by_volume(conn, volume_id))
    uuids = {device['instance_uuid'] for device in devices or ()}
    if cell is None:
        raise missing(f'Volume {volume_id[:80]} is not attached to a server.')
    if len(uuids) > 1:
        raise exception.BadRequest(f'Volume {volume_id[:80]} is attached to more than one server.')
    for device in devices:
        if device['connection_info'] is not None:
            _check_connection(req, volume_id, device['connection_info'])
    with cell.db.reader() as conn:
        row = instances.get(conn, *uuids)
        nodes = compute_nodes.by_host(conn, row['host']) if row['host'] else []
        up = row['host'] and server_lookup.host_is_up(req, conn, row['host'])
    if not up:
        raise exception.BadRequest(f'The server of volume {volume_id[:80]} has no host that is up.')
    if not any(node['node'] == row['node'] and (node['capabilities'] or {}).get(FEATURE) for node in nodes):
        raise exception.BadRequest('The hypervisor of this server does not support chains of volume snapshots. A '
                                   'full copy is possible after detaching the volume.')
    return cell, row


def _check_connection(req: api_request.Request, volume_id: str, info: dict[str, Any]) -> None:
    """Check that the volume supports snapshot chains.

    :raises BadRequest: the volume's driver does not use files, or its block storage service does not support chains
    """
    if info['driver_volume_type'] not in disks.CHAINS or not req.services.volumes.keeps_chains:
        raise exception.BadRequest(
            f'Volume {volume_id[:80]} of type {str(info["driver_volume_type"])[:40]} does not support snapshot chains: '
            f'only {" or ".join(disks.CHAINS)} volumes of Cinder do. Create snapshots with its block storage service.')


_PATH = '/os-assisted-volume-snapshots'
ROUTES = (
    Route('POST', _PATH, create, policy=_RULE + 'create', body=CREATE, errors=(400,)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', query=DELETE, status=204, errors=(400, 404)),
)
