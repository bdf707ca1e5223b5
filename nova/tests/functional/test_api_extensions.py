"""Plugins of the API, as an installed package has them: nova/tests/plugins/example_api."""
import importlib
import pathlib
import sys

import pytest
from stevedore import extension

from nova.api import app
from nova.api import extensions
from nova.api import openapi
from nova.tests.functional import servers

PATH = pathlib.Path(__file__).parents[1] / 'plugins/example_api'


def forget():
    """Let the next application look for plugins again."""
    for namespace in (extensions.NAMESPACE, *(f'{extensions.NAMESPACE}.server.{name}'
                                              for name in extensions.SERVER_HOOKS)):
        extension.ExtensionManager.ENTRY_POINT_CACHE.pop(namespace, None)
    extensions.load.cache_clear()


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PATH))
    importlib.invalidate_caches()
    forget()
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()
    monkeypatch.undo()
    sys.modules.pop('example_api', None)
    forget()


def test_it_is_listed_for_those_who_may_discover_it(cloud):
    user = cloud.client()
    found = {row['alias']: row for row in user.get('/extensions').json['extensions']}
    assert found['example-notes']['name'] == 'ExampleNotes'
    assert found['example-notes']['description'] == 'Notes of a project, as an example.'
    assert user.get('/extensions/example-notes').json['extension'] == found['example-notes']
    reader = cloud.client(roles=('reader',))
    assert 'example-notes' not in {row['alias'] for row in reader.get('/extensions').json['extensions']}
    assert reader.get('/extensions/example-notes').status == 404


def test_extension_adds_a_resource(cloud):
    user, path = cloud.client(), '/example-notes'
    assert user.post(path, {'note': {'text': 'first'}}).status == 201
    assert user.get(path).json == {'notes': [{'id': '0'}]}
    assert user.get(path + '/0').json == {'note': {'id': '0', 'text': 'first'}}
    assert user.get(path + '/1').status == 404 and user.delete(path + '/0').status == 405
    assert user.post(path, {'note': {}}).fault[:2] == ('badRequest', 400)
    assert cloud.client(roles=('reader',)).post(path, {'note': {'text': 'x'}}).fault[:2] == ('forbidden', 403)
    assert cloud.client(project=None).get(path).status == 401


def test_a_write_is_in_the_audit_log(cloud):
    user = cloud.client()
    user.audited = True
    assert user.post('/example-notes', {'note': {'text': 'first'}}).status == 201


@pytest.mark.parametrize('version, expected', [
    ('2.9', None), ('2.10', {'notes': 0}), ('2.19', {'notes': 0}), ('2.20', {'summary': {'notes': 0}}),
    ('2.104', {'summary': {'notes': 0}})])
def test_extension_operation_has_its_microversions(cloud, version, expected):
    answer = cloud.client(version=version).get('/example-notes/summary')
    assert answer.status == 404 if expected is None else answer.json == expected


def test_extension_adds_a_server_action(cloud):
    uuid = cloud.add_server()
    answer = cloud.client().post(f'/servers/{uuid}/action', {'example-greet': {'word': 'hello'}})
    assert (answer.status, answer.json) == (202, {'greeting': f'hello, {uuid}'})
    assert cloud.client().post(f'/servers/{uuid}/action', {'example-other': {}}).status == 400


@pytest.mark.parametrize('servers_path', extensions.SERVERS)
def test_extension_hooks_change_and_refuse_servers(cloud, servers_path):
    user, uuid = cloud.client(), cloud.add_server()
    body = cloud.body()
    made = user.post(servers_path, body).json['server']['id']
    assert user.get(f'/servers/{made}').json['server']['name'] == 'example-' + body['server']['name']
    assert user.put(f'{servers_path}/{uuid}', {'server': {'name': 'other'}}).json['server']['name'] == 'example-other'
    for action in ({'rebuild': {'imageRef': cloud.image_id}}, {'resize': {'flavorRef': '1'}}):
        answer = user.post(f'{servers_path}/{uuid}/action', action)
        assert answer.fault[:2] == ('forbidden', 403) and 'This deployment' in answer.fault[2]


def test_its_operations_are_documented(cloud):
    paths = openapi.document(cloud.application.api.routes, 104)['paths']
    assert paths['/example-notes']['post']['x-openstack-policies'] == ['os_compute_api:example-notes:create']
    assert 'example-greet' in paths['/servers/{id}/action']['post']['x-openstack-actions']


def test_a_policy_file_counts(cloud, tmp_path):
    cloud.policy.add({'os_compute_api:example-notes': '!'})
    assert cloud.client().get('/example-notes').fault[:2] == ('forbidden', 403)


class Taken(extensions.V3APIExtensionBase):
    """An operation that there is."""

    name = alias = 'taken'

    def get_resources(self):
        class Servers(extensions.Controller):
            def index(self, req):
                return {}
        return [extensions.ResourceExtension('servers', Servers())]


def test_a_plugin_takes_no_operation_of_ours(caplog):
    found = extensions.Plugins([Taken(), Taken()], {})
    assert 'Skipping API extension taken' in caplog.text and len(found.rows) == 1
    ours = app.all_routes()
    assert extensions.without_conflicts(ours, found) == [*ours] and 'the operation exists already' in caplog.text
