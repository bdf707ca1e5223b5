"""Servers that go to the cell of their host, on the databases that deployments have."""
import pytest

from nova.db.moves import cell_transfer
from nova.tests import long_runs
from nova.tests import many_cells
from nova.tests.integration import servers
from nova.tests.support import cell_transfer as test_cell_transfer


@pytest.fixture(params=long_runs.rest(['postgresql', 'mariadb']))
def deployment(request, tmp_path):
    with servers.SHARED[request.param]() as url_of:
        made = many_cells.Deployment(tmp_path, url_of=url_of)
        yield made
        made.close()


def test_interrupted_and_parallel_cell_transfers_complete(deployment, monkeypatch):
    test_cell_transfer.placed_and_deleted_at_once(deployment)
    monkeypatch.setattr(cell_transfer, 'ATTEMPT_TIMEOUT_S', -1)
    test_cell_transfer.broken_off_everywhere(deployment, test_cell_transfer.rename, (3, 5))
