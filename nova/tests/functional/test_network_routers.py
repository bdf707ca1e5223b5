"""Networks, routers and floating addresses of projects over HTTP, with the unmodified client and by hand."""
import time
import concurrent.futures
import uuid

import pytest

from nova import context
from nova import exception
from nova.db.networks import hosts
from nova.db.networks import networks as db_networks
from nova.db.networks import routers as db_routers
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.network.host import load as host_load
from nova.network.host import overlays
from nova.network.host import routers as host_routers
from nova.network.linux import rules
from nova.network.rest import faults
from nova.network.rest import floating_ips
from nova.network.rest import routers
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit
from nova.tests.support import network_routers
from nova.tests.support.network_routers import inside
from nova.tests.support.network_routers import ok
from nova.tests.support.network_routers import outside
from nova.tests.support.network_routers import put
from nova.tests.support.network_routers import router

face = network_routers.face


def test_openstackclient_manages_routers(face):
    """The few commands of the documentation, by an ordinary user without an operator's preparation."""
    def demo(*words, **more):
        return face.cli(*words, user='demo', **more)

    face.cli('network', 'create', 'public', '--external')
    face.cli('subnet', 'create', 'public', '--network', 'public', '--subnet-range', '172.24.4.0/24', '--no-dhcp')
    demo('network', 'create', 'blue')
    demo('subnet', 'create', 'blue', '--network', 'blue', '--subnet-range', '192.168.1.0/24')
    demo('router', 'create', 'r')
    demo('router', 'set', 'r', '--external-gateway', 'public')
    demo('router', 'add', 'subnet', 'r', 'blue')
    shown = demo('router', 'show', 'r')
    assert shown['external_gateway_info']['enable_snat'] is True
    assert shown['interfaces_info'][0]['ip_address'] == '192.168.1.1'
    port = demo('port', 'create', 'p', '--network', 'blue')
    floating = demo('floating', 'ip', 'create', 'public')
    assert floating['floating_ip_address'].startswith('172.24.4.') and floating['status'] == 'DOWN'
    demo('floating', 'ip', 'set', '--port', 'p', floating['id'])
    shown = demo('floating', 'ip', 'show', floating['floating_ip_address'])
    assert (shown['port_id'], shown['status']) == (port['id'], 'ACTIVE')
    assert [row['Fixed IP Address'] for row in demo('floating', 'ip', 'list')] == [port['fixed_ips'][0]['ip_address']]
    demo('floating', 'ip', 'unset', '--port', floating['id'])
    forwarding = demo('floating', 'ip', 'port', 'forwarding', 'create', '--internal-ip-address',
                      port['fixed_ips'][0]['ip_address'], '--port', 'p', '--internal-protocol-port', '22',
                      '--external-protocol-port', '2222', '--protocol', 'tcp', floating['id'])
    assert demo('floating', 'ip', 'port', 'forwarding', 'list', floating['id'])[0]['External Port'] == 2222
    demo('floating', 'ip', 'port', 'forwarding', 'delete', floating['id'], forwarding['id'])
    demo('floating', 'ip', 'delete', floating['id'])
    demo('router', 'set', 'r', '--route', 'destination=10.9.0.0/16,gateway=192.168.1.77')
    assert demo('router', 'show', 'r')['routes'] == [{'destination': '10.9.0.0/16', 'nexthop': '192.168.1.77'}]
    assert demo('router', 'remove', 'subnet', 'r', 'blue', check=False)[0] == 1     # a route needs it
    demo('router', 'unset', 'r', '--route', 'destination=10.9.0.0/16,gateway=192.168.1.77')
    demo('router', 'remove', 'subnet', 'r', 'blue')
    demo('router', 'unset', 'r', '--external-gateway')
    demo('router', 'delete', 'r')
    demo('port', 'delete', 'p')
    demo('network', 'set', '--tag', 'red', 'blue')
    assert [row['Name'] for row in demo('network', 'list', '--tags', 'red')] == ['blue']
    demo('network', 'delete', 'blue')
    assert demo('router', 'list') == [] == demo('port', 'list')
    assert face.cli('network', 'agent', 'list') == []
    assert face.cli('ip', 'availability', 'show', 'private')['total_ips'] == 253


def test_projects_have_the_same_addresses(face):
    """Each in its own networks; within one network and on one router they must differ."""
    first, subnet = inside(face, enable_dhcp=False)              # its server has a random address
    second, other = inside(face, 'other', enable_dhcp=False)
    ports = [ok(face(user, 'POST', 'ports', {'port': {'network_id': network, 'fixed_ips': [
        {'ip_address': '10.0.0.9'}]}})) for user, network in (('demo', first), ('other', second))]
    assert [port['fixed_ips'][0]['ip_address'] for port in ports] == ['10.0.0.9'] * 2
    same = {'subnet': {'network_id': first, 'cidr': '10.0.0.128/25', 'ip_version': 4}}
    assert face('demo', 'POST', 'subnets', same).status_code == 400
    joined = router(face)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    again, _subnet = inside(face)
    overlapping = face('demo', 'GET', f'subnets?network_id={again}').json()['subnets'][0]['id']
    for body, code in (({'subnet_id': overlapping}, 400), ({'subnet_id': subnet}, 400), ({'subnet_id': other}, 404),
                       ({'port_id': ports[1]['id']}, 404), ({}, 400), ({'subnet_id': subnet, 'port_id': 'x'}, 400)):
        assert face('demo', 'PUT', f'routers/{joined}/add_router_interface', body).status_code == code, body


def test_a_network_of_the_host_cannot_be_routed_by_a_router(face):
    subnet = face('demo', 'GET', 'subnets?name=private').json()['subnets'][0]['id']
    answer = face('demo', 'PUT', f'routers/{router(face)}/add_router_interface', {'subnet_id': subnet})
    assert answer.status_code == 400 and 'routed by the hosts' in answer.json()['NeutronError']['message']


