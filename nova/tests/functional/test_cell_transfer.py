"""Servers that go to the cell of their host: broken off after every step, written to at every step."""
import threading
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import objects
from nova import states
from nova.db.cells import cells as db_cells
from nova.db.moves import cell_steps
from nova.db.moves import cell_transfer
from nova.db.placement import server_groups
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.db.tables.cell import cell_moves
from nova.scheduler import batch
from nova.scheduler import decision
from nova.scheduler import host_table
from nova.tests import long_runs
from nova.tests import many_cells
from nova.tests import races
from nova.tests import server_rows
from nova.tests.support import cell_transfer as shared_cell_transfer
from nova.tests.support.cell_transfer import STEPS
from nova.tests.support.cell_transfer import broken_off_everywhere
from nova.tests.support.cell_transfer import delete
from nova.tests.support.cell_transfer import place
from nova.tests.support.cell_transfer import placed_and_deleted_at_once
from nova.tests.support.cell_transfer import recover
from nova.tests.support.cell_transfer import rename

deployment = shared_cell_transfer.deployment


@pytest.fixture
def at_once(monkeypatch):
    """What was broken off is settled whenever somebody looks."""
    monkeypatch.setattr(cell_transfer, 'ATTEMPT_TIMEOUT_S', -1)


def test_servers_go_to_the_cells_of_their_hosts(deployment):
    uuids = deployment.create(8)
    selections = place(deployment, uuids)
    there = deployment.check()
    assert set(there.values()) == {'cell1', 'cell2'}
    for uuid, chosen in zip(uuids, selections):
        row = deployment.cells_of(uuid)[there[uuid]]
        assert (row['host'], row['node'], row['availability_zone']) == (chosen[0].host, chosen[0].node, 'nova')
        assert chosen[0].cell_uuid == deployment.uuids[there[uuid]] and chosen[0].host.startswith(there[uuid])
        assert deployment.actions(uuid, there[uuid]) == ['create']
        with deployment.dbs[there[uuid]].reader() as conn:
            assert instance_actions.arguments_of_open(conn, [uuid])[uuid] == {'admin_password': 'secret'}


def test_asked_again_the_answer_is_the_same(deployment):
    uuids = deployment.create(4)
    first, second = place(deployment, uuids), place(deployment, uuids)
    assert [each[0].host for each in first] == [each[0].host for each in second]
    deployment.check()


def test_a_server_whose_building_failed_goes_to_another_cell(deployment):
    uuid, = deployment.create(cell='cell1', metadata={'a': 'b'})
    with deployment.dbs['cell1'].writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(disabled=True))
        instance_actions.add_event(conn, uuid, 'compute_build_instance', host='cell1-host0', error='no')
        conn.execute(sa.insert(tables_cell.block_device_mappings).values(
            uuid='d' * 36, instance_uuid=uuid, created_at=deployment.cells_of(uuid)['cell1']['created_at'],
            source_type='volume', destination_type='volume', volume_id='e' * 36, delete_on_termination=True))
    place(deployment, [uuid])
    assert deployment.check() == {uuid: 'cell2'}
    assert deployment.cells_of(uuid)['cell2']['metadata'] == {'a': 'b'}
    with deployment.dbs['cell2'].reader() as conn:
        action, = instance_actions.by_instance(conn, uuid)
        assert [event['details'] for event in instance_actions.events(conn, action['id'])] == ['no']
        assert conn.execute(sa.select(tables_cell.block_device_mappings.c.volume_id)).scalars().all() == ['e' * 36]
    for table in (tables_cell.block_device_mappings, tables_cell.instance_action_events):
        with deployment.dbs['cell1'].reader() as conn:
            assert conn.execute(sa.select(table)).all() == []


def delete_cell(deployment, process, name):
    with deployment.api_db.writer() as conn:
        conn.execute(sa.delete(tables_api.cells).where(tables_api.cells.c.uuid == deployment.uuids[name]))
    process.cells.refresh()


def test_a_cell_that_is_deleted_gets_no_more_servers(deployment):
    """The scheduler knew its hosts still, chose one, and failed with an AttributeError, until it was started again."""
    process = deployment.process()
    scheduler = process.scheduler()
    delete_cell(deployment, process, 'cell2')
    uuids = deployment.create(4)
    scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuids[0]), uuids)
    assert set(deployment.check().values()) == {'cell1'}


