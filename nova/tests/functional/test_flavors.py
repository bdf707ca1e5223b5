"""Flavors, their extra specs and access."""
import pytest

from nova.identity import known_projects
from nova.tests.functional import base


def _create(api, flavor_id, **values):
    body = {'flavor': {'id': flavor_id, 'name': f'f-{flavor_id}', 'ram': 512, 'vcpus': 1, 'disk': 1, **values}}
    return api.admin().post('/flavors', body, version='2.101').json['flavor']


def _ids(client, query='', **more):
    return [flavor['id'] for flavor in client.get('/flavors' + query, **more).json['flavors']]


def test_create_and_show(api):
    made = api.admin().post('/flavors', {'flavor': {
        'name': 'm1.small', 'ram': '2048', 'vcpus': '2', 'disk': 20, 'swap': 512, 'rxtx_factor': '1.5',
        'OS-FLV-EXT-DATA:ephemeral': 3, 'os-flavor-access:is_public': 'yes', 'description': 'Small.'}},
        version='2.61')
    flavor = made.json['flavor']
    assert made.status == 200 and len(flavor['id']) == 36
    assert {key: flavor[key] for key in flavor if key not in ('id', 'links')} == {
        'name': 'm1.small', 'ram': 2048, 'vcpus': 2, 'disk': 20, 'swap': 512, 'rxtx_factor': 1.5,
        'OS-FLV-EXT-DATA:ephemeral': 3, 'os-flavor-access:is_public': True, 'description': 'Small.',
        'OS-FLV-DISABLED:disabled': False, 'extra_specs': {}}
    assert api.client().get(f'/flavors/{flavor["id"]}', version='2.61').json['flavor'] == flavor


def test_flavor_fields_depend_on_the_microversion(api):
    _create(api, 'a', description='A.')
    shown = {version: api.client().get('/flavors/a', version=f'2.{version}').json['flavor']
             for version in (1, 54, 55, 60, 61, 74, 75, 101, 102)}
    assert 'description' not in shown[54] and shown[55]['description'] == 'A.'
    assert 'extra_specs' not in shown[60] and shown[61]['extra_specs'] == {}
    assert (shown[74]['swap'], shown[75]['swap']) == ('', 0)
    assert 'rxtx_factor' in shown[101] and 'rxtx_factor' not in shown[102]
    assert 'OS-FLV-DISABLED:disabled' not in shown[102]


@pytest.mark.parametrize('values,message', [({'id': 'a', 'name': 'other'}, 'ID a'), ({'id': 'b'}, 'name f-a')])
def test_taken_id_or_name(api, values, message):
    _create(api, 'a')
    body = {'flavor': {'name': 'f-a', 'ram': 1, 'vcpus': 1, 'disk': 0, **values}}
    key, code, text = api.admin().post('/flavors', body).fault
    assert (key, code) == ('conflictingRequest', 409) and message in text
    assert _ids(api.admin()) == ['a']


def test_unknown_flavor_returns_404(api):
    assert api.client().get('/flavors/none').fault[:2] == ('itemNotFound', 404)
    assert api.admin().delete('/flavors/none').fault[:2] == ('itemNotFound', 404)
    body = {'flavor': {'description': None}}
    assert api.admin().put('/flavors/none', body, version='2.55').fault[:2] == ('itemNotFound', 404)


def test_flavor_is_deleted_by_administrators_only(api):
    _create(api, 'a', **{'os-flavor-access:is_public': False})
    api.admin().post('/flavors/a/action', {'addTenantAccess': {'tenant': base.PROJECT}})
    assert api.client().delete('/flavors/a').status == 403
    assert api.admin().delete('/flavors/a').status == 202
    _create(api, 'a', **{'os-flavor-access:is_public': False})
    assert api.client().get('/flavors/a').status == 404, 'access outlived the flavor'


