"""What tests share with nova/tests/functional/test_moves_cloud.py."""
import pytest
import sqlalchemy as sa

from nova.db.placement import claims
from nova.db.tables import cell as tables_cell
from nova.tests.functional import cloud

HOSTS = ['host1', 'host2', 'host3']


@pytest.fixture
def running(tmp_path):
    with cloud.running(tmp_path, HOSTS) as found:
        yield found


def check(running):
    assert running.cell_db.run(claims.audit) == []
    table = tables_cell.migrations
    with running.cell_db.reader() as conn:
        assert conn.execute(sa.select(table.c.id).where(table.c.claimed_host.is_not(None))).all() == []


def act(client, server_id, body, status=202, version=None):
    answer = client.post(f'/servers/{server_id}/action', body, version=version)
    assert answer.status_code == status, answer.text
