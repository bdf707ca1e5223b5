"""Types of volumes that administrators make, over HTTP: what is shown, who may change them, what is refused."""
import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import waiting
from nova.tests.support.volume_types import ask
from nova.tests.support.volume_types import make
from nova.tests.support.volume_types import until

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
    for row in ask(found, 'GET', '/types?is_public=None')['volume_types'][2:]:
        ask(found, 'DELETE', f'/types/{row["id"]}', code=202)


def test_volume_type_is_created_changed_and_deleted(cloud, admin):
    user = cloud.client()
    made = make(admin, 'fast', description='d', **{'os-volume-type-access:is_public': True})
    # tempest takes no more than these fields
    assert made == {'id': made['id'], 'name': 'fast', 'description': 'd', 'extra_specs': {}, 'is_public': True,
                    'os-volume-type-access:is_public': True}
    path = f'/types/{made["id"]}'
    assert ask(user, 'GET', path)['volume_type'] == made
    assert ask(admin, 'GET', path)['volume_type'] == {**made, 'qos_specs_id': None}
    assert [row['name'] for row in ask(user, 'GET', '/types')['volume_types']] == [
        '__DEFAULT__', 'multiattach', 'fast']
    volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'fast'}}, 202)['volume']
    assert volume['volume_type'] == 'fast'
    # a volume has the name that its type has now
    changed = ask(admin, 'PUT', path, {'volume_type': {'name': 'faster', 'description': None}})['volume_type']
    assert changed == {'id': made['id'], 'name': 'faster', 'description': None, 'extra_specs': {}, 'is_public': True}
    shown = user.request('GET', f'/volume/v3/volumes/{volume["id"]}', None, headers={
        'OpenStack-API-Version': 'volume 3.63'}).json()['volume']
    assert (shown['volume_type'], shown['volume_type_id']) == ('faster', made['id'])
    listed = ask(user, 'GET', '/volumes/detail?volume_type=faster')['volumes']
    assert [row['id'] for row in listed] == [volume['id']]
    until(user, volume['id'])
    assert 'in use by volumes' in str(ask(admin, 'DELETE', path, code=400))
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
    for wrong in ({'vendor:fast': 'x'}, {'multiattach': 'yes'}, {'a' * 300: 'x'}, {'a': 1},
                  {'capabilities:a/b': 'x'}):
        ask(admin, 'POST', f'{path}/extra_specs', {'extra_specs': wrong}, 400)
        ask(admin, 'POST', '/types', {'volume_type': {'name': 'other', 'extra_specs': wrong}}, 400)
    ask(admin, 'POST', f'{path}/encryption', {'encryption': LUKS}, 400)          # and never both
    ask(admin, 'DELETE', f'{path}/extra_specs/multiattach', code=202)
    ask(admin, 'DELETE', f'{path}/extra_specs/multiattach', code=404)
    ask(admin, 'GET', f'{path}/extra_specs/multiattach', code=404)
    assert ask(admin, 'GET', f'{path}/extra_specs') == {'extra_specs': {}}


def test_one_extra_spec_is_set_by_its_key(admin):
    path = f'/types/{make(admin, "one", extra_specs={"storage_protocol": "file"})["id"]}/extra_specs'
    assert ask(admin, 'PUT', f'{path}/multiattach', {'multiattach': '<is> True'}) == {'multiattach': '<is> True'}
    assert ask(admin, 'GET', path)['extra_specs'] == {'storage_protocol': 'file', 'multiattach': '<is> True'}
    for wrong in ({'other': 'x'}, {'multiattach': '<is> True', 'other': 'x'}, {}, {'multiattach': 1}):
        ask(admin, 'PUT', f'{path}/multiattach', wrong, 400)


