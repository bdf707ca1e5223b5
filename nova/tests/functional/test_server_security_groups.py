"""Security groups of servers: through the whole cloud, down to what the host's filters are made from."""
import concurrent.futures
import threading
import uuid

import pytest

from nova.db.servers import instances
from nova.network import fake
from nova.network import interface
from nova.network import manager
from nova.tests.support import waiting
from nova.tests.functional import cloud


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('groups'), quota__instances=-1, quota__cores=-1, quota__ram=-1,
                       network__quota='security_group:-1,security_group_rule:-1') as made:
        yield made


@pytest.fixture(scope='module')
def user(running):
    return running.client()


@pytest.fixture(scope='module')
def image_id(user):
    return user.upload_image()


@pytest.fixture
def server(user, image_id):
    made = user.boot(image_id)['id']
    user.wait_for(made)
    yield made
    user.delete(f'/servers/{made}')


def make_group(client, name, **rule):
    made = client.post('/network/v2.0/security-groups', {'security_group': {'name': name}}).json()['security_group']
    if rule:
        answer = client.post('/network/v2.0/security-group-rules', {'security_group_rule': {
            'security_group_id': made['id'], 'direction': 'ingress', **rule}})
        assert answer.status_code == 201, answer.text
    return made['id']


def change(client, server, verb, name, **more):
    return client.post(f'/servers/{server}/action', {f'{verb}SecurityGroup': {'name': name}}, **more)


def names(client, server):
    shown = {group['name'] for group in client.get(f'/servers/{server}').json()['server'].get('security_groups', [])}
    listed = client.get(f'/servers/{server}/os-security-groups').json()['security_groups']
    assert {group['name'] for group in listed} == shown
    return shown


def filters(running, server):
    """Groups that the host's filters have for the server's ports, and the members of groups that rules let in."""
    service = next(part.manager for part in running.services if part.binary == 'nova-network')
    state = service.load()
    ports = {port['id'] for port in running.client('nova-admin').get(
        f'/network/v2.0/ports?device_id={server}').json()['ports']}
    return {group for port in state.ports if port.id in ports for group in port.groups}, state


def test_add_show_remove(running, user, server):
    web = make_group(user, 'web', protocol='tcp', port_range_min=80, port_range_max=81,
                     remote_ip_prefix='10.0.0.0/8')
    assert names(user, server) == {'default'}
    assert change(user, server, 'add', 'web').status_code == 202
    assert names(user, server) == {'default', 'web'}
    used, state = filters(running, server)
    assert web in used and any(rule['port_range_min'] == 80 for rule in state.rules[web])
    group, = [each for each in user.get(f'/servers/{server}/os-security-groups').json()['security_groups']
              if each['name'] == 'web']
    rule, = group['rules']
    assert rule == {'id': rule['id'], 'parent_group_id': web, 'ip_protocol': 'tcp', 'from_port': 80, 'to_port': 81,
                    'group': {}, 'ip_range': {'cidr': '10.0.0.0/8'}}
    assert group['tenant_id'] == user.project_id
    assert change(user, server, 'add', web).status_code == 202           # by its id, again: nothing changes
    assert change(user, server, 'remove', 'default').status_code == 202
    assert names(user, server) == {'web'}
    assert change(user, server, 'remove', web).status_code == 202
    assert names(user, server) == set()
    assert filters(running, server)[0] == set()
    assert change(user, server, 'add', 'default').status_code == 202
    default, = user.get(f'/servers/{server}/os-security-groups').json()['security_groups']
    assert {rule['group'].get('name') for rule in default['rules']} == {'default'}
    assert {rule['from_port'] for rule in default['rules']} == {None}


