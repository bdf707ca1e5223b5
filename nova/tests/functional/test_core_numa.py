"""Servers with NUMA cells, pinned CPUs and large pages, below the API: what they take on every way, and give back."""
import collections
import contextlib
import json
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.objects import numa
from nova.scheduler import host_table
from nova.scheduler.resources import numa_request
from nova.scheduler.resources import numa_table
from nova.tests import core
from nova.tests import races
from nova.tests.support import core_evacuation as evacuation
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as moves
from nova.virt import driver

HOSTS = ('host1', 'host2', 'host3')


def flavor(vcpus=2, memory_mb=512, **specs):
    return {'vcpus': vcpus, 'memory_mb': memory_mb, 'extra_specs': {
        'hw:' + name: value for name, value in specs.items()}}


PINNED = flavor(cpu_policy='dedicated')


class Cloud(moves.Cloud):
    """Hosts of two cells with two shared and two dedicated CPUs each."""

    def __init__(self, path, hosts=HOSTS, **options):
        super().__init__(path, hosts=hosts, **{
            'fake__numa_cells': ['4:2048:512', '4:2048:512'], 'compute__cpu_shared_set': '0-1,4-5',
            'compute__cpu_dedicated_set': '2-3,6-7', **options})

    def topology(self, uuid):
        return numa.load_guest(self.row(uuid)['numa_topology'])

    def host(self, name):
        return numa.load_host(self.node(name)['numa_topology'])

    def pinned(self, name):
        """{CPU: how many of the servers that are there, or hold a share of it, are pinned to it}."""
        found = collections.Counter()
        with self.db.reader() as conn:
            for table, place, column in ((tables_cell.instances, 'host', 'numa_topology'),
                                         (tables_cell.migrations, 'claimed_host', 'claimed_numa_topology')):
                for text in conn.execute(sa.select(table.c[column]).where(
                        table.c[place] == name, table.c[column].is_not(None))).scalars():
                    for cell in numa.load_guest(text).cells:
                        found.update((cell.cpu_pinning or {}).values())
        return found

    def free(self, name):
        """Whether nobody has anything of a host's cells."""
        return all(not cell.pinned_cpus and not cell.memory_usage and not cell.cpu_usage
                   and not any(pages.used for pages in cell.mempages) for cell in self.host(name).cells)

    def check(self):
        super().check()
        for name, compute in self.computes.items():
            taken = self.pinned(name)
            assert set(taken.values()) <= {1}, f'two servers have a CPU of {name}: {taken}'
            assert {cpu for cell in self.host(name).cells for cpu in cell.pinned_cpus} == set(taken)
            for uuid, guest in compute.driver.machine.guests.items():
                assert guest['numa_topology'] == self.row(uuid)['numa_topology']


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


@pytest.fixture
def any_cloud(tmp_path, database_url):
    """The same on each database."""
    made = Cloud(tmp_path, url=database_url)
    yield made
    made.close()


def test_a_host_reports_its_cells(cloud, monkeypatch):
    monkeypatch.setattr(driver, 'uptime', lambda: 'up')          # the machine's load would change it
    cloud.computes['host1'].inventory.report()
    node = cloud.node()
    cells = cloud.host('host1').cells
    assert [(sorted(cell.cpuset), sorted(cell.pcpuset), cell.memory) for cell in cells] == [
        ([0, 1], [2, 3], 2048), ([4, 5], [6, 7], 2048)]
    assert node['vcpus'] == 4 and node['memory_mb'] == 4096 and node['numa_change_number']
    cloud.computes['host1'].inventory.report()
    assert cloud.node() == node, 'a report that says nothing new writes nothing'


def test_deleted_server_releases_its_numa_claim(cloud):
    uuid = cloud.boot(flavor=flavor(numa_nodes='2', cpu_policy='dedicated', mem_page_size='2048'))
    row, topology = cloud.row(uuid), cloud.topology(uuid)
    assert topology.instance_uuid == uuid and topology.cpu_policy == 'dedicated'
    assert [(cell.id, cell.pagesize, len(cell.cpu_pinning)) for cell in topology.cells] == [(0, 2048, 1), (1, 2048, 1)]
    node = cloud.node(row['host'])
    assert node['vcpus_used'] == 0 and node['memory_mb_used'] == 512
    assert [(len(cell.pinned_cpus), cell.memory_usage, cell.mempages[1].used) for cell in cloud.host(
        row['host']).cells] == [(1, 256, 128)] * 2
    cloud.check()
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.free(row['host'])
    cloud.check()


