"""The EC2 API's own project, unmodified from PyPI, on the services of an all-in-one, with awscli."""
import os
import re
import subprocess
import sys

import pytest

from nova.tests import long_runs
from nova.tests.support import client_suites as suites

SECONDS = 1200             # on a busy machine
SCRIPT = suites.TOOLS / 'ec2' / 'ec2_api_walk.py'


@long_runs.only
def test_ec2_api_runs_on_this_clouds_services(tmp_path):
    """Setting a subnet's gateway aside while a router is on it, and the DHCP options dns-server and netbios-ns of a
    port, were refused: it could make no subnet and no instance of a VPC with DHCP options."""
    if not SCRIPT.exists():
        pytest.skip('tools/ec2 is not part of an installed nova')
    fetched = subprocess.run([sys.executable, '-m', 'pip', '--disable-pip-version-check', 'download', '-q', '--no-deps',
                              '--retries', '1', '-d', tmp_path, 'ec2-api==17.0.0'], capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f'ec2-api cannot be fetched: {fetched.stderr.strip()[-200:]}')
    done = subprocess.run([sys.executable, SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, env={**os.environ, 'TMPDIR': str(tmp_path)})
    found = re.search(r'steps: (\d+) pass, (\d+) cannot, 0 failed', done.stdout)
    assert done.returncode == 0 and found, done.stdout[-6000:]
    assert int(found[1]) >= 95 and int(found[2]) <= 5