def test_unusable_security_groups_are_refused(running, user, server):
    admin = running.client('nova-admin')
    theirs = make_group(admin, 'theirs')
    assert change(user, server, 'add', theirs).status_code == 404
    assert change(user, server, 'add', 'theirs').status_code == 404
    assert change(user, server, 'add', 'nothing').status_code == 404
    assert change(user, server, 'remove', 'nothing').status_code == 404
    unused = make_group(user, 'unused')
    assert change(user, server, 'remove', unused).status_code == 404
    twice = [make_group(user, 'twice'), make_group(user, 'twice')]
    assert change(user, server, 'add', 'twice').status_code == 409
    assert change(user, server, 'add', twice[1]).status_code == 202
    assert change(user, str(uuid.uuid4()), 'add', 'unused').status_code == 404
    for body in ({}, {'name': ''}, {'name': 5}, None):
        answer = user.post(f'/servers/{server}/action', {'addSecurityGroup': body})
        assert answer.status_code == 400, answer.text
    user.post(f'/servers/{server}/action', {'lock': None})
    assert change(user, server, 'add', 'unused').status_code == 409
    assert change(admin, server, 'add', 'unused').status_code == 202         # a group of the server's project
    assert names(user, server) == {'default', 'twice', 'unused'}
    assert admin.get(f'/servers/{server}/os-security-groups').status_code == 200


def test_server_without_ports_has_no_groups(user, image_id):
    server = user.boot(image_id, networks='none', version='2.37')['id']
    user.wait_for(server)
    assert user.get(f'/servers/{server}/os-security-groups').json() == {'security_groups': []}
    assert 'security_groups' not in user.get(f'/servers/{server}').json()['server']
    assert change(user, server, 'add', 'default').status_code == 400
    assert change(user, server, 'remove', 'default').status_code == 404


def test_a_group_in_use_is_not_deleted(user, server):
    group = make_group(user, 'kept')
    change(user, server, 'add', group)
    assert user.delete(f'/network/v2.0/security-groups/{group}').status_code == 409
    change(user, server, 'remove', group)
    assert user.delete(f'/network/v2.0/security-groups/{group}').status_code == 204


def test_parallel_group_changes_are_all_applied(running, user, server):
    groups = [make_group(user, f'g{number}') for number in range(6)]
    barrier = threading.Barrier(6)

    def one(group):
        barrier.wait()
        return change(user, server, 'add', group).status_code
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, groups)) == [202] * 6
    assert names(user, server) == {'default', *(f'g{number}' for number in range(6))}
    assert set(groups) < filters(running, server)[0]


def test_groups_stay_through_rebuild_and_restart_of_the_guest(user, image_id, server):
    group = make_group(user, 'stays')
    change(user, server, 'add', group)
    for body, status in (({'rebuild': {'imageRef': image_id}}, 'ACTIVE'), ({'os-stop': None}, 'SHUTOFF'),
                         ({'os-start': None}, 'ACTIVE'), ({'reboot': {'type': 'HARD'}}, 'ACTIVE')):
        user.post(f'/servers/{server}/action', body)
        user.wait_for(server, status)
        assert names(user, server) == {'default', 'stays'}


def test_a_new_port_brings_the_default_group(user, server):
    group = make_group(user, 'only')
    change(user, server, 'add', group)
    change(user, server, 'remove', 'default')
    port = user.post(f'/servers/{server}/os-interface', {}).json()['interfaceAttachment']['port_id']
    assert names(user, server) == {'only', 'default'}
    shown = user.get(f'/network/v2.0/ports/{port}').json()['port']['security_groups']
    assert len(shown) == 1 and group not in shown


class Seen(fake.FakeDriver):
    """A driver that keeps what it was last given."""

    state = None

    def refresh(self, load):
        self.state = load()
        return []


def test_all_network_services_are_notified_of_changed_groups(running, user, server):
    """Only those of the ports' hosts were, and with agents none has such a name."""
    make_group(user, 'noticed')
    other = manager.NetworkManager(running.conf, running.api_db, 'elsewhere', Seen(running.conf))
    service = running.bus.serve(interface.INTERFACE, other, 'elsewhere')
    service.start()
    try:
        for verb in ('add', 'remove'):
            other.driver.state = None
            assert change(user, server, verb, 'noticed').status_code == 202
            waiting.wait_for(lambda: other.driver.state, 20, f'the notification of {verb}')
    finally:
        service.stop()


def test_new_members_of_a_group_are_loaded(running, user, image_id):
    first, second = (user.boot(image_id, f'told{number}')['id'] for number in range(2))
    for server in (first, second):
        user.wait_for(server)
    inside = make_group(user, 'inside')
    outside = make_group(user, 'outside', protocol='tcp', remote_group_id=inside)
    change(user, first, 'add', outside)
    change(user, second, 'add', inside)
    _used, state = filters(running, second)
    assert len(state.members[inside]) == 1


