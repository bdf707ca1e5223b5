"""Reports of hosts about guests that differ from the rows of servers, and updates of these rows."""
import json
from typing import Any, TypedDict

import sqlalchemy as sa

from nova.db.tables.rows import BlockDeviceMappingsRow
from nova import differences
from nova import objects
from nova.objects.block_device import AttachedVolume
from nova.objects.block_device import KnownAttachment
from nova import states
from nova import utils
from nova.db import statements
from nova.db.moves import migrations
from nova.db.placement import claims
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as t
from nova.db.tables.rows import GuestReportsRow
from nova.db.tables.rows import InstancesRow
from nova.objects import faults

EVENT = 'conductor_follow_guest'
_NOT_STORED = ('id', 'updated_at', 'deleted_at')
_SIZES = ('flavor', 'flavor_id', 'vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb')        # columns of a flavor


class Report(TypedDict):
    """Report of a host about a guest that differs from the row of its server.

    ``server``: fields of the server in the host's guest record. ``volumes``: {volume id: attached volume} of the guest.
    """

    instance_uuid: str
    kind: str
    generation: int
    power_state: int
    server: dict[str, Any]
    volumes: dict[str, AttachedVolume]


def replace(conn: sa.Connection, host: str, reports: list[Report], done: list[str]) -> set[str]:
    """Replace a host's reports of unresolved differences; return the uuids of servers with resolved differences.

    The host must still plug the interfaces and volumes of the returned servers.
    :param done: uuids of servers with resolved differences that the host has plugged
    """
    c = t.guest_reports.c
    conn.execute(sa.delete(t.guest_reports).where(c.host == host, sa.or_(
        c.resolved.is_(sa.false()), c.instance_uuid.in_(done))))
    resolved = {(row.instance_uuid, row.kind) for row in conn.execute(
        sa.select(c.instance_uuid, c.kind).where(c.host == host))}
    now = utils.utcnow()
    rows = [{'host': host, 'reported_at': now, 'resolved': False, **report} for report in reports
            if (report['instance_uuid'], report['kind']) not in resolved]
    if rows:
        conn.execute(sa.insert(t.guest_reports), rows)
    return {uuid for uuid, _kind in resolved}


def every(conn: sa.Connection) -> list[GuestReportsRow]:
    """Return all reports of unresolved differences, by server and host."""
    return statements.rows(conn, t.guest_reports, ('instance_uuid', 'host', 'kind'), resolved=False)


def resolve(conn: sa.Connection, report: GuestReportsRow, plugs: bool) -> None:
    """Mark a difference as resolved.

    :param plugs: whether the host must still plug the guest
    """
    if plugs:
        statements.update(conn, t.guest_reports, {'resolved': True}, id=report['id'])
    else:
        statements.delete(conn, t.guest_reports, id=report['id'])


def follow(conn: sa.Connection, row: InstancesRow, report: Report, host: str) -> None:
    """Update a server's row to match its guest: set host, flavor and state, and end the server's task and move.

    :raises ValueError: the guest has another flavor, and the record of the host does not describe it
    """
    uuid, server = row['uuid'], report['server']
    for move in migrations.open_of(conn, uuid):
        migrations.release(conn, move['id'], status='error')
    instances.lock(conn, uuid)
    row = instances.get(conn, uuid)
    values: dict[str, Any] = {
        'generation': max(row['generation'], report['generation']), 'task_state': None,
        'power_state': report['power_state'],
        'vm_state': differences.vm_state_of(server.get('vm_state'), report['power_state'])}
    resized = is_resized(row, report)
    if resized:
        known = entered(server, uuid)
        values.update({name: known[name] for name in _SIZES})
    if resized or row['host'] != host:
        claims.free(conn, row)               # the audit of the claims counts the guest
        values.update(_place(conn, host, server.get('node')), host=host, numa_topology=server.get('numa_topology'))
    if isinstance(server.get('network_info'), list):
        values['network_info'] = server['network_info']
    instances.update(conn, uuid, values)
    instance_actions.finish(conn, uuid, EVENT, host=host)


def is_resized(row: InstancesRow, report: Report | GuestReportsRow) -> bool:
    """Tell whether the guest has another flavor than the row of its server."""
    return report['server'].get('flavor') not in (None, row['flavor'])