def test_the_host_of_a_router_is_its_way_out(face):
    """Packets from the outside got the host's address where they crossed the guests' bridge, so that no floating
    address of an all-in-one answered; a router's own addresses, which have no security groups, were shut out as a
    guest's; and the list of a router's agents was answered with 500."""
    with face.db.writer() as conn:
        hosts.seen(conn, 'host1', '192.0.2.1', True)
    network, subnet = inside(face)
    joined = router(face, outside(face))
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    with face.db.writer() as conn:
        db_networks.update(conn, t.ports, port['id'], {'host': 'host1', 'device_id': 'd', 'device_owner': 'compute:n'})
    with face.db.reader() as conn:
        state = host_load.load(conn, 'host1', lambda ident: 'tap-' + ident[:8], {}, '192.0.2.1')
    assert [each.id for each in state.ports] == [port['id']] and state.routers
    text = rules.script('t', state, {})
    (inner,) = (overlay.bridge for overlay in state.overlays)
    ways = [line for line in text.splitlines() if 'ip saddr 172.24.4.0/29' in line and 'masquerade' in line]
    assert len(ways) == 1 and f'"{inner}"' in ways[0].partition('oifname !=')[2]
    agents = face('admin', 'GET', f'routers/{joined}/l3-agents').json()['agents']
    assert [agent['host'] for agent in agents] == ['host1']
    assert face('demo', 'GET', f'routers/{joined}/l3-agents').status_code == 403


def test_guests_lose_their_way_through_a_router_and_get_it_back(face):
    """A subnet on a router went without a gateway only before it was on the router; Neutron takes both."""
    network, subnet = inside(face)
    joined = router(face)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    without = put(face, f'subnets/{subnet}', {'subnet': {'gateway_ip': None, 'host_routes': [
        {'destination': '10.8.0.0/16', 'nexthop': '10.0.0.1'}]}})
    assert without['gateway_ip'] is None
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    assert port['fixed_ips'][0]['ip_address'] != '10.0.0.1'              # the router has it
    taken = face('demo', 'PUT', f'subnets/{subnet}', {'subnet': {'gateway_ip': port['fixed_ips'][0]['ip_address']}})
    assert taken.status_code == 409
    assert put(face, f'subnets/{subnet}', {'subnet': {'gateway_ip': '10.0.0.1'}})['gateway_ip'] == '10.0.0.1'
    assert put(face, f'subnets/{subnet}', {'subnet': {'gateway_ip': '10.0.0.1'}})['gateway_ip'] == '10.0.0.1'
    put(face, f'routers/{joined}/remove_router_interface', {'subnet_id': subnet})


def test_router_in_use_cannot_be_deleted_or_detached(face):
    external, (network, subnet) = outside(face), inside(face)
    joined = router(face, external)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {
        'floating_network_id': external, 'port_id': port['id']}}))
    assert floating['router_id'] == joined
    for method, path, body, code in (
            ('PUT', f'routers/{joined}/remove_router_interface', {'subnet_id': subnet}, 409),
            ('PUT', f'routers/{joined}', {'router': {'external_gateway_info': {}}}, 409),
            ('DELETE', f'routers/{joined}', None, 409), ('DELETE', f'subnets/{subnet}', None, 409),
            ('DELETE', f'networks/{network}', None, 409),
            ('PUT', f'subnets/{subnet}', {'subnet': {'gateway_ip': '10.0.0.9'}}, 409)):
        assert face('demo', method, path, body).status_code == code, (method, path)
    interface, = [each for each in face('demo', 'GET', f'ports?device_id={joined}').json()['ports']
                  if each['device_owner'] == 'network:router_interface']
    assert face('demo', 'DELETE', f"ports/{interface['id']}").status_code == 409
    second = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    taken = face('demo', 'PUT', f"floatingips/{second['id']}", {'floatingip': {'port_id': port['id']}})
    assert taken.status_code == 409
    assert face('demo', 'DELETE', f"ports/{port['id']}").status_code == 204
    shown = face('demo', 'GET', f"floatingips/{floating['id']}").json()['floatingip']
    assert (shown['port_id'], shown['router_id'], shown['status']) == (None, None, 'DOWN')
    for each in (floating, second):
        assert face('demo', 'DELETE', f"floatingips/{each['id']}").status_code == 204
    put(face, f'routers/{joined}/remove_router_interface', {'subnet_id': subnet})
    assert face('demo', 'DELETE', f'routers/{joined}').status_code == 204
    assert face('demo', 'DELETE', f'networks/{network}').status_code == 204
    with face.db.reader() as conn:
        assert db_networks.used_addresses(conn, face('admin', 'GET', 'subnets?cidr=172.24.4.0/29').json()['subnets'][0][
            'id']) == 0


