"""Ports that servers get and lose: through the whole cloud, with the fake driver."""
import concurrent.futures
import json
import pathlib
import threading
import time
import uuid

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova.db.tables import cell as tables_cell
from nova.db.tables import network as t
from nova.tests.functional import cloud
from nova.tests.support.waiting import wait_for


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('interfaces'), quota__instances=-1, quota__cores=-1,
                       quota__ram=-1) as made:
        yield made


@pytest.fixture(scope='module')
def user(running):
    return running.client(version='2.70')


@pytest.fixture(scope='module')
def admin(running):
    return running.client('nova-admin', version='2.70')


@pytest.fixture(scope='module')
def image_id(user):
    return user.upload_image()


@pytest.fixture
def server(running, user, image_id):
    made = user.boot(image_id, version='2.1')['id']
    user.wait_for(made)
    yield made
    user.delete(f'/servers/{made}')
    user.wait_for(made, 'DELETED')


@pytest.fixture(scope='module')
def network(admin, user):
    return add_network(admin, user.project_id)


COUNTER = iter(range(20, 200))


def add_network(admin, project_id, prefix=24):
    made = admin.post('/network/v2.0/networks', {'network': {
        'name': 'second', 'project_id': project_id}}).json()['network']['id']
    answer = admin.post('/network/v2.0/subnets', {'subnet': {
        'network_id': made, 'ip_version': 4, 'cidr': f'10.77.{next(COUNTER)}.0/{prefix}'}})
    assert answer.status_code == 201, answer.text
    return made


def add_port(client, network):
    answer = client.post('/network/v2.0/ports', {'port': {'network_id': network}})
    assert answer.status_code == 201, answer.text
    return answer.json()['port']


def attach(client, server, **values):
    return client.post(f'/servers/{server}/os-interface', {'interfaceAttachment': values})


def interfaces(client, server):
    return client.get(f'/servers/{server}/os-interface').json()['interfaceAttachments']


def message(answer):
    (fault,) = answer.json().values()
    return fault['message']


def plugged(running, server):
    """Ids of the ports that the guest has."""
    manager = next(part.manager for part in running.services if part.binary == 'nova-compute')
    return manager.driver.machine.guests[server]['networks']


def test_attach_show_detach(running, user, server, network):
    first, = interfaces(user, server)
    answer = attach(user, server, net_id=network, tag='nic')
    assert answer.status_code == 200, answer.text
    made = answer.json()['interfaceAttachment']
    assert made['net_id'] == network and made['tag'] == 'nic' and made['port_state'] == 'ACTIVE'
    assert made['fixed_ips'][0]['ip_address'].startswith('10.77.')
    assert interfaces(user, server) == [first, made]
    shown = user.get(f'/servers/{server}/os-interface/{made["port_id"]}').json()
    assert shown == {'interfaceAttachment': made}
    assert plugged(running, server) == [first['port_id'], made['port_id']]
    addresses = user.get(f'/servers/{server}').json()['server']['addresses']
    assert addresses['second'][0]['addr'] == made['fixed_ips'][0]['ip_address']
    assert addresses['second'][0]['OS-EXT-IPS-MAC:mac_addr'] == made['mac_addr']

    assert user.delete(f'/servers/{server}/os-interface/{made["port_id"]}').status_code == 202
    wait_for(lambda: interfaces(user, server) == [first])
    wait_for(lambda: 'second' not in user.get(f'/servers/{server}').json()['server']['addresses'])
    assert plugged(running, server) == [first['port_id']]
    assert user.get(f'/network/v2.0/ports/{made["port_id"]}').status_code == 404
    actions = user.get(f'/servers/{server}/os-instance-actions').json()['instanceActions']
    assert [(action['action'], action['message']) for action in actions[:2]] == [
        ('detach_interface', None), ('attach_interface', None)]


