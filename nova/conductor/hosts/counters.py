"""Counters of servers and hosts: samples are added to ring buffers in the cell database. See ADR 0032."""
import time

from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.db.servers import counter_rings
from nova.objects import counters
from nova.json_types import Json


class CounterReports:
    """Stores the samples of counters that hosts report; interface.py describes the RPC method."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db = services.cell_db

    def report_counters(self, ctx: Context | None, host: str, boot: str, at: float, servers: Json,
                        nodes: Json) -> None:
        try:
            of_servers, of_nodes, order = counters.loaded(servers), counters.loaded(nodes), float(at)
        except (TypeError, ValueError) as error:
            raise exception.InvalidInput(reason=f'a report of counters is malformed: {error}') from None
        now = time.time()

        def write(conn: Connection) -> None:
            here = counter_rings.servers_of(conn, host)
            samples = {uuid: sample for uuid, sample in of_servers.items() if uuid in here}
            if of_nodes:
                known = counter_rings.nodes_of(conn, host)
                samples.update({known[node]: sample for node, sample in of_nodes.items() if node in known})
            counter_rings.record(conn, f'{host} {boot}', order, samples, now)
        self._cell_db.run(write)

    def expire_counters(self) -> int:
        """Remove the ring buffers of deleted servers and nodes; return their number."""
        return self._cell_db.run(counter_rings.delete_orphans)
