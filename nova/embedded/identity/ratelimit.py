"""Failed logins are counted per user and address; who fails too often waits until the window ends."""
import collections
import ipaddress
import threading
import time

from nova import exception

MAX_KEYS = 10000            # beyond it the counter that was touched longest ago is forgotten


class LoginLimit:
    """Counters in memory, of a bounded number.

    :param failures: failures allowed within a window
    :param window: seconds
    """

    def __init__(self, failures, window, clock=time.monotonic):
        self._failures = failures
        self._window = window
        self._clock = clock
        self._counts = collections.OrderedDict()         # key: (failures, end of the window)
        self._lock = threading.Lock()

    def check(self, key):
        """Ask before a password is looked at, and again before its holder learns that it was right.

        The second time keeps a burst of parallel guesses to the same number of answers.

        :raises TooManyRequests: with ``retry_after`` in seconds
        """
        with self._lock:
            count, ends = self._counts.get(key, (0, 0))
            now = self._clock()
            if count >= self._failures and now < ends:
                raise exception.TooManyRequests(retry_after=max(1, int(ends - now + 0.999)))

    def failed(self, key):
        with self._lock:
            now = self._clock()
            count, ends = self._counts.pop(key, (0, 0))
            if now >= ends:
                count, ends = 0, now + self._window
            self._counts[key] = (count + 1, ends)
            if len(self._counts) > MAX_KEYS:
                self._counts.popitem(last=False)

    def succeeded(self, key):
        with self._lock:
            self._counts.pop(key, None)


def source(address):
    """The address that counts: an IPv6 host has a whole /64 to itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