def test_floating_address_is_taken_from_a_port_that_the_caller_does_not_see(face):
    external, (network, subnet) = outside(face), inside(face, 'admin')
    joined = router(face, external, 'admin')
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet}, user='admin')
    port = ok(face('admin', 'POST', 'ports', {'port': {'network_id': network}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    path = f"floatingips/{floating['id']}"
    assert put(face, path, {'floatingip': {'port_id': port['id']}}, user='admin')['port_id'] == port['id']
    shown = put(face, path, {'floatingip': {'port_id': None}})
    assert (shown['port_id'], shown['fixed_ip_address'], shown['router_id'], shown['status']) == (
        None, None, None, 'DOWN')
    assert face('admin', 'GET', path).json()['floatingip']['port_id'] is None


def test_floating_addresses_of_others_are_hidden(face):
    external, (network, _subnet) = outside(face), inside(face)
    mine = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    unrouted = face('demo', 'PUT', f"floatingips/{mine['id']}", {'floatingip': {'port_id': port['id']}})
    assert unrouted.status_code == 404 and 'No router connects' in unrouted.json()['NeutronError']['message']
    theirs = ok(face('other', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    assert face('other', 'PUT', f"floatingips/{theirs['id']}", {'floatingip': {'port_id': port['id']}}
                ).status_code == 404
    assert face('other', 'DELETE', f"floatingips/{mine['id']}").status_code == 404
    for body, code in (({'floating_network_id': network}, 400), ({'floating_network_id': str(uuid.uuid4())}, 404),
                       ({'floating_network_id': external, 'floating_ip_address': '172.24.4.6'}, 403)):
        assert face('demo', 'POST', 'floatingips', {'floatingip': body}).status_code == code, body
    assert face('demo', 'POST', 'ports', {'port': {'network_id': external}}).status_code == 403


def test_null_for_a_router_without_gateway_is_no_change(face):
    made = ok(face('demo', 'POST', 'routers', {'router': {'name': 'inner'}}))
    shown = put(face, f"routers/{made['id']}", {'router': {'external_gateway_info': None}})
    assert shown['revision_number'] == made['revision_number']


def test_port_forwardings_are_managed(face):
    external, (network, subnet) = outside(face), inside(face)
    joined = router(face, external)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    path = f"floatingips/{floating['id']}/port_forwardings"
    body = {'protocol': 'tcp', 'external_port': 80, 'internal_port': 8080, 'internal_port_id': port['id']}
    made = ok(face('demo', 'POST', path, {'port_forwarding': body}))
    assert face('demo', 'POST', path, {'port_forwarding': body}).status_code == 400
    assert face('other', 'POST', path, {'port_forwarding': body}).status_code == 404
    changed = put(face, f"{path}/{made['id']}", {'port_forwarding': {'external_port': 81}})
    assert (changed['external_port'], changed['internal_port']) == (81, 8080)
    shown = put(face, f"floatingips/{floating['id']}", {'floatingip': {'port_id': None}})
    assert (shown['router_id'], shown['status'], len(shown['port_forwardings'])) == (joined, 'ACTIVE', 1)
    whole = face('demo', 'PUT', f"floatingips/{floating['id']}", {'floatingip': {'port_id': port['id']}})
    assert whole.status_code == 409
    assert face('demo', 'DELETE', f"{path}/{made['id']}").status_code == 204
    assert face('demo', 'GET', f"{path}/{made['id']}").status_code == 404
    assert face('demo', 'GET', path).json() == {'port_forwardings': []}


def test_floating_address_leaves_its_router_with_its_last_forwarding(face):
    external, (network, subnet) = outside(face), inside(face)
    joined = router(face, external)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    idents = [ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))['id'] for _ in range(2)]
    path = 'floatingips/' + ok(face('demo', 'POST', 'floatingips', {'floatingip': {
        'floating_network_id': external}}))['id']
    for number, ident in enumerate(idents):
        ok(face('demo', 'POST', f'{path}/port_forwardings', {'port_forwarding': {
            'protocol': 'tcp', 'external_port': 80 + number, 'internal_port': 80, 'internal_port_id': ident}}))
    for ident, expected in zip(idents, [(joined, 'ACTIVE'), (None, 'DOWN')], strict=True):
        assert face('demo', 'DELETE', f'ports/{ident}').status_code == 204
        shown = face('demo', 'GET', path).json()['floatingip']
        assert (shown['router_id'], shown['status']) == expected
    put(face, f'routers/{joined}/remove_router_interface', {'subnet_id': subnet})
    assert face('demo', 'DELETE', f'routers/{joined}').status_code == 204


def test_address_removed_from_a_server_loses_its_floating_address_and_forwardings(face):
    external, (network, subnet) = outside(face), inside(face)
    joined = router(face, external)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    instance = unit.make_instance('p1')
    vif, = face.allocate(instance, requested=[{'network_id': network}])
    address = unit.address(vif)
    idents = [ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external, **more}}))['id']
              for more in ({'port_id': vif['id']}, {})]
    ok(face('demo', 'POST', f'floatingips/{idents[1]}/port_forwardings', {'port_forwarding': {
        'protocol': 'tcp', 'external_port': 80, 'internal_port': 80, 'internal_port_id': vif['id']}}))
    with face.db.writer() as conn:
        db_routers.place(conn, joined, 'h1', db_networks.get(conn, t.routers, joined)['host'])

    def translations():
        with face.db.reader() as conn:
            placed, = host_routers.load(conn, 'h1').routers
        return [each[-1] for each in placed.floating_ips] + [each[3] for each in placed.port_forwardings]
    assert translations() == [address, address]
    face.manager.attachments.remove_address(face.context, instance.uuid, address, 'host1')
    assert translations() == []
    for ident in idents:
        shown = face('demo', 'GET', f'floatingips/{ident}').json()['floatingip']
        assert (shown['port_id'], shown['router_id'], shown['status'], shown['port_forwardings']) == (
            None, None, 'DOWN', [])


def test_several_at_once_are_made_all_or_not_at_all(face):
    network, _subnet = inside(face, cidr='10.0.0.0/29')
    body = {'ports': [{'network_id': network, 'name': f'p{number}'} for number in range(4)]}
    made = ok(face('demo', 'POST', 'ports', body))
    assert [port['name'] for port in made] == ['p0', 'p1', 'p2', 'p3']
    assert face('demo', 'POST', 'ports', body).status_code == 409          # one of five addresses is DHCP's
    assert len(face('demo', 'GET', f'ports?network_id={network}&device_owner=').json()['ports']) == 4


def test_addresses_of_a_network_without_subnets_are_refused(face):
    network = ok(face('demo', 'POST', 'networks', {'network': {'name': 'empty'}}))['id']
    for wanted, status in (({'ip_address': '10.99.0.5'}, 400), ({'subnet_id': str(uuid.uuid4())}, 404)):
        body = {'port': {'network_id': network, 'fixed_ips': [wanted]}}
        assert face('demo', 'POST', 'ports', body).status_code == status
    assert face('demo', 'GET', f'ports?network_id={network}').json() == {'ports': []}
    for addresses in ({}, {'fixed_ips': []}, {'fixed_ips': None}):
        made = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, **addresses}}))
        assert made['fixed_ips'] == []


def test_shared_network_is_used_by_the_target_project(face):
    network, _subnet = inside(face)
    body = {'rbac_policy': {'object_type': 'network', 'object_id': network, 'action': 'access_as_shared',
                            'target_tenant': 'p2'}}
    assert face('other', 'GET', f'networks/{network}').status_code == 404
    assert face('other', 'POST', 'rbac-policies', body).status_code == 404
    rule = ok(face('demo', 'POST', 'rbac-policies', body))
    assert face('demo', 'POST', 'rbac-policies', body).status_code == 409
    assert face('other', 'GET', f'networks/{network}').json()['network']['shared'] is True
    port = ok(face('other', 'POST', 'ports', {'port': {'network_id': network}}))
    vif, = face.allocate(unit.make_instance('p2'), requested=[{'network_id': network}])
    assert vif['network']['id'] == network
    assert face('demo', 'DELETE', f"rbac-policies/{rule['id']}").status_code == 204
    assert face('other', 'GET', f"ports/{port['id']}").status_code == 404           # no server has it
    assert face('other', 'GET', f"ports/{vif['id']}").status_code == 200            # until its server is gone
    assert face('demo', 'DELETE', f"ports/{vif['id']}").status_code == 403
    assert face('admin', 'DELETE', f"ports/{vif['id']}").status_code == 409
    assert face('other', 'POST', 'ports', {'port': {'network_id': network}}).status_code == 404
    everybody = {'rbac_policy': {**body['rbac_policy'], 'target_tenant': '*'}}
    assert face('demo', 'POST', 'rbac-policies', everybody).status_code == 403


