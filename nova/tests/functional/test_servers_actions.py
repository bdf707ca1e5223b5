"""Actions and sub-resources of one server: what is stored, sent, answered and refused."""
import pytest

from nova import states
from nova.api.server_actions import rebuild
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.tests import db_faults
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


@pytest.fixture
def server_id(cloud):
    """An active server that was created through the API."""
    made = cloud.client().post('/servers', cloud.body()).json['server']['id']
    with cloud.cell_db.writer() as conn:
        instances.update(conn,
    made,
    {'vm_state': 'active',
    'task_state': None,
    'host': 'host1',
    'node': 'node1',
    'availability_zone': 'nova',
     'network_info': [server_rows.vif(1)]})
        instance_actions.finish(conn, made)
    return made


def act(cloud, server_id, body, client=None, **more):
    return (client or cloud.client()).post(f'/servers/{server_id}/action', body, **more)


# ---- update ------------------------------------------------------------------

def test_server_name_and_addresses_are_updated(cloud, server_id):
    body = {
    'server': {
        'name': 'new',
        'accessIPv4': '192.0.2.3',
        'OS-DCF:diskConfig': 'AUTO',
        'description': None,
         'hostname': 'other'}}
    answer = cloud.client().put(f'/servers/{server_id}', body, version='2.90')
    assert answer.status == 200
    row = cloud.row(server_id)
    assert (
    row['display_name'],
    row['access_ip_v4'],
    row['disk_config'],
    row['description'],
    row['hostname']) == (
        'new',
        '192.0.2.3',
        'AUTO',
        None,
         'other')
    assert row['vm_state'] == 'active' and row['updated_at'] > row['created_at']


def test_pinned_zone_is_changed_since_2_104(cloud, server_id):
    def put(zone):
        return cloud.client().put(f'/servers/{server_id}', {'server': {'pinned_availability_zone': zone}},
                                  version='2.104')
    assert put('nova').json['server']['pinned_availability_zone'] == 'nova'
    with cloud.api_db.reader() as conn:
        assert request_specs.get(conn, server_id).availability_zone == 'nova'
    assert put('elsewhere').status == 409
    assert put(None).json['server']['pinned_availability_zone'] is None
    assert cloud.row(server_id)['pinned_availability_zone'] is None


# ---- rebuild, createImage ----------------------------------------------------

def test_a_rebuild_that_is_to_keep_the_ephemeral_disk_is_refused(cloud, server_id):
    """It was answered with 202, and the disk was made anew: what was on it was lost."""
    cloud.cell_db.run(instances.update, server_id, {'ephemeral_gb': 1})
    body = {'imageRef': cloud.add_image(name='other'), 'preserve_ephemeral': True}
    answer = act(cloud, server_id, {'rebuild': body})
    assert answer.status == 400 and 'preserve_ephemeral' in answer.json['badRequest']['message']
    assert cloud.row(server_id)['task_state'] is None
    assert act(cloud, server_id, {'rebuild': {**body, 'preserve_ephemeral': False}}).status == 202


def test_rebuild_replaces_image_and_metadata(cloud, server_id):
    kernel = cloud.add_image(name='kernel')
    image = cloud.add_image(name='other', properties={'kernel_id': kernel, 'os': 'x'})
    answer = act(cloud,
    server_id,
    {'rebuild': { 'imageRef': image,
    'name': 'again',
    'metadata': {'k': 'v'},
    'adminPass': 'pw',
    'preserve_ephemeral': 'true',
    'user_data': 'QQ==',
    'hostname': 'again',
    'description': 'd'}},
     version='2.90')
    assert answer.status == 202 and answer.json['server']['adminPass'] == 'pw'
    row = cloud.row(server_id)
    assert (row['image_id'], row['kernel_id'], row['display_name'], row['metadata'], row['task_state']) == (
        image, kernel, 'again', {'k': 'v'}, 'rebuilding')
    method, host, arguments = cloud.compute.sent[-1]
    assert (method, host, arguments['preserve_ephemeral']) == ('rebuild_instance', 'host1', True)
    assert arguments['spec'].image['id'] == image and arguments['spec'].admin_password == 'pw'
    with cloud.api_db.reader() as conn:
        assert request_specs.get(conn, server_id).image['id'] == image


