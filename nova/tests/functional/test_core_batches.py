"""Servers that are placed together, and the table of hosts that follows several cells.

SQLite always; MariaDB and PostgreSQL when NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import collections
import threading
import time
import types
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import exception
from nova import objects
from nova import utils
from nova.db import engine
from nova.db.services import services
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.scheduler import batch
from nova.scheduler import decision
from nova.scheduler import filters
from nova.scheduler import host_table
from nova.scheduler import manager as scheduler_manager
from nova.tests import core
from nova.tests import schemas

HOSTS = ('host1', 'host2', 'host3')


@pytest.fixture
def cloud(tmp_path, database_url):
    cloud = core.Cloud(tmp_path, hosts=HOSTS, url=database_url, fake__memory_mb=4096, fake__vcpus=8,
                       cpu_allocation_ratio=1.5, fake__local_gb=10, service_down_time=3600)
    yield cloud
    cloud.close()


def spec_of(cloud, uuid, **values):
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    return objects.RequestSpec(**{**spec.as_dict(), **values})


def waiting(cloud, count=1, scheduler=None, **values):
    uuids = cloud.insert(count, flavor=values.pop('flavor', None))
    scheduler = scheduler or cloud.scheduler
    return batch.PendingDemand(decision.Demand(scheduler.requests.of_new(spec_of(cloud, uuids[0], **values)), uuids))


def agree(cloud, items):
    """The servers' rows, the nodes' usage and what the scheduler answers say the same."""
    assert cloud.conductor.claim_check.audit() == []
    for item in items:
        for uuid, selections in zip(item.demand.uuids, item.placed):
            row = cloud.row(uuid)
            assert (row['host'], row['node'], row['availability_zone']) == (
                selections[0].host, selections[0].node, 'nova')


def test_a_batch_fills_what_there_is_and_the_rest_is_left_to_itself(cloud):
    items = [waiting(cloud) for _ in range(30)]
    cloud.scheduler.batches.place_batch(items)
    placed = [item for item in items if item.placed]
    assert len(placed) == 24 and not any(item.error for item in items)          # 8 by memory on each host
    agree(cloud, placed)
    assert {cloud.node(host)['running_vms'] for host in HOSTS} == {8}
    # the table knows without a look what was claimed
    assert list(cloud.scheduler.table.hosts(fresh_s=3600).used['memory_mb']) == [4096] * 3


def test_servers_of_one_request_are_placed_all_or_none(cloud):
    items = [waiting(cloud, 10), waiting(cloud, 10), waiting(cloud, 10), waiting(cloud, 4)]
    cloud.scheduler.batches.place_batch(items)
    assert [item.placed and len(item.placed) for item in items] == [10, 10, None, 4]
    agree(cloud, [items[0], items[1], items[3]])


def test_batch_is_bounded_by_its_servers(cloud):
    """A batch of large requests built an UPDATE of thousands of servers while the nodes were locked."""
    queue = cloud.scheduler.batches._batch
    items = [waiting(cloud, count) for count in (decision.BATCH - 4, 4, 1)]
    queue._waiting.extend(items)
    queue._work_on_oldest()
    assert [item._done for item in items] == [True, True, False] and queue.waiting == 1


class Bad(filters.Filter):
    def mask(self, hosts, request):
        if request.spec.user_id == 'bad':
            raise RuntimeError('a filter of an operator')
        return hosts.all_pass


def test_bad_requests_do_not_fail_the_others(cloud):
    options = cloud.conf.filter_scheduler
    cloud.conf.set_override('enabled_filters', [*options.enabled_filters, f'{__name__}.Bad'], 'filter_scheduler')
    cloud.restart_scheduler()
    items = [waiting(cloud), waiting(cloud, user_id='bad'), waiting(cloud, flavor={'memory_mb': 10 ** 6}),
             waiting(cloud, availability_zone='nowhere'), waiting(cloud)]
    cloud.scheduler.batches.place_batch(items)
    assert [bool(item.placed) for item in items] == [True, False, False, False, True]
    assert [type(item.error) for item in items] == [type(None), RuntimeError] + [type(None)] * 3
    agree(cloud, [items[0], items[4]])


def test_a_server_that_was_deleted_takes_nothing_and_stops_nobody(cloud):
    uuids = cloud.insert(4)
    specs = [spec_of(cloud, uuid) for uuid in uuids]
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid == uuids[1])
                     .values(task_state='deleting'))
    items = [batch.PendingDemand(decision.Demand(cloud.scheduler.requests.of_new(spec), [uuid]))
             for spec, uuid in zip(specs, uuids)]
    cloud.scheduler.batches.place_batch(items)
    assert [item.placed for item in items] == [None] * 4 and cloud.conductor.claim_check.audit() == []
    found = [cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid]) for spec, uuid in zip(specs, uuids)]
    assert [bool(selections) for selections, in found] == [True, False, True, True]
    assert sum(cloud.node(host)['running_vms'] for host in HOSTS) == 3 and cloud.conductor.claim_check.audit() == []


def test_a_message_that_came_twice_places_once(cloud):
    first = waiting(cloud)
    again = batch.PendingDemand(first.demand)
    cloud.scheduler.batches.place_batch([first, again])
    assert first.placed and again.placed is None
    assert sum(cloud.node(host)['running_vms'] for host in HOSTS) == 1 and cloud.conductor.claim_check.audit() == []


def test_a_zone_that_has_changed_counts(cloud, monkeypatch):
    """The table is behind: its zone is not claimed."""
    items = [waiting(cloud, availability_zone='nova') for _ in range(2)]
    cloud.scheduler.table.hosts()
    monkeypatch.setattr(batch, 'FRESH_S', 3600)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(availability_zone='east'))
    cloud.scheduler.batches.place_batch(items)
    assert [item.placed for item in items] == [None, None] and cloud.conductor.claim_check.audit() == []
    assert sum(cloud.node(host)['running_vms'] for host in HOSTS) == 0


def test_three_schedulers_with_many_callers_fill_the_hosts_exactly(cloud):
    uuids = cloud.insert(60)
    spec, result, errors = spec_of(cloud, uuids[0]), collections.Counter(), []
    schedulers = [scheduler_manager.SchedulerManager(cloud.conf, cloud.api_db, cloud.cells) for _ in range(3)]
    barrier = threading.Barrier(30)

    def call(number):
        barrier.wait()
        for uuid in uuids[number * 2:number * 2 + 2]:
            try:
                (selection,), = schedulers[number % 3].methods.select_destinations(cloud.ctx, spec, [uuid])
                result[selection.host] += 1
            except exception.NoValidHost:
                result['none'] += 1
            except Exception as error:
                errors.append(error)
                raise
    threads = [threading.Thread(target=call, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert result == {'host1': 8, 'host2': 8, 'host3': 8, 'none': 36}
    assert cloud.conductor.claim_check.audit() == []


# ---- the table ---------------------------------------------------------------

class Statements:
    def __init__(self, database):
        self.seen = []
        sa.event.listen(database.engine, 'before_cursor_execute', self._note)

    def _note(self, _conn, _cursor, statement, *_more):
        if not statement.startswith('PRAGMA'):
            self.seen.append(statement)


def test_a_look_that_finds_nothing_is_one_select_and_keeps_the_view(cloud):
    table = host_table.HostTable(cloud.cells)
    before = table.hosts()
    time.sleep(0.1)
    found = Statements(cloud.db)
    for _ in range(3):
        time.sleep(0.01)
        assert table.hosts() is before
    assert len(found.seen) == 3 and all('change_number >=' in statement for statement in found.seen)


def test_late_visible_changes_are_found_without_reading_all_numbers(cloud, monkeypatch):
    monkeypatch.setattr(host_table, 'WINDOW_S', 0)
    nodes = tables_cell.compute_nodes
    table = host_table.HostTable(cloud.cells)
    table.hosts()
    time.sleep(0.1)
    found = Statements(cloud.db)
    before = table.hosts()
    assert len(found.seen) == 2 and 'count(' in found.seen[1]
    late = utils.change_number() - 1_000_000
    for values in ({'usage_change_number': late, 'memory_mb_used': 512, 'running_vms': 1},
                   {'change_number': late, 'reserved_memory_mb': 1024}):
        with cloud.db.writer() as conn:
            conn.execute(sa.update(nodes).where(nodes.c.host == 'host2').values(values))
        time.sleep(0.01)
        after = table.hosts()
        position, = after.positions('host2')
        assert after is not before
        assert after.used['memory_mb'][position] == 512
        before = after
    assert after.capacity['memory_mb'][position] == 4096 - 1024
    del found.seen[:]
    time.sleep(0.01)
    assert table.hosts() is after and len(found.seen) == 2


def test_all_numbers_are_read_when_their_sums_differ_alone(cloud, monkeypatch):
    monkeypatch.setattr(host_table, 'MIN_FULL_READ_S', 0)
    nodes = tables_cell.compute_nodes
    table = host_table.HostTable(cloud.cells)
    before = table.hosts()
    found = Statements(cloud.db)
    assert table.hosts(full=True) is before
    assert len([statement for statement in found.seen if 'compute_nodes' in statement]) == 1
    with cloud.db.writer() as conn:                      # a change whose number is older than any window
        conn.execute(sa.update(nodes).where(nodes.c.host == 'host3').values(usage_change_number=7, vcpus_used=2))
    after = table.hosts(full=True)
    assert after.used['vcpus'][after.positions('host3')[0]] == 2


def test_heartbeats_reach_the_view_without_making_it_anew(cloud):
    table = host_table.HostTable(cloud.cells)
    before = table.hosts()
    known = before.values('host')
    cloud.heartbeat('host2')
    table._counted_at = float('-inf')
    table.synchronize()
    after = table.hosts()
    moved = [host for host, one, other in zip(after.host, before.seen, after.seen) if one != other]
    assert moved == ['host2'] and after.values('host') is known


def test_own_claim_does_not_hide_newer_usage(cloud):
    """Another scheduler claimed, and was seen to, before this one told its table of its own claim."""
    table = host_table.HostTable(cloud.cells)
    position = table.hosts().positions('host2')[0]
    node = int(table.hosts().ids[position])
    older = {'usage_change_number': utils.change_number(), 'memory_mb_used': 512, 'running_vms': 1}
    newer = {'usage_change_number': older['usage_change_number'] + 1, 'memory_mb_used': 1024, 'running_vms': 2}
    nodes = tables_cell.compute_nodes
    with cloud.db.writer() as conn:
        conn.execute(sa.update(nodes).where(nodes.c.id == node).values(newer))
    time.sleep(0.01)
    assert table.hosts().used['memory_mb'][position] == 1024
    table.note_usage(cloud.cells.default, {node: older})
    assert table.hosts().used['memory_mb'][position] == 1024
    newest = {**newer, 'usage_change_number': newer['usage_change_number'] + 1, 'running_vms': 3}
    table.note_usage(cloud.cells.default, {node: newest})
    assert table.hosts().running_vms[position] == 3


def test_a_host_that_goes_is_noticed(cloud, monkeypatch):
    monkeypatch.setattr(host_table, 'MIN_FULL_READ_S', 0)
    table = host_table.HostTable(cloud.cells)
    assert sorted(table.hosts().host) == list(HOSTS)
    with cloud.db.writer() as conn:
        found, = services.list(conn, host='host2')
        services.delete(conn, found['uuid'])
    assert sorted(table.hosts(full=True).host) == ['host1', 'host3']


@pytest.fixture
def other_cell(cloud, tmp_path):
    if not cloud.db.sqlite:
        pytest.skip('one database is enough')
    url, uuid = f'sqlite:///{tmp_path}/other.sqlite', str(uuidlib.uuid4())
    database = engine.Database(url)
    schemas.create(database, 'cell')
    with cloud.db.reader() as conn:
        rows = {table: [dict(row) for row in conn.execute(sa.select(table)).mappings()]
                for table in (tables_cell.compute_nodes, tables_cell.services)}
    with database.writer() as conn:
        for table, found in rows.items():
            conn.execute(sa.insert(table), [{**row, 'host': 'other-' + row['host']} for row in found])
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid=uuid, name='other', database_url=url, transport_url='', disabled=False))
    cloud.cells.refresh()
    yield uuid
    database.dispose()


def test_the_table_follows_all_cells(cloud, other_cell):
    table = cloud.scheduler.table
    table.synchronize()
    assert sorted(table.hosts().host) == [*HOSTS, *('other-' + host for host in HOSTS)]
    with cloud.cells.get(other_cell).db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).values(
            running_vms=5, usage_change_number=int(time.time() * 1e6)))
    table.synchronize()
    assert sorted(table.hosts().running_vms) == [0, 0, 0, 5, 5, 5]
    placed = [cloud.scheduler.methods.select_destinations(cloud.ctx, spec_of(cloud, uuid), [uuid])[0][0]
              for uuid in cloud.insert(48)]
    assert collections.Counter(each.cell_uuid for each in placed) == {cloud.cells.default.uuid: 24, other_cell: 24}
    with pytest.raises(exception.NoValidHost) as caught:
        uuid, = cloud.insert()
        cloud.scheduler.methods.select_destinations(cloud.ctx, spec_of(cloud, uuid), [uuid])
    assert '6 hosts: 6 have too little free memory' in caught.value.message


def test_a_cell_that_is_away_is_left_out(cloud, other_cell):
    table = cloud.scheduler.table
    table.synchronize()
    cloud.cells.get(other_cell)._db = engine.Database('sqlite:////nowhere/other.sqlite')
    table.synchronize()
    assert sorted(table.hosts().host) == list(HOSTS)


def test_new_database_of_a_cell_is_read(cloud, other_cell, tmp_path):
    """The table read the former database until the scheduler was started again."""
    table = cloud.scheduler.table
    table.synchronize()
    assert sorted(table.hosts().running_vms) == [0] * 6
    moved = engine.Database(f'sqlite:///{tmp_path}/moved.sqlite')
    schemas.create(moved, 'cell')
    with cloud.cells.get(other_cell).db.reader() as conn:
        rows = {each: [dict(row) for row in conn.execute(sa.select(each)).mappings()]
                for each in (tables_cell.compute_nodes, tables_cell.services)}
    with moved.writer() as conn:
        for each, found in rows.items():
            conn.execute(sa.insert(each), found)
        conn.execute(sa.update(tables_cell.compute_nodes).values(running_vms=7))
    moved.dispose()
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.cells).where(tables_api.cells.c.uuid == other_cell).values(
            database_url=f'sqlite:///{tmp_path}/moved.sqlite'))
    cloud.cells.refresh()
    table.synchronize()
    assert sorted(table.hosts().running_vms) == [0, 0, 0, 7, 7, 7]


def test_busy_servers_are_counted_in_spite_of_full_reads(cloud, monkeypatch):
    """A full read at each refused request deferred the count: it only grew."""
    now = [1000.0]
    monkeypatch.setattr(host_table, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    table = host_table.HostTable(cloud.cells, heartbeat_s=15)
    table.synchronize()
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.host == 'host2').values(
            running_vms=3, usage_change_number=utils.change_number()))
    now[0] += 1
    assert sorted(table.hosts().io_ops) == [0, 0, 3]                    # an estimate: the servers are idle
    for _ in range(2):
        now[0] += 10
        table.hosts(full=True)
        now[0] += 1
        table.synchronize()
    assert sorted(table.hosts().io_ops) == [0, 0, 0]


def test_the_default_cell_is_followed_when_a_claim_there_has_failed(cloud):
    """It was taken for one of the others that are left alone for a while."""
    table = cloud.scheduler.table
    table.synchronize()
    table.exclude_cell(cloud.cells.default.uuid)
    table.synchronize()
    assert sorted(table.hosts().host) == list(HOSTS)


def at_next(database, text, function):
    """Call ``function()`` once, behind the database's next statement that has this text."""
    left = [function]

    def call(_conn, _cursor, statement, *_more):
        if text in statement and left:
            left.pop()()
    sa.event.listen(database.engine, 'after_cursor_execute', call)


