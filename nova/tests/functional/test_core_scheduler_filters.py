"""Filters and weighers on a database: what they ask it, what the claim holds, what computes report for them."""
import contextlib
import threading
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.db.placement import hosts as hosts_db
from nova.db.placement import server_groups
from nova.db.projects import quotas
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.scheduler import filters
from nova.hardware import guest_options
from nova.tests import core
from nova.virt import driver as virt_driver

HOSTS = ('host1', 'host2', 'host3')


@pytest.fixture
def make(tmp_path):
    """``make(hosts, **options)`` -> a cloud."""
    made = []

    def maker(hosts=HOSTS, **options):
        made.append(core.Cloud(tmp_path, hosts=hosts, **options))
        return made[-1]
    yield maker
    for cloud in made:
        cloud.close()


def node(cloud, host):
    with cloud.db.reader() as conn:
        return dict(conn.execute(sa.select(tables_cell.compute_nodes).where(
            tables_cell.compute_nodes.c.host == host)).mappings().one())


def count(cloud, function):
    """Statements that a call asks of the cell's database."""
    seen = []

    def listen(_conn, _cursor, statement, *_more):
        seen.append(statement)
    sa.event.listen(cloud.db.engine, 'before_cursor_execute', listen)
    try:
        function()
    finally:
        sa.event.remove(cloud.db.engine, 'before_cursor_execute', listen)
    return [statement for statement in seen if not statement.startswith('PRAGMA')]


def put_into(cloud, host, **metadata):
    """The host is in an aggregate with this metadata."""
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == host).values(
            aggregates=[{'id': 1, 'uuid': 'u', 'name': 'a', 'metadata': metadata}]))
        conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.host == host).values(
            change_number=utils.change_number()))


# ---- hints -------------------------------------------------------------------

def test_same_and_different_host_hints_place_servers(make):
    cloud = make()
    first = cloud.boot()
    host = cloud.row(first)['host']
    same = [cloud.boot(hints={'same_host': [first]}) for _ in range(3)]
    assert {cloud.row(uuid)['host'] for uuid in same} == {host}
    away = cloud.boot(hints={'different_host': [first, *same]})
    assert cloud.row(away)['host'] != host
    last = cloud.boot(hints={'different_host': [first, away]})
    assert cloud.row(last)['host'] not in {host, cloud.row(away)['host']}
    none, = cloud.create(hints={'different_host': [first, away, last]})
    cloud.settle()
    assert cloud.row(none)['vm_state'] == states.ERROR
    assert ('3 hosts: 3 have one of the servers that the hint different_host names'
            in cloud.row(none)['fault']['message'])


def test_the_hosts_of_named_servers_are_one_query(make):
    cloud = make()
    uuids = [cloud.boot() for _ in range(3)]
    spec = cloud.conductor.methods.get_request_spec(None, uuids[0])
    plain = count(cloud, lambda: cloud.scheduler.requests.of_new(spec))
    spec.hints = {'same_host': uuids, 'different_host': [uuids[0]]}
    asked = count(cloud, lambda: cloud.scheduler.requests.of_new(spec))
    assert len(plain) == 0 and len(asked) == 2, asked


def test_a_server_of_another_project_is_no_neighbour(make):
    """A hint neither finds out where others' servers are nor brings anybody beside them."""
    cloud = make()
    foreign = cloud.boot()
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).values(project_id='other'))
    uuid, = cloud.create(hints={'same_host': [foreign]})
    cloud.settle()
    assert '3 have none of the servers that the hint same_host names' in cloud.row(uuid)['fault']['message']
    uuid, = cloud.create(hints={'same_host': ['12345678-1234-1234-1234-123456789abc']})
    cloud.settle()
    assert '3 have none of the servers that the hint same_host names' in cloud.row(uuid)['fault']['message']


def test_destination_of_a_move_counts_as_a_host_of_the_server(make):
    cloud = make()
    uuid = cloud.boot()
    with cloud.db.writer() as conn:
        conn.execute(sa.insert(tables_cell.migrations).values(
            uuid='m', instance_uuid=uuid, project_id='p', user_id='u', migration_type='migration', status='preparing',
            created_at=utils.utcnow(), updated_at=utils.utcnow(), arguments={}, old_flavor={}, new_flavor={},
            claimed_host='elsewhere'))
        assert hosts_db.of_servers(conn, 'p', [uuid]) == {cloud.row(uuid)['host'], 'elsewhere'}


# ---- what else is asked --------------------------------------------------------

