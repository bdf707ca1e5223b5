"""POST /servers: what is stored, what is sent, what is refused."""
import base64
import ipaddress
import uuid

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db.networks import networks
from nova.db.projects import flavors
from nova.db.projects import key_pairs
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.db.tables import network as tables_network
from nova.runtime import encrypted_passwords
from nova.tests.functional import base
from nova.tests.functional import servers


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def made(cloud, answer):
    """(row, request spec) of the server that was created."""
    assert answer.status == 202, answer.body
    uuid = answer.json['server']['id']
    with cloud.api_db.reader() as conn:
        return cloud.row(uuid), request_specs.get(conn, uuid)


def count(cloud, table):
    database = cloud.api_db if table.metadata is tables_api.metadata else cloud.cell_db
    with database.reader() as conn:
        return conn.execute(sa.select(sa.func.count()).select_from(table)).scalar()


def test_a_server_is_stored_and_sent(cloud):
    answer = cloud.client().post('/servers', cloud.body(name='web'))
    row, spec = made(cloud, answer)
    server = answer.json['server']
    assert answer.headers['location'] == server['links'][0]['href'] == (
        'http://cloud.test:8774/v2.1/servers/' + server['id'])
    assert server['OS-DCF:diskConfig'] == 'MANUAL' and len(server['adminPass']) == 12
    assert server['security_groups'] == [{'name': 'default'}]
    assert (row['vm_state'], row['task_state'], row['host']) == ('building', 'scheduling', None)
    assert (row['display_name'], row['hostname'], row['description']) == ('web', 'web', 'web')
    assert row['flavor']['flavor_id'] == '1' and row['image_properties'] == {'hw_disk_bus': 'virtio'}
    assert spec.admin_password is None and spec.image['id'] == cloud.image_id
    assert spec.requested_networks is None and spec.num_instances == 1
    with cloud.cell_db.reader() as conn:
        action, = instance_actions.by_instance(conn, server['id'])
        assert block_devices.by_instance(conn, server['id']) == []         # rows are for volumes
    assert action['action'] == 'create' and action['finished_at'] is None
    assert set(action['arguments']) == {'encrypted_password'} and server['adminPass'] not in str(action['arguments'])
    assert encrypted_passwords.Passwords(cloud.conf).decrypted(action['arguments'], server['id']) == {
        'admin_password': server['adminPass']}                                 # until it ends
    device, = spec.block_devices
    assert (device['source_type'], device['destination_type'], device['boot_index']) == ('image', 'local', 0)
    (name, _server, sent), = cloud.conductor.sent
    assert name == 'build_instances' and sent['instance_uuids'] == [server['id']]
    assert sent['spec'].instance_uuid == server['id'] and sent['spec'].admin_password == server['adminPass']


def test_all_fields_of_a_create_request_are_stored(cloud):
    with cloud.api_db.writer() as conn:
        key_pairs.create(conn, base.USER, 'mine', 'ssh', 'aa:bb', 'ssh-rsa AAAA')
        networks.insert(conn, tables_network.security_groups, [
            {'id': str(uuid.uuid4()), 'project_id': base.PROJECT, 'name': name, 'description': ''}
            for name in ('web', 'ssh')])
    address = str(ipaddress.ip_network(cloud.conf.network.default_cidr)[9])
    row, spec = made(
        cloud, cloud.client().post(
            '/servers',
            {**cloud.body(
                 name='db', key_name='mine', user_data='QUJD', metadata={'a': 'b'},
                 config_drive='yes', accessIPv4='192.0.2.9', accessIPv6='2001:db8::9',
                 availability_zone='nova', description='text', tags=['x', 'y', 'x'],
                 trusted_image_certificates=['c1'],
                 hostname='db.example.org', adminPass='secret', **{'OS-DCF:diskConfig': 'AUTO'},
                 security_groups=[{'name': 'web'},
                                  {'name': 'web'},
                                  {'name': 'ssh'}],
                 networks=[{'uuid': cloud.network_id, 'fixed_ip': address, 'tag': 'nic'}]),
             'os:scheduler_hints': {'same_host': cloud.image_id, 'own': 'x'}},
            version='2.104'))
    assert (row['key_name'], row['key_data'], row['user_data']) == ('mine', 'ssh-rsa AAAA', 'QUJD')
    assert row['metadata'] == {'a': 'b'} and row['config_drive'] is True and row['disk_config'] == 'AUTO'
    assert (row['access_ip_v4'], row['access_ip_v6']) == ('192.0.2.9', '2001:db8::9')
    assert row['availability_zone'] == row['pinned_availability_zone'] == spec.availability_zone == 'nova'
    assert row['tags'] == ',x,y,' and row['trusted_certs'] == ['c1'] and row['hostname'] == 'db.example.org'
    assert row['security_groups'] == spec.security_groups == ['web', 'ssh']
    assert spec.hints == {'same_host': [cloud.image_id], 'own': ['x']}
    assert spec.requested_networks == [{'network_id': cloud.network_id, 'port_id': None,
                                        'fixed_ip': address, 'tag': 'nic'}]
    shown = cloud.client().get(f'/servers/{row["uuid"]}', version='2.104').json['server']
    assert shown['scheduler_hints'] == {'same_host': cloud.image_id, 'own': 'x'}