def test_a_users_port_outlives_its_attachment(user, server, network):
    port = add_port(user, network)
    answer = attach(user, server, port_id=port['id'])
    assert answer.json()['interfaceAttachment']['fixed_ips'][0]['ip_address'] == port['fixed_ips'][0]['ip_address']
    assert user.get(f'/network/v2.0/ports/{port["id"]}').json()['port']['device_id'] == server
    assert user.delete(f'/servers/{server}/os-interface/{port["id"]}').status_code == 202
    wait_for(lambda: user.get(f'/network/v2.0/ports/{port["id"]}').json()['port']['device_id'] == '')
    assert attach(user, server, port_id=port['id']).status_code == 200


def test_requested_address_is_attached(user, server, network):
    answer = attach(user, server, net_id=network, fixed_ips=[{'ip_address': _free(user, network)}])
    assert answer.status_code == 200, answer.text
    taken = answer.json()['interfaceAttachment']['fixed_ips'][0]['ip_address']
    again = attach(user, server, net_id=network, fixed_ips=[{'ip_address': taken}])
    assert again.status_code == 409 and taken in message(again)


def _free(user, network):
    """An address that no port has: those of ports that ask for none are drawn by lot."""
    prefix = add_port(user, network)['fixed_ips'][0]['ip_address'].rpartition('.')[0]
    answer = user.get(f'/network/v2.0/ports?network_id={network}')
    taken = {fixed['ip_address'] for port in answer.json()['ports'] for fixed in port['fixed_ips']}
    return next(address for number in range(200, 250) if (address := f'{prefix}.{number}') not in taken)


def test_the_network_of_the_server_when_none_is_named(user, server):
    first, = interfaces(user, server)
    answer = attach(user, server)
    assert answer.status_code == 200, answer.text
    assert answer.json()['interfaceAttachment']['net_id'] == first['net_id']
    assert user.post(f'/servers/{server}/os-interface', {}).status_code == 200


def test_unusable_networks_and_ports_are_refused(admin, user, server, network):
    theirs, mine = add_network(admin, admin.project_id), add_port(user, network)['id']
    their_port = add_port(admin, theirs)['id']
    nobody = str(uuid.uuid4())
    attach(user, server, port_id=mine)
    before = interfaces(user, server)
    for values, code in (
            ({'net_id': nobody}, 404), ({'port_id': nobody}, 404), ({'net_id': theirs}, 404),
            ({'port_id': their_port}, 404), ({'port_id': mine}, 409),
            ({'net_id': network, 'port_id': mine}, 400), ({'fixed_ips': [{'ip_address': '10.1.1.1'}]}, 400),
            ({'net_id': network, 'fixed_ips': [{'ip_address': '10.1.1.1'}]}, 400),
            ({'net_id': network, 'fixed_ips': [{'ip_address': 'nowhere'}]}, 400),
            ({'net_id': 'x'}, 400), ({'net_id': network, 'tag': 'a,b'}, 400), ({'what': 1}, 400)):
        answer = attach(user, server, **values)
        assert answer.status_code == code, f'{values}: {answer.text}'
    assert interfaces(user, server) == before
    assert user.delete(f'/servers/{server}/os-interface/{nobody}').status_code == 404
    assert user.delete(f'/servers/{server}/os-interface/{their_port}').status_code == 404
    assert user.get(f'/servers/{server}/os-interface/{their_port}').status_code == 404
    assert user.post(f'/servers/{nobody}/os-interface', {}).status_code == 404
    assert attach(user, server, net_id=network, tag='t').status_code == 200
    assert user.post(f'/servers/{server}/os-interface', {'interfaceAttachment': {'tag': 't'}},
                     version='2.48').status_code == 400
    answer = user.post(f'/servers/{server}/os-interface', {'interfaceAttachment': {}}, version='2.69')
    assert 'tag' not in answer.json()['interfaceAttachment']


def test_attach_to_a_full_network_is_refused(admin, user, server):
    small = add_network(admin, user.project_id, prefix=29)          # beside the gateway's and DHCP's
    for _ in range(3):
        assert attach(user, server, net_id=small).status_code == 200
    assert attach(user, server, net_id=small).status_code == 200
    answer = attach(user, server, net_id=small)
    assert answer.status_code == 400 and small in message(answer)


