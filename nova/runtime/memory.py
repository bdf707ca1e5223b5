"""Give memory back to the operating system after large answers.

The C library keeps what was freed between blocks that are in use: after an answer of many megabytes a process stays as
large as it was while it made the answer.
"""
from __future__ import annotations

import ctypes
import threading
import time

from nova.runtime import concurrency

LARGE = 1 << 20                  # bytes of an answer after which memory is given back
REST_S = 5                       # until then: answers that follow each other are one

_lock = threading.Lock()
_waiting = False


def answered(size: int) -> None:
    """Take note of the size of an answer."""
    global _waiting
    if size < LARGE or _trim is None:
        return
    with _lock:
        begin, _waiting = not _waiting, True
    if begin:
        concurrency.spawn('memory', _give_back)


def _give_back() -> None:
    global _waiting
    time.sleep(REST_S)
    with _lock:
        _waiting = False
    if _trim is not None:
        concurrency.blocking(_trim, 0)


# of glibc; other C libraries give memory back by themselves
_trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
