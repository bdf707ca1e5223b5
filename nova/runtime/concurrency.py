"""Green or native threads: chosen once, before anything else is imported.

The rest of the code is plain ``threading`` code. ``setup`` is called by a command (or a test session) before it
imports another module of the project; under eventlet it patches the standard library, so that the same code runs
as green threads.
"""
from __future__ import annotations

import collections
from collections.abc import Callable
from concurrent import futures
import functools
import os
import threading
import time
from typing import Any, TypeVar

MODELS = ('native', 'eventlet')
DEFAULT_MODEL = 'native'     # measured: doc/source/adr/0002-thread-model.rst
LOOK_S = 0.01                # how often green threads that wait for the end of another one look

_model = None
_Result = TypeVar('_Result')


def setup(model: Any = None) -> Any:
    """Choose the thread model of this process; later calls must agree with the first.

    :param model: 'native' or 'eventlet'; None reads NOVA_THREAD_MODEL and falls back to the default.
    :raises RuntimeError: the process already runs under the other model.
    """
    global _model
    model = model or os.environ.get('NOVA_THREAD_MODEL') or DEFAULT_MODEL
    if model not in MODELS:
        raise RuntimeError(f'NOVA_THREAD_MODEL is {model!r}; choose one of {", ".join(MODELS)}.')
    if _model not in (None, model):
        raise RuntimeError(f'The process runs on {_model} threads already; {model} was requested too late.')
    if _model is None and model == 'eventlet':
        import eventlet
        eventlet.monkey_patch()
    elif _model is None:
        # Libraries may import eventlet, used or not. Without its resolver that is 200 modules and a third of a
        # second less; https://eventlet.readthedocs.io/en/latest/environment.html
        os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
    _model = model
    return model


def model() -> Any:
    """'native' or 'eventlet': what this process runs on."""
    return _model or DEFAULT_MODEL


def blocking(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function that blocks in C (libvirt, a database driver) without stopping the green threads."""
    if _model == 'eventlet':
        from eventlet import tpool
        return tpool.execute(function, *args, **kwargs)
    return function(*args, **kwargs)


def carried(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """The function, which runs with the context that this thread has now: its log lines carry that request id, in
    whichever thread it runs.
    """
    from nova.runtime.hooks import oslo_context      # not before ``setup``: it makes a threading.local
    ctx = oslo_context.current()

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> _Result:
        before = oslo_context.current()
        oslo_context.become(ctx)
        try:
            return function(*args, **kwargs)
        finally:
            oslo_context.become(before)
    return run


def spawn(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Start a daemon thread and return it."""
    thread = threading.Thread(target=function, name=name, args=args, kwargs=kwargs, daemon=True)
    thread.start()
    return thread


def join(thread: threading.Thread, seconds: float) -> bool:
    """Wait until a thread of ``spawn`` has ended, at most so long. Whether it has ended.

    With Python 3.13, ``join`` of eventlet 0.40 raises a Timeout that is no Exception where the thread goes on.
    """
    if _model != 'eventlet':
        thread.join(seconds)
    else:
        deadline = time.monotonic() + seconds
        while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left))
    return not thread.is_alive()


def spawn_native(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Start a daemon thread of the operating system under either model: for loops that run in C.

    Under eventlet it must touch no lock, log or queue of ours; what it finds it hands over through a Mailbox.
    """
    if _model == 'eventlet':
        from eventlet import patcher
        real = patcher.original('threading')
    else:
        real = threading
    thread = real.Thread(target=function, name=name, args=args, daemon=True)
    thread.start()
    return thread


class Mailbox:
    """Hands items from any thread, also native ones next to green ones, to one reader."""

    def __init__(self) -> None:
        self._items: collections.deque[Any] = collections.deque()
        self._reader, self._writer = os.pipe()
        if _model == 'eventlet':
            os.set_blocking(self._reader, False)     # the green read waits in the hub

    def put(self, item: Any) -> None:
        self._items.append(item)
        os.write(self._writer, b'.')

    def get(self) -> Any:
        """The oldest item; waits for one."""
        os.read(self._reader, 1)
        return self._items.popleft()


class Pool:
    """At most ``size`` jobs at once; can wait for what runs and refuse what comes after.

    :param size: threads at most; they start when needed.
    """

    def __init__(self, name: str, size: int) -> None:
        self._executor = futures.ThreadPoolExecutor(size, thread_name_prefix=name)
        self._running: set[Any] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        future = self._executor.submit(carried(function), *args, **kwargs)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: Any) -> None:
        with self._lock:
            self._running.discard(future)

    def __len__(self) -> int:
        return len(self._running)

    def stop(self, timeout: Any) -> bool:
        """Take no new job and wait at most ``timeout`` seconds for the running ones; True when all ended."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + timeout
        with self._lock:
            running = list(self._running)
        return not futures.wait(running, max(0, deadline - time.monotonic())).not_done
