"""Requests of live migration, evacuation, hosts and external events: what is written, sent, and refused."""
import datetime
import json
import urllib.parse

import pytest
import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.db import engine
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.runtime import encrypted_passwords
from nova.tests.functional import base
from nova.tests.functional import servers

SNAPSHOT = '0f0a8a5e-6c53-4d0a-9d1c-5d9b6c8f7e21'
VOLUME = '70a599e0-31e7-49b7-b260-868f441e8633'
UNKNOWN = '70a599e0-31e7-49b7-b260-868f441e8699'


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'host2', 'node2')
        can(conn, live_migration=True, assisted_snapshots=True, host_control=True)
    yield fixture
    fixture.close()


@pytest.fixture
def uuid(cloud):
    return cloud.add_server()


def can(conn, **capabilities):
    table = tables_cell.compute_nodes
    conn.execute(sa.update(table).values(capabilities=capabilities))


def put(cloud, uuid, **values):
    with cloud.cell_db.writer() as conn:
        instances.update(conn, uuid, values)


def manager(cloud, **more):
    return cloud.client(roles=('manager', 'member', 'reader'), version='2.104', **more)


def admin(cloud, version='2.104'):
    return cloud.admin(project=base.PROJECT, version=version)


def live(client, uuid, host=None, version=None, **more):
    body = {'host': host, 'block_migration': 'auto', **more}
    return client.post(f'/servers/{uuid}/action', {'os-migrateLive': body}, version=version)


def moves(cloud, uuid):
    with cloud.cell_db.reader() as conn:
        return server_migrations.page(conn, nova_context.ALL_PROJECTS, {'instance_uuid': uuid})


def message(answer):
    return answer.fault[2]


# ---- os-migrateLive ------------------------------------------------------------

def test_a_live_migration_begins(cloud, uuid):
    assert live(manager(cloud), uuid).status == 202
    assert cloud.conductor.sent == [('continue_live_migration', None, {'instance_uuid': uuid})]
    moved, = moves(cloud, uuid)
    assert (moved['migration_type'], moved['status']) == ('live-migration', 'accepted')
    assert moved['source_compute'] == 'host1'
    assert moved['arguments'] == {'host': None, 'force': False, 'block_migration': None, 'disk_over_commit': False}
    assert moved['claimed_host'] is None and cloud.row(uuid)['task_state'] == states.MIGRATING
    assert manager(cloud).get(f'/servers/{uuid}').json['server']['status'] == 'MIGRATING'


@pytest.mark.parametrize(('version', 'more', 'force'), [
    ('2.25', {}, True), ('2.29', {}, True), ('2.30', {}, False), ('2.30', {'force': True}, True),
    ('2.67', {'force': 'yes'}, True), ('2.68', {}, False), ('2.104', {}, False)])
def test_named_host_is_checked_unless_forced(cloud, uuid, version, more, force):
    assert live(admin(cloud), uuid, 'host2', version=version, **more).status == 202
    arguments = moves(cloud, uuid)[0]['arguments']
    assert arguments['force'] is force and arguments['host'] == 'host2'


@pytest.mark.parametrize(('version', 'method'), [('2.1', 'check_and_live_migrate'), ('2.33', 'check_and_live_migrate'),
                                                 ('2.34', 'continue_live_migration')])
def test_until_2_33_the_request_waits_for_the_checks(cloud, uuid, version, method):
    body = {'disk_over_commit': False} if version == '2.1' else {}
    client = manager(cloud)
    answer = client.post(f'/servers/{uuid}/action', {'os-migrateLive': {
        'host': None, 'block_migration': True, **body}}, version=version)
    assert answer.status == 202 and [name for name, *_ in cloud.conductor.sent] == [method]


@pytest.mark.parametrize(('host', 'more', 'version', 'part'), [
    ('host1', {}, None, 'current host'), ('nowhere', {}, None, 'could not be found'),
    (None, {'force': True}, '2.30', "Can't force"), ('host2', {'force': True}, '2.68', 'force'),
    ('host2', {'block_migration': 'perhaps'}, None, 'block_migration'), ('a b', {}, None, 'host')])
