"""Subnets for ports of one kind (service_types): whose addresses which port gets."""
import uuid

import pytest

from nova import exception
from nova import objects
from nova.tests.support import network_api as test_network_api

SERVER = 'compute:nova'


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def _made(face, kind, user='admin', **values):
    answer = face(user, 'POST', kind, {kind[:-1]: values})
    assert answer.status_code == 201, answer.text
    return answer.json()[kind[:-1]]


def _network(face, *types, **more):
    """(id, [id of a subnet for each]); all of the project ``demo``, which made none of them."""
    project = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['project_id']
    ident = _made(face, 'networks', project_id=project, **more)['id']
    return ident, [_made(face, 'subnets', network_id=ident, cidr=f'10.7.{number}.0/29', ip_version=4,
                         enable_dhcp=False, service_types=list(each))['id'] for number, each in enumerate(types)]


def _subnets_of(port):
    return [entry['subnet_id'] for entry in port['fixed_ips']]


def _server(face, network):
    """The first address of a new server."""
    project = face('demo', 'GET', f'networks/{network}').json()['network']['project_id']
    vif, = face.manager.allocate_for_instance(
        face.context, instance=objects.Instance(uuid=str(uuid.uuid4()), project_id=project, hostname='a',
                                                availability_zone=None),
        requested_networks=[{'network_id': network}], security_groups=None, host='host1')
    return vif['network']['subnets'][0]['ips'][0]['address']


def test_ports_get_addresses_of_the_subnet_of_their_kind(face):
    network, (_all, servers, _other) = _network(face, (), (SERVER,), ('compute:far', 'network:dhcp'))
    # one that is named is taken, whatever it is for
    assert _subnets_of(_made(face, 'ports', 'demo', network_id=network, fixed_ips=[{'subnet_id': _other}])) == [_other]
    assert _subnets_of(_made(face, 'ports', 'demo', network_id=network, fixed_ips=[
        {'ip_address': '10.7.1.6'}])) == [servers]
    assert face('demo', 'GET', f'subnets/{servers}').json()['subnet']['service_types'] == [SERVER]
    assert _server(face, network).startswith('10.7.1.')
    assert _subnets_of(_made(face, 'ports', 'demo', network_id=network)) == [_all]
    assert _subnets_of(_made(face, 'ports', network_id=network, device_owner=SERVER)) == [servers]
    assert _subnets_of(_made(face, 'ports', network_id=network, device_owner='compute:elsewhere')) == [_all]


def test_full_subnet_of_a_service_type_falls_back_to_general_ones(face):
    network, _ = _network(face, (SERVER,), ())
    found = [_server(face, network).rpartition('.')[0] for _ in range(6)]
    assert found == ['10.7.0'] * 5 + ['10.7.1']


def test_port_creation_fails_if_no_subnet_allows_its_service_type(face):
    network, (servers,) = _network(face, (SERVER,))
    answer = face('demo', 'POST', 'ports', {'port': {'network_id': network}})
    assert (answer.status_code, answer.json()['NeutronError']['type']) == (409, 'IpAddressGenerationFailure')
    assert face('demo', 'GET', f'ports?network_id={network}').json()['ports'] == []
    path = f'subnets/{servers}'
    assert face('admin', 'PUT', path, {'subnet': {'service_types': ['network:dhcp']}}).status_code == 200
    with pytest.raises(exception.NoMoreFixedIps):
        _server(face, network)
    changed = face('admin', 'PUT', path, {'subnet': {'service_types': []}}).json()['subnet']
    assert changed['service_types'] == [] and _server(face, network)
    assert face('admin', 'PUT', path, {'subnet': {'name': 'n'}}).json()['subnet']['service_types'] == []


def test_service_types_separate_router_and_floating_addresses(face):
    outside = _made(face, 'networks', **{'router:external': True})['id']
    for number, kind in enumerate(('network:router_gateway', 'network:floatingip')):
        _made(face, 'subnets', network_id=outside, cidr=f'203.0.113.{16 * number}/28', ip_version=4, enable_dhcp=False,
              service_types=[kind])
    router = _made(face, 'routers', 'demo', external_gateway_info={'network_id': outside})
    inside, = router['external_gateway_info']['external_fixed_ips']
    assert int(inside['ip_address'].rpartition('.')[2]) < 16
    floating = face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': outside}}).json()
    assert int(floating['floatingip']['floating_ip_address'].rpartition('.')[2]) > 16


def test_invalid_service_types_are_refused_and_members_may_not_change_them(face):
    network, (subnet,) = _network(face, ())
    for wrong in (None, 'x', SERVER, [5], ['printer'], [SERVER + 'x' * 255], [f'compute:{n}' for n in range(21)]):
        for method, path, more in (('PUT', f'subnets/{subnet}', {}), ('POST', 'subnets', {
                'network_id': network, 'cidr': '10.9.0.0/24', 'ip_version': 4})):
            assert face('admin', method, path, {'subnet': {**more, 'service_types': wrong}}).status_code == 400, wrong
    allowed = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
    body = {'network_id': allowed, 'cidr': '10.9.0.0/24', 'ip_version': 4}
    assert face('demo', 'POST', 'subnets', {'subnet': {**body, 'service_types': [SERVER]}}).status_code == 403
    made = face('demo', 'POST', 'subnets', {'subnet': {**body, 'service_types': []}}).json()['subnet']
    path = f'subnets/{made["id"]}'
    assert face('demo', 'PUT', path, {'subnet': {'service_types': [SERVER]}}).status_code == 403
    # what was read may be sent back
    assert face('demo', 'PUT', path, {'subnet': {'name': 'n', 'service_types': []}}).status_code == 200


def test_only_who_has_the_network_may_name_what_is_for_other_ports(face):
    ident = _made(face, 'networks', shared=True)['id']
    one, other = (_made(face, 'subnets', network_id=ident, cidr=f'10.7.{number}.0/29', ip_version=4, enable_dhcp=False,
                        service_types=types)['id'] for number, types in enumerate(([], ['network:floatingip'])))
    for wanted in ({'subnet_id': other}, {'ip_address': '10.7.1.5'}):
        answer = face('demo', 'POST', 'ports', {'port': {'network_id': ident, 'fixed_ips': [wanted]}})
        assert 400 <= answer.status_code < 500, answer.text
    assert _subnets_of(_made(face, 'ports', 'demo', network_id=ident, fixed_ips=[{'subnet_id': one}])) == [one]
    assert _subnets_of(_made(face, 'ports', network_id=ident, fixed_ips=[{'subnet_id': other}])) == [other]