def test_private_flavors_are_hidden_from_others(api):
    _create(api, 'open')
    _create(api, 'mine', **{'os-flavor-access:is_public': False})
    _create(api, 'theirs', **{'os-flavor-access:is_public': False})
    api.admin().post('/flavors/mine/action', {'addTenantAccess': {'tenant': base.PROJECT}})
    user, admin = api.client(), api.admin(project='c' * 32)
    assert _ids(user) == ['mine', 'open']
    assert _ids(user, '?is_public=None') == ['mine', 'open'], 'a user cannot ask for everything'
    assert _ids(user, '?is_public=False') == ['mine', 'open']
    assert user.get('/flavors/theirs').status == 404
    assert user.get('/flavors/theirs/os-extra_specs').status == 404
    assert user.get('/flavors/theirs/os-extra_specs/a').status == 404
    assert _ids(admin) == ['open']
    assert _ids(admin, '?is_public=None') == ['mine', 'open', 'theirs']
    assert _ids(admin, '?is_public=false') == ['mine', 'theirs']
    assert admin.get('/flavors/theirs').status == 200


@pytest.mark.parametrize('factor', ['0', 0, '0.0', '9' * 400, '3.5e38', '4' + '0' * 38, -1, 'x'])
def test_rxtx_factor_out_of_bounds_is_refused(api, factor):
    answer = api.admin().post('/flavors', {'flavor': {'name': 'f', 'ram': 1, 'vcpus': 1, 'disk': 1,
                                                      'rxtx_factor': factor}})
    assert answer.status == 400 and 'rxtx_factor' in answer.fault[2]


def test_flavors_are_filtered_and_sorted(api):
    for number, ram in ((1, 64), (2, 512), (3, 2048)):
        _create(api, f'f{number}', ram=ram, disk=10 - number)
    client = api.client()
    assert _ids(client, '?minRam=512') == ['f2', 'f3']
    assert _ids(client, '?minDisk=8') == ['f1', 'f2']
    assert _ids(client, '?sort_key=memory_mb&sort_dir=desc') == ['f3', 'f2', 'f1']
    assert _ids(client, '?name=f-f2', version='2.102') == ['f2']
    assert _ids(client, '?name=f-_2', version='2.102') == []
    assert client.get('/flavors?name=f2', version='2.101').status == 400
    assert client.get('/flavors?sort_key=rxtx_factor', version='2.102').status == 400
    for text in ('0' * 11 + '9' * 22, '0' * 5000, '2147483648'):
        assert client.get(f'/flavors?minRam={text}').status == 400


@pytest.mark.parametrize('order', ['', 'sort_key=memory_mb&sort_dir=desc&', 'sort_key=description&',
                                   'sort_key=description&sort_dir=desc&', 'sort_key=updated_at&',
                                   'sort_key=is_public&', 'sort_key=disabled&sort_dir=desc&'])
def test_pages_follow_each_other(api, order):
    for number in range(5):
        _create(api, f'f{number}', ram=64 * (number % 2 + 1), **({'description': 'd'} if number % 3 == 0 else {}))
    everything = _ids(api.client(), '?' + order)
    client, pages, query = api.client(), [], f'?{order}limit=2'
    while query:
        body = client.get('/flavors' + query).json
        pages.append([flavor['id'] for flavor in body['flavors']])
        links = body.get('flavors_links')
        query = links and '?' + links[0]['href'].partition('?')[2]
    assert sum(pages, []) == everything and len(set(everything)) == 5
    assert [len(page) for page in pages] == [2, 2, 1]


def test_flavor_pages_respect_max_limit(tmp_path):
    api = base.ApiFixture(tmp_path, api__max_limit=2)
    for number in range(3):
        _create(api, f'f{number}')
    assert len(_ids(api.client())) == 2
    assert len(_ids(api.client(), '?limit=100')) == 2
    assert _ids(api.client(), '?limit=0') == []
    assert api.client().get('/flavors?marker=f9').fault[1:] == (400, 'marker [f9] not found')
    api.close()


def test_flavor_description_can_be_changed_since_2_55(api):
    _create(api, 'a')
    body = {'flavor': {'description': 'Later.'}}
    answer = api.admin().put('/flavors/a', body, version='2.55')
    assert answer.json['flavor']['description'] == 'Later.'
    assert api.client().put('/flavors/a', body, version='2.55').status == 403


# ---- access ------------------------------------------------------------------

