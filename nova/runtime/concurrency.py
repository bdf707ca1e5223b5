"""Choose green or native threads and the thresholds of garbage collection, once and before other imports.

All other modules use ``threading``. A command (or a test session) calls ``setup`` before it imports another module of
the project. For eventlet, ``setup`` patches the standard library, so that the code runs in green threads.
"""
import collections
from collections.abc import Callable
from concurrent import futures
import functools
import gc
import os
import threading
import time
import warnings
from typing import Any, Generic, ParamSpec, TypeVar, TypeVarTuple

MODELS = ('native', 'eventlet')
DEFAULT_MODEL = 'native'     # ADR 0001 compares measurements of the two thread models
# gc.set_threshold: one list response creates far more objects than the default of 700, and so do imports, of whose time
# collections were a sixth
GC_THRESHOLDS = (50_000, 10, 10)
POLL_INTERVAL_S = 0.01                # polling interval of a green thread that waits for the end of another thread

_model: str | None = None
_Item = TypeVar('_Item')
_Result = TypeVar('_Result')
_Arguments = ParamSpec('_Arguments')
_Positional = TypeVarTuple('_Positional')


def setup(model: str | None = None) -> str:
    """Choose the thread model of this process; a later call must choose the same model.

    :param model: 'native' or 'eventlet'; None reads NOVA_THREAD_MODEL and falls back to the default.
    :raises RuntimeError: the process already runs under the other model.
    """
    global _model
    gc.set_threshold(*GC_THRESHOLDS)
    model = model or os.environ.get('NOVA_THREAD_MODEL') or DEFAULT_MODEL
    if model not in MODELS:
        raise RuntimeError(f'NOVA_THREAD_MODEL is {model!r}; choose one of {", ".join(MODELS)}.')
    if _model not in (None, model):
        raise RuntimeError(f'The process runs on {_model} threads already; {model} was requested too late.')
    if _model is None:                    # the operator chose eventlet: do not warn on a command's stderr
        warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
    if _model is None and model == 'eventlet':
        import eventlet
        eventlet.monkey_patch()
    elif _model is None:
        # Libraries of oslo import eventlet if it is installed. Without eventlet's DNS resolver, this import loads 200
        # fewer modules and takes a third of a second less: https://eventlet.readthedocs.io/en/latest/environment.html
        os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
    _model = model
    return model


def model() -> str:
    """Return the thread model of this process, 'native' or 'eventlet'."""
    return _model or DEFAULT_MODEL


def blocking(function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
    """Call a function that blocks in C (libvirt, a database driver) without stopping the green threads."""
    if _model == 'eventlet':
        from eventlet import tpool
        result: _Result = tpool.execute(function, *args, **kwargs)
        return result
    return function(*args, **kwargs)


def with_context(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return a function that runs with the context of this thread, so that its log lines have the request id."""
    from nova.runtime.hooks import oslo_context      # import after ``setup``: the import creates a threading.local
    ctx = oslo_context.current()

    @functools.wraps(function)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        before = oslo_context.current()
        oslo_context.become(ctx)
        try:
            return function(*args, **kwargs)
        finally:
            oslo_context.become(before)
    return run


def spawn(name: str, function: Callable[_Arguments, object], *args: _Arguments.args,
          **kwargs: _Arguments.kwargs) -> threading.Thread:
    """Start a daemon thread and return it."""
    thread = threading.Thread(target=function, name=name, args=args, kwargs=kwargs, daemon=True)
    thread.start()
    return thread


def try_spawn(name: str, function: Callable[_Arguments, object], *args: _Arguments.args,
              **kwargs: _Arguments.kwargs) -> bool:
    """Start a daemon thread; return False if the process can start none now, so that a later call tries again."""
    try:
        spawn(name, function, *args, **kwargs)
    except RuntimeError:
        return False
    return True


def join(thread: threading.Thread, seconds: float) -> bool:
    """Wait up to ``seconds`` for the end of a thread that ``spawn`` started; return whether it has ended.

    Under eventlet 0.40 and Python 3.13, ``Thread.join`` would raise Timeout, a BaseException, after ``seconds``.
    """
    if _model != 'eventlet':
        thread.join(seconds)
    else:
        deadline = time.monotonic() + seconds
        while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(POLL_INTERVAL_S, left))
    return not thread.is_alive()


def spawn_native(name: str, function: Callable[[*_Positional], object], *args: *_Positional) -> threading.Thread:
    """Start a native daemon thread, also under eventlet, for functions that block in C.

    Under eventlet the function must not use locks, logs or queues of nova; it can pass results through a Mailbox.
    """
    if _model == 'eventlet':
        from eventlet import patcher
        real = patcher.original('threading')
    else:
        real = threading
    thread: threading.Thread = real.Thread(target=function, name=name, args=args, daemon=True)
    thread.start()
    return thread


class Mailbox(Generic[_Item]):
    """Queue with one reader. Native and green threads may put items; the reader may be a green thread."""

    def __init__(self) -> None:
        self._items: collections.deque[_Item] = collections.deque()
        self._reader, self._writer = os.pipe()
        if _model == 'eventlet':
            os.set_blocking(self._reader, False)     # so that eventlet's os.read blocks only the green thread

    def put(self, item: _Item) -> None:
        self._items.append(item)
        os.write(self._writer, b'.')

    def get(self) -> _Item:
        """Return the oldest item; wait for one."""
        os.read(self._reader, 1)
        return self._items.popleft()


class Pool:
    """Thread pool with at most ``size`` concurrent jobs; ``stop`` waits for running jobs.

    :param size: maximum number of threads; they start when needed.
    """

    def __init__(self, name: str, size: int) -> None:
        self._executor = futures.ThreadPoolExecutor(size, thread_name_prefix=name)
        self._running: set[futures.Future[Any]] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[_Arguments, _Result], *args: _Arguments.args,
               **kwargs: _Arguments.kwargs) -> futures.Future[_Result]:
        future = self._executor.submit(with_context(function), *args, **kwargs)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: futures.Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)

    def __len__(self) -> int:
        return len(self._running)

    def stop(self, timeout: float) -> bool:
        """Take no new job and wait up to ``timeout`` seconds for the running jobs; return True if all ended."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + timeout
        with self._lock:
            running = list(self._running)
        return not futures.wait(running, max(0, deadline - time.monotonic())).not_done