def test_a_rebuild_with_files_gives_the_server_a_config_drive(cloud, server_id):
    files = [{'path': '/etc/motd', 'contents': 'aGVsbG8='}]
    assert not cloud.row(server_id)['config_drive']
    answer = act(cloud, server_id, {'rebuild': {'imageRef': cloud.image_id, 'personality': files}}, version='2.56')
    assert answer.status == 202, answer.body
    assert cloud.row(server_id)['config_drive']
    assert cloud.compute.sent[-1][2]['spec'].injected_files == files


def test_a_rebuild_keeps_the_flavor_of_a_resize_that_ends_meanwhile(cloud, server_id, monkeypatch):
    """It wrote the flavor back that it had read before, and the server was placed by that later."""
    plan, image = rebuild._plan, cloud.add_image(name='other')

    def ends(body, facts, inject_partition):
        with cloud.api_db.writer() as conn:
            spec = request_specs.get(conn, server_id)
            spec.flavor = {**spec.flavor, 'vcpus': 7}
            request_specs.update(conn, spec)
        return plan(body, facts, inject_partition)
    monkeypatch.setattr(rebuild, '_plan', ends)
    assert act(cloud, server_id, {'rebuild': {'imageRef': image}}).status == 202
    with cloud.api_db.reader() as conn:
        spec = request_specs.get(conn, server_id)
    assert (spec.image['id'], spec.flavor['vcpus']) == (image, 7)
    assert cloud.compute.sent[-1][2]['spec'].flavor['vcpus'] == 7


@pytest.mark.parametrize('values, code', [
    ({'imageRef': server_rows.IMAGE_ID}, 400), ({'key_name': 'none'}, 400), ({'user_data': '!'}, 400),
    ({'metadata': {str(n): '' for n in range(129)}}, 403), ({'personality': []}, 400),
    ({'hostname': 'x'}, 400)])
def test_rebuild_refusals_change_nothing(cloud, server_id, values, code):
    before = cloud.row(server_id)
    answer = act(cloud, server_id, {'rebuild': {'imageRef': cloud.image_id, **values}}, version='2.60')
    assert answer.status == code, answer.body
    assert cloud.row(server_id) == before


def test_create_image_returns_its_location(cloud, server_id):
    answer = act(cloud, server_id, {'createImage': {'name': 'copy', 'metadata': {'mine': 'yes'}}})
    image_id = answer.headers['location'].rpartition('/')[2]
    image = cloud.services.images.show(cloud.owner, image_id)
    assert (
    image['status'],
    image['name'],
    image['min_disk'],
    image['visibility']) == (
        'queued',
        'copy',
        1,
         'private')
    assert image['properties'].items() >= {
        'image_type': 'snapshot', 'instance_uuid': server_id, 'base_image_ref': cloud.image_id, 'mine': 'yes',
        'hw_disk_bus': 'virtio'}.items()
    assert cloud.compute.sent[-1][2]['image_id'] == image_id
    cloud.cell_db.run(instances.update, server_id, {'task_state': None})
    assert act(cloud, server_id, {'createImage': {'name': 'copy'}},
               version='2.45').json['image_id'] != image_id


def test_create_image_of_a_busy_server_makes_no_image(cloud, server_id):
    cloud.cell_db.run(instances.update, server_id, {'task_state': 'rebooting'})
    assert act(cloud, server_id, {'createImage': {'name': 'copy'}}).status == 409
    cloud.cell_db.run(instances.update, server_id, {'vm_state': 'rescued', 'task_state': 'unrescuing'})
    assert act(cloud, server_id, {'createImage': {'name': 'copy'}}).fault[2].endswith('in vm_state rescued')
    assert [image['name'] for image in cloud.services.images.list(cloud.owner)] == ['cirros']


