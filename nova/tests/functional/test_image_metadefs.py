"""Metadata definitions over HTTP: namespaces, their items, and who sees and changes them."""
import pytest

from nova.tests import image_service as service

ROOT = '/v2/metadefs/namespaces'


@pytest.fixture
def app(tmp_path):
    return service.application(tmp_path)


@pytest.fixture
def admin(app):
    return service.Client(app, service.ADMIN)


@pytest.fixture
def alice(app):
    return service.Client(app)


def make(client, namespace='OS::Compute::Disk', **fields):
    answer = client('POST', ROOT, {'namespace': namespace, **fields})
    assert answer.status == 201, answer.body
    return answer.json


def test_namespace_is_created_changed_and_deleted(admin):
    made = make(admin, description='disks')
    path = f'{ROOT}/OS%3A%3ACompute%3A%3ADisk'
    assert made == {
        'namespace': 'OS::Compute::Disk', 'description': 'disks', 'visibility': 'private', 'protected': False,
        'owner': service.ADMIN, 'created_at': made['created_at'], 'updated_at': made['created_at'], 'self': path,
        'schema': '/v2/schemas/metadefs/namespace'}
    assert admin('POST', ROOT, {'namespace': 'OS::Compute::Disk'}).status == 409
    changed = admin('PUT', path, {**made, 'namespace': 'disks', 'display_name': 'Disks', 'protected': True})
    assert changed.status == 200 and changed.json['display_name'] == 'Disks', changed.body
    assert admin('GET', path).status == 404
    assert admin('DELETE', f'{ROOT}/disks').status == 403                 # protected
    admin('PUT', f'{ROOT}/disks', {'namespace': 'disks', 'protected': False})
    assert admin('DELETE', f'{ROOT}/disks').status == 204
    assert admin('GET', f'{ROOT}/disks').status == 404
    for body in ({}, {'namespace': ''}, {'namespace': 'x' * 81}, {'namespace': 'n', 'visibility': 'shared'},
                 {'namespace': 'n', 'more': 1}, {'namespace': 'a/b'},
                 {'namespace': 'n', 'properties': {'a/b': {'title': 'x', 'type': 'string'}}}):
        assert admin('POST', ROOT, body).status == 400


def test_a_namespace_is_made_with_its_items(admin):
    made = make(admin, 'n', objects=[{'name': 'o', 'properties': {'p': {'type': 'string'}}}], tags=[{'name': 't'}],
                properties={'p': {'title': 'P', 'type': 'integer', 'minimum': 1}},
                resource_type_associations=[{'name': 'OS::Glance::Image', 'prefix': 'hw_'}])
    assert [each['name'] for each in made['objects']] == ['o'] and [each['name'] for each in made['tags']] == ['t']
    assert made['properties'] == {'p': {'title': 'P', 'type': 'integer', 'minimum': 1}}
    shown = admin('GET', f'{ROOT}/n?resource_type=OS::Glance::Image').json
    assert [*shown['properties']] == ['hw_p'] and shown['resource_type_associations'][0]['prefix'] == 'hw_'
    listed, = admin('GET', ROOT).json['namespaces']
    assert 'resource_type_associations' in listed and 'objects' not in listed
    assert admin('DELETE', f'{ROOT}/n').status == 204
    assert admin('GET', '/v2/metadefs/resource_types').json == {'resource_types': []}


@pytest.mark.parametrize('plural, body, change', [
    ('objects', {'name': 'a', 'description': 'd', 'required': ['p'], 'properties': {'p': {'type': 'string'}}},
     {'name': 'b', 'description': 'e'}),
    ('properties', {'name': 'a', 'title': 'A', 'type': 'string', 'enum': ['1', '2']},
     {'name': 'b', 'title': 'B', 'type': 'string'})])
def test_items_of_a_namespace_are_created_changed_and_deleted(admin, plural, body, change):
    make(admin, 'n')
    path = f'{ROOT}/n/{plural}'
    made = admin('POST', path, body)
    assert made.status == 201 and made.json.items() >= body.items(), made.body
    assert admin('POST', path, body).status == 409
    assert admin('GET', f'{path}/a').json == made.json
    listed = admin('GET', path).json[plural]
    assert listed == ({'a': {key: value for key, value in body.items() if key != 'name'}} if plural == 'properties'
                      else [made.json])
    changed = admin('PUT', f'{path}/a', {**made.json, **change})
    assert changed.status == 200 and changed.json['name'] == 'b', changed.body
    assert admin('GET', f'{path}/a').status == 404
    assert admin('POST', path, {**body, 'name': 'a/b'}).status == 400
    assert admin('PUT', f'{path}/b', {**body, 'name': 'a/b'}).status == 400
    assert admin('POST', path, {**body, 'more': 1}).status == admin('POST', path, {'title': 'x'}).status == 400
    assert admin('DELETE', f'{path}/b').status == 204 and admin('DELETE', f'{path}/b').status == 404
    admin('POST', path, body)
    assert admin('DELETE', path).status == 204 and not admin('GET', path).json[plural]


