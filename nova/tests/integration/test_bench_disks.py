"""The figures of disks in a tiny form: each part prints its rows (tools/bench/storage/disks.py, disk_guests.py)."""
import os
import pathlib
import subprocess
import sys

import pytest

from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt

BENCH = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'bench' / 'storage'
pytestmark = [long_runs.only, pytest.mark.skipif(
    not BENCH.exists(), reason='tools are not part of an installed nova')]


def printed(script, *words):
    done = subprocess.run([sys.executable, '-W', 'ignore', BENCH / script, *words], capture_output=True, text=True,
                          timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_disk_bench_prints_volumes_images_and_memory():
    text = printed('disks.py', '--volumes', '2', '--rounds', '1', '--image', '4', '--only', 'single,many,image,memory')
    for row in ('create a volume of 1 GiB', 'the storage by itself', '2 volumes, concurrency 8', '4 MiB of data, qcow2',
                '4 MiB of data, raw', 'which hashes it', 'and with a flush', 'memory of nova-volume: '):
        assert row in text, text


@pytest.mark.skipif(test_libvirt._REASON is not None, reason=str(test_libvirt._REASON))
def test_disk_bench_prints_guest_figures():
    guest = os.environ['NOVA_TEST_GUEST_DIR']
    text = printed('disks.py', '--guest', guest, '--guests', '2', '--only', 'fetched')
    assert '2 servers of one image on one host: it was fetched 1 time(s)' in text
    text = printed('disk_guests.py', '--guest', guest, '--requests', '20', '--mib', '2', '--rounds', '1')
    assert text.count('QEMU alone') == 4 and text.count('    file ') == 4 and '%' in text
