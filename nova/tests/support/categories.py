"""What tests share with nova/tests/functional/test_categories.py."""
import threading

import pytest

from nova.api.servers import category as server_category
from nova.db.placement import categories
from nova.tests.functional import base
from nova.tests.functional import servers

KEY = server_category.KEY
URL = '/os-instance-categories'


@pytest.fixture
def cloud(tmp_path):
    (tmp_path / 'policy.yaml').write_text('{}')
    fixture = servers.Servers(tmp_path, oslo_policy__policy_file=str(tmp_path / 'policy.yaml'))
    yield fixture
    fixture.close()


def add(cloud, name='storage', code=201, **values):
    answer = cloud.admin().post(URL, {'instance_category': {'name': name, **values}})
    assert answer.status == code, answer.body
    return answer.json.get('instance_category')


def race_of_a_category(cloud):
    """Either there is a server and the category, or neither."""
    for number in range(8):
        name = f'c{number}'
        add(cloud, name)
        barrier, codes = threading.Barrier(3), {}

        def work(what, call):
            barrier.wait()
            codes[what] = call().status
        threads = [threading.Thread(target=work, args=each) for each in (
            ('boot', lambda: cloud.admin(project=base.PROJECT).post('/servers', cloud.body(**{KEY: name}))),
            ('delete', lambda: cloud.admin().delete(f'{URL}/{name}')),
            ('purge', lambda: cloud.admin().post(f'{URL}/{name}/action', {'purge': None})))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        removed = 204 in (codes['delete'], codes['purge'])
        assert (codes['boot'] == 202) is not removed, codes
        with cloud.api_db.reader() as conn:
            assert categories.is_used(conn, name) is not removed
            assert (categories.find(conn, name) is None) is removed
