"""A plugin of pytest that makes threads late, so that a test fails that relies on their haste.

    NOVA_THREAD_MODEL=native python -m pytest -p nova.tests.jitter nova/tests/functional

After a transaction, and before a new thread, a job of a pool and a message, every thread but the tests' own sleeps
for a random time. What fails then, and passes without, looked at something that nobody had promised to be done by now.
"""
import contextlib
import functools
import random
import threading
import time

OFTEN, LONGEST_S = 0.4, 0.1


def late():
    if threading.current_thread() is not threading.main_thread() and random.random() < OFTEN:
        time.sleep(random.random() * LONGEST_S)


def begun_late(function):
    @functools.wraps(function)
    def begun(*args, **kwargs):
        late()
        return function(*args, **kwargs)
    return begun


def pytest_sessionstart(session):
    from nova.db import engine
    from nova.rpc import bus
    from nova.runtime import concurrency                     # not before conftest.py has chosen the thread model

    writer, spawn, submit, counted = (
        engine.Database.writer, concurrency.spawn, concurrency.Pool.submit, bus._counted)

    @contextlib.contextmanager
    def left_late(self):
        with writer(self) as conn:
            yield conn
        late()

    engine.Database.writer = left_late
    concurrency.spawn = lambda name, function, *args, **kwargs: spawn(name, begun_late(function), *args, **kwargs)
    concurrency.Pool.submit = lambda self, function, *args, **kwargs: submit(
        self, begun_late(function), *args, **kwargs)
    bus._counted = lambda *args: begun_late(counted(*args))
