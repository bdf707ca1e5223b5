"""The /network face over HTTP: with an unmodified openstacksdk and openstack client, and by hand."""
import uuid

import pytest
import requests
import sqlalchemy as sa
from openstack import exceptions as sdk_exceptions

from nova.db.networks import ports
from nova.db.tables import network as t
from nova.tests.support import network_manager as unit
from nova.tests.support.network_api import Face


@pytest.fixture
def face(tmp_path):
    rig = Face(tmp_path)
    yield rig
    rig.close()


# ---- the unmodified clients -----------------------------------------------------------

def test_openstackclient_manages_networks_and_ports(face):
    listed, = face.cli('network', 'list')
    assert listed['Name'] == 'private' and listed['ID'] == face.network_id
    made = face.cli('network', 'create', 'blue', '--mtu', '1400')
    assert made['name'] == 'blue' and made['mtu'] == 1400
    subnet = face.cli('subnet', 'create', 'bluenet', '--network', 'blue', '--subnet-range', '10.50.0.0/24',
                      '--dns-nameserver', '10.0.0.53', '--no-dhcp')      # its server would have a random address
    assert subnet['gateway_ip'] == '10.50.0.1' and subnet['allocation_pools'] == [
        {'start': '10.50.0.2', 'end': '10.50.0.254'}]
    assert face.cli('network', 'show', 'blue')['subnets'] == [subnet['id']]
    assert {row['Name'] for row in face.cli('subnet', 'list')} == {'private', 'bluenet'}
    port = face.cli('port', 'create', 'p', '--network', 'blue', '--fixed-ip', 'ip-address=10.50.0.9')
    assert port['fixed_ips'] == [{'subnet_id': subnet['id'], 'ip_address': '10.50.0.9'}]
    assert [row['Name'] for row in face.cli('port', 'list', '--fixed-ip', 'ip-address=10.50.0.9')] == ['p']
    assert face.cli('port', 'show', 'p')['id'] == port['id']
    group = face.cli('security', 'group', 'create', 'web', '--description', 'd')
    rule = face.cli('security', 'group', 'rule', 'create', 'web', '--protocol', 'tcp', '--dst-port', '80:81')
    assert (rule['port_range_min'], rule['port_range_max'], rule['direction']) == (80, 81, 'ingress')
    assert face.cli('security', 'group', 'rule', 'create', 'web', '--protocol', 'icmp')['protocol'] == 'icmp'
    assert len(face.cli('security', 'group', 'rule', 'list', 'web')) == 4
    assert {row['Name'] for row in face.cli('security', 'group', 'list')} == {'default', 'web'}
    assert face.cli('security', 'group', 'show', 'web')['id'] == group['id']
    for what in (('port', 'set', '--security-group', 'web', '--name', 'q', 'p'),):
        assert face.cli(*what, '--description', 'z', check=False)[0] in (0, 2)
    face.cli('security', 'group', 'rule', 'delete', rule['id'])
    face.cli('port', 'delete', port['id'])
    face.cli('security', 'group', 'delete', 'web')
    face.cli('network', 'delete', 'blue')
    assert face.cli('floating', 'ip', 'list') == [] and face.cli('router', 'list') == []
    assert face.cli('extension', 'list', '--network')
    assert face.cli('availability', 'zone', 'list', '--network')[0]['Zone Name'] == 'nova'
    code, printed = face.cli('network', 'show', 'nowhere', check=False)
    assert code and 'No Network found for nowhere' in printed


