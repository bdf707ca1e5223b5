"""What tests share with nova/tests/functional/test_network_subnet_pools.py."""
import pytest

from nova.tests.support import network_api as test_network_api

MISSING = '00000000-0000-0000-0000-000000000000'


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def ok(answer, code=201):
    assert answer.status_code == code, answer.text
    return next(iter(answer.json().values()))


def pool(face, user='demo', **values):
    return ok(face(user, 'POST', 'subnetpools', {'subnetpool': {'name': 'p', 'prefixes': ['10.80.0.0/16'], **values}}))


def network(face, user='demo'):
    return ok(face(user, 'POST', 'networks', {'network': {}}))['id']


def subnet(face, net, user='demo', **values):
    return face(user, 'POST', 'subnets', {'subnet': {'network_id': net, **values}})