def test_a_failure_leaves_nothing(running, user, server, network):
    manager = next(part.manager for part in running.services if part.binary == 'nova-compute')
    before, ports = interfaces(user, server), len(user.get('/network/v2.0/ports').json()['ports'])
    port = add_port(user, network)
    manager.driver.failures['attach_interface'] = exception.VirtError(operation='plug it', reason='secret path')
    try:
        answers = [attach(user, server, net_id=network), attach(user, server, port_id=port['id'])]
    finally:
        del manager.driver.failures['attach_interface']
    for answer in answers:
        assert answer.status_code == 500 and 'secret' not in answer.text
    assert interfaces(user, server) == before
    assert len(user.get('/network/v2.0/ports').json()['ports']) == ports + 1
    assert user.get(f'/network/v2.0/ports/{port["id"]}').json()['port']['device_id'] == ''
    action = user.get(f'/servers/{server}/os-instance-actions').json()['instanceActions'][0]
    assert (action['action'], action['message']) == ('attach_interface', 'Error')
    assert plugged(running, server) == [entry['port_id'] for entry in before]


def test_the_state_of_the_server_decides(user, server, network):
    user.post(f'/servers/{server}/action', {'suspend': None})
    user.wait_for(server, 'SUSPENDED')
    answer = attach(user, server, net_id=network)
    assert answer.status_code == 409 and 'suspended' in message(answer)
    user.post(f'/servers/{server}/action', {'resume': None})
    user.wait_for(server, 'ACTIVE')
    user.post(f'/servers/{server}/action', {'os-stop': None})
    user.wait_for(server, 'SHUTOFF')
    assert attach(user, server, net_id=network).status_code == 200
    user.post(f'/servers/{server}/action', {'lock': None})
    user.post(f'/servers/{server}/action', {'os-start': None})
    port = interfaces(user, server)[0]['port_id']
    assert user.delete(f'/servers/{server}/os-interface/{port}').status_code == 409
    user.post(f'/servers/{server}/action', {'unlock': None})


def test_a_host_that_is_down_is_refused_at_once(running, user, server, network):
    """The request waited 15 s for an answer, and had made a port meanwhile."""
    before = ports(user)
    set_forced_down(running, True)
    try:
        began = time.monotonic()
        answer = attach(user, server, net_id=network)
        assert answer.status_code == 409 and 'Cannot attach an interface' in message(answer)
        assert time.monotonic() - began < 14 and ports(user) == before
    finally:
        set_forced_down(running, False)
    assert attach(user, server, net_id=network).status_code == 200


def set_forced_down(running, down):
    services = tables_cell.services
    with running.cell_db.writer() as conn:
        conn.execute(sa.update(services).where(services.c.topic == 'compute').values(forced_down=down))


def ports(user):
    return sorted(port['id'] for port in user.get('/network/v2.0/ports').json()['ports'])


def test_parallel_attachments_get_different_addresses(running, user, server, network):
    """Ports of one server are attached one after the other; none fails, no address is given twice."""
    barrier = threading.Barrier(8)

    def one(_number):
        barrier.wait()
        return attach(user, server, net_id=network)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    addresses = {answer.json()['interfaceAttachment']['fixed_ips'][0]['ip_address'] for answer in answers}
    assert len(addresses) == 8
    assert len(interfaces(user, server)) == 9 == len(plugged(running, server))
    shown = user.get(f'/servers/{server}').json()['server']['addresses']
    assert {entry['addr'] for entry in shown['second']} == addresses
    ports = [entry['port_id'] for entry in interfaces(user, server)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda port: user.delete(f'/servers/{server}/os-interface/{port}').status_code,
                              ports))
    assert codes == [202] * 9
    wait_for(lambda: interfaces(user, server) == [])
    wait_for(lambda: user.get(f'/servers/{server}').json()['server']['addresses'] == {})
    with running.api_db.reader() as conn:
        held = set(conn.execute(sa.select(t.addresses.c.address).where(t.addresses.c.port_id.in_(ports))).scalars())
    assert held == set()