@pytest.fixture(params=['rule', 'shared'])
def lent_network(face, request):
    """(network id, IPv6 subnet id, function that ends the sharing) of a network that other projects may use."""
    user = 'demo' if request.param == 'rule' else 'admin'
    network = ok(face(user, 'POST', 'networks', {'network': {
        'shared': True, 'provider:network_type': 'vxlan'} if user == 'admin' else {}}))['id']
    subnet = ok(face(user, 'POST', 'subnets', {'subnet': {
        'network_id': network, 'cidr': 'fd00:1::/64', 'ip_version': 6, 'ipv6_ra_mode': 'slaac',
        'ipv6_address_mode': 'slaac'}}))['id']
    rule = ok(face('demo', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': network, 'action': 'access_as_shared',
        'target_tenant': 'p2'}}))['id'] if user == 'demo' else None

    def end():
        answer = face(user, 'DELETE', f'rbac-policies/{rule}') if rule else face(
            user, 'PUT', f'networks/{network}', {'network': {'shared': False}})
        assert answer.status_code == (204 if rule else 200), answer.text
    return user, network, subnet, end


def test_only_the_owner_of_a_network_attaches_routers(face, lent_network):
    owner, network, subnet, end = lent_network
    port = ok(face('other', 'POST', 'ports', {'port': {'network_id': network}}))['id']
    path = f"routers/{router(face, user='other')}/add_router_interface"
    for body in ({'subnet_id': subnet}, {'port_id': port}):
        answer = face('other', 'PUT', path, body)
        assert answer.status_code == 400 and 'not owned' in answer.text, body
    put(face, path, {'port_id': port}, user='admin')
    assert port in face(owner, 'GET', f'ports?network_id={network}').text
    end()
    assert face(owner, 'GET', f'ports/{port}').status_code == 404
    assert face('other', 'POST', 'ports', {'port': {'network_id': network}}).status_code == 404


def test_only_the_gateway_address_is_advertised(face):
    network = ok(face('demo', 'POST', 'networks', {'network': {}}))['id']
    subnet = ok(face('demo', 'POST', 'subnets', {'subnet': {
        'network_id': network, 'cidr': 'fd00:1::/64', 'ip_version': 6, 'ipv6_ra_mode': 'slaac',
        'ipv6_address_mode': 'slaac'}}))['id']
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))['id']
    for body, modes in (({'port_id': port}, []), ({'subnet_id': subnet}, [['fd00:1::/64', 'slaac']])):
        ident = router(face)
        put(face, f'routers/{ident}/add_router_interface', body)
        with face.db.writer() as conn:
            db_routers.place(conn, ident, 'h1', db_networks.get(conn, t.routers, ident)['host'])
        with face.db.reader() as conn:
            assert [leg.modes for each in host_routers.load(conn, 'h1').routers if each.id == ident
                    for leg in each.internal] == [modes]


def test_the_owner_of_a_network_sees_and_removes_its_ports(face, lent_network):
    owner, network, _subnet, _end = lent_network
    port = ok(face('other', 'POST', 'ports', {'port': {'network_id': network}}))['id']
    assert face(owner, 'GET', f'ports/{port}').status_code == 200
    assert face(owner, 'PUT', f'ports/{port}', {'port': {'name': 'n'}}).status_code == (403 if owner == 'demo' else 200)
    joined = router(face, user='other')
    put(face, f'routers/{joined}/add_router_interface', {'port_id': port}, user='admin')
    assert face('other', 'DELETE', f'ports/{port}').status_code == 409
    assert face(owner, 'DELETE', f'ports/{port}').status_code == (204 if owner == 'demo' else 409)
    if owner == 'demo':
        assert face('other', 'DELETE', f'routers/{joined}').status_code == 204


@pytest.fixture
def lent(face):
    """{object_type: (path, id of one of another project)}"""
    policy = ok(face('admin', 'POST', 'qos/policies', {'policy': {'name': 'slow'}}))['id']
    group = ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 'web'}}))['id']
    pool = ok(face('demo', 'POST', 'subnetpools', {'subnetpool': {
        'name': 'ten', 'prefixes': ['10.50.0.0/16'], 'default_prefixlen': 24}}))['id']
    return {'qos_policy': ('qos/policies', policy), 'security_group': ('security-groups', group),
            'subnetpool': ('subnetpools', pool)}


USES = {
    'qos_policy': lambda ident, network: ('ports', 'port', {'network_id': network, 'qos_policy_id': ident}),
    'security_group': lambda ident, network: ('ports', 'port', {'network_id': network, 'security_groups': [ident]}),
    'subnetpool': lambda ident, network: ('subnets', 'subnet', {
        'network_id': network, 'subnetpool_id': ident, 'ip_version': 4}),
}


@pytest.mark.parametrize('kind', USES)
def test_shares_of_other_things_than_networks(face, lent, kind):
    """They were refused: policies, groups and pools were for one project or for all."""
    path, ident = lent[kind]
    owner = 'admin' if kind == 'qos_policy' else 'demo'
    network = ok(face('other', 'POST', 'networks', {'network': {}}))['id']
    uses, singular, values = USES[kind](ident, network)
    body = {'rbac_policy': {'object_type': kind, 'object_id': ident, 'action': 'access_as_shared',
                            'target_tenant': 'p2'}}
    assert face('other', 'GET', f'{path}/{ident}').status_code == 404
    assert face('other', 'POST', uses, {singular: values}).status_code == 404
    assert face('other', 'POST', 'rbac-policies', body).status_code == 404
    wrong = {'rbac_policy': {**body['rbac_policy'], 'object_type': 'network'}}
    assert face(owner, 'POST', 'rbac-policies', wrong).status_code == 404
    rule = ok(face(owner, 'POST', 'rbac-policies', body))
    assert rule['object_type'] == kind and face(owner, 'POST', 'rbac-policies', body).status_code == 409
    assert face(owner, 'GET', f'rbac-policies?object_type={kind}').json()['rbac_policies'] == [rule]
    assert face(owner, 'GET', 'rbac-policies?object_type=network').json()['rbac_policies'] == []
    shown, = face('other', 'GET', f'{path}/{ident}').json().values()
    assert shown['shared'] is True and ident in face('other', 'GET', path).text
    singular_of, = face(owner, 'GET', f'{path}/{ident}').json()
    for method, more in (('PUT', {singular_of: {'name': 'x'}}), ('DELETE', None)):
        assert face('other', method, f'{path}/{ident}', more).status_code == 403
    made = ok(face('other', 'POST', uses, {singular: values}))
    assert face(owner, 'DELETE', f'rbac-policies/{rule["id"]}').status_code == 409
    assert face('other', 'DELETE', f'{uses}/{made["id"]}').status_code == 204
    assert face(owner, 'DELETE', f'rbac-policies/{rule["id"]}').status_code == 204
    assert face('other', 'POST', uses, {singular: values}).status_code == 404
    ok(face(owner, 'POST', 'rbac-policies', body))
    assert face(owner, 'DELETE', f'{path}/{ident}').status_code == 204         # its shares go with it
    assert face('admin', 'GET', 'rbac-policies').json()['rbac_policies'] == []


