"""Unit and contract tests pass with the oldest and with the newest versions that the requirements allow."""
import pathlib
import subprocess
import sys

import pytest

from nova.tests import long_runs

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'proofs' / 'dependencies.py'


@long_runs.only
@pytest.mark.timeout(7200)
@pytest.mark.parametrize('bound', ['oldest', 'newest'])
def test_the_tests_pass_with_all_allowed_versions(bound):
    done = subprocess.run([sys.executable, SCRIPT, bound, '-n', '0'], capture_output=True, text=True, timeout=7000)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