def test_a_type_has_at_most_8_extra_specs(admin):
    path = f'/types/{make(admin, "many", extra_specs={f"capabilities:{number}": "x" for number in range(8)})["id"]}'
    for method, below, body in (('POST', '', {'extra_specs': {'capabilities:8': 'x'}}),
                                ('PUT', '/capabilities:8', {'capabilities:8': 'x'})):
        refused = ask(admin, method, f'{path}/extra_specs{below}', body, 400)
        assert 'at most 8 extra specs' in refused['badRequest']['message']
    ask(admin, 'PUT', f'{path}/extra_specs/capabilities:7', {'capabilities:7': 'y'})
    assert len(ask(admin, 'GET', f'{path}/extra_specs')['extra_specs']) == 8


def test_types_are_listed_by_name_and_description(admin):
    make(admin, 'first', description='of disks')
    make(admin, 'second', description='of disks')
    for query, names in (('name=first', ['first']), ('description=of%20disks', ['first', 'second']), ('name=x', [])):
        found = ask(admin, 'GET', f'/types?is_public=None&{query}')['volume_types']
        assert [row['name'] for row in found] == names, query


def test_a_volume_is_not_created_of_a_type_that_the_backend_does_not_meet(cloud, admin):
    specs = {'volume_backend_name': 'embedded', 'capabilities:thin_provisioning_support': '<is> True'}
    assert make(admin, 'met', extra_specs=specs)['extra_specs'] == specs
    ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'met'}}, 202)
    shown, = [row for row in ask(cloud.client(), 'GET', '/types')['volume_types'] if row['name'] == 'met']
    assert shown['extra_specs'] == {}                          # they describe the deployment
    assert ask(cloud.client(), 'GET', f'/types/{shown["id"]}/extra_specs') == {'extra_specs': {}}
    ask(cloud.client(), 'GET', f'/types/{shown["id"]}/extra_specs/volume_backend_name', code=404)
    make(admin, 'unmet', extra_specs={'capabilities': 'gpu'})
    refused = ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'unmet'}}, 400)
    assert refused['badRequest']['message'] == 'No backend meets the extra specs of volume type unmet.'
    volume = ask(admin, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['id']
    until(admin, volume)
    ask(admin, 'POST', f'/volumes/{volume}/action', {'os-retype': {'new_type': 'unmet'}}, 400)


def test_a_type_is_restricted_to_availability_zones(cloud, admin):
    make(admin, 'here', extra_specs={'RESKEY:availability_zones': 'nova'})
    made = ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'here'}}, 202)['volume']
    assert made['availability_zone'] == 'nova'
    make(admin, 'elsewhere', extra_specs={'RESKEY:availability_zones': 'a, b'})
    refused = ask(admin, 'POST', '/volumes', {'volume': {
        'size': 1, 'volume_type': 'elsewhere', 'availability_zone': 'nova'}}, 400)
    assert 'is not available in availability zone' in refused['badRequest']['message']
    ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'elsewhere'}}, 400)     # no host is in zone a


