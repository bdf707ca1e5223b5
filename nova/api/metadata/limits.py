"""Rate and concurrency limits of the metadata service for each guest."""
import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from nova import exception

BURST_S = 10                # a burst may have as many requests as the rate permits in this time; enough for cloud-init
MAX_CONCURRENT = 4                 # maximum concurrent requests of one guest: half of the threads that serve a bridge
MAX_GUESTS = 10000          # maximum number of counted guests; the least recently used entries are dropped


class GuestLimits:
    """In-memory counters of a bounded number of guests.

    :param rate: requests per second of one guest
    :param clock: seconds
    """

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._step, self._clock = 1 / rate, clock
        self._full_at: collections.OrderedDict[str, float] = collections.OrderedDict()
        self._running: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def request(self, guest: str) -> Iterator[None]:
        """Context manager of one request, which enforces the limits.

        :raises TooManyRequests: the guest exceeds a limit; ``retry_after`` is in seconds
        """
        with self._lock:
            now = self._clock()
            full_at = max(now, self._full_at.pop(guest, now)) + self._step
            refused = full_at > now + BURST_S or self._running[guest] >= MAX_CONCURRENT
            self._full_at[guest] = full_at - self._step if refused else full_at
            if len(self._full_at) > MAX_GUESTS:
                self._full_at.popitem(last=False)
            if not refused:
                self._running[guest] += 1
            elif not self._running[guest]:
                del self._running[guest]
        if refused:
            raise exception.TooManyRequests(retry_after=1)
        try:
            yield
        finally:
            with self._lock:
                self._running[guest] -= 1
                if not self._running[guest]:
                    del self._running[guest]
