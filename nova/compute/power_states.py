"""Report changed power states to the conductor, after driver events and after a periodic comparison."""
import logging
import threading

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute.differences import Reporter
from nova.compute.host import Host
from nova.compute.orphans import Orphans
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

SETTLE_S = 0.5       # seconds between an event and its report, because a reboot causes several events


def differs(server: objects.Instance, power_state: int) -> bool:
    """Return whether a report of this power state changes the row of an idle server."""
    return (power_state, states.vm_state_for(server.vm_state, power_state)) != (server.power_state, server.vm_state)


class PowerStates:
    """Keeps the power states in the servers' rows up to date.

    A state is read and reported in the server's queue, so that no task runs between reading and reporting.
    """

    def __init__(self, host: Host, orphans: Orphans, reporter: Reporter) -> None:
        self._host, self._orphans, self._reporter = host, orphans, reporter
        self._changed: set[str] = set()          # servers with unprocessed events
        self._lock = threading.Lock()
        self._event_came = threading.Event()

    def start(self) -> None:
        """Follow the driver's events until the service stops."""
        host = self._host
        host.driver.watch(self._on_event)
        concurrency.spawn(f'power-states-{host.name}', self._follow_events)

    def stop(self) -> None:
        """Stop following events when the service stops."""
        self._host.stopping.set()
        self._event_came.set()

    def _on_event(self, uuid: str, power_state: int) -> None:
        with self._lock:
            self._changed.add(uuid)
        self._event_came.set()

    def _follow_events(self) -> None:
        host = self._host
        while True:
            self._event_came.wait()
            if host.stopping.wait(SETTLE_S):
                return
            self._event_came.clear()
            with self._lock:
                uuids, self._changed = self._changed, set()
            for uuid in uuids:
                host.queue.submit(uuid, self._report_changed, uuid)

    def _report_changed(self, uuid: str) -> None:
        """Report the power state after an event, unless a task has written it already."""
        self._report(uuid, unless=self._host.power_states.get(uuid))

    def report(self, uuid: str) -> None:
        """Report the power state of one server in its queue."""
        self._host.queue.submit(uuid, self._report, uuid)

    def _report(self, uuid: str, unless: int | None = None) -> None:
        """Report the power state of one server.

        :param unless: a state that needs no report, or None
        """
        host = self._host
        try:
            power_state = host.driver.guest_state(uuid)
            if power_state is not None and power_state == unless:
                return
            host.conductor.report_power_states(context.admin_context(), host=host.name, states={
                uuid: states.NOSTATE if power_state is None else power_state})
            if power_state is None:
                host.power_states.pop(uuid, None)       # the server has left this host, or its guest was removed
            else:
                host.power_states[uuid] = power_state
        except exception.NovaException as error:
            LOG.warning('Cannot report the power state of server %s: %s', uuid, error.message)

    def synchronize(self) -> int:
        """Compare every server with its guest and remove orphans; return the number of differences."""
        host, ctx = self._host, context.admin_context()
        guests = host.driver.guests()
        here = self._orphans.find(guests)
        servers = [entry['instance'] for entry in host.conductor.instances_on_host(ctx, host=host.name)]
        different = 0
        for server in servers:
            found = guests.get(server.uuid, states.NOSTATE)
            if server.task_state is None and server.vm_state != states.BUILDING and differs(server, found):
                self.report(server.uuid)
                different += 1
        rows = self._orphans.settle(ctx, here, {server.uuid for server in servers})
        self._reporter.look(ctx, guests, here, servers, rows, with_volumes=True)
        return different

    def look_again(self) -> None:
        """Compare again while differences wait for an administrator (periodic task with a short interval)."""
        if self._reporter.is_waiting:
            self.synchronize()
