"""What a project does to the networks of others over the Networking API: it takes no place, and stops nobody."""
import uuid

import pytest

from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.tables import network as t
from nova.network.linux import frames
from nova.network.rest import floating_ips
from nova.tests.support import network_neighbours
from nova.tests.support import network_routers as test_network_routers
from nova.tests.support.network_neighbours import plumbed
from nova.tests.support.network_routers import inside
from nova.tests.support.network_routers import ok
from nova.tests.support.network_routers import put
from nova.tests.support.network_routers import router

face = network_neighbours.face


def shared(face, **more):
    """(network, subnet) of demo's that the other project may use."""
    network, subnet = inside(face, **more)
    ok(face('demo', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': network, 'action': 'access_as_shared', 'target_tenant': 'p2'}}))
    return network, subnet


def outside(face, cidr='172.24.4.0/29'):
    return test_network_routers.outside(face, cidr)


def gateway(face, info, user='demo', ident=None):
    body = {'router': {'external_gateway_info': info}}
    return face(user, 'PUT', f'routers/{ident}', body) if ident else face(user, 'POST', 'routers', body)


def test_user_of_a_shared_network_cannot_attach_a_router_at_its_gateway_address(face):
    """A router at the gateway's address of a shared network reads what all its guests send."""
    _network, subnet = shared(face)
    joined = f'routers/{router(face, user="other")}/add_router_interface'
    refused = face('other', 'PUT', joined, {'subnet_id': subnet})
    assert refused.status_code == 400 and 'not owned' in refused.text
    put(face, f'routers/{router(face)}/add_router_interface', {'subnet_id': subnet})      # the owner


def test_addresses_outside_are_not_chosen_by_projects(face):
    """An address outside of the pools is one of the operator's own machines."""
    public = outside(face)
    refused = gateway(face, {'network_id': public, 'external_fixed_ips': [{'ip_address': '172.24.4.3'}]})
    assert refused.status_code == 403
    joined = router(face, public)
    assert gateway(face, {'network_id': public, 'external_fixed_ips': [{'ip_address': '172.24.4.3'}]},
                   ident=joined).status_code in (200, 403)       # 200: it has that one already
    for address in ('172.24.4.2', '172.24.4.3', '172.24.4.4', '172.24.4.5'):
        answer = gateway(face, {'network_id': public, 'external_fixed_ips': [
            {'ip_address': address}, {'ip_address': '172.24.4.6'}]}, ident=joined)
        assert answer.status_code == 403
    ok(gateway(face, {'network_id': public, 'external_fixed_ips': [{'ip_address': '172.24.4.6'}]}, 'admin', joined),
       200)


def test_subnets_outside_are_not_chosen_by_projects(face):
    public = outside(face)
    subnet = face('admin', 'GET', f'subnets?network_id={public}').json()['subnets'][0]['id']
    chosen = {'network_id': public, 'external_fixed_ips': [{'subnet_id': subnet}]}
    assert gateway(face, chosen).status_code == 403
    joined = router(face)
    assert gateway(face, chosen, ident=joined).status_code == 403
    ok(gateway(face, chosen, 'admin', joined), 200)
    ok(gateway(face, chosen, ident=joined), 200)                 # as it is
    ok(gateway(face, {'network_id': public, 'external_fixed_ips': []}), 201)


def test_external_gateway_info_can_be_sent_back_as_read(face):
    """Clients send back what they have read."""
    joined = router(face, outside(face))
    info = face('demo', 'GET', f'routers/{joined}').json()['router']['external_gateway_info']
    assert ok(gateway(face, info, ident=joined), 200)['external_gateway_info'] == info


def test_packets_of_projects_leave_under_the_routers_address(face):
    """Without translation a guest without port security sends to the outside from anybody's address."""
    public = outside(face)
    joined = router(face, public)
    plain = {'network_id': public, 'enable_snat': False}
    assert gateway(face, plain).status_code == 403
    assert gateway(face, plain, ident=joined).status_code == 403
    assert face('demo', 'GET', f'routers/{joined}').json()['router']['external_gateway_info']['enable_snat'] is True
    ok(gateway(face, plain, 'admin', joined), 200)
    ok(gateway(face, plain, ident=joined), 200)                  # as it is
    for info in ({'network_id': public}, {'network_id': public, 'external_fixed_ips': []}):
        kept = ok(gateway(face, info, ident=joined), 200)['external_gateway_info']
        assert kept['enable_snat'] is False
    translated = {'network_id': public, 'enable_snat': True}
    assert gateway(face, translated, ident=joined).status_code == 403
    ok(gateway(face, translated, 'admin', joined), 200)
    ok(gateway(face, translated, ident=joined), 200)
    assert gateway(face, plain, ident=joined).status_code == 403
    ok(gateway(face, translated), 201)                           # the value of new gateways


def test_a_network_that_is_not_there_is_refused_as_one_that_may_not_be_used(face):
    answers = [gateway(face, {'network_id': ident, 'enable_snat': False}, 'other')
               for ident in (inside(face)[0], str(uuid.uuid4()))]
    assert [answer.status_code for answer in answers] == [403, 403]


@pytest.mark.parametrize('of_other', (True, False))
def test_guests_of_others_get_addresses_of_the_pools(face, of_other):
    """What lies outside of them is the owner's to give: other machines may have it."""
    user = 'other' if of_other else 'demo'
    # no port of a DHCP server, which takes a random address of the pool
    network, _subnet = shared(face, enable_dhcp=False, allocation_pools=[{'start': '10.0.0.100', 'end': '10.0.0.200'}])

    def port(address):
        return face(user, 'POST', 'ports', {'port': {'network_id': network, 'fixed_ips': [{'ip_address': address}]}})
    if of_other:
        assert port('10.0.0.150').status_code == port('10.0.0.50').status_code == 403
        made = ok(face(user, 'POST', 'ports', {'port': {'network_id': network}}))
    else:
        made = ok(port('10.0.0.150'))
        assert port('10.0.0.50').status_code == 201
    changed = face(user, 'PUT', f'ports/{made["id"]}', {'port': {'fixed_ips': [{'ip_address': '10.0.0.60'}]}})
    assert changed.status_code == (403 if of_other else 200)


def test_ports_of_one_address_are_forwarded_up_to_a_bound(face):
    """Each is a rule that its router looks at; there was room for 131070 of each address."""
    public = outside(face)
    network, subnet = inside(face)
    put(face, f'routers/{router(face, public)}/add_router_interface', {'subnet_id': subnet})
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network}}))
    floating = ok(face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': public}}))
    with face.db.writer() as conn:
        db_networks.insert(conn, t.port_forwardings, [{
            'id': str(uuid.uuid4()), 'project_id': 'p1', 'floating_ip_id': floating['id'], 'protocol': 'tcp',
            'external_port': number, 'internal_port': 80, 'internal_port_id': port['id'], 'description': '',
            'internal_ip_address': port['fixed_ips'][0]['ip_address']}
            for number in range(1, floating_ips.MAX_FORWARDINGS)])

    def forward(number):
        return face('demo', 'POST', f'floatingips/{floating["id"]}/port_forwardings', {'port_forwarding': {
            'protocol': 'tcp', 'external_port': number, 'internal_port': 22, 'internal_port_id': port['id']}})
    assert forward(2000).status_code == 201
    refused = forward(2001)
    assert refused.status_code == 400 and str(floating_ips.MAX_FORWARDINGS) in refused.text


def joined_by_port(face, network, external, user):
    """A router of a project in a network that is shared with it."""
    port = ok(face(user, 'POST', 'ports', {'port': {'network_id': network}}))
    made = router(face, external, user)
    put(face, f'routers/{made}/add_router_interface', {'port_id': port['id']}, user='admin')
    return made


def floating(face, external, port, user='demo'):
    return ok(face(user, 'POST', 'floatingips', {'floatingip': {'floating_network_id': external, 'port_id': port}}))


def test_a_floating_address_comes_by_no_router_of_another_project(face):
    """A router of a neighbour took the address, and its routes led what came for it to a guest of that neighbour."""
    public = outside(face, '172.24.4.0/26')
    network, subnet = shared(face)
    strange = {joined_by_port(face, network, public, 'other') for _ in range(5)}
    port, theirs = (ok(face(user, 'POST', 'ports', {'port': {'network_id': network}}))['id']
                    for user in ('demo', 'other'))
    answer = face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': public, 'port_id': port}})
    assert answer.status_code == 404, answer.text                # no way of its own
    assert floating(face, public, theirs, 'other')['router_id'] in strange
    own = joined_by_port(face, network, public, 'demo')
    assert floating(face, public, port)['router_id'] == own
    gate = router(face, public)
    put(face, f'routers/{gate}/add_router_interface', {'subnet_id': subnet})
    more = ok(face('other', 'POST', 'ports', {'port': {'network_id': network}}))['id']
    assert floating(face, public, more, 'other')['router_id'] == gate


def served(face, user, network):
    """(address, device) of a port of a server."""
    port = ok(face(user, 'POST', 'ports', {'port': {'network_id': network}}))
    device = str(uuid.uuid4())
    with face.db.writer() as conn:
        db_networks.update(conn, t.ports, port['id'], {'host': 'host1', 'device_id': device,
                                                       'device_owner': 'compute:nova'})
    return port['fixed_ips'][0]['ip_address'], device


def behind(face, router_id, address):
    """The server whose metadata a request gets that comes by a router from an address."""
    with face.db.writer() as conn:
        db_networks.update(conn, t.routers, router_id, {'host': 'host1'})
        return db_ports.device_by_router(conn, router_id, address, 'host1')


def unfiltered(face, user, router_id, cidr='10.7.0.0/24'):
    """A network on a router with a guest that sends from any address."""
    network, subnet = inside(face, user, cidr)
    put(face, f'routers/{router_id}/add_router_interface', {'subnet_id': subnet}, user=user)
    ok(face(user, 'POST', 'ports', {'port': {'network_id': network, 'port_security_enabled': False}}))


def test_metadata_is_not_given_by_a_router_of_another_project(face):
    """Its guest sent from the address of another project's server in the shared network, and a route of the router led
    the answer to it: the user data of that server.
    """
    network, _subnet = shared(face)
    address, _device = served(face, 'demo', network)
    strange = joined_by_port(face, network, None, 'other')
    assert behind(face, strange, address) is None
    unfiltered(face, 'other', strange)
    put(face, f'routers/{strange}', {'router': {'routes': [
        {'destination': f'{address}/32', 'nexthop': '10.7.0.77'}]}}, user='other')
    assert behind(face, strange, address) is None


def test_metadata_is_refused_if_a_port_behind_the_router_has_no_port_security(face):
    """The owner of the shared network did so from another one of its networks."""
    network, subnet = shared(face)
    gate = router(face)
    put(face, f'routers/{gate}/add_router_interface', {'subnet_id': subnet})
    (own, device), (theirs, _their) = served(face, 'demo', network), served(face, 'other', network)
    assert behind(face, gate, own) == device
    unfiltered(face, 'demo', gate)
    assert behind(face, gate, own) == device and behind(face, gate, theirs) is None


def test_metadata_comes_by_the_router_of_a_network_that_an_administrator_shares(face):
    network, subnet = inside(face, 'admin')
    ok(face('admin', 'PUT', f'networks/{network}', {'network': {'shared': True}}), 200)
    gate = router(face, user='admin')
    put(face, f'routers/{gate}/add_router_interface', {'subnet_id': subnet}, user='admin')
    address, device = served(face, 'demo', network)
    assert behind(face, gate, address) == device
    unfiltered(face, 'admin', gate)
    assert behind(face, gate, address) is None


# ---- a host's plumbing is made for all projects at once --------------------------------------------------------------

ODD = [{'opt_name': 'bootfile-name', 'opt_value': ' '}, {'opt_name': 'bootfile-name', 'opt_value': ' x'},
       {'opt_name': '66', 'opt_value': 'x '}, {'opt_name': 'mtu', 'opt_value': '1400', 'ip_version': 5}]


@pytest.mark.parametrize('option', ODD)
def test_an_option_that_hosts_refuse_is_refused_at_once(face, option):
    """The host refused all that it should have with it: no guest of any project got its filters there any more."""
    network, _subnet = inside(face)
    refused = face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': [option]}})
    assert refused.status_code == 400


@pytest.mark.parametrize('option', ODD)
def test_an_option_that_was_taken_before_stops_no_host(face, option):
    network, _subnet = inside(face)
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'extra_dhcp_opts': [
        {'opt_name': '67', 'opt_value': 'good'}]}}))
    with face.db.writer() as conn:
        db_networks.update(conn, t.ports, port['id'], {'extra_dhcp_opts': [{'ip_version': 4, **option}, {
            'opt_name': '67', 'opt_value': 'good', 'ip_version': 4}]})
    lease, = plumbed(face, network, port['id']).leases
    assert [each['opt_value'] for each in lease['options']] == ['good']