def test_invalid_live_migration_returns_400_and_changes_nothing(cloud, uuid, host, more, version, part):
    answer = live(admin(cloud), uuid, host, version=version, **more)
    assert answer.status == 400 and part in message(answer)
    assert moves(cloud, uuid) == [] and cloud.row(uuid)['task_state'] is None and cloud.conductor.sent == []


def test_live_migration_requires_an_administrator(cloud, uuid):
    assert live(cloud.client(version='2.104'), uuid).status == 403
    assert live(manager(cloud), uuid, 'host2').status == 403
    assert live(manager(cloud, project='b' * 32), uuid).status == 404
    assert moves(cloud, uuid) == []
    put(cloud, uuid, locked=True)
    assert live(manager(cloud), uuid).status == 409
    assert live(admin(cloud), uuid).status == 202


def test_a_second_one_is_refused(cloud, uuid):
    assert live(manager(cloud), uuid).status == 202
    assert live(manager(cloud), uuid).status == 409
    assert len(moves(cloud, uuid)) == 1


def test_live_migration_without_driver_support_returns_409(cloud, uuid):
    with cloud.cell_db.writer() as conn:
        can(conn, live_migration=False)
    assert live(manager(cloud), uuid).status == 409 and moves(cloud, uuid) == []


# ---- abort, force_complete -----------------------------------------------------

def begin(cloud, uuid, status):
    live(manager(cloud), uuid)
    number = moves(cloud, uuid)[0]['id']
    with cloud.cell_db.writer() as conn:
        server_migrations.update(conn, number, {'status': status, 'dest_compute': 'host2'})
    return number


def actions(cloud, uuid):
    with cloud.cell_db.reader() as conn:
        return [row['action'] for row in instance_actions.by_instance(conn, uuid)]


@pytest.mark.parametrize(('status', 'version', 'code'), [
    ('running', '2.24', 202), ('queued', '2.24', 400), ('preparing', '2.64', 400), ('preparing', '2.65', 202),
    ('queued', '2.65', 202), ('accepted', '2.65', 400), ('completed', '2.65', 400), ('post-migrating', '2.65', 400)])
def test_live_migration_abort_depends_on_status_and_microversion(cloud, uuid, status, version, code):
    number = begin(cloud, uuid, status)
    answer = manager(cloud).delete(f'/servers/{uuid}/migrations/{number}', version=version)
    assert answer.status == code, answer.body
    told = [name for name, *_ in cloud.compute.sent]
    if code == 400:
        assert 'abort' in message(answer) and status in message(answer)
    assert told == (['abort_live_migration'] if code == 202 and status != 'queued' else [])
    assert ('live_migration_cancel' in actions(cloud, uuid)) == (code == 202)
    if status == 'queued' and code == 202:
        assert moves(cloud, uuid)[0]['status'] == 'cancelled' and cloud.row(uuid)['task_state'] is None
        with cloud.cell_db.reader() as conn:
            messages = {row['action']: row['message'] for row in instance_actions.by_instance(conn, uuid)}
        assert messages == {'live-migration': 'Error', 'live_migration_cancel': None}
    else:
        assert moves(cloud, uuid)[0]['arguments'].get('abort', False) is (code == 202)


def test_source_cannot_begin_a_queued_migration_while_it_is_aborted(cloud, uuid, monkeypatch):
    number, run, source = begin(cloud, uuid, 'queued'), engine.Database.run, []

    def begin_then(database, *arguments):
        result = run(database, *arguments)
        if database is not cloud.api_db and not source:
            source.append('begins')
            try:
                run(database, live_migrations.note, number, ('queued',), {}, status='preparing')
            except exception.InvalidMigrationState as error:
                source.append(error.kwargs['state'])
        return result
    monkeypatch.setattr(engine.Database, 'run', begin_then)
    assert manager(cloud).delete(f'/servers/{uuid}/migrations/{number}').status == 202
    assert source == ['begins', 'cancelled'] and cloud.row(uuid)['task_state'] is None


