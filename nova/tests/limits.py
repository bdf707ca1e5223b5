"""No test stops all others: what pytest-timeout leaves open, and a file that says what a process does.

The limits are pytest-timeout's (``timeout`` in setup.cfg, the mark ``timeout``). Here setup, call and teardown have the
limit each, also after a failure, which ends pytest-timeout's. An alarm raises in the thread of the test, and comes
again, since a test's own clean-up can hang, too. Where no alarm helps, the process ends with the stacks of its threads.
A test that waits for a program waits no longer than its limit.

NOVA_TEST_RUNNING names a directory for nova.tests.runner: a file of each process, with what it does and since when.
On SIGUSR2 the process writes the stacks of its threads beside it.
"""
import faulthandler
import functools
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import traceback

import pytest
import pytest_timeout

AGAIN_S, LAST_S, END_S = 60, 240, 300       # to the next alarm; to the end from the first one, and from the last test
WAIT = 0.9                                  # of the limit, for one program
SETTINGS = pytest.StashKey()
TESTS = os.sep + os.path.join('nova', 'tests') + os.sep


class Limits:
    """A plugin of pytest; the hooks in their order."""

    def __init__(self):
        self._errors = os.dup(2)            # no test captures it
        self._seconds = None
        self._file = None

    def pytest_configure(self, config):
        directory = os.environ.get('NOVA_TEST_RUNNING')
        if directory and not config.getoption('numprocesses', None):
            self._file = pathlib.Path(directory, str(os.getpid()))
            faulthandler.register(signal.SIGUSR2, self._file.with_suffix('.stacks').open('w'))
        self._says('collects the tests')

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item, settings):
        """Instead of pytest-timeout's, whose alarm ends the process on green threads and comes once."""
        item.stash[SETTINGS] = settings
        self._seconds = settings.timeout

        def late(_number, _frame):
            __tracebackhide__ = True
            if pytest_timeout.is_debugging():
                return
            sys.stderr.writelines(_stacks())
            pytest.fail(f'It takes more than {settings.timeout:.0f} s.')

        def cancel():
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.cancel_dump_traceback_later()

        item.cancel_timeout = cancel
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_S)
        if not pytest_timeout.is_debugging():
            faulthandler.dump_traceback_later(settings.timeout + LAST_S, file=self._errors, exit=True)
        return True

    def pytest_enter_pdb(self):
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        return (yield from self._limited(item, 'setup of '))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        return (yield from self._limited(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self._limited(item, 'teardown of '))

    def _limited(self, item, what=''):
        """A phase of a test: no alarm comes between two of them, where it would end the whole session."""
        self._says(what + item.nodeid)
        settings = item.stash.get(SETTINGS, None)
        if settings is not None:
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
        try:
            return (yield)
        finally:
            item.ihook.pytest_timeout_cancel_timer(item=item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        self._says('ends what its tests have left')
        faulthandler.dump_traceback_later(END_S, file=self._errors, exit=True)

    def _says(self, text):
        if self._file is not None:
            self._file.write_text(f'{time.time():.0f} {os.environ.get("NOVA_TEST_PART", "-")} {text}\n')

    def bound_waits(self):
        """Give those waits of tests for programs a limit that name none."""
        for name, position in ('wait', 0), ('communicate', 1):
            setattr(subprocess.Popen, name, self._bounded(getattr(subprocess.Popen, name), position))

    def _bounded(self, wait, position):
        @functools.wraps(wait)
        def bounded(process, *args, **kwargs):
            given = args[position] if len(args) > position else kwargs.get('timeout')
            if given is None and self._seconds and _asked_by_a_test(sys._getframe(1)):
                args, kwargs['timeout'] = args[:position], self._seconds * WAIT
            return wait(process, *args, **kwargs)
        return bounded


def _asked_by_a_test(frame):
    while frame is not None and frame.f_code.co_filename.endswith('subprocess.py'):
        frame = frame.f_back
    return frame is not None and TESTS in frame.f_code.co_filename


def _stacks():
    """Of all threads, and of the green ones, which are none to Python."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f'~~~ thread {names.get(ident, ident)}\n' + ''.join(traceback.format_stack(frame))
    if 'eventlet' in sys.modules:
        import greenlet
        for found in gc.get_objects():
            if isinstance(found, greenlet.greenlet) and found.gr_frame is not None:
                yield f'~~~ {found!r}\n' + ''.join(traceback.format_stack(found.gr_frame))


def register(config):
    """Begin, once the thread model is chosen."""
    limits = Limits()
    config.pluginmanager.register(limits, 'nova-limits')
    limits.bound_waits()
