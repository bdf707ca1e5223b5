"""Attachment and detachment of ports that need a device of the host (SR-IOV).

The flavor in the server's row contains the device requests of ports, because the scheduler reads the flavor. The
transaction that begins an attachment adds the request and claims the device. The transaction that marks the attachment
as failed, or ends the detachment, removes the request and releases the device.
"""
from collections.abc import Iterable

import sqlalchemy as sa

from nova import actions
from nova import exception
from nova.json_types import JsonDocument
from nova import states
from nova.context import RequestContext
from nova.db.moves import migrations as server_migrations
from nova.db.placement import numa_claims
from nova.db.placement import pci_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.objects import numa
from nova.objects import pci
from nova.objects.flavor import Flavor

# {(event, whether the action failed)} of the ended actions after which the server does not have the port
_WITHOUT = {('compute_attach_interface', True), ('compute_detach_interface', False)}


def begin(conn: sa.Connection, ctx: RequestContext, uuid: str, action: actions.Action, arguments: JsonDocument,
          request: pci.Request, admin: bool | None = False) -> InstancesRow:
    """Begin to attach a port that needs a device of the server's host, and claim the device; see tasks.begin.

    :raises Conflict: no suitable device is free near the guest; the transaction is rolled back
    """
    instances.lock(conn, uuid)
    flavor = instances.get(conn, uuid)['flavor']
    port_id, known = request.request_id, pci.of_ports(flavor)
    if port_id in known:
        raise exception.Conflict(f'Port {port_id} of instance {uuid} is being attached or detached already.')
    values = {'flavor': pci.with_ports(flavor, [*known.values(), request])}
    row = tasks.begin(conn, ctx, uuid, action, arguments, values, admin)
    host, node = row['host'], row['node']
    if host is None or node is None or not _claim(conn, host, node, row, request):
        raise exception.Conflict(f'The host of instance {uuid} has no free device for port {port_id}.')
    return row


def _claim(conn: sa.Connection, host: str, node: str, row: InstancesRow, request: pci.Request) -> bool:
    topology, cells = None, None
    if row['numa_topology'] is not None:
        text = numa_claims.of_node(conn, host, node)
        topology = None if text is None else numa_claims.load_host(text)
        cells = [cell.id for cell in numa.load_guest(row['numa_topology']).cells]
    return pci_devices.claim(conn, host, node, [request], row['uuid'], topology=topology, cells=cells)


def release(conn: sa.Connection, uuid: str, port_id: str) -> None:
    """Release the device of a port on the server's host and on the destination of a move.

    This has no effect if the port had no device, if the device was released before, or if the server was deleted.
    """
    row = instances.get_many(conn, [uuid]).get(uuid)
    if row is None or port_id not in pci.of_ports(row['flavor']):
        return
    instances.lock(conn, uuid)               # the server is locked before any node, as in claims and deletions
    row = instances.get_many(conn, [uuid]).get(uuid)
    if row is None:                          # the deletion of the server has released its devices
        return
    instances.set_where(conn, uuid, {'flavor': _without(row['flavor'], port_id)})
    for move in server_migrations.open_of(conn, uuid):
        server_migrations.update(conn, move['id'], {
            name: _without(move[name], port_id) for name in ('old_flavor', 'new_flavor')})
    # the lock waited for any concurrent placement of a move, so this call also finds the device claimed by that move
    pci_devices.release_port(conn, uuid, port_id)


def release_offloaded(conn: sa.Connection, uuid: str, port_id: str) -> None:
    """Release the device of a port of an offloaded server, unless the server has a host again."""
    instances.lock(conn, uuid)
    row = instances.get_many(conn, [uuid]).get(uuid)
    if row is not None and row['vm_state'] == states.SHELVED_OFFLOADED and row['host'] is None:
        release(conn, uuid, port_id)


def release_unneeded(conn: sa.Connection, uuid: str, claimed: Iterable[pci.Request], flavor: Flavor) -> None:
    """Release devices that this transaction claimed for ports, if the ports were removed after the claim was requested.

    :param flavor: flavor in the locked row that holds the claim: the row of the server or of its migration
    """
    for port_id in {request.request_id for request in claimed if request.request_id} - pci.of_ports(flavor).keys():
        pci_devices.release_port(conn, uuid, port_id)


def _without(flavor: Flavor, port_id: str) -> Flavor:
    return pci.with_ports(flavor, [request for key, request in pci.of_ports(flavor).items() if key != port_id])


def end(conn: sa.Connection, uuid: str, request_id: str, event: str, failed: bool) -> None:
    """Release the device of an action's port if the server no longer has the port. Call this function before the
    action is closed.
    """
    action = instance_actions.open_of(conn, uuid, request_id) if (event, failed) in _WITHOUT else None
    if action is not None:
        release(conn, uuid, (action['arguments'] or {}).get('port_id', ''))