@pytest.mark.parametrize(('status', 'code'), [('running', 202), ('queued', 400), ('preparing', 400)])
def test_force_complete_needs_a_running_migration(cloud, uuid, status, code):
    number = begin(cloud, uuid, status)
    answer = manager(cloud).post(f'/servers/{uuid}/migrations/{number}/action', {'force_complete': None})
    assert answer.status == code, answer.body
    assert moves(cloud, uuid)[0]['arguments'].get('complete', False) is (code == 202)
    assert [name for name, *_ in cloud.compute.sent] == (['force_complete_live_migration'] if code == 202 else [])


@pytest.mark.parametrize('number', ['999', 'x', '9' * 40, '-1', '٣', '1.0'])
def test_unknown_migration_returns_404(cloud, uuid, number):
    begin(cloud, uuid, 'running')
    path = f'/servers/{uuid}/migrations/{urllib.parse.quote(number)}'
    assert manager(cloud).delete(path).status == 404
    assert manager(cloud).post(path + '/action', {'force_complete': None}).status == 404


def test_migrations_of_others_are_not_there(cloud, uuid):
    number = begin(cloud, uuid, 'running')
    other = cloud.add_server(7)
    put(cloud, other, task_state=states.MIGRATING)
    assert manager(cloud).delete(f'/servers/{other}/migrations/{number}').status == 404
    path = f'/servers/{uuid}/migrations/{number}'
    assert manager(cloud, project='b' * 32).delete(path).status == 404
    assert cloud.client(version='2.104').delete(path).status == 403
    put(cloud, uuid, locked=True)
    assert manager(cloud).delete(path).status == 409
    put(cloud, uuid, locked=False, task_state=None)
    assert manager(cloud).delete(path).status == 409
    assert manager(cloud).post(path + '/action', {'force_complete': None}).status == 409
    assert not moves(cloud, uuid)[0]['arguments'].get('abort')


# ---- evacuate ------------------------------------------------------------------

def evacuate(client, uuid, version=None, **body):
    return client.post(f'/servers/{uuid}/action', {'evacuate': body}, version=version)


def down(cloud, host='host1'):
    with cloud.cell_db.writer() as conn:
        table = tables_cell.services
        conn.execute(sa.update(table).where(table.c.host == host).values(forced_down=True))


def test_evacuate_is_cast_to_the_conductor(cloud, uuid):
    down(cloud)
    answer = evacuate(admin(cloud), uuid, adminPass='canary')
    assert answer.status == 200 and not answer.body
    assert cloud.conductor.sent == [('continue_evacuation', None, {'instance_uuid': uuid})]
    moved, = moves(cloud, uuid)
    assert (moved['migration_type'], moved['status']) == ('evacuation', 'accepted')
    assert 'canary' not in json.dumps(moved['arguments'])
    assert moved['arguments']['leave_stopped'] is True and cloud.row(uuid)['task_state'] == states.REBUILDING
    with cloud.cell_db.reader() as conn:
        kept = instance_actions.arguments_of_open(conn, [uuid])[uuid]
    assert 'canary' not in str(kept)
    assert encrypted_passwords.Passwords(cloud.conf).decrypted(kept, uuid) == {
        'evacuation': True, 'admin_password': 'canary'}


@pytest.mark.parametrize(('version', 'body', 'shown'), [
    ('2.1', {'onSharedStorage': False, 'adminPass': 'mine'}, 'mine'), ('2.13', {'onSharedStorage': 'no'}, str),
    ('2.13', {'onSharedStorage': True}, None)])
def test_until_2_13_the_password_is_shown(cloud, uuid, version, body, shown):
    down(cloud)
    answer = evacuate(admin(cloud), uuid, version=version, **body)
    assert answer.status == 200
    password = answer.json['adminPass']
    assert isinstance(password, str) and len(password) > 8 if shown is str else password == shown
    assert moves(cloud, uuid)[0]['arguments']['leave_stopped'] is False