@pytest.mark.parametrize('networks, version, stored', [
    ('auto', '2.37', None), ('none', '2.37', 'none'), ([], '2.1', None), (None, '2.36', None)])
def test_networks_auto_and_none_are_stored(cloud, networks, version, stored):
    body = cloud.body() if networks is None else cloud.body(networks=networks)
    assert made(cloud, cloud.client().post('/servers', body, version=version))[1].requested_networks == stored


def test_personality_files_are_stored(cloud):
    contents = base64.b64encode(b'hello').decode()
    row, spec = made(cloud, cloud.client().post('/servers', cloud.body(config_drive=True,
        personality=[{'path': '/etc/motd', 'contents': contents}], networks='none'), version='2.56'))
    assert spec.injected_files == [{'path': '/etc/motd', 'contents': contents}]


def test_a_server_with_files_gets_a_config_drive(cloud):
    files = [{'path': '/etc/motd', 'contents': base64.b64encode(b'hello').decode()}]
    body = {'personality': files, 'networks': 'none'}
    row, spec = made(cloud, cloud.client().post('/servers', cloud.body(**body), version='2.56'))
    assert row['config_drive'] and spec.injected_files == files
    drive = cloud.add_image(properties={'img_config_drive': 'mandatory'})
    assert made(cloud, cloud.client().post('/servers', cloud.body(imageRef=drive, **body), version='2.56'))[0][
        'config_drive']
    row, _spec = made(cloud, cloud.client().post('/servers', cloud.body(personality=[], networks='none'),
                                                 version='2.56'))
    assert not row['config_drive']
    for image in ({}, {'imageRef': drive}):
        refused = cloud.client().post('/servers', cloud.body(config_drive=False, **image, **body), version='2.56')
        assert refused.status == 400 and '"config_drive": false' in refused.fault[2]


def test_image_without_auto_disk_config_refuses_auto(cloud):
    forbids = cloud.add_image(properties={'auto_disk_config': 'False'})
    for wanted, status in (('AUTO', 400), ('MANUAL', 202)):
        answer = cloud.client().post('/servers', cloud.body(imageRef=forbids, **{'OS-DCF:diskConfig': wanted}))
        assert answer.status == status, answer.body


def test_several_servers_have_one_reservation(cloud):
    body = cloud.body(min_count='2', max_count=3, return_reservation_id=True)
    answer = cloud.client().post('/servers', body)
    with cloud.cell_db.reader() as conn:
        table = tables_cell.instances
        rows = conn.execute(sa.select(table).order_by(table.c.launch_index)).mappings().all()
    assert [row['display_name'] for row in rows] == ['vm-1', 'vm-2', 'vm-3']
    assert [row['hostname'] for row in rows] == ['vm-1', 'vm-2', 'vm-3']
    assert [row['launch_index'] for row in rows] == [0, 1, 2]
    assert {row['reservation_id'] for row in rows} == {answer.json['reservation_id']}
    (method, _server, arguments), = cloud.conductor.sent
    assert arguments['instance_uuids'] == [row['uuid'] for row in rows]


def test_quota_lowers_the_count_to_what_is_left(cloud):
    assert cloud.client().post('/servers', cloud.body(min_count=2, max_count=50)).status == 202
    assert count(cloud, tables_cell.instances) == cloud.conf.quota.instances
    refused = cloud.client().post('/servers', cloud.body())
    assert refused.status == 403 and 'Quota exceeded for instances' in refused.fault[2]
    assert count(cloud, tables_cell.instances) == count(cloud, tables_api.instance_mappings) == 10


