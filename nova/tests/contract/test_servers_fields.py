"""The servers' answers hold the fields that the public contract has, at every version where one changes."""
import uuid

import pytest

from nova import states
from nova.api.servers import category as server_category
from nova.db.networks import networks
from nova.db.networks import security_groups
from nova.db.servers import instances
from nova.db.tables import network as t
from nova.network import ipam
from nova.tests import server_rows
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

# one of two forms of the answer; a record of a cell that is down; no image at all
ELSEWHERE = {'server is missing', 'reservation_id is missing', 'servers[].status is missing'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('contract'), quota__instances=-1, quota__cores=-1,
                              quota__ram=-1)
    yield fixture
    fixture.close()


@pytest.fixture(scope='module')
def server_id(cloud):
    """A server with a value in every field, and with a port in a security group."""
    made = cloud.add_server(
        1, vm_state=states.ERROR, fault={'code': 500, 'message': 'No valid host.', 'details': 'Traceback',
                                         'created': '2026-01-01T12:00:00Z'},
        description='text', tags=',a,b,', key_name='key', user_data='QQ==', access_ip_v4='192.0.2.1',
        access_ip_v6='2001:db8::1', trusted_certs=['one'], server_group_id=server_rows.NETWORK_ID,
        locked=True,
        locked_by='owner', locked_reason='because', kernel_id=server_rows.IMAGE_ID,
        ramdisk_id=server_rows.IMAGE_ID, scheduler_hints={'same_host': [server_rows.IMAGE_ID]},
        pinned_availability_zone='nova', config_drive=True, terminated_at=server_rows.START,
        volumes=[{'id': server_rows.IMAGE_ID, 'delete_on_termination': True}])
    add_port(cloud, made)
    return made


def add_port(cloud, server):
    """A port of a server, in the default group of its project."""
    ident = str(uuid.uuid4())
    with cloud.api_db.writer() as conn:
        networks.insert(conn, t.ports, [{
            'id': ident, 'project_id': base.PROJECT, 'network_id': server_rows.NETWORK_ID, 'name': '',
            'mac_address': ipam.new_mac(), 'admin_state_up': True, 'device_id': server, 'created_by_compute': True,
            'description': ''}])
        security_groups.bind(conn, [(ident, security_groups.ensure_default(conn, base.PROJECT))])


def cases(*operations):
    return [(operation, version) for operation in operations
            for version in facts.boundaries(operation, 'response')]


def check(operation, version, body):
    """The fields of one server in the answer, after the whole of it was compared with the facts."""
    problems = set(facts.differences(operation, version, body)) - ELSEWHERE
    assert not problems
    return body['server'] if 'server' in body else body['servers'][0]


def all_fields(operation, version, prefix):
    return {name[len(prefix):] for name in facts.fields_at(operation, 'response', version)
            if name.startswith(prefix) and '.' not in name[len(prefix):].replace('OS-', '')
            and '[' not in name[len(prefix):]}


@pytest.mark.parametrize('operation, version', cases('GET /servers',
                         'GET /servers/detail', 'GET /servers/{}'))
@pytest.mark.parametrize('admin', [True, False])
def test_server_responses_have_the_documented_fields(cloud, server_id, operation, version, admin):
    client = cloud.admin(project=base.PROJECT) if admin else cloud.client()
    path = operation.removeprefix('GET ').replace('{}', server_id)
    answer = client.get(path, version=f'2.{version}')
    assert answer.status == 200
    shown = check(operation, version, answer.json)
    if admin:
        prefix = 'server.' if '{}' in operation else 'servers[].'
        unseen = all_fields(operation, version, prefix) - shown.keys()
        # a minimal record's; only while something progresses; only of an administrative server
        assert unseen <= {'status', 'progress', server_category.KEY}


def test_a_user_sees_no_administrators_fields(cloud, server_id):
    shown = cloud.client().get(f'/servers/{server_id}', version='2.104').json['server']
    attributes = {key for key in shown if key.startswith('OS-EXT-SRV-ATTR:')}
    assert attributes == {'OS-EXT-SRV-ATTR:hostname'}
    assert 'host_status' not in shown and 'details' not in shown['fault']
    assert shown['hostId'] not in ('', servers.HOST)


@pytest.mark.parametrize('number, state', [(2, states.ACTIVE), (3, states.SHELVED_OFFLOADED)])
def test_failed_action_of_a_server_that_is_not_in_error_shows_no_fault(cloud, number, state):
    made = cloud.add_server(number, vm_state=state, fault={
        'code': 500, 'message': 'No valid host.', 'details': '', 'created': '2026-01-01T12:00:00Z'})
    for client in (cloud.client(), cloud.admin(project=base.PROJECT)):
        assert 'fault' not in client.get(f'/servers/{made}').json['server']


@pytest.mark.parametrize('operation, version', cases('PUT /servers/{}'))
def test_update_response_has_the_documented_fields(cloud, server_id, operation, version):
    answer = cloud.admin(project=base.PROJECT).put(
        f'/servers/{server_id}', {'server': {'name': 'renamed'}}, version=f'2.{version}')
    assert answer.status == 200
    shown = check(operation, version, answer.json)
    # the facts know adminPass here, which nothing sets
    assert all_fields(operation, version, 'server.') - shown.keys() <= {'adminPass', server_category.KEY}


@pytest.mark.parametrize('operation, version', cases('POST /servers/{}/action rebuild'))
def test_rebuild_response_has_the_documented_fields(cloud, operation, version):
    admin = cloud.admin(project=base.PROJECT)
    made = admin.post('/servers', cloud.body(networks='none') if version >= 37 else cloud.body(),
                      version=f'2.{version}').json['server']['id']
    add_port(cloud, made)
    with cloud.cell_db.writer() as conn:
        instances.update(conn,
    made,
    { 'vm_state': 'error',
    'task_state': None,
    'host': 'host1',
    'node': 'node1',
    'availability_zone': 'nova',
    'network_info': [server_rows.vif(2)],
    'fault': {'code': 400,
    'message': 'm',
    'details': 'd',
     'created': '2026-01-01T12:00:00Z'}})
    answer = admin.post(f'/servers/{made}/action', {'rebuild': {'imageRef': cloud.image_id}},
                        version=f'2.{version}')
    assert answer.status == 202, answer.body
    shown = check(operation, version, answer.json)
    assert all_fields(operation, version, 'server.') - shown.keys() <= {server_category.KEY}
    assert cloud.row(made)['task_state'] == 'rebuilding'


@pytest.mark.parametrize('operation, version', cases('POST /servers'))
def test_create_response_has_the_documented_fields(cloud, operation, version):
    body = cloud.body(networks='none') if version >= 37 else cloud.body()
    answer = cloud.admin().post('/servers', body, version=f'2.{version}')
    assert answer.status == 202, answer.body
    shown = check(operation, version, answer.json)
    assert all_fields(operation, version, 'server.') <= shown.keys()
