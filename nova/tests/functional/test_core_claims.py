"""Claims under load: many schedulers and one database never overcommit.

SQLite always; MariaDB and PostgreSQL when NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import collections
import os
import random
import threading
import time

import pytest

from nova import exception
from nova import states
from nova.db import claims
from nova.db import compute_nodes
from nova.db import instances
from nova.db import services
from nova.db import tables_cell
from nova.scheduler import manager as scheduler_manager
from nova.tests import core

THREADS = 50
DOWN_S = 3600         # the hosts report once: a test that takes longer on a busy machine would find them down


@pytest.fixture(params=['sqlite', 'mysql', 'postgresql'])
def cloud(tmp_path, request):
    url = None
    if request.param != 'sqlite':
        url = os.environ.get(f'NOVA_TEST_{request.param.upper()}_URL')
        if not url:
            pytest.skip(f'NOVA_TEST_{request.param.upper()}_URL is not set')
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2', 'host3'), url=url, fake__memory_mb=4096, fake__vcpus=8,
                       cpu_allocation_ratio=1.5, fake__local_gb=10, service_down_time=DOWN_S)
    yield cloud
    if url:
        tables_cell.metadata.drop_all(cloud.db.engine)
    cloud.close()


def together(functions):
    """Run all at the same moment."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        function()
    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_fifty_schedulers_fill_three_hosts_exactly(cloud):
    """Each host has room for 8 servers by memory, 12 by vCPUs, 10 by disk: 24 of 50 find a place."""
    uuids = cloud.insert(THREADS)
    spec = cloud.conductor.get_request_spec(None, uuids[0])
    result = collections.Counter()

    def place(uuid):
        # a scheduler of its own, whose table knows nothing of the others
        scheduler = scheduler_manager.SchedulerManager(cloud.conf, cloud.api_db, cloud.cells)
        scheduler.start()

        def select():
            try:
                selections, = scheduler.select_destinations(cloud.ctx, spec, [uuid])
                result[selections[0].host] += 1
            except exception.NoValidHost as error:
                assert 'too little free memory' in error.message or 'Other requests' in error.message
                result['none'] += 1
        return select
    together([place(uuid) for uuid in uuids])
    assert result == {'host1': 8, 'host2': 8, 'host3': 8, 'none': THREADS - 24}
    assert cloud.conductor.audit() == []
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
            mended.extend(cloud.conductor.audit())
    together([live(uuid) for uuid in uuids[:20]] + [audit])
    assert mended == [] and over == []
    assert {cloud.node(host)['running_vms'] for host in cloud.computes} == {0}


def test_all_of_a_request_or_none(cloud):
    uuids = cloud.create(count=25)
    cloud.settle()
    assert {cloud.row(uuid)['vm_state'] for uuid in uuids} == {states.ERROR}
    assert 'Only 24 of 25 servers find room.' in cloud.row(uuids[0])['fault']['message']
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
        together([one] * 10)
    cloud.settle(60)
    assert len(uuids) == 40 and all(cloud.gone(uuid) for uuid in uuids)
    assert cloud.guests() == {} and cloud.network.allocated == {}
    assert {cloud.node(host)['running_vms'] for host in cloud.computes} == {0}
    cloud.check()
