"""Terraform's AWS provider on the EC2 API: the whole of tools/clients/terraform_aws.py, in long runs."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from nova.tests import long_runs

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'clients' / 'terraform_aws.py'
SECONDS = 2400             # on a busy machine: each command of Terraform loads the schema of the provider for seconds
pytestmark = pytest.mark.timeout(SECONDS + 60)


def _missing():
    """Return why the test cannot run, or None. CI must have what is missing."""
    if not SCRIPT.exists():
        return 'tools/clients is not part of an installed nova'
    if shutil.which('terraform') is None:
        return 'terraform is not installed'
    asked = subprocess.run([sys.executable, SCRIPT, '--check'], capture_output=True, text=True, timeout=60)
    return None if asked.returncode == 0 else asked.stdout.strip()


@long_runs.only
def test_terraform_plans_settle():
    """Applied, changed, replaced, imported and destroyed: only the listed resources differ."""
    if reason := _missing():
        pytest.skip(reason)
    done = subprocess.run([sys.executable, '-W', 'ignore', SCRIPT], capture_output=True, text=True, timeout=SECONDS,
                          env={**os.environ, 'PYTHONPATH': str(SCRIPT.parents[2])})
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert ' results passed' in done.stdout