def test_an_encryption_says_what_can_be_done(admin):
    kind = make(admin, 'secret')['id']
    path = f'/types/{kind}/encryption'
    assert ask(admin, 'GET', path) == {}
    for name, wrong, word in (
            ('provider', 'plain', 'only luks'), ('provider', 'luks2', 'version 1'), ('cipher', 'aes-cbc-essiv', 'xts'),
            ('key_size', 512, '256 bits'), ('control_location', 'elsewhere', 'back-end')):
        assert word in str(ask(admin, 'POST', path, {'encryption': {**LUKS, name: wrong}}, 400))
    for wrong in ({}, {'provider': None}, {**LUKS, 'key_size': 'x'}, {**LUKS, 'key_size': True}):
        ask(admin, 'POST', path, {'encryption': wrong}, 400)
    ask(admin, 'PUT', f'{path}/provider', {'encryption': {'key_size': 256}}, 404)
    made = ask(admin, 'POST', path, {'encryption': {'provider': 'luks', 'cipher': None}})['encryption']
    assert made == {**LUKS, 'volume_type_id': kind, 'encryption_id': made['encryption_id']}
    ask(admin, 'POST', path, {'encryption': LUKS}, 400)
    ask(admin, 'PUT', f'{path}/{made["encryption_id"]}', {'encryption': {'control_location': 'back-end'}})
    assert 'does not encrypt volumes on the volume host' in str(ask(admin, 'POST', '/volumes', {'volume': {
        'size': 1, 'volume_type': 'secret'}}, 400))
    ask(admin, 'PUT', f'{path}/{made["encryption_id"]}', {'encryption': {'control_location': 'front-end'}})
    ask(admin, 'POST', f'/types/{kind}/extra_specs', {'extra_specs': {'multiattach': '<is> True'}})
    assert 'not support multiattach' in str(ask(admin, 'POST', '/volumes', {'volume': {
        'size': 1, 'volume_type': 'secret'}}, 400))
    shown = ask(admin, 'GET', path)
    assert {name: shown[name] for name in made} == made and shown['updated_at'] and shown['created_at']
    assert ask(admin, 'GET', f'{path}/cipher') == {'cipher': 'aes-xts-plain64'}
    ask(admin, 'GET', f'{path}/nothing', code=404)
    ask(admin, 'PUT', f'{path}/{made["encryption_id"]}', {'encryption': {'key_size': 256}})
    assert ask(admin, 'GET', path)['encryption_id'] == made['encryption_id']
    ask(admin, 'PUT', f'{path}/provider', {'encryption': {'provider': '', 'key_size': 0}})         # from Go
    assert ask(admin, 'GET', path)['provider'] == LUKS['provider']
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
                  {'name': 'x', 'description': 'y' * 256}, {'name': 'x', 'is_public': 'perhaps'},
                  {'name': 'x', 'is_public': True, 'os-volume-type-access:is_public': False}):
        ask(admin, 'POST', '/types', {'volume_type': wrong}, 400)
    wrong = {'volume_type': {'name': 'x', 'is_public': 'x'}}
    assert 'is_public must be' in str(ask(admin, 'POST', '/types', wrong, 400))
    built_in = ask(admin, 'GET', '/types/default')['volume_type']['id']
    for method, tail, body in (('DELETE', '', None), ('PUT', '', {'volume_type': {'name': 'x'}}),
                               ('POST', '/encryption', {'encryption': LUKS}),
                               ('POST', '/extra_specs', {'extra_specs': {}})):
        assert 'create another type' in str(ask(admin, method, f'/types/{built_in}{tail}', body, 400))
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
            ('DELETE', f'{path}/encryption/provider', None), ('GET', f'{path}/os-volume-type-access', None),
            ('POST', f'{path}/action', {'addProjectAccess': {'project': other.project_id}}),
            ('POST', f'{path}/action', {'removeProjectAccess': {'project': other.project_id}})):
        ask(other, method, tail or '/types', body, 403)
    assert (ask(admin, 'GET', path), ask(admin, 'GET', f'{path}/encryption')) == before
    if name == 'nova-demo':
        ask(other, 'GET', f'{path}/encryption', code=403)


def names(client, query=''):
    return [row['name'] for row in ask(client, 'GET', f'/types{query}')['volume_types']
            if row['name'] not in ('__DEFAULT__', 'multiattach')]


def private(admin, name='quiet', **values):
    made = make(admin, name, **{'os-volume-type-access:is_public': False, **values})
    assert made['is_public'] is made['os-volume-type-access:is_public'] is False
    return made['id']


def access(admin, ident, action, project_id, code=202):
    return ask(admin, 'POST', f'/types/{ident}/action', {action: {'project': project_id}}, code)