def test_a_server_in_a_group_that_another_project_shares(face, lent):
    ident = lent['security_group'][1]
    network = ok(face('other', 'POST', 'networks', {'network': {}}))['id']
    ok(face('other', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.60.0.0/24', 'ip_version': 4}}))
    with pytest.raises(exception.SecurityGroupNotFound):
        face.allocate(unit.make_instance('p2'), requested=[{'network_id': network}], groups=[ident])
    ok(face('demo', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'security_group', 'object_id': ident, 'action': 'access_as_shared', 'target_tenant': 'p2'}}))
    vif, = face.allocate(unit.make_instance('p2'), requested=[{'network_id': network}], groups=[ident])
    with face.db.reader() as conn:
        assert security_groups.of_ports(conn, [vif['id']]) == {vif['id']: [ident]}
    with pytest.raises(exception.SecurityGroupNotFound):                        # by its name it is the owner's alone
        face.allocate(unit.make_instance('p2'), requested=[{'network_id': network}], groups=['web'])


def test_ipv6_subnets_are_routed(face):
    network, _subnet = inside(face)
    subnet = ok(face('demo', 'POST', 'subnets', {'subnet': {
        'network_id': network, 'cidr': 'fd00:1::/64', 'ip_version': 6, 'ipv6_ra_mode': 'slaac',
        'ipv6_address_mode': 'slaac'}}))
    assert subnet['gateway_ip'] == 'fd00:1::1'
    port = ok(face('admin', 'POST', 'ports', {'port': {'network_id': network, 'mac_address': 'fa:16:3e:01:02:03',
                                                       'project_id': 'p1'}}))
    assert [entry['ip_address'] for entry in port['fixed_ips']][-1] == 'fd00:1::f816:3eff:fe01:203'
    assert len(port['fixed_ips']) == 2
    managed = ok(face('demo', 'POST', 'subnets', {'subnet': {
        'network_id': network, 'cidr': 'fd00:2::/120', 'ip_version': 6, 'ipv6_ra_mode': 'dhcpv6-stateful',
        'ipv6_address_mode': 'dhcpv6-stateful'}}))
    assert managed['allocation_pools'] == [{'start': 'fd00:2::2', 'end': 'fd00:2::ff'}]
    for extra in ({'cidr': 'fd00:3::/48'}, {'cidr': 'fd00:3::/127'}, {'cidr': 'fd00:1::/80'}, {'ip_version': 4},
                  {'cidr': 'fe80::/64'}, {'ipv6_ra_mode': 'slaac'}, {'dns_nameservers': ['10.0.0.1']},
                  {'allocation_pools': [{'start': '10.0.0.1', 'end': '10.0.0.2'}]}, {'gateway_ip': '10.0.0.1'}):
        answer = face('demo', 'POST', 'subnets', {'subnet': {
            'network_id': network, 'cidr': 'fd00:3::/64', 'ip_version': 6, **extra}})
        assert answer.status_code == 400, (extra, answer.text)


@pytest.mark.parametrize('body', [
    {'external_gateway_info': {'network_id': 'nowhere'}}, {'external_gateway_info': 'x'}, {'routes': []},
    {'distributed': True}, {'ha': True}, {'name': 'x' * 300}, {'external_gateway_info': {'enable_snat': True}},
])
def test_invalid_routers_are_refused(face, body):
    assert face('demo', 'POST', 'routers', {'router': body}).status_code in (400, 403, 404)
    assert face('demo', 'GET', 'routers').json()['routers'] == []