def test_options_are_for_the_host_of_the_guest_alone(face):
    """Ports without a server filled what a host is told of all projects: 32 MiB of one network, of 64 that it takes."""
    network, _subnet = inside(face)
    options = [{'opt_name': '67', 'opt_value': 'x' * 255}]
    made = [ok(face('demo', 'POST', 'ports', {'port': {
        'network_id': network, 'dns_name': name, 'extra_dhcp_opts': options}})) for name in ('here', 'nowhere')]
    leases = plumbed(face, network, made[0]['id']).leases
    assert {lease['name']: len(lease['options']) for lease in leases} == {'here': 1, 'nowhere': 0}


def test_names_in_a_shared_network_are_of_one_project_each(face):
    """A neighbour's port answered to the name of a server, beside it."""
    network, _subnet = shared(face)

    def port(user, name):
        return ok(face(user, 'POST', 'ports', {'port': {'network_id': network, 'dns_name': name}}))
    taken, other, first, owner, again = (port(*each) for each in (
        ('other', 'db'), ('other', 'own'), ('demo', 'web'), ('demo', 'db'), ('demo', 'db')))
    late = port('other', 'web')
    names = {lease['address']: lease['name'] for lease in plumbed(face, network, first['id']).leases}
    assert [names[each['fixed_ips'][0]['ip_address']] for each in (taken, other, first, owner, again, late)] == [
        '', 'own', 'web', 'db', 'db', '']


def test_port_without_port_security_is_stopped_by_its_admin_state(face):
    network, _subnet = inside(face)
    ident = ok(face('demo', 'POST', 'ports', {'port': {'network_id': network, 'port_security_enabled': False}}))['id']
    plumbed(face, network, ident)

    def verdicts():
        port, = face.manager.load().ports
        return frames.from_guest(port)[-1], frames.to_guest(port, ['10.0.0.2'])
    assert verdicts() == ('accept', ['accept'])
    put(face, f'ports/{ident}', {'port': {'admin_state_up': False}})
    assert verdicts() == ('drop', ['drop'])
