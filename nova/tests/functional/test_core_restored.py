"""Databases that are restored from a backup while guests have gone on: no guest is harmed, and rows follow them."""
import shutil
import sqlite3
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import differences
from nova import objects
from nova import states
from nova.cmd.manage import differences as command
from nova.compute import records
from nova.db.networks import lost_ports
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.servers import guest_reports
from nova.db.servers import instances
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.db.volumes import guest_volumes
from nova.tests import core
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as moves

HOSTS = ('host1', 'host2', 'host3')


@pytest.fixture
def cloud(tmp_path):
    made = moves.Cloud(tmp_path, hosts=HOSTS)
    yield made
    made.close()


def copy(cloud, source, target):
    for name in ('api', 'cell'):
        with sqlite3.connect(cloud.path / f'{name}.{source}') as read, sqlite3.connect(
                cloud.path / f'{name}.{target}') as written:
            read.backup(written)


def restore(cloud):
    """Stop everything, bring the backup back, start everything at once."""
    for host in HOSTS:
        cloud.kill_compute(host)
    copy(cloud, 'backup', 'sqlite')
    cloud.new_conductor()
    for host in HOSTS:
        cloud.start_compute(host)
    cloud.settle()


def running(cloud):
    """{(host, uuid): console} of all guests that run: what would be another after a stop, a start or a rebuild."""
    return {(host, uuid): tuple(guest['console']) for host, compute in cloud.computes.items()
            for uuid, guest in compute.driver.machine.guests.items() if guest['power_state'] == states.RUNNING}


def settle(cloud):
    found = command.read(cloud.cells)
    outcomes = command.settled(cloud.api_db, found, True, ports_are_here=False)
    for compute in cloud.computes.values():
        compute.power_states.look_again()
    cloud.settle()
    for compute in cloud.computes.values():
        compute.power_states.synchronize()
    cloud.settle()
    return {each.uuid: (each.report['kind'], done) for each, _outcome, done in outcomes}


def on(cloud, host):
    uuid, = cloud.create(force_host=host)
    cloud.settle()
    assert cloud.row(uuid)['host'] == host
    return uuid


class Story:
    """What happened between a backup and its restore."""

    def __init__(self, cloud):
        self.moved, self.deleted, self.stays, self.cold = (on(cloud, 'host1') for _ in range(4))
        self.rebuilt, self.returned = on(cloud, 'host1'), on(cloud, 'host1')
        cloud.bus.lost = lambda topic, method, server: method == 'rebuild_instance'
        spec = cloud.conductor.methods.get_request_spec(None, self.rebuilt)
        cloud.act(self.rebuilt, 'rebuild', spec=spec, preserve_ephemeral=False)
        cloud.settle()
        cloud.bus.lost = None
        rebuild = cloud.ctx
        cloud.bus.lost = lambda topic, method, server: method == 'build_instance'
        self.building, = cloud.create(force_host='host3')
        cloud.settle()
        cloud.bus.lost = None
        copy(cloud, 'sqlite', 'backup')
        cloud.pass_time()
        cloud.conductor.reconciler.reconcile()
        cloud.settle()
        assert rebuild and cloud.row(self.building)['vm_state'] == states.ACTIVE
        assert cloud.row(self.rebuilt)['task_state'] is None
        live.migrate(cloud, self.moved, host='host2')
        cloud.settle()
        live.migrate(cloud, self.returned, host='host2')
        cloud.settle()
        live.migrate(cloud, self.returned, host='host1')
        cloud.move(self.cold, host='host3')
        cloud.settle()
        cloud.delete(self.deleted)
        self.created = on(cloud, 'host2')
        cloud.settle()
        assert [cloud.row(uuid)['host'] for uuid in (self.moved, self.returned, self.cold)] == [
            'host2', 'host1', 'host3']


