"""The end of a run of real servers is theirs, also when it comes as SIGTERM: fixtures end what they have started.

Real guests and servers are slow on a full machine: their tests have a longer limit than others, if no mark gives one.
"""
import signal

import pytest

from nova.tests import long_runs

LIMIT_S = 600
LONG_S = 7200                # with NOVA_TEST_LONG, of every test


def _interrupt(_number, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)        # one is enough: what ends must end
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _interrupt)


def pytest_collection_modifyitems(items):
    for item in items:
        if long_runs.LONG:
            item.add_marker(pytest.mark.timeout(LONG_S), append=False)
        elif not item.get_closest_marker('timeout'):
            item.add_marker(pytest.mark.timeout(LIMIT_S))
