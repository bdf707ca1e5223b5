"""EC2, STS and S3 with the AWS SDKs for JavaScript v3, for Go v2 and for Python. The first two sign content-length."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from nova.tests import long_runs
from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'ec2'
SECONDS = 1200             # on a busy machine: the Go package of EC2 takes minutes to compile
pytestmark = pytest.mark.timeout(SECONDS + 120)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('sdks'), objectstore__enabled=True) as running:
        running.client().upload_image(b'\0' * 1024, name='small')
        yield running


def _kept(name):
    """A copy of a directory of tools/ec2 that is kept between runs; skips where nova is installed without tools."""
    if not (TOOLS / name).exists():
        pytest.skip(f'tools/ec2/{name} is not part of an installed nova')
    directory = pathlib.Path(tempfile.gettempdir(), f'nova-aws-sdks.{os.getuid()}', name)
    directory.parent.mkdir(mode=0o700, exist_ok=True)
    return pathlib.Path(shutil.copytree(TOOLS / name, directory, dirs_exist_ok=True))


def _installed(directory, *command):
    """Run a command that fetches packages; the test is skipped, with the reason, where they cannot be fetched."""
    if shutil.which(command[0]) is None:
        pytest.skip(f'{command[0]} is not installed')
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        pytest.skip(f'The packages cannot be fetched: {done.stderr.strip()[-200:]}')


def javascript():
    directory = _kept('javascript')
    if not (directory / 'node_modules' / '.package-lock.json').exists():
        _installed(directory, 'npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund')
    return ['node', directory / 'walk.mjs']


def go():
    directory = _kept('go')
    _installed(directory, 'go', 'mod', 'download')
    built = subprocess.run(['go', 'build', '-buildvcs=false', '-o', 'walk', '.'], cwd=directory, capture_output=True,
                           text=True, timeout=SECONDS)
    assert built.returncode == 0, built.stderr
    return [directory / 'walk']


def python():
    return [sys.executable, _kept('python') / 'walk.py']


@pytest.mark.parametrize('language', [python, javascript, *long_runs.rest([go], 0)],
                         ids=lambda language: language.__name__)
def test_an_aws_sdk_logs_in(cloud, language):
    """Every call of theirs was refused with 401."""
    command, demo = language(), cloud.client()
    pair = test_ec2.keys_of(demo)
    done = subprocess.run(
        [*command, cloud.url + test_ec2.PATH, cloud.url + '/objectstore', f'of-{language.__name__}'],
        env={**os.environ, 'AWS_ACCESS_KEY_ID': pair['access'], 'AWS_SECRET_ACCESS_KEY': pair['secret']},
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == {'account': demo.project_id, 'regions': ['RegionOne'], 'state': 'running',
                                       'object': 'content', 'wrong': 'AuthFailure', 'daily': [
                                           True, 'kubernetes.io/cluster/x', True, 'gp3', 'available', 0]}
