"""Protocols of security group rules: returned as sent, compared by what they mean."""
import pytest

from nova.network.host import load
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def group(face, name='g'):
    return face('demo', 'POST', 'security-groups', {'security_group': {'name': name}}).json()['security_group']['id']


def add(face, group_id, **values):
    return face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group_id, 'direction': 'ingress', **values}})


@pytest.mark.parametrize('given, ethertype, shown', [
    ('112', 'IPv4', '112'), (112, 'IPv4', '112'), ('vrrp', 'IPv4', 'vrrp'), ('6', 'IPv4', '6'), ('TCP', 'IPv4', 'tcp'),
    ('ipv6-icmp', 'IPv6', 'ipv6-icmp'), ('icmpv6', 'IPv6', 'icmpv6'), ('58', 'IPv6', '58'), ('icmp', 'IPv6', 'icmp'),
    ('ipv6-frag', 'IPv6', 'ipv6-frag'), ('any', 'IPv4', 'any'), ('0', 'IPv4', '0'), (None, 'IPv4', None),
    ('99', 'IPv6', '99')])
def test_protocol_is_returned_and_found_as_sent(face, given, ethertype, shown):
    group_id = group(face)
    made = add(face, group_id, protocol=given, ethertype=ethertype)
    assert made.status_code == 201, made.text
    rule = made.json()['security_group_rule']
    assert rule['protocol'] == shown
    path = f"security-group-rules?security_group_id={group_id}&direction=ingress&protocol={given or ''}"
    assert [row['id'] for row in face('demo', 'GET', path).json()['security_group_rules']] == [rule['id']]
    read = face('demo', 'GET', f'security-groups/{group_id}').json()['security_group']['security_group_rules']
    assert [row['protocol'] for row in read if row['id'] == rule['id']] == [shown]


@pytest.mark.parametrize('first, second', [
    ({'protocol': 'vrrp'}, {'protocol': '112'}), ({'protocol': 112}, {'protocol': 'VRRP'}),
    ({'protocol': 'ipv6-icmp', 'ethertype': 'IPv6'}, {'protocol': 'icmpv6', 'ethertype': 'IPv6'}),
    ({'protocol': '58', 'ethertype': 'IPv6'}, {'protocol': 'icmp', 'ethertype': 'IPv6'}),
    ({'protocol': '44', 'ethertype': 'IPv6'}, {'protocol': 'ipv6-frag', 'ethertype': 'IPv6'}),
    ({'protocol': 'any'}, {}), ({}, {'protocol': 0}),
    ({'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 22}, {
        'protocol': '6', 'port_range_min': 22, 'port_range_max': 22}),
    ({'remote_ip_prefix': '10.2.3.4/24'}, {'remote_ip_prefix': '10.2.3.0/24'}),
    ({'remote_ip_prefix': '0.0.0.0/0'}, {})])
def test_equal_rules_are_duplicates_in_any_form(face, first, second):
    group_id = group(face)
    made = add(face, group_id, **first)
    again = add(face, group_id, **second)
    assert (made.status_code, again.status_code) == (201, 409), again.text
    assert again.json()['NeutronError']['type'] == 'SecurityGroupRuleExists'
    assert made.json()['security_group_rule']['id'] in again.json()['NeutronError']['message']


@pytest.mark.parametrize('protocol', ['icmpv6', 'ipv6-icmp', '58', 'ipv6-encap', 41, 'ipv6-route', 'ipv6-frag', '59',
                                      'ipv6-opts'])
def test_protocol_of_ipv6_is_refused_for_ipv4(face, protocol):
    refused = add(face, group(face), protocol=protocol, ethertype='IPv4')
    assert refused.status_code == 400 and 'ethertype IPv4' in refused.json()['NeutronError']['message']
    assert add(face, group(face), protocol=protocol, ethertype='IPv6').status_code == 201


@pytest.mark.parametrize('protocol', ['', '-1', -1, 'x', '256', '0x6', True])
def test_unknown_protocol_is_refused(face, protocol):
    assert add(face, group(face), protocol=protocol).status_code == 400


