"""What new groups begin with, what is made for a project that has no network, and networks that become others."""
import concurrent.futures

from oslo_db import exception as db_exc
import pytest

from nova import exception
from nova.db.networks import topologies
from nova.network import api
from nova.tests.support import network_api as test_network_api
from nova.tests.support.network_routers import inside
from nova.tests.support.network_routers import ok
from nova.tests.support.network_routers import outside
from nova.tests.support.network_routers import put
from nova.tests.support.network_routers import router

RULES = 'default-security-group-rules'


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


ALL_OUT = ('egress', 'IPv4', None, None, False)
SSH_IN = ('ingress', 'IPv4', 'tcp', 22, False)


def rules_of(face, user, name):
    groups = face(user, 'GET', f'security-groups?name={name}').json()['security_groups']
    return sorted(((rule['direction'], rule['ethertype'], rule['protocol'], rule['port_range_min'],
                    rule['remote_group_id'] == groups[0]['id']) for rule in groups[0]['security_group_rules']), key=str)


def test_openstackclient_manages_default_rules(face):
    """By the unmodified client: what there is from the start, one more, one less; groups that are there stay so."""
    before = face.cli('default', 'security', 'group', 'rule', 'list')
    assert sorted(f"{each['Direction']} {each['Remote Security Group']}" for each in before) == [
        'egress None', 'egress None', 'ingress PARENT', 'ingress PARENT']
    assert rules_of(face, 'demo', 'default') == [
        ('egress', 'IPv4', None, None, False), ('egress', 'IPv6', None, None, False),
        ('ingress', 'IPv4', None, None, True), ('ingress', 'IPv6', None, None, True)]
    face.cli('default', 'security', 'group', 'rule', 'create', '--protocol', 'tcp', '--dst-port', '22',
             '--for-default-sg', '--for-custom-sg')
    for each in before:
        if each['Direction'] == 'egress' and each['Ethertype'] == 'IPv6':
            face.cli('default', 'security', 'group', 'rule', 'delete', each['ID'])
    ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 'mine'}}))
    assert rules_of(face, 'demo', 'mine') == [ALL_OUT, SSH_IN]
    assert len(rules_of(face, 'demo', 'default')) == 4
    assert rules_of(face, 'other', 'default') == [
        ('egress', 'IPv4', None, None, False), ('ingress', 'IPv4', 'tcp', 22, False),
        ('ingress', 'IPv4', None, None, True), ('ingress', 'IPv6', None, None, True)]


def test_templates_are_an_administrators(face):
    rule = {'default_security_group_rule': {'direction': 'ingress', 'protocol': 'udp'}}
    assert face('demo', 'POST', RULES, rule).status_code == 403
    known = face('demo', 'GET', RULES).json()['default_security_group_rules']
    assert len(known) == 4
    assert face('demo', 'DELETE', f"{RULES}/{known[0]['id']}").status_code == 403
    made = ok(face('admin', 'POST', RULES, rule))
    assert face('admin', 'POST', RULES, rule).status_code == 409
    assert face('admin', 'PUT', f"{RULES}/{made['id']}", rule).status_code == 400
    for more in ({'remote_group_id': 'x'}, {'port_range_min': 5}, {'security_group_id': 'x'}, {'ethertype': 'x'}):
        bad = {'default_security_group_rule': {'direction': 'ingress', 'protocol': 'tcp', **more}}
        assert face('admin', 'POST', RULES, bad).status_code == 400, more
    for each in face('admin', 'GET', RULES).json()['default_security_group_rules']:
        assert face('admin', 'DELETE', f"{RULES}/{each['id']}").status_code == 204
    ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 'bare'}}))
    assert rules_of(face, 'demo', 'bare') == []


def prepared(face):
    public = outside(face)
    put(face, f'networks/{public}', {'network': {'is_default': True}}, user='admin')
    ok(face('admin', 'POST', 'subnetpools', {'subnetpool': {
        'name': 'ten', 'prefixes': ['10.0.0.0/8'], 'default_prefixlen': 24, 'shared': True, 'is_default': True}}))
    return public


