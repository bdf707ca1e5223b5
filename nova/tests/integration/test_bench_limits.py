"""The short form of tools/bench/soak.py, and what tools/bench/limits.py does without guests."""

import pytest

from nova.tests.support import bench_limits
from nova.tests.support.bench_limits import printed

pytestmark = bench_limits.pytestmark


MOST_SLOPE = 6                   # MiB for 1,000 servers: caches still fill, the long form shows them full


@pytest.mark.timeout(3600)
def test_memory_is_level_while_servers_come_and_go():
    """Resident memory grew by 4.5 to 5.1 MiB for 1,000 servers. No server and no volume is left over, either."""
    text = printed('soak.py', '--servers', '2000', '--every', '200', '--most-slope', str(MOST_SLOPE))
    assert 'MiB of resident memory for 1,000 servers' in text and 'left over' not in text


def test_an_upload_is_compared():
    text = printed('limits.py', '--only', 'upload', '--mib', '16', '--repeat', '1')
    assert 'upload of 16 MiB, cp' in text and 'upload of 16 MiB, two hashes' in text