def test_port_is_attached_by_one_of_parallel_requests(user, server, network):
    port = add_port(user, network)['id']
    barrier = threading.Barrier(4)

    def one(_number):
        barrier.wait()
        return attach(user, server, port_id=port)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        codes = sorted(answer.status_code for answer in pool.map(one, range(4)))
    assert codes == [200, 409, 409, 409]
    assert [entry['port_id'] for entry in interfaces(user, server)].count(port) == 1


def test_port_quota_limits_attachments(tmp_path):
    with cloud.running(tmp_path, network__quota='port:3') as made:
        user = made.client()
        server = user.boot(user.upload_image())['id']
        user.wait_for(server)
        barrier = threading.Barrier(5)

        def one(_number):
            barrier.wait()
            return attach(user, server)
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(one, range(5)))
        assert sorted(answer.status_code for answer in answers) == [200, 200, 403, 403, 403]
        refused = next(answer for answer in answers if answer.status_code == 403)
        assert 'ports' in message(refused) and 'forbidden' in refused.json()


def test_port_quota_limits_servers(tmp_path):
    with cloud.running(tmp_path, network__quota='port:2') as made:
        user = made.client()
        image = user.upload_image()
        server = {'name': 's', 'imageRef': image, 'flavorRef': '1', 'networks': 'auto'}

        def create(**more):
            return user.post('/servers', {'server': {**server, **more}}, version='2.37')
        refused = create(min_count=3)
        assert refused.status_code == 403 and 'ports: Requested 3, but already used 0 of 2 ports' in message(refused)
        user.wait_for(user.boot(image)['id'])
        network = made.client().get('/servers/detail').json()['servers'][0]['addresses']
        assert list(network) == ['private']
        assert create(min_count=2).status_code == 403
        user.wait_for(user.boot(image)['id'])
        assert create().status_code == 403
        assert create(networks='none').status_code == 202


# ---- addresses, until 2.43 -------------------------------------------------------------

def action(client, server, name, value, version='2.43'):
    return client.post(f'/servers/{server}/action', {name: value}, version=version)


def addresses(client, server):
    shown = client.get(f'/servers/{server}').json()['server']['addresses']
    return [entry['addr'] for entry in shown.get('private', [])]


def test_an_address_of_two_interfaces_is_removed_from_the_first(user, image_id):
    wanted = []
    for _ in range(2):
        made = user.post('/network/v2.0/networks', {'network': {}}).json()['network']['id']
        assert user.post('/network/v2.0/subnets', {'subnet': {
            'network_id': made, 'cidr': '10.0.0.0/24', 'ip_version': 4}}).status_code == 201
        wanted.append({'uuid': made, 'fixed_ip': '10.0.0.5'})
    server = user.boot(image_id, networks=wanted)['id']
    user.wait_for(server)

    def held():
        ports = {port['net_id']: port for port in interfaces(user, server)}
        return [[entry['ip_address'] for entry in ports[each['uuid']]['fixed_ips']] for each in wanted]
    assert held() == [['10.0.0.5'], ['10.0.0.5']]
    assert action(user, server, 'removeFixedIp', {'address': '10.0.0.5'}).status_code == 202
    wait_for(lambda: held() != [['10.0.0.5'], ['10.0.0.5']])
    assert held() == [[], ['10.0.0.5']]
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')