def test_shared_and_mixed_vcpus_count_by_the_condition_of_numbers(cloud):
    uuid = cloud.boot(flavor=flavor(3, cpu_policy='mixed', cpu_dedicated_mask='2'))
    host = cloud.row(uuid)['host']
    assert cloud.node(host)['vcpus_used'] == 2
    cell, = [cell for cell in cloud.host(host).cells if cell.pinned_cpus]
    assert cell.cpu_usage == 2 and len(cell.pinned_cpus) == 1
    cloud.check()
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.node(host)['vcpus_used'] == 0 and cloud.free(host)


def test_a_build_that_fails_gives_back_and_goes_elsewhere(cloud):
    for host in HOSTS[:2]:
        cloud.computes[host].driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='test')
    uuid = cloud.boot(flavor=PINNED)
    assert cloud.row(uuid)['host'] == 'host3' and cloud.free('host1') and cloud.free('host2')
    cloud.check()
    cloud.computes['host3'].driver.failures['spawn'] = 1.0
    uuid, = cloud.create(flavor=PINNED)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR and cloud.row(uuid)['host'] is None
    cloud.check()


def test_no_host_has_it(cloud):
    uuid, = cloud.create(flavor=flavor(3, cpu_policy='dedicated'))
    cloud.settle()
    assert cloud.row(uuid)['fault']['message'] == (
        'No valid host was found. 3 hosts: 3 have no NUMA node with enough free CPUs for pinning.')
    uuid, = cloud.create(flavor=flavor(mem_page_size='1GB'))
    cloud.settle()
    assert 'no NUMA node with enough free memory pages of the requested size' in cloud.row(uuid)['fault']['message']
    # a CPU more than the masks know of
    uuid, = cloud.create(flavor=flavor(2, cpu_policy='dedicated', emulator_threads_policy='isolate'))
    cloud.settle()
    assert cloud.row(uuid)['fault']['message'] == (
        'No valid host was found. 3 hosts: 3 have no NUMA node with enough free CPUs for pinning.')
    cloud.check()


def test_servers_of_one_request_get_separate_cpus(cloud):
    """Six cells have two CPUs each for pinning."""
    uuids = cloud.create(count=7, flavor=PINNED)
    cloud.settle()
    assert 'Only 6 of 7 servers have room.' in cloud.row(uuids[0])['fault']['message']
    uuids = cloud.create(count=6, flavor=PINNED)
    cloud.settle()
    assert {cloud.row(uuid)['vm_state'] for uuid in uuids} == {states.ACTIVE}
    cloud.check()


@pytest.mark.parametrize('end', ['confirmResize', 'revertResize'])
@pytest.mark.parametrize('new', [flavor(1, cpu_policy='dedicated'), flavor(2, 1024), flavor(4, numa_nodes='2')])
def test_resize_moves_the_numa_claim(any_cloud, end, new):
    cloud = any_cloud
    uuid = cloud.boot(flavor=PINNED)
    before = cloud.row(uuid)
    cloud.move(uuid, {**core.FLAVOR, 'flavor_id': '2', **new})
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED and cloud.row(uuid)['host'] != before['host']
    assert len(cloud.pinned(before['host'])) == 2, 'the source keeps its share for a revert'
    cloud.end(uuid, end)
    cloud.settle()
    after = cloud.row(uuid)
    if end == 'revertResize':
        assert (after['host'], after['numa_topology']) == (before['host'], before['numa_topology'])
    else:
        assert cloud.free(before['host'])
        assert (after['numa_topology'] is None) == (not new['extra_specs'])
    cloud.check()