def test_invalid_routes_are_refused(face):
    _network, subnet = inside(face)
    joined = router(face)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    for routes in ([{'destination': '10.9.0.0/16', 'nexthop': '10.7.0.1'}],
                   [{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.1'}],
                   [{'destination': '10.9.0.0/16', 'nexthop': 'fd00::1'}],
                   [{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.7'}] * 2,
                   [{'destination': f'10.{number}.0.0/16', 'nexthop': '10.0.0.7'} for number in range(31)]):
        assert face('demo', 'PUT', f'routers/{joined}', {'router': {'routes': routes}}).status_code == 400
    routes = {'router': {'routes': [{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.7'}]}}
    assert put(face, f'routers/{joined}/add_extraroutes', routes)['routes'] == routes['router']['routes']
    assert put(face, f'routers/{joined}/remove_extraroutes', routes)['routes'] == []


@pytest.mark.parametrize('body', [
    {'allowed_address_pairs': [{'ip_address': address}]} for address in
    ('ff02::1', 'fe80::1', '224.0.0.1', '0.0.0.0', '127.0.0.1', 'x', '10.0.0.5/24', '10.0.0.0/33', '0.0.0.0/0',
     '::/0', 'fe80::/64', '224.0.0.0/4', '126.0.0.0/7', 'ff00::/8', '10.0.0.0/24/24', 7)] + [
    {'port_security_enabled': False, 'security_groups': ['x']}, {'dns_name': '-x'}, {'dns_name': 'a.b'},
    {'extra_dhcp_opts': [{'opt_name': 'dhcp-script', 'opt_value': '/x'}]},
    {'extra_dhcp_opts': [{'opt_name': 'router', 'opt_value': 'x\ny'}]}, {'extra_dhcp_opts': [{'opt_name': 'mtu'}]}])
def test_invalid_ports_of_own_networks_are_refused(face, body):
    network, _subnet = inside(face)
    answer = face('demo', 'POST', 'ports', {'port': {'network_id': network, **body}})
    assert answer.status_code in (400, 409), answer.text


def test_many_ranges_cost_a_host_little():
    """Ten ranges of each of 500 ports took 14 s of a processor, at each look of each host."""
    ports = [{'id': str(number), 'host': 'h', 'device_owner': '', 'mac_address': str(number), 'allowed_address_pairs': [
        {'ip_address': f'10.{50 + part}.{number % 256}.{number // 256 * 8}/29'} for part in range(10)]}
        for number in range(500)]
    fixed = {str(number): [{'ip_address': f'10.0.{number >> 8}.{number & 255}'}] for number in range(500)}
    fixed['7'].append({'ip_address': '10.51.7.3'})
    begin = time.process_time()
    assert len(overlays._neighbours(ports, fixed)) == 500
    assert time.process_time() - begin < 2


def test_allowed_address_pairs_accept_ranges(face):
    network, _subnet = inside(face)
    pairs = [{'ip_address': each} for each in (
        '10.9.0.0/16', '10.9.7.0/24', '10.8.0.1/32', 'fd00:9::/61', '2001:db8::/32')]
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'allowed_address_pairs': pairs}}))
    assert [each['ip_address'] for each in port['allowed_address_pairs']] == [each['ip_address'] for each in pairs]
    fixed = {'port-1': [{'ip_address': '10.0.0.7'}], 'port-2': [{'ip_address': '10.9.1.1'}]}
    ports = [{'id': ident, 'host': 'h', 'device_owner': '', 'mac_address': ident, 'allowed_address_pairs': given}
             for ident, given in (('port-1', pairs), ('port-2', None))]
    assert overlays._neighbours(ports, fixed) == [['10.0.0.7', 'port-1']]      # who has 10.9.1.1 now, nobody knows
    odd = [{'ip_address': each} for each in ('10.9.0.0/255.255.0.0', '2001:DB8::/32')]
    port = ok(face('demo', 'PUT', f"ports/{port['id']}", {'port': {'allowed_address_pairs': odd}}), 200)
    assert [each['ip_address'] for each in port['allowed_address_pairs']] == ['10.9.0.0/16', '2001:db8::/32']
    assert face('demo', 'PUT', f"ports/{port['id']}", {'port': {'allowed_address_pairs': []}}).status_code == 200


def test_ports_take_the_dhcp_options_of_ec2(face):
    """dns-server, netbios-ns and netbios-nodetype were refused: ec2-api makes them of a VPC's DHCP options."""
    network, _subnet = inside(face)
    options = [{'opt_name': name, 'opt_value': value} for name, value in (
        ('dns-server', '10.0.0.2'), ('netbios-ns', '10.0.0.3'), ('netbios-nodetype', '2'))]
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': options}}))
    assert [(each['opt_name'], each['opt_value']) for each in port['extra_dhcp_opts']] == [
        (each['opt_name'], each['opt_value']) for each in options]


def test_an_update_changes_only_the_dhcp_options_that_it_names(face):
    """Clients of Neutron send the options that change, and null to delete an option."""
    network, _subnet = inside(face)
    made = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': [
        {'opt_name': 'mtu', 'opt_value': '1400'}, {'opt_name': '67', 'opt_value': None}]}}))

    def shown(port):
        return [(each['opt_name'], each['opt_value'], each['ip_version']) for each in port['extra_dhcp_opts']]

    def change(*options, code=200):
        return put(face, f'ports/{made["id"]}', {'port': {'extra_dhcp_opts': [
            dict(zip(('opt_name', 'opt_value', 'ip_version'), each)) for each in options]}}, code)
    assert shown(made) == [('mtu', '1400', 4)]
    assert shown(change(('domain-search', 'x'), ('domain-search', 'y', 6))) == [
        ('mtu', '1400', 4), ('domain-search', 'x', 4), ('domain-search', 'y', 6)]
    assert shown(change(('domain-search', 'z', 6), ('mtu', '1300'), ('router', None))) == [
        ('mtu', '1300', 4), ('domain-search', 'x', 4), ('domain-search', 'z', 6)]
    assert len(shown(change())) == 3
    assert shown(change(('domain-search', None), ('domain-search', None, 4))) == [
        ('mtu', '1300', 4), ('domain-search', 'z', 6)]
    change(*((str(number), 'x') for number in range(200, 219)), code=400)                 # 21 options
    assert shown(change(('mtu', None), ('domain-search', None, 6), ('67', None))) == []


@pytest.mark.parametrize('option', [
    *(('router', value) for value in ('x', '10.0.0.1,', '10.0.0.1 10.0.0.2', '10.0.0.1,fd00::1', 'fd00::1')),
    ('ntp-server', 'pool.ntp.org'), ('dns-server', '10.0.0.256'), ('netbios-ns', 'x'), ('server-ip-address', 'x'),
    *((name, 'x', 6) for name in ('bootfile-name', 'tftp-server', 'server-ip-address', 'domain-name', 'mtu', 'router',
                                  'netbios-ns', 'netbios-nodetype')),
    *(('dns-server', value, 6) for value in ('x', '10.0.0.1', '[fd00::1', '[10.0.0.1]', 'fe80::1%eth0')),
    *((number, 'pool.ntp.org') for number in ('3', '6', '28', '42', '150')),
    *((number, 'x', 6) for number in ('22', '23')),
    *((name, value) for name in ('mtu', '26', 'netbios-nodetype', '46') for value in ('x', '8,9'))])
def test_dhcp_options_that_dnsmasq_drops_are_refused(face, option):
    network, _subnet = inside(face)
    options = [dict(zip(('opt_name', 'opt_value', 'ip_version'), option))]
    refused = face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': options}})
    assert refused.status_code == 400 and option[0] in refused.text, refused.text


def test_dhcp_options_with_lists_of_addresses_are_accepted(face):
    network, _subnet = inside(face)
    options = [{'opt_name': name, 'opt_value': value, 'ip_version': version} for name, value, version in (
        ('router', '10.0.0.1', 4), ('dns-server', '10.0.0.2, 10.0.0.3', 4), ('ntp-server', '10.0.0.4,10.0.0.5', 4),
        ('dns-server', 'fd00::1,[fd00::2]', 6), ('ntp-server', 'pool.ntp.org', 6), ('59', 'tftp://x/y', 6),
        ('42', '10.0.0.4', 4), ('23', 'fd00::1', 6), ('mtu', '1400', 4), ('46', '8', 4), ('26', 'x', 6))]
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': options}}))
    assert port['extra_dhcp_opts'] == options