def test_tags_are_deleted_with_ports_and_subnets(running, user, image_id):
    """Those of a server's port stayed when the server was deleted, and those of subnets with their network."""
    made = user.post('/network/v2.0/networks', {'network': {}}).json()['network']['id']
    subnet = user.post('/network/v2.0/subnets', {'subnet': {
        'network_id': made, 'cidr': '10.0.0.0/24', 'ip_version': 4}}).json()['subnet']['id']
    server = user.boot(image_id, networks=[{'uuid': made}])['id']
    user.wait_for(server)
    port = interfaces(user, server)[0]['port_id']
    group = user.post('/os-security-groups', {'security_group': {'name': 'tagged', 'description': ''}},
                      version='2.1').json()['security_group']['id']
    idents = {f'ports/{port}': port, f'subnets/{subnet}': subnet, f'networks/{made}': made,
              f'security-groups/{group}': group}
    for path in idents:
        assert user.put(f'/network/v2.0/{path}/tags', {'tags': ['red', 'blue']}).status_code == 200
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')
    assert user.delete(f'/network/v2.0/networks/{made}').status_code == 204
    assert user.delete(f'/os-security-groups/{group}', version='2.1').status_code == 202
    with running.api_db.reader() as conn:
        assert not conn.execute(sa.select(t.tags).where(t.tags.c.resource_id.in_(idents.values()))).all()


def test_fixed_addresses_are_added_and_removed(user, server, network):
    first, = addresses(user, server)
    inside = interfaces(user, server)[0]['net_id']
    assert action(user, server, 'addFixedIp', {'networkId': inside}).status_code == 202
    wait_for(lambda: len(addresses(user, server)) == 2)
    second, = set(addresses(user, server)) - {first}
    port, = interfaces(user, server)
    assert {entry['ip_address'] for entry in port['fixed_ips']} == {first, second}
    assert action(user, server, 'removeFixedIp', {'address': first}).status_code == 202
    wait_for(lambda: addresses(user, server) == [second])
    for name, value, code in (('addFixedIp', {'networkId': network}, 400), ('removeFixedIp', {'address': first}, 400),
                              ('removeFixedIp', {'address': 'x'}, 400), ('addFixedIp', {}, 400),
                              ('addFixedIp', {'networkId': 5}, 400)):
        assert action(user, server, name, value).status_code == code, name
    assert action(user, server, 'addFixedIp', {'networkId': inside}, '2.44').status_code == 404
    assert action(user, str(uuid.uuid4()), 'addFixedIp', {'networkId': inside}).status_code == 404
    for name in ('addFloatingIp', 'removeFloatingIp'):
        assert action(user, server, name, {'address': '10.1.1.1'}).status_code == 404


# ---- interrupted -----------------------------------------------------------------------

def open_action(running, server, action, arguments, request_id):
    """As the API and the compute leave it when both end at once."""
    from nova.db.servers import instance_actions
    caller = context.RequestContext(user_id='u', project_id='p', request_id=request_id, overwrite=False)
    with running.cells.default.db.writer() as conn:
        instance_actions.insert(conn, caller, [server], action, arguments=arguments)
    return caller


def test_a_restart_ends_what_was_interrupted(tmp_path):
    with cloud.running(tmp_path) as made:
        user = made.client()
        image = user.upload_image()
        server = user.boot(image)['id']
        user.wait_for(server)
        first = interfaces(user, server)[0]['port_id']
        attach(user, server)
        second = interfaces(user, server)[1]['port_id']
        network = next(part.manager.methods for part in made.services if part.binary == 'nova-network')
        compute = next(part.manager for part in made.services if part.binary == 'nova-compute')
        half, request_id = str(uuid.uuid4()), 'req-' + str(uuid.uuid4())
        arguments = {'port_id': half, 'network_id': user.get('/network/v2.0/networks').json()['networks'][0]['id'],
                     'fixed_ip': None, 'tag': None}
        caller = open_action(made, server, 'attach_interface', arguments, request_id)
        entry = next(entry for entry in compute.host.conductor.instances_on_host(caller, host='host1'))
        network.attach_port(caller, instance=entry['instance'], request=arguments, attached_by=request_id,
                            host='host1')
        # refused at the time: the port that the server had already is not taken back
        open_action(made, server, 'attach_interface', {**arguments, 'port_id': first, 'network_id': None},
                    'req-' + str(uuid.uuid4()))
        open_action(made, server, 'detach_interface', {'port_id': second}, 'req-' + str(uuid.uuid4()))
        assert len(interfaces(user, server)) == 3
    with cloud.running(tmp_path) as made:
        user = made.client()
        wait_for(lambda: [entry['port_id'] for entry in interfaces(user, server)] == [first])
        wait_for(lambda: len(user.get(f'/servers/{server}').json()['server']['addresses']['private']) == 1)
        wait_for(lambda: _open(made) == [])
        actions = user.get(f'/servers/{server}/os-instance-actions').json()['instanceActions']
        assert sorted((action['action'], action['message'] or '') for action in actions) == [
            ('attach_interface', ''), ('attach_interface', 'Error'), ('attach_interface', 'Error'), ('create', ''),
            ('detach_interface', '')]
        state = json.loads(pathlib.Path(tmp_path, 'fake', 'host1.json').read_text())
        assert state[server]['networks'] == [first]


