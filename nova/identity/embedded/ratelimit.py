"""Failed logins are counted by user and address; who fails often waits for longer and longer, and never for ever.

What holds:

- An address that has not failed for a user within the window is never refused for that user, whatever others do.
- One that has failed may fail ``failures`` times. From then on each failure is followed by a wait, of 1 s and then
  twice as long each time, at most MAX_WAIT_S. What is tried meanwhile is refused without a look at it, and changes
  nothing: the right password after the wait is good, and forgets the failures.
- While ``failures`` or more addresses have failed for one user, an address from which that user has not logged in
  waits from its first failure on, and at most for a window: who guesses from many addresses has one guess a window from
  each. Addresses from which the user has logged in keep the rule above.
- Users who share an address with who guesses (behind one NAT) share the wait.
"""
import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from nova import exception

MAX_KEYS = 10000            # pairs of user and address; beyond it the one that was touched longest ago is forgotten
MAX_WAIT_S = 60
KNOWN_S = 30 * 86400        # an address is a user's own for so long after the last login from it


@dataclasses.dataclass(slots=True)
class _Failures:
    count: int = 0
    last_at: float = float('-inf')
    free_at: float = float('-inf')       # of the next try


class _Bounded(collections.OrderedDict[Any, Any]):
    """Forgets what was written longest ago."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > MAX_KEYS:
            self.popitem(last=False)


class LoginDelays:
    """Counters in memory, of a bounded number.

    :param failures: that are free of a wait
    :param window: seconds after which a failure is forgotten
    """

    def __init__(self, failures: int, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._window, self._clock = failures, window, clock
        self._pairs = _Bounded()         # (user, address): _Failures
        self._known = _Bounded()         # (user, address): when the user last logged in from there
        self._attacks = _Bounded()       # user: {address: its last failure} of the newest ``failures``, the newest last
        self._lock = threading.Lock()

    def check(self, user: str, address: str) -> None:
        """Ask before a password is looked at, and again before its holder learns that it was right.

        The second time keeps a burst of parallel guesses to the same number of answers.

        :raises TooManyRequests: with ``retry_after`` in seconds
        """
        with self._lock:
            found = self._pairs.get((user, address))
            wait = found.free_at - self._clock() if found else 0
        if wait > 0:
            raise exception.TooManyRequests(retry_after=math.ceil(wait))

    def failed(self, user: str, address: str) -> None:
        with self._lock:
            key, now = (user, address), self._clock()
            found = self._pairs.get(key)
            if found is None or now >= max(found.last_at + self._window, found.free_at):
                found = _Failures()
            found.count, found.last_at = found.count + 1, now
            attacked = self._attacked(user, address, now) and not self._is_known(key, now)
            beyond = found.count - (1 if attacked else self._free)
            if beyond >= 0:
                longest = max(self._window, MAX_WAIT_S) if attacked else MAX_WAIT_S
                found.free_at = now + min(2.0 ** min(beyond, 30), longest)
            self._pairs[key] = found

    def succeeded(self, user: str, address: str) -> None:
        with self._lock:
            self._pairs.pop((user, address), None)
            self._known[user, address] = self._clock()

    def _is_known(self, key: tuple[str, str], now: float) -> bool:
        return now - self._known.get(key, float('-inf')) < KNOWN_S

    def _attacked(self, user: str, address: str, now: float) -> bool:
        """Whether so many addresses have failed within the window, this one among them."""
        failed = self._attacks.get(user) or collections.OrderedDict()
        failed[address] = now
        failed.move_to_end(address)
        if len(failed) > self._free:
            failed.popitem(last=False)
        self._attacks[user] = failed
        return len(failed) == self._free and now - next(iter(failed.values())) < self._window