def enter(conn: sa.Connection, report: Report, host: str) -> InstancesRow:
    """Insert the missing row of a server with a guest, from the record of the host; return the row.

    :raises ValueError: the record does not describe a server
    """
    values = entered(report['server'], report['instance_uuid'])
    values.update(_place(conn, host, values['node']), host=host, generation=report['generation'],
                  power_state=report['power_state'],
                  vm_state=differences.vm_state_of(values['vm_state'], report['power_state']), task_state=None)
    instances.insert(conn, [values])
    return instances.get(conn, report['instance_uuid'])


def entered(server: dict[str, Any], uuid: str) -> dict[str, Any]:
    """Return the columns of a server from the record of its host.

    :raises ValueError: the record does not describe this server
    """
    primitive = {'nova_object.name': 'Instance', 'nova_object.namespace': 'nova',
                 'nova_object.version': objects.Instance.VERSION, 'nova_object.data': server}
    try:
        found = objects.Instance.obj_from_primitive(json.loads(json.dumps(primitive)))
        values = {name: getattr(found, name) for name in instances.COLUMNS
                  if name in objects.Instance.fields and name not in _NOT_STORED}
    except Exception as error:           # the fields of versioned objects may raise any error
        raise ValueError(f'the record of server {uuid} is incomplete: {error}') from None
    if values['uuid'] != uuid:
        raise ValueError(f'the record of server {uuid} contains the id of server {str(values["uuid"])[:36]}')
    return {**values, 'volumes': []}


def lose(conn: sa.Connection, row: InstancesRow, host: str) -> bool:
    """Set a server without a guest to ERROR; return False if the row has changed since the report."""
    fault = faults.fault(ValueError(), message=f'Host {host} has no guest of this server.')
    if not instances.set_where(conn, row['uuid'], {
            'vm_state': states.ERROR, 'task_state': None, 'power_state': states.NOSTATE, 'fault': fault},
            {'host': host, 'generation': row['generation']}):
        return False
    instance_actions.finish(conn, row['uuid'], EVENT, host=host, error=fault['message'])
    return True


def devices_of(conn: sa.Connection, uuid: str) -> dict[str, BlockDeviceMappingsRow]:
    """Return {volume id: block device} of a server."""
    return {str(device['volume_id']): device for device in block_devices.by_instance(conn, uuid)
            if device['volume_id'] is not None}


def of_host(conn: sa.Connection, host: str) -> dict[str, set[str]]:
    """Return {uuid: ids of its volumes} of the servers of a host."""
    c = t.instances.c
    statement = sa.select(c.uuid, t.block_device_mappings.c.volume_id).join(
        t.block_device_mappings, t.block_device_mappings.c.instance_uuid == c.uuid, isouter=True).where(c.host == host)
    found: dict[str, set[str]] = {}
    for row in conn.execute(statement):
        found.setdefault(row.uuid, set()).update([row.volume_id] if row.volume_id else ())
    return found


def set_volumes(conn: sa.Connection, uuid: str, volumes: dict[str, AttachedVolume],
                attached: dict[str, KnownAttachment]) -> None:
    """Replace the block devices of a server by those of its guest. The host then connects the volumes again.

    :param volumes: {volume id: volume} of the guest
    :param attached: {volume id: attachment}
    """
    rows = devices_of(conn, uuid)
    missing, gone = differences.of_volumes(volumes, rows)
    for volume_id in gone:
        block_devices.delete(conn, rows[volume_id]['uuid'])
    for volume_id, found in volumes.items():
        values: dict[str, Any] = {
            'attachment_id': found.get('attachment_id'), **attached.get(volume_id, {}), 'connection_info': None}
        if volume_id in missing:
            block_devices.insert(conn, uuid, [{
                'source_type': 'volume', 'destination_type': 'volume', 'device_name': found.get('device_name'),
                'volume_id': volume_id, **values}])
        else:
            block_devices.update(conn, rows[volume_id]['uuid'], {
                name: value for name, value in values.items() if value is not None or name == 'connection_info'})
    block_devices.show_volumes(conn, uuid)


def _place(conn: sa.Connection, host: str, node: str | None) -> dict[str, Any]:
    """Return {'node', 'availability_zone'} of a guest on a host.

    :param node: node in the record of the host, which may be unknown
    """
    c = t.compute_nodes.c
    nodes = list(conn.execute(sa.select(c.node).where(c.host == host).order_by(c.id)).scalars())
    return {'node': node if node in nodes else next(iter(nodes), None),
            'availability_zone': conn.execute(sa.select(t.services.c.availability_zone).where(
                t.services.c.host == host, t.services.c.topic == 'compute')).scalar()}
