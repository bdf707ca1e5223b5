"""A plugin of pytest: processes that run files of one list, each taking the next when it has done one.

    NOVA_TEST_FILES=LIST python -m pytest -p nova.tests.pulled nova/tests/functional

LIST has a path a line, the longest file first. No process waits for another one, and none loads a file that it does not
run: pytest-xdist's workers collect all tests each before the first one runs. Works on green threads, which those cannot
run on. tools/test.sh begins the processes.
"""
import atexit
import collections.abc
import fcntl
import itertools
import os
import pathlib
import sys
import typing

import pytest

FILES = 'NOVA_TEST_FILES'


def take(path: pathlib.Path) -> str:
    """The first line of a file, which no other process gets; '' at its end."""
    with path.open('r+') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        first, _, rest = file.read().partition('\n')
        file.seek(0)
        file.truncate()
        file.write(rest)
    return first


class Pulled:
    """The files are found as ever, and read when their turn comes."""

    def __init__(self, files: pathlib.Path) -> None:
        self._files = files
        self._modules: dict[str, pytest.Module] = {}
        self._taken: pytest.Module | None = None
        self._status = int(pytest.ExitCode.INTERNAL_ERROR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        if not isinstance(collector, pytest.Module) or collector is self._taken:
            return None
        self._modules[str(collector.path)] = collector
        return pytest.CollectReport(collector.nodeid, 'passed', None, [])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> typing.Literal[True]:
        session.testscollected = 0
        item: pytest.Item | None = None
        for following in itertools.chain(self._items(session), [None]):      # a test is told which one comes next
            if item is not None:
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _items(self, session: pytest.Session) -> collections.abc.Iterator[pytest.Item]:
        while path := take(self._files):
            self._taken = self._modules[str(session.config.rootpath / path)]
            items = list(session.genitems(self._taken))
            session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
            session.testscollected += len(items)
            yield from items


    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int | pytest.ExitCode) -> None:
        self._status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End as xdist's workers do: without waiting for threads of clouds that have ended, which wait for answers that
        do not come any more.
        """
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._status)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Pulled(pathlib.Path(os.environ[FILES])), 'nova-pulled')