def test_the_relaxed_api_takes_more(cloud):
    client = cloud.client(prefix='/v2')
    row, _spec = made(cloud, client.post('/servers', {**cloud.body(name=' vm ', unknown=1), 'more': 2}))
    assert row['display_name'] == 'vm'


def test_a_host_by_name_is_for_administrators(cloud):
    forced = cloud.body(availability_zone='nova:host1:node1')
    assert cloud.client().post('/servers', forced).status == 403
    _row, spec = made(cloud, cloud.admin().post('/servers', forced))
    assert (spec.force_host, spec.force_node, spec.requested_host) == ('host1', 'node1', None)
    wanted = cloud.body(host='host1', networks='none')
    assert cloud.client().post('/servers', wanted, version='2.74').status == 403
    _row, spec = made(cloud, cloud.admin().post('/servers', wanted, version='2.74'))
    assert (spec.force_host, spec.requested_host) == (None, 'host1')


def test_a_broker_that_is_down_loses_nothing_and_the_reconciler_sees_it_at_once(cloud):
    client = cloud.client()
    sent, _spec = made(cloud, client.post('/servers', cloud.body()))
    cloud.conductor.down = True
    row, _spec = made(cloud, client.post('/servers', cloud.body()))
    with cloud.cell_db.reader() as conn:
        assert [action['instance_uuid'] for action in instance_actions.overdue(conn, utils.utcnow())] == [row['uuid']]
    with cloud.cell_db.writer() as conn:
        instance_actions.finish(conn, row['uuid'])
        instances.update(conn, sent['uuid'], {'vm_state': 'active', 'task_state': None, 'host': 'host1'})
        instance_actions.finish(conn, sent['uuid'])
    cloud.compute.down = True
    assert client.post(f'/servers/{sent["uuid"]}/action', {'os-stop': None}).status == 202
    with cloud.cell_db.reader() as conn:
        assert [action['action'] for action in instance_actions.overdue(conn, utils.utcnow())] == ['stop']


def test_a_cell_that_fails_gives_the_quota_back(cloud):
    with cloud.cell_db.writer() as conn:
        conn.exec_driver_sql('ALTER TABLE instance_actions RENAME TO away')
    assert cloud.client().post('/servers', cloud.body()).status == 500
    assert count(cloud, tables_api.instance_mappings) == count(cloud, tables_api.request_specs) == 0
    assert count(cloud, tables_cell.instances) == 0


UUID = '11111111-2222-3333-4444-555555555555'
REFUSED = [
    ({'imageRef': UUID}, 400, 'could not be found'), ({'imageRef': ''}, 400, 'imageRef'),
    ({'flavorRef': 'no'}, 400, 'Flavor'), ({'key_name': 'no'}, 400, 'Invalid key_name'),
    ({'min_count': 3, 'max_count': 2}, 400, 'min_count'), ({'max_count': 100000}, 400, 'at most'),
    ({'availability_zone': 'no'}, 400, 'availability zone'), ({'availability_zone': 'a:b:c:d'}, 400, 'zone'),
    ({'networks': [{}]}, 400, 'uuid'), ({'networks': [{'uuid': 'x'}]}, 400, 'proper format'),
    ({'networks': [{'uuid': UUID}]}, 400, 'could not be found'),
    ({'networks': [{'port': UUID}]}, 400, 'could not be found'),
    ({'security_groups': [{'name': 'no'}]}, 400, 'could not be found'),
    ({'networks': [{'port': UUID}], 'max_count': 2}, 400, 'port'),
    ({'networks': [{'port': UUID, 'fixed_ip': '10.0.0.1'}]}, 400, 'Fixed IP'),
    ({'networks': [{'port': UUID}, {'port': UUID}]}, 400, 'twice'),
    ({'networks': [{'uuid': UUID, 'fixed_ip': '10.0.0.1'}], 'max_count': 2}, 400, 'fixed IP'),
    ({'metadata': {str(n): 'x' for n in range(129)}}, 403, 'metadata_items'),
    ({'personality': [{'path': f'/{n}', 'contents': ''} for n in range(6)]}, 403, 'injected_files'),
    ({'personality': [{'path': '/x', 'contents': 'QUFB' * 4000}]}, 403, 'injected_file_content_bytes'),
    ({'personality': [{'path': '/' + 'x' * 255, 'contents': ''}]}, 403, 'injected_file_path_length'),
    ({'personality': [{'path': '/etc/../../x', 'contents': ''}]}, 400, 'path'),
    ({'personality': [{'path': '/etc/x', 'contents': '%%'}]}, 400, 'base64'),
    ({'user_data': 'no base64!'}, 400, 'user_data'), ({'name': ''}, 400, 'name'),
    ({'name': ' x'}, 400, 'name'),
    ({'block_device_mapping': [{'volume_id': UUID}]}, 400, 'Volume'),
    ({'block_device_mapping_v2': [{'source_type': 'volume', 'uuid': UUID, 'boot_index': 0}]}, 400, 'Volume'),
    ({'block_device_mapping_v2': [{'source_type': 'image', 'uuid': UUID, 'boot_index': 0}]}, 400, 'imageRef'),
    ({'block_device_mapping_v2': [{'source_type': 'blank', 'volume_size': 5}]}, 400, 'Ephemeral'),
    ({'block_device_mapping_v2': [{'source_type': 'blank', 'guest_format': 'swap', 'volume_size': 5}]}, 400,
     'Swap'),
    ({'block_device_mapping_v2': [{'boot_index': '0'}]}, 400, 'source_type'),
    ({'block_device_mapping_v2': [{'source_type': 'blank'}], 'block_device_mapping': [{}]}, 400, 'syntaxes'),
    ({'tags': ['x']}, 400, 'tags'), ({'hostname': 'x'}, 400, 'hostname'), ({'unknown': 1}, 400, 'unknown'),
]


