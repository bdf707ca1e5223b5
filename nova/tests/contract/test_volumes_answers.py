"""Answers about the volumes of servers against the public facts, at every version at which their fields change."""
import dataclasses

import pytest

from nova.api import app
from nova.api.server_actions import volumes_boot
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

LIST, SHOW = 'GET /servers/{}/os-volume_attachments', 'GET /servers/{}/os-volume_attachments/{}'
CREATE, UPDATE = 'POST /servers/{}/os-volume_attachments', 'PUT /servers/{}/os-volume_attachments/{}'
DELETE = 'DELETE /servers/{}/os-volume_attachments/{}'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('volumes'), volume__volumes=-1, volume__gigabytes=-1)
    yield fixture
    fixture.close()


@pytest.fixture
def server_id(cloud):
    return cloud.add_server(host=servers.HOST, node=servers.NODE)


def _create(cloud, version):
    values = {'volumeId': cloud.add_volume(), 'device': '/dev/vdd'}
    if version >= 49:
        values['tag'] = 'data'
    if version >= 79:
        values['delete_on_termination'] = True
    return {'volumeAttachment': values}


def _update(cloud, version):
    return {'volumeAttachment': {'volumeId': cloud.add_volume()}}


# operation, path with the server's and the volume's id, body
OPERATIONS = [
    (LIST, '/servers/{server}/os-volume_attachments', None),
    (SHOW, '/servers/{server}/os-volume_attachments/{volume}', None),
    (CREATE, '/servers/{server}/os-volume_attachments', _create),
    (UPDATE, '/servers/{server}/os-volume_attachments/{volume}', _update),
    (DELETE, '/servers/{server}/os-volume_attachments/{volume}', None),
    # the second path to servers: the answers of reads and updates; the others are the same rows (see below)
    ('GET /os-volumes_boot', '/os-volumes_boot', None),
    ('GET /os-volumes_boot/detail', '/os-volumes_boot/detail', None),
    ('GET /os-volumes_boot/{}', '/os-volumes_boot/{server}', None),
    ('PUT /os-volumes_boot/{}', '/os-volumes_boot/{server}', lambda cloud, version: {'server': {'name': 'vm'}}),
    *((f'{row.method} {facts.nameless(row.path)} {row.action or ""}'.strip(), None, None)
      for row in volumes_boot.ROUTES if row.method in ('POST', 'DELETE')),
]
# of a cell that is down
ELSEWHERE = {'servers[].status is missing'}


def _cases():
    for operation, path, body in OPERATIONS:
        until = 102 if 'os-volumes_boot' in operation else None
        versions = {version for part in ('request', 'response')
                    for version in facts.boundaries(operation, part, 1, until)}
        for version in sorted(versions) if path else ():
            yield pytest.param(operation, path, body, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation, path, body, version', _cases())
def test_responses_have_the_documented_fields(cloud, server_id, operation, path, body, version):
    volume_id = cloud.add_volume(server_id)
    answer = cloud.admin(project=base.PROJECT).request(
        operation.split(' ')[0], path.format(server=server_id, volume=volume_id), body and body(cloud, version),
        version=f'2.{version}')
    if operation in (UPDATE, DELETE) or operation == CREATE and version >= 101:
        assert (answer.status, answer.body) == (202, b'')
    else:
        assert answer.status == 200, answer.body
        assert set(facts.differences(operation, version, answer.json)) <= ELSEWHERE


def test_volume_attachments_are_paged(cloud, server_id):
    ids = [cloud.add_volume(server_id) for _ in range(3)]
    path = f'/servers/{server_id}/os-volume_attachments'

    def listed(query):
        return [each['volumeId'] for each in cloud.client().get(path + query).json['volumeAttachments']]
    assert listed('') == ids and listed('?limit=2') == ids[:2] and listed('?offset=1&limit=1') == ids[1:2]
    assert listed('?limit=0') == [] and listed('?offset=5') == []
    assert cloud.client().get(path + '?limit=x').status == 400
    assert cloud.client().get(path + '?other=1').status == 200
    assert cloud.client().get(path + '?other=1', version='2.75').status == 400


@pytest.mark.parametrize('row', volumes_boot.ROUTES, ids=lambda row: f'{row.method} {row.path} {row.action or ""}')
def test_the_second_path_has_the_same_rows(row):
    path = row.path.replace('/os-volumes_boot', '/servers')
    same, = [other for other in app.all_routes() if (other.method, other.path, other.action) == (
        row.method, path, row.action) and other.since == row.since]
    assert row == dataclasses.replace(same, path=row.path, until=102)


def test_the_second_path_has_all_documented_operations():
    documented = {key for key in facts.routes() if key[1].startswith('/os-volumes_boot')}
    assert {(row.method, facts.nameless(row.path), row.action or '') for row in volumes_boot.ROUTES} == documented


@pytest.mark.parametrize('operation, path', [
    ('GET', ''), ('POST', ''), ('GET', '/detail'), ('GET', '/{server}'), ('PUT', '/{server}'), ('DELETE', '/{server}')])
def test_os_volumes_boot_answers_like_servers_until_2_102(cloud, server_id, operation, path):
    """os-volumes_boot answers as /servers does until 2.102, and is gone after it."""
    def ask(prefix, version):
        body = {'POST': cloud.body(networks='none'), 'PUT': {'server': {'name': 'vm'}}}.get(operation)
        return cloud.client().request(operation, prefix + path.format(server=server_id), body, version=version)
    assert ask('/os-volumes_boot', '2.103').status == 404
    here = ask('/os-volumes_boot', '2.102')
    assert here.status == {'POST': 202, 'DELETE': 204}.get(operation, 200), here.body
    if operation in ('GET', 'PUT'):
        facts_of = f'{operation} /os-volumes_boot{path.replace("{server}", "{}")}'
        found = set(facts.differences(facts_of, 102, here.json)) - {'servers[].status is missing'}
        assert not found
        there = ask('/servers', '2.102').json
        if operation == 'PUT':                       # the second one is an update as well, maybe a second later
            there['server']['updated'] = here.json['server']['updated']
        assert here.json == there


@pytest.mark.parametrize('action', ['os-start', 'os-stop', 'createImage', 'reboot'])
def test_actions_work_on_os_volumes_boot(cloud, server_id, action):
    body = {'os-stop': None, 'os-start': None, 'createImage': {'name': 'copy'}, 'reboot': {'type': 'HARD'}}[action]
    answer = cloud.client().post(f'/os-volumes_boot/{server_id}/action', {action: body})
    assert answer.status == (409 if action == 'os-start' else 202)       # it is ACTIVE
    assert cloud.client().post(f'/os-volumes_boot/{server_id}/action', {'pause': None}).status == 400
