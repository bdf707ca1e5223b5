"""The short form of tools/crash_test.py: the all-in-one is killed in the middle of its work, and stopped there."""
import importlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from nova.tests import long_runs
from nova.tests.support import waiting

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
GRACEFUL_S = 60          # the default of graceful_shutdown_timeout
IN_FLIGHT = 20


@pytest.fixture(scope='module')
def tool():
    """crash_test, the module."""
    if not (TOOLS / 'crash_test.py').exists():
        pytest.skip('tools/crash_test.py is not part of an installed nova')
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module('crash_test')
    finally:
        sys.path.remove(str(TOOLS))


@long_runs.only
def test_killed_first_start_can_be_repeated(tool):
    assert tool.first_starts(3) == []


def test_killed_cloud_recovers_each_time(tool):
    assert tool.run(driver='fake', rounds=6 if long_runs.LONG else 2, compare_each=True) == []


@long_runs.only
def test_killed_cloud_recovers_with_real_guests(tool, tmp_path_factory):
    if os.geteuid():
        pytest.skip('bridges and system libvirt need root')
    libvirt = pytest.importorskip('libvirt')
    try:
        libvirt.open('qemu:///system').close()
    except libvirt.libvirtError as error:
        pytest.skip(f'libvirt does not answer: {error}')
    for command in ('virsh', 'dnsmasq', 'nft', 'qemu-img'):
        if not shutil.which(command, path=os.environ['PATH'] + ':/usr/sbin'):
            pytest.skip(f'{command} is not installed')
    guest = os.environ.get('NOVA_TEST_GUEST_DIR') or str(tmp_path_factory.mktemp('guest'))
    made = subprocess.run([TOOLS / 'guest-image.sh', guest], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f'no guest image: {made.stderr.strip()[-200:]}')
    assert tool.run(driver='libvirt', rounds=2, servers=2, guest=guest, compare_each=True) == []


def test_waiting_builds_continue_after_a_stop(tool):
    """SIGTERM finishes what runs; what only waited is built after the next start. No server sees any of it."""
    cloud = tool.LocalCloud('fake', [*tool.NO_QUOTA, '[DEFAULT]', 'max_concurrent_builds = 5',
                                     '[fake]', 'delays = spawn:2'])

    def built(*states):
        return [row for row in tool.rows(cloud.state / 'cell1.sqlite', 'SELECT vm_state, task_state FROM instances')
                if row['vm_state'] == 'active' or row['task_state'] in states]
    try:
        cloud.start()
        body = tool.prepare(cloud, None)
        cloud.json('POST', '/servers', {'server': {**body, 'name': 'many', 'min_count': IN_FLIGHT,
                                                   'max_count': IN_FLIGHT}}, version='2.37')
        waiting.wait_for(lambda: len(built('spawning')) >= 5, 120, 'builds to run')
        assert cloud.end(GRACEFUL_S) == 0
        # at least the builds that ran; not the whole queue behind them
        assert 5 <= len(built()) < IN_FLIGHT
        cloud.start()
        assert tool.compare(cloud, tool.History(), print) == []
        assert [server['status'] for server in tool.listed(cloud)] == ['ACTIVE'] * IN_FLIGHT
    finally:
        cloud.close()
