"""Return of memory to the operating system after large responses.

The C library keeps freed memory between blocks in use: after a response of many megabytes a process stays large.
"""
from __future__ import annotations

import ctypes
import threading
import time

from nova.runtime import concurrency

LARGE = 1 << 20                  # bytes of a response after which memory is returned
REST_S = 5                       # delay, to combine successive responses

_lock = threading.Lock()
_waiting = False


def answered(size: int) -> None:
    """Record the size of a response."""
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


# glibc; other C libraries return memory automatically
_trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
