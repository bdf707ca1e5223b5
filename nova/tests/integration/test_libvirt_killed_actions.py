"""The short forms of ``tools/crash_test.py --actions`` and ``tools/proofs/volumes.py --guests``: nova-compute dies in
the middle of actions on a real guest, and so do QEMU and the exporter while guests write to volumes."""
import uuid

import pytest

from nova.tests import long_runs
from nova.tests.integration import killed_actions
from nova.tests.integration import killed_writers
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
def test_cloud_is_consistent_after_a_kill(walk, name):
    row = walk.run(killed_actions.ACTIONS[name], SHORT[name])
    assert row.failed == []
    assert (row.kills, row.missed) == (len(SHORT[name]), 0), 'a kill that does not happen proves nothing'


def test_nothing_that_a_guest_was_told_to_be_written_is_lost(walk):
    """Two guests write to exported volumes; nova-compute, the exporter and in the end both QEMUs are killed."""
    proof = killed_writers.Proof(walk.fleet)
    proof.boot(2)
    for kind in ('exporter', 'nova-compute'):
        proof.kill(kind, proof.writers[0])
    proof.finish()
    assert proof.violations == []
    assert proof.kills == {'nova-compute': 1, 'exporter': 1, 'QEMU': 2}, 'a kill that does not happen proves nothing'
    assert proof.compared == 2 * killed_writers.BLOCKS
    assert all(len(each.said) > killed_writers.LEAST for each in proof.writers)
    for each in proof.writers:
        walk.fleet.delete(each.server)


OWN, OTHER = (str(uuid.UUID(int=number)) for number in (1, 2))
FIRST, BEGIN = killed_writers.AHEAD + 1, killed_writers.AHEAD


@pytest.mark.parametrize('volume, number, wrong', [
    (OWN, FIRST + 64, ''), (OWN, FIRST + 128, ''), (OWN, FIRST, 'was acknowledged'), (OTHER, FIRST + 64, 'what is of'),
    (OWN, FIRST + 65, 'what is of'), (OWN, FIRST + 64 + BEGIN * 64, 'never written'), (None, 0, 'is empty')])
def test_checker_reports_a_lost_write_and_a_foreign_block(volume, number, wrong):
    writer = killed_writers.Writer('server', OWN, [BEGIN])
    said = writer.words(FIRST + 64)
    assert writer.hear(b'ack %d =%s =\r\n' % (FIRST + 64, said.rstrip())) == []
    block = killed_writers.block_of(FIRST)
    there = killed_writers.Writer('server', volume, [BEGIN]).words(number) if volume else b''
    found = there.ljust(killed_writers.BLOCK, b' ' if there else b'\0')
    said = writer.compare(block, found)
    assert wrong in said if wrong else said is None


def test_checker_reports_a_wrong_block():
    writer = killed_writers.Writer('server', OWN, [BEGIN])
    strange = killed_writers.Writer('server', OTHER).words(FIRST).rstrip()
    wrong, = writer.hear(b'ack %d =%s =' % (FIRST, strange))
    assert OTHER in wrong
