"""Process-local cache of Keystone's token validations: clients send the same token with each request."""
from __future__ import annotations

import collections
from collections.abc import Callable
import hashlib
import threading
import time
from typing import Generic, TypeVar

_Data = TypeVar('_Data')          # validation of a token
_Made = TypeVar('_Made')          # data derived from it

MAX_TOKENS = 4096                      # maximum tokens; each takes a few kilobytes
SHARED_CACHE_LIFETIME_S = 10       # maximum lifetime if memcached caches too: the age of its validations is unknown


class TokenCache(Generic[_Data, _Made]):
    """LRU cache of token validations.

    :param seconds: lifetime of an entry
    :param most: maximum number of entries
    """

    def __init__(self, seconds: float, most: int = MAX_TOKENS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[bytes, tuple[float, _Data]] = collections.OrderedDict()
        self._derived: dict[bytes, tuple[_Data, _Made]] = {}          # (validation, derived data) of cached tokens

    def get(self, token: str, ask: Callable[[], _Data]) -> _Data:
        """Return the cached validation of a token, or call ``ask``; exceptions are not cached."""
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

    def derived(self, token: str) -> _Made | None:
        """Return the data that ``derive`` cached for the unexpired validation of a token; None: there are none."""
        key, now = _key(token), self._clock()
        with self._lock:
            made, found = self._derived.get(key), self._kept.get(key)
            if made is None or found is None or now >= found[0] or made[0] is not found[1]:
                return None
            self._kept.move_to_end(key)
            return made[1]

    def derive(self, token: str, answer: _Data, made: _Made) -> None:
        """Cache data derived from a validation, unless the validation has been replaced."""
        key = _key(token)
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[1] is answer:
                self._derived[key] = answer, made


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def seconds_for(cache_time: int, shared: bool) -> float:
    """Return the lifetime of an entry in s, from keystonemiddleware's ``token_cache_time``; 0 or less: no cache.

    :param shared: memcached caches validations too
    """
    return min(cache_time, SHARED_CACHE_LIFETIME_S) if shared else cache_time
