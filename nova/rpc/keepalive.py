"""Signs of life for those who wait for a call: from one thread for all calls that a server works on.

oslo.messaging starts and joins a thread for each, which is more work than many a call is.
"""
import logging
import threading
import time

from oslo_messaging.rpc import dispatcher

from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

LOOK_S = 0.5                 # between two looks which calls are due


class Dispatcher(dispatcher.RPCDispatcher):
    """One that gives a call's sign every half of the time after which its sender would give it up."""

    def __init__(self, *args, check=None):
        """:param check: function(context, message), as they came; raises NovaException: who sent it is not known"""
        super().__init__(*args)
        self._check = check
        self._lock = threading.Lock()
        self._running, self._at_work = {}, False             # {incoming: (when the next sign is due, seconds)}

    def check(self, incoming):
        """:raises NovaException: nobody works on the message, see signatures.Signatures.check"""
        if self._check is not None:
            self._check(incoming.ctxt, incoming.message)

    def dispatch(self, incoming):
        patience, incoming.client_timeout = incoming.client_timeout, None        # with None, no thread is started
        if not patience:
            return super().dispatch(incoming)
        with self._lock:
            self._running[incoming] = time.monotonic() + patience / 2, patience / 2
            begins, self._at_work = not self._at_work, True
        try:
            if begins:
                concurrency.spawn('signs-of-life', self._give)
            return super().dispatch(incoming)
        finally:
            with self._lock:
                self._running.pop(incoming, None)

    def _give(self):
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            with self._lock:
                if not self._running:
                    self._at_work = False
                    return
                due = [(incoming, seconds) for incoming, (at, seconds) in self._running.items() if at <= now]
                self._running.update({incoming: (now + seconds, seconds) for incoming, seconds in due})
            for incoming, _seconds in due:
                self._sign(incoming)

    def _sign(self, incoming):
        try:
            incoming.heartbeat()
        except Exception as error:           # who waited, or the broker, is gone
            LOG.debug('No sign of life for a call: %s', error)
            with self._lock:
                self._running.pop(incoming, None)
