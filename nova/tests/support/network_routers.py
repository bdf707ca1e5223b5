"""What tests share with nova/tests/functional/test_network_routers.py."""
import pytest

from nova.tests.support import network_api as test_network_api


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def ok(answer, code=201):
    assert answer.status_code == code, answer.text
    return next(iter(answer.json().values())) if answer.text else None


def outside(face, cidr='172.24.4.0/29'):
    """A network to the outside, with 5 addresses for others than its gateway."""
    network = ok(face('admin', 'POST', 'networks', {'network': {'name': 'public', 'router:external': True}}))
    ok(face('admin', 'POST', 'subnets', {'subnet': {'network_id': network['id'], 'cidr': cidr,
                                                    'ip_version': 4, 'enable_dhcp': False}}))
    return network['id']


def inside(face, user='demo', cidr='10.0.0.0/24', **more):
    """(network id, subnet id) of a network of a project."""
    network = ok(face(user, 'POST', 'networks', {'network': {'name': 'net'}}))
    subnet = ok(face(user, 'POST', 'subnets', {'subnet': {'network_id': network['id'], 'cidr': cidr, 'ip_version': 4,
                                                          **more}}))
    return network['id'], subnet['id']


def router(face, external=None, user='demo'):
    return ok(face(user, 'POST', 'routers', {'router': {
        'name': 'r', **({'external_gateway_info': {'network_id': external}} if external else {})}}))['id']


def put(face, path, body, code=200, user='demo'):
    return ok(face(user, 'PUT', path, body), code)