def test_create_image_that_the_image_service_refuses_changes_nothing(cloud, server_id):
    """The action begins before the image is made, so that no crash leaves an image that nobody knows."""
    before = cloud.row(server_id)
    with cloud.cell_db.reader() as conn:
        recorded = len(instance_actions.by_instance(conn, server_id))
    sent = len(cloud.compute.sent)
    answer = act(cloud, server_id, {'createImage': {'name': 'copy', 'metadata': {'data_id': 'x'}}}, version='2.39')
    assert answer.status in (400, 403), answer.body
    row = cloud.row(server_id)
    assert {**row, 'updated_at': None} == {**before, 'updated_at': None}
    with cloud.cell_db.reader() as conn:
        assert len(instance_actions.by_instance(conn, server_id)) == recorded
    assert len(cloud.compute.sent) == sent
    assert [image['name'] for image in cloud.services.images.list(cloud.owner)] == ['cirros']


@pytest.mark.parametrize('committed', [True, False])
def test_create_image_without_an_answer_of_the_image_service_leaves_no_image(cloud, server_id, committed):
    client = cloud.client()
    db_faults.lose_commit(cloud.api_db, committed)
    assert client.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}}).status == 503
    assert [image['name'] for image in cloud.services.images.list(cloud.owner)] == ['cirros']
    assert cloud.row(server_id)['task_state'] is None
    assert client.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}}).status == 202


@pytest.mark.parametrize('version, code', [('2.38', 403), ('2.39', 202)])
def test_metadata_of_an_image_counts_until_239(cloud, server_id, version, code):
    metadata = {str(number): 'x' for number in range(100)}
    cloud.conf.set_override('metadata_items', 99, 'quota')
    assert act(cloud, server_id, {'createImage': {'name': 'copy', 'metadata': metadata}},
               version=version).status == code


# ---- lock, state, console ----------------------------------------------------

def test_locked_server_refuses_its_users(cloud, server_id):
    user, admin = cloud.client(version='2.73'), cloud.admin(version='2.73', project='c' * 32)
    assert act(cloud, server_id, {'lock': {'locked_reason': 'mine'}}, user).status == 202
    assert user.get(f'/servers/{server_id}').json['server']['locked_reason'] == 'mine'
    assert act(cloud, server_id, {'unlock': None}, user).status == 202
    assert act(cloud, server_id, {'lock': {'locked_reason': 'forensics'}}, admin).status == 202
    assert act(cloud, server_id, {'unlock': None}, user).status == 403
    assert cloud.row(server_id)['locked_by'] == 'admin'
    for lock in (None, {'locked_reason': 'mine'}):
        assert act(cloud, server_id, {'lock': lock}, user).status == 202      # it stays the administrator's
        assert cloud.row(server_id)['locked_reason'] == 'forensics'
    assert act(cloud, server_id, {'lock': {'locked_reason': 'hands off'}}, cloud.admin(version='2.73')).status == 202
    row = cloud.row(server_id)
    assert (row['locked_by'], row['locked_reason']) == ('admin', 'hands off')
    assert act(cloud, server_id, {'unlock': None}, user).status == 403
    assert act(cloud, server_id, {'unlock': None}, admin).status == 202
    assert user.get(f'/servers/{server_id}').json['server']['locked'] is False


def test_a_locked_server_keeps_its_data(cloud, server_id):
    act(cloud, server_id, {'lock': None}, cloud.admin())
    client = cloud.client()
    assert client.delete(f'/servers/{server_id}').status == 409
    assert client.put(f'/servers/{server_id}/metadata/a', {'meta': {'a': 'b'}}).status == 409
    assert cloud.compute.sent == []


def test_reset_state_is_for_administrators(cloud, server_id):
    assert act(cloud, server_id, {'os-stop': None}).status == 202
    assert act(cloud, server_id, {'os-resetState': {'state': 'error'}}).status == 403
    assert act(cloud, server_id, {'os-resetState': {'state': 'active'}}, cloud.admin()).status == 202
    row = cloud.row(server_id)
    assert (row['vm_state'], row['task_state']) == ('active', None)
    with cloud.cell_db.reader() as conn:
        assert all(action['finished_at'] for action in instance_actions.by_instance(conn, server_id))