@pytest.mark.parametrize('end', ['confirmResize', 'revertResize'])
def test_resize_on_the_same_host_holds_both_numa_claims(tmp_path, end):
    """Both shares are held there, until one of them is given back."""
    cloud = Cloud(tmp_path, hosts=('host1',))
    uuid = cloud.boot(flavor=PINNED)
    cloud.move(uuid, {**core.FLAVOR, 'flavor_id': '2', **flavor(1, cpu_policy='dedicated')}, ignored_hosts=[])
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED and len(cloud.pinned('host1')) == 3
    assert set(cloud.pinned('host1').values()) == {1}
    cloud.end(uuid, end)
    cloud.settle()
    assert len(cloud.pinned('host1')) == (1 if end == 'confirmResize' else 2)
    cloud.check()
    cloud.close()


def test_refused_resize_keeps_the_numa_claim(cloud):
    uuid = cloud.boot(flavor=PINNED)
    before = cloud.row(uuid)
    cloud.move(uuid, {**core.FLAVOR, 'flavor_id': '2', **flavor(3, cpu_policy='dedicated')})
    cloud.settle()
    after = cloud.row(uuid)
    assert after['vm_state'] == states.ACTIVE and after['numa_topology'] == before['numa_topology']
    cloud.check()


@pytest.mark.parametrize('operation', ['finish_migration', 'accept_guest', 'send_guest'])
def test_a_move_that_fails(cloud, operation):
    uuid = cloud.boot(flavor=PINNED)
    before = cloud.row(uuid)
    for compute in cloud.computes.values():
        compute.driver.failures[operation] = 1.0
    cloud.move(uuid)
    cloud.settle()
    assert cloud.row(uuid)['numa_topology'] == before['numa_topology']
    assert cloud.row(uuid)['host'] == before['host']
    cloud.check()


def test_live_migration_pins_free_cpus_at_the_destination(cloud):
    """The CPUs at the destination are others when those that it had are taken there."""
    first = cloud.boot(flavor=PINNED, requested_host='host2')
    uuid = cloud.boot(flavor=PINNED, requested_host='host1')
    assert cloud.topology(uuid).cells[0].id == cloud.topology(first).cells[0].id == 0
    live.migrate(cloud, uuid, host='host2')
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and cloud.row(uuid)['task_state'] is None
    assert cloud.topology(uuid).cells[0].id == 1 and cloud.free('host1')
    cloud.check()
    cloud.computes['host2'].driver.failures['live_migrate'] = 1.0
    live.migrate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and cloud.free('host1') and cloud.free('host3')
    cloud.check()


def test_evacuation_claims_cpus_at_the_destination(cloud):
    uuid = cloud.boot(flavor=PINNED, requested_host='host1')
    evacuation.die(cloud)
    number = evacuation.evacuate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == live.move(cloud, number)['dest_compute'] != 'host1'
    assert cloud.free('host1') and sum(cloud.pinned(cloud.row(uuid)['host']).values()) == 2
    evacuation.come_back(cloud)
    assert cloud.conductor.claim_check.audit() == []


def test_failed_evacuation_restores_the_numa_claim(cloud):
    """The server is its old host's again, with the CPUs that it had there."""
    uuid = cloud.boot(flavor=PINNED, requested_host='host1')
    before = cloud.row(uuid)
    evacuation.die(cloud)
    for compute in cloud.computes.values():
        compute.driver.failures['spawn'] = 1.0
    evacuation.evacuate(cloud, uuid)
    cloud.settle()
    after = cloud.row(uuid)
    assert (after['host'], after['numa_topology']) == ('host1', before['numa_topology'])
    assert cloud.free('host2') and cloud.free('host3') and cloud.conductor.claim_check.audit() == []


def test_failed_unshelve_holds_no_numa_claim(cloud):
    uuid = cloud.boot(flavor=PINNED)
    cloud.act(uuid, 'shelve', image_id=core.IMAGE['id'], clean_shutdown=False)
    cloud.settle()
    for compute in cloud.computes.values():
        compute.driver.failures['spawn'] = 1.0
    cloud.act(uuid, 'unshelve')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.SHELVED_OFFLOADED and cloud.row(uuid)['host'] is None
    assert all(cloud.free(host) for host in HOSTS) and cloud.conductor.claim_check.audit() == []


def test_unshelved_server_gets_a_new_numa_claim(cloud):
    uuid = cloud.boot(flavor=PINNED)
    before = cloud.row(uuid)
    cloud.act(uuid, 'shelve', image_id=core.IMAGE['id'], clean_shutdown=False)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.SHELVED_OFFLOADED and cloud.free(before['host'])
    assert cloud.conductor.claim_check.audit() == []
    cloud.act(uuid, 'unshelve')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and len(cloud.pinned(cloud.row(uuid)['host'])) == 2
    cloud.check()