def test_batch_for_a_deleted_cell_does_not_block_other_cells(deployment, caplog):
    process = deployment.process()
    scheduler = process.scheduler()
    items = [batch.PendingDemand(decision.Demand(scheduler.requests.of_new(deployment.spec_of(uuids[0])), uuids))
             for uuids in (deployment.create() for _ in range(8))]
    delete_cell(deployment, process, 'cell2')
    scheduler.batches.place_batch(items)
    assert 'Could not claim a batch' not in caplog.text
    assert {chosen[0].host[:5] for item in items for chosen in item.placed or ()} == {'cell1'}
    deployment.check()


def test_the_table_of_hosts_forgets_a_cell_that_is_deleted(deployment):
    process = deployment.process()
    table = host_table.HostTable(process.cells)
    table.synchronize()
    here = set(table.hosts().host)
    assert {host.partition('-')[0] for host in here} == {'cell1', 'cell2'}
    delete_cell(deployment, process, 'cell2')
    table.synchronize()
    assert {host.partition('-')[0] for host in table.hosts().host} == {'cell1'}


def test_server_without_a_valid_host_stays_in_cell0(deployment):
    uuids = deployment.create(2)
    before = deployment.cells_of(uuids[0])
    spec = deployment.spec_of(uuids[0])
    spec.availability_zone = 'nowhere'
    with pytest.raises(exception.NoValidHost):
        deployment.process().scheduler().methods.select_destinations(deployment.ctx, spec, uuids)
    assert set(deployment.check().values()) == {'cell0'} and deployment.cells_of(uuids[0]) == before


def test_servers_of_one_request_are_claimed_all_or_none(deployment):
    for db in deployment.dbs.values():
        with db.writer() as conn:
            conn.execute(sa.update(tables_cell.compute_nodes).values(memory_mb=512 * 2))
    uuids = deployment.create(9)                 # there is room for eight
    with pytest.raises(exception.NoValidHost):
        place(deployment, uuids)
    assert set(deployment.check().values()) == {'cell0'}
    assert all(place(deployment, uuids[:8]))
    deployment.check()


def test_a_disabled_cell_gets_none_and_a_cell_that_is_away_is_left_out(deployment):
    with deployment.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.cells).where(tables_api.cells.c.name == 'cell2').values(disabled=True))
    place(deployment, deployment.create(6))
    assert set(deployment.check().values()) == {'cell1'}
    with deployment.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.cells).values(disabled=False))
    process = deployment.process()
    scheduler = process.scheduler()
    uuids = deployment.create(6)
    process.by_name['cell1']._db = many_cells.Mortal('sqlite:////nowhere/cell1.sqlite', process.life)   # from now on
    assert all(scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuids[0]), uuids))
    there = deployment.check()
    assert {there[uuid] for uuid in uuids} == {'cell2'}


def test_a_cell_that_hangs_holds_up_no_request_with_wishes(tmp_path):
    """Each look at it waits for the timeout once; then it counts as down for as long."""
    deployment, released = many_cells.Deployment(tmp_path, api__cell_timeout=1), threading.Event()
    process = deployment.process()
    scheduler, hangs = process.scheduler(), process.by_name['cell2']
    opened, hangs._db = hangs._db, None
    hangs._open = lambda: released.wait(30) and opened
    other, *uuids = deployment.create(3)
    flavor = {**server_rows.FLAVOR, 'extra_specs': {'hw:numa_nodes': '1'}}
    begin = time.monotonic()
    for uuid, wishes in zip(uuids, ({'hints': {'different_host': [other]}}, {'flavor': flavor}), strict=True):
        spec = deployment.spec_of(uuid)
        spec = objects.RequestSpec(**{**spec.as_dict(), **wishes})
        try:
            scheduler.methods.select_destinations(deployment.ctx, spec, [uuid])
        except exception.NoValidHost:
            assert 'flavor' in wishes                # no host here tells of its topology
    assert time.monotonic() - begin < 20
    assert deployment.resolve(uuids[0]) == 'cell1'
    released.set()
    deployment.close()


def test_a_cell_that_begins_to_hang_holds_up_one_request(tmp_path, monkeypatch):
    """For less than a listing would wait; what looks whether it is back is a look that no request waits for."""
    monkeypatch.setattr(host_table, 'UNREACHABLE_S', 0)
    monkeypatch.setattr(host_table, 'READ_TIMEOUT_S', 3)
    deployment, released = many_cells.Deployment(tmp_path, api__cell_timeout=20), threading.Event()
    process = deployment.process()
    scheduler, hangs, took = process.scheduler(), process.by_name['cell2'], []

    def placed():
        uuid, = deployment.create()
        begin = time.monotonic()
        scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuid), [uuid])
        took.append(time.monotonic() - begin)
        return deployment.resolve(uuid)
    placed()
    opened, hangs._db = hangs._db, None
    hangs._open = lambda: released.wait(30) and opened
    for _ in range(3):
        time.sleep(host_table.OTHER_CELLS_INTERVAL_S)
        hangs.rest(0)
        assert placed() == 'cell1'
    assert took[1] < 19 and max(took[2:]) < 3, took
    released.set()
    hangs.rest(0)
    scheduler.table.synchronize()
    assert 'cell2' in {placed() for _ in range(6)}
    deployment.close()


