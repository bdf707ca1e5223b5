"""Claims under load: many schedulers and one database never overcommit.

SQLite always; MariaDB and PostgreSQL when NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import random
import time

import pytest

from nova import states
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.servers import instances
from nova.db.services import services
from nova.tests import core
from nova.tests import races

THREADS = 50
DOWN_S = 3600         # the hosts report once: a test that takes longer on a busy machine would find them down


@pytest.fixture
def cloud(tmp_path, database_url):
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2', 'host3'), url=database_url, fake__memory_mb=4096,
                       fake__vcpus=8, cpu_allocation_ratio=1.5, fake__local_gb=10, service_down_time=DOWN_S)
    yield cloud
    cloud.close()


def test_fifty_schedulers_fill_three_hosts_exactly(cloud):
    """Each host has room for 8 servers by memory, 12 by vCPUs, 10 by disk: 24 of 50 find a place."""
    uuids = cloud.insert(THREADS)
    result = races.place(cloud, uuids, refusal='too little free memory|Other requests')
    assert result == {'host1': 8, 'host2': 8, 'host3': 8, None: THREADS - 24}
    assert cloud.conductor.claim_check.audit() == []
    for host in ('host1', 'host2', 'host3'):
        assert cloud.node(host)['memory_mb_used'] == 4096 and cloud.node(host)['running_vms'] == 8


def test_claims_and_frees_mixed(cloud):
    """Servers come and go; an audit under way mends nothing, because nothing is wrong."""
    uuids = cloud.insert(THREADS)
    mended, over = [], []

    def live(uuid):
        dice = random.Random(uuid)

        def one():
            for _ in range(4):
                with cloud.db.reader() as conn:
                    node = dice.choice(compute_nodes.list(conn))

                def take(conn):
                    if not claims.claim(conn, node['id'], {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}):
                        return False
                    return instances.update(conn, uuid, {'host': node['host'], 'node': node['node']})

                def give(conn):
                    row = instances.get(conn, uuid)
                    claims.free(conn, row)
                    instances.update(conn, uuid, {'host': None, 'node': None})
                if cloud.db.run(take):
                    with cloud.db.reader() as conn:
                        over.extend(row for row in compute_nodes.list(conn) if row['memory_mb_used'] > 4096)
                    cloud.db.run(give)
        return one

    def audit():
        for _ in range(10):
            mended.extend(cloud.conductor.claim_check.audit())
    races.at_once(*map(live, uuids[:20]), audit)
    assert mended == [] and over == []
    assert {cloud.node(host)['running_vms'] for host in cloud.computes} == {0}


def test_request_without_room_for_all_servers_places_none(cloud):
    uuids = cloud.create(count=25)
    cloud.settle()
    assert {cloud.row(uuid)['vm_state'] for uuid in uuids} == {states.ERROR}
    assert 'Only 24 of 25 servers have room.' in cloud.row(uuids[0])['fault']['message']
    cloud.check()
    uuids = cloud.create(count=24)
    cloud.settle(60)
    assert {cloud.row(uuid)['vm_state'] for uuid in uuids} == {states.ACTIVE}
    cloud.check()


def test_the_table_follows(cloud):
    """A host that is disabled, freed or new counts in the next decision."""
    uuids = cloud.create(count=24)
    cloud.settle(60)
    cloud.delete(uuids[0])
    cloud.settle()
    assert cloud.row(cloud.boot())['vm_state'] == states.ACTIVE
    cloud.start_compute('host4')
    assert cloud.row(cloud.boot())['host'] == 'host4'
    with cloud.db.writer() as conn:
        service, = services.list(conn, host='host4')
        services.update(conn, service['uuid'], {'disabled': True})
    uuid, = cloud.create()
    cloud.settle()
    assert '1 is down or disabled' in cloud.row(uuid)['fault']['message']
    cloud.kill_compute('host4')


def test_a_delete_that_races_a_build_leaves_nothing(cloud):
    """At any moment of the build: no guest, no claim, no address, no row stays."""
    dice = random.Random(2)
    for compute in cloud.computes.values():
        compute.driver.delays['spawn'] = 0.01
        compute.driver.failures['spawn'] = 0.2
    uuids = []

    def one():
        uuid, = cloud.create()
        uuids.append(uuid)
        time.sleep(dice.uniform(0, 0.03))
        cloud.delete(uuid)
    for _ in range(4):
        races.at_once(*[one] * 10)
    cloud.settle(60)
    assert len(uuids) == 40 and all(cloud.gone(uuid) for uuid in uuids)
    assert cloud.guests() == {} and cloud.network.allocated == {}
    assert {cloud.node(host)['running_vms'] for host in cloud.computes} == {0}
    cloud.check()
