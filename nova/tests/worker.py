"""A plugin of pytest for the processes that ``nova.tests.runner`` starts.

    NOVA_TEST_QUEUE=LIST NOVA_TEST_RESULTS=FILE python -m pytest -p nova.tests.worker nova/tests/functional

Processes with one LIST share its files: each takes the next one when it has run one. A line is a path, and after a tab
the time until which the file may begin, if it has one. A process loads only the files that it runs. pytest-xdist's
workers collect all tests before the first one, and do not run on green threads.

Each test adds a line to FILE: outcome, seconds, seconds of a processor, name; each file one, when it is taken. The last
line says that the process has ended by itself: one that was ended before has exit code 1, too.
``nova/tests/long.tsv`` names tests that an ordinary run leaves out; NOVA_TEST_SELECT=long runs these alone,
NOVA_TEST_SELECT=all both.
"""
import atexit
import collections.abc
import fcntl
import itertools
import os
import pathlib
import sys
import time
import typing

import pytest

from nova.tests import costs
from nova.tests import long_runs
from nova.tests import plan

PASSED, FAILED, LEFT_OUT, TAKEN, ENDED = 'passed', 'failed', 'left out', 'taken', 'ended'


def take(path: pathlib.Path) -> str:
    """The first path of a list that may begin now, which no other process gets; '' if there is none."""
    with path.open('r+') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines, now = file.read().splitlines(), time.time()
        for number, line in enumerate(lines):
            name, _, latest = line.partition('\t')
            if not latest or now < float(latest):
                del lines[number]
                file.seek(0)
                file.truncate()
                file.writelines(f'{rest}\n' for rest in lines)
                return name
    return ''


class Hooks:
    def pytest_file_taken(self, path: str) -> None:
        """A file has been taken from the queue."""


class Queue:
    """Finds all files as pytest does, and loads each when its turn comes."""

    def __init__(self, files: pathlib.Path, results: 'Results | None') -> None:
        self._files, self._results = files, results
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
            session.config.hook.pytest_file_taken(path=path)
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
        if self._results is not None:
            self._results.end()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._status)


class Results:
    """Writes what became of each test, and what it took."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._worst: dict[str, str] = {}
        self._took: dict[str, list[float]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> collections.abc.Generator[None]:
        return (yield from self._measured(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> collections.abc.Generator[None]:
        return (yield from self._measured(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> collections.abc.Generator[None]:
        return (yield from self._measured(item))

    def _measured(self, item: pytest.Item) -> collections.abc.Generator[None]:
        began, before = time.monotonic(), costs.used()
        try:
            return (yield)
        finally:
            took = self._took.setdefault(item.nodeid, [0.0, 0.0])
            took[0] += time.monotonic() - began
            took[1] += costs.used() - before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._worst.get(report.nodeid, PASSED)
        self._worst[report.nodeid] = FAILED if FAILED in (before, report.outcome) else max(before, report.outcome)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._add(self._worst.pop(nodeid, FAILED), nodeid, *self._took.pop(nodeid, (0.0, 0.0)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == FAILED:
            self._add(FAILED, report.nodeid)

    def pytest_deselected(self, items: collections.abc.Sequence[pytest.Item]) -> None:
        for item in items:
            if item.stash.get(LISTED, False):
                self._add(LEFT_OUT, item.nodeid)

    def pytest_file_taken(self, path: str) -> None:
        self._add(TAKEN, path)

    def end(self) -> None:
        """The process ends now, by itself."""
        self._add(ENDED, '')

    def _add(self, outcome: str, name: str, seconds: float = 0.0, processor: float = 0.0) -> None:
        with self._path.open('a') as file:
            file.write(f'{outcome}\t{seconds:.2f}\t{processor:.2f}\t{name}\n')


LISTED = pytest.StashKey[bool]()        # left out because nova/tests/long.tsv names it, or by its mark


class Select:
    """Deselects the tests of the list of long tests, or all others."""

    def __init__(self, selection: str, names: collections.abc.Collection[str]) -> None:
        self._selection, self._names = selection, names

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        marked = {item for item in items if long_runs.only.mark in item.iter_markers()}
        listed = [item for item in items if plan.is_listed(item.nodeid, self._names, only=item in marked)]
        if self._selection == 'long':
            items[:] = listed
            return
        out = {*listed, *marked}
        for item in out:
            item.stash[LISTED] = True
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    environ = os.environ
    register = config.pluginmanager.register
    results = Results(pathlib.Path(environ['NOVA_TEST_RESULTS'])) if 'NOVA_TEST_RESULTS' in environ else None
    if 'NOVA_TEST_QUEUE' in environ:
        register(Queue(pathlib.Path(environ['NOVA_TEST_QUEUE']), results), 'nova-queue')
    if results is not None:
        register(results, 'nova-results')
    selection = environ.get('NOVA_TEST_SELECT', 'all')
    if selection != 'all':
        rows = plan.long_tests(pathlib.Path(environ.get('NOVA_TEST_LONG_LIST') or plan.LONG))
        register(Select(selection, {row.name for row in rows}), 'nova-select')