def test_no_guest_is_touched_and_all_rows_follow(cloud):
    story = Story(cloud)
    before = running(cloud)
    assert {uuid for _, uuid in before} == {
        story.moved, story.stays, story.cold, story.rebuilt, story.returned, story.building, story.created}
    restore(cloud)
    assert running(cloud) == before
    for _ in range(2):
        for compute in cloud.computes.values():
            compute.power_states.synchronize()
            compute._evacuation.clean_up()
        cloud.pass_time()
        cloud.conductor.reconciler.reconcile()
        cloud.settle()
    assert running(cloud) == before
    cloud.act(story.moved, 'reboot-hard', reboot_type='HARD')      # where its row says that it is
    cloud.settle()
    assert running(cloud) == before and 'no guest of the server' in cloud.row(story.moved)['fault']['message']
    outcomes = settle(cloud)
    assert outcomes[story.moved] == outcomes[story.cold] == (differences.ABSENT, True)
    assert outcomes[story.created] == (differences.UNKNOWN, True)
    assert outcomes[story.deleted] == (differences.ABSENT, True)
    assert running(cloud) == before
    assert {(row['host'], uuid) for uuid in {uuid for _, uuid in before} if (row := cloud.row(uuid))} == set(before)
    for _, uuid in before:
        row = cloud.row(uuid)
        assert (row['vm_state'], row['task_state'], row['project_id']) == (states.ACTIVE, None, 'p'), row
    assert cloud.row(story.deleted)['vm_state'] == states.ERROR
    assert command.read(cloud.cells) == []
    cloud.delete(story.deleted)
    cloud.settle()
    live.migrate(cloud, story.moved, host='host3')       # what follows is as with any other server
    cloud.settle()
    assert cloud.row(story.moved)['host'] == 'host3' and ('host2', story.moved) not in running(cloud)
    for uuid in (story.created, story.cold):
        cloud.delete(uuid)
    cloud.settle()
    cloud.conductor.reconciler.reconcile()
    assert cloud.gone(story.created) and cloud.gone(story.cold)


@pytest.mark.parametrize('ignored', ['is_newer_than', 'no records'])
def test_without_the_guard_guests_are_lost(cloud, monkeypatch, ignored):
    """The check above finds a violation when the generation is ignored: else it would prove nothing."""
    Story(cloud)
    before = running(cloud)
    if ignored == 'no records':
        monkeypatch.setattr(records, 'refusal', lambda *args: None)
        monkeypatch.setattr(records, 'is_removable',
                            lambda what, record, row: row.state in states.GONE)
    else:
        monkeypatch.setattr(records.Record, 'is_newer_than', lambda record, generation: False)
        monkeypatch.setattr(records, 'is_removable',
                            lambda what, record, row: row.state in states.GONE)
    restore(cloud)
    assert running(cloud) != before


def test_a_host_that_is_renamed_does_not_start(cloud):
    uuid = on(cloud, 'host1')
    cloud.kill_compute('host1')
    for end in ('json', 'kept', 'incoming'):
        old = cloud.path / 'guests' / f'host1.{end}'
        if old.exists():
            shutil.copyfile(old, cloud.path / 'guests' / f'host1b.{end}')
    with pytest.raises(core.exception.InvalidInput) as refused:
        cloud.start_compute('host1b')
    assert 'Set host = host1 again' in str(refused.value)
    compute = cloud.start_compute('host1')
    cloud.settle()
    assert list(compute.driver.guests()) == [uuid] and cloud.row(uuid)['host'] == 'host1'


def test_a_host_takes_no_server_of_another(cloud):
    """A report changes the row of a server of another host only when an administrator settles it."""
    uuid = on(cloud, 'host1')
    report = {'instance_uuid': uuid, 'kind': differences.NEWER, 'generation': 99, 'power_state': states.RUNNING,
              'server': objects.Instance.from_row(cloud.row(uuid)).obj_to_primitive()['nova_object.data'],
              'volumes': {}}
    assert cloud.conductor.methods.report_guests(cloud.ctx, 'host2', [report], None, []) == {
        'resolved': [], 'open': True}
    assert cloud.row(uuid)['host'] == 'host1'
    assert [each.uuid for each in command.read(cloud.cells)] == [uuid]


@pytest.mark.parametrize('target', ['host2', 'host1'])
def test_row_of_a_resized_server_gets_the_flavor_of_its_guest_back(cloud, target):
    uuid, other = on(cloud, 'host1'), on(cloud, 'host1')
    copy(cloud, 'sqlite', 'backup')
    cloud.move(uuid, moves.BIG, ignored_hosts=[], host=target)
    cloud.settle()
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    before = cloud.row(uuid)
    assert (before['host'], before['memory_mb']) == (target, 1024)
    restore(cloud)
    row = cloud.row(uuid)
    assert (row['host'], row['memory_mb']) == ('host1', 512)         # no host chooses the flavor
    assert settle(cloud)[uuid][1] and command.read(cloud.cells) == []
    columns = ('host', 'node', *guest_reports._SIZES)
    row = cloud.row(uuid)
    assert {name: row[name] for name in columns} == {name: before[name] for name in columns}
    assert cloud.counted(uuid) == (2, 1024) and cloud.counted(other) == (1, 512)
    assert cloud.conductor.methods.get_request_spec(None, uuid).flavor == before['flavor']
    with cloud.db.writer() as conn:
        claims.audit(conn)
        used = {node['host']: node['memory_mb_used'] for host in HOSTS for node in compute_nodes.by_host(conn, host)}
    assert used == {'host1': 512, 'host2': 0, 'host3': 0, target: 1024 + (512 if target == 'host1' else 0)}