@pytest.mark.parametrize('endpoint', ['', '/', '/v2.0', '/v2.0/'])
def test_openstacksdk_manages_networks(face, endpoint):
    sdk = face.sdk(endpoint=endpoint)
    network = sdk.network.find_network('private')
    assert network.is_shared and [subnet.cidr for subnet in sdk.network.subnets(network_id=network.id)] == [
        '10.44.0.0/24']
    port = sdk.network.create_port(network_id=network.id, name='a')
    sdk.network.update_port(port, name='b', description='c')
    assert [(found.name, found.description) for found in sdk.network.ports(name=['b', 'x'])] == [('b', 'c')]
    group = sdk.network.create_security_group(name='g')
    sdk.network.create_security_group_rule(security_group_id=group.id, direction='ingress', protocol='tcp',
                                           port_range_min=22, port_range_max=22)
    assert len(sdk.network.get_security_group(group.id).security_group_rules) == 3
    with pytest.raises(sdk_exceptions.ConflictException):
        sdk.network.create_security_group_rule(security_group_id=group.id, direction='ingress', protocol='6',
                                               port_range_min=22, port_range_max=22)
    sdk.network.update_port(port, security_groups=[group.id])
    with pytest.raises(sdk_exceptions.ConflictException, match='in use'):
        sdk.network.delete_security_group(group)
    sdk.network.delete_port(port)
    sdk.network.delete_security_group(group)
    with pytest.raises(sdk_exceptions.NotFoundException):
        sdk.network.get_port(port.id)
    assert sdk.network.find_extension('security-group') and not sdk.network.find_extension('nothing')


def test_lists_are_paged_backwards(face):
    for number in range(5):
        made = face('demo', 'POST', 'security-groups', {'security_group': {'name': f'g{number}'}})
        assert made.status_code == 201, made.text

    def page(url):
        answer = requests.get(url, headers={'X-Auth-Token': 'demo'}, timeout=30).json()
        links = {each['rel']: each['href'] for each in answer.get('security_groups_links', ())}
        return [each['name'] for each in answer['security_groups']], links
    path = f'{face.url}/v2.0/security-groups?sort_key=name&limit=2'
    last, links = page(path + '&page_reverse=true')
    assert last == ['g3', 'g4'] and links.keys() == {'next', 'previous'}
    middle, links = page(links['previous'])
    assert middle == ['g1', 'g2']
    assert page(links['next'])[0] == ['g3', 'g4']
    first, links = page(links['previous'])
    assert first == ['default', 'g0']
    nothing, links = page(links['previous'])
    assert nothing == [] and links.keys() == {'next'}
    assert page(links['next'])[0] == ['default', 'g0']
    assert 'security_groups_links' not in face('demo', 'GET', 'security-groups').json()
    assert face('demo', 'GET', 'security-groups?page_reverse=x').status_code == 400


def test_ports_are_paged(face):
    for number in range(7):
        face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id, 'name': f'n{number % 3}'}})
    assert len(list(face.sdk('demo').network.ports(limit=2))) == 7
    for of_all in ('networks?sort_key=status&sort_dir=desc', 'routers?sort_key=status&sort_key=name'):   # as Skyline
        assert face('demo', 'GET', of_all).status_code == 200
    switched = 'ports?limit=1&sort_key=admin_state_up'                         # a boolean, after a marker
    found = face('demo', 'GET', switched).json()['ports']
    assert face('demo', 'GET', f"{switched}&marker={found[0]['id']}").json()['ports'] not in ([], found)
    first = face('demo', 'GET', 'ports?limit=3&sort_key=name&sort_dir=desc&fields=name&fields=id').json()
    assert [port['name'] for port in first['ports']] == ['n2', 'n2', 'n1'] and set(first['ports'][0]) == {
        'id',
        'name',
    }
    rest = requests.get(first['ports_links'][0]['href'], headers={'X-Auth-Token': 'demo'}, timeout=30).json()
    assert [port['name'] for port in rest['ports']] == ['n1', 'n0', 'n0']


@pytest.mark.parametrize('fields', [
    ('id',), ('device_id', 'project_id', 'mac_address', 'fixed_ips', 'security_groups'), ('security_groups',),
    ('dns_name', 'port_security_enabled', 'description', 'qos_policy_id'), ('name', 'tags'), ('id', 'revision_number'),
    ('nothing',)])