def test_a_networks_frames_fit_into_those_of_the_hosts(face):
    assert face('demo', 'POST', 'networks', {'network': {'mtu': 1451}}).status_code == 400
    network = ok(face('demo', 'POST', 'networks', {'network': {'mtu': 1450}}))['id']
    assert face('demo', 'PUT', f'networks/{network}', {'network': {'mtu': 9000}}).status_code == 400


def test_quota_limits_routers(face):
    assert face('demo', 'PUT', 'quotas/p1', {'quota': {'router': 1}}).status_code == 403
    assert put(face, 'quotas/p1', {'quota': {'router': 1}}, user='admin')['router'] == 1
    assert face('admin', 'PUT', 'quotas/p1', {'quota': {'flavor': 1}}).status_code == 400
    router(face)
    assert face('demo', 'POST', 'routers', {'router': {}}).json()['NeutronError']['type'] == 'OverQuota'
    assert face('admin', 'GET', 'quotas/p1/details').json()['quota']['router'] == {
        'limit': 1, 'used': 1, 'reserved': 0}
    assert [each['project_id'] for each in face('admin', 'GET', 'quotas').json()['quotas']] == ['p1']
    assert face('admin', 'DELETE', 'quotas/p1').status_code == 204
    router(face)


def test_a_revision_is_held_against_the_request(face):
    ident = router(face)
    path = f'{face.url}/v2.0/routers/{ident}'
    revision = face('demo', 'GET', f'routers/{ident}').json()['router']['revision_number']
    for given, code in ((f'revision_number={revision + 1}', 412), ('x', 400), ('revision_number=\xb2', 400),
                        ('revision_number=' + '9' * 5000, 400), (f'revision_number={revision}', 200)):
        answer = test_network_api.requests.put(path, json={'router': {'name': 'n'}}, timeout=10, headers={
            'X-Auth-Token': 'demo', 'If-Match': given})
        assert answer.status_code == code, answer.text
        if code == 412:
            assert answer.json()['NeutronError'] == {
                'type': 'RevisionNumberConstraintFailed', 'detail': '',
                'message': f'Constrained to {revision + 1}, but current revision is: {revision}'}


def test_update_of_a_concurrently_deleted_router_or_floating_ip_is_not_found(face):
    """It was seen at the beginning of the transaction, and is gone when it is locked."""
    gone, ctx = {'id': str(uuid.uuid4())}, context.RequestContext(project_id='p1', overwrite=False)
    with face.db.writer() as conn:
        with pytest.raises(faults.RouterNotFound):
            routers.update(conn, None, ctx, gone, {'name': 'n'})
        with pytest.raises(faults.FloatingIPNotFound):
            floating_ips.update(conn, None, ctx, gone, {'description': 'd'})


def test_an_address_is_given_once(face):
    """Twelve ports of one network at a time; then the routers' and floating addresses of one outside."""
    external, (network, subnet) = outside(face), inside(face)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        made = [ok(answer) for answer in pool.map(
            lambda _number: face('demo', 'POST', 'ports', {'port': {'network_id': network}}), range(24))]
        assert len({port['fixed_ips'][0]['ip_address'] for port in made}) == 24
        answers = list(pool.map(lambda _number: face('demo', 'POST', 'floatingips', {'floatingip': {
            'floating_network_id': external}}), range(8)))
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 3
        codes = list(pool.map(lambda ident: face(
            'demo', 'PUT', f'routers/{ident}/add_router_interface', {'subnet_id': subnet}).status_code,
            [router(face)] * 6))
        assert sorted(codes) == [200] + [400] * 5
    with face.db.reader() as conn:
        assert len(db_networks.many(conn, t.router_interfaces, [subnet], 'subnet_id')) == 1


def test_an_attribute_keeps_those_that_belong_to_it(face):
    """They were left out where they stood already: a port beside its second address, pools beside a new gateway, the
    missing port security beside a group."""
    network, subnet = inside(face, enable_dhcp=False)
    ext = outside(face)
    put(face, f'routers/{router(face, ext)}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'fixed_ips': [
        {'ip_address': '10.0.0.20'}, {'ip_address': '10.0.0.21'}]}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {
        'floating_network_id': ext, 'port_id': port['id'], 'fixed_ip_address': '10.0.0.20'}}))
    moved = ok(face('demo', 'PUT', f'floatingips/{floating["id"]}', {'floatingip': {
        'port_id': port['id'], 'fixed_ip_address': '10.0.0.21'}}), 200)
    assert moved['fixed_ip_address'] == '10.0.0.21'
    other = ok(face('demo', 'POST', 'networks', {'network': {'name': 'other'}}))['id']
    made = ok(face('demo', 'POST', 'subnets', {'subnet': {
        'network_id': other, 'cidr': '10.10.0.0/24', 'ip_version': 4}}))
    refused = face('demo', 'PUT', f'subnets/{made["id"]}', {'subnet': {
        'gateway_ip': '10.10.0.254', 'allocation_pools': made['allocation_pools']}})
    assert refused.status_code in (400, 409), refused.text
    assert ok(face('demo', 'GET', f'subnets/{made["id"]}'), 200)['allocation_pools'] == made['allocation_pools']
    group = ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}))['id']
    open_port = ok(face('demo', 'POST', 'ports', {'port': {
        'network_id': network, 'port_security_enabled': False, 'security_groups': []}}))
    refused = face('demo', 'PUT', f'ports/{open_port["id"]}', {'port': {
        'port_security_enabled': False, 'security_groups': [group]}})
    assert refused.status_code == 409, refused.text


def test_port_without_port_security_gets_no_security_group(face):
    """Without port security, a group filters nothing."""
    network, _subnet = inside(face)
    group = ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 'g'}}))['id']
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'port_security_enabled': False}}))
    path = f'ports/{port["id"]}'
    refused = face('demo', 'PUT', path, {'port': {'security_groups': [group]}})
    assert refused.status_code == 409, refused.text
    assert refused.json()['NeutronError']['type'] == 'PortSecurityPortHasSecurityGroup'
    assert put(face, path, {'port': {'name': 'p', 'security_groups': []}})['security_groups'] == []
    secured = put(face, path, {'port': {'port_security_enabled': True, 'security_groups': [group]}})
    assert (secured['port_security_enabled'], secured['security_groups']) == (True, [group])
    refused = face('demo', 'PUT', path, {'port': {'port_security_enabled': False}})
    assert refused.status_code == 409, refused.text
    opened = put(face, path, {'port': {'port_security_enabled': False, 'security_groups': []}})
    assert (opened['port_security_enabled'], opened['security_groups']) == (False, [])
    ok(face('demo', 'DELETE', f'security-groups/{group}'), 204)


