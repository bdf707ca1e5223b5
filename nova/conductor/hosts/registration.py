"""Service registration: service rows, heartbeats, and the cell of a compute host."""
import collections.abc
import functools

from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.hosts.heartbeats import Heartbeats
from nova.db import engine
from nova.db.cells import rows as cell_rows
from nova.db.services import heartbeats as heartbeats_db
from nova.db.services import services as services_db
from nova.db.tables.rows import ServicesRow
from nova.runtime.heartbeat import ServiceState


class Registration:
    """Registers services; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, heartbeats: Heartbeats) -> None:
        self._services, self._conf = services, services.conf
        self._cell_db, self._api_db = services.cell_db, services.api_db
        self._heartbeats = heartbeats
        self._reported: set[tuple[str, str]] = set()         # (host, binary) of services known to have rows

    def report_service(self, ctx: Context | None, host: str, binary: str, topic: str,
                       version: int) -> ServiceState:
        self._heartbeats.resume()
        return self._answer(self._write(ctx, host, binary, lambda conn: services_db.report(
            conn, host, binary, topic, self._zone(topic), version)))

    def register_service(self, ctx: Context, host: str, binary: str, topic: str, version: int,
                         identity: str) -> ServiceState:
        if topic == 'compute':
            self._map_host(host)
        with self._cell_db.reader() as conn:
            row = heartbeats_db.registered(conn, host, binary, version, identity)
        if row is None:
            row = self._write(ctx, host, binary, lambda conn: heartbeats_db.register(
                conn, host, binary, topic, self._zone(topic), version, identity, self._conf.service_down_time))
        return self._answer(row)

    def _write(self, ctx: Context | None, host: str, binary: str,
               report: collections.abc.Callable[[Connection], ServicesRow]) -> ServicesRow:
        """Run ``report(conn)``, which returns the row of a service; publish an event for a new service."""
        notifier = self._services.notifier

        def write(conn: Connection) -> ServicesRow:
            first = ((host, binary) not in self._reported
                     and notifier.on and not services_db.list(conn, host=host, binary=binary))
            row = report(conn)
            if first and notifier.on:
                engine.after_commit(conn, functools.partial(
                    notifier.publish, ctx, 'service.create', None, row, host, binary))
            return row
        row = self._cell_db.run(write)
        self._reported.add((host, binary))
        return row

    def report_availability(self, ctx: Context, host: str, reason: str) -> None:
        """Disable the compute service of a host with this reason; without a reason, enable the service again.

        A service that an operator has disabled stays disabled.
        """
        notifier = self._services.notifier

        def write(conn: Connection) -> None:
            for row in services_db.set_availability(conn, host, str(reason)):
                if notifier.on:
                    engine.after_commit(conn, functools.partial(
                        notifier.publish, ctx, 'service.update', None, row, host, row['binary']))
        self._services.cell_db.run(write)

    def heartbeat(self, ctx: Context, host: str, binary: str, topic: str, version: int, identity: str) -> None:
        self._heartbeats.add(host, binary, topic, version, self._zone(topic), identity)

    def _answer(self, row: ServicesRow) -> ServiceState:
        return {'uuid': row['uuid'], 'disabled': row['disabled'], 'forced_down': row['forced_down'],
                'versions': self._services.lowest_versions()}

    def _map_host(self, host: str) -> None:
        """Map a compute host to this cell.

        :raises HostInAnotherCell:
        """
        here = self._services.cell.uuid
        with self._api_db.reader() as conn:
            found = cell_rows.cell_of_host(conn, host)
        found = found or self._api_db.run(cell_rows.map_host, host, here)
        if found != here:
            cell = self._services.cells.get(found)
            if cell is None:                       # the cell was deleted
                self._api_db.run(cell_rows.move_host, host, found, here)
            else:
                raise exception.HostInAnotherCell(host=host, cell=cell.name)

    def _zone(self, topic: str) -> str:
        return (self._conf.default_availability_zone if topic == 'compute'
                else self._conf.internal_service_availability_zone)
