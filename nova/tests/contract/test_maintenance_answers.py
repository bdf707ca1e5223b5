"""Real answers about the maintenance of hosts, and images ahead of time, against the facts, at two versions."""
import pytest

from nova import context
from nova.db.placement import image_cache
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers

PATH = '/os-aggregates/1/os-host-maintenance'
HOST = 'kept'
IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('maintenance'))
    with fixture.cell_db.writer() as conn:
        cloud_rows.service(conn, HOST)
        cloud_rows.node(conn, HOST)
        cloud_rows.server(conn, HOST, 900, project_id=base.PROJECT)
        image_cache.add(conn, context.admin_context(), [], [IMAGE], 60, unable=[HOST])
    admin = fixture.admin()
    admin.post('/os-aggregates', {'aggregate': {'name': 'a'}})
    admin.post('/os-aggregates/1/action', {'add_host': {'host': HOST}})
    yield fixture
    fixture.close()


def _action(name):
    def body(api):
        if name.endswith('stop'):
            api.admin().post('/os-aggregates/1/action', {'os-host-maintenance:start': {'host': HOST}})
        return {name: {'host': HOST}}
    return body


# operation, path, what makes the body
OPERATIONS = [
    ('POST /os-aggregates/{}/action os-host-maintenance:start', '/os-aggregates/1/action',
     _action('os-host-maintenance:start')),
    ('POST /os-aggregates/{}/action os-host-maintenance:stop', '/os-aggregates/1/action',
     _action('os-host-maintenance:stop')),
    ('GET /os-aggregates/{}/os-host-maintenance', PATH, None),
    ('GET /os-aggregates/{}/os-host-maintenance/{}', f'{PATH}/{HOST}', None),
    ('GET /os-aggregates/{}/os-image-cache', '/os-aggregates/1/os-image-cache', None),
]
CASES = [pytest.param(*row, version, id=f'{row[0]} 2.{version}')
         for row in OPERATIONS for version in (1, facts.MAX)]


@pytest.mark.parametrize(('operation', 'path', 'body', 'version'), CASES)
def test_responses_have_the_documented_fields(api, operation, path, body, version):
    answer = api.admin().request(operation.split(' ')[0], path, body and body(api), version=f'2.{version}')
    assert answer.status == (202 if body else 200), answer.body
    assert facts.differences(operation, version, answer.json) == []
    if 'os-image-cache' in answer.json:
        assert answer.json['os-image-cache']['images'][0]['failures']
        return
    found = answer.json['os-host-maintenance']
    if isinstance(found, list):
        found, = found
    else:
        assert len(found['servers']) == 1
    assert found['host'] == HOST and sum(found['counts'].values()) == 1
