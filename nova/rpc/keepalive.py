"""Heartbeats to the callers of running calls, from one thread for all calls of a server.

oslo.messaging starts and joins a heartbeat thread for each call; this often costs more than the call.
"""
from collections.abc import Callable
import logging
import threading
import time

from oslo_messaging.rpc import dispatcher

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.rpc.delivery import Incoming
from nova.rpc.serializer import Serializer
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.5      # seconds between two checks for due heartbeats


class Dispatcher(dispatcher.RPCDispatcher):
    """A dispatcher that sends heartbeats for each running call, at intervals of half the caller's timeout."""

    def __init__(self, endpoints: list[object], serializer: Serializer,
                 check: Callable[[JsonObject, JsonObject], None] | None = None) -> None:
        """Make a dispatcher.

        :param check: function(context, message) on the raw values; raises NovaException if the sender is unknown
        """
        super().__init__(endpoints, serializer)
        self._check = check
        self._lock = threading.Lock()
        # {incoming: (time of the next heartbeat, interval in seconds)}
        self._running: dict[Incoming, tuple[float, float]] = {}
        self._at_work = False

    def check(self, incoming: Incoming) -> None:
        """Check a message.

        :raises NovaException: the message is refused, see signatures.Signatures.check
        """
        if self._check is not None:
            self._check(incoming.ctxt, incoming.message)

    def dispatch(self, incoming: Incoming) -> Json:
        timeout, incoming.client_timeout = incoming.client_timeout, None  # so oslo.messaging sends no heartbeat
        if not timeout:
            return super().dispatch(incoming)
        with self._lock:
            self._running[incoming] = time.monotonic() + timeout / 2, timeout / 2
            begins, self._at_work = not self._at_work, True
        try:
            if begins:
                try:
                    concurrency.spawn('call-heartbeat', self._give)
                except RuntimeError:                 # no thread can start; the next call tries again
                    self._at_work = False
                    raise
            return super().dispatch(incoming)
        finally:
            with self._lock:
                self._running.pop(incoming, None)

    def _give(self) -> None:
        while True:
            time.sleep(POLL_INTERVAL_S)
            now = time.monotonic()
            with self._lock:
                if not self._running:
                    self._at_work = False
                    return
                due = [(incoming, seconds) for incoming, (at, seconds) in self._running.items() if at <= now]
                self._running.update({incoming: (now + seconds, seconds) for incoming, seconds in due})
            for incoming, _seconds in due:
                self._sign(incoming)

    def _sign(self, incoming: Incoming) -> None:
        try:
            incoming.heartbeat()
        except Exception as error:           # the caller or the broker is gone
            LOG.debug('No heartbeat for a call: %s', error)
            with self._lock:
                self._running.pop(incoming, None)