def test_fields_alone_are_those_of_the_whole(face, fields):
    """Lists of few fields read few columns."""
    group = face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}).json()['security_group']['id']
    for name in ('a', 'b'):
        face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id, 'name': name, 'description': name * 2,
                                                'security_groups': [group]}})
    query = ''.join(f'&fields={field}' for field in fields)
    of_network = f'network_id={face.network_id}&sort_key=status'
    for asked in ('sort_key=name', 'sort_key=name&sort_dir=desc&limit=1', of_network):
        whole = face('demo', 'GET', f'ports?{asked}').json()['ports']
        found = face('demo', 'GET', f'ports?{asked}{query}').json()['ports']
        assert found == [{name: port[name] for name in fields if name in port} for port in whole] and found


# ---- who may what: security class E ------------------------------------------------------

def test_projects_do_not_see_each_other(face):
    port = face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}).json()['port']
    group = face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}).json()[
        'security_group'
    ]
    rule = group['security_group_rules'][0]
    hidden = face.add_network(project='p1')
    paths = [f'ports/{port["id"]}', f'security-groups/{group["id"]}', f'security-group-rules/{rule["id"]}',
             f'networks/{hidden}']
    singular = {
        'ports': 'port',
        'security-groups': 'security_group',
        'security-group-rules': 'security_group_rule',
        'networks': 'network',
    }
    for path in paths:
        assert face('demo', 'GET', path).status_code == 200 == face('admin', 'GET', path).status_code
        for method in ('GET', 'PUT', 'DELETE'):
            answer = face('other', method, path, {singular[path.split('/')[0]]: {'description': 'x'}}
                          if method == 'PUT' else None)
            assert answer.status_code == 404, (method, path)
            kind, ident = path.split('/')
            unknown = face('other', method, f'{kind}/{uuid.uuid4()}', {singular[kind]: {'description': 'x'}}
                           if method == 'PUT' else None)
            assert unknown.json()['NeutronError']['type'] == answer.json()['NeutronError']['type']
    for kind, ident in (path.split('/') for path in paths):
        listed = face('other', 'GET', kind).json()[kind.replace('-', '_')]
        assert ident not in {row['id'] for row in listed}
        assert face('other', 'GET', f'{kind}?id={ident}&project_id=p1').json()[kind.replace('-', '_')] == []


def test_privileged_network_and_port_attributes_are_refused_to_members(face):
    for extra in ({'provider:network_type': 'flat'}, {'router:external': True}, {'shared': True}):
        assert face('demo', 'POST', 'networks', {'network': {'name': 'x', **extra}}).status_code == 403
    assert face('demo', 'PUT', f'networks/{face.network_id}', {'network': {'name': 'x'}}).status_code == 403
    assert face('demo', 'DELETE', f'networks/{face.network_id}').status_code == 403
    base = {'network_id': face.network_id}
    for extra in (
        {'device_id': str(uuid.uuid4())},
        {'device_owner': 'compute:nova'},
        {'binding:host_id': 'host1'},
        {'project_id': 'p2'},
        {'mac_address': 'fa:16:3e:00:00:01'},
    ):
        answer = face('demo', 'POST', 'ports', {'port': {**base, **extra}})
        assert answer.status_code == 403 and answer.json()['NeutronError']['type'] == 'PolicyNotAuthorized', (
            extra
        )
    shown = face('demo', 'GET', f'networks/{face.network_id}').json()['network']
    assert 'provider:network_type' not in shown and 'provider:network_type' in face(
        'admin', 'GET', f'networks/{face.network_id}').json()['network']


