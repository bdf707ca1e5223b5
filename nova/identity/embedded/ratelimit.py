"""Rate limit of failed logins by user and address: delays grow, but never become permanent.

- An address without a failure for a user within the window is refused only through a shared counter (see below).
- An address may fail ``failures`` times for a user. Each further failure causes a delay: 1 s, then doubled each time,
  at most MAX_WAIT_S. Attempts during the delay are refused without a check and are not counted. A correct password
  after the delay resets the counter.
- If ``failures`` or more addresses have failed for a user, the user is under attack. Then each address from which the
  user has not logged in is delayed after its first failure, at most until the window ends. So each address of a
  distributed attack has one guess in each window. This rule does not affect addresses from which the user logged in.
- Clients behind one NAT address share the delay for a user.
- Attackers can invent user names, so new names must not evict the failures of other names within the window. An address
  has a counter for each of MAX_NAMES names. Further names share one counter, so failures of one name can delay another.
  When all addresses together have MAX_KEYS names, all further names of an address use one of OTHERS counters, which
  addresses share. Shared counters are not used for users who have logged in from the address.
"""
import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable

from nova import exception

OTHERS = 1024                # number of shared counters, used beyond MAX_KEYS names
MAX_KEYS = 10000            # maximum names with a counter, all addresses together
MAX_NAMES = 100  # maximum names with a counter for an address; behind one NAT address, fewer users mistype a password
MAX_WAIT_S = 60
KNOWN_ADDRESS_LIFETIME_S = 30 * 86400        # seconds for which a login makes its address known
SWEEP_S = 1                 # minimum interval between two scans for expired failures


@dataclasses.dataclass(slots=True)
class _Failures:
    count: int = 0
    last_at: float = float('-inf')
    free_at: float = float('-inf')       # end of the delay, after which attempts are checked again


class _Bounded(collections.OrderedDict[tuple[str, str], float]):
    """Dictionary of limited size that evicts the least recently written entry."""

    def __setitem__(self, key: tuple[str, str], value: float) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > MAX_KEYS:
            self.popitem(last=False)


class _Address:
    """Counters of one address: one for each name, and one for all names beyond MAX_NAMES."""

    __slots__ = ('names', 'others')

    def __init__(self) -> None:
        self.names: dict[str, _Failures] = {}
        self.others = _Failures()


class LoginDelays:
    """Bounded in-memory counters of failed logins.

    :param failures: number of failures without a delay
    :param window: seconds after which a failure expires
    """

    def __init__(self, failures: int, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._window, self._clock = failures, window, clock
        self._addresses: dict[str, _Address] = {}
        self._names = 0                  # number of counters of all addresses
        self._others = [_Failures() for _ in range(OTHERS)]      # counters beyond MAX_KEYS
        self._swept_at = self._swept_attacks_at = float('-inf')
        self._known = _Bounded()         # (user, address): time of the last login
        # {user: {address: time of its last failure}}, ordered by time, only the newest ``failures`` addresses
        self._attacks: dict[str, collections.OrderedDict[str, float]] = {}
        self._lock = threading.Lock()

    def check(self, user: str, address: str) -> None:
        """Refuse an attempt during the delay.

        Call it before the password is verified and again afterwards, so that parallel guesses cannot evade the delay.

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
                if not of_address.names and self._is_over(of_address.others, self._clock()):
                    del self._addresses[address]
            self._known[user, address] = self._clock()

    # ---- counters; the caller holds the lock

    def _found(self, user: str, address: str, now: float) -> _Failures | None:
        """Return the counter of a user and address, or None if a new counter must be created."""
        of_address = self._addresses.get(address)
        if of_address is not None and user in of_address.names:
            return of_address.names[user]
        if of_address is not None and len(of_address.names) >= MAX_NAMES:
            self._drop(address, of_address, now)
            if len(of_address.names) >= MAX_NAMES:
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
        """Delete the expired failures of an address."""
        over = [user for user, found in of_address.names.items() if self._is_over(found, now)]
        for user in over:
            del of_address.names[user]
        self._names -= len(over)
        if not of_address.names and self._is_over(of_address.others, now):
            del self._addresses[address]

    def _is_over(self, found: _Failures, now: float) -> bool:
        return now >= max(found.last_at + self._window, found.free_at)

    # ---- detection of distributed attacks

    def _is_known(self, key: tuple[str, str], now: float) -> bool:
        return bool(now - self._known.get(key, float('-inf')) < KNOWN_ADDRESS_LIFETIME_S)

    def _attacked(self, user: str, address: str, now: float) -> bool:
        """Return True if enough addresses, including this one, have failed within the window."""
        failed = self._attacks.get(user)
        if failed is None:
            if len(self._attacks) >= MAX_KEYS:
                if now < self._swept_attacks_at + SWEEP_S:
                    return False
                self._swept_attacks_at = now
                # drop users with failures from only one address: this is no distributed attack; the user may not exist
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
