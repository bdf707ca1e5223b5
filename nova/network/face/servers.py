"""Calls the hosts of servers whose addresses users have changed: a server shows what its host last read."""
from __future__ import annotations

import logging
import typing

from nova import exception
from nova import objects
from nova.db.networks import ports
from nova.db.servers import instances
from nova.network import interface

if typing.TYPE_CHECKING:
    from collections.abc import Collection

    from nova import context as nova_context
    from nova.db import engine

LOG = logging.getLogger(__name__)


def of_ports(conn: engine.Connection, idents: Collection[str]) -> list[str]:
    """Uuids of the servers that have these ports."""
    found = ports.of_ids(conn, set(idents)).values()
    return sorted({port['device_id'] for port in found if (port['device_owner'] or '').startswith(ports.OF_SERVERS)})


class Servers:
    """:param cells: nova.db.cells.cells.Cells"""

    def __init__(self, cells: typing.Any) -> None:
        self._cells = cells

    def changed(self, ctx: nova_context.RequestContext, uuids: list[str]) -> None:
        """Have the hosts of these servers read their ports again. What is not heard is read with the next change."""
        for cell, rows in self._cells.read(lambda conn: instances.get_many(conn, uuids))[0]:
            for row in rows.values():
                if row['host']:                              # one that moves to its cell is in two for a moment
                    self._tell(ctx, cell, row)

    @staticmethod
    def _tell(ctx: nova_context.RequestContext, cell: typing.Any, row: typing.Any) -> None:
        try:
            cell.rpc.compute.external_instance_event(
                ctx, server=row['host'], instance=objects.Instance.from_row(row),
                events=[interface.NETWORK_CHANGED])
        except exception.Unavailable as error:
            LOG.warning('Host %s was not notified of changed addresses of server %s: %s', row['host'], row['uuid'],
                        error)
