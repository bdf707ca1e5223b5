"""Types of volumes that administrators make, over HTTP: what is shown, who may change them, what is refused."""
import pytest

from nova.tests.functional import cloud as cloud_fixture

LUKS = {'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256, 'control_location': 'front-end'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


@pytest.fixture
def admin(cloud):
    """An administrator; types that a test has made go."""
    found = cloud.admin()
    yield found
    for row in ask(found, 'GET', '/volumes/detail?all_tenants=1')['volumes']:
        ask(found, 'DELETE', f'/volumes/{row["id"]}?force=true', code=202)
    for row in ask(found, 'GET', '/types')['volume_types'][2:]:
        ask(found, 'DELETE', f'/types/{row["id"]}', code=202)


def ask(client, method, path, body=None, code=200):
    answer = client.request(method, '/volume/v3' + path, body)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def make(admin, name, **values):
    return ask(admin, 'POST', '/types', {'volume_type': {'name': name, **values}})['volume_type']


def test_the_life_of_a_type(cloud, admin):
    user = cloud.client()
    made = make(admin, 'fast', description='d', **{'os-volume-type-access:is_public': True})
    assert made == {'id': made['id'], 'name': 'fast', 'description': 'd', 'extra_specs': {}, 'is_public': True,
                    'os-volume-type-access:is_public': True, 'qos_specs_id': None}
    path = f'/types/{made["id"]}'
    assert ask(user, 'GET', path)['volume_type'] == made
    assert [row['name'] for row in ask(user, 'GET', '/types')['volume_types']] == [
        '__DEFAULT__', 'multiattach', 'fast']
    volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'fast'}}, 202)['volume']
    assert volume['volume_type'] == 'fast'
    # a volume has the name that its type has now
    ask(admin, 'PUT', path, {'volume_type': {'name': 'faster', 'description': None}})
    shown = user.request('GET', f'/volume/v3/volumes/{volume["id"]}', None, headers={
        'OpenStack-API-Version': 'volume 3.63'}).json()['volume']
    assert (shown['volume_type'], shown['volume_type_id']) == ('faster', made['id'])
    listed = ask(user, 'GET', '/volumes/detail?volume_type=faster')['volumes']
    assert [row['id'] for row in listed] == [volume['id']]
    assert 'volumes of this type' in str(ask(admin, 'DELETE', path, code=400))
    ask(user, 'DELETE', f'/volumes/{volume["id"]}', code=202)
    ask(admin, 'DELETE', path, code=202)
    ask(user, 'GET', path, code=404)
    ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': made['id']}}, 404)


def test_extra_specs_are_those_that_are_carried_out(cloud, admin):
    path = f'/types/{make(admin, "shared")["id"]}'
    several = {'multiattach': '<is> True'}
    assert ask(admin, 'POST', f'{path}/extra_specs', {'extra_specs': several})['extra_specs'] == several
    assert ask(cloud.client(), 'GET', f'{path}/extra_specs/multiattach') == several
    volume = ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'shared'}}, 202)['volume']
    assert volume['multiattach'] is True
    for wrong in ({'volume_backend_name': 'x'}, {'multiattach': 'yes'}, {'a' * 300: 'x'}, {'a': 1}):
        ask(admin, 'POST', f'{path}/extra_specs', {'extra_specs': wrong}, 400)
        ask(admin, 'POST', '/types', {'volume_type': {'name': 'other', 'extra_specs': wrong}}, 400)
    ask(admin, 'POST', f'{path}/encryption', {'encryption': LUKS}, 400)          # and never both
    ask(admin, 'DELETE', f'{path}/extra_specs/multiattach', code=202)
    ask(admin, 'DELETE', f'{path}/extra_specs/multiattach', code=404)
    ask(admin, 'GET', f'{path}/extra_specs/multiattach', code=404)
    assert ask(admin, 'GET', f'{path}/extra_specs') == {'extra_specs': {}}