def test_type_affinity_filter_separates_flavors(make):
    cloud = make(filter_scheduler__enabled_filters=['TypeAffinityFilter'])
    uuids = cloud.create(count=3)
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == set(HOSTS)
    more, = cloud.create()
    cloud.settle()
    assert '3 have a server of flavor tiny already' in cloud.row(more)['fault']['message']


def test_io_ops_filter_avoids_busy_hosts(make):
    cloud = make(filter_scheduler__enabled_filters=['IoOpsFilter'], filter_scheduler__max_io_ops_per_host=1)
    uuids = [cloud.boot(force_host=host) for host in HOSTS]
    with cloud.db.writer() as conn:
        assert hosts_db.busy_servers(conn) == {}
        tasks = [states.SPAWNING, states.IMAGE_UPLOADING, states.REBOOTING]
        for uuid, task in zip(uuids, tasks, strict=True):
            conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid).values(
                task_state=task))
        assert sorted(hosts_db.busy_servers(conn).values()) == [1, 1]
    free = cloud.row(uuids[2])['host']
    assert cloud.row(cloud.boot())['host'] == free


def test_the_table_counts_busy_servers(make):
    """What comes to a host is busy until it is counted again."""
    cloud = make(hosts=('host1',))
    table = cloud.scheduler.table
    table.hosts(full=True)
    uuid = cloud.boot()
    view = table.hosts(full=True)
    assert view.io_ops.tolist() == [1] and view.running_vms.tolist() == [1]
    table._counted_at = float('-inf')
    table.synchronize()
    assert table.hosts().io_ops.tolist() == [0]
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid).values(
            task_state=states.RESIZE_FINISH))
    table._counted_at = float('-inf')
    table.synchronize()
    assert table.hosts().io_ops.tolist() == [1]


class Alone(filters.BaseHostFilter):
    """A filter of the deployment: no host with a server on it."""

    needs_instances = True

    def host_passes(self, host_state, filter_properties):
        return not host_state.instances


def test_plugin_filter_can_read_the_servers_of_a_host(make):
    cloud = make(hosts=('host1', 'host2'), filter_scheduler__enabled_filters=[f'{__name__}.Alone'])
    assert {cloud.row(cloud.boot())['host'] for _ in range(2)} == {'host1', 'host2'}
    uuid, = cloud.create()
    cloud.settle()
    assert '2 do not pass Alone' in cloud.row(uuid)['fault']['message']


# ---- what the claim holds -------------------------------------------------------

def test_an_aggregate_s_ratio_is_that_of_the_claim(make):
    """A larger one gives more than the node's own ratio would, a smaller one less, whoever comes at once."""
    cloud = make(hosts=('host1', 'host2'), fake__vcpus=2, cpu_allocation_ratio=2.0,
                 filter_scheduler__enabled_filters=['AggregateCoreFilter'])
    put_into(cloud, 'host1', cpu_allocation_ratio='4.0')
    put_into(cloud, 'host2', cpu_allocation_ratio='1.0')
    uuids = cloud.create(count=10)
    cloud.settle()
    assert {cloud.row(uuid)['vm_state'] for uuid in uuids} == {states.ACTIVE}
    assert (node(cloud, 'host1')['vcpus_used'], node(cloud, 'host2')['vcpus_used']) == (8, 2)
    more, = cloud.create()
    cloud.settle()
    assert cloud.row(more)['vm_state'] == states.ERROR


def test_the_number_of_servers_is_held_under_concurrency(make):
    """Callers whose tables are behind do not exceed it."""
    cloud = make(hosts=('host1', 'host2'), filter_scheduler__enabled_filters=['NumInstancesFilter'],
                 filter_scheduler__max_instances_per_host=3)
    uuids = cloud.insert(count=12)
    spec = cloud.conductor.methods.get_request_spec(None, uuids[0])
    placed = []

    def place(uuid):
        with contextlib.suppress(exception.NoValidHost):
            placed.append(cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid]))
    threads = [threading.Thread(target=place, args=(uuid,)) for uuid in uuids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(placed) == 6
    assert [node(cloud, host)['running_vms'] for host in ('host1', 'host2')] == [3, 3]


@pytest.mark.parametrize('built_on', [{}, {'force_host': 'host1'}])
def test_limit_of_servers_applies_to_moves_that_are_not_forced(make, built_on):
    """Whether the build of the server was forced does not matter."""
    cloud = make(hosts=('host1', 'host2'), filter_scheduler__enabled_filters=['NumInstancesFilter'],
                 filter_scheduler__max_instances_per_host=3)
    uuid = cloud.boot(**built_on)
    spec, cell = cloud.conductor.methods.get_request_spec(None, uuid), cloud.cells.of_server(uuid)
    reader = cloud.scheduler.requests
    assert bool(reader.of_new(spec).limiting) == (not built_on)
    assert [len(reader.of_existing(cell, spec, cloud.row(uuid), target='host2', force=force).limiting)
            for force in (False, True)] == [1, 0]


def test_server_is_placed_in_one_of_several_zones(make):
    cloud = make()
    with cloud.db.writer() as conn:
        for host, zone in (('host1', 'a'), ('host2', 'b'), ('host3', 'c')):
            conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == host).values(
                availability_zone=zone))
        conn.execute(sa.update(tables_cell.compute_nodes).values(change_number=utils.change_number()))
    uuids = cloud.create(count=6, availability_zone='a,b')
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == {'host1', 'host2'}
    assert {cloud.row(uuid)['availability_zone'] for uuid in uuids} == {'a', 'b'}


