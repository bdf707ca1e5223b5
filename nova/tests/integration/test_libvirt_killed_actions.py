"""The short form of ``tools/crash_test.py --actions``: nova-compute dies in the middle of actions on a real guest."""
import pytest

from nova.tests import long_runs
from nova.tests.integration import killed_actions
from nova.tests.integration import moving

pytestmark = moving.needed
# of the steps of an action, some: in the middle, and before it says that it is done
SHORT = {'attach volume': (-2,), 'spawn': (-2,), 'stop': (-1,), 'swap volume': (-4,), 'resize': (2, -2),
         'snapshot': (3,)}


@pytest.fixture(scope='module')
def walk():
    with killed_actions.fleet() as fleet:
        yield killed_actions.Walk(fleet)
        fleet.clear()


@pytest.mark.parametrize('name', long_runs.rest(SHORT))
def test_all_is_well_after_a_kill(walk, name):
    row = walk.run(killed_actions.ACTIONS[name], SHORT[name])
    assert row.failed == []
    assert (row.kills, row.missed) == (len(SHORT[name]), 0), 'a kill that does not happen proves nothing'