def test_an_encryption_says_what_can_be_done(admin):
    kind = make(admin, 'secret')['id']
    path = f'/types/{kind}/encryption'
    assert ask(admin, 'GET', path) == {}
    for name, wrong, word in (
            ('provider', 'plain', 'LUKS alone'), ('provider', 'luks2', 'version 1'), ('cipher', 'aes-cbc-essiv', 'xts'),
            ('key_size', 512, '256 bits'), ('control_location', 'back-end', 'hosts of servers')):
        assert word in str(ask(admin, 'POST', path, {'encryption': {**LUKS, name: wrong}}, 400))
    for wrong in ({}, {'provider': None}, {**LUKS, 'key_size': 'x'}, {**LUKS, 'key_size': True}):
        ask(admin, 'POST', path, {'encryption': wrong}, 400)
    ask(admin, 'PUT', f'{path}/provider', {'encryption': {'key_size': 256}}, 404)
    made = ask(admin, 'POST', path, {'encryption': {'provider': 'luks', 'cipher': None}})['encryption']
    assert made == {**LUKS, 'volume_type_id': kind, 'encryption_id': made['encryption_id']}
    ask(admin, 'POST', path, {'encryption': LUKS}, 400)
    ask(admin, 'POST', f'/types/{kind}/extra_specs', {'extra_specs': {'multiattach': '<is> True'}}, 400)
    shown = ask(admin, 'GET', path)
    assert {name: shown[name] for name in made} == made and shown['updated_at'] is None and shown['created_at']
    assert ask(admin, 'GET', f'{path}/cipher') == {'cipher': 'aes-xts-plain64'}
    ask(admin, 'GET', f'{path}/nothing', code=404)
    ask(admin, 'PUT', f'{path}/{made["encryption_id"]}', {'encryption': {'key_size': 256}})
    assert ask(admin, 'GET', path)['encryption_id'] == made['encryption_id']
    ask(admin, 'PUT', f'{path}/provider', {'encryption': {'provider': 'plain'}}, 400)
    ask(admin, 'DELETE', f'{path}/another', code=404)
    ask(admin, 'DELETE', f'{path}/provider', code=202)
    assert ask(admin, 'GET', path) == {}


def test_names_and_bounds(admin):
    ident = make(admin, 'one')['id']
    for taken in ('one', '__DEFAULT__', 'multiattach'):
        ask(admin, 'POST', '/types', {'volume_type': {'name': taken}}, 409)
    make(admin, 'two')
    ask(admin, 'PUT', f'/types/{ident}', {'volume_type': {'name': 'two'}}, 409)
    for wrong in ({}, {'name': ''}, {'name': ' '}, {'name': None}, {'name': 'x' * 256}, {'name': 7},
                  {'name': 'x', 'description': 'y' * 256}, {'name': 'x', 'is_public': False},
                  {'name': 'x', 'os-volume-type-access:is_public': False}):
        ask(admin, 'POST', '/types', {'volume_type': wrong}, 400)
    built_in = ask(admin, 'GET', '/types/default')['volume_type']['id']
    for method, tail, body in (('DELETE', '', None), ('PUT', '', {'volume_type': {'name': 'x'}}),
                               ('POST', '/encryption', {'encryption': LUKS}),
                               ('POST', '/extra_specs', {'extra_specs': {}})):
        assert 'make one of your own' in str(ask(admin, method, f'/types/{built_in}{tail}', body, 400))
        ask(admin, method, f'/types/no-such-type{tail}', body, 404)


@pytest.mark.parametrize('name', ['nova-demo', 'nova-service'])
def test_only_administrators_change_types(cloud, admin, name):
    other, path = cloud.client(name), f'/types/{make(admin, "mine")["id"]}'
    ask(admin, 'POST', f'{path}/encryption', {'encryption': LUKS})
    before = ask(admin, 'GET', path), ask(admin, 'GET', f'{path}/encryption')
    for method, tail, body in (
            ('POST', '', {'volume_type': {'name': 'theirs'}}), ('PUT', path, {'volume_type': {'name': 'theirs'}}),
            ('DELETE', path, None), ('POST', f'{path}/extra_specs', {'extra_specs': {'multiattach': '<is> True'}}),
            ('DELETE', f'{path}/extra_specs/multiattach', None), ('POST', f'{path}/encryption', {'encryption': LUKS}),
            ('PUT', f'{path}/encryption/provider', {'encryption': LUKS}),
            ('DELETE', f'{path}/encryption/provider', None)):
        ask(other, method, tail or '/types', body, 403)
    assert (ask(admin, 'GET', path), ask(admin, 'GET', f'{path}/encryption')) == before
    if name == 'nova-demo':
        ask(other, 'GET', f'{path}/encryption', code=403)
