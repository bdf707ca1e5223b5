"""The short form of tools/proofs/placement.py, and that it sees what it looks for."""
import collections
import importlib
import pathlib
import sys

import pytest
import sqlalchemy as sa

from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import long_runs
from nova.tests import server_rows
from nova.tests.integration import servers

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'proofs'
HAPPENS = ('no host', 'boot 403', 'DELETE 204')
RUNS = 4                         # few requests by chance: one run may have none of the one or the other
GROUP = '9d3f4f3e-5e61-4a54-a1c2-3f0e6f3f7b10'


@pytest.fixture(scope='module')
def tool():
    """tools/proofs/placement.py, the module."""
    if not (TOOLS / 'placement.py').exists():
        pytest.skip('tools/proofs/placement.py is not part of an installed nova')
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module('placement')
    finally:
        sys.path.remove(str(TOOLS))


@pytest.mark.parametrize('database', ['mariadb', pytest.param('postgresql', marks=long_runs.only)])
def test_no_limit_is_exceeded(tool, database, tmp_path, monkeypatch):
    monkeypatch.setitem(tool.PROJECTS, 'few', (2, {'instances': 2}))         # that few requests reach it
    counts = collections.Counter()
    for number in range(RUNS):
        directory = tmp_path / str(number)
        directory.mkdir()
        with servers.SHARED[database]() as url_of:
            result = tool.prove(database, url_of, directory, threads=24, requests=100, hosts=14)
        assert result.failed == []
        assert result.looks > 3 and result.full[1] > 0.97
        counts += result.counts
        if all(counts[name] for name in HAPPENS):
            break
    assert all(counts[name] for name in HAPPENS), counts


# ---- each violation is found -----------------------------------------------------

@pytest.fixture
def cloud(tool, tmp_path):
    """Two hosts, two servers of a group on the first, all of it consistent."""
    made = tool.Cloud(f'sqlite:///{tmp_path}/{{}}.sqlite'.format, tmp_path, 2, 1)
    rows = [server_rows.row(number, host='host000', node='host000', project_id='few', vm_state='active',
                            power_state=1, server_group_id=GROUP) for number in (1, 2)]
    nodes = tables_cell.compute_nodes
    with made.cell_db.writer() as conn:
        server_rows.insert(conn, rows)
        amounts = {'running_vms': 2, 'vcpus_used': 0, 'memory_mb_used': 0, 'local_gb_used': 0}
        for row in rows:
            for name, amount in tool.size(row['vcpus'], row['memory_mb'], row['root_gb'], row['ephemeral_gb']).items():
                amounts[name + '_used'] += amount
        conn.execute(sa.update(nodes).where(nodes.c.host == 'host000').values(amounts))
    with made.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.instance_mappings), [dict(
            instance_uuid=row['uuid'], cell_uuid='c', project_id='few', user_id='u', vcpus=row['vcpus'],
            memory_mb=row['memory_mb'], created_at=server_rows.START, server_group_id=GROUP) for row in rows])
    made.uuids = [row['uuid'] for row in rows]
    yield made
    made.close()


def found(tool, cloud, policy='anti-affinity', most=2):
    cell, api = tool.look(cloud)
    return [*tool.violations(cell, api, {GROUP: (policy, most)}), *api.against(cell), *tool.unsettled(cell)]


def change(cloud, table, where, **values):
    database = cloud.api_db if table.metadata is tables_api.metadata else cloud.cell_db
    with database.writer() as conn:
        assert conn.execute(sa.update(table).where(*where).values(values)).rowcount


def test_consistent_cloud_has_no_finding(tool, cloud):
    assert found(tool, cloud) == [] and found(tool, cloud, 'affinity', None) == []


def test_host_over_its_capacity_is_reported(tool, cloud):
    change(cloud, tables_cell.compute_nodes, (), memory_mb=1024)
    assert [text for text in found(tool, cloud) if 'memory_mb of 512' in text]


def test_changed_usage_counters_are_reported(tool, cloud):
    nodes = tables_cell.compute_nodes
    change(cloud, nodes, [nodes.c.host == 'host000'], vcpus_used=nodes.c.vcpus_used + 1)
    change(cloud, nodes, [nodes.c.host == 'host001'], running_vms=1)
    texts = found(tool, cloud)
    assert len(texts) == 2 and 'vcpus are used; they are 2' in texts[0] and 'has 1 servers; they are 0' in texts[1]


def test_violated_group_policy_is_reported(tool, cloud):
    assert found(tool, cloud, most=1) == [f'anti-affinity group {GROUP} has 2 of 1 servers on host000']
    table = tables_cell.instances
    change(cloud, table, [table.c.uuid == cloud.uuids[0]], host='host001', node='host001')
    assert f"affinity group {GROUP} is on ['host000', 'host001']" in found(tool, cloud, 'affinity', None)


def test_exceeded_quota_is_reported(tool, cloud):
    change(cloud, tables_api.instance_mappings, (), project_id='small', memory_mb=30000)
    texts = found(tool, cloud)
    assert 'project small has 60000 ram of 49152' in texts
    assert [text for text in texts if 'the quota counts 30000 memory_mb' in text]


def test_server_in_one_database_only_is_reported(tool, cloud):
    with cloud.api_db.writer() as conn:
        conn.execute(sa.delete(tables_api.instance_mappings).where(
            tables_api.instance_mappings.c.instance_uuid == cloud.uuids[0]))
    assert found(tool, cloud) == [f'{cloud.uuids[0]} is a server without a mapping']


def test_unfinished_server_is_reported(tool, cloud):
    table = tables_cell.instances
    change(cloud, table, [table.c.uuid == cloud.uuids[0]], task_state='scheduling')
    change(cloud, table, [table.c.uuid == cloud.uuids[1]], vm_state='error')
    texts = found(tool, cloud)
    assert len(texts) == 2 and 'is left active, scheduling' in texts[0] and 'is in ERROR on host000' in texts[1]