def test_a_private_type_does_not_exist_for_other_projects(cloud, admin):
    ident, user, service = private(admin), cloud.client(), cloud.client('nova-service')
    volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['id']
    for name in (ident, 'quiet'):
        for tail in ('', '/extra_specs', '/extra_specs/multiattach'):
            ask(user, 'GET', f'/types/{name}{tail}', code=404)
            ask(service, 'GET', f'/types/{name}{tail}', code=403)
        ask(service, 'GET', f'/types/{name}/encryption', code=403)
        assert 'could not be found' in str(ask(user, 'POST', '/volumes', {
            'volume': {'size': 1, 'volume_type': name}}, 404))
        ask(user, 'POST', f'/volumes/{volume}/action', {'os-retype': {'new_type': name}}, 404)
    for query in ('', '?is_public=None', '?is_public=False', '?is_public=True'):
        assert names(user, query) == []
    access(admin, ident, 'addProjectAccess', user.project_id)
    access(admin, ident, 'addProjectAccess', user.project_id, 409)
    assert ask(admin, 'GET', f'/types/{ident}/os-volume-type-access') == {'volume_type_access': [
        {'volume_type_id': ident, 'project_id': user.project_id}]}
    assert names(user) == ['quiet']
    # public, or private and the project's: so it is with Cinder
    assert (names(user, '?is_public=false'), names(user, '?is_public=true')) == (['quiet'], ['quiet'])
    assert ask(user, 'GET', '/types/quiet')['volume_type']['is_public'] is False
    ask(user, 'POST', f'/volumes/{volume}/action', {'os-retype': {'new_type': 'quiet'}}, 202)
    # what a project has stays, and it makes no more of it
    access(admin, ident, 'removeProjectAccess', user.project_id)
    access(admin, ident, 'removeProjectAccess', user.project_id, 404)
    assert ask(user, 'GET', f'/volumes/{volume}')['volume']['volume_type'] == 'quiet'
    ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'quiet'}}, 404)
    ask(user, 'GET', '/types/quiet', code=404)
    ask(user, 'POST', f'/volumes/{volume}/action', {'os-retype': {'new_type': '__DEFAULT__'}}, 202)


def test_a_server_does_not_boot_from_a_volume_of_a_type_of_others(cloud, admin):
    ident, user = private(admin), cloud.client(version='2.67')
    image = user.upload_image()
    wanted = {'server': {'name': 'web', 'flavorRef': '1', 'networks': 'none', 'block_device_mapping_v2': [
        {'source_type': 'image', 'destination_type': 'volume', 'uuid': image, 'boot_index': 0, 'volume_size': 1,
         'volume_type': ident}]}}
    answer = user.request('POST', '/servers', wanted)
    assert answer.status_code == 400 and ident in answer.text


def test_administrators_list_private_types_on_request_or_with_access(admin):
    ident = private(admin)
    make(admin, 'loud')
    assert [names(admin, f'?is_public={word}') for word in ('None', 'False', 'True')] == [
        ['loud', 'quiet'], ['quiet'], ['loud']]
    assert names(admin) == ['loud']
    ask(admin, 'GET', '/types?is_public=perhaps', code=400)
    access(admin, ident, 'addProjectAccess', admin.project_id)
    assert names(admin) == ['loud', 'quiet']


def test_a_type_becomes_public_and_private(cloud, admin):
    ident, user = private(admin), cloud.client()
    path = f'/types/{ident}'
    access(admin, ident, 'addProjectAccess', user.project_id)
    assert ask(admin, 'PUT', path, {'volume_type': {'is_public': True}})['volume_type']['is_public'] is True
    ask(admin, 'GET', f'{path}/os-volume-type-access', code=404)
    for action in ('addProjectAccess', 'removeProjectAccess'):
        access(admin, ident, action, user.project_id, 400)
    ask(admin, 'PUT', path, {'volume_type': {'is_public': False}})
    assert ask(admin, 'GET', f'{path}/os-volume-type-access') == {'volume_type_access': []}
    ask(user, 'GET', path, code=404)
    for wrong in ('', 'x' * 256, 'a b', None, 7):
        access(admin, ident, 'addProjectAccess', wrong, 400)
    access(admin, '5d0f8c52-93b4-4c0e-8f3a-6a7f2f0d1b42', 'addProjectAccess', user.project_id, 400)
    access(admin, 'no-such-type', 'addProjectAccess', user.project_id, 404)


