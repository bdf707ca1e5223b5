"""Placement of new servers: the RPC method select_destinations."""
import collections.abc
import logging

from nova import context as nova_context
from nova import exception
from nova import objects
from nova import states
from nova.db.cells import cells as db_cells
from nova.db.servers import instances
from nova.scheduler import claimer
from nova.scheduler import placement
from nova.scheduler import placement_metrics
from nova.scheduler import request_reader
from nova.scheduler.decision import Selections

LOG = logging.getLogger(__name__)


class NewServers:
    """The RPC method select_destinations.

    :param placer: places the servers of a request
    """

    def __init__(self, requests: request_reader.RequestReader, placer: placement.Placer,
                 claimers: claimer.Claimers) -> None:
        self._requests, self._placer, self._claimers = requests, placer, claimers

    @placement_metrics.measured
    def select_destinations(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec,
                            instance_uuids: list[str]) -> list[Selections]:
        """Choose and claim a host for each server; see interface.py.

        If a server no longer waits for a host, for example because the server was deleted, the server's list is empty.
        If an earlier call placed a server and its reply was lost, this call returns the host from the earlier call.
        :raises ServiceUnavailable: there are several cells, and the servers' cell does not answer
        """
        request = self._requests.of_new(spec)
        try:
            placed, refused = self._placer.place(request, instance_uuids), None
        except exception.NoValidHost as error:  # an earlier call may have placed the servers and used the capacity
            placed, refused = [[] for _ in instance_uuids], error
        except db_cells.UNREACHABLE as error:
            raise self._unavailable(instance_uuids, error) from None
        missing = [uuid for uuid, chosen in zip(instance_uuids, placed, strict=True) if not chosen]
        if not missing:
            return placed
        try:
            already_placed = self._already_placed(missing)
        except db_cells.UNREACHABLE as error:
            raise self._unavailable(instance_uuids, error) from None
        if refused is not None and not already_placed:
            raise refused
        return [chosen or already_placed.get(uuid, []) for uuid, chosen in zip(instance_uuids, placed, strict=True)]

    def _unavailable(self, uuids: collections.abc.Sequence[str], error: Exception) -> Exception:
        """Return the error for an unreachable cell. If there are several cells, the caller may retry the call."""
        if not self._claimers.several():
            return error
        LOG.warning('Cannot place %d servers: %s', len(uuids), error)
        return exception.ServiceUnavailable(service='database')

    def _already_placed(self, uuids: list[str]) -> dict[str, Selections]:
        """Return {uuid: selections} of the servers that an earlier call placed and that are not being built yet."""
        found: dict[str, Selections] = {}
        for cell, part in self._claimers.current().servers_by_cell(uuids):
            with cell.db.reader() as conn:
                rows = instances.get_many(conn, part)
            found |= {uuid: [objects.Selection(cell_uuid=cell.uuid, host=row['host'], node=row['node'],
                                               availability_zone=row['availability_zone'])]
                      for uuid, row in rows.items() if row['host'] is not None and row['cell_move'] is None
                      and (row['vm_state'], row['task_state']) == (states.BUILDING, states.SCHEDULING)}
        return found
