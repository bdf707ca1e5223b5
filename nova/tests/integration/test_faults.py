"""The short form of tools/faults.py: parts of a small fleet are killed, stopped and restarted under load."""
import contextlib
import time

import pytest

from nova.tests import long_runs
from nova.tests.integration import daemons
from nova.tests.integration import servers

LOAD_S = 3


@pytest.fixture(scope='module')
def fleet(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(servers.rabbitmq())
        database = stack.enter_context(servers.mariadb(servers.HASTY_MARIADB))
        yield daemons.Fleet(stack, tmp_path_factory.mktemp('fleet'), broker, database)


def killed(*names):
    def fault(fleet):
        for name in names:
            fleet.daemons[name].kill()
        time.sleep(1)
        for name in names:
            fleet.daemons[name].start()
    return fault


def stopped(*names):
    """In order; each that is left serves meanwhile."""
    def fault(fleet):
        for name in names:
            assert fleet.daemons[name].stop() == 0
            fleet.daemons[name].start()
            time.sleep(2)
    return fault


def restarted(part):
    def fault(fleet):
        getattr(fleet, part).stop()
        getattr(fleet, part).start()
    return fault


# name -> (what happens, whether requests may fail)
FAULTS = {
    'one of each killed but the api': (killed('conductor1', 'scheduler1', 'network1', 'compute1'), False),
    'database restarted': (restarted('database'), True),
    'broker restarted': (restarted('broker'), True),
    'conductor and compute stopped in order': (stopped('conductor1', 'compute2'), False),
    'all killed but the api': (
        killed('conductor1', 'conductor2', 'scheduler1', 'network1', 'compute1', 'compute2'), True),
}


@pytest.mark.parametrize('name', long_runs.rest(FAULTS, 2))
def test_nothing_is_lost_or_doubled(fleet, name):
    fault, may_fail = FAULTS[name]
    result = fleet.run(fault, LOAD_S)
    answers = dict(result.history.counts)
    assert result.found == [], answers
    assert may_fail or result.failed == 0, answers
    assert sum(call.status == 202 for call in result.history.calls) > 3, answers