def test_auto_allocated_topology_is_created_once(face):
    """One request that names nothing; the same network for all that ask, and for another project another one."""
    path = 'auto-allocated-topology/p1'
    assert face('demo', 'GET', path).json()['NeutronError']['type'] == 'AutoAllocationFailure'
    assert face('demo', 'GET', path + '?fields=dry-run').status_code == 409
    public = prepared(face)
    assert face('demo', 'GET', path + '?fields=dry-run').json()['auto_allocated_topology']['id'] == 'dry-run=pass'
    assert face('demo', 'GET', 'routers').json()['routers'] == []
    assert face('demo', 'GET', 'auto-allocated-topology/p2').status_code == 404
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        made = {each.json()['auto_allocated_topology']['id'] for each in pool.map(
            lambda _number: face('demo', 'GET', path), range(3))}
    assert len(made) == 1
    network, = [each for each in face('demo', 'GET', 'networks').json()['networks'] if each['id'] in made]
    assert (network['project_id'], network['name']) == ('p1', 'auto_allocated_network')
    joined, = face('demo', 'GET', 'routers').json()['routers']
    assert joined['external_gateway_info']['network_id'] == public and joined['project_id'] == 'p1'
    ports = face('demo', 'GET', f"ports?device_id={joined['id']}&network_id={network['id']}").json()['ports']
    assert ports[0]['device_owner'] == 'network:router_interface'
    theirs = face('other', 'GET', 'auto-allocated-topology/null').json()['auto_allocated_topology']
    assert theirs['id'] not in made and theirs['project_id'] == 'p2'
    used = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network['id']}}))
    assert face('demo', 'DELETE', path).status_code == 409
    assert len(face('demo', 'GET', 'routers').json()['routers']) == 1                  # nothing half done
    assert face('demo', 'DELETE', f"ports/{used['id']}").status_code == 204
    assert face('demo', 'DELETE', path).status_code == 204
    assert face('demo', 'GET', 'routers').json()['routers'] == []
    assert face('demo', 'DELETE', path).status_code == 404
    client = face.sdk('demo', '/v2.0').network
    assert client.validate_auto_allocated_topology('p1').id == 'dry-run=pass'
    assert client.get_auto_allocated_topology('p1').id


def test_a_concurrent_request_does_not_replace_a_topology(face):
    """Both requests have read that there is none; the second one must begin again."""
    first, second = inside(face)[0], ok(face('demo', 'POST', 'networks', {'network': {'name': 'second'}}))['id']
    with face.db.writer() as conn:
        topologies.insert(conn, 'p7', 'a deleted network', 'r0')
        topologies.insert(conn, 'p7', first, 'r1')
    with pytest.raises(db_exc.DBDuplicateEntry), face.db.writer() as conn:
        topologies.insert(conn, 'p7', second, 'r2')
    with face.db.reader() as conn:
        assert topologies.of(conn, 'p7')['router_id'] == 'r1'


def test_server_with_auto_network_gets_a_new_network(face):
    """``--nic auto`` of a project that has none."""
    facade = api.API(face.db, face.conf)
    context = face.context.elevated() if hasattr(face.context, 'elevated') else face.context
    context.project_id = 'p9'
    for each in face('admin', 'GET', 'networks?shared=true').json()['networks']:          # the default one
        for subnet in each['subnets']:
            face('admin', 'DELETE', f'subnets/{subnet}')
    with pytest.raises(exception.NetworkRequestInvalid, match='No default router:external network'):
        facade.validate_networks(context, 'auto')
    facade.validate_networks(context, None)
    prepared(face)
    facade.validate_networks(context, 'auto')
    assert face('admin', 'GET', 'networks?project_id=p9').json()['networks'] == []
    for _ in range(2):
        facade.ensure_network(context)
        assert len(face('admin', 'GET', 'networks?project_id=p9').json()['networks']) == 1


def test_there_is_one_default_network_to_the_outside(face):
    public, network = outside(face), inside(face)[0]
    assert face('demo', 'PUT', f'networks/{network}', {'network': {'is_default': True}}).status_code == 403
    assert face('admin', 'PUT', f'networks/{network}', {'network': {'is_default': True}}).status_code == 400
    put(face, f'networks/{public}', {'network': {'is_default': True}}, user='admin')
    second = {'network': {'name': 'second', 'router:external': True, 'is_default': True}}
    assert face('admin', 'POST', 'networks', second).status_code == 409
    put(face, f'networks/{public}', {'network': {'is_default': False}}, user='admin')
    ok(face('admin', 'POST', 'networks', second))
    assert face('demo', 'GET', 'networks?name=private').json()['networks'][0]['is_default'] is True


