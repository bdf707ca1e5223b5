"""The short form of tools/proofs/volumes.py, and that it sees what it looks for."""
import collections
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import types
import uuid

import pytest

from nova.tests import ceph
from nova.tests import long_runs

TOOL = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'proofs' / 'volumes.py'

pytestmark = pytest.mark.skipif(not shutil.which('qemu-storage-daemon') or not shutil.which('qemu-io'),
                                reason='needs qemu-storage-daemon and qemu-io')


def test_nothing_that_was_acknowledged_is_lost():
    done = subprocess.run([sys.executable, TOOL, '--seconds', '8', '--volumes', '3'], capture_output=True, text=True,
                          timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ' 0 violations' in done.stdout and ' 0 acknowledged writes' not in done.stdout


@long_runs.only
def test_nothing_that_ceph_acknowledged_is_lost():
    if reason := ceph.missing():
        pytest.skip(reason)
    done = subprocess.run([sys.executable, TOOL.with_name('ceph.py'), '--seconds', '30'], capture_output=True,
                          text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ' 0 violations' in done.stdout and ' 0 acknowledged writes' not in done.stdout and 'OSD' in done.stdout


@pytest.mark.parametrize('name, block, number, wrong', [
    ('own', 5, 7, False), ('own', 5, 8, False), ('own', 5, 6, True), ('own', 4, 7, True), ('other', 5, 7, True),
    (None, 0, 0, True)])
def test_it_sees_a_lost_write_and_a_strange_block(name, block, number, wrong):
    spec = importlib.util.spec_from_file_location('volume_proof', TOOL)
    proof = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(proof)
    names, found = {'own': uuid.uuid4().bytes, 'other': uuid.uuid4().bytes}, []
    volume = proof.Volume.__new__(proof.Volume)
    volume.id, volume.name, volume.proof = 'v', names['own'], types.SimpleNamespace(violate=found.append)
    volume.acknowledged, volume.possible = {5: 7}, collections.defaultdict(set, {5: {7, 8}})
    volume.check(5, proof.HEADER.pack(names[name], block, number) if name else bytes(32), 'found')
    assert bool(found) == wrong
