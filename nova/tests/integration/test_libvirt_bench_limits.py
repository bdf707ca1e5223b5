"""tools/bench/limits.py in a tiny form, with real guests."""
import os
import re

import pytest

from nova.tests.support import bench_limits as bench
from nova.tests.support import libvirt as test_libvirt

MIB = 64
pytestmark = [*bench.pytestmark,
              pytest.mark.skipif(test_libvirt._REASON is not None, reason=str(test_libvirt._REASON))]


@pytest.mark.timeout(3600)
def test_guests_are_compared():
    text = bench.printed('limits.py', '--only', 'snapshot,volume,boot', '--repeat', '1', '--mib', str(MIB), '--guest',
                         os.environ['NOVA_TEST_GUEST_DIR'])
    for row in (f'snapshot of {MIB} MiB', 'attach a volume', 'detach a volume', 'POST until ACTIVE'):
        assert row in text, text
    # QEMU writes the copy; nova-all read, hashed and wrote it again
    assert int(re.search(r'written (\d+) MiB by nova-all', text)[1]) < MIB / 2, text