@pytest.mark.parametrize('kind', [differences.NEWER, differences.UNKNOWN])
@pytest.mark.parametrize(('named', 'found'), [('machine2', 'machine2'), ('machine9', 'host2'), (None, 'host2')])
def test_server_on_one_of_several_nodes_is_settled_on_its_node(cloud, kind, named, found):
    uuid = on(cloud, 'host1')
    server = objects.Instance.from_row(cloud.row(uuid)).obj_to_primitive()['nova_object.data']
    with cloud.db.writer() as conn:
        first, = compute_nodes.by_host(conn, 'host2')
        conn.execute(sa.insert(tables_cell.compute_nodes).values(
            {**{name: value for name, value in first.items() if name not in ('id', 'uuid')},
             'uuid': str(uuidlib.uuid4()), 'node': 'machine2'}))
        report = {'instance_uuid': uuid, 'kind': kind, 'generation': 99, 'power_state': states.RUNNING,
                  'server': {**server, 'node': named}, 'volumes': {}}
        if kind == differences.NEWER:
            guest_reports.follow(conn, instances.get(conn, uuid), report, 'host2')
        else:
            conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid))
            guest_reports.enter(conn, report, 'host2')
        row = instances.get(conn, uuid)
    assert (row['host'], row['node']) == ('host2', found)


def test_guest_of_a_server_in_another_cell_is_not_entered(cloud):
    """There would be two rows of it, and the other cell would build it again."""
    uuid, table = on(cloud, 'host1'), tables_api.instance_mappings
    server = objects.Instance.from_row(cloud.row(uuid)).obj_to_primitive()['nova_object.data']
    with cloud.db.writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid))
    with cloud.api_db.writer() as conn:
        home = conn.execute(sa.select(table.c.cell_uuid)).scalar_one()
        conn.execute(sa.update(table).values(cell_uuid='other'))
    report = {'instance_uuid': uuid, 'kind': differences.UNKNOWN, 'generation': 1, 'power_state': states.RUNNING,
              'server': server, 'volumes': {}}
    cloud.conductor.methods.report_guests(cloud.ctx, 'host1', [report], None, [])
    (_each, outcome, done), = command.settled(cloud.api_db, command.read(cloud.cells), True, ports_are_here=False)
    assert (outcome, done) == ('Not settled: the record of the server is in cell other.', False)
    assert cloud.gone(uuid)
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(table).values(cell_uuid=home))
    (_each, _outcome, done), = command.settled(cloud.api_db, command.read(cloud.cells), True, ports_are_here=False)
    assert done and cloud.row(uuid)['host'] == 'host1'


def test_difference_of_a_deleted_server_changes_no_ports_and_volumes(cloud, monkeypatch):
    uuid = on(cloud, 'host1')
    report = {'instance_uuid': uuid, 'kind': differences.NEWER, 'generation': 99, 'power_state': states.RUNNING,
              'server': objects.Instance.from_row(cloud.row(uuid)).obj_to_primitive()['nova_object.data'],
              'volumes': {}}
    cloud.conductor.methods.report_guests(cloud.ctx, 'host2', [report], None, [])
    found, changed = command.read(cloud.cells), []
    cloud.delete(uuid)
    cloud.settle()
    for module, name in ((lost_ports, 'enter'), (guest_volumes, 'follow')):
        monkeypatch.setattr(module, name, lambda *words, _name=name: changed.append(_name) or {})
    assert [outcome[1:] for outcome in command.settled(cloud.api_db, found, True)] == [(command.DELETED, False)]
    assert changed == []


def test_malformed_report_of_a_guest_is_refused(cloud):
    report = {'instance_uuid': on(cloud, 'host1'), 'kind': differences.ABSENT, 'generation': 1,
              'power_state': states.RUNNING, 'server': {}, 'volumes': {}}
    malformed = [(name, {**report, name: 'x'}) for name in ('generation', 'power_state', 'server', 'volumes')]
    malformed += [(name, {**report, name: None}) for name in ('instance_uuid', 'generation', 'power_state')]
    malformed += [(name, {each: report[each] for each in report if each != name})
                  for name in ('instance_uuid', 'generation', 'power_state')]
    for name, guest in malformed:
        with pytest.raises(core.exception.InvalidInput, match=f'missing or malformed values: {name}$'):
            cloud.conductor.methods.report_guests(cloud.ctx, 'host1', [guest], None, [])
    assert cloud.conductor.methods.report_guests(cloud.ctx, 'host1', [report], None, [])['open']
