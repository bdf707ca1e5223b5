"""Return freed memory to the operating system.

The C library does not return freed memory between blocks in use. So a process stays large after a backup or a response
of many megabytes, and grows slowly under load.
"""
import ctypes
import threading
import time

from nova.runtime import concurrency

LARGE = 1 << 20                  # minimum bytes of a response after which memory is returned
DELAY_S = 5                      # delay after a large response, to return memory once after several responses
INTERVAL_S = 300                 # interval of memory returns if there are no large responses

_lock = threading.Lock()
_waiting = False
_returned = time.monotonic()


def answered(size: int) -> None:
    """Record the size of a response."""
    if size >= LARGE:
        _begin(DELAY_S)


def tick() -> None:
    """Return memory if none was returned for INTERVAL_S; the main loop of each daemon calls this."""
    if time.monotonic() - _returned > INTERVAL_S:
        _begin(0)


def _begin(delay: float) -> None:
    global _waiting
    if _trim is None:
        return
    with _lock:
        _waiting = _waiting or concurrency.try_spawn('memory', _give_back, delay)


def _give_back(delay: float) -> None:
    global _returned, _waiting
    time.sleep(delay)
    with _lock:
        _waiting, _returned = False, time.monotonic()
    if _trim is not None:
        concurrency.blocking(_trim, 0)


# only glibc has this function; other C libraries return memory automatically
_trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