@pytest.mark.parametrize('values, code, text', REFUSED)
def test_refusals_change_nothing(cloud, values, code, text):
    body = cloud.body(**values)
    answer = cloud.client(roles=('member', 'reader', 'admin')).post('/servers', body) if (
        ':' in values.get('availability_zone', '')) else cloud.client().post('/servers', body)
    assert answer.status == code, answer.body
    assert text in answer.fault[2]
    for table in (tables_cell.instances, tables_cell.instance_actions, tables_api.instance_mappings,
                  tables_api.request_specs):
        assert count(cloud, table) == 0
    assert cloud.conductor.sent == []


def test_images_must_fit(cloud):
    for values, text in (({'min_ram': 1024}, 'memory'), ({'min_disk': 2}, 'disk')):
        answer = cloud.client().post('/servers', cloud.body(imageRef=cloud.add_image(**values)))
        assert answer.status == 400 and text in answer.fault[2]
    queued = cloud.services.images.create(cloud.owner, {'name': 'queued', 'visibility': 'public'})['id']
    answer = cloud.client().post('/servers', cloud.body(imageRef=queued))
    assert answer.status == 400 and 'not active' in answer.fault[2]


def test_private_things_of_others_do_not_exist(cloud):
    with cloud.api_db.writer() as conn:
        flavors.create(conn, {'flavor_id': '2', 'name': 'private', 'memory_mb': 1, 'vcpus': 1, 'root_gb': 1,
                              'is_public': False})
        key_pairs.create(conn, 'someone', 'theirs', 'ssh', 'aa:bb', 'ssh-rsa AAAA')
    image = cloud.add_image(visibility='private')
    client = cloud.client(project='c' * 32, user='other')
    for values in ({'flavorRef': '2'}, {'key_name': 'theirs'}, {'imageRef': image}):
        assert client.post('/servers', cloud.body(**values)).status == 400
    with cloud.api_db.writer() as conn:
        flavors.add_project(conn, '2', 'c' * 32)
    assert client.post('/servers', cloud.body(flavorRef='2')).status == 202


def test_a_flavor_without_a_disk_is_for_administrators(cloud):
    with cloud.api_db.writer() as conn:
        flavors.create(conn, {'flavor_id': '0', 'name': 'diskless',
                       'memory_mb': 64, 'vcpus': 1, 'root_gb': 0})
    assert cloud.client().post('/servers', cloud.body(flavorRef='0')).status == 403
    assert cloud.admin().post('/servers', cloud.body(flavorRef='0')).status == 202


def test_statements_of_one_create(cloud):
    """At most 12 statements besides the image service's, in one write transaction of each database."""
    cloud.client().post('/servers', cloud.body())
    seen, writes = [], []
    for database in (cloud.api_db, cloud.cell_db):
        sa.event.listen(database.engine, 'before_cursor_execute',
                        lambda conn, cursor, statement, *_: seen.append(statement))
        sa.event.listen(database.engine, 'commit', writes.append)
    cloud.client().post('/servers', cloud.body())
    counted = [text for text in seen if not text.startswith('PRAGMA') and 'image' not in
               text.partition('FROM')[2].partition('\n')[0]]
    assert len(writes) == 2 and len(counted) <= 12, counted
