"""Every vm state × task state × action: the API answers as the table of actions says."""
import itertools
import uuid

import pytest

from nova import actions
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.projects import flavors
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import shares
from nova.tests import long_runs
from nova.tests import server_rows
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.virt import driver

BODIES = {
    'addFixedIp': {'addFixedIp': {'networkId': server_rows.NETWORK_ID}},
    'removeFixedIp': {'removeFixedIp': {'address': '10.0.0.4'}},
    'reboot': {'reboot': {'type': 'SOFT'}}, 'reboot-hard': {'reboot': {'type': 'HARD'}},
    'createImage': {'createImage': {'name': 'copy'}}, 'os-getConsoleOutput': {'os-getConsoleOutput': {}},
    'os-resetState': {'os-resetState': {'state': 'error'}},
    'createBackup': {'createBackup': {'name': 'copy', 'backup_type': 'daily', 'rotation': 1}},
    'changePassword': {'changePassword': {'adminPass': 'new'}},
    'resize': {'resize': {'flavorRef': '2'}},
    'os-migrateLive': {'os-migrateLive': {'host': None, 'block_migration': True, 'disk_over_commit': False}},
    'evacuate': {'evacuate': {'onSharedStorage': False}},
}
# the documents have these codes where a driver cannot do it, 409 for the others
REFUSED = {'trigger_crash_dump': 400, 'swap_volume': 403, **dict.fromkeys((
    'pause', 'unpause', 'rescue', 'unrescue', 'changePassword', 'attach_interface', 'detach_interface'), 501)}
PORT = str(uuid.UUID(int=1))
NOT_USERS = ('rule:context_is_admin', 'rule:service_or_admin')
TASKS = (None, *sorted({task for name, task in vars(states).items()
                        if name.isupper() and isinstance(task, str) and task not in states.VM_STATES}
                       - {'os_compute_api:'}))
ACTIONS = [action for action in actions.ACTIONS.values() if action.name not in ('metadata', 'delete', 'softDelete')]
# what a client can ask for by itself; softDelete is a delete of a deployment that keeps deleted servers
WALKED = [action for action in actions.ACTIONS.values() if action.name != 'softDelete']
VERSIONS = {'trigger_crash_dump': '2.17'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('states'), quota__instances=-1, quota__cores=-1,
                              quota__ram=-1, volume__volumes=-1, volume__gigabytes=-1)
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'plain', 'plain', **{driver.name_of(feature): False for feature in driver.FEATURES})
    with fixture.api_db.writer() as conn:
        flavors.create(conn, {'flavor_id': '2', 'name': 'm1.small', 'memory_mb': 1024, 'vcpus': 2, 'root_gb': 2})
    yield fixture
    fixture.close()


@pytest.fixture(scope='module')
def server_id(cloud):
    made = cloud.client().post('/servers', cloud.body()).json['server']['id']
    with cloud.cell_db.writer() as conn:
        instances.update(conn, made, {'host': servers.HOST, 'node': servers.NODE,
                                      'network_info': [server_rows.vif(1)]})
    cloud.add_port(PORT, device_id=made)
    return made


def put(cloud, server_id, **values):
    with cloud.cell_db.writer() as conn:
        instances.update(conn, server_id, values)


def ask(cloud, server_id, action, client=None):
    path = f'/servers/{server_id}'
    client = client or cloud.admin(project=base.PROJECT)
    with cloud.cell_db.writer() as conn:                     # a server with shares is refused much
        for row in shares.by_instance(conn, server_id):
            shares.delete(conn, row['uuid'])
    if action.name == 'delete':
        return client.delete(path)
    if action.name in ('confirmResize', 'revertResize'):
        with cloud.cell_db.writer() as conn:
            row = instances.get(conn, server_id)
            server_migrations.create(conn, cloud.owner, row, server_migrations.RESIZE, 'finished')
    if action.name == 'attach_interface':
        return client.post(path + '/os-interface', {})
    if action.name == 'detach_interface':
        return client.delete(path + f'/os-interface/{PORT}')
    if action.name == 'attach_share':
        return client.post(path + '/shares', {'share': {'share_id': cloud.services.shares.add()}}, version='2.97')
    if action.name == 'detach_share':
        return client.delete(path + '/shares/' + cloud.add_share(server_id), version='2.97')
    if action.name.endswith('_volume'):
        return ask_volume(cloud, server_id, action, client)
    if action.name == 'metadata':
        return client.put(path + '/metadata', {'metadata': {}})
    body = BODIES.get(action.name) or {action.name: None}
    if action.name == 'evacuate':
        put(cloud, server_id, host='dead')
        answer = client.post(path + '/action', body)
        put(cloud, server_id, host=servers.HOST)
        return answer
    if action.name == 'rebuild':
        body = {'rebuild': {'imageRef': cloud.image_id}}
    return client.post(path + '/action', body, version=VERSIONS.get(action.name))


def ask_volume(cloud, server_id, action, client):
    """With a volume that is fit for the action, the only one of the server."""
    with cloud.cell_db.writer() as conn:
        for device in block_devices.by_instance(conn, server_id):
            block_devices.delete(conn, device['uuid'])
    path = f'/servers/{server_id}/os-volume_attachments'
    if action.name == 'attach_volume':
        return client.post(path, {'volumeAttachment': {'volumeId': cloud.add_volume()}}, version='2.20')
    path += '/' + cloud.add_volume(server_id)
    if action.name == 'detach_volume':
        return client.delete(path, version='2.20')
    return client.put(path, {'volumeAttachment': {'volumeId': cloud.add_volume()}})