# ---- what computes report ---------------------------------------------------------

def test_required_and_forbidden_traits_select_hosts(make, tmp_path):
    folder = tmp_path / 'providers'
    folder.mkdir()
    (folder / 'one.yaml').write_text('''
meta: {schema_version: '1.0'}
providers:
- identification: {name: host2}
  traits: {additional: [CUSTOM_FAST]}
- identification: {uuid: $COMPUTE_NODE}
  traits: {additional: [CUSTOM_ALL]}
''')
    cloud = make(fake__cpu_features=['aes', 'sse4.1'], compute__provider_config_location=str(folder))
    assert set(node(cloud, 'host1')['traits']) - guest_options.every_trait() == {
        'COMPUTE_NET_ATTACH_INTERFACE', 'COMPUTE_RESCUE_BFV', 'COMPUTE_SHARE_LOCAL_FS', 'COMPUTE_VOLUME_EXTEND',
        'CUSTOM_ALL', 'HW_CPU_X86_AESNI', 'HW_CPU_X86_SSE41'}
    uuid = cloud.boot(flavor={'extra_specs': {'trait:CUSTOM_FAST': 'required', 'trait:HW_CPU_X86_AVX': 'forbidden'}})
    assert cloud.row(uuid)['host'] == 'host2'
    uuid, = cloud.create(flavor={'extra_specs': {'trait:CUSTOM_NONE': 'required'}})
    cloud.settle()
    assert '3 lack the required traits CUSTOM_NONE' in cloud.row(uuid)['fault']['message']


@pytest.mark.parametrize(('text', 'words'), [
    ('meta: {schema_version: "2.0"}', 'schema_version'),
    ('[', 'ParserError'),
    ('providers: []', 'meta'),
    ('meta: {schema_version: "1.0"}\nproviders: [{identification: {name: a}, inventories: {}}]', 'inventories'),
    ('meta: {schema_version: "1.0"}\nproviders: [{identification: {uuid: 1-2}}]', 'identification must be either name'),
    ('meta: {schema_version: "1.0"}\nproviders: [{identification: {name: a}, traits: {additional: [low]}}]', "'low'"),
])
def test_a_file_of_traits_without_a_meaning_is_named_at_the_start(make, tmp_path, text, words):
    (tmp_path / 'bad.yaml').write_text(text)
    with pytest.raises(ValueError, match='provider_config_location') as caught:
        make(compute__provider_config_location=str(tmp_path))
    assert 'bad.yaml' in str(caught.value) and words in str(caught.value)


def test_host_metrics_reach_the_weigher(make, monkeypatch):
    monkeypatch.setattr(virt_driver, 'uptime', lambda: 'up 0 days')      # a load average changes by itself
    cloud = make(hosts=('host1',), compute_monitors=['cpu.virt_driver'],
                 fake__cpu_stats={'user': '100', 'kernel': '50', 'idle': '850', 'frequency': '2000'})
    reported = node(cloud, 'host1')
    values = {each['name']: each['value'] for each in reported['metrics']}
    assert values == {'cpu.frequency': 2000, 'cpu.user.time': 100, 'cpu.kernel.time': 50, 'cpu.idle.time': 850,
                      'cpu.iowait.time': 0, 'cpu.user.percent': 10.0, 'cpu.kernel.percent': 5.0,
                      'cpu.idle.percent': 85.0, 'cpu.iowait.percent': 0.0, 'cpu.percent': 15.0}
    assert {each['source'] for each in reported['metrics']} == {'cpu.virt_driver'}
    view = cloud.scheduler.table.hosts(full=True)
    assert view.metrics[0] == values
    # what has not changed is not written
    cloud.computes['host1'].inventory.report()
    assert node(cloud, 'host1') == reported


def test_unknown_monitor_is_refused_at_start(make):
    with pytest.raises(ValueError, match='no monitor cpu.guess; there are cpu.virt_driver'):
        make(compute_monitors=['cpu.guess'])