@pytest.mark.parametrize(('version', 'body', 'code', 'part'), [
    (None, {'host': 'host1'}, 400, 'same one'), (None, {'host': 'nowhere'}, 404, 'could not be found'),
    ('2.29', {'force': True}, 400, "Can't force"), ('2.68', {'host': 'host2', 'force': True}, 400, 'force'),
    ('2.28', {'host': 'host2', 'force': True}, 400, 'force'), ('2.14', {'onSharedStorage': True}, 400, 'onShared'),
    ('2.13', {}, 400, 'onSharedStorage'), ('2.1', {'onSharedStorage': True, 'adminPass': 'p'}, 400, 'password'),
    (None, {'host': None}, 400, 'host'), (None, {'accepted_risk': True}, 400, 'accepted_risk'),
    ('2.1', {'onSharedStorage': False, 'accepted_risk': 'two'}, 400, 'accepted_risk')])
def test_invalid_evacuation_is_refused_and_changes_nothing(cloud, uuid, version, body, code, part):
    down(cloud)
    answer = evacuate(admin(cloud), uuid, version=version, **body)
    assert answer.status == code and part in message(answer)
    assert moves(cloud, uuid) == [] and cloud.row(uuid)['task_state'] is None


def test_evacuate_from_a_running_host_returns_400(cloud, uuid):
    answer = evacuate(admin(cloud), uuid)
    assert answer.status == 400 and message(answer) == 'Compute service of host1 is still in use.'
    assert moves(cloud, uuid) == [] and cloud.row(uuid)['task_state'] is None and cloud.conductor.sent == []


@pytest.mark.parametrize(('version', 'body', 'force'), [
    ('2.14', {'host': 'host2'}, True), ('2.29', {'host': 'host2'}, False),
    ('2.29', {'host': 'host2', 'force': 'true'}, True), ('2.68', {'host': 'host2'}, False)])
def test_named_evacuation_host_is_checked_unless_forced(cloud, uuid, version, body, force):
    down(cloud)
    assert evacuate(admin(cloud), uuid, version=version, **body).status == 200
    assert moves(cloud, uuid)[0]['arguments']['force'] is force


@pytest.mark.parametrize(('version', 'more'), [('2.1', {'onSharedStorage': False}), (None, {})])
def test_an_evacuation_names_the_risk_that_it_accepts(cloud, uuid, version, more):
    down(cloud)
    assert evacuate(admin(cloud), uuid, version=version, accepted_risk='two-writers', **more).status == 200
    arguments = moves(cloud, uuid)[0]['arguments']
    assert arguments['accepted_risk'] == 'two-writers' and arguments['interrupted_task'] is None


def test_only_administrators_evacuate(cloud, uuid):
    down(cloud)
    assert evacuate(manager(cloud), uuid).status == 403
    assert evacuate(admin(cloud), UNKNOWN).status == 404


def test_evacuation_finishes_the_interrupted_action_of_the_dead_host(cloud, uuid):
    """A reboot that its host did not survive: its record says so, and the evacuation's is the open one."""
    admin(cloud).post(f'/servers/{uuid}/action', {'reboot': {'type': 'HARD'}})
    down(cloud)
    assert evacuate(admin(cloud), uuid).status == 200
    with cloud.cell_db.reader() as conn:
        rows = {row['action']: row for row in instance_actions.by_instance(conn, uuid)}
    assert rows['reboot']['finished_at'] and rows['reboot']['message'] == 'Error'
    assert not rows['evacuate']['finished_at']


# ---- external events -----------------------------------------------------------

def tell(client, *events, version='2.104'):
    return client.post('/os-server-external-events', {'events': list(events)}, version=version)


def test_events_reach_the_host(cloud, uuid):
    answer = tell(admin(cloud), {'name': 'network-changed', 'server_uuid': uuid, 'tag': 'p'},
                  {'name': 'network-vif-plugged', 'server_uuid': uuid, 'status': 'failed'})
    assert answer.status == 200
    assert answer.json == {'events': [
        {'name': 'network-changed', 'server_uuid': uuid, 'tag': 'p', 'status': 'completed', 'code': 200},
        {'name': 'network-vif-plugged', 'server_uuid': uuid, 'status': 'failed', 'code': 200}]}
    (method, host, arguments), = cloud.compute.sent
    assert (method, host, arguments['instance'].uuid) == ('external_instance_event', 'host1', uuid)
    assert arguments['events'] == [{'name': 'network-changed', 'tag': 'p', 'status': 'completed'},
                                   {'name': 'network-vif-plugged', 'tag': None, 'status': 'failed'}]