def test_requests_that_wait_are_placed_together(deployment):
    with deployment.dbs['cell1'].writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).values(memory_mb=512 * 3))
    with deployment.dbs['cell2'].writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).values(memory_mb=512 * 2))
    scheduler = deployment.process().scheduler()
    items = [batch.PendingDemand(decision.Demand(scheduler.requests.of_new(deployment.spec_of(uuids[0])), uuids))
             for uuids in (deployment.create(1 + number % 2) for number in range(8))]
    gone = items[3].demand.uuids[0]
    delete(deployment, gone)
    scheduler.batches.place_batch(items)
    there = deployment.check()
    for item in items:
        for uuid, chosen in zip(item.demand.uuids, item.placed or [[] for _ in item.demand.uuids]):
            assert (there[uuid], deployment.cells_of(uuid)[there[uuid]]['host']) == (
                (chosen[0].host[:5], chosen[0].host) if chosen else ('cell0', None))
    assert sum(len(item.demand.uuids) for item in items if item.placed) >= 4 and there[gone] == 'cell0'


@pytest.mark.parametrize('count, most', [(1, 40), (20, 100)])
def test_the_way_takes_as_many_statements_for_many(deployment, count, most):
    """What grows with the servers is their claims alone."""
    process = deployment.process()
    scheduler, seen = process.scheduler(), []
    uuids = deployment.create(count)
    spec = deployment.spec_of(uuids[0])
    for db in (process.api_db, *(cell.db for cell in process.cells.all())):
        sa.event.listen(db.engine, 'before_cursor_execute', lambda *args: seen.append(args[2]))
    scheduler.methods.select_destinations(deployment.ctx, spec, uuids)
    print(f'{len(seen)} statements for {count} servers')
    assert len(seen) <= most
    deployment.check()


def test_explanations_know_the_cell_of_a_server(deployment):
    uuid, = deployment.create()
    place(deployment, [uuid])
    name = deployment.check()[uuid]
    scheduler, spec = deployment.process().scheduler(), deployment.spec_of(uuid)
    told = scheduler.methods.explain(deployment.ctx, spec, [uuid], uuid, 10, 0)
    assert {each['host'] for each in told['ranking']} == {f'{name}-host0', f'{name}-host1'}
    assert next(each for each in told['filters'] if each['removed'])['reason'] == 'are in another cell'
    with deployment.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.cells).where(tables_api.cells.c.name == name).values(disabled=True))
    told = deployment.process().scheduler().methods.explain(deployment.ctx, spec, [uuid], None, 10, 0)
    assert next(each for each in told['filters'] if each['removed'])['reason'] == 'are in a disabled cell'
    assert len(told['ranking']) == 2 and not {each['host'][:5] for each in told['ranking']} & {name}


def test_transfer_waits_while_its_cell_is_down(deployment):
    """Nothing is failed or forgotten: who asked tries again."""
    uuids = deployment.create(2)
    process = deployment.process()
    scheduler = process.scheduler()
    wrong = many_cells.Mortal('sqlite:////nowhere/cell0.sqlite', process.life)
    spec, own = deployment.spec_of(uuids[0]), process.cells.default.db
    process.cells._db = process.cells.default._db = wrong
    with pytest.raises((exception.ServiceUnavailable, *db_cells.UNREACHABLE)):
        scheduler.methods.select_destinations(deployment.ctx, spec, uuids)
    process.cells._db = process.cells.default._db = own
    assert all(scheduler.methods.select_destinations(deployment.ctx, spec, uuids))
    deployment.check()
    wrong.dispose()


# ---- broken off -----------------------------------------------------------------------

@pytest.mark.parametrize('change', long_runs.rest([rename, None, delete]))
def test_transfer_survives_process_death_after_any_step(deployment, at_once, change):
    broken_off_everywhere(deployment, change)


