"""Races of live migration and evacuation on the database servers, whose transactions really run beside each other."""
import time

import pytest

from nova import exception
from nova.tests import core
from nova.tests import long_runs
from nova.tests import races
from nova.tests.functional import test_core_evacuation as evacuation
from nova.tests.integration import servers
from nova.tests.support import core_live_migration as live


@pytest.fixture(scope='module', params=[name for name in servers.SHARED if name != 'sqlite'])
def url_of(request):
    with servers.SHARED[request.param]() as found:
        yield found


@pytest.fixture
def cloud(url_of, tmp_path):
    made = core.Cloud(tmp_path, hosts=live.HOSTS, url=url_of('r' + tmp_path.name[-20:].replace('-', '_')))
    yield made
    made.close()


def test_second_parallel_live_migration_is_refused(cloud):
    uuid = live.boot(cloud)
    results = races.outcomes(*[lambda host=host: live.migrate(cloud, uuid, host=host)
                               for host in ('host2', 'host3')])
    assert [type(found) for found in results if isinstance(found, Exception)] == [exception.InstanceInvalidState]
    cloud.settle()
    assert cloud.row(uuid)['host'] != 'host1'
    live.check(cloud)


@pytest.mark.parametrize('pause', long_runs.rest([0.05, 0, 0.15, 0.3]))
def test_delete_during_a_live_migration_leaves_nothing(cloud, pause):
    uuid = live.boot(cloud)

    def delete():
        time.sleep(pause)
        cloud.delete(uuid)
    races.outcomes(lambda: live.migrate(cloud, uuid), delete)
    cloud.settle()
    for _ in range(3):
        if not cloud.gone(uuid):
            cloud.pass_time()
            cloud.conductor.reconciler.reconcile()
            cloud.settle()
    assert cloud.gone(uuid)
    live.check(cloud)


@pytest.mark.parametrize('pause', long_runs.rest([0.02, 0, 0.05, 0.1]))
def test_host_that_returns_during_an_evacuation_keeps_one_guest(cloud, pause):
    evacuation.test_the_host_comes_back_at_any_moment(cloud, pause)


def test_second_parallel_evacuation_is_refused(cloud):
    evacuation.test_second_parallel_evacuation_is_refused(cloud)
