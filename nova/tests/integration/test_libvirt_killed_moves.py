"""The short form of ``tools/crash_test.py --moves``: parts die in the middle of moves of a real guest."""
import pytest

from nova.tests import long_runs
from nova.tests.integration import killed_moves
from nova.tests.integration import moving
from nova.tests.integration import moving_cloud

pytestmark = moving.needed


@pytest.fixture(scope='module')
def walk():
    with moving_cloud.fleet() as made:
        walk = killed_moves.Walk(made)
        walk.begin()
        yield walk
        made.clear()


@pytest.mark.parametrize('case', long_runs.rest(killed_moves.SHORT), ids=lambda case: case.name)
def test_the_guest_is_on_one_host(walk, case):
    walk.run(case)