def test_each_event_has_its_code(cloud, uuid):
    homeless = cloud.add_server(3, host=None, node=None)
    answer = tell(admin(cloud), {'name': 'network-changed', 'server_uuid': uuid},
                  {'name': 'network-changed', 'server_uuid': UNKNOWN},
                  {'name': 'network-changed', 'server_uuid': homeless},
                  {'name': 'volume-extended', 'server_uuid': uuid},
                  {'name': 'volume-reimaged', 'server_uuid': uuid},
                  {'name': 'accelerator-request-bound', 'server_uuid': uuid},
                  {'name': 'power-update', 'server_uuid': uuid, 'tag': 'SIDEWAYS'})
    assert answer.status == 207
    assert [event['code'] for event in answer.json['events']] == [200, 404, 422, 400, 400, 400, 400]
    assert [event['status'] for event in answer.json['events']] == ['completed'] + ['failed'] * 6
    assert len(cloud.compute.sent) == 1
    assert tell(admin(cloud), {'name': 'network-changed', 'server_uuid': UNKNOWN}).status == 207


def test_an_extended_volume_is_recorded(cloud, uuid):
    assert tell(admin(cloud), {'name': 'volume-extended', 'server_uuid': uuid, 'tag': VOLUME}).status == 200
    assert actions(cloud, uuid) == ['extend_volume'] and len(cloud.compute.sent) == 1


@pytest.mark.parametrize(('vm_state', 'tag', 'method', 'task'), [
    (states.ACTIVE, 'POWER_OFF', 'stop_instance', states.POWERING_OFF), (states.ACTIVE, 'POWER_ON', None, None),
    (states.STOPPED, 'POWER_ON', 'start_instance', states.POWERING_ON), (states.STOPPED, 'POWER_OFF', None, None),
    (states.PAUSED, 'POWER_OFF', None, None)])
def test_power_update_event_starts_or_stops_the_server(cloud, uuid, vm_state, tag, method, task):
    put(cloud, uuid, vm_state=vm_state)
    answer = tell(admin(cloud), {'name': 'power-update', 'server_uuid': uuid, 'tag': tag})
    assert answer.status == 200
    assert [name for name, *_ in cloud.compute.sent] == ([method] if method else [])
    assert cloud.row(uuid)['task_state'] == task
    assert actions(cloud, uuid) == ([method.partition('_')[0]] if method else [])


def test_external_events_require_the_service_role(cloud, uuid):
    event = {'name': 'network-changed', 'server_uuid': uuid}
    assert tell(manager(cloud), event).status == 403
    assert tell(cloud.client(roles=('service',), project='s' * 32), event).status == 200


@pytest.mark.parametrize('body', [
    {}, {'events': []}, {'events': {}}, {'events': [{}]}, {'events': [{'name': 'x', 'server_uuid': UNKNOWN}]},
    {'events': [{'name': 'network-changed', 'server_uuid': 'x'}]},
    {'events': [{'name': 'network-changed', 'server_uuid': UNKNOWN, 'more': 1}]},
    {'events': [{'name': 'network-changed', 'server_uuid': UNKNOWN, 'tag': 'x' * 256}]},
    {'events': [{'name': 'network-changed', 'server_uuid': UNKNOWN, 'status': 'odd'}]},
    {'events': [{'name': 'network-changed', 'server_uuid': UNKNOWN}] * 1001}])
def test_invalid_external_events_return_400(cloud, body):
    assert admin(cloud).post('/os-server-external-events', body).status == 400


# ---- assisted snapshots --------------------------------------------------------

def attach(cloud, uuid):
    with cloud.cell_db.writer() as conn:
        block_devices.insert(conn, uuid, [{
            'source_type': 'volume', 'destination_type': 'volume', 'volume_id': VOLUME, 'device_name': '/dev/vdb'}])


def snapshot(client, **info):
    return client.post('/os-assisted-volume-snapshots', {'snapshot': {'volume_id': VOLUME, 'create_info': {
        'snapshot_id': 's', 'type': 'qcow2', 'new_file': 'f', **info}}})


