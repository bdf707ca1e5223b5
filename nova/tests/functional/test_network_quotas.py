"""Quotas of the Network API: check_limit, force, and the same limits in the compute API."""
import pytest

from nova.tests.support import network_api as test_network_api


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def put(face, **values):
    return face('admin', 'PUT', 'quotas/p1', {'quota': values})


def quota(face):
    return face('admin', 'GET', 'quotas/p1').json()['quota']


@pytest.fixture
def used(face):
    """Three ports of the project."""
    for _ in range(3):
        assert face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}).status_code == 201
    return 3


def test_limit_below_the_usage_is_refused_as_a_whole(face, used):
    before = quota(face)
    refused = put(face, network=9, port=used - 1, check_limit=True)
    assert refused.status_code == 400, refused.text
    assert f'Quota limit {used - 1} for port must be greater than or equal to already used {used}' in refused.text
    assert quota(face) == before
    for limit in (used, 5000, -1):
        answer = put(face, network=9, port=limit, check_limit=True)
        assert answer.status_code == 200 and answer.json()['quota'] == quota(face), answer.text
        assert (quota(face)['port'], quota(face)['network']) == (limit, 9)


def test_limit_below_the_usage_is_set_by_force(face, used):
    for values in ({'force': True}, {'force': 'true', 'check_limit': False}, {}):
        answer = put(face, port=used - 1, **values)
        assert answer.status_code == 200 and quota(face)['port'] == used - 1, answer.text
        assert answer.json()['quota'].keys() == quota(face).keys()
    assert face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}).status_code == 409


@pytest.mark.parametrize('values', [{'force': 'x'}, {'check_limit': 5},
                                    {'check_limit': True, 'nothing': 1}, {'port': -2}])
def test_bad_options_change_nothing(face, values):
    before = quota(face)
    assert put(face, **{'network': 7, **values}).status_code == 400
    assert quota(face) == before


def test_check_limit_and_force_may_be_null(face, used):
    assert put(face, network=9, port=50, check_limit=None, force=None).status_code == 200
    assert put(face, port=used - 1, check_limit=True, force=True).status_code == 400
    assert put(face, port=50, check_limit=True, force=True).status_code == 200


@pytest.mark.parametrize('option', ['check_limit', 'force'])
def test_sdk_sets_quotas_of_networks(face, option):
    face.sdk().network.update_quota('p1', ports=5000, **{option: True})
    assert face.sdk().network.get_quota('p1').ports == 5000