def test_tags_of_a_namespace_are_created_changed_and_deleted(admin):
    make(admin, 'n')
    path = f'{ROOT}/n/tags'

    def names():
        return [each['name'] for each in admin('GET', path).json['tags']]
    for name in ('a', 'b'):
        assert admin('POST', f'{path}/{name}').status == 201
    assert admin('POST', f'{path}/a').status == 409 and admin('POST', f'{path}/{"x" * 81}').status == 400
    assert admin('PUT', f'{path}/b', {'name': 'c'}).json['name'] == 'c' and names() == ['a', 'c']
    assert admin('POST', path, {'tags': [{'name': 'a/b'}]}).status == 400
    assert admin('POST', path, {'tags': [{'name': 'd'}]}).status == 201 and names() == ['d']
    admin('POST', path, {'tags': [{'name': 'e'}]}, headers={'X-OpenStack-Append': 'True'})
    assert names() == ['d', 'e']
    assert admin('GET', f'{path}/e').json['name'] == 'e'
    assert admin('DELETE', f'{path}/e').status == 204 and names() == ['d']
    assert admin('DELETE', path).status == 204 and names() == []


def test_resource_types_are_associated_with_a_namespace(admin):
    make(admin, 'n')
    path = f'{ROOT}/n/resource_types'
    made = admin('POST', path, {'name': 'OS::Nova::Flavor', 'properties_target': 'extra'})
    assert made.status == 201 and made.json['properties_target'] == 'extra'
    assert admin('GET', path).json['resource_type_associations'] == [made.json]
    assert [each['name'] for each in admin('GET', '/v2/metadefs/resource_types').json['resource_types']] == [
        'OS::Nova::Flavor']
    assert [row['namespace'] for row in admin('GET', f'{ROOT}?resource_types=OS::Nova::Flavor,x').json['namespaces']
            ] == ['n']
    assert admin('GET', f'{ROOT}?resource_types=x').json['namespaces'] == []
    assert admin('DELETE', f'{path}/OS%3A%3ANova%3A%3AFlavor').status == 204
    assert admin('GET', path).json == {'resource_type_associations': []}


def test_namespaces_are_paged(admin):
    for name in ('a', 'b', 'c'):
        make(admin, name)
    page = admin('GET', f'{ROOT}?limit=2&sort_key=namespace&sort_dir=asc').json
    assert [row['namespace'] for row in page['namespaces']] == ['a', 'b']
    page = admin('GET', page['next']).json
    assert [row['namespace'] for row in page['namespaces']] == ['c'] and 'next' not in page
    for query in ('limit=x', 'sort_key=owner', 'sort_dir=up', 'marker=none', 'visibility=x'):
        assert admin('GET', f'{ROOT}?{query}').status == 400, query


def test_users_see_public_and_own_namespaces_and_change_none(app, admin, alice):
    make(admin, 'shown', visibility='public', objects=[{'name': 'o'}])
    make(admin, 'hidden')
    make(admin, 'own', owner=service.ALICE)
    assert {row['namespace'] for row in alice('GET', ROOT).json['namespaces']} == {'shown', 'own'}
    assert alice('GET', f'{ROOT}/shown/objects/o').status == 200
    for path in ('', '/objects', '/objects/o', '/tags', '/resource_types'):
        assert alice('GET', f'{ROOT}/hidden{path}').status == 404
    for method, path, body in (
            ('POST', '', {'namespace': 'x'}), ('PUT', '/own', {'description': 'x'}), ('DELETE', '/own', None),
            ('POST', '/own/objects', {'name': 'x'}), ('POST', '/own/tags/x', None),
            ('DELETE', '/shown/objects/o', None),
            ('POST', '/own/properties', {'name': 'x', 'title': 'x', 'type': 'string'}),
            ('POST', '/own/resource_types', {'name': 'x'})):
        assert alice(method, ROOT + path, body).status == 403, (method, path)
    assert alice('DELETE', f'{ROOT}/hidden').status == 404


def test_metadata_schemas_and_tasks_are_listed(alice):
    for name in ('namespace', 'object', 'property', 'tag', 'resource_type', 'namespaces', 'objects', 'properties',
                 'tags', 'resource_types'):
        assert alice('GET', f'/v2/schemas/metadefs/{name}').json['name'] == name
    assert alice('GET', '/v2/schemas/metadefs/none').status == 404
    assert alice('GET', '/v2/tasks').json['tasks'] == []
