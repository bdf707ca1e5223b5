"""What the compute API showed of networks and security groups until 2.35: real answers against the public facts."""
import uuid

import pytest

from nova import utils
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.tests import server_rows
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

NOBODY = str(uuid.UUID(int=9))
_COUNTER = iter(range(10 ** 6))


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    """A project with a network, a server and a group whose rules have each form."""
    fixture = servers.Servers(tmp_path_factory.mktemp('proxies'), network__quota='security_group:-1')
    fixture.server = fixture.add_server(1)
    with fixture.api_db.writer() as conn:
        fixture.default = security_groups.ensure_default(conn, base.PROJECT)
    yield fixture
    fixture.close()


def _group(api):
    """The id of a new group."""
    made = api.client().post('/os-security-groups', {'security_group': {
        'name': f'g{next(_COUNTER)}', 'description': 'd'}}).json['security_group']['id']
    return made


def _rule(api, group=None):
    return {'security_group_rule': {'parent_group_id': group or api.default, 'ip_protocol': 'tcp', 'cidr': '10.0.0.0/8',
                                    'from_port': 1000 + next(_COUNTER), 'to_port': '9999'}}


def _new(api):
    return {'security_group': {'name': f'n{next(_COUNTER)}', 'description': ''}}


# operation, path, body or what makes it, code
OPERATIONS = [
    ('GET /os-networks', '/os-networks', None, 200),
    ('GET /os-networks/{}', '/os-networks/{network}', None, 200),
    ('GET /os-tenant-networks', '/os-tenant-networks', None, 200),
    ('GET /os-tenant-networks/{}', '/os-tenant-networks/{network}', None, 200),
    ('GET /os-security-groups', '/os-security-groups', None, 200),
    ('POST /os-security-groups', '/os-security-groups', _new, 200),
    ('GET /os-security-groups/{}', '/os-security-groups/{group}', None, 200),
    ('PUT /os-security-groups/{}', '/os-security-groups/{new}', _new, 200),
    ('DELETE /os-security-groups/{}', '/os-security-groups/{new}', None, 202),
    ('POST /os-security-group-rules', '/os-security-group-rules', _rule, 200),
    ('DELETE /os-security-group-rules/{}', '/os-security-group-rules/{rule}', None, 202),
    ('GET /os-floating-ip-pools', '/os-floating-ip-pools', None, 200),
    ('GET /os-floating-ips', '/os-floating-ips', None, 200),
    ('POST /os-floating-ips', '/os-floating-ips', lambda api: {'pool': None}, 404),
    ('GET /os-floating-ips/{}', f'/os-floating-ips/{NOBODY}', None, 404),
    ('DELETE /os-floating-ips/{}', f'/os-floating-ips/{NOBODY}', None, 404),
    ('POST /servers/{}/action addFloatingIp', '/servers/{server}/action',
     lambda api: {'addFloatingIp': {'address': '10.1.1.1'}}, 404),
    ('POST /servers/{}/action removeFloatingIp', '/servers/{server}/action',
     lambda api: {'removeFloatingIp': {'address': '10.1.1.1'}}, 404),
    ('POST /servers/{}/action addFixedIp', '/servers/{server}/action',
     lambda api: {'addFixedIp': {'networkId': server_rows.NETWORK_ID}}, 202),
    ('POST /servers/{}/action removeFixedIp', '/servers/{server}/action',
     lambda api: {'removeFixedIp': {'address': '10.0.0.4'}}, 202),
]


def _cases():
    for operation, path, body, code in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes()[method, pattern, ''.join(action)]
        until = facts.minor(row['max'])
        for version in facts.boundaries(operation, 'response', 1, until):
            yield pytest.param(operation, path, body, code, version, id=f'{operation} 2.{version}')
        yield pytest.param(operation, path, body, 404, until + 1, id=f'{operation} 2.{until + 1}')


def _filled(api, path):
    if '{rule}' in path:
        made = api.client().post('/os-security-group-rules', _rule(api)).json
        return path.format(rule=made['security_group_rule']['id'])
    new = _group(api) if '{new}' in path else None
    return path.format(network=api.network_id, group=api.default, new=new, server=api.server)


