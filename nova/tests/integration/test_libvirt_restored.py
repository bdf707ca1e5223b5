"""Databases that are restored from a backup harm no real guest: the short form of tools/proofs/restore.py."""
import pytest

from nova.tests import long_runs
from nova.tests.integration import moving
from nova.tests.integration import restored

pytestmark = moving.needed


def test_no_guest_is_touched_and_the_rows_follow():
    with restored.fleet() as fleet:
        assert restored.run(fleet, ignores=False) == []


@long_runs.only
def test_the_check_finds_what_computes_do_that_ignore_generations():
    with restored.fleet() as fleet:
        assert restored.run(fleet, ignores=True) != []


@pytest.mark.parametrize('name, starts', [('compute1b', False), ('compute1', True)])
def test_a_host_whose_name_has_changed_ends_no_guest(name, starts):
    with restored.fleet() as fleet:
        server = fleet.boot(restored.ONE, booted=False)['id']
        before = fleet.processes()
        assert (restored.ONE, server) in before
        code, said = fleet.start_as(restored.ONE, name)
        assert fleet.processes() == before
        assert (code is None) is starts, said
        assert starts or 'Set host = compute1 again' in said