def test_projects_make_networks_in_their_ranges(tmp_path):
    """Clients that make a network and a subnet of their own first were refused altogether."""
    face = Face(tmp_path, network__project_ranges=['10.128.0.0/9', '192.168.0.0/16'])
    try:
        network = face('demo', 'POST', 'networks', {'network': {'name': 'mine'}}).json()['network']
        subnet = {'network_id': network['id'], 'cidr': '10.200.0.0/24'}
        for user, values, code in (
                ('demo', {'cidr': '10.44.9.0/24'}, 400), ('demo', {'cidr': '10.0.0.0/8'}, 400),
                ('demo', {'network_id': face.network_id}, 403), ('other', {}, 404), ('demo', {}, 201),
                ('demo', {}, 400), ('admin', {'cidr': '10.45.0.9/24'}, 201)):
            answer = face(user, 'POST', 'subnets', {'subnet': {**subnet, **values}})
            assert answer.status_code == code, (user, values, answer.text)
        # an address in the network names it
        assert answer.json()['subnet']['cidr'] == '10.45.0.0/24'
        assert face('demo', 'POST', 'networks', {'network': {'shared': True}}).status_code == 403
        path = f'networks/{network["id"]}'
        assert face('demo', 'PUT', path, {'network': {'shared': True}}).status_code == 403
        assert face('demo', 'PUT', path, {'network': {'name': 'x'}}).json()['network']['name'] == 'x'
        for user, ident, code in (('demo', face.network_id, 403), ('other', network['id'], 404),
                                  ('demo', network['id'], 204)):
            assert face(user, 'DELETE', f'networks/{ident}').status_code == code
    finally:
        face.close()


def test_another_projects_groups_and_networks_cannot_be_used(face):
    group = face('other', 'POST', 'security-groups', {'security_group': {'name': 'g'}}).json()[
        'security_group'
    ]['id']
    hidden = face.add_network(project='p2')
    for port in ({'network_id': face.network_id, 'security_groups': [group]}, {'network_id': hidden}):
        assert face('demo', 'POST', 'ports', {'port': port}).status_code == 404
    own = face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    for rule in ({'security_group_id': group}, {'security_group_id': own, 'remote_group_id': group}):
        assert face('demo', 'POST', 'security-group-rules',
                    {'security_group_rule': {'direction': 'ingress', **rule}}).status_code == 404


def test_network_requests_without_a_token_return_401(face):
    assert face(None, 'GET', 'networks').status_code == 401
    assert requests.get(face.url + '/', timeout=10).json()['versions'][0]['id'] == 'v2.0'


# ---- bad input: security class J ------------------------------------------------------------

BAD_PORTS = [
    [], None, 'x', {'network_id': 5}, {'network_id': 'x' * 300}, {'name': 'n'},
    *[{'network_id': 'N', **extra} for extra in (
        {'name': 'x' * 256}, {'name': 5}, {'name': 'a\0b'}, {'admin_state_up': 'perhaps'}, {'unknown': 1},
        {'id': 'x'}, {'status': 'ACTIVE'}, {'fixed_ips': 'x'}, {'fixed_ips': [{'ip_address': '10.44.0.300'}]},
        {'fixed_ips': [{'ip_address': '::1'}]}, {'fixed_ips': [{'foo': 1}]}, {'fixed_ips': [{}] * 11},
        {'fixed_ips': [{'ip_address': '10.45.0.1'}]}, {'mac_address': 'zz'}, {'security_groups': 'x'},
        {'security_groups': ['g'] * 21}, {'security_groups': [1]}, {'binding:vnic_type': 'direct'},
        {'port_security_enabled': False}, {'allowed_address_pairs': [{'ip_address': '1.2.3.4'}]},
        {'tenant_id': 'p1', 'project_id': 'p2'})]]


@pytest.mark.parametrize('port', BAD_PORTS)
def test_invalid_ports_are_refused(face, port):
    if isinstance(port, dict) and port.get('network_id') == 'N':
        port = {**port, 'network_id': face.network_id}
    # demo may not set these in the shared network, whatever the value
    guarded = isinstance(port, dict) and port.keys() & {'fixed_ips', 'port_security_enabled', 'allowed_address_pairs'}
    answer = face('admin' if guarded else 'demo', 'POST', 'ports', {'port': port})
    assert answer.status_code == 400, answer.text
    assert set(answer.json()['NeutronError']) == {'type', 'message', 'detail'}
    assert face('demo', 'GET', 'ports').json() == {'ports': []}