def test_the_walk_knows_all_tasks():
    assert set(actions.ACTIONS['reboot-hard'].conditions.task_states) <= set(TASKS) and len(TASKS) > 30


def end(cloud, server_id):
    """End what is under way, as the host does that is not there."""
    with cloud.cell_db.writer() as conn:
        instance_actions.finish(conn, server_id)


@pytest.mark.parametrize('action', WALKED, ids=lambda action: action.name)
def test_answers_as_the_table_says(cloud, server_id, action):
    # the API looks at equality only, so that one task in a set stands for all the others of its kind
    tasks = TASKS[:6]
    if action.conditions.task_states not in (actions.ANY, actions.IDLE):
        tasks = [None, *action.conditions.task_states, *long_runs.turn(action.name, TASKS, 3)]
    for vm_state, task_state in itertools.product(states.VM_STATES, tasks):
        put(cloud, server_id, vm_state=vm_state, task_state=task_state)
        if action.conditions.one_at_a_time:
            end(cloud, server_id)
        answer = ask(cloud, server_id, action)
        row = cloud.row(server_id)
        what = f'{action.name} of {vm_state}, {task_state}: {answer.status} {answer.body[:200]}'
        if action.conditions.allows(vm_state, task_state):
            assert answer.status < 300, what
            if action.running:
                assert row['task_state'] == action.running, what
        else:
            assert answer.status == 409, what
            assert answer.fault[0] == 'conflictingRequest' and server_id in answer.fault[2], what
            assert (row['vm_state'], row['task_state']) == (vm_state, task_state), what


@pytest.mark.parametrize('action', [action for action in WALKED if action.conditions.one_at_a_time],
                         ids=lambda action: action.name)
def test_second_action_during_an_action_returns_409(cloud, server_id, action):
    put(cloud, server_id, vm_state=action.conditions.vm_states[0], task_state=None)
    end(cloud, server_id)
    first, second = ask(cloud, server_id, action), ask(cloud, server_id, action)
    assert first.status == 202 and second.status == 409
    assert second.fault[2] == f'The action {action.record} of this server is in progress. Retry when it has ended.'
    end(cloud, server_id)
    assert ask(cloud, server_id, action).status == 202


@pytest.mark.parametrize('action', WALKED, ids=lambda action: action.name)
def test_a_lock_stops_users_and_no_administrators(cloud, server_id, action):
    allowed = action.conditions.vm_states[0] if action.conditions.vm_states else states.ACTIVE
    for client, refused in ((cloud.client(roles=('manager', 'member', 'reader')), action.conditions.locked),
                            (cloud.admin(project=base.PROJECT), False)):
        put(cloud, server_id, vm_state=allowed, task_state=None, locked=True, locked_by='owner')
        if action.conditions.one_at_a_time:
            end(cloud, server_id)
        answer = ask(cloud, server_id, action, client)
        if facts.policies()[action.policy] in NOT_USERS and 'admin' not in client.roles:
            assert answer.status == 403
            continue
        assert (answer.status == 409) == refused, f'{action.name}: {answer.status} {answer.body[:200]}'
        if refused:
            assert answer.fault[2] == f'Instance {server_id} is locked'
    put(cloud, server_id, locked=False, locked_by=None)


@pytest.mark.parametrize('action', [action for action in actions.ACTIONS.values() if action.requirements.capability],
                         ids=lambda action: action.name)
def test_action_that_the_driver_does_not_support_is_refused(cloud, server_id, action):
    put(cloud, server_id, vm_state=action.conditions.vm_states[0], task_state=None, host='plain', node='plain')
    answer = ask(cloud, server_id, action, cloud.client(roles=('manager', 'member', 'reader')))
    put(cloud, server_id, host=servers.HOST, node=servers.NODE)
    assert answer.status == REFUSED.get(action.name, 409)
    assert cloud.row(server_id)['task_state'] is None


@pytest.mark.parametrize('action', [action for action in ACTIONS if action.calls.method],
                         ids=lambda action: action.name)
def test_servers_of_other_projects_return_404(cloud, server_id, action):
    put(cloud, server_id, vm_state=(action.conditions.vm_states or ('active',))[0], task_state=None)
    answer = ask(cloud, server_id, action, cloud.client(project='c' * 32))
    # what only administrators may is refused whatever the server
    assert answer.status == (403 if facts.policies()[action.policy] == 'rule:context_is_admin' else 404)
    assert cloud.row(server_id)['task_state'] is None


@pytest.mark.parametrize('action', [action for action in ACTIONS if action.calls.method],
                         ids=lambda action: action.name)
def test_readers_cannot_run_actions(cloud, server_id, action):
    put(cloud, server_id, vm_state=(action.conditions.vm_states or ('active',))[0], task_state=None)
    answer = ask(cloud, server_id, action, cloud.client(roles=('reader',)))
    assert answer.status == 403
    assert cloud.row(server_id)['task_state'] is None


def test_action_is_cast_to_the_host_with_the_interface_arguments(cloud, server_id):
    """Each action is cast to the server's host with the arguments of the compute's interface."""
    from nova.compute import interface
    for action in ACTIONS:
        if not action.calls.method:
            continue
        put(cloud, server_id, vm_state=(action.conditions.vm_states or ('active',))[0], task_state=None)
        cloud.compute.sent.clear()
        ask(cloud, server_id, action)
        (method, host, arguments), = cloud.compute.sent
        assert (method, host) == (action.calls.method, servers.HOST)
        assert set(arguments) == set(interface.INTERFACE.methods[method].arguments)
        assert arguments['instance'].uuid == server_id
