"""Terraform's AWS provider on the EC2 API: the whole of tools/clients/terraform_aws.py, in long runs."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from nova.tests import long_runs

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'clients' / 'terraform_aws.py'
SECONDS = 2400             # on a busy machine: each command of Terraform loads the schema of the provider for seconds
NOT_RUN = 77               # exit code of the script where terraform or the provider is missing
LEAST = 200                # results that must have passed
pytestmark = pytest.mark.timeout(SECONDS + 60)


@long_runs.only
def test_terraform_plans_settle():
    """Applied, changed, replaced, imported and destroyed: only the listed steps fail."""
    if not SCRIPT.exists():
        pytest.skip('tools/clients is not part of an installed nova')
    done = subprocess.run([sys.executable, '-W', 'ignore', SCRIPT], capture_output=True, text=True, timeout=SECONDS,
                          env={**os.environ, 'PYTHONPATH': str(SCRIPT.parents[2])})
    if done.returncode == NOT_RUN:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert int(re.search(r'tests: (\d+) passed', done.stdout)[1]) >= LEAST
