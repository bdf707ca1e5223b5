"""What a project does to the networks of others over the Networking API: nothing that takes their place."""
import uuid

import pytest

from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network.face import floating_ips
from nova.tests.functional import test_network_api
from nova.tests.functional.test_network_routers import inside
from nova.tests.functional.test_network_routers import ok
from nova.tests.functional.test_network_routers import outside
from nova.tests.functional.test_network_routers import put
from nova.tests.functional.test_network_routers import router


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def shared(face, **more):
    """(network, subnet) of demo's that the other project may use."""
    network, subnet = inside(face, **more)
    ok(face('demo', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': network, 'action': 'access_as_shared', 'target_tenant': 'p2'}}))
    return network, subnet


def gateway(face, info, user='demo', ident=None):
    body = {'router': {'external_gateway_info': info}}
    return face(user, 'PUT', f'routers/{ident}', body) if ident else face(user, 'POST', 'routers', body)


def test_who_may_use_a_network_does_not_become_its_gateway(face):
    """A router at the gateway's address of a shared network reads what all its guests send."""
    _network, subnet = shared(face)
    joined = f'routers/{router(face, user="other")}/add_router_interface'
    refused = face('other', 'PUT', joined, {'subnet_id': subnet})
    assert refused.status_code == 400 and 'not owned' in refused.text
    put(face, f'routers/{router(face)}/add_router_interface', {'subnet_id': subnet})      # the owner


def test_a_port_of_its_own_may_join_a_router(face):
    network, _subnet = shared(face)
    port = ok(face('other', 'POST', 'ports', {'port': {'network_id': network}}))
    assert port['fixed_ips'][0]['ip_address'] != '10.0.0.1'
    put(face, f'routers/{router(face, user="other")}/add_router_interface', {'port_id': port['id']}, user='other')


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


def test_what_a_gateway_has_may_be_said_again(face):
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
    ok(gateway(face, {'network_id': public}, ident=joined), 200)
    assert gateway(face, plain, ident=joined).status_code == 403


def test_a_network_that_is_not_there_is_refused_as_one_that_may_not_be_used(face):
    answers = [gateway(face, {'network_id': ident, 'enable_snat': False}, 'other')
               for ident in (inside(face)[0], str(uuid.uuid4()))]
    assert [answer.status_code for answer in answers] == [403, 403]


@pytest.mark.parametrize('of_other', (True, False))
def test_guests_of_others_get_addresses_of_the_pools(face, of_other):
    """What lies outside of them is the owner's to give: other machines may have it."""
    user = 'other' if of_other else 'demo'
    network, _subnet = shared(face, allocation_pools=[{'start': '10.0.0.100', 'end': '10.0.0.200'}])

    def port(address):
        return face(user, 'POST', 'ports', {'port': {'network_id': network, 'fixed_ips': [{'ip_address': address}]}})
    made = ok(port('10.0.0.150'))
    assert port('10.0.0.50').status_code == (400 if of_other else 201)
    changed = face(user, 'PUT', f'ports/{made["id"]}', {'port': {'fixed_ips': [{'ip_address': '10.0.0.60'}]}})
    assert changed.status_code == (400 if of_other else 200)


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
