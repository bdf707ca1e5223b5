"""What tests share with nova/tests/functional/test_cells_cloud.py."""
import pytest
import sqlalchemy as sa

from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests.support import waiting
from nova.tests.functional import cells_cloud
from nova.tests.support.waiting import wait_for


@pytest.fixture
def running(tmp_path):
    with cells_cloud.running(tmp_path, shelved_offload_time=-1) as found:
        yield found


def places(running):
    """{uuid: (name of its cell, its host)}; a server that stays in several cells, or not in the mapped one, fails."""
    return waiting.settled(lambda: places_now(running))


def places_now(running):
    found = {}
    for name, db in running.databases().items():
        with db.reader() as conn:
            for row in conn.execute(sa.select(tables_cell.instances)).mappings():
                assert row['uuid'] not in found
                found[row['uuid']] = (name, row['host'])
    names = {cell.uuid: cell.name for cell in running.cells.all()}
    with running.api_db.reader() as conn:
        mapped = {row.instance_uuid: names[row.cell_uuid] for row in conn.execute(sa.select(
            tables_api.instance_mappings.c.instance_uuid, tables_api.instance_mappings.c.cell_uuid))}
    assert mapped == {uuid: name for uuid, (name, _) in found.items()}
    return found


def act(client, server_id, body, version=None):
    answer = client.post(f'/servers/{server_id}/action', body, version=version)
    assert answer.status_code in (200, 202, 204), answer.text
    return answer


def gone(client, server_id):
    assert client.delete(f'/servers/{server_id}').status_code == 204
    wait_for(lambda: client.get(f'/servers/{server_id}').status_code == 404)