@pytest.mark.parametrize('length, sent', [(None, None), (-1, None), ('5', 5), (0, 0)])
def test_console_output_length_is_passed_to_the_host(cloud, server_id, length, sent):
    answer = act(cloud, server_id, {'os-getConsoleOutput': {} if length is None else {'length': length}})
    assert answer.json == {'output': 'line 1\nline 2\n'}
    assert cloud.compute.sent[-1][2]['length'] == sent


# ---- delete ------------------------------------------------------------------

@pytest.mark.parametrize('ask', ['delete', 'forceDelete'])
def test_delete_goes_where_it_can_be_done(cloud, server_id, ask):
    def delete(uuid):
        return (cloud.client().delete(f'/servers/{uuid}') if ask == 'delete' else
                act(cloud, uuid, {'forceDelete': None}))
    assert delete(server_id).status == (204 if ask == 'delete' else 202)
    assert cloud.compute.sent[-1][:2] == ('terminate_instance', 'host1')
    without_host = cloud.add_server(vm_state='error', host=None, node=None)
    of_a_lost_host = cloud.add_server(host='lost')
    for uuid in (without_host, of_a_lost_host):
        delete(uuid)
        assert cloud.conductor.sent[-1] == ('delete_instance', None, {'instance_uuid': uuid})
        assert cloud.row(uuid)['task_state'] == 'deleting'


# ---- metadata, tags, ips, actions --------------------------------------------

def test_server_metadata_is_managed(cloud, server_id):
    client, path = cloud.client(), f'/servers/{server_id}/metadata'
    assert client.post(path, {'metadata': {'a': '1', 'b': '2'}}).json == {'metadata': {'a': '1', 'b': '2'}}
    assert client.post(path, {'metadata': {'b': '3'}}).json == {'metadata': {'a': '1', 'b': '3'}}
    assert client.put(path + '/c', {'meta': {'c': '4'}}).json == {'meta': {'c': '4'}}
    assert client.put(path + '/c', {'meta': {'d': '4'}}).status == 400
    assert client.put(path + '/c', {'meta': {'c': '4', 'd': '5'}}).status == 400
    assert client.get(path + '/c').json == {'meta': {'c': '4'}}
    assert client.delete(path + '/c').status == 204
    assert client.get(path + '/c').status == client.delete(path + '/c').status == 404
    assert client.put(path, {'metadata': {'z': ''}}).json == {'metadata': {'z': ''}}
    assert client.get(path).json == {'metadata': {'z': ''}}
    assert client.post(path, {'metadata': {str(n): '' for n in range(128)}}).status == 403
    for body in ({'metadata': {'x' * 256: ''}}, {'metadata': {'a': 1}}, {'metadata': {'a': 'x' * 256}},
                 {'metadata': {'a/b': ''}}, {'metadata': None}, {'meta': {}}):
        assert client.post(path, body).status == 400, body
    cloud.cell_db.run(instances.update, server_id, {'vm_state': 'building'})
    assert client.post(path, {'metadata': {'a': 'b'}}).status == 409


def test_server_tags_are_managed_since_2_26(cloud, server_id):
    client, path = cloud.client(version='2.26'), f'/servers/{server_id}/tags'
    assert client.get(path, version='2.25').status == 404
    answer = client.put(path + '/blue')
    assert answer.status == 201 and answer.headers['location'].endswith(path + '/blue')
    assert client.put(path + '/blue').status == 204
    assert client.get(path).json == {'tags': ['blue']} and client.get(path + '/blue').status == 204
    assert client.get(path + '/red').status == client.delete(path + '/red').status == 404
    assert client.put(path, {'tags': ['a', 'b', 'a']}).json == {'tags': ['a', 'b']}
    assert client.put(path + '/' + 'x' * 61).status == client.put(path + '/a,b').status == 400
    assert client.put(path, {'tags': ['a,b']}).status == client.put(path, {'tags': ['a'] * 51}).status == 400
    assert client.put(path, {'tags': [str(n) for n in range(50)]}).status == 200
    assert client.put(path + '/51st').status == 400
    assert client.delete(path + '/0').status == 204 and client.delete(path).status == 204
    assert client.get(path).json == {'tags': []}