@pytest.mark.parametrize('change', [rename, delete])
def test_changes_during_a_transfer_are_carried_to_the_new_cell(deployment, change):
    for number in range(1, 40):
        uuid, = deployment.create()
        life = many_cells.Life()
        scheduler = deployment.process(life=life).scheduler()
        spec = deployment.spec_of(uuid)
        life.number, life.step = 0, lambda step, uuid=uuid: step == number and change(deployment, uuid)
        chosen, = scheduler.methods.select_destinations(deployment.ctx, spec, [uuid])
        life.step = None
        there = deployment.check()
        row = deployment.cells_of(uuid)[there[uuid]]
        if change is delete:
            assert row['task_state'] == states.DELETING or life.number < number
            assert not chosen or there[uuid] != 'cell0'
        else:
            assert chosen and there[uuid] != 'cell0'
            assert row['display_name'] == 'renamed' or life.number < number, number
        if life.number < number:
            break
    assert number > STEPS


class Unheard:
    """A scheduler whose answers are lost."""

    def __init__(self, scheduler):
        self._scheduler = scheduler

    def select_destinations(self, ctx, **arguments):
        self._scheduler.methods.select_destinations(ctx, **arguments)
        raise exception.ServiceUnavailable(service='scheduler')


@pytest.mark.parametrize('silent', [{'cell1', 'cell2'}, set()], ids=['broker', 'scheduler'])
def test_unsent_build_is_resent_by_the_next_reconciliation_of_the_new_cell(deployment, silent):
    """It waited for its deadline, two minutes: the conductor hastened the action in its own cell alone."""
    uuid, = deployment.create()
    scheduler = deployment.process().scheduler()
    deployment.managers['cell0', 'scheduler'] = scheduler if silent else Unheard(scheduler)
    deployment.silent = silent
    deployment.process('cell0').conductor().methods.build_instances(deployment.ctx, [uuid])
    new = deployment.check()[uuid]
    assert new != 'cell0' and deployment.sent[1:] == []
    deployment.silent = set()
    assert deployment.process(new).conductor().reconciler.reconcile() == 1
    assert [each[:3] for each in deployment.sent if each[2] == 'build_instance'] == [(new, 'compute', 'build_instance')]


@pytest.mark.parametrize('steps', [3, 4, 5])
def test_a_reconciler_settles_and_builds(deployment, steps):
    """When the open action is overdue in the old cell; nobody looks for what was broken off."""
    uuid, = deployment.create()
    life = many_cells.Life()
    scheduler = deployment.process(life=life).scheduler()
    spec = deployment.spec_of(uuid)
    life.number, life.most = 0, steps
    with pytest.raises(many_cells.Killed):
        scheduler.methods.select_destinations(deployment.ctx, spec, [uuid])
    deployment.dbs['cell0'].run(instance_actions.expedite, many_cells.server_rows.START)
    assert deployment.process('cell0').conductor().reconciler.reconcile() == 1
    new = deployment.check()[uuid]
    assert new != 'cell0' and deployment.process(new).conductor().reconciler.reconcile() == 1
    sent, = [each for each in deployment.sent if each[2] == 'build_instance']
    assert sent[:2] == (new, 'compute') and sent[3]['server'] == deployment.cells_of(uuid)[new]['host']
    assert sent[3]['spec'].admin_password == 'secret'


def test_a_late_write_in_the_old_cell_is_carried_and_a_newer_one_stays(deployment, at_once):
    """Who died before the old rows were removed: a request that had resolved the cell before writes there."""
    uuid, = deployment.create()
    life = many_cells.Life()
    scheduler = deployment.process(life=life).scheduler()
    life.number, life.step = 0, lambda step: _die_when(deployment, uuid, life)
    with pytest.raises(many_cells.Killed):
        scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuid), [uuid])
    new = deployment.resolve(uuid)
    assert new != 'cell0' and set(deployment.cells_of(uuid)) == {'cell0', new}
    deployment.dbs['cell0'].run(instances.update, uuid, {
        'display_name': 'late', 'description': 'late', 'metadata': {'role': 'web', 'late': 'yes'}})
    deployment.dbs[new].run(instances.update, uuid, {'display_name': 'newer', 'metadata': {'newer': 'yes'}})
    recover(deployment)
    assert deployment.check() == {uuid: new}
    row = deployment.cells_of(uuid)[new]
    assert (row['display_name'], row['description']) == ('newer', 'late')
    assert row['metadata'] == {'late': 'yes', 'newer': 'yes'}


def _die_when(deployment, uuid, life):
    if deployment.resolve(uuid) != 'cell0':
        life.most = 0


def left_with_a_copy(deployment):
    """A server whose scheduler has died when it had a host, and was not there yet."""
    for steps in range(1, 10):
        uuid, = deployment.create()
        life = many_cells.Life()
        scheduler = deployment.process(life=life).scheduler()
        life.number, life.most = 0, steps
        with pytest.raises(many_cells.Killed):
            scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuid), [uuid])
        life.most = None
        if len(deployment.cells_of(uuid)) == 2:
            return uuid
        place(deployment, [uuid])
    raise AssertionError('no copy is made')