def test_a_server_that_is_deleted_while_it_waits_for_its_confirmation(cloud):
    uuid = cloud.boot(flavor=PINNED)
    cloud.move(uuid)
    cloud.settle()
    cloud.delete(uuid)
    cloud.settle()
    assert all(cloud.free(host) for host in HOSTS)
    cloud.check()


def test_audit_repairs_the_stored_numa_topology(any_cloud):
    cloud = any_cloud
    uuid = cloud.boot(flavor=PINNED)
    node = cloud.node(cloud.row(uuid)['host'])
    stored = json.loads(node['numa_topology'])
    cell = stored['nova_object.data']['cells'][1]['nova_object.data']
    cell['pinned_cpus'] = [6, 7]
    cell['mempages'][1]['nova_object.data']['used'] = 3
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.id == node['id']).values(
            numa_topology=json.dumps(stored)))
    mended = {each['column']: (each['was'], each['is']) for each in cloud.conductor.claim_check.audit()}
    assert mended == {'numa_topology[1].pinned_cpus': ([6, 7], []),
                      'numa_topology[1].mempages': ({4: 0, 2048: 3}, {4: 0, 2048: 0})}
    cloud.check()


def test_a_host_whose_cells_are_parted_anew_counts_its_servers(cloud):
    uuid = cloud.boot(flavor=PINNED, requested_host='host1')
    compute = cloud.computes['host1']
    cloud.conf.set_override('cpu_dedicated_set', '2-3,5-7', group='compute')
    cloud.conf.set_override('cpu_shared_set', '0-1,4', group='compute')
    compute.inventory.report()
    assert [sorted(cell.pcpuset) for cell in cloud.host('host1').cells] == [[2, 3], [5, 6, 7]]
    assert cloud.host('host1').cells[0].pinned_cpus == {2, 3} and cloud.node()['vcpus'] == 3
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.free('host1')


def test_a_node_whose_cell_is_gone_takes_back_what_it_can(cloud):
    uuid = cloud.boot(flavor=PINNED, requested_host='host1')
    cloud.conf.set_override('numa_cells', ['1:2048'], group='fake')
    cloud.conf.set_override('cpu_dedicated_set', None, group='compute')
    cloud.conf.set_override('cpu_shared_set', None, group='compute')
    cloud.computes['host1'].inventory.report()
    cloud.delete(uuid)
    cloud.settle()
    cloud.conductor.claim_check.audit()
    assert cloud.conductor.claim_check.audit() == [] and cloud.free('host1')


def test_reserved_cpus_are_not_given_out(tmp_path):
    cloud = Cloud(tmp_path, hosts=('host1',), reserved_host_cpus=1)
    assert cloud.node()['vcpus'] == 3
    cloud.close()


@pytest.mark.parametrize('pack, expected', [(False, 1), (True, 0)])
def test_packing_option_selects_the_next_numa_cell(tmp_path, pack, expected):
    cloud = Cloud(tmp_path, hosts=('host1',), compute__packing_host_numa_cells_allocation_strategy=pack)
    cloud.boot(flavor=flavor(1, cpu_policy='dedicated'))
    assert cloud.topology(cloud.boot(flavor=flavor(1, cpu_policy='dedicated'))).cells[0].id == expected
    cloud.close()


# ---- races -------------------------------------------------------------------

def test_two_servers_never_have_the_same_cpu(any_cloud):
    cloud = any_cloud
    uuids = cloud.insert(40, PINNED)
    assert races.place(cloud, uuids) == {**dict.fromkeys(HOSTS, 2), None: len(uuids) - 6}
    for host in HOSTS:
        assert cloud.pinned(host) == dict.fromkeys((2, 3, 6, 7), 1)
    assert cloud.conductor.claim_check.audit() == []