def test_templates_keep_the_form_too(face):
    def template(protocol):
        return face('admin', 'POST', 'default-security-group-rules', {'default_security_group_rule': {
            'direction': 'ingress', 'protocol': protocol}})
    made = template('112')
    assert made.json()['default_security_group_rule']['protocol'] == '112'
    assert template('vrrp').status_code == 409
    found = face('admin', 'GET', 'default-security-group-rules?protocol=vrrp').json()['default_security_group_rules']
    assert [row['id'] for row in found] == [made.json()['default_security_group_rule']['id']]


def test_hosts_get_one_form(face):
    """Network services of any release know names and numbers, and the ports of a rule belong to a name."""
    group_id = group(face)
    for given in ({'protocol': '6', 'port_range_min': 80, 'port_range_max': 80}, {'protocol': 'any'},
                  {'protocol': 'ipv6-frag', 'ethertype': 'IPv6'}, {'protocol': 'icmp', 'ethertype': 'IPv6'}):
        assert add(face, group_id, **given).status_code == 201
    port = face('demo', 'POST', 'ports', {'port': {
        'network_id': face.network_id, 'security_groups': [group_id]}}).json()['port']
    face.allocate(unit.make_instance(), [{'port_id': port['id'], 'network_id': None}])
    with face.db.reader() as conn:
        rules = load.load(conn, 'host1', lambda ident: 'tap' + ident[:11]).rules[group_id]
    assert sorted(str(rule['protocol']) for rule in rules if rule['direction'] == 'ingress') == [
        '44', 'None', 'icmpv6', 'tcp']


def test_a_rule_is_changed_and_keeps_its_id(face):
    """EC2 changes ports and peers of a rule. Neutron changes its description only."""
    group_id = group(face)
    rule = add(face, group_id, protocol='tcp', port_range_min=22, port_range_max=22, description='kept').json()[
        'security_group_rule']['id']
    other = add(face, group_id, protocol='udp', remote_ip_prefix='2001:db8::/64', ethertype='IPv6').json()[
        'security_group_rule']['id']

    def change(**values):
        return face('demo', 'PUT', f'security-group-rules/{rule}', {'security_group_rule': values})
    answer = change(port_range_max=23, remote_ip_prefix='192.0.2.0/24')
    assert answer.status_code == 200, answer.text
    found = face('demo', 'GET', f'security-group-rules/{rule}').json()['security_group_rule']
    assert answer.json()['security_group_rule'] == found
    assert {name: found[name] for name in ('description', 'ethertype', 'protocol', 'port_range_min', 'port_range_max',
                                           'remote_ip_prefix')} == {
        'description': 'kept', 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 23,
        'remote_ip_prefix': '192.0.2.0/24'}
    wrong = ({'port_range_min': 24}, {'ethertype': 'IPv6'}, {'protocol': None}, {'remote_group_id': group_id},
             {'direction': 'egress'}, {'security_group_id': group_id + '0'})
    assert [change(**values).status_code for values in wrong] == [400] * len(wrong)
    assert change(remote_group_id=group(face, 'other'), remote_ip_prefix=None).status_code == 200
    assert change(remote_group_id='11111111-2222-3333-4444-555555555555').status_code == 404
    same = {'protocol': 'udp', 'remote_ip_prefix': '2001:db8::/64', 'ethertype': 'IPv6', 'port_range_min': None,
            'port_range_max': None, 'remote_group_id': None}
    assert change(**same).status_code == 409
    face('demo', 'DELETE', f'security-group-rules/{other}')
    assert change(**same).status_code == 200


def test_group_becomes_stateless_only_while_no_port_is_in_it(face):
    made = face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}).json()['security_group']
    assert made['stateful'] is True
    path = f"security-groups/{made['id']}"
    assert face('demo', 'PUT', path, {'security_group': {'stateful': False}}).json()['security_group'][
        'stateful'] is False
    other = face('demo', 'POST', 'security-groups', {'security_group': {'name': 'h', 'stateful': False}})
    assert other.json()['security_group']['stateful'] is False
    assert [row['id'] for row in face('demo', 'GET', 'security-groups?stateful=true&name=g').json()[
        'security_groups']] == []
    network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
    face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.9.0.0/24', 'ip_version': 4}})
    face('demo', 'POST', 'ports', {'port': {'network_id': network, 'security_groups': [made['id']]}})
    assert face('demo', 'PUT', path, {'security_group': {'stateful': True}}).status_code == 409
    assert face('demo', 'PUT', path, {'security_group': {'stateful': False, 'name': 'n'}}).status_code == 200
