"""What a call between two services of one process takes, as tools/bench/rpc.py measures it."""
import json
import pathlib
import subprocess
import sys

import pytest

from nova import concurrency

SCRIPT = pathlib.Path(__file__).parents[3] / 'tools' / 'bench' / 'rpc.py'
MEDIAN_MS = 1                    # generous: an idle machine needs a third of it


@pytest.mark.parametrize('model', concurrency.MODELS)
def test_median_of_a_call(model):
    if not SCRIPT.exists():
        pytest.skip('tools/bench is not part of an installed package')
    done = subprocess.run([sys.executable, '-W', 'ignore', SCRIPT, '--thread-model', model, '--calls', '500', '--json'],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert set(results) == {'a small argument', 'an instance, there and back'}
    assert all(figures['median_ms'] <= MEDIAN_MS for figures in results.values()), results