BAD_SUBNETS = [
    {'cidr': 'x'},
    {'cidr': '10.9.0.0/31'},
    {'cidr': '0.0.0.0/0'},
    {'cidr': '224.0.0.0/24'},
    {'cidr': '127.0.0.0/24'},
    {'cidr': '169.254.0.0/16'},
    {'cidr': 'fd00::/64'},
    {'cidr': '10.44.0.128/25'},
    {'gateway_ip': '10.8.0.1'},
    {'gateway_ip': '10.9.0.0'},
    {'gateway_ip': None},
    {'allocation_pools': [{'start': '10.9.0.1', 'end': '10.9.0.9'}]},
    {'allocation_pools': [{'start': '10.9.0.9', 'end': '10.9.0.5'}]},
    {'allocation_pools': [{'start': '10.9.0.5', 'end': '10.9.9.9'}]},
    {
        'allocation_pools': [
            {'start': '10.9.0.5', 'end': '10.9.0.9'},
            {'start': '10.9.0.7', 'end': '10.9.0.20'},
        ]
    },
    {'allocation_pools': [{'start': '10.9.0.5', 'end': '10.9.0.9'}, {'start': '10.9.0.5', 'end': 'fd00::9'}]},
    {'dns_nameservers': ['x']},
    {'dns_nameservers': ['1.1.1.1'] * 11},
    {'ip_version': 6},
    {'host_routes': [{'destination': '10.0.0.0/8,1.2.3.4', 'nexthop': '10.9.0.1'}]},
]


@pytest.mark.parametrize('extra', BAD_SUBNETS)
def test_invalid_subnets_are_refused(face, extra):
    network = face('admin', 'POST', 'networks', {'network': {
        'name': 'n', 'provider:network_type': 'flat'}}).json()['network']['id']
    body = {'network_id': network, 'cidr': '10.9.0.0/24', **extra}
    assert face('admin', 'POST', 'subnets', {'subnet': body}).status_code == 400
    assert face('admin', 'GET', f'networks/{network}').json()['network']['subnets'] == []


BAD_RULES = [
    {'direction': 'up'},
    {'ethertype': 'IPv5'},
    {'protocol': 'x'},
    {'protocol': 256},
    {'protocol': '²'},
    {'port_range_min': 1},
    {'protocol': 'tcp', 'port_range_min': 5, 'port_range_max': 4},
    {'protocol': 'tcp', 'port_range_min': 0, 'port_range_max': 4},
    {'protocol': 'tcp', 'port_range_max': 4},
    {'protocol': 'gre', 'port_range_min': 1, 'port_range_max': 4},
    {'protocol': 'icmp', 'port_range_max': 4},
    {'protocol': 'icmp', 'port_range_min': 256},
    {'remote_ip_prefix': '10.0.0.0/40'},
    {'remote_ip_prefix': 'fd00::/8'},
    {'remote_ip_prefix': 5},
    {'remote_ip_prefix': '10.0.0.0/8 accept; drop'},
    {'protocol': 'tcp', 'port_range_min': 70000, 'port_range_max': 70000},
    {'protocol': True},
]


@pytest.mark.parametrize('extra', BAD_RULES)
def test_invalid_rules_are_refused(face, extra):
    group = face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    answer = face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', **extra}})
    assert answer.status_code == 400, answer.text
    assert len(face('demo', 'GET', 'security-group-rules').json()['security_group_rules']) == 4


def test_malformed_network_requests_are_refused(face):
    url, headers = face.url + '/v2.0/', {'X-Auth-Token': 'demo'}
    for data, status in ((b'{', 400), (b'\xff', 400), (b'[]', 400), (b'{"network": {}}', 400), (b'', 400),
                         (b'[' * 100000, 400), (b'x' * 300000, 413)):
        assert requests.post(url + 'ports', data=data, headers=headers, timeout=10).status_code == status
    for path in (
        'ports?limit=x',
        'ports?limit=-1',
        'ports?marker=nowhere',
        'ports?sort_key=x',
        'ports?nothing=1',
        'ports?sort_key=name&sort_dir=up',
        'ports?fixed_ips=x',
        'ports?admin_state_up=x',
        'networks?mtu=x',
        'ports?' + '&'.join(['id=x'] * 600),
    ):
        assert face('demo', 'GET', path).status_code == 400, path
    for path in (
        'nothing',
        'extensions/nothing',
        'ports/x/y',
        'quotas/p2',
        'ports/' + 'x' * 5000,
        'ports/%ff',
    ):
        assert face('demo', 'GET', path).status_code == 404, path
    assert (
        face('demo', 'PUT', 'ports', {}).status_code
        == 405
        == face('demo', 'POST', 'extensions', {}).status_code
    )
    assert face('demo', 'GET', 'ports?' + 'x' * 66000).status_code in (400, 414)


