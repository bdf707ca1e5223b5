"""The short form of tools/proofs/fencing.py, and that its checker sees what it looks for."""
import importlib.util
import pathlib
import sys

import pytest

from nova.tests import long_runs

TOOL = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'proofs' / 'fencing.py'


@pytest.fixture(scope='module')
def fencing():
    """The module of the tool, where it can run."""
    if not TOOL.exists():
        pytest.skip('tools/proofs/fencing.py is not part of an installed nova')
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOL.parent))
        spec = importlib.util.spec_from_file_location('fence_proof', TOOL)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        sys.modules.pop('volumes', None)
        if reason := made.missing():
            pytest.skip(reason)
        yield made


@pytest.fixture(scope='module')
def proof(fencing):
    with fencing.proof() as made:
        yield made


@pytest.fixture(autouse=True)
def without_violations(proof):
    proof.violations.clear()


def test_a_guest_that_lives_on_a_dead_host_writes_nothing_more(fencing, proof):
    servers = proof.run('alive')
    assert all(server.evacuated for server in servers) and proof.violations == []


def test_an_evacuation_stops_where_the_rights_of_a_fence_are_missing(fencing, proof):
    """The volume that is a clone of an image to which the host has no right is the one of the report."""
    servers = proof.run('refused', user=fencing.REFUSED)
    assert [server.kind for server in servers if server.evacuated] == [fencing.EXPORTED]
    refusals = {server.kind: server.refusal for server in servers if not server.evacuated}
    assert 'Operation not permitted' in refusals[fencing.CLONE]          # to look at it
    assert 'access denied' in refusals[fencing.ROOT]                     # to the blocklist
    assert all('two-writers' in refusal for refusal in refusals.values())
    assert proof.violations == []


@pytest.mark.parametrize('cut', [False, pytest.param(True, marks=long_runs.only)])
def test_the_checker_reports_two_writers_where_the_result_of_the_fence_is_ignored(fencing, proof, cut):
    servers = proof.run('without the guard', user=fencing.REFUSED, guard=False, cut=cut)
    assert all(server.evacuated for server in servers)
    for kind in fencing.KINDS:
        assert any(kind in line for line in proof.violations), kind


@long_runs.only
def test_a_client_that_ceph_has_forgotten_and_that_never_wrote_is_shut_out(fencing, proof):
    servers = proof.run('cut off', cut=True)
    assert all(server.evacuated for server in servers) and proof.violations == []
