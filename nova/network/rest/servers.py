"""If addresses of servers change, notify the servers' hosts: the compute API shows what a host has last read."""
from __future__ import annotations

import logging
import typing

from nova import exception
from nova import objects
from nova.db.networks import ports
from nova.db.networks import trunks
from nova.db.servers import instances
from nova.network import interface

if typing.TYPE_CHECKING:
    from collections.abc import Collection

    from nova import context as nova_context
    from nova.db import engine
    from nova.db.cells.cells import Cell
    from nova.db.cells.cells import Cells
    from nova.db.tables.rows import InstancesRow

LOG = logging.getLogger(__name__)


def of_ports(conn: engine.Connection, idents: Collection[str]) -> list[str]:
    """Return the uuids of the servers with these ports; for a subport, the server with the parent port of its trunk."""
    found = [*ports.of_ids(conn, set(idents)).values()]
    subports = [port['id'] for port in found if port['device_owner'] == trunks.SUBPORT]
    found += ports.of_ids(conn, trunks.parents(conn, subports)).values()
    return sorted({port['device_id'] for port in found if (port['device_owner'] or '').startswith(ports.OF_SERVERS)})


class Servers:
    """Notifies hosts that addresses of their servers have changed.

    :param cells: the cells of the deployment
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def changed(self, ctx: nova_context.RequestContext, uuids: list[str]) -> None:
        """Make the hosts of these servers read the servers' ports again. A lost notification is not repeated."""
        for cell, rows in self._cells.read(lambda conn: instances.get_many(conn, uuids))[0]:
            for row in rows.values():
                if row['host']:                              # during a cross-cell migration a server is in two cells
                    self._notify(ctx, cell, row)

    @staticmethod
    def _notify(ctx: nova_context.RequestContext, cell: Cell, row: InstancesRow) -> None:
        try:
            cell.rpc.compute.external_instance_event(
                ctx, server=row['host'], instance=objects.Instance.from_row(row),
                events=[interface.NETWORK_CHANGED])
        except exception.Unavailable as error:
            LOG.warning('Cannot notify host %s of changed addresses of server %s: %s', row['host'], row['uuid'],
                        error)