def rewrite_base(deployment, uuid, change):
    with deployment.dbs['cell0'].writer() as conn:
        record, = cell_steps.records(conn, uuids=[uuid])
        base = change(record['base'])
        conn.execute(sa.update(cell_moves).where(cell_moves.c.instance_uuid == uuid).values(base=base))


def test_transfer_started_with_fewer_columns_is_finished(deployment, at_once):
    """What it has written down lacks the columns that came later."""
    uuid = left_with_a_copy(deployment)
    rewrite_base(deployment, uuid, lambda base: {**base, 'row': {
        name: value for name, value in base['row'].items() if name != 'progress'}})
    rename(deployment, uuid)
    recover(deployment)
    there = deployment.check()[uuid]
    assert there != 'cell0' and deployment.cells_of(uuid)[there]['display_name'] == 'renamed'


def test_a_server_that_cannot_be_settled_holds_up_no_other(deployment, at_once):
    uuids = [left_with_a_copy(deployment) for _ in range(2)]
    rewrite_base(deployment, uuids[0], lambda base: {})
    recover(deployment)
    assert len(deployment.cells_of(uuids[0])) == 2 and len(deployment.cells_of(uuids[1])) == 1
    row = deployment.cells_of(uuids[0])['cell0']
    rewrite_base(deployment, uuids[0], lambda base: cell_steps.Snapshot(row).plain())
    recover(deployment)
    assert 'cell0' not in deployment.check().values()


def test_a_slow_attempt_that_was_given_up_changes_nothing(deployment, at_once):
    """Somebody settles in the middle of an attempt that lives, places the server, and the attempt goes on."""
    for number in range(1, 12):
        uuid, = deployment.create()
        life = many_cells.Life()
        scheduler = deployment.process(life=life).scheduler()
        answers = []

        def step(done, uuid=uuid, number=number, answers=answers):
            if done == number:
                recover(deployment)
                answers.extend(place(deployment, [uuid]))
        life.number, life.step = 0, step
        answers.extend(scheduler.methods.select_destinations(deployment.ctx, deployment.spec_of(uuid), [uuid]))
        life.step = None
        recover(deployment)
        there = deployment.check()
        hosts = {chosen[0].host for chosen in answers if chosen}
        assert hosts == {deployment.cells_of(uuid)[there[uuid]]['host']}, number


# ---- at the same moment ----------------------------------------------------------------

def test_many_schedulers_and_deletes_at_once(deployment):
    placed_and_deleted_at_once(deployment)


@pytest.mark.parametrize('policy', [server_groups.AFFINITY, server_groups.ANTI_AFFINITY, server_groups.PROXIMITY])
def test_groups_hold_across_cells(deployment, policy):
    """Each by a scheduler of its own, all at once."""
    with deployment.api_db.writer() as conn:
        group = _group(conn, policy)
    if policy == server_groups.PROXIMITY:
        for name in ('cell1', 'cell2'):
            with deployment.dbs[name].writer() as conn:
                conn.execute(sa.update(tables_cell.compute_nodes).values(
                    capabilities={server_groups.LOCALITY: name}))
    uuids = deployment.create(4, server_group_id=group)
    schedulers = [deployment.process().scheduler() for _ in uuids]

    def placing(scheduler, uuid):
        def select():
            try:
                spec = deployment.spec_of(uuid)
                return scheduler.methods.select_destinations(deployment.ctx, spec, [uuid])[0][0].host
            except exception.NoValidHost:
                return None
        return select
    hosts = [host for host in races.at_once(*map(placing, schedulers, uuids)) if host]
    deployment.check()
    if policy == server_groups.ANTI_AFFINITY:
        assert len(hosts) == len(set(hosts)) == 4
    else:
        assert hosts and len({host if policy == server_groups.AFFINITY else host[:5] for host in hosts}) == 1


def _group(conn, policy):
    conn.execute(sa.insert(server_groups.server_groups).values(
        uuid='9' * 36, project_id='p', user_id='u', name='g', policy=policy, rules={}, metadata={},
        created_at=many_cells.server_rows.START))
    return '9' * 36


def test_affinity_servers_of_one_request_move_to_one_cell(deployment):
    with deployment.api_db.writer() as conn:
        group = _group(conn, server_groups.AFFINITY)
    first = place(deployment, deployment.create(3, server_group_id=group))
    second = place(deployment, deployment.create(2, server_group_id=group))
    assert len({chosen[0].host for chosen in first + second}) == 1
    deployment.check()
