"""Claims of more than numbers: what scheduler/node_claims.py lets a kind of special resource do."""
import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.moves import migrations as server_migrations
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.tables import cell as tables_cell
from nova.scheduler import node_claims
from nova.scheduler import placement_request
from nova.tests import core


class Label(placement_request.SpecialResource):
    """Notes the server on the node, and the node on the server."""

    def take(self, conn, node, claim):
        assert node['running_vms'] >= 1                 # its numbers are claimed
        conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.id == node['id'])
                     .values(uptime=claim.instance_uuid))
        claim.taken['label'] = node['host']
        claim.values['arguments' if claim.migration_id else 'description'] = (
            {'label': node['host']} if claim.migration_id else node['host'])
        return True


class OnlyOn(placement_request.SpecialResource):
    def __init__(self, host):
        self._host = host

    def take(self, conn, node, claim):
        return claim.taken['label'] == self._host


def labelled(conf, spec):
    return Label() if 'test:only' in spec.flavor['extra_specs'] else None


def only(conf, spec):
    host = spec.flavor['extra_specs'].get('test:only')
    return host and OnlyOn(host)


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setattr(node_claims, 'KINDS', [labelled, only])
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2', 'host3'))
    yield cloud
    cloud.close()


def used(cloud):
    with cloud.db.reader() as conn:
        return {row['host']: (row['running_vms'], row['uptime'], row['memory_mb_used'])
                for row in compute_nodes.list(conn)}


def flavor(host):
    return {**core.FLAVOR, 'extra_specs': {'test:only': host}}


def test_the_first_host_that_has_the_special_resources_is_claimed_and_what_others_wrote_is_undone(cloud):
    before = used(cloud)
    for _ in range(4):
        uuid, = cloud.insert(flavor=flavor('host2'))
        spec = cloud.conductor.methods.get_request_spec(None, uuid)
        (chosen, *_), = cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
        assert chosen.host == 'host2' and cloud.row(uuid)['description'] == 'host2'
    after = used(cloud)
    assert after['host2'] == (4, uuid, 2048)
    assert {host: after[host] for host in ('host1', 'host3')} == {host: before[host] for host in ('host1', 'host3')}


def test_no_host_has_the_special_resources(cloud):
    before = used(cloud)
    uuid, = cloud.insert(flavor=flavor('nowhere'))
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    with pytest.raises(exception.NoValidHost):
        cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
    assert used(cloud) == before and cloud.row(uuid)['host'] is None


def test_a_server_that_does_not_wait_any_more_takes_nothing(cloud):
    before = used(cloud)
    uuid, = cloud.insert(flavor=flavor('host2'))
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).values(task_state='deleting'))
    assert cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid]) == [[]]
    assert used(cloud) == before


def test_a_move_holds_the_special_resources_in_its_own_row(cloud):
    uuid = cloud.boot()
    here = cloud.row(uuid)['host']
    there = next(host for host in cloud.computes if host != here)
    before = used(cloud)
    with cloud.db.writer() as conn:
        move = server_migrations.create(conn, cloud.ctx, cloud.row(uuid), 'resize', 'pre-migrating',
                                        new_flavor=flavor(there))
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    arguments = {'ignore': [here], 'target': None, 'force': False}
    chosen, = cloud.scheduler.methods.select_move(cloud.ctx, spec, move['id'], **arguments)
    with cloud.db.reader() as conn:
        held = server_migrations.get(conn, move['id'])
    assert chosen.host == there == held['claimed_host'] and held['arguments'] == {'label': there}
    now = used(cloud)
    assert now[there] == (before[there][0] + 1, uuid, before[there][2] + 512)
    # asked again, the move has its host already
    assert cloud.scheduler.methods.select_move(cloud.ctx, spec, move['id'], **arguments) == []
    assert used(cloud) == now
    with cloud.db.writer() as conn:
        claims.free_share(conn, held['claimed_host'], held['claimed_node'],
                          {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1})
