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
- Names are chosen by who guesses, so no name evicts the failures of another one within the window. An address has
  MOST_NAMES names of its own. Those beyond it count as one, and the first rule does not hold for them, apart from users
  who have logged in from there. The same holds for addresses beyond MAX_KEYS names in all.
"""
import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from nova import exception

OTHERS = 1024                # counters that addresses without a place share
MAX_KEYS = 10000            # names of all addresses together
MOST_NAMES = 100            # that one address has failed for within a window: more than users of one NAT mistype
MAX_WAIT_S = 60
KNOWN_S = 30 * 86400        # an address is a user's own for so long after the last login from it
SWEEP_S = 1                 # between two searches of all failures for those that are over


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


class _Address:
    """The failures of one address: of each name, and those of all names beyond MOST_NAMES as one."""

    __slots__ = ('names', 'others')

    def __init__(self) -> None:
        self.names: dict[str, _Failures] = {}
        self.others = _Failures()


class LoginDelays:
    """Counters in memory, of a bounded number.

    :param failures: that are free of a wait
    :param window: seconds after which a failure is forgotten
    """

    def __init__(self, failures: int, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._window, self._clock = failures, window, clock
        self._addresses: dict[str, _Address] = {}
        self._names = 0                  # of all addresses
        self._others = [_Failures() for _ in range(OTHERS)]      # of the addresses that have no place
        self._swept_at = self._swept_attacks_at = float('-inf')
        self._known = _Bounded()         # (user, address): when the user last logged in from there
        # user: {address: its last failure} of the newest ``failures``, the newest last
        self._attacks: dict[str, collections.OrderedDict[str, float]] = {}
        self._lock = threading.Lock()

    def check(self, user: str, address: str) -> None:
        """Ask before a password is looked at, and again before its holder learns that it was right.

        The second time keeps a burst of parallel guesses to the same number of answers.

        :raises TooManyRequests: with ``retry_after`` in seconds
        """
        with self._lock:
            now = self._clock()
            found = self._found(user, address, now)
            wait = found.free_at - now if found else 0
        if wait > 0:
            raise exception.TooManyRequests(retry_after=math.ceil(wait))

    def failed(self, user: str, address: str) -> None:
        with self._lock:
            now = self._clock()
            found = self._found(user, address, now) or self._place(user, address)
            if self._is_over(found, now):
                found.count = 0
            found.count, found.last_at = found.count + 1, now
            of_address = self._addresses.get(address)
            alone = of_address is not None and of_address.names.get(user) is found
            attacked = alone and self._attacked(user, address, now) and not self._is_known((user, address), now)
            beyond = found.count - (1 if attacked else self._free)
            if beyond >= 0:
                longest = max(self._window, MAX_WAIT_S) if attacked else MAX_WAIT_S
                found.free_at = now + min(2.0 ** min(beyond, 30), longest)

    def succeeded(self, user: str, address: str) -> None:
        with self._lock:
            of_address = self._addresses.get(address)
            if of_address is not None and user in of_address.names:
                del of_address.names[user]
                self._names -= 1
            self._known[user, address] = self._clock()

    # ---- where failures are counted; the caller has the lock

    def _found(self, user: str, address: str, now: float) -> _Failures | None:
        """What counts the failures of a pair; None where nothing does yet, and there is a place for it."""
        of_address = self._addresses.get(address)
        if of_address is not None and user in of_address.names:
            return of_address.names[user]
        if of_address is not None and len(of_address.names) >= MOST_NAMES:
            self._drop(address, of_address, now)
            if len(of_address.names) >= MOST_NAMES:
                return None if self._is_known((user, address), now) else of_address.others
        if self._names >= MAX_KEYS and now >= self._swept_at + SWEEP_S:
            self._swept_at = now
            for name, each in list(self._addresses.items()):
                self._drop(name, each, now)
        if self._names >= MAX_KEYS and not self._is_known((user, address), now):
            return self._others[hash(address) % OTHERS]
        return None

    def _place(self, user: str, address: str) -> _Failures:
        found = self._addresses.setdefault(address, _Address()).names[user] = _Failures()
        self._names += 1
        return found

    def _drop(self, address: str, of_address: _Address, now: float) -> None:
        """Forget the failures of an address that are over."""
        over = [user for user, found in of_address.names.items() if self._is_over(found, now)]
        for user in over:
            del of_address.names[user]
        self._names -= len(over)
        if not of_address.names and self._is_over(of_address.others, now):
            del self._addresses[address]

    def _is_over(self, found: _Failures, now: float) -> bool:
        return now >= max(found.last_at + self._window, found.free_at)

    # ---- users, and who attacks them

    def _is_known(self, key: tuple[str, str], now: float) -> bool:
        return bool(now - self._known.get(key, float('-inf')) < KNOWN_S)

    def _attacked(self, user: str, address: str, now: float) -> bool:
        """Whether so many addresses have failed within the window, this one among them."""
        failed = self._attacks.get(user)
        if failed is None:
            if len(self._attacks) >= MAX_KEYS:
                if now < self._swept_attacks_at + SWEEP_S:
                    return False
                self._swept_attacks_at = now
                # a name that one address alone has failed for is not attacked yet, and may be invented
                self._attacks = {name: times for name, times in self._attacks.items() if len(times) >= min(
                    2, self._free) and now - times[next(reversed(times))] < self._window}
            if len(self._attacks) >= MAX_KEYS:
                return False
            failed = self._attacks[user] = collections.OrderedDict()
        failed[address] = now
        failed.move_to_end(address)
        if len(failed) > self._free:
            failed.popitem(last=False)
        return len(failed) == self._free and now - next(iter(failed.values())) < self._window
