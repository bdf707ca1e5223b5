"""What tests share with nova/tests/functional/test_server_groups.py."""
import collections

import pytest
import sqlalchemy as sa

from nova.db.placement import server_groups
from nova.db.projects import quotas
from nova.db.tables import cell as tables_cell
from nova.tests.functional import servers
from nova.tests.support import core_moves as test_core_moves

UNLIMITED = quotas.Limits({'server_groups': -1, 'server_group_members': -1}, {})
MISSING = '11111111-2222-4333-8444-555555555555'


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def make(client, name='g', policy='anti-affinity', version='2.64', **more):
    answer = client.post('/os-server-groups', {'server_group': {'name': name, 'policy': policy, **more}},
                         version=version)
    assert answer.status == 200, answer.body
    return answer.json['server_group']


def boot(cloud, group, client=None, **server):
    return (client or cloud.client()).post('/servers', {
        **cloud.body(**server), 'os:scheduler_hints': {'group': group}})


@pytest.fixture
def hosts(tmp_path, database_url):
    made = test_core_moves.Cloud(tmp_path, hosts=('host1', 'host2', 'host3', 'host4'), url=database_url,
                                 fake__memory_mb=4096)
    yield made
    made.close()


def insert(cloud, group, count=1, **more):
    uuids = cloud.insert(count, hints={'group': [group]}, **more)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid.in_(uuids))
                     .values(server_group_id=group))
    return uuids


def build(cloud, group, count=1, **more):
    """Hosts of new members, None for those that find none; all in one request."""
    uuids = insert(cloud, group, count, **more)
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=uuids)
    cloud.settle()
    return [cloud.row(uuid)['host'] for uuid in uuids]


def hosts_of(cloud, group):
    """Counter of the hosts that the members are on, move to, or can return to."""
    with cloud.db.reader() as conn:
        return collections.Counter(host for _, host in server_groups.places(conn, group))


def members(cloud, group):
    with cloud.db.reader() as conn:
        rows = conn.execute(sa.select(tables_cell.instances.c.uuid, tables_cell.instances.c.host).where(
            tables_cell.instances.c.server_group_id == group)).all()
    return {row.uuid: row.host for row in rows}