def test_routers_have_one_service_provider(face):
    provider = {'service_type': 'L3_ROUTER_NAT', 'name': 'nova-network', 'default': True}
    assert face('demo', 'GET', 'service-providers').json() == {'service_providers': [provider]}
    assert face('demo', 'GET', 'service-providers?fields=name').json() == {'service_providers': [
        {'name': 'nova-network'}]}
    assert face('admin', 'POST', 'service-providers', {}).status_code == 400


# ---- rules of their own ------------------------------------------------------------------

def test_full_network_refuses_further_ports(face):
    small = face.add_network()
    made = [face('demo', 'POST', 'ports', {'port': {'network_id': small}}) for _ in range(6)]
    assert [answer.status_code for answer in made] == [201] * 5 + [409]
    taken = made[0].json()['port']['fixed_ips'][0]['ip_address']
    again = face(
        'demo', 'POST', 'ports', {'port': {'network_id': small, 'fixed_ips': [{'ip_address': taken}]}}
    )
    assert again.status_code == 409 and again.json()['NeutronError']['type'] == 'IpAddressAlreadyAllocated'
    for path in (f'networks/{small}', 'subnets/' + made[0].json()['port']['fixed_ips'][0]['subnet_id']):
        assert face('admin', 'DELETE', path).status_code == 409
    for answer in made[:5]:
        assert face('demo', 'DELETE', 'ports/' + answer.json()['port']['id']).status_code == 204
    assert face('admin', 'DELETE', f'networks/{small}').status_code == 204


def test_change_of_addresses(face):
    chosen = {'port': {'network_id': face.network_id, 'fixed_ips': [{'ip_address': '10.44.0.50'}]}}
    assert face('demo', 'POST', 'ports', chosen).status_code == 403       # the network is of others
    port = face('admin', 'POST', 'ports', chosen).json()['port']
    changed = face('admin', 'PUT', f'ports/{port["id"]}', {'port': {'fixed_ips': [
        {'ip_address': '10.44.0.50'}, {'ip_address': '10.44.0.51'}]}}).json()['port']
    assert [ip['ip_address'] for ip in changed['fixed_ips']] == ['10.44.0.50', '10.44.0.51']
    changed = face('admin', 'PUT', f'ports/{port["id"]}', {'port': {'fixed_ips': [
        {'ip_address': '10.44.0.51'}]}}).json()['port']
    assert [ip['ip_address'] for ip in changed['fixed_ips']] == ['10.44.0.51']


def test_a_servers_port_stays_while_the_server_has_it(face):
    instance = unit.make_instance()
    vif, = face.allocate(instance)
    shown = face('demo', 'GET', f'ports?device_id={instance.uuid}').json()['ports'][0]
    assert (
        shown['id'] == vif['id'] and shown['status'] == 'ACTIVE' and shown['device_owner'] == 'compute:nova'
    )
    assert face('demo', 'DELETE', f'ports/{vif["id"]}').status_code == 403
    assert face('admin', 'DELETE', f'ports/{vif["id"]}').status_code == 409
    unchanged = face('demo', 'PUT', f'ports/{vif["id"]}', {'port': {'fixed_ips': shown['fixed_ips']}})
    assert unchanged.json()['port'] == shown
    face.deallocate(instance)
    assert face('demo', 'GET', f'ports/{vif["id"]}').status_code == 404


def test_default_group_exists_and_cannot_be_deleted(face):
    group, = face('demo', 'GET', 'security-groups?name=default').json()['security_groups']
    assert len(group['security_group_rules']) == 4
    assert face('demo', 'DELETE', f'security-groups/{group["id"]}').status_code == 409
    assert (
        face('demo', 'PUT', f'security-groups/{group["id"]}', {'security_group': {'name': 'x'}}).status_code
        == 409
    )
    assert face('demo', 'POST', 'security-groups', {'security_group': {'name': 'default'}}).status_code == 409
    assert face('other', 'GET', 'security-groups').json()['security_groups'][0]['id'] != group['id']


