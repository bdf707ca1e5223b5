"""What Keystone said of tokens, kept in the process: a client sends the same token with each of its requests."""
from __future__ import annotations

import collections
from collections.abc import Callable
import hashlib
import threading
import time
from typing import Any

MOST = 4096                      # tokens; one takes a few kilobytes
BESIDE_S = 10                    # where a memcached keeps them, too, whose answer does not say how old it is


class KeptTokens:
    """The answers about the tokens that were used last.

    :param seconds: for which an answer is good
    :param most: answers at once; the one that was used the longest time ago goes first
    """

    def __init__(self, seconds: float, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[bytes, tuple[float, Any]] = collections.OrderedDict()
        self._derived: dict[bytes, tuple[Any, Any]] = {}          # (answer, what was made of it); of those kept alone

    def get(self, token: str, ask: Callable[[], Any]) -> Any:
        """What is known of a token, else what ``ask`` returns; its errors are not kept."""
        key, now = _key(token), self._clock()
        with self._lock:
            found = self._kept.get(key)
            if found is not None and now < found[0]:
                self._kept.move_to_end(key)
                return found[1]
        data = ask()
        with self._lock:
            self._kept[key] = (now + self._seconds, data)
            self._kept.move_to_end(key)
            self._derived.pop(key, None)
            if len(self._kept) > self._most:
                oldest, _answer = self._kept.popitem(last=False)
                self._derived.pop(oldest, None)
        return data

    def derived(self, token: str) -> Any:
        """What was made of the answer about a token, as long as that is good; None: nothing."""
        key, now = _key(token), self._clock()
        with self._lock:
            made, found = self._derived.get(key), self._kept.get(key)
            if made is None or found is None or now >= found[0] or made[0] is not found[1]:
                return None
            self._kept.move_to_end(key)
            return made[1]

    def derive(self, token: str, answer: Any, made: Any) -> None:
        """Keep what was made of an answer, with it; not when it is no longer the one that is kept."""
        key = _key(token)
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[1] is answer:
                self._derived[key] = answer, made


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def seconds_for(cache_time: int, shared: bool) -> float:
    """How long an answer is good, by keystonemiddleware's ``token_cache_time``; 0 or less: it is not kept.

    :param shared: a memcached keeps it as well
    """
    return min(cache_time, BESIDE_S) if shared else cache_time
