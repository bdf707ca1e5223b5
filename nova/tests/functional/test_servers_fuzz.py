"""Bodies and queries of the wrong form: a fault below 500, and nothing changed."""
import random

import pytest
import sqlalchemy as sa

from nova.api.servers import schemas as server_schemas
from nova.db.tables import cell as tables_cell
from nova.tests.functional import servers

VALUES = (None, True, False, 0, 1, -1, 1.5, 10 ** 30, '', 'x', ' ', '\n', '0', 'True', 'é' * 300, 'x' * 70000,
          [], {}, [None], [[]], [{}], {'x': 'y'}, {'': ''}, [1, 'x'], {'name': {}}, [{'name': 1}], '9' * 5000,
          [{'uuid': None, 'port': None}], [{'source_type': 'blank', 'boot_index': '9' * 300}], '::::',
          '../../etc/passwd', '%s%n', "'; DROP TABLE instances; --")
VERSIONS = ('2.1', '2.56', '2.104')


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('fuzz'), quota__instances=-1, quota__cores=-1,
                              quota__ram=-1)
    yield fixture
    fixture.close()


@pytest.fixture(scope='module')
def server_id(cloud):
    return cloud.add_server()


def keys_of(schema):
    return sorted({param.name for param in schema.params})


@pytest.mark.parametrize('key', keys_of(server_schemas.SERVER))
def test_random_create_values_cause_no_server_error(cloud, key):
    for value in VALUES:
        for version, prefix, networks in (('2.1', '/v2', []), ('2.1', '/v2.1', []), ('2.56', '/v2.1', 'none'),
                                          ('2.104', '/v2.1', 'none')):
            body = cloud.body(**{'networks': networks, key: value})
            answer = cloud.client(prefix=prefix).post('/servers', body, version=version)
            assert answer.status < 500, (key, value, version, prefix, answer.body)


@pytest.mark.parametrize('key', keys_of(server_schemas.HINTS) + ['other', 'x' * 300])
def test_random_hints_cause_no_server_error(cloud, key):
    for value in VALUES:
        answer = cloud.client().post('/servers', {**cloud.body(), 'os:scheduler_hints': {key: value}})
        assert answer.status < 500, (key, value, answer.body)
        if answer.status == 202:
            assert cloud.client().get(
    '/servers/' + answer.json['server']['id'],
     version='2.104').status == 200


@pytest.mark.parametrize('part, schema', [('networks', server_schemas.NETWORK),
                                          ('block_device_mapping_v2', server_schemas.DEVICE_V2),
                                          ('block_device_mapping', server_schemas.DEVICE)])
def test_random_device_values_cause_no_server_error(cloud, part, schema):
    seeds = {
    'networks': {
        'uuid': cloud.network_id},
        'block_device_mapping_v2': {
            'source_type': 'blank',
            'boot_index': -1,
            'destination_type': 'local'},
             'block_device_mapping': {}}
    for key in keys_of(schema):
        for value in VALUES:
            answer = cloud.client().post('/servers', cloud.body(**{part: [{**seeds[part], key: value}]}),
                                         version='2.36')
            assert answer.status < 500, (part, key, value, answer.body)


@pytest.mark.parametrize('path, outer, keys', [
    ('', 'server', keys_of(server_schemas.UPDATE.params[0].type)),
    ('/action', 'rebuild', keys_of(server_schemas.REBUILD)),
    ('/action', 'createImage', keys_of(server_schemas.CREATE_IMAGE)),
    ('/action', 'reboot', ['type']), ('/action', 'os-getConsoleOutput', ['length']),
    ('/action', 'os-resetState', ['state']), ('/action', 'lock', ['locked_reason'])])
def test_values_of_changes(cloud, server_id, path, outer, keys):
    client = cloud.admin(project='a' * 32)
    for version in VERSIONS:
        for value in VALUES:
            inner = [{key: value} for key in keys] + [value]
            for body in inner:
                if outer == 'rebuild' and isinstance(body, dict):
                    body = {'imageRef': cloud.image_id, **body}
                method = 'POST' if path else 'PUT'
                answer = client.request(method, f'/servers/{server_id}{path}', {outer: body}, version=version)
                assert answer.status < 500, (outer, body, version, answer.body)


@pytest.mark.parametrize('raw',
                         [b'', b'{', b'[]', b'null', b'1', b'"x"', b'{}', b'{"server": null}', b'\xff\xfe',
                          b'{"server": []}', b'{"server": {}}', b'{"a":' * 200 +b'1' +b'}' * 200,
                          b'{"server": NaN}', b'{"x": "\\u0000"}', b'{"os-start": 1, "os-stop": 1}'])
def test_malformed_bodies_cause_no_server_error(cloud, server_id, raw):
    for method, path in (('POST', '/servers'), ('PUT', f'/servers/{server_id}'),
                         ('POST', f'/servers/{server_id}/action'), ('POST', f'/servers/{server_id}/metadata'),
                         ('PUT', f'/servers/{server_id}/metadata/x')):
        if method == 'PUT' and raw == b'{"server": {}}':
            continue                    # nothing to change is no error
        answer = cloud.client().request(method, path, raw=raw)
        assert answer.status in (400, 409), (method, path, answer.body)
        assert answer.fault[0] in ('badRequest', 'conflictingRequest')


@pytest.mark.threads                      # memory is given back after a large answer
def test_random_queries_cause_no_server_error(cloud):
    choice = random.Random(7)
    names = sorted({param.name for param in server_schemas.LIST.params if param.name})
    texts = ['', 'x', '1', '-1', '%', '%00', '%FF', '[', '(' * 100, '^a$', '9' * 400, 'None', 'true',
             '2026-01-01',
             '2026-99-99', '%F0%9F%92%A9', "'--", 'a,b', ',', '.*' * 100, '9999999999999999999']
    for client, path in ((cloud.client(), '/servers?'), (cloud.admin(), '/servers/detail?all_tenants=1&')):
        for name in names:
            for text in texts:
                answer = client.get(f'{path}{name}={text}', version=choice.choice(VERSIONS))
                assert answer.status < 500, (name, text, answer.body)


def test_cloud_works_after_random_requests(cloud):
    with cloud.cell_db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(tables_cell.instances)).scalar() > 0
    assert cloud.admin().get('/servers/detail?all_tenants=1&limit=50', version='2.104').status == 200
