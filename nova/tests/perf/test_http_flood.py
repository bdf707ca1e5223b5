"""500 hostile connections beside 20 honest clients: a comparison of times, with nothing beside it."""
import json

import pytest

from nova.tests import long_runs
from nova.tests.perf import http_flood
from nova.tests.support import http_flood as shared_http_flood
from nova.tests.support.http_flood import flood
from nova.tests.support.http_flood import flood_metadata

cloud = shared_http_flood.cloud


@pytest.mark.parametrize('compare', long_runs.rest([flood, flood_metadata]))
def test_hostile_connections_delay_nobody(cloud, compare):
    found = compare(cloud)
    assert not http_flood.late(found), json.dumps(found)