@pytest.mark.parametrize('left', [False, True])
def test_default_group_is_created_again_after_its_deletion_by_an_administrator(face, left):
    """``left``: as an earlier release did, which left the row that names the default group."""
    def default():
        group, = face('demo', 'GET', 'security-groups?name=default').json()['security_groups']
        return group
    first = default()
    project = first['project_id']
    if left:
        with face.db.writer() as conn:
            conn.execute(sa.delete(t.security_groups).where(t.security_groups.c.id == first['id']))
        with face.db.reader() as conn:
            assert ports.for_allocation(conn, ['no server'], project, -1) == ([], None, None)
    else:
        assert face('admin', 'DELETE', f'security-groups/{first["id"]}').status_code == 204
    vif, = face.allocate(unit.make_instance(project))
    second = default()
    assert second['id'] != first['id'] and len(second['security_group_rules']) == 4
    assert face('demo', 'GET', f'ports/{vif["id"]}').json()['port']['security_groups'] == [second['id']]
    assert face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}).json()['port'][
        'security_groups'] == [second['id']]


def test_changes_reach_the_network_service(face):
    """Security class M: a change of groups or rules is told at once."""
    group = face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}).json()[
        'security_group'
    ]
    before = face.client.calls
    rule = face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group['id'], 'direction': 'ingress'}}).json()['security_group_rule']
    assert face.client.calls == before + 1
    face('demo', 'DELETE', f'security-group-rules/{rule["id"]}')
    assert face.client.calls == before + 2


def test_quota_limits_ports_and_groups(tmp_path):
    face = Face(tmp_path, network__quota={'port': 2, 'security_group': 2})
    try:
        answers = [face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 409]
        assert answers[2].json()['NeutronError']['type'] == 'OverQuota'
        assert face('other', 'POST', 'ports', {'port': {'network_id': face.network_id}}).status_code == 201
        assert face('demo', 'GET', 'quotas/p1').status_code == 200
        assert face('admin', 'GET', 'quotas/p1').json()['quota']['port'] == 2
        assert face('admin', 'GET', 'quotas/p1/details').json()['quota']['port'] == {
            'limit': 2, 'used': 2, 'reserved': 0}
    finally:
        face.close()


def test_used_addresses_are_counted_inside_and_outside_of_pools(face):
    network = face('admin', 'POST', 'networks', {'network': {'name': 'n'}}).json()['network']['id']
    for cidr, version, pool, other in (('10.50.0.0/24', 4, ('10.50.0.10', '10.50.0.20'), '10.50.0.100'),
                                       ('fd00:50::/120', 6, ('fd00:50::10', 'fd00:50::1f'), 'fd00:50::77')):
        made = face('admin', 'POST', 'subnets', {'subnet': {
            'network_id': network, 'cidr': cidr, 'ip_version': version, 'enable_dhcp': False,
            'allocation_pools': [{'start': pool[0], 'end': pool[1]}]}})
        assert made.status_code == 201, made.text
        subnet = made.json()['subnet']['id']
        for address in (*pool, other):
            made = face('admin', 'POST', 'ports', {'port': {'network_id': network, 'fixed_ips': [
                {'subnet_id': subnet, 'ip_address': address}]}})
            assert made.status_code == 201, made.text
    path = f'network-ip-availabilities/{network}'
    assert face('admin', 'GET', path).json()['network_ip_availability']['ip_availability_details'] == {
        'total_ips_in_subnet': 254 + 256, 'total_ips_in_allocation_pool': 11 + 16, 'used_ips_in_subnet': 6,
        'used_ips_in_allocation_pool': 4}
    assert face('admin', 'GET', 'network-ip-availabilities?ip_version=4').json()['network_ip_availabilities'][0][
        'ip_availability_details']['total_ips_in_subnet'] == 254
