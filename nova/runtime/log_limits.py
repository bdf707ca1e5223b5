"""Limit of the log volume that unauthenticated callers can cause.

A log record belongs to the request in its thread's context. The context has the address of the client from the
start, and a user only after authentication.
"""
import atexit
import collections
from collections.abc import Callable
import logging
import threading
import time

from oslo_context import context as oslo_context

from nova import context
from nova.runtime import concurrency
from nova.runtime.http import addresses

LOG = logging.getLogger(__name__)

BYTES = 16 << 10                 # maximum log bytes of one address in PERIOD_S
PERIOD_S = 60
MAX_ADDRESSES = 1000            # maximum addresses with a separate limit in a period; further addresses share one limit
OTHERS = 'other addresses'
OVERHEAD = 200                   # estimated bytes of a line without its message: time, level, logger, ids
_FORMATTER = logging.Formatter()


class UnauthenticatedLimit(logging.Filter):
    """Log filter that passes BYTES of each unauthenticated address in a period, and logs how many lines it suppressed.

    :param clock: function that returns a time in seconds
    :param later: function(callback) that calls ``callback`` after PERIOD_S, in another thread; it returns False if no
        thread can start, and the next suppressed record tries again
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic,
                 later: Callable[[Callable[[], None]], bool] | None = None) -> None:
        super().__init__()
        self._clock, self._later = clock, later or _later
        self._lock = threading.Lock()
        self._until = float('-inf')
        self._used: collections.Counter[str] = collections.Counter()
        self._suppressed: dict[str, list[int]] = {}              # {address: [lines, bytes]}
        self._scheduled = False                                  # log_suppressed will be called
        self._last_result = threading.local()                        # (last record, whether it passed)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record passes; all handlers of a record get the same result."""
        last = getattr(self._last_result, 'last', None)
        if last is not None and last[0] is record:
            return bool(last[1])
        address = _unauthenticated_address()
        passes = address is None or self._take(address, _size(record))
        self._last_result.last = record, passes
        return passes

    def _take(self, address: str, size: int) -> bool:
        with self._lock:
            now = self._clock()
            if now >= self._until:
                self._used.clear()
                self._until = now + PERIOD_S
            if address not in self._used and len(self._used) >= MAX_ADDRESSES:
                address = OTHERS
            if not self._used[address] or self._used[address] + size <= BYTES:     # the first record may have any size
                self._used[address] += size
                return True
            begin, self._scheduled = not self._scheduled, True
            count = self._suppressed.setdefault(address, [0, 0])
            count[0] += 1
            count[1] += size
        if begin and not self._later(self.log_suppressed):
            self._scheduled = False
        return False

    def log_suppressed(self) -> None:
        """Log how many lines and bytes were suppressed since the last call."""
        with self._lock:
            found, self._suppressed, self._scheduled = self._suppressed, {}, False
        for address, (lines, size) in sorted(found.items()):
            LOG.warning('%s log lines (%s bytes) about unauthenticated requests from %s were suppressed: an address '
                        'may cause %s bytes in %s s.', lines, size, address, BYTES, PERIOD_S)


def of_connection(address: str) -> None:
    """Set this thread's context to a client's connection, in place of the previous request's context."""
    context.RequestContext(remote_address=address, overwrite=True)


def _unauthenticated_address() -> str | None:
    """Return the address of the unauthenticated caller that this thread serves, or None."""
    current = oslo_context.get_current()
    address = getattr(current, 'remote_address', None)
    return addresses.client(address) if current is not None and address and not current.user_id else None


def _size(record: logging.LogRecord) -> int:
    if record.exc_info and not record.exc_text:
        record.exc_text = _FORMATTER.formatException(record.exc_info)
    return OVERHEAD + len(record.getMessage().encode(errors='replace')) + len((record.exc_text or '').encode(
        errors='replace'))


def _later(function: Callable[[], None]) -> bool:
    def wait() -> None:
        time.sleep(PERIOD_S)
        function()
    return concurrency.try_spawn('log-suppressed', wait)


def install() -> UnauthenticatedLimit:
    """Add the filter to all handlers of this process, and return it."""
    made = UnauthenticatedLimit()
    for handler in logging.getLogger().handlers:
        handler.addFilter(made)
    atexit.register(made.log_suppressed)
    return made
