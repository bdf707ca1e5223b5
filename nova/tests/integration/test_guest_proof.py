"""tools/guest_proof.py on a cloud with real guests: its short form, and with a Debian guest in long runs.

Needs what test_libvirt.py does, gcc, and the Debian packages musl and musl-dev, which are unpacked beside the test.
NOVA_TEST_DEBIAN_GUEST_DIR names a directory with the Debian image.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import uuid

import pytest

from nova.network.linux import driver
from nova.tests import long_runs
from nova.tests.functional import cloud as whole
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_walk as walk

pytestmark = base.pytestmark
TREE = pathlib.Path(__file__).parents[3]
TOOL = TREE / 'tools' / 'guest_proof.py'
DEBIAN = os.environ.get('NOVA_TEST_DEBIAN_GUEST_DIR')


@pytest.fixture(scope='module')
def cloud():
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-guests-', dir='/var/tmp'))
    path.chmod(0o711)
    made = None
    try:
        with whole.running(path / 'state', compute_driver='libvirt', shutdown_timeout=1, network__driver='linux',
                           network__bridge='ng' + uuid.uuid4().hex[:8],
                           network__default_cidr=f'10.205.{random.randrange(1, 250)}.0/24') as made:
            yield made
    finally:
        walk._remove_guests(path)
        if made is not None:
            driver.LinuxDriver(made.conf).teardown()
        shutil.rmtree(path)


def unpacked(path, *packages):
    """A root directory with the files of Debian's packages."""
    done = subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', '-qq', 'download', *packages], cwd=path,
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f'{" and ".join(packages)} cannot be downloaded: {done.stderr.strip()[-200:]}')
    for package in path.glob('*.deb'):
        subprocess.run(['dpkg-deb', '-x', package, path / 'root'], check=True)
    return path / 'root'


@pytest.fixture(scope='module')
def musl(tmp_path_factory):
    if shutil.which('gcc') is None:
        pytest.skip('not installed: gcc')
    return unpacked(tmp_path_factory.mktemp('musl'), 'musl', 'musl-dev')


def proved(cloud, musl, *arguments):
    if not TOOL.exists():
        pytest.skip('tools/guest_proof.py is not part of an installed nova')
    done = subprocess.run([sys.executable, TOOL, cloud.clouds_yaml, '--own', base.GUEST / 'guest.qcow2', '--musl', musl,
                           *arguments], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_musl_guest_resolves_names_and_what_needs_an_agent_is_refused(cloud, musl):
    said = proved(cloud, musl, '--only', 'B1', '--only', 'B2')
    assert said.count('right') == 2 and said.endswith('0 wrong\n')


def test_a_guest_finds_its_tagged_devices(cloud, musl):
    assert 'right  B9 bus and address' in proved(cloud, musl, '--only', 'tagged')


@long_runs.only
@pytest.mark.parametrize('part', ['B4', 'B5', 'B6', 'B7', 'B9'])
def test_small_guest_passes_the_proof(cloud, musl, part):
    proved(cloud, musl, '--only', part)


@long_runs.only
@pytest.mark.skipif(not DEBIAN, reason='NOVA_TEST_DEBIAN_GUEST_DIR is not set')
@pytest.mark.parametrize('suite', ['bookworm', 'trixie'])
@pytest.mark.parametrize('part', ['B1', 'B2', 'B4', 'B5', 'B6', 'B7', 'B9'])
def test_debian_guest_passes_the_proof(cloud, musl, tmp_path, suite, part):
    subprocess.run([TREE / 'tools' / 'debian-guest.sh', '--suite', suite, DEBIAN], check=True)
    proved(cloud, musl, '--debian', f'{DEBIAN}/debian-{suite}.qcow2', '--guest', base.GUEST, '--isolinux',
           unpacked(tmp_path, 'isolinux', 'syslinux-common'), '--only', part)
