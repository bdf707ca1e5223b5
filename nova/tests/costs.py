"""A plugin of pytest that prints which tests and files use most of a processor.

    python -m pytest -p nova.tests.costs nova/tests/unit

Seconds of a processor hardly change on a full machine, unlike those of ``--durations``. Those of a test are of its
process, with all of its threads and the programs that it has waited for, in setup, call and teardown.
"""
import collections
import resource

import pytest

MOST = 20
PROPERTY = 'processor_s'


def used():
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in found)


class Costs:
    def __init__(self):
        self._tests = collections.Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        return (yield from self._measured(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        return (yield from self._measured(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self._measured(item))

    def _measured(self, item):
        before = used()
        try:
            return (yield)
        finally:
            item.user_properties[:] = [(PROPERTY, used() - before)]

    def pytest_runtest_logreport(self, report):
        self._tests[report.nodeid] += dict(report.user_properties).get(PROPERTY, 0)

    def pytest_terminal_summary(self, terminalreporter):
        files = collections.Counter()
        for name, seconds in self._tests.items():
            files[name.partition('::')[0]] += seconds
        terminalreporter.section(f'{sum(files.values()):.0f} s of a processor')
        for counted in files, self._tests:
            for name, seconds in counted.most_common(MOST):
                terminalreporter.write_line(f'{seconds:8.2f} s  {name}')
            terminalreporter.write_line('')


def pytest_configure(config):
    config.pluginmanager.register(Costs(), 'nova-costs')