def remove(client, info):
    query = urllib.parse.urlencode({'delete_info': info if isinstance(info, str) else json.dumps(info)})
    return client.delete(f'/os-assisted-volume-snapshots/s?{query}')


def test_assisted_snapshot_is_created_for_administrators(cloud, uuid):
    attach(cloud, uuid)
    answer = snapshot(admin(cloud), id=SNAPSHOT)
    assert answer.status == 200 and answer.json == {'snapshot': {'id': SNAPSHOT, 'volumeId': VOLUME}}
    assert snapshot(admin(cloud)).json['snapshot']['id'] is None
    assert remove(admin(cloud), {'volume_id': VOLUME, 'file_to_merge': 'f'}).status == 204
    assert [(name, host, sorted(arguments)) for name, host, arguments in cloud.compute.sent] == [
        *[('create_volume_snapshot', 'host1', ['create_info', 'instance', 'volume_id'])] * 2,
        ('delete_volume_snapshot', 'host1', ['delete_info', 'instance', 'snapshot_id', 'volume_id'])]


def unheard(cloud):
    """No service has been heard of for an hour: the database was away, the hosts are not dead."""
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(
            last_seen_at=utils.utcnow() - datetime.timedelta(hours=1)))


def test_a_database_that_was_away_has_killed_no_host(cloud, uuid):
    attach(cloud, uuid)
    unheard(cloud)
    assert snapshot(admin(cloud)).status == 200
    cloud.compute.answers['host_power_action'] = 'rebooted'
    client = admin(cloud, '2.42')
    assert client.get('/os-hosts/host1/reboot').status == 200
    down(cloud)
    assert snapshot(admin(cloud)).status == client.get('/os-hosts/host1/reboot').status == 400


def test_invalid_assisted_snapshots_are_refused(cloud, uuid):
    assert snapshot(admin(cloud)).status == 400                      # attached to nothing
    assert remove(admin(cloud), {'volume_id': VOLUME}).status == 404
    attach(cloud, uuid)
    assert snapshot(manager(cloud)).status == 403
    assert snapshot(admin(cloud), id='i').status == 400              # the answer would not be as documented
    for info in ('', 'x', '[]', '{}', '{"volume_id": 1}', r'{"volume_id": "\u0000"}', r'{"volume_id": "\ud800"}'):
        assert remove(admin(cloud), info).status == 400
    assert admin(cloud).delete('/os-assisted-volume-snapshots/s').status == 400
    with cloud.cell_db.writer() as conn:
        can(conn, assisted_snapshots=False, volume_copies=True)
    # libvirt hosts: it was accepted, and failed on the host
    for answer in (snapshot(admin(cloud)), remove(admin(cloud), {'volume_id': VOLUME})):
        assert answer.status == 400 and 'does not support chains of volume snapshots' in str(answer.json)
    with cloud.cell_db.writer() as conn:
        can(conn, assisted_snapshots=True)
    down(cloud)
    assert snapshot(admin(cloud)).status == 400
    assert cloud.compute.sent == []


# ---- hosts ---------------------------------------------------------------------

def test_hosts_api_lists_and_describes_compute_hosts(cloud, uuid):
    client = admin(cloud, '2.42')
    assert client.get('/os-hosts').json['hosts'] == [
        {'host_name': name, 'service': 'compute', 'zone': 'nova'} for name in ('host1', 'host2')]
    assert client.get('/os-hosts?zone=elsewhere').json['hosts'] == []
    shown = [entry['resource'] for entry in client.get('/os-hosts/host1').json['host']]
    assert shown == [
        {'host': 'host1', 'project': '(total)', 'cpu': 8, 'memory_mb': 8192, 'disk_gb': 100},
        {'host': 'host1', 'project': '(used_now)', 'cpu': 0, 'memory_mb': 0, 'disk_gb': 0},
        {'host': 'host1', 'project': '(used_max)', 'cpu': 1, 'memory_mb': 512, 'disk_gb': 1},
        {'host': 'host1', 'project': base.PROJECT, 'cpu': 1, 'memory_mb': 512, 'disk_gb': 1}]
    assert client.get('/os-hosts/nowhere').status == 404
    for path in ('/os-hosts', '/os-hosts/host1', '/os-hosts/host1/reboot'):
        assert cloud.client(version='2.42').get(path).status == 403


