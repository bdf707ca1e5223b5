"""Pools, capabilities, filters and messages of the block storage API over HTTP, and what is refused."""
import pytest

from nova.tests.functional import cloud as cloud_fixture


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


def ask(client, path, code=200, method='GET', microversion='3.68', body=None):
    answer = client.request(method, '/volume/v3' + path, body, headers={
        'OpenStack-API-Version': f'volume {microversion}'})
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def test_pools_and_capabilities_are_for_administrators(cloud):
    admin, user = cloud.admin(), cloud.client()
    (pool,) = ask(admin, '/scheduler-stats/get_pools')['pools']
    assert pool == {'name': 'nova@embedded#default'}
    (pool,) = ask(admin, '/scheduler-stats/get_pools?detail=true')['pools']
    assert 0 < pool['capabilities']['free_capacity_gb'] <= pool['capabilities']['total_capacity_gb']
    assert ask(admin, '/capabilities/nova@embedded')['storage_protocol'] == 'file'
    ask(admin, '/capabilities/elsewhere', 404)
    for path in ('/scheduler-stats/get_pools', '/capabilities/nova@embedded', '/capabilities/elsewhere'):
        ask(user, path, 403)


def test_filters_are_those_of_the_lists(cloud):
    found = {row['resource']: row['filters'] for row in ask(cloud.client(), '/resource_filters')['resource_filters']}
    assert found.keys() == {'volume', 'snapshot', 'backup'} and 'status' in found['volume']
    for name in found['volume']:
        assert 'Invalid filters' not in cloud.client().request('GET', f'/volume/v3/volumes?{name}=x', headers={
            'OpenStack-API-Version': 'volume 3.68'}).text, name
    (one,) = ask(cloud.client(), '/resource_filters?resource=snapshot')['resource_filters']
    assert one['filters'] == found['snapshot']
    ask(cloud.client(), '/resource_filters', 404, microversion='3.32')


def test_there_are_no_messages(cloud):
    assert ask(cloud.client(), '/messages') == {'messages': []}
    ask(cloud.client(), '/messages/none', 404)
    ask(cloud.client(), '/messages/none', 404, method='DELETE')


def test_operations_that_only_cinder_supports_return_501_with_the_reason(cloud):
    for method, path, body in (('GET', '/group_types', None), ('GET', '/group_snapshots/detail', None),
                               ('POST', '/workers/cleanup', {}), ('DELETE', '/groups/g', None),
                               ('POST', '/consistencygroups', {})):
        answer = cloud.admin().request(method, '/volume/v3' + path, body)
        assert answer.status_code == 501 and 'Use Cinder for that.' in answer.text, path