def test_a_volume_of_a_private_type_is_transferred_to_a_project_that_may_use_it(cloud, admin):
    ident, user = private(admin), cloud.client()
    volume = ask(admin, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': ident}}, 202)['volume']['id']
    until(admin, volume)
    offer = ask(admin, 'POST', '/volume-transfers', {'transfer': {'volume_id': volume}}, 202)['transfer']
    taken = f'/volume-transfers/{offer["id"]}/accept', {'accept': {'auth_key': offer['auth_key']}}
    assert 'its type is private' in str(ask(user, 'POST', *taken, 400))
    access(admin, ident, 'addProjectAccess', user.project_id)
    ask(user, 'POST', *taken, 202)
    assert ask(user, 'GET', f'/volumes/{volume}')['volume']['volume_type'] == 'quiet'


def test_copies_of_encrypted_volumes_are_of_types_that_the_project_may_use(cloud, admin):
    """They have the type of their source; a project whose access was taken back made more of it."""
    ident, user = private(admin), cloud.client()
    ask(admin, 'POST', f'/types/{ident}/encryption', {'encryption': LUKS})
    access(admin, ident, 'addProjectAccess', user.project_id)
    volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': ident}}, 202)['volume']['id']
    until(user, volume)
    access(admin, ident, 'removeProjectAccess', user.project_id)
    ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'source_volid': volume}}, 404)
    assert ask(user, 'GET', f'/volumes/{volume}/encryption')['provider'] == 'luks'


def test_a_plain_volume_gets_another_plain_type(cloud, admin):
    user = cloud.client()
    make(admin, 'plain')
    sealed = make(admin, 'sealed')['id']
    ask(admin, 'POST', f'/types/{sealed}/encryption', {'encryption': LUKS})
    volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['id']
    until(user, volume)

    def retype(name, code=202, policy='never'):
        said = ask(user, 'POST', f'/volumes/{volume}/action', {
            'os-retype': {'new_type': name, 'migration_policy': policy}}, code)
        shown = ask(user, 'GET', f'/volumes/{volume}')['volume']
        return str(said), shown['volume_type'], shown['multiattach']
    assert retype('__DEFAULT__', 400)[1:] == ('__DEFAULT__', False)   # what a volume without a type has
    assert retype('plain')[1:] == ('plain', False)
    said, *shown = retype('plain', 400)                   # as Cinder; this was accepted, and nothing happened
    assert 'already has type plain' in said and shown == ['plain', False]
    assert retype('multiattach', policy='on-demand')[1:] == ('multiattach', True)
    said, *shown = retype('sealed', 400)
    assert 'Encryption cannot be changed' in said and shown == ['multiattach', True]
    user = cloud.client(version='2.60')
    server = user.boot(user.upload_image(), networks='none')['id']
    user.wait_for(server)
    user.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
    until(user, volume, 'in-use')
    said, *shown = retype('plain', 400)
    assert 'only while the volume is available' in said and shown == ['multiattach', True]
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')
    until(user, volume)
    assert retype('plain')[1:] == ('plain', False)
    ask(admin, 'POST', f'/volumes/{volume}/action', {'os-reset_status': {'status': 'error'}}, 202)
    assert 'status must be' in retype('__DEFAULT__', 400)[0]