def test_groups_are_refused_on_networks_without_port_security(running, user, image_id, server):
    """A server's port had port security and the default group there."""
    network = user.post('/network/v2.0/networks', {'network': {
        'name': 'open', 'port_security_enabled': False}}).json()['network']['id']
    user.post('/network/v2.0/subnets', {'subnet': {'network_id': network, 'ip_version': 4, 'cidr': '10.77.0.0/24'}})
    made = user.boot(image_id, networks=[{'uuid': network}])['id']
    user.wait_for(made)

    def ports(device):
        return [(port['port_security_enabled'], port['security_groups']) for port in user.get(
            f'/network/v2.0/ports?device_id={device}&network_id={network}').json()['ports']]
    assert ports(made) == [(False, [])] and filters(running, made)[0] == set()
    assert user.get(f'/servers/{made}/os-security-groups').json() == {'security_groups': []}
    refused = change(user, made, 'add', 'default')
    assert refused.status_code == 400 and 'no port with port security' in refused.text
    assert user.post(f'/servers/{server}/os-interface', {
        'interfaceAttachment': {'net_id': network}}).status_code == 200
    assert ports(server) == [(False, [])] and names(user, server) == {'default'}
    closed = make_group(user, 'closed')
    assert 'security_groups' not in user.get(f'/servers/{made}').json()['server']      # it showed the default group
    for name in ('closed', closed):                        # it was built, and failed
        refused = user.post('/servers', {'server': {
            'name': 'x', 'imageRef': image_id, 'flavorRef': '42', 'networks': [{'uuid': network}],
            'security_groups': [{'name': name}]}})
        assert refused.status_code == 400 and 'no port security' in refused.text
    user.delete(f'/servers/{made}')
    user.wait_for(made, 'DELETED')


def test_server_shows_the_groups_of_its_ports(running, user, image_id):
    """Of a port made in advance, after a change at the port, after a rename, after a detachment: in all views."""
    network = user.post('/network/v2.0/networks', {'network': {'name': 'ports'}}).json()['network']['id']
    user.post('/network/v2.0/subnets', {'subnet': {'network_id': network, 'ip_version': 4, 'cidr': '10.78.0.0/24'}})
    db, web = make_group(user, 'db'), make_group(user, 'www')
    port = user.post('/network/v2.0/ports', {'port': {'network_id': network, 'security_groups': [db]}}).json()['port']
    server = user.boot(image_id, networks=[{'port': port['id']}])['id']
    with running.cell_db.reader() as conn:              # what a server that is built, and its config drive, show
        assert instances.get(conn, server)['security_groups'] == ['db']
    user.wait_for(server)

    def shown():
        listed, = [each for each in user.get('/servers/detail').json()['servers'] if each['id'] == server]
        found = [group['name'] for group in listed.get('security_groups', [])]
        assert names(user, server) == set(found)
        updated = user.put(f'/servers/{server}', {'server': {'name': 'renamed'}}, version='2.75').json()['server']
        assert [group['name'] for group in updated.get('security_groups', [])] == found
        return found
    assert shown() == ['db']
    path = f"/network/v2.0/ports/{port['id']}"
    assert user.put(path, {'port': {'security_groups': [db, web]}}).status_code == 200
    assert shown() == ['db', 'www']
    assert user.put(f'/network/v2.0/security-groups/{web}', {'security_group': {'name': 'front'}}).status_code == 200
    assert shown() == ['db', 'front']
    assert user.put(path, {'port': {'security_groups': []}}).status_code == 200
    assert shown() == []
    assert user.put(path, {'port': {'security_groups': [web]}}).status_code == 200
    assert user.delete(f"/servers/{server}/os-interface/{port['id']}").status_code == 202
    waiting.wait_for(lambda: not user.get(f'/servers/{server}/os-interface').json()['interfaceAttachments'], 20,
                     'the port to leave')
    waiting.wait_for(lambda: 'security_groups' not in user.get(f'/servers/{server}').json()['server'], 20, 'its group')
    assert shown() == []
    user.delete(f'/servers/{server}')