def test_host_can_be_disabled_and_enabled(cloud):
    client = admin(cloud, '2.42')
    assert client.put('/os-hosts/host1', {'status': 'disable'}).json == {'host': 'host1', 'status': 'disabled'}
    services = {row['host']: row['status'] for row in admin(cloud).get('/os-services').json['services']}
    assert services == {'host1': 'disabled', 'host2': 'enabled'}
    assert client.put('/os-hosts/host1', {'status': 'ENABLE'}).json == {'host': 'host1', 'status': 'enabled'}
    for body in ({}, {'status': 'x'}, {'other': 1}, {'maintenance_mode': True}):
        assert client.put('/os-hosts/host1', body).status == 400
    assert client.put('/os-hosts/nowhere', {'status': 'enable'}).status == 404


def test_host_power_actions_reach_the_driver(cloud):
    client = admin(cloud, '2.42')
    cloud.compute.answers['host_power_action'] = 'rebooted'
    assert client.get('/os-hosts/host1/reboot').json == {'host': 'host1', 'power_action': 'rebooted'}
    assert cloud.compute.sent == [('host_power_action', 'host1', {'action': 'reboot'})]
    cloud.compute.down = True
    assert client.get('/os-hosts/host1/shutdown').status == 400
    with cloud.cell_db.writer() as conn:
        can(conn, host_control=False)
    for action in ('reboot', 'shutdown', 'startup'):
        assert client.get(f'/os-hosts/host1/{action}').status == 501
        assert client.get(f'/os-hosts/nowhere/{action}').status == 404


def test_host_maintenance_is_started_and_stopped(cloud, uuid):
    """It was accepted, and neither moved servers nor kept new ones away."""
    client, path = admin(cloud, '2.42'), '/os-hosts/host1'

    def service():
        return next(row for row in admin(cloud).get('/os-services').json['services'] if row['host'] == 'host1')
    refused = client.put(path, {'maintenance_mode': 'enable'})
    assert refused.status == 400 and 'it is in 0 aggregates' in message(refused) and service()['status'] == 'enabled'
    number = _aggregate(cloud)
    assert client.put(path, {'maintenance_mode': 'enable', 'status': 'enable'}).status == 400
    for _twice in range(2):
        assert client.put(path, {'maintenance_mode': 'enable'}).json == {
            'host': 'host1', 'maintenance_mode': 'on_maintenance'}
    assert client.put(path, {'maintenance_mode': 'enable', 'status': 'disable'}).json['status'] == 'disabled'
    assert service()['status'] == 'disabled' and 'In maintenance' in service()['disabled_reason']
    shown = admin(cloud).get(f'/os-aggregates/{number}/os-host-maintenance/host1').json['os-host-maintenance']
    assert shown['status'] == 'draining' and [each['id'] for each in shown['servers']] == [uuid]
    for _twice in range(2):
        assert client.put(path, {'maintenance_mode': 'disable'}).json == {
            'host': 'host1', 'maintenance_mode': 'off_maintenance'}
    assert service()['status'] == 'enabled'
    _aggregate(cloud)
    refused = client.put(path, {'maintenance_mode': 'enable'})
    assert refused.status == 400 and 'it is in 2 aggregates' in message(refused)
    with cloud.cell_db.writer() as conn:
        can(conn, host_control=True)
    refused = client.put(path, {'maintenance_mode': 'enable', 'status': 'disable'})
    assert refused.status == 501 and service()['status'] == 'enabled'


def _aggregate(cloud):
    """A new aggregate with host1."""
    client = admin(cloud)
    number = client.post('/os-aggregates', {'aggregate': {'name': f'a{utils.utcnow()}'}}).json['aggregate']['id']
    assert client.post(f'/os-aggregates/{number}/action', {'add_host': {'host': 'host1'}}).status == 200
    return number