def test_servers_come_and_go(any_cloud):
    """While others are placed, some are deleted and an audit looks on: it finds nothing."""
    cloud = any_cloud
    uuids = cloud.insert(12, PINNED)
    races.place(cloud, uuids)
    placed = [uuid for uuid in uuids if cloud.row(uuid)['host']]
    spec, mended = cloud.conductor.methods.get_request_spec(None, uuids[0]), []
    waiting = [uuid for uuid in uuids if uuid not in placed]

    def leave(uuid):
        def give(conn):
            row = instances.get(conn, uuid)
            claims.free(conn, row)
            instances.update(conn, uuid, {'host': None, 'node': None})
        return lambda: cloud.db.run(give)

    def come(uuid):
        def select():
            with contextlib.suppress(exception.NoValidHost):
                cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
        return select

    def audit():
        for _ in range(10):
            mended.extend(cloud.conductor.claim_check.audit())
    races.at_once(*map(leave, placed), *map(come, waiting), audit)
    assert mended == [] and cloud.conductor.claim_check.audit() == []
    for host in HOSTS:
        assert set(cloud.pinned(host).values()) <= {1}


def test_nothing_is_asked_of_the_topologies_without_a_wish(cloud):
    """The table of topologies is not even read."""
    asked = []
    sa.event.listen(cloud.db.engine, 'before_cursor_execute', lambda conn, cursor, sql, *rest: asked.append(sql))
    cloud.boot()
    reading = [sql for sql in asked if 'numa_topology' in sql and 'FROM compute_nodes' in sql]
    assert reading == []
    cloud.boot(flavor=PINNED)
    assert any('numa_topology' in sql and 'FROM compute_nodes' in sql for sql in asked)


def test_the_table_of_topologies_follows(cloud):
    """What did not change is not read again; what did, and a new host, is seen at once."""
    table = numa_table.Topologies(cloud.cells)
    guest = numa_request.topology({**core.FLAVOR, **PINNED}, None)

    def look():
        time.sleep(2 * host_table.FRESH_S)
        hosts = cloud.scheduler.table.hosts(full=True)
        return dict(zip(hosts.host, map(bool, table.mask(hosts, guest))))
    assert look() == dict.fromkeys(HOSTS, True)
    asked = []
    sa.event.listen(cloud.db.engine, 'before_cursor_execute', lambda conn, cursor, sql, *rest: asked.append(sql))
    assert look() == dict.fromkeys(HOSTS, True)
    assert not any('compute_nodes.numa_topology' in sql for sql in asked)
    for _ in range(2):
        cloud.boot(flavor=PINNED, requested_host='host2')
    assert look() == {'host1': True, 'host2': False, 'host3': True}
    cloud.start_compute('host4')
    assert look() == {'host1': True, 'host2': False, 'host3': True, 'host4': True}
    cloud.db.run(compute_nodes.report, 'host1', [{**cloud.node(), 'numa_topology': None}])
    assert look() == {'host1': False, 'host2': False, 'host3': True, 'host4': True}


def test_a_dry_run_of_a_server_counts_what_it_has_as_free(tmp_path):
    cloud = Cloud(tmp_path, hosts=('host1',))
    uuids = [cloud.boot(flavor=PINNED) for _ in range(2)]
    spec = cloud.conductor.methods.get_request_spec(None, uuids[0])

    def explain(instance_uuid):
        return cloud.scheduler.methods.explain(cloud.ctx, spec, [uuids[0]], instance_uuid, 10, 0)
    assert explain(uuids[0])['choices'] and explain(uuids[0])['reason'] is None
    told = explain(None)
    assert told['choices'] == [] and 'for pinning' in told['reason']
    filtered, = [each for each in told['filters'] if each['name'] == 'NUMATopologyFilter']
    assert filtered['removed'] == 1 and 'for pinning' in filtered['hosts'][0]['reason']
    assert cloud.conductor.claim_check.audit() == []
    cloud.close()


def test_host_without_numa_topology_accepts_only_servers_without_one(tmp_path):
    """A host that reports none takes servers without one alone."""
    cloud = Cloud(tmp_path, hosts=('host1',))
    cloud.db.run(compute_nodes.report, 'host1', [{**cloud.node(), 'numa_topology': None}])
    uuid, = cloud.create(flavor=PINNED)
    cloud.settle()
    assert '1 has no NUMA topology' in cloud.row(uuid)['fault']['message']
    cloud.boot()
    assert cloud.conductor.claim_check.audit() == []
    cloud.close()