def test_host_with_failed_builds_is_chosen_last(make):
    """A host on which builds fail is chosen last, until one succeeds."""
    cloud = make(hosts=('host1', 'host2'))
    cloud.computes['host1'].driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='no')
    for _ in range(4):
        cloud.boot()
        cloud.settle()
    failed = node(cloud, 'host1')['failed_builds']
    assert failed in (0, 1) and node(cloud, 'host2')['failed_builds'] == 0
    uuid, = cloud.create(force_host='host1')
    cloud.settle()
    assert node(cloud, 'host1')['failed_builds'] == failed + 1
    for _ in range(5):
        assert cloud.row(cloud.boot())['host'] == 'host2'
    del cloud.computes['host1'].driver.failures['spawn']
    cloud.boot(force_host='host1')
    assert node(cloud, 'host1')['failed_builds'] == 0


def test_a_user_s_mistake_is_no_failure_of_the_host(make):
    cloud = make(hosts=('host1',))
    cloud.computes['host1'].driver.failures['spawn'] = exception.ImageUnacceptable(image_id='i', reason='bad')
    cloud.create()
    cloud.settle()
    assert node(cloud, 'host1')['failed_builds'] == 0


def test_a_build_that_succeeds_costs_no_message(make):
    cloud = make(hosts=('host1',))
    cloud.boot()
    before = len(cloud.bus.messages)
    cloud.boot()
    assert 'conductor.report_nodes' not in cloud.bus.messages[before:]


# ---- requests of existing servers

class AsksAnotherService(filters.Filter):
    """A filter with facts from a service that does not answer."""

    run_on_rebuild, reads = False, True

    def mask(self, hosts, request):
        return hosts.all_pass

    def needs_facts(self, spec):
        return self.reads

    def external_facts(self, hosts, spec):
        raise exception.ServiceUnavailable(service='attestation')


def test_rebuilds_and_forced_moves_read_only_facts_of_filters_that_run(make):
    cloud = make(filter_scheduler__enabled_filters=[f'{__name__}.AsksAnotherService'])
    asking = next(each for each in cloud.scheduler.rules.filters if isinstance(each, AsksAnotherService))
    asking.reads = False
    uuid = cloud.boot()
    asking.reads = True
    spec, cell, row = cloud.conductor.methods.get_request_spec(None, uuid), cloud.cells.of_server(uuid), cloud.row(uuid)
    cloud.scheduler.methods.check_host(cloud.ctx, spec, row['host'], row['node'])
    assert cloud.scheduler.requests.of_existing(cell, spec, row, target='host2', force=True).facts.keys() == {
        'NetworkGuaranteesFilter'}
    with pytest.raises(exception.ServiceUnavailable):
        cloud.scheduler.requests.of_existing(cell, spec, row, target='host2')
    spec.force_host = 'host2'
    assert 'AsksAnotherService' not in cloud.scheduler.requests.of_new(spec).facts


def test_rebuilds_and_forced_moves_do_not_read_the_server_group(make):
    """A member of an affinity group in a cell that does not answer prevented them."""
    cloud = make()
    with cloud.api_db.writer() as conn:
        group = server_groups.create(conn, quotas.Limits({'server_groups': -1}, {}), {
            'project_id': 'p', 'user_id': 'u', 'name': 'g', 'policies': [server_groups.AFFINITY]})['uuid']
    uuid = cloud.boot(hints={'group': [group]})
    spec, cell, row = cloud.conductor.methods.get_request_spec(None, uuid), cloud.cells.of_server(uuid), cloud.row(uuid)
    reader = cloud.scheduler.requests
    asked = [each for each in count(cloud, lambda: reader.of_existing(cell, spec, row)) if 'server_group_id' in each]
    assert len(asked) == 1
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid='cell2'.ljust(36, '0'), name='cell2', database_url='sqlite:////nowhere/cell2.sqlite',
            transport_url='', disabled=False))
        conn.execute(sa.insert(tables_api.instance_mappings).values(
            instance_uuid=str(uuidlib.uuid4()), cell_uuid='cell2'.ljust(36, '0'), project_id='p', user_id='u', vcpus=1,
            memory_mb=1, created_at=utils.utcnow(), server_group_id=group))
    cloud.cells.refresh()
    with pytest.raises(exception.NoValidHost, match='in a cell that does not answer'):
        reader.of_existing(cell, spec, row)
    assert reader.of_existing(cell, spec, row, target='host2', force=True).group is None
    cloud.scheduler.methods.check_host(cloud.ctx, spec, row['host'], row['node'])