@pytest.mark.parametrize('vm_state', sorted(states.VM_STATES))
def test_server_tags_change_in_the_states_of_metadata(cloud, server_id, vm_state):
    client, path = cloud.client(version='2.26'), f'/servers/{server_id}/tags'
    assert client.put(path, {'tags': ['old', 'older']}).status == 200
    cloud.cell_db.run(instances.update, server_id, {'vm_state': vm_state, 'task_state': states.REBOOTING})
    codes = [client.put(path + '/new').status, client.delete(path + '/old').status,
             client.put(path, {'tags': ['a']}).status, client.delete(path).status]
    if vm_state in (states.ACTIVE, states.PAUSED, states.SUSPENDED, states.STOPPED):
        assert codes == [201, 204, 200, 204]
    else:
        assert codes == [409] * 4 and client.get(path).json == {'tags': ['old', 'older']}


def test_server_addresses_are_listed_by_network(cloud, server_id):
    shown = [{'version': 4, 'addr': '10.0.0.4'}, {'version': 6, 'addr': 'fd00::2'}]
    client, path = cloud.client(), f'/servers/{server_id}/ips'
    assert client.get(path).json == {'addresses': {'private': shown}}
    assert client.get(path + '/private').json == {'private': shown}
    assert client.get(path + '/other').status == 404


def test_instance_actions_show_results(cloud, server_id):
    act(cloud, server_id, {'os-stop': None})
    with cloud.cell_db.writer() as conn:
        instance_actions.finish(
    conn,
    server_id,
    'compute_stop_instance',
    host='host1',
    error='It did not stop.',
    traceback='Traceback',
     action='stop')
    path = f'/servers/{server_id}/os-instance-actions'
    actions = cloud.client().get(path).json['instanceActions']
    assert [(action['action'], action['message'])
             for action in actions] == [('stop', 'Error'), ('create', None)]
    one = f'{path}/{actions[0]["request_id"]}'
    assert 'events' not in cloud.client().get(one, version='2.50').json['instanceAction']
    event, = cloud.client().get(one, version='2.84').json['instanceAction']['events']
    assert event['result'] == 'Error'
    assert not {'traceback', 'host'} & event.keys() and event['hostId'] not in ('', 'host1')
    assert event['details'] == 'It did not stop.'          # as the owner reads it in the fault
    event, = cloud.admin(project=base.PROJECT).get(one, version='2.84').json['instanceAction']['events']
    assert (event['traceback'], event['host'], event['details']) == (
        'Traceback', 'host1', 'It did not stop.')
    assert cloud.client().get(path + '/req-none').status == 404
    page = cloud.client().get(path + '?limit=1', version='2.58').json
    assert len(page['instanceActions']) == 1
    following = page['links'][0]['href'].removeprefix('http://cloud.test:8774/v2.1')
    assert cloud.client().get(following, version='2.58').json['instanceActions'][0]['action'] == 'create'
    assert cloud.client().get(path + '?limit=1&limit=2', version='2.58').status == 400
    assert cloud.client(project='c' * 32).get(path).status == 404


def test_actions_of_deleted_servers_are_shown_since_2_21(cloud, server_id):
    with cloud.cell_db.writer() as conn:
        instances.destroy(conn, server_id, server_rows.START)
    path = f'/servers/{server_id}/os-instance-actions'
    assert cloud.client().get(path, version='2.20').status == 404
    assert [action['action'] for action in
            cloud.client().get(path, version='2.21').json['instanceActions']] == ['create']
    assert cloud.client(project='c' * 32).get(path, version='2.21').status == 404