def test_access_to_a_private_flavor_is_managed(api):
    _create(api, 'p', **{'os-flavor-access:is_public': False})
    admin, entry = api.admin(), {'flavor_id': 'p', 'tenant_id': 't1'}
    assert admin.get('/flavors/p/os-flavor-access').json == {'flavor_access': []}
    added = admin.post('/flavors/p/action', {'addTenantAccess': {'tenant': 't1'}})
    assert (added.status, added.json) == (200, {'flavor_access': [entry]})
    assert admin.post('/flavors/p/action', {'addTenantAccess': {'tenant': 't1'}}).status == 409
    assert admin.get('/flavors/p/os-flavor-access').json == {'flavor_access': [entry]}
    assert api.client().get('/flavors/p/os-flavor-access').status == 403
    removed = admin.post('/flavors/p/action', {'removeTenantAccess': {'tenant': 't1'}})
    assert removed.json == {'flavor_access': []}
    assert admin.post('/flavors/p/action', {'removeTenantAccess': {'tenant': 't1'}}).status == 404
    assert admin.post('/flavors/none/action', {'addTenantAccess': {'tenant': 't1'}}).status == 404


def test_access_for_an_unknown_project_is_refused(api):
    api.services.projects = known_projects.Embedded(api.api_db)
    _create(api, 'p', **{'os-flavor-access:is_public': False})
    answer = api.admin().post('/flavors/p/action', {'addTenantAccess': {'tenant': 'nothing'}})
    assert answer.status == 400 and 'no project nothing' in answer.fault[2]
    assert api.admin().get('/flavors/p/os-flavor-access').json == {'flavor_access': []}


def test_access_to_a_public_flavor_is_refused_since_2_7(api):
    _create(api, 'a')
    body = {'addTenantAccess': {'tenant': 't1'}}
    assert api.admin().get('/flavors/a/os-flavor-access').status == 404
    assert api.admin().post('/flavors/a/action', body, version='2.6').status == 200
    assert api.admin().post('/flavors/a/action', body, version='2.7').status == 409


# ---- extra specs -------------------------------------------------------------

def test_extra_specs_are_managed(api):
    _create(api, 'a')
    admin, path = api.admin(), '/flavors/a/os-extra_specs'
    made = admin.post(path, {'extra_specs': {'hw:cpu_policy': 'shared', 'n': 5}})
    assert made.json == {'extra_specs': {'hw:cpu_policy': 'shared', 'n': '5'}}
    assert admin.put(path + '/n', {'n': '6'}).json == {'n': '6'}
    assert api.client().get(path).json == {'extra_specs': {'hw:cpu_policy': 'shared', 'n': '6'}}
    assert api.client().get(path + '/n').json == {'n': '6'}
    assert admin.delete(path + '/n').status == 200
    assert admin.delete(path + '/n').status == 404
    assert api.client().get(path + '/n').status == 404
    assert api.client().post(path, {'extra_specs': {'a': 'b'}}).status == 403
    flavor = api.client().get('/flavors/detail', version='2.61').json['flavors'][0]
    assert flavor['extra_specs'] == {'hw:cpu_policy': 'shared'}


@pytest.mark.parametrize('body', [{}, {'m': '1'}, {'n': '1', 'm': '2'}, {'n': ['1']}, {'n': 'v' * 256}])
def test_extra_spec_and_its_path_differ(api, body):
    _create(api, 'a')
    assert api.admin().put('/flavors/a/os-extra_specs/n', body).status == 400


@pytest.mark.parametrize('key', ['a/b', 'k' * 256, ''])
def test_invalid_extra_spec_keys_return_400(api, key):
    _create(api, 'a')
    assert api.admin().post('/flavors/a/os-extra_specs', {'extra_specs': {key: 'v'}}).status == 400


@pytest.mark.parametrize('key,value,status', [
    ('hw:cpu_policy', 'dedicated', 200), ('hw:cpu_policy', 'none', 400), ('hw:cpu_polici', 'shared', 400),
    ('hw:numa_mem.0', '512', 200), ('custom:anything', 'goes', 200), ('plain', 'goes', 200)])
def test_extra_specs_are_validated_since_2_86(api, key, value, status):
    _create(api, 'a')
    body = {'extra_specs': {key: value}}
    assert api.admin().post('/flavors/a/os-extra_specs', body, version='2.85').status == 200
    assert api.admin().post('/flavors/a/os-extra_specs', body, version='2.86').status == status