@pytest.mark.parametrize('admin', [True, False])
@pytest.mark.parametrize('operation, path, body, code, version', _cases())
def test_proxy_responses_have_the_documented_fields(api, operation, path, body, code, version, admin):
    client = api.admin(project=base.PROJECT) if admin else api.client()
    answer = client.request(operation.split(' ')[0], _filled(api, path), body and body(api), version=f'2.{version}')
    assert answer.status == code, answer.body
    if code == 200:
        assert facts.differences(operation, version, answer.json) == []


def test_networks_show_administrative_fields_to_administrators_only(api):
    user, admin = (client.get('/os-networks').json['networks'][0] for client in (api.client(), api.admin()))
    assert (user['id'], user['label'], user['cidr'], user['netmask'], user['gateway']) == (
        api.network_id, 'private', '10.44.0.0/24', '255.255.255.0', '10.44.0.1')
    assert 'bridge' not in user and admin['bridge'] == 'br-nova' and admin.items() > user.items()
    assert api.client().get('/os-tenant-networks').json == {
        'networks': [{'id': api.network_id, 'label': 'private', 'cidr': '10.44.0.0/24'}]}
    assert api.client().get(f'/os-networks/{NOBODY}').status == 404


def test_security_group_can_be_renamed_and_deleted_by_its_project_only(api):
    client, other = api.client(), api.client(project='c' * 32)
    path = f'/os-security-groups/{_group(api)}'
    renamed = client.put(path, {'security_group': {'name': ' web ', 'description': 'w'}}).json['security_group']
    assert (renamed['name'], renamed['description'], renamed['rules']) == (' web ', 'w', [])
    made = client.post('/os-security-group-rules', {'security_group_rule': {
        'parent_group_id': renamed['id'], 'ip_protocol': 'ICMP', 'from_port': -1, 'to_port': -1, 'cidr': None}}).json
    assert made['security_group_rule'] == {
        'id': made['security_group_rule']['id'], 'parent_group_id': renamed['id'], 'ip_protocol': 'icmp',
        'from_port': -1, 'to_port': -1, 'group': {}, 'ip_range': {'cidr': '0.0.0.0/0'}}
    inside = client.post('/os-security-group-rules', {'security_group_rule': {
        'parent_group_id': renamed['id'], 'group_id': api.default}}).json['security_group_rule']
    assert inside['group'] == {'name': 'default', 'tenant_id': base.PROJECT} and inside['ip_range'] == {}
    assert len(client.get(path).json['security_group']['rules']) == 2
    rule = f'/os-security-group-rules/{inside["id"]}'
    for method, target, body in (('GET', path, None), ('DELETE', path, None), ('DELETE', rule, None),
                                 ('PUT', path, _new(api)), ('POST', '/os-security-group-rules', _rule(api))):
        assert other.request(method, target, body).status == 404, (method, target)
    assert client.delete(rule).status == 202 and client.delete(rule).status == 404
    assert client.delete(path).status == 202 and client.get(path).status == 404


def test_invalid_security_group_requests_are_refused(api):
    client = api.client()
    path, rules = '/os-security-groups', '/os-security-group-rules'
    for name in ('', '  ', 'default', 'a\nb', 'x' * 256, 5):
        assert client.post(path, {'security_group': {'name': name, 'description': ''}}).status == 400, name
    assert client.get(path + '/1').status == 400
    assert client.delete(f'{path}/{api.default}').status == 400
    assert client.put(f'{path}/{api.default}', _new(api)).status == 400
    taken = _rule(api)
    assert client.post(rules, taken).status == 200
    assert client.post(rules, taken).status == 400                     # the same again
    for values in ({'ip_protocol': None}, {'ip_protocol': 'what'}, {'from_port': 'x'}, {'from_port': 10000},
                   {'to_port': 70000}, {'cidr': 'nowhere'}, {'cidr': 5}, {'ip_protocol': ['tcp']}, {'from_port': 1.5},
                   {'from_port': True}, {'group_id': 'x'}, {'from_port': '9' * 400}):
        body = _rule(api)
        body['security_group_rule'] |= values
        answer = client.post(rules, body)
        assert answer.status == 400, (values, answer.body)
    for values in ({'parent_group_id': NOBODY}, {'group_id': NOBODY}):
        body = _rule(api)
        body['security_group_rule'] |= values
        assert client.post(rules, body).status == 404, values


def test_quota_limits_security_groups_and_rules(tmp_path):
    fixture = servers.Servers(tmp_path, network__quota='security_group:2,security_group_rule:7')
    client = fixture.client()
    default, = client.get('/os-security-groups').json['security_groups']
    assert default['name'] == 'default'
    assert client.post('/os-security-groups', _new(fixture)).status == 200
    assert client.post('/os-security-groups', _new(fixture)).status == 403
    fixture.default = default['id']
    assert client.post('/os-security-group-rules', _rule(fixture)).status == 200
    assert client.post('/os-security-group-rules', _rule(fixture)).status == 403
    fixture.close()


def test_security_group_changes_are_sent_to_hosts(api):
    """All network services refresh filters when a rule comes or goes: hosts of agents are not known by port."""
    api.add_port(str(uuid.UUID(int=77)), host='far', device_id=api.server)
    group = _group(api)
    with api.api_db.writer() as conn:
        security_groups.bind(conn, [(str(uuid.UUID(int=77)), group)])
    api.services.network.sent.clear()
    made = api.client().post('/os-security-group-rules', _rule(api, group)).json['security_group_rule']['id']
    api.client().delete(f'/os-security-group-rules/{made}')
    assert [(method, host) for method, host, _ in api.services.network.sent] == [('refresh_ports', None)] * 2


def test_security_groups_are_paged_and_listed_by_project(api):
    client = api.client()
    names = [group['name'] for group in client.get('/os-security-groups').json['security_groups']]
    page = client.get('/os-security-groups?limit=2&offset=1').json['security_groups']
    assert [group['name'] for group in page] == names[1:3]
    with api.api_db.writer() as conn:
        security_groups.ensure_default(conn, 'd' * 32)
    for all_tenants, found in (('?all_tenants=1', True), ('', False), ('?all_tenants=0', False)):
        groups = api.admin(project=base.PROJECT).get('/os-security-groups' + all_tenants).json['security_groups']
        assert (('d' * 32) in {group['tenant_id'] for group in groups}) is found
    mine = client.get('/os-security-groups?all_tenants=1').json['security_groups']
    assert {group['tenant_id'] for group in mine} == {base.PROJECT}


def test_floating_ips_belong_to_one_project(api):
    """A pool, an address, a server that has it; none of it is another project's."""
    client, other = api.client(), api.client(project='c' * 32)
    outside, inner, router, port = (str(uuid.uuid4()) for _ in range(4))
    now = {'created_at': utils.utcnow(), 'updated_at': utils.utcnow()}
    subnet = {'ip_version': 4, 'enable_dhcp': False, 'dns_nameservers': [], 'host_routes': [], **now}
    with api.api_db.writer() as conn:
        for ident, name, external in ((outside, 'public', True), (inner, 'blue', False)):
            conn.execute(t.networks.insert(), {
                'id': ident, 'name': name, 'external': external, 'bridge': 'br' + ident[:8], 'mtu': 1400,
                'project_id': base.PROJECT, 'network_type': 'flat' if external else 'vxlan', **now})
        for ident, network, cidr, gateway in ((outside, outside, '203.0.113.0/29', '203.0.113.1'),
                                              (inner, inner, '10.7.0.0/24', '10.7.0.1')):
            conn.execute(t.subnets.insert(), {
                'id': ident, 'network_id': network, 'cidr': cidr, 'gateway_ip': gateway, 'allocation_pools': [
                    {'start': gateway[:-1] + '2', 'end': gateway[:-1] + '3'}], **subnet})
        conn.execute(t.routers.insert(), {'id': router, 'project_id': base.PROJECT, 'external_network_id': outside,
                                          'routes': [], **now})
        conn.execute(t.router_interfaces.insert(), {'router_id': router, 'subnet_id': inner, 'port_id': 'x'})
        conn.execute(t.ports.insert(), {'id': port, 'network_id': inner, 'mac_address': 'fa:16:3e:77:00:01',
                                        'device_id': api.server, 'project_id': base.PROJECT, **now})
        conn.execute(t.addresses.insert(), {'subnet_id': inner, 'number': 7, 'address': '10.7.0.7', 'port_id': port})
    assert client.get('/os-floating-ip-pools').json == {'floating_ip_pools': [{'name': 'public'}]}
    assert client.post('/os-floating-ips', {'pool': 'absent'}).status == 404
    made = client.post('/os-floating-ips', {'pool': 'public'}).json['floating_ip']
    assert made == {**made, 'pool': 'public', 'fixed_ip': None, 'instance_id': None}
    path, action = f"/os-floating-ips/{made['id']}", f'/servers/{api.server}/action'
    for method, target in (('GET', path), ('DELETE', path)):
        assert other.request(method, target, None).status == 404
    address = {'address': made['ip']}
    assert client.post(action, {'addFloatingIp': {**address, 'fixed_address': '10.9.9.9'}}).status == 400
    assert client.post(action, {'addFloatingIp': {**address, 'fixed_address': '10.7.0.7'}}).status == 202
    assert client.get('/os-floating-ips').json['floating_ips'] == [
        {**made, 'fixed_ip': '10.7.0.7', 'instance_id': api.server}]
    assert other.get('/os-floating-ips').json['floating_ips'] == []
    assert client.post(action, {'removeFloatingIp': address}).status == 202
    assert client.post(action, {'removeFloatingIp': address}).status == 409
    assert client.delete(path).status == 202 and client.get(path).status == 404
    both = [client.post('/os-floating-ips', {}).json['floating_ip']['ip'] for _ in range(2)]
    assert len(set(both)) == 2 and client.post('/os-floating-ips', {}).status == 404           # no address is left


def test_builtin_network_resources_are_gone_unless_enabled_then_admin_only(api):
    """Gone unless the operator wants it, then for administrators, and until its last microversion."""
    admin, client = api.admin(project=base.PROJECT), api.client()
    path, interfaces = '/os-fixed-ips/10.44.0.200', f'/servers/{api.server}/os-virtual-interfaces'
    assert admin.get(path).status == client.get(interfaces).status == 410
    api.conf.set_override('nova_network_resources', True, 'api')
    try:
        for method, target, body in (('GET', path, None), ('POST', path + '/action', {'reserve': None}),
                                     ('GET', '/os-floating-ips-bulk', None), ('DELETE', '/os-networks/x', None)):
            assert client.request(method, target, body).status == 403, target
        known = {'address': '10.44.0.200', 'cidr': '10.44.0.0/24', 'host': None, 'hostname': None}
        assert admin.get(path).json == {'fixed_ip': known}
        assert admin.get(path, version='2.4').json == {'fixed_ip': {**known, 'reserved': False}}
        assert admin.post(path + '/action', {'reserve': None}).status == 202
        assert admin.post(path + '/action', {'reserve': None}).status == 409
        assert admin.get(path, version='2.4').json['fixed_ip']['reserved']
        assert admin.post(path + '/action', {'unreserve': None}).status == 202
        assert admin.get('/os-fixed-ips/192.0.2.1').status == 404 and admin.get('/os-fixed-ips/x').status == 400
        assert admin.get(path, version='2.36').status == 404
        listed = admin.get('/os-floating-ips-bulk').json['floating_ip_info']
        assert {row['pool'] for row in listed} <= {'public'} and admin.get(
            '/os-floating-ips-bulk/nowhere').json == {'floating_ip_info': []}
        shown = client.get(interfaces, version='2.12').json['virtual_interfaces']
        assert [sorted(row) for row in shown] == [['id', 'mac_address', 'net_id']] * len(shown)
        assert api.client(project='c' * 32).get(interfaces).status == 404
        assert admin.delete(f'/os-networks/{NOBODY}').status == 404
        assert admin.delete(f'/os-networks/{api.network_id}').status in (202, 409)
        assert admin.post('/os-networks', {'network': {}}).status == 400
    finally:
        api.conf.clear_override('nova_network_resources', 'api')