def test_a_network_becomes_one_to_the_outside_and_goes_with_its_floating_addresses(face):
    """Neither was done: one of type vxlan was called in use, and addresses that led nowhere held their network."""
    network = ok(face('admin', 'POST', 'networks', {'network': {'name': 'later'}}))['id']
    shown = put(face, f'networks/{network}', {'network': {'router:external': True}}, user='admin')
    assert (shown['router:external'], shown['provider:network_type']) == (True, 'flat')
    assert shown['provider:segmentation_id'] is None
    ok(face('admin', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '172.30.0.0/28', 'ip_version': 4,
                                                    'enable_dhcp': False}}))
    free = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': network}}))
    _inside, subnet = inside(face)
    joined = router(face, network)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    assert face('admin', 'DELETE', f'networks/{network}').status_code == 409          # a router's gateway is there
    put(face, f'routers/{joined}', {'router': {'external_gateway_info': None}})
    assert face('admin', 'DELETE', f'networks/{network}').status_code == 204
    assert face('demo', 'GET', f"floatingips/{free['id']}").status_code == 404
    with_subnet = inside(face, 'admin', '10.4.0.0/24')[0]
    assert face('admin', 'PUT', f'networks/{with_subnet}', {'network': {'router:external': True}}).status_code == 409


def test_subnets_outside_are_for_who_has_the_network(face):
    public = outside(face)
    assert face('demo', 'GET', f'networks/{public}').status_code == 200
    assert face('demo', 'GET', f'subnets?network_id={public}').json()['subnets'] == []
    assert len(face('admin', 'GET', f'subnets?network_id={public}').json()['subnets']) == 1


def test_hosts_are_shown_to_administrators(face):
    assert face('demo', 'GET', 'agents').json() == {'agents': []}


def test_routes_are_taken_away_by_null(face):
    _network, subnet = inside(face)
    joined = router(face)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    put(face, f'routers/{joined}', {'router': {'routes': [{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.7'}]}})
    assert put(face, f'routers/{joined}', {'router': {'routes': None}})['routes'] == []


def test_an_interface_of_a_router_gets_another_address_in_its_subnet(face):
    network, subnet = inside(face, enable_dhcp=False)
    joined = router(face)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    port = face('demo', 'GET', f'ports?device_id={joined}').json()['ports'][0]
    path = f"ports/{port['id']}"
    assert put(face, path, {'port': {'fixed_ips': [{'subnet_id': subnet}]}})['fixed_ips'] == port['fixed_ips']
    moved = put(face, path, {'port': {'fixed_ips': [{'ip_address': '10.0.0.9'}]}})
    assert [each['ip_address'] for each in moved['fixed_ips']] == ['10.0.0.9']
    second = ok(face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.1.0/24',
                                                            'ip_version': 4}}))
    for wanted in ([], [{'subnet_id': second['id']}], [{'ip_address': '10.0.0.9'}, {'ip_address': '10.0.0.10'}],
                   [{'ip_address': '10.0.1.9'}], [{'ip_address': '192.0.2.1'}], [{'ip_address': '10.0.0.1'}]):
        assert face('demo', 'PUT', path, {'port': {'fixed_ips': wanted}}).status_code in (400, 409), wanted
    assert face('demo', 'PUT', path, {'port': {'admin_state_up': False}}).status_code == 409


def test_tags_of_policies_are_where_clients_look_for_them(face):
    """openstacksdk sets them below /policies, and takes no notice of a 404."""
    policy = ok(face('admin', 'POST', 'qos/policies', {'policy': {'name': 'slow'}}))['id']
    path = f'policies/{policy}/tags'
    assert face('admin', 'PUT', path, {'tags': ['blue']}).json() == {'tags': ['blue']}
    assert face('admin', 'GET', f'qos/policies/{policy}').json()['policy']['tags'] == ['blue']
    assert face('demo', 'GET', path).status_code == face('demo', 'PUT', path, {'tags': []}).status_code == 404
    assert face('admin', 'DELETE', f'{path}/blue').status_code == 204
