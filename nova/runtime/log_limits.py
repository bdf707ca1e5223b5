"""Bound the log that callers without a valid token or signature can cause.

A record belongs to the request whose context its thread has. The context of a request names an address from the start,
and a user as soon as the caller is known.
"""
from __future__ import annotations

import atexit
import collections
from collections.abc import Callable
import logging
import threading
import time
from typing import Any

from oslo_context import context as oslo_context

from nova import context
from nova.runtime import concurrency
from nova.runtime.http import addresses

LOG = logging.getLogger(__name__)

BYTES = 16 << 10                 # of one address in a minute
PERIOD_S = 60
MOST_ADDRESSES = 1000            # counted apart within a period; the others share one bound
OTHERS = 'other addresses'
OVERHEAD = 200                   # bytes of a line besides its message: time, level, logger, ids
_FORMATTER = logging.Formatter()


class StrangersLimit(logging.Filter):
    """Let through so many bytes of each address; count the lines beyond and log their number.

    :param clock: seconds
    :param later: calls a function after PERIOD_S, in another thread
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic,
                 later: Callable[[Callable[[], None]], None] | None = None) -> None:
        super().__init__()
        self._clock, self._later = clock, later or _later
        self._lock = threading.Lock()
        self._until = float('-inf')
        self._used: collections.Counter[str] = collections.Counter()
        self._suppressed: dict[str, list[int]] = {}              # address: [lines, bytes]
        self._verdict = threading.local()                        # (record, whether it passes) of the last record

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record passes. Each handler asks, and gets the same answer."""
        last = getattr(self._verdict, 'last', None)
        if last is not None and last[0] is record:
            return bool(last[1])
        address = _stranger()
        passes = address is None or self._take(address, _size(record))
        self._verdict.last = record, passes
        return passes

    def _take(self, address: str, size: int) -> bool:
        with self._lock:
            now = self._clock()
            if now >= self._until:
                self._used.clear()
                self._until = now + PERIOD_S
            if address not in self._used and len(self._used) >= MOST_ADDRESSES:
                address = OTHERS
            if not self._used[address] or self._used[address] + size <= BYTES:     # one record of any size
                self._used[address] += size
                return True
            begin = not self._suppressed
            count = self._suppressed.setdefault(address, [0, 0])
            count[0] += 1
            count[1] += size
        if begin:
            self._later(self.tell)
        return False

    def tell(self) -> None:
        """Log how much was suppressed since the last time."""
        with self._lock:
            found, self._suppressed = self._suppressed, {}
        for address, (lines, size) in sorted(found.items()):
            LOG.warning('%s log lines (%s bytes) about unauthenticated requests from %s were suppressed: an address '
                        'may cause %s bytes in %s s.', lines, size, address, BYTES, PERIOD_S)


def of_connection(address: Any) -> None:
    """Let the records of this thread belong to a connection, not to the request before.

    :param address: of a client: a text, or one with a port
    """
    host = address[0] if isinstance(address, tuple) else address
    context.RequestContext(remote_address=str(host), overwrite=True)


def _stranger() -> str | None:
    """The address of the unauthenticated caller whose request this thread serves, or None."""
    current = oslo_context.get_current()
    address = getattr(current, 'remote_address', None)
    return addresses.client(address) if current is not None and address and not current.user_id else None


def _size(record: logging.LogRecord) -> int:
    if record.exc_info and not record.exc_text:
        record.exc_text = _FORMATTER.formatException(record.exc_info)
    return OVERHEAD + len(record.getMessage().encode(errors='replace')) + len((record.exc_text or '').encode(
        errors='replace'))


def _later(function: Callable[[], None]) -> None:
    def wait() -> None:
        time.sleep(PERIOD_S)
        function()
    concurrency.spawn('log-suppressed', wait)


def install() -> StrangersLimit:
    """Put the limit in front of all handlers of this process, and return it."""
    made = StrangersLimit()
    for handler in logging.getLogger().handlers:
        handler.addFilter(made)
    atexit.register(made.tell)
    return made
