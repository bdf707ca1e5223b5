"""What tests share with nova/tests/integration/test_bench_limits.py."""
import pathlib
import subprocess
import sys

import pytest

from nova.tests import long_runs

BENCH = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'bench'
pytestmark = [long_runs.only, pytest.mark.skipif(
    not BENCH.exists(), reason='tools are not part of an installed nova')]


def printed(script, *words):
    done = subprocess.run([sys.executable, '-W', 'ignore', BENCH / script, *words], capture_output=True, text=True,
                          timeout=3000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout
