"""What nova-network's API wrote, where [api] nova_network_resources is on: networks, ranges, default rules."""
import pytest

from nova.api.documents import removed
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.legacy_network import network_writes
from nova.network.operators import networks as operators
from nova.network.rest import app
from nova.tests.functional import base
from nova.tests.functional import servers

OTHER = 'c' * 32
NOBODY = '00000000-0000-0000-0000-000000000009'
RULES = '/os-security-group-default-rules'
BULK = '/os-floating-ips-bulk'
WEB = {'ip_protocol': 'TCP', 'from_port': '80', 'to_port': 80, 'cidr': '10.10.12.0/24'}


@pytest.fixture
def api(tmp_path):
    fixture = servers.Servers(tmp_path, api__nova_network_resources=True,
                              network__physical_networks='wire:br-wire', network__vlan_ranges='wire:100:199')
    yield fixture
    fixture.close()


def _message(answer):
    return next(iter(answer.json.values()))['message']


def _made(client, **network):
    answer = client.post('/os-networks', {'network': network})
    assert answer.status == 200, answer.body
    return answer.json['network']


def test_all_is_gone_without_the_option(tmp_path):
    fixture = servers.Servers(tmp_path)
    admin = fixture.admin(project=base.PROJECT)
    for method, path, body in (
            ('POST', '/os-networks', {'network': {'label': 'blue', 'cidr': '10.7.0.0/24'}}),
            ('POST', '/os-networks', {}), ('POST', '/os-networks/add', {'id': None}),
            ('POST', '/os-tenant-networks', {'network': {}}),
            ('DELETE', f'/os-tenant-networks/{NOBODY}', None), ('GET', RULES, None),
            ('POST', RULES, {'security_group_default_rule': WEB}), ('GET', f'{RULES}/{NOBODY}', None),
            ('DELETE', f'{RULES}/{NOBODY}', None), ('POST', BULK, {}), ('PUT', BULK + '/delete', {'ip_range': 'x'}),
            ('GET', '/os-floating-ip-dns', None), ('PUT', '/os-floating-ip-dns/example.org', {}),
            ('GET', '/os-floating-ip-dns/example.org/entries/a', None), ('GET', '/os-fping', None)):
        answer = admin.request(method, path, body)
        assert answer.status == 410 and removed.WHY in _message(answer), (method, path)
    fixture.close()


def test_each_is_for_whom_its_rule_says_and_ends_with_2_35(api):
    admin, client = api.admin(project=base.PROJECT), api.client()
    for (path, name), row in removed.SERVED.items():
        if row.part != removed.NETWORK:
            continue
        method, body = (name, {} if row.body else None) if name.isupper() else ('POST', {name: None})
        target = '/' + path.format(id=NOBODY, server_id=NOBODY, domain_id=NOBODY)
        if row.rule not in (None, 'nova:tenant-networks', 'nova:floating-ip-dns', 'nova:floating-ip-dns:show'):
            assert client.request(method, target, body).status == 403, target
        assert admin.request(method, target, body, version=f'2.{row.last + 1}').status == 404, target
    reader = api.client(roles=('reader',))
    assert reader.post('/os-tenant-networks', {'network': {'label': 'n', 'cidr': '10.7.0.0/24'}}).status == 403


def test_unsupported_network_resources_return_410_with_the_reason(api):
    admin = api.admin(project=base.PROJECT)
    for method, path, body in (('GET', '/os-fping', None),
                               ('POST', f'/os-networks/{NOBODY}/action', {'associate_host': 'host1'}),
                               ('POST', f'/os-networks/{NOBODY}/action', {'disassociate_host': None})):
        answer = admin.request(method, path, body)
        assert answer.status == 410 and removed.WHY not in _message(answer), path
        assert any(why in _message(answer) for why in removed.REFUSED.values()), path


# ---- networks --------------------------------------------------------------------

def test_an_administrators_network_is_for_all_projects(api):
    admin, stranger = api.admin(project=base.PROJECT), api.client(project=OTHER)
    made = _made(admin, label='blue', cidr='10.7.0.0/24', cidr_v6='fd00:7::/64', dns1='192.0.2.1', dns2='192.0.2.2',
                 gateway='10.7.0.9', allowed_start='10.7.0.20', allowed_end='10.7.0.30', mtu=1300, bridge=None)
    assert made == {
        **made, 'label': 'blue', 'cidr': '10.7.0.0/24', 'gateway': '10.7.0.9', 'dns1': '192.0.2.1', 'dns2': '192.0.2.2',
        'dhcp_start': '10.7.0.20', 'mtu': 1300, 'project_id': None, 'enable_dhcp': 'True', 'cidr_v6': 'fd00:7::/64',
        'gateway_v6': 'fd00:7::1', 'netmask_v6': 'ffff:ffff:ffff:ffff::'}
    assert admin.get(f'/os-networks/{made["id"]}').json['network'] == made
    assert stranger.get(f'/os-networks/{made["id"]}').json['network']['label'] == 'blue'
    with api.api_db.reader() as conn:
        subnets = networks.many(conn, t.subnets, [made['id']], 'network_id')
        assert networks.get(conn, t.networks, made['id'])['shared']
    assert {(row['ip_version'], row['ipv6_address_mode'], row['project_id']) for row in subnets} == {
        (4, None, ''), (6, 'slaac', '')}
    assert stranger.delete(f'/os-tenant-networks/{made["id"]}').status == 403
    assert admin.delete(f'/os-networks/{made["id"]}').status == 202
    assert admin.get(f'/os-networks/{made["id"]}').status == 404
    assert [method for method, *_ in api.services.network.sent] == ['refresh_ports'] * 2


def test_a_project_gets_a_network_and_gives_it_back(api):
    admin, stranger = api.admin(project=base.PROJECT), api.client(project=OTHER)
    made = _made(admin, label='blue', cidr='10.7.0.0/24', project_id=base.PROJECT)
    path = f'/os-networks/{made["id"]}'
    assert made['project_id'] == base.PROJECT and stranger.get(path).status == 404
    assert admin.post(path + '/action', {'disassociate': None}).status == 202
    assert admin.get(path).json['network']['project_id'] is None and stranger.get(path).status == 200
    assert admin.post('/os-networks/add', {'id': made['id']}).status == 202
    assert admin.get(path).json['network']['project_id'] == base.PROJECT and stranger.get(path).status == 404
    assert api.admin(project=OTHER).post('/os-networks/add', {'id': made['id']}).status == 409
    assert admin.post('/os-networks/add', {'id': None}).status == 409                 # no network is free
    assert admin.post(path + '/action', {'disassociate_project': None}).status == 202
    assert admin.post('/os-networks/add', {'id': None}).status == 202                 # this one is
    assert admin.get(path).json['network']['project_id'] == base.PROJECT
    for wanted, code in ((NOBODY, 404), (api.network_id, 409), ('x' * 300, 400)):     # the one of the configuration
        assert admin.post('/os-networks/add', {'id': wanted}).status == code, wanted


def test_shares_by_the_former_owner_end_when_a_network_changes_its_project(api):
    admin, former = api.admin(project=base.PROJECT), 'd' * 32
    made = _made(admin, label='blue', cidr='10.7.0.0/24', project_id=OTHER)
    with api.api_db.writer() as conn:
        networks.insert(conn, t.shares, [{'id': NOBODY, 'project_id': OTHER, 'network_id': made['id'],
                                          'action': 'access_as_shared', 'target_project': former}])
    with api.api_db.reader() as conn:
        assert made['id'] in networks.usable(conn, former)
    assert admin.post(f'/os-networks/{made["id"]}/action', {'disassociate': None}).status == 202
    assert admin.post('/os-networks/add', {'id': made['id']}).status == 202
    with api.api_db.reader() as conn:
        assert made['id'] not in networks.usable(conn, former)
        assert {port['project_id'] for port in ports.in_network(conn, made['id'])} == {base.PROJECT}


def test_a_network_in_use_is_not_made_one_for_all(api):
    """The router of the project that had it would lead the packets of all."""
    admin = api.admin(project=base.PROJECT)
    made = _made(admin, label='blue', cidr='10.7.0.0/24', project_id=base.PROJECT)
    api.add_port(NOBODY, network_id=made['id'], project_id=base.PROJECT)
    assert admin.post(f'/os-networks/{made["id"]}/action', {'disassociate': None}).status == 409
    assert admin.get(f'/os-networks/{made["id"]}').json['network']['project_id'] == base.PROJECT


def test_a_network_with_ports_of_others_is_given_to_nobody(api):
    admin = api.admin(project=base.PROJECT)
    made = _made(admin, label='blue', cidr='10.7.0.0/24')
    api.add_port(NOBODY, network_id=made['id'], project_id=OTHER)
    assert admin.post('/os-networks/add', {'id': made['id']}).status == 409
    assert admin.post('/os-networks/add', {'id': None}).status == 409
    assert admin.delete(f'/os-networks/{made["id"]}').status == 409
    assert admin.get(f'/os-networks/{made["id"]}').json['network']['project_id'] is None


def test_a_network_may_be_a_vlan(api):
    admin = api.admin(project=base.PROJECT)
    made = _made(admin, label='tagged', cidr='10.8.0.0/24', vlan='150', project_id=base.PROJECT)
    with api.api_db.reader() as conn:
        assert networks.vlans_of(conn, [made['id']]) == {made['id']: 150}
    again = {'label': 'tagged', 'cidr': '10.9.0.0/24', 'vlan_start': 150}
    assert admin.post('/os-networks', {'network': again}).status in (400, 409)
    assert {row['label'] for row in admin.get('/os-networks').json['networks']} == {'private', 'tagged'}


BAD_NETWORKS = [
    {}, {'label': 'n'}, {'cidr': '10.7.0.0/24'}, {'label': '', 'cidr': '10.7.0.0/24'}, {'label': 'n', 'cidr': 'what'},
    {'label': 'n' * 256, 'cidr': '10.7.0.0/24'}, {'label': 'n', 'cidr': '10.7.0.0/24', 'other': 1},
    {'label': 'n', 'cidr': '10.7.0.0/31'}, {'label': 'n', 'cidr': '10.7.0.0/24', 'gateway': '10.9.0.1'},
    {'label': 'n', 'cidr': '10.7.0.0/24', 'allowed_start': '10.7.0.5'},
    {'label': 'n', 'cidr': '10.7.0.0/24', 'cidr_v6': 'fd00:7::/80'}, {'label': 'n', 'cidr_v6': '10.7.0.0/24'},
    {'label': 'n', 'cidr': '10.7.0.0/24', 'vlan': 5, 'vlan_start': 5},
    {'label': 'n', 'cidr': '10.7.0.0/24', 'vlan': 5000},
    {'label': 'n', 'cidr_v6': 'fd00::%eth0/64'}, {'label': 'n', 'cidr': '10.7.0.0/24', 'mtu': 'much'},
    {'label': 'n', 'cidr': '10.7.0.0/24', 'dns1': 'fd00::1'},
    *({'label': 'n', 'cidr': '10.7.0.0/24', name: 'x'} for name in network_writes.REFUSED),
]


def test_bad_networks_leave_nothing_behind(api):
    admin = api.admin(project=base.PROJECT)
    for network in BAD_NETWORKS:
        assert admin.post('/os-networks', {'network': network}).status == 400, network
    assert [row['label'] for row in admin.get('/os-networks').json['networks']] == ['private']


def test_project_manages_its_own_networks(api):
    client, stranger = api.client(), api.client(project=OTHER)
    made = [client.post('/os-tenant-networks', {'network': {'label': 'mine', 'cidr': cidr}}).json['network']
            for cidr in ('10.7.0.0/24', 'fd00:7::/64')]
    assert made == [{'id': made[0]['id'], 'label': 'mine', 'cidr': '10.7.0.0/24'},
                    {'id': made[1]['id'], 'label': 'mine', 'cidr': 'fd00:7::/64'}]
    path = f'/os-tenant-networks/{made[0]["id"]}'
    assert client.get(path).json['network'] == made[0] and stranger.get(path).status == 404
    assert stranger.delete(path).status == 404 and client.delete(f'/os-tenant-networks/{api.network_id}').status == 403
    for network in ({}, {'label': 'n'}, {'label': 'n', 'cidr': 'x'}, {'label': 'n', 'cidr': '10.0.0.0/24', 'vlan': 5}):
        assert client.post('/os-tenant-networks', {'network': network}).status == 400, network
    assert client.delete(path).status == 202 and client.get(path).status == 404


def test_a_projects_networks_have_a_quota(tmp_path):
    fixture = servers.Servers(tmp_path, api__nova_network_resources=True, network__quota='network:1')
    body = {'network': {'label': 'mine', 'cidr': '10.7.0.0/24'}}
    assert [fixture.client().post('/os-tenant-networks', body).status for _ in range(2)] == [200, 409]
    assert fixture.admin(project=base.PROJECT).post('/os-networks', {'network': {
        'label': 'ours', 'cidr': '10.8.0.0/24', 'project_id': base.PROJECT}}).status == 409
    fixture.close()


# ---- ranges of floating addresses -----------------------------------------------

def test_administrators_manage_floating_ranges(api):
    admin, client = api.admin(project=base.PROJECT), api.client()
    body = {'floating_ips_bulk_create': {'ip_range': '203.0.113.0/29'}}
    assert admin.post(BULK, body).json == {'floating_ips_bulk_create': {
        'ip_range': '203.0.113.0/29', 'pool': 'public', 'interface': None}}
    assert admin.post(BULK, body).status == 409
    assert client.get('/os-floating-ip-pools').json == {'floating_ip_pools': [{'name': 'public'}]}
    address = client.post('/os-floating-ips', {'pool': 'public'}).json['floating_ip']
    assert address['ip'] in {f'203.0.113.{number}' for number in range(2, 7)}
    shown = admin.get(BULK).json['floating_ip_info']
    assert [(row['address'], row['pool'], row['project_id']) for row in shown] == [
        (f'203.0.113.{number}', 'public', base.PROJECT if address['ip'].endswith(f'.{number}') else None)
        for number in range(2, 7)]                       # also those that nobody has
    assert admin.get(BULK + '/host1').json['floating_ip_info'] == []
    gone = {'ip_range': '203.0.113.0/29'}
    assert admin.put(BULK + '/delete', gone).status == 409
    client.delete(f'/os-floating-ips/{address["id"]}')
    assert admin.put(BULK + '/delete', gone).json == {'floating_ips_bulk_delete': '203.0.113.0/29'}
    assert admin.put(BULK + '/delete', gone).status == 404 and admin.put(BULK + '/other', gone).status == 404


def test_a_list_of_floating_addresses_ends_somewhere(api, monkeypatch):
    admin = api.admin(project=base.PROJECT)
    admin.post(BULK, {'floating_ips_bulk_create': {'ip_range': '10.128.0.0/9', 'pool': 'wide'}})
    admin.post(BULK, {'floating_ips_bulk_create': {'ip_range': '203.0.113.0/29'}})
    assert len(admin.get(BULK).json['floating_ip_info']) == operators.MAX_FREE_ADDRESSES
    taken = api.client().post('/os-floating-ips', {'pool': 'wide'}).json['floating_ip']['ip']
    monkeypatch.setattr(operators, 'MAX_FREE_ADDRESSES', 5)
    listed = [row['address'] for row in admin.get(BULK).json['floating_ip_info']]
    assert len(listed) == 6 and taken in listed


def test_the_audit_log_names_the_range(api):
    admin, given = api.admin(project=base.PROJECT), {'ip_range': '203.0.113.0/29'}
    answers = [admin.post(BULK, {'floating_ips_bulk_create': given}),
               admin.post(BULK, {'floating_ips_bulk_create': given}), admin.put(BULK + '/delete', given)]
    assert [answer.status for answer in answers] == [200, 409, 200]
    for answer in answers:
        record, = admin.get('/os-audit?request_id=' + answer.headers['x-openstack-request-id']).json['audit_records']
        assert given['ip_range'] in (record['target_id'], record['target_part']), record


def test_floating_range_may_name_an_interface(api):
    admin = api.admin(project=base.PROJECT)
    given = {'ip_range': '203.0.113.0/29', 'pool': 'wired', 'interface': 'wire'}
    assert admin.post(BULK, {'floating_ips_bulk_create': given}).json == {'floating_ips_bulk_create': given}
    with api.api_db.reader() as conn:
        ident, = (row['id'] for row in conn.execute(t.networks.select()).mappings() if row['name'] == 'wired')
    assert admin.post(f'/os-networks/{ident}/action', {'disassociate': None}).status == 409
    more = {'ip_range': '203.0.113.8/29', 'pool': 'wired', 'interface': None}
    assert admin.post(BULK, {'floating_ips_bulk_create': more}).json == {'floating_ips_bulk_create': {
        **more, 'interface': 'wire'}}


BAD_RANGES = [
    {}, {'ip_range': 'x'}, {'ip_range': '203.0.113.0/31'}, {'ip_range': 'fd00::/64'}, {'ip_range': '203.0.113.1/29'},
    {'ip_range': '203.0.113.0/29', 'interface': 'eth7'}, {'ip_range': '203.0.113.0/29', 'more': 1},
    {'ip_range': '203.0.113.0/29', 'pool': 'x' * 256}, {'ip_range': '203.0.113.0/29', 'pool': 5},
    {'ip_range': '203.0.113.0/29', 'pool': 'a\nb'},
]


def test_invalid_floating_ranges_return_400(api):
    admin = api.admin(project=base.PROJECT)
    for given in BAD_RANGES:
        assert admin.post(BULK, {'floating_ips_bulk_create': given}).status == 400, given
    assert admin.get('/os-floating-ip-pools').json == {'floating_ip_pools': []}


# ---- what default groups begin with ----------------------------------------------

def test_default_groups_begin_with_default_rules(api):
    admin = api.admin(project=base.PROJECT)
    assert admin.get(RULES).json == {'security_group_default_rules': []}
    made = admin.post(RULES, {'security_group_default_rule': WEB}).json['security_group_default_rule']
    assert made == {'id': made['id'], 'ip_protocol': 'tcp', 'from_port': 80, 'to_port': 80,
                    'ip_range': {'cidr': '10.10.12.0/24'}}
    pings = admin.post(RULES, {'security_group_default_rule': {
        'ip_protocol': 'icmp', 'from_port': -1, 'to_port': -1}}).json['security_group_default_rule']
    assert (pings['from_port'], pings['ip_range']) == (-1, {'cidr': '0.0.0.0/0'})
    six = admin.post(RULES, {'security_group_default_rule': {
        'ip_protocol': 'icmp', 'from_port': -1, 'to_port': -1, 'cidr': 'fd00::/16'}}).json[
            'security_group_default_rule']
    assert six['ip_protocol'] == 'icmpv6'
    listed = admin.get(RULES).json['security_group_default_rules']
    assert sorted(row['id'] for row in listed) == sorted((made['id'], pings['id'], six['id']))
    assert admin.get(f'{RULES}/{made["id"]}').json == {'security_group_default_rule': made}
    assert admin.post(RULES, {'security_group_default_rule': WEB}).status == 409
    assert _let_in(api, 'd' * 32, True) == {('tcp', '10.10.12.0/24'), ('icmp', None), ('icmpv6', 'fd00::/16')}
    assert _let_in(api, 'd' * 32, False) == set()
    assert admin.delete(f'{RULES}/{made["id"]}').status == 204
    assert admin.delete(f'{RULES}/{made["id"]}').status == admin.get(f'{RULES}/{made["id"]}').status == 404
    assert _let_in(api, 'e' * 32, True) == {('icmp', None), ('icmpv6', 'fd00::/16')}


def _let_in(api, project, default):
    """{(protocol, range)} that a new group of a project lets in from addresses."""
    if default:
        with api.api_db.writer() as conn:
            group = security_groups.ensure_default(conn, project)
    else:
        group = api.client(project=project).post('/os-security-groups', {'security_group': {
            'name': 'other', 'description': ''}}).json['security_group']['id']
    with api.api_db.reader() as conn:
        return {(rule['protocol'], rule['remote_ip_prefix'])
                for rule in networks.many(conn, t.security_group_rules, [group], 'security_group_id')
                if rule['direction'] == 'ingress' and not rule['remote_group_id']}


def test_templates_without_words_here_are_not_touched(api):
    """The rule that lets everything out is a template of the Network API: this one neither shows nor deletes it."""
    with api.api_db.writer() as conn:
        resource = app.RESOURCES['default-security-group-rules']
        resource.prepare(conn, None)
        idents = [row['id'] for row in conn.execute(t.default_group_rules.select()).mappings()]
    admin = api.admin(project=base.PROJECT)
    assert idents and admin.get(RULES).json == {'security_group_default_rules': []}
    assert {admin.delete(f'{RULES}/{ident}').status for ident in idents} == {404}


BAD_RULES = [
    {'ip_protocol': 'sctp'}, {'ip_protocol': None}, {'from_port': 'x'}, {'from_port': 99}, {'to_port': 70000},
    {'from_port': '--5'}, {'cidr': 'nowhere'}, {'cidr': 5}, {'from_port': True}, {'to_port': 1.5}, {'group_id': NOBODY},
]


def test_invalid_default_rules_return_400(api):
    admin = api.admin(project=base.PROJECT)
    for more in BAD_RULES:
        assert admin.post(RULES, {'security_group_default_rule': {**WEB, **more}}).status == 400, more
    assert admin.get(RULES).json == {'security_group_default_rules': []}