def test_a_claim_while_its_cell_is_looked_at_is_seen_at_the_next_look(cloud, other_cell, monkeypatch):
    monkeypatch.setattr(host_table, 'OTHER_CELLS_INTERVAL_S', 3600)
    table, cell = cloud.scheduler.table, cloud.cells.get(other_cell)
    table.synchronize()
    table.mark_claimed(cell)

    def claim():
        with cell.db.writer() as conn:
            conn.execute(sa.update(tables_cell.compute_nodes).values(
                running_vms=5, usage_change_number=utils.change_number()))
        table.mark_claimed(cell)
    at_next(cell.db, 'change_number >=', claim)
    time.sleep(0.01)
    assert sorted(table.hosts().running_vms) == [0] * 6
    assert sorted(table.hosts().running_vms) == [0, 0, 0, 5, 5, 5]


def test_a_cell_that_is_left_out_while_it_is_followed_stays_so(cloud, other_cell):
    table, cell = cloud.scheduler.table, cloud.cells.get(other_cell)
    table.synchronize()
    with cell.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(last_seen_at=utils.utcnow()))
    table._counted_at = float('-inf')
    at_next(cell.db, 'last_seen_at', lambda: table.exclude_cell(cell.uuid))
    table.synchronize()
    assert sorted(table.hosts().host) == list(HOSTS)
