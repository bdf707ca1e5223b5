"""Text of answers that was written before: what has not changed since the last look is not written again.

An instance has about forty elements: to make them takes longer than to find out that they would be the same (ADR 0103).
"""
from __future__ import annotations

import collections
from collections.abc import Callable
import hashlib
import threading
from typing import Any

import orjson

MOST_BYTES = 16 << 20            # of the texts of a process
_ENTRY = 200                     # bytes that one takes besides its characters


class Text(str):
    """XML that stands in an answer as it is."""

    __slots__ = ()


class Memory:
    """Texts by a digest of everything that they were made of: the same facts give the same text, and no others do.

    :param most: bytes; what was not used for the longest goes first
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self.size = most, 0
        self._texts: collections.OrderedDict[bytes, Text] = collections.OrderedDict()
        self._lock = threading.Lock()

    def text(self, facts: Any, write: Callable[[Any], Text]) -> Text:
        """What a function writes of facts.

        :param facts: of JSON; all that the function reads but constants
        """
        key = hashlib.sha256(orjson.dumps(facts)).digest()
        with self._lock:
            found = self._texts.get(key)
            if found is not None:
                self._texts.move_to_end(key)
                return found
        made = write(facts)
        size = _size(made)
        if size > self._most // 8:       # one that would drive out the others
            return made
        with self._lock:
            if key not in self._texts:
                self._texts[key] = made
                self.size += size
                while self.size > self._most:
                    self.size -= _size(self._texts.popitem(last=False)[1])
        return made


def _size(text: Text) -> int:
    return text.__sizeof__() + _ENTRY
