"""Flavors of routers and their service profiles, with the API and the unmodified client."""
import pytest

from nova.tests.support import network_api as test_network_api
from nova.tests.support.network_subnet_pools import MISSING
from nova.tests.support.network_subnet_pools import ok


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def flavor(face, **values):
    return ok(face('admin', 'POST', 'flavors', {'flavor': {'name': 'f', 'service_type': 'L3_ROUTER_NAT', **values}}))


def profile(face, **values):
    return ok(face('admin', 'POST', 'service_profiles', {'service_profile': {'metainfo': 'm', **values}}))['id']


def bind(face, made, given):
    return face('admin', 'POST', f'flavors/{made}/service_profiles', {'service_profile': {'id': given}})


def router(face, flavor_id, user='demo'):
    return face(user, 'POST', 'routers', {'router': {'flavor_id': flavor_id}})


def refused(answer, code, kind):
    assert (answer.status_code, answer.json()['NeutronError']['type']) == (code, kind), answer.text


def test_a_router_has_a_flavor_while_the_flavor_and_a_profile_are_enabled(face):
    made, given = flavor(face)['id'], profile(face)
    refused(router(face, MISSING), 404, 'FlavorNotFound')
    refused(router(face, flavor(face, service_type='FLAVORS')['id']), 404, 'FlavorNotFound')
    refused(router(face, made), 503, 'ServiceProfileDisabled')
    assert bind(face, made, given).json() == {'service_profile': {'id': given}}
    refused(bind(face, made, given), 409, 'FlavorServiceProfileBindingExists')
    refused(bind(face, made, MISSING), 404, 'ServiceProfileNotFound')
    known = ok(router(face, made))
    assert known['flavor_id'] == made
    assert [each['id'] for each in ok(face('demo', 'GET', f'routers?flavor_id={made}'), 200)] == [known['id']]
    for path, body, kind in ((f'service_profiles/{given}', 'service_profile', 'ServiceProfileDisabled'),
                             (f'flavors/{made}', 'flavor', 'FlavorDisabled')):
        assert ok(face('admin', 'PUT', path, {body: {'enabled': False}}), 200)['enabled'] is False
        refused(router(face, made), 503, kind)
    path = f"routers/{known['id']}"
    assert face('demo', 'PUT', path, {'router': {'flavor_id': None}}).status_code == 400
    assert ok(face('demo', 'PUT', path, {'router': {'flavor_id': made, 'name': 'n'}}), 200)['name'] == 'n'


def test_what_is_in_use_is_not_deleted(face):
    made, given = flavor(face)['id'], profile(face)
    bind(face, made, given)
    known = ok(router(face, made))['id']
    refused(face('admin', 'DELETE', f'flavors/{made}'), 409, 'FlavorInUse')
    refused(face('admin', 'DELETE', f'service_profiles/{given}'), 409, 'ServiceProfileInUse')
    assert face('admin', 'DELETE', f'flavors/{made}/service_profiles/{given}').status_code == 204
    refused(face('admin', 'DELETE', f'flavors/{made}/service_profiles/{given}'), 404,
            'FlavorServiceProfileBindingNotFound')
    assert face('admin', 'DELETE', f'service_profiles/{given}').status_code == 204
    assert face('demo', 'DELETE', f'routers/{known}').status_code == 204
    assert face('admin', 'DELETE', f'flavors/{made}').status_code == 204


def test_administrators_make_flavors_and_everybody_reads_them(face):
    made, given = flavor(face, description='d'), profile(face)
    assert made == {'id': made['id'], 'name': 'f', 'description': 'd', 'enabled': True,
                    'service_type': 'L3_ROUTER_NAT', 'service_profiles': []}
    bind(face, made['id'], given)
    assert ok(face('demo', 'GET', f"flavors/{made['id']}"), 200) == {**made, 'service_profiles': [given]}
    assert ok(face('demo', 'GET', 'service_profiles'), 200) == []
    assert face('demo', 'GET', f'service_profiles/{given}').status_code == 404
    for path, body in (('flavors', {'flavor': {'service_type': 'L3_ROUTER_NAT'}}),
                       (f"flavors/{made['id']}/service_profiles", {'service_profile': {'id': given}}),
                       ('service_profiles', {'service_profile': {'metainfo': 'm'}})):
        assert face('demo', 'POST', path, body).status_code == 403, path
    assert face('demo', 'PUT', f"flavors/{made['id']}", {'flavor': {'name': 'n'}}).status_code == 403
    assert face('demo', 'DELETE', f"flavors/{made['id']}").status_code == 403


@pytest.mark.parametrize('path, body', [
    ('flavors', {'flavor': {'service_type': 'LOADBALANCERV2'}}), ('flavors', {'flavor': {'name': 'f'}}),
    ('service_profiles', {'service_profile': {}}), ('service_profiles', {'service_profile': {'driver': 'other'}})])
def test_what_no_provider_serves_is_refused(face, path, body):
    assert face('admin', 'POST', path, body).status_code == 400


def test_openstackclient_gives_a_flavor_a_profile(face):
    made, given = flavor(face)['id'], profile(face)
    face.cli('network', 'flavor', 'add', 'profile', 'f', given, user='admin')
    assert face.cli('network', 'flavor', 'show', made, user='admin')['service_profile_ids'] == [given]
    face.cli('network', 'flavor', 'remove', 'profile', 'f', given, user='admin')
    assert face.cli('network', 'flavor', 'show', made, user='admin')['service_profile_ids'] == []