def _open(made):
    table = tables_cell.instance_actions
    with made.cells.default.db.reader() as conn:
        return conn.execute(sa.select(table.c.id).where(table.c.finished_at.is_(None))).all()


def test_a_lost_message_is_found(running, user, server, network):
    """The request was accepted and its message never arrived: a reconciler sends it again."""
    answer = attach(user, server, net_id=network).json()['interfaceAttachment']
    open_action(running, server, 'detach_interface', {'port_id': answer['port_id']}, 'req-' + str(uuid.uuid4()))
    table = tables_cell.instance_actions
    with running.cells.default.db.writer() as conn:
        conn.execute(sa.update(table).where(table.c.finished_at.is_(None)).values(
            deadline=sa.func.coalesce(table.c.started_at, table.c.deadline)))
    conductor = next(part.manager for part in running.services if part.binary == 'nova-conductor')
    conductor.reconciler.reconcile()                  # or the periodic task was first
    wait_for(lambda: len(interfaces(user, server)) == 1)
    wait_for(lambda: _open(running) == [])


def test_another_action_does_not_close_it(running, user, server):
    """What goes on beside a task ends by itself: a stop that ends meanwhile leaves its record open."""
    open_action(running, server, 'detach_interface', {'port_id': str(uuid.uuid4())}, 'req-' + str(uuid.uuid4()))
    user.post(f'/servers/{server}/action', {'os-stop': None})
    user.wait_for(server, 'SHUTOFF')
    assert len(_open(running)) == 1
    assert user.get(f'/servers/{server}/os-instance-actions').json()['instanceActions'][0]['action'] == 'stop'
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')
    assert _open(running) == []


def test_an_external_network_of_another_project_is_refused_with_the_way_out(user, admin, image_id, server):
    """Lists show it, since routers lead to it; a server on it got "could not be found"."""
    external = admin.post('/network/v2.0/networks', {'network': {
        'name': 'outside', 'router:external': True}}).json()['network']['id']
    admin.post('/network/v2.0/subnets', {'subnet': {
        'network_id': external, 'ip_version': 4, 'cidr': '172.24.9.0/24', 'enable_dhcp': False}})
    try:
        assert external in [row['id'] for row in user.get('/network/v2.0/networks').json()['networks']]
        for path, body in (('/servers', {'server': {'name': 's', 'imageRef': image_id, 'flavorRef': '42',
                                                    'networks': [{'uuid': external}]}}),
                           (f'/servers/{server}/os-interface', {'interfaceAttachment': {'net_id': external}})):
            refused = user.post(path, body)
            assert refused.status_code == 403, refused.text
            assert 'with a router, and use a floating IP' in refused.json()['forbidden']['message']
        hidden = add_network(admin, admin.project_id)
        refused = user.post(f'/servers/{server}/os-interface', {'interfaceAttachment': {'net_id': hidden}})
        assert refused.status_code in (400, 404) and 'could not be found' in refused.text
    finally:
        admin.delete(f'/network/v2.0/networks/{external}')
