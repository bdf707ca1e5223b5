"""Power states: what the driver tells, what a look around finds, told to the conductor."""
import logging
import threading

from nova import context
from nova import exception
from nova import states
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

SETTLE_S = 0.5       # a guest that reboots goes through several states in this time


class Sync:
    """The part of the compute's manager that keeps power states true; mixed into it.

    A state is read and reported in the server's own queue, so that it is never that of a moment before a task.
    """

    def init_sync(self):
        self._events = set()
        self._events_lock = threading.Lock()
        self._event_came = threading.Event()

    def start_sync(self):
        self.driver.watch(self._on_event)
        concurrency.spawn(f'power-states-{self.host}', self._follow_events)

    def stop_sync(self):
        self._stopping.set()
        self._event_came.set()

    def _on_event(self, uuid, power_state):
        with self._events_lock:
            self._events.add(uuid)
        self._event_came.set()

    def _follow_events(self):
        while True:
            self._event_came.wait()
            if self._stopping.wait(SETTLE_S):
                return
            self._event_came.clear()
            with self._events_lock:
                uuids, self._events = self._events, set()
            for uuid in uuids:
                self.queue.submit(uuid, self._report_changed, uuid)

    def _report_changed(self, uuid):
        """Report what an event told of, unless a task has written it already."""
        if uuid not in self.power_states or self.power_states[uuid] != self.driver.guests().get(uuid):
            self._report_power(uuid)

    def _report_power(self, uuid):
        try:
            power_state = self.driver.guests().get(uuid, states.NOSTATE)
            self.conductor.report_power_states(context.admin_context(), host=self.host,
                                               states={uuid: power_state})
            self.power_states[uuid] = power_state
        except exception.NovaException as error:
            LOG.warning('The power state of server %s is not reported: %s', uuid, error.message)

    def sync_power_states(self):
        """Compare every server with its guest; the number of those that differ. Guests of deleted servers go."""
        ctx, guests = context.admin_context(), self.driver.guests()
        servers = [entry['instance'] for entry in self.conductor.instances_on_host(ctx, host=self.host)]
        different = 0
        for server in servers:
            found = guests.get(server.uuid, states.NOSTATE)
            if server.task_state is None and server.vm_state != states.BUILDING and found != server.power_state:
                self.queue.submit(server.uuid, self._report_power, server.uuid)
                different += 1
        self._remove_strays(ctx, guests.keys() - {server.uuid for server in servers})
        return different
