"""Wait for the Networking service to plug the ports of a new guest."""
import logging
import threading
import time
import typing
import weakref

from nova import exception
from nova.objects.network_info import Vif

LOG = logging.getLogger(__name__)

PLUGGED, UNPLUGGED = 'network-vif-plugged', 'network-vif-unplugged'
CHECK_INTERVAL_S = 5      # seconds between two checks whether the server still exists



class Event(typing.TypedDict):
    """An event of a server from the network service; ``tag`` is the id of the port."""

    name: str
    status: str
    tag: str


class Waiter:
    """Waits until the ports of one server are plugged. Events that arrive before the wait begins count too.

    Only network-vif-plugged events count: the status ``completed`` ends the wait for a port, ``failed`` fails it.
    Unplug events are ignored, because they also arrive for ports that were never plugged.

    :param look: function that is called periodically; it raises if the server is no longer wanted
    """

    def __init__(self, uuid: str, vifs: list[Vif], timeout: float, fatal: bool,
                 look: typing.Callable[[], typing.Any]) -> None:
        self.uuid, self._vifs, self._timeout, self._fatal, self._look = uuid, vifs, timeout, fatal, look
        self._missing = {vif['id'] for vif in vifs}
        self._failed: set[str] = set()
        self._change = threading.Condition()

    def report(self, event: Event) -> None:
        if event['name'] != PLUGGED or event['tag'] not in self._missing:
            return
        with self._change:
            if event['status'] == 'completed':
                self._missing.discard(event['tag'])
            elif event['status'] == 'failed':
                self._failed.add(event['tag'])
            self._change.notify_all()

    def __call__(self) -> None:
        """Wait for all ports; set the plugged VIFs active.

        :raises VifPluggingFailed: a port is not plugged in time, and [DEFAULT] vif_plugging_is_fatal is set
        """
        deadline = time.monotonic() + self._timeout
        while True:
            with self._change:
                if not self._missing or self._failed or time.monotonic() >= deadline:
                    break
                self._change.wait(min(CHECK_INTERVAL_S, max(0, deadline - time.monotonic())))
                over = not self._missing or self._failed
            if not over:
                self._look()
        for vif in self._vifs:
            vif['active'] = vif['id'] not in self._missing
        if not self._missing:
            return
        ports = ', '.join(sorted(self._missing))
        reason = (f'the Networking service reported a failure of port {", ".join(sorted(self._failed))}.'
                  if self._failed else f'no event arrived for port {ports} within {self._timeout} s.')
        if self._fatal:
            raise exception.VifPluggingFailed(instance_id=self.uuid, reason=reason)
        LOG.warning('Server %s starts without its network: %s', self.uuid, reason)


class Plugging:
    """The waiters of one host."""

    def __init__(self) -> None:
        self._waiters: weakref.WeakSet[Waiter] = weakref.WeakSet()
        self._lock = threading.Lock()

    def waiter(self, uuid: str, vifs: list[Vif], timeout: float, fatal: bool,
               look: typing.Callable[[], typing.Any]) -> Waiter | None:
        """Return a waiter for the inactive VIFs, or None if all VIFs are active."""
        missing = [vif for vif in vifs if not vif['active']]
        if not missing or not timeout:
            return None
        made = Waiter(uuid, missing, timeout, fatal, look)
        with self._lock:
            self._waiters.add(made)
        return made

    def report(self, uuid: str, events: list[Event]) -> None:
        """Pass events to the waiter, not to the server's queue: the waiting build occupies the queue."""
        with self._lock:
            waiters = [waiter for waiter in self._waiters if waiter.uuid == uuid]
        for waiter in waiters:
            for event in events:
                waiter.report(event)