def defaults(client, method, project='', body=None, code=200, version='3.62'):
    answer = client.request(method, f'/volume/v3/default-types{project and "/" + project}', body,
                            headers={'OpenStack-API-Version': f'volume {version}'})
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def test_the_default_type_of_a_project_applies_to_its_new_volumes(cloud, admin):
    """As Cinder documents: from microversion 3.62 on, for administrators; copies keep the type of their source."""
    user, kind = cloud.client(), make(admin, 'usual', **{'os-volume-type-access:is_public': True})
    project, row = user.project_id, {'project_id': user.project_id, 'volume_type_id': kind['id']}
    plain = ask(user, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']
    defaults(admin, 'GET', project, code=404)
    for name in ('usual', kind['id']):
        assert defaults(admin, 'PUT', project, {'default_type': {'volume_type': name}}) == {'default_type': row}
    assert defaults(admin, 'GET', project) == {'default_type': row}
    assert defaults(admin, 'GET') == {'default_types': [row]}
    assert ask(user, 'GET', '/types/default')['volume_type']['name'] == 'usual'
    assert ask(admin, 'GET', '/types/default')['volume_type']['name'] == '__DEFAULT__'
    assert ask(user, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['volume_type'] == 'usual'
    until(user, plain['id'])
    copy = ask(user, 'POST', '/volumes', {'volume': {'source_volid': plain['id']}}, 202)['volume']
    assert copy['volume_type'] == '__DEFAULT__'
    ask(admin, 'DELETE', f'/types/{kind["id"]}', code=400)             # in use, also as a default
    defaults(admin, 'DELETE', project, code=204)
    defaults(admin, 'DELETE', project, code=204)
    assert defaults(admin, 'GET') == {'default_types': []}
    assert ask(user, 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['volume_type'] == '__DEFAULT__'


def test_a_copy_has_the_type_of_its_source(cloud, admin):
    """It had the default type: it was not shared, and had no limits and no quota of its type."""
    user, ident = cloud.client(), private(admin, 'usual')
    make(admin, 'other')
    access(admin, ident, 'addProjectAccess', user.project_id)
    sources = []

    def copy(source, kind, **values):
        made = ask(user, 'POST', '/volumes', {'volume': {**source, **values}}, 202)['volume']
        assert (made['volume_type'], made['multiattach']) == (kind, kind == 'multiattach')
        until(user, made['id'])
    for kind in ('usual', 'multiattach'):
        volume = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': kind}}, 202)['volume']['id']
        until(user, volume)
        snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': volume}}, 202)['snapshot']['id']
        waiting.wait_for(lambda snapshot=snapshot: ask(user, 'GET', f'/snapshots/{snapshot}')['snapshot'][
            'status'] == 'available', 30)
        for source in ({'source_volid': volume}, {'snapshot_id': snapshot}):
            copy(source, kind)
            sources.append(source)
    copy(sources[-1], 'other', volume_type='other')
    access(admin, ident, 'removeProjectAccess', user.project_id)
    for source in sources[:2]:               # the project has the volume, so it may copy it
        copy(source, 'usual')
        ask(user, 'POST', '/volumes', {'volume': {**source, 'volume_type': 'usual'}}, 404)
    copy(sources[0], '__DEFAULT__', volume_type='__DEFAULT__')
    for source in sources[1::2]:
        ask(user, 'DELETE', f'/snapshots/{source["snapshot_id"]}', code=202)


def test_default_types_that_a_project_cannot_have_are_refused(cloud, admin):
    user, hidden = cloud.client(), private(admin)
    project = user.project_id
    for method, path in (('GET', ''), ('GET', project), ('DELETE', project)):
        defaults(user, method, path, code=403)
    defaults(user, 'PUT', project, {'default_type': {'volume_type': 'multiattach'}}, code=403)
    defaults(admin, 'GET', code=404, version='3.61')
    for name in ('nothing', 'quiet'):
        defaults(admin, 'PUT', project, {'default_type': {'volume_type': name}}, code=400)
    for body in ({}, {'default_type': {}}, {'default_type': {'volume_type': 'multiattach', 'x': 1}}):
        defaults(admin, 'PUT', project, body, code=400)
    access(admin, hidden, 'addProjectAccess', project)
    defaults(admin, 'PUT', project, {'default_type': {'volume_type': 'quiet'}})
    ask(admin, 'DELETE', f'/types/{hidden}', code=400)
    access(admin, hidden, 'removeProjectAccess', project, 400)
    ask(admin, 'PUT', f'/types/{hidden}', {'volume_type': {'is_public': True}})
    refused = ask(admin, 'PUT', f'/types/{hidden}', {'volume_type': {'is_public': False}}, 400)
    assert 'default of a project' in refused['badRequest']['message']
    assert ask(user, 'GET', '/types/default')['volume_type']['name'] == 'quiet'
    defaults(admin, 'DELETE', project, code=204)
    ask(admin, 'PUT', f'/types/{hidden}', {'volume_type': {'is_public': False}})
