"""Load on a real broker and a real database: messages come twice and out of order, transactions lose deadlocks."""
import pytest

from nova.tests import db_faults
from nova.tests import disorder
from nova.tests import loaded
from nova.tests import long_runs
from nova.tests.integration import servers

LOAD_S, RUNS = 4, 8                # as many runs as it takes until enough has gone wrong, at most so many


@pytest.mark.parametrize('kind', long_runs.rest(['postgresql', 'mariadb']))
def test_cloud_survives_disorder_and_deadlocks(kind, tmp_path):
    disorder.register()
    with servers.SHARED[kind]() as url_of:
        address = servers.virtual_host().url.replace(servers.BUS, 'nova-disorder-rabbit')
        cloud = loaded.start(tmp_path / 'state', transport_url=f'{address}?doubled=0.2&late=0.2&longest=0.3',
                             api_database__connection=url_of('disorder_api'),
                             database__connection=url_of('disorder_cell'))
        try:
            cloud.start()
            clients = loaded.Loaded(cloud)
            with db_faults.Injector(cloud.api_db, 0.03) as first, db_faults.Injector(cloud.cell_db, 0.03) as second:
                for seed in range(RUNS):
                    result = clients.run(LOAD_S, seed=seed)
                    assert (result.failed, result.found) == (0, []), result.history.counts
                    counts = {**cloud.bus._transport._driver.counts, 'deadlocks': first.count + second.count}
                    if min(counts.values()) > 5:
                        break
            clients.close()
        finally:
            cloud.stop(5)
    assert min(counts.values()) > 5, counts
