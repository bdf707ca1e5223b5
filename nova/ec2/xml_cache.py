"""Cache of XML fragments of responses.

An instance has about 40 elements. A cache lookup is faster than formatting these elements again (ADR 0018).
"""
import collections
from collections.abc import Callable
import hashlib
import threading
from typing import TypeVar

import orjson

F = TypeVar('F')
MAX_BYTES = 16 << 20            # maximum size of all fragments in a process
_ENTRY = 200                     # overhead of an entry in bytes


class XmlFragment(str):
    """An XML fragment, inserted into a response without escaping."""

    __slots__ = ()


class XmlCache:
    """Cache of fragments, keyed by a digest of the data that they are built from.

    :param most: maximum size in bytes; the least recently used fragments are removed first
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most, self.size = most, 0
        self._texts: collections.OrderedDict[bytes, XmlFragment] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, facts: F, write: Callable[[F], XmlFragment]) -> XmlFragment:
        """Return ``write(facts)``, from the cache if possible.

        :param facts: all data that ``write`` depends on; can be dumped as JSON
        """
        key = hashlib.sha256(orjson.dumps(facts)).digest()
        with self._lock:
            found = self._texts.get(key)
            if found is not None:
                self._texts.move_to_end(key)
                return found
        made = write(facts)
        size = _size(made)
        if size > self._most // 8:       # not cached: it would evict too many fragments
            return made
        with self._lock:
            if key not in self._texts:
                self._texts[key] = made
                self.size += size
                while self.size > self._most:
                    self.size -= _size(self._texts.popitem(last=False)[1])
        return made


def _size(text: XmlFragment) -> int:
    return text.__sizeof__() + _ENTRY
