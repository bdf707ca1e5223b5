"""Shelving, soft delete and consoles on MariaDB and on PostgreSQL: what the databases must arbitrate."""
import threading

import pytest

from nova.db.projects import quotas
from nova.tests import long_runs
from nova.tests.functional import cloud as fixture
from nova.tests.integration import servers


@pytest.fixture(params=long_runs.rest(['postgresql', 'mariadb']))
def cloud(request, tmp_path):
    with servers.SHARED[request.param]() as url_of, fixture.running(
            tmp_path / 'state', ('left', 'right'), host='left', reclaim_instance_interval=1000,
            api_database__connection=url_of('api'), database__connection=url_of('cell')) as made:
        yield made
        assert made.services[0].manager.claim_check.audit() == []


def at_once(functions):
    start, found = threading.Barrier(len(functions)), []

    def run(function):
        start.wait()
        found.append(function())
    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


def test_one_of_parallel_actions_wins(cloud):
    client, image = cloud.client(version='2.91'), cloud.client().upload_image()
    first, second = (client.boot(image, version='2.1')['id'] for _ in range(2))

    def act(server_id, name, body=None):
        return cloud.client(version='2.91').post(f'/servers/{server_id}/action', {name: body}).status_code
    for server_id in (first, second):
        client.wait_for(server_id)
    for _ in range(3):
        assert at_once([lambda: act(first, 'shelve')] * 3) == [202, 409, 409]
        client.wait_for(first, 'SHELVED_OFFLOADED')
        assert at_once([lambda: act(first, 'unshelve')] * 3) == [202, 409, 409]
        client.wait_for(first)
    answer = client.post(f'/servers/{first}/remote-consoles', {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
    token = answer.json()['remote_console']['url'].rpartition('%3D')[2]
    path = f'/os-console-auth-tokens/{token}'
    assert cloud.admin('2.99').get(path).json()['console']['instance_uuid'] == first
    for server_id in (first, second):
        client.delete(f'/servers/{server_id}')
        client.wait_for(server_id, 'SOFT_DELETED')
    with cloud.api_db.writer() as conn:
        quotas.set_limits(conn, client.project_id, {'instances': 1})
    assert at_once([lambda: act(first, 'restore'), lambda: act(second, 'restore')]) == [202, 403]
    with cloud.api_db.reader() as conn:
        assert quotas.usage(conn, client.project_id)['instances'] == 1
    for server_id in (first, second):
        assert act(server_id, 'forceDelete') == 202
        client.wait_for(server_id, 'DELETED')
    assert cloud.admin('2.99').get(path).status_code == 404
    assert cloud.services[0].manager.quota_check.count_soft_deleted() == 0
