"""Devices of a host that ports of a server need (SR-IOV), when such a port comes or goes.

What a port needs stands in the flavor that the server's row keeps, and nowhere else: who chooses a host for the server
reads it there. It comes, with the claim of the device, in the transaction in which an attachment begins. It goes, with
the claim, in the one in which the attachment fails or a detachment ends.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import actions
from nova import exception
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.placement import numa_claims
from nova.db.placement import pci_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.objects import numa
from nova.objects import pci

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.tables.rows import InstancesRow

# (event that ends an action, whether it failed): the server has no such port then
_WITHOUT = {('compute_attach_interface', True), ('compute_detach_interface', False)}


def begin(conn: sa.Connection, ctx: RequestContext, uuid: str, action: actions.Action, arguments: dict[str, Any],
          request: pci.Request, admin: bool | None = False) -> InstancesRow:
    """Begin to attach a port that needs a device of the server's host, and claim the device; see tasks.begin.

    :raises Conflict: no such device is free there, near enough to the guest; the transaction is undone
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
        raise exception.Conflict(f'No device that port {port_id} could be is free on the host of instance {uuid}.')
    return row


def _claim(conn: sa.Connection, host: str, node: str, row: InstancesRow, request: pci.Request) -> bool:
    topology, cells = None, None
    if row['numa_topology'] is not None:
        text = numa_claims.of_node(conn, host, node)
        topology = None if text is None else numa_claims.load_host(text)
        cells = [cell.id for cell in numa.load_guest(row['numa_topology']).cells]
    return pci_devices.claim(conn, host, node, [request], row['uuid'], topology=topology, cells=cells)


def release(conn: sa.Connection, uuid: str, port_id: str) -> None:
    """The server does not need the device of a port any more: neither where it is nor where a move would take it.
    Nothing when the port was no device, or it was released before."""
    row = instances.get_many(conn, [uuid]).get(uuid)
    if row is None or port_id not in pci.of_ports(row['flavor']):
        return
    instances.lock(conn, uuid)               # before any node, as who claims for a port, or deletes a server
    row = instances.get(conn, uuid)
    instances.set_where(conn, uuid, {'flavor': _without(row['flavor'], port_id)})
    for move in server_migrations.open_of(conn, uuid):
        server_migrations.update(conn, move['id'], {
            name: _without(move[name], port_id) for name in ('old_flavor', 'new_flavor')})
    pci_devices.release_port(conn, uuid, port_id)        # who places a move has committed by now what it has claimed


def release_offloaded(conn: sa.Connection, uuid: str, port_id: str) -> None:
    """The same of a server that is on no host; nothing when it has got one meanwhile, whose guest may have the device.
    """
    instances.lock(conn, uuid)
    row = instances.get_many(conn, [uuid]).get(uuid)
    if row is not None and row['vm_state'] == states.SHELVED_OFFLOADED and row['host'] is None:
        release(conn, uuid, port_id)


def release_unneeded(conn: sa.Connection, uuid: str, claimed: Iterable[pci.Request], flavor: dict[str, Any]) -> None:
    """Give back what was claimed in this transaction for ports that went after the claim was requested.

    :param flavor: of the locked row that the claim is of: the server's own, or its move's
    """
    for port_id in {request.request_id for request in claimed if request.request_id} - pci.of_ports(flavor).keys():
        pci_devices.release_port(conn, uuid, port_id)


def _without(flavor: dict[str, Any], port_id: str) -> dict[str, Any]:
    return pci.with_ports(flavor, [request for key, request in pci.of_ports(flavor).items() if key != port_id])


def end(conn: sa.Connection, uuid: str, request_id: str, event: str, failed: bool) -> None:
    """Release what the open action of a request leaves without a port; before its record is closed."""
    action = instance_actions.open_of(conn, uuid, request_id) if (event, failed) in _WITHOUT else None
    if action is not None:
        release(conn, uuid, (action['arguments'] or {}).get('port_id', ''))