def test_a_time_at_the_end_of_the_calendar_selects_nothing(face):
    assert face('demo', 'GET', 'networks?created_at=9999-12-31T23:59:59').json() == {'networks': []}


def test_port_forwardings_of_ranges(face):
    external, (network, subnet) = outside(face), inside(face)
    joined = router(face, external)
    put(face, f'routers/{joined}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': external}}))
    path = f"floatingips/{floating['id']}/port_forwardings"

    def send(external, internal, code=201, **more):
        answer = face('demo', 'POST', path, {'port_forwarding': {
            'protocol': 'tcp', 'internal_port_id': port['id'], 'external_port_range': external,
            'internal_port_range': internal, **more}})
        assert answer.status_code == code, answer.text
        return answer.json().get('port_forwarding')
    made = send('1200:1299', '1200:1299')
    assert [made[name] for name in ('external_port', 'external_port_range', 'internal_port_range')] == [
        None, '1200:1299', '1200:1299']
    single = send('1300', '80')
    assert (single['external_port'], single['external_port_range'], single['internal_port']) == (1300, '1300:1300', 80)
    send('1299:1310', '1299:1310', 400)                     # overlaps
    send('1400:1409', '1400:1408', 400)                     # other sizes
    send('1409:1400', '1409:1400', 400)
    send('60000:70000', '60000:70000', 400)
    send('1', '1', 400, external_port=1)
    send('2000:4000', '5000:7000', 400)                     # too many ports to look up
    send('1299:1299', '1299:1299', protocol='udp')
    changed = put(face, f"{path}/{made['id']}", {'port_forwarding': {
        'external_port_range': '1200:1209', 'internal_port_range': '2200:2209'}})
    assert (changed['external_port_range'], changed['internal_port_range']) == ('1200:1209', '2200:2209')
    assert face('demo', 'PUT', f"{path}/{made['id']}", {'port_forwarding': {'external_port': 5}}).status_code == 400
    other = send('4000:4004', '5000:5004')
    read = {name: value for name, value in other.items() if name != 'id'}
    assert put(face, f"{path}/{other['id']}", {'port_forwarding': read}) == other
    narrow = put(face, f"{path}/{other['id']}", {'port_forwarding': {'external_port': 4000, 'internal_port': 5000}})
    assert (narrow['external_port_range'], narrow['internal_port_range']) == ('4000:4000', '5000:5000')
    assert put(face, f"{path}/{other['id']}", {'port_forwarding': {'external_port_range': '4000:4000'}}) == narrow
    for name in ('external_port', 'internal_port_range'):
        refused = face('demo', 'PUT', f"{path}/{other['id']}", {'port_forwarding': {name: None}})
        assert refused.status_code == (200 if narrow[name] is None else 400), name
    ok(face('demo', 'DELETE', f"{path}/{other['id']}"), 204)
    wide = send('4000:4004', '5000:5004')
    moved = put(face, f"{path}/{wide['id']}", {'port_forwarding': {'external_port': 4000, 'internal_port': 5003}})
    assert (moved['external_port_range'], moved['internal_port_range']) == ('4000:4000', '5003:5003')
    ok(face('demo', 'DELETE', f"{path}/{wide['id']}"), 204)
    with face.db.writer() as conn:
        db_routers.place(conn, joined, 'h1', db_networks.get(conn, t.routers, joined)['host'])
    with face.db.reader() as conn:
        loaded, = (each for each in host_routers.load(conn, 'h1').routers if each.id == joined)
    address, fixed = floating['floating_ip_address'], port['fixed_ips'][0]['ip_address']
    assert loaded.port_ranges == [[address, 'tcp', 1200, 1209, fixed, 2200]]
    assert sorted(loaded.port_forwardings) == [[address, 'tcp', 1300, fixed, 80], [address, 'udp', 1299, fixed, 1299]]


def test_conntrack_helpers_of_a_router_reach_its_host(face):
    with face.db.writer() as conn:
        hosts.seen(conn, 'host1', '192.0.2.1', True)
    made = router(face)

    def helper(user='demo', **values):
        return face(user, 'POST', f'routers/{made}/conntrack_helpers', {'conntrack_helper': {
            'helper': 'ftp', 'protocol': 'tcp', 'port': 21, **values}})

    def on_host():
        with face.db.reader() as conn:
            found, = host_routers.load(conn, 'host1').routers
        return found.helpers
    first = ok(helper())
    assert first == {'id': first['id'], 'helper': 'ftp', 'protocol': 'tcp', 'port': 21}
    other = ok(helper(helper='tftp', protocol='udp', port=69))
    for values in ({}, {'helper': 'irc'}, {'protocol': 'udp'}, {'helper': 'snmp'}, {'port': 0}):
        assert helper(**values).status_code == 400, values
    assert helper('other').status_code == 404
    path = f"routers/{made}/conntrack_helpers/{other['id']}"
    assert face('demo', 'PUT', path, {'conntrack_helper': {'protocol': 'tcp', 'port': 21}}).status_code == 400
    assert ok(face('demo', 'PUT', path, {'conntrack_helper': {'port': 70}}), 200)['port'] == 70
    shown = face('demo', 'GET', f'routers/{made}').json()['router']['conntrack_helpers']
    assert shown == [{'helper': 'ftp', 'protocol': 'tcp', 'port': 21},
                     {'helper': 'tftp', 'protocol': 'udp', 'port': 70}]
    assert on_host() == [['ftp', 'tcp', 21], ['tftp', 'udp', 70]]
    assert face('demo', 'DELETE', path).status_code == 204
    assert face('demo', 'GET', path).status_code == 404 and on_host() == [['ftp', 'tcp', 21]]
    assert face('demo', 'DELETE', f'routers/{made}').status_code == 204
    with face.db.reader() as conn:
        assert db_routers.helpers(conn, [made]) == {}
