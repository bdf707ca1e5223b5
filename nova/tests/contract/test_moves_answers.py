"""Moves of servers: the fields of requests and answers, at every version at which they change."""
import pytest
from jsonschema import validators

from nova.api import response_types as described
from nova.api.hosts import migrations
from nova.api.server_actions import moves as server_moves
from nova.db.moves import migrations as server_migrations
from nova.db.projects import flavors
from nova.db.servers import instances
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.web import params


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    """A server that migrates live, and one move of every other kind."""
    fixture = servers.Servers(tmp_path_factory.mktemp('moves'))
    with fixture.api_db.writer() as conn:
        flavors.create(conn, {'flavor_id': '2', 'name': 'm1.small', 'memory_mb': 1024, 'vcpus': 2, 'root_gb': 2})
    fixture.moving, fixture.idle = fixture.add_server(1), fixture.add_server(2)
    with fixture.cell_db.writer() as conn:
        row = instances.get(conn, fixture.idle)
        for kind, status in (('resize', 'confirmed'), ('migration', 'reverted'), ('evacuation', 'done')):
            server_migrations.create(conn, fixture.owner, row, kind, status, dest_compute='host2',
                                     dest_node='node2', dest_host='192.0.2.2')
        fixture.live = server_migrations.create(
            conn, fixture.owner, instances.get(conn, fixture.moving), 'live-migration', 'running',
            dest_compute='host2', memory_total_bytes=9, memory_processed_bytes=4, memory_remaining_bytes=5,
            disk_total_bytes=2, disk_processed_bytes=2, disk_remaining_bytes=0)
    yield fixture
    fixture.close()


OPERATIONS = [
    ('GET /os-migrations', lambda cloud: '/os-migrations', None),
    ('GET /os-migrations', lambda cloud: '/os-migrations?limit=2', None),
    ('GET /servers/{}/migrations', lambda cloud: f'/servers/{cloud.moving}/migrations', None),
    ('GET /servers/{}/migrations/{}', lambda cloud: f'/servers/{cloud.moving}/migrations/{cloud.live["id"]}', None),
]


def cases():
    for operation, path, _body in OPERATIONS:
        method, pattern = operation.split(' ')
        since = facts.minor(facts.routes()[method, pattern, '']['min'])
        for version in facts.boundaries(operation, 'response', max(since, 1)):
            yield pytest.param(operation, path, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation,path,version', cases())
def test_responses_have_the_documented_fields(cloud, operation, path, version):
    answer = cloud.admin(project=base.PROJECT).get(path(cloud), version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(operation, version, answer.json) == []
    assert answer.json.get('migrations') != []
    # also when nothing is left to be copied, which the public facts do not allow for
    validators.Draft202012Validator(described.body(operation, version)).validate(answer.json)


@pytest.mark.parametrize('operation', ['GET /os-migrations'])
def test_every_documented_field_is_shown(cloud, operation):
    for version in facts.boundaries(operation, 'response'):
        body = cloud.admin().get('/os-migrations?limit=1', version=f'2.{version}').json
        known = {name for name in facts.fields_at(operation, 'response', version) if name[0] != '('}
        shown = set(_paths(body))
        assert known - shown <= ({'migrations_links'} if version < 59 else set()), f'2.{version}'


def _paths(value, path=''):
    if isinstance(value, list):
        for item in value:
            yield path + '[]'
            yield from _paths(item, path + '[]')
    elif isinstance(value, dict):
        for name, item in value.items():
            below = f'{path}.{name}' if path else name
            yield below
            yield from _paths(item, below)


ACTIONS = [row for row in server_moves.ROUTES if row.body and not (row.action == 'migrate' and row.until)]


@pytest.mark.parametrize('row', ACTIONS, ids=lambda row: row.action)
def test_request_schemas_have_the_documented_fields(row):
    operation = f'POST /servers/{{}}/action {row.action}'
    for version in facts.boundaries(operation, 'request', row.since, row.until):
        known = facts.fields_at(operation, 'request', version)
        expected = {name: text.endswith('required') for name, text in known.items() if name[0] != '('}
        assert facts.schema_paths(row.body.schema(version)) == expected, f'2.{version}'
        assert row.body.is_closed(version) is ('(no other fields)' in known)


@pytest.mark.parametrize('row', migrations.ROUTES, ids=lambda row: row.path)
def test_query_keys_are_the_documented_ones(row):
    operation = 'GET ' + facts.nameless(row.path)
    for version in facts.boundaries(operation, 'query', row.since):
        known = facts.fields_at(operation, 'query', version)
        names = {name for name in known if name[-2:] != '[]'} - {'(no other fields)'}
        query = row.query or params.Query()
        assert {param.name for param in query.params if param.at(version)} == names, f'2.{version}'
        assert (query.closed is not None and version >= query.closed) is ('(no other fields)' in known)


@pytest.mark.parametrize('version', [1, 55, 56, 104])
@pytest.mark.parametrize(('name', 'body', 'status'), [
    ('resize', {'flavorRef': '2', 'OS-DCF:diskConfig': 'AUTO'}, 202), ('migrate', None, 202),
    ('confirmResize', None, 204), ('revertResize', None, 202)])
def test_actions_have_no_answer(cloud, name, body, status, version):
    uuid = cloud.add_server(3)
    if 'Resize' in name:
        with cloud.cell_db.writer() as conn:
            instances.update(conn, uuid, {'vm_state': 'resized'})
            server_migrations.create(conn, cloud.owner, instances.get(conn, uuid), 'resize', 'finished')
    answer = cloud.admin(project=base.PROJECT).post(f'/servers/{uuid}/action', {name: body},
                                                    version=f'2.{version}')
    assert (answer.status, answer.body) == (status, b''), answer.body
