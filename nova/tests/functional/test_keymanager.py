"""The Key Manager API of a running cloud. ``openapi_answers`` compares every answer with the OpenAPI document."""
import base64
import datetime
import sqlite3
import uuid

import openstack
import pytest
import requests
import yaml

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policies
from nova import utils
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.db.tables import volume as volume_tables
from nova.db.volumes import keys as volume_keys
from nova.db.volumes import volumes
from nova.keymanager import generation
from nova.tests.functional import callers
from nova.tests.functional import cloud as fixture
from nova.tests.support.waiting import wait_for
from nova.volume import barbican
from nova.volume import embedded

ROOT, MISSING = '/key-manager/v1', '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00'
OCTETS, NEWEST = 'application/octet-stream', {'OpenStack-API-Version': 'key-manager 1.1'}
KEY = bytes(range(224, 256))                       # not UTF-8


class World:
    def __init__(self, cloud):
        self.cloud, self.admin = cloud, cloud.admin()
        self.identity = callers.Identity(self.admin)
        self.owner, self.member, self.reader, self.stranger = (self.identity.in_project(*who) for who in (
            ('home', 'member'), ('home', 'member'), ('home', 'reader'), ('away', 'member')))

    def fresh(self):
        """A member of a new project."""
        return self.identity.in_project(uuid.uuid4().hex, 'member')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    with fixture.running(tmp_path_factory.mktemp('cloud'), ['host1']) as cloud:
        yield World(cloud)


def store(client, **values):
    """The path of a new secret."""
    answer = client.post(f'{ROOT}/secrets', {'name': 's', 'payload': 'words', 'payload_content_type': 'text/plain',
                                             **values})
    assert answer.status_code == 201, answer.text
    return path_of(answer, 'secret')


def path_of(answer, kind):
    ref = answer.json()[f'{kind}_ref']
    assert answer.headers['Location'] == ref
    return ROOT + ref.partition('/v1')[2]


def payload(client, path, accept='*/*'):
    return client.session.get(client.url + path + '/payload', headers={'X-Auth-Token': client.token, 'Accept': accept})


def put(client, path, data, **headers):
    return client.session.put(client.url + path, data=data, headers={'X-Auth-Token': client.token, **headers})


def without_payload(client):
    return path_of(client.post(f'{ROOT}/secrets', {'name': 'later', 'algorithm': 'aes', 'bit_length': 256}), 'secret')


# ---- discovery

def test_version_documents_and_the_openapi_document_need_no_token(world):
    url = world.cloud.url + '/key-manager'
    found = requests.get(url + '/', timeout=10)
    assert found.status_code == 300
    (version,) = found.json()['versions']
    assert (version['id'], version['min_version'], version['max_version']) == ('v1', '1.0', '1.1')
    assert version['links'][0]['href'] == url + '/v1/'
    document = requests.get(url + '/openapi.json', timeout=10).json()
    assert document['openapi'] == '3.1.0' and '/v1/secrets/{ident}/payload' in document['paths']
    assert requests.get(url + '/v1/secrets', timeout=10).status_code == 401


def test_catalog_has_the_service(world):
    catalog = world.owner.get('/identity/v3/auth/catalog').json()['catalog']
    (found,) = [entry for entry in catalog if entry['type'] == 'key-manager']
    assert found['name'] == 'barbican' and found['endpoints'][0]['url'] == world.cloud.url + '/key-manager'


def test_microversion_that_is_not_served_gets_406(world):
    answer = world.owner.get(f'{ROOT}/secrets', headers={'OpenStack-API-Version': 'key-manager 1.99'})
    assert answer.status_code == 406 and 'maximum is 1.1' in answer.json()['description']


# ---- secrets

def test_secret_is_shown_without_its_payload(world):
    path = store(world.owner, secret_type='passphrase', expiration='2049-01-01T00:00:00+01:00')
    shown = world.owner.get(path).json()
    assert shown | {'created': 0, 'updated': 0, 'secret_ref': 0} == {
        'created': 0, 'updated': 0, 'secret_ref': 0, 'status': 'ACTIVE', 'name': 's', 'secret_type': 'passphrase',
        'algorithm': None, 'bit_length': None, 'mode': None, 'expiration': '2048-12-31T23:00:00.000000',
        'creator_id': world.owner.user_id, 'content_types': {'default': 'text/plain'}}
    assert world.owner.get(path, headers=NEWEST).json()['consumers'] == []
    found = payload(world.owner, path)
    assert (found.content, found.headers['Content-Type']) == (b'words', 'text/plain; charset=UTF-8')
    assert found.headers['Cache-Control'] == 'no-store'
    assert payload(world.owner, path, OCTETS).headers['Content-Type'] == OCTETS
    assert payload(world.owner, path, 'application/json').status_code == 406


def test_early_clients_get_the_payload_by_the_accept_header(world):
    path = store(world.owner)
    headers = {'X-Auth-Token': world.owner.token, 'Accept': 'text/plain'}
    assert world.owner.session.get(world.owner.url + path, headers=headers).text == 'words'


def test_payload_is_stored_once(world):
    path = without_payload(world.owner)
    assert 'content_types' not in world.owner.get(path).json()
    assert payload(world.owner, path).status_code == 404
    for data, headers, code in ((b'', {'Content-Type': 'text/plain'}, 400), (b'x', {'Content-Type': 'text/html'}, 415),
                                (b'x' * 20001, {'Content-Type': OCTETS}, 413),
                                (b'!!', {'Content-Type': OCTETS, 'Content-Encoding': 'base64'}, 400),
                                (b'x', {'Content-Type': OCTETS, 'Content-Encoding': 'gzip'}, 415)):
        assert put(world.owner, path, data, **headers).status_code == code, headers
    stored = put(world.owner, path, base64.b64encode(KEY), **{'Content-Type': OCTETS, 'Content-Encoding': 'base64'})
    assert stored.status_code == 204, stored.text
    assert payload(world.owner, path).content == KEY
    assert payload(world.owner, path, 'text/plain').status_code == 406
    again = put(world.owner, path, b'other', **{'Content-Type': OCTETS})
    assert again.status_code == 409 and 'cannot be changed' in again.json()['description']
    assert payload(world.owner, path).content == KEY


def test_only_payloads_may_be_encoded_in_base64(world):
    encoded = {'Content-Type': 'application/json', 'Content-Encoding': 'base64'}
    quotas = f'{ROOT}/project-quotas/{world.owner.project_id}'
    assert put(world.admin, quotas, b'{"project_quotas": {}}', **encoded).status_code == 415
    assert put(world.owner, without_payload(world.owner), b'AAEC', **{
        **encoded, 'Content-Type': OCTETS}).status_code == 204


def test_payload_is_encrypted_in_the_database(world):
    words = uuid.uuid4().hex
    path = store(world.owner, payload=words)
    file = world.cloud.state_path / 'api.sqlite'
    with sqlite3.connect(file) as database:
        database.execute('PRAGMA wal_checkpoint(FULL)')
    text = file.read_bytes() + (file.with_name(file.name + '-wal').read_bytes() if file.with_name(
        file.name + '-wal').exists() else b'')
    assert path.rpartition('/')[2].encode() in text
    assert words.encode() not in text and base64.b64encode(words.encode()) not in text
    assert (world.cloud.state_path / 'disk-keys').exists()


def test_payload_of_one_secret_cannot_be_moved_to_another(world):
    """The encryption names the secret: a changed row does not show the payload under another id."""
    first, second = (store(world.owner, payload=text) for text in ('one', 'two'))
    ids = [path.rpartition('/')[2] for path in (first, second)]
    with world.cloud.api_db.reader() as conn:
        row = records.get(conn, t.key_secrets, ids[0])
    world.cloud.api_db.run(records.update, t.key_secrets, ids[1], {'encrypted_payload': row['encrypted_payload']})
    answer = payload(world.owner, second)
    assert answer.status_code == 503 and 'cannot be decrypted' in answer.json()['description']
    assert payload(world.owner, first).text == 'one'


@pytest.mark.parametrize('body, why', [
    ({'payload': 'x'}, 'payload_content_type'), ({'unknown': 1}, "unknown key 'unknown'"),
    ({'name': 'x' * 256}, 'maxLength'), ({'bit_length': '256'}, 'type'), ({'bit_length': 0}, 'minimum'),
    ({'secret_type': 'other'}, 'enum'), ({'expiration': '2010-01-01T00:00:00'}, 'future'),
    ({'transport_key_needed': 'true'}, 'Transport keys are not supported'),
    ({'payload': 'x\0', 'payload_content_type': 'text/plain'}, 'NUL')])
def test_invalid_secret_is_refused(world, body, why):
    answer = world.owner.post(f'{ROOT}/secrets', body)
    assert answer.status_code == 400 and why in answer.json()['description'], answer.text


def test_expired_secret_is_missing_and_makes_room(world):
    owner = world.fresh()
    path = store(owner, expiration='2049-01-01T00:00:00')
    ident = path.rpartition('/')[2]
    container = path_of(owner.post(f'{ROOT}/containers', {'type': 'generic', 'secret_refs': [
        {'name': 'x', 'secret_ref': owner.get(path).json()['secret_ref']}]}), 'container')
    quota = {'project_quotas': {'secrets': 1}}
    assert world.admin.put(f'{ROOT}/project-quotas/{owner.project_id}', quota).status_code == 204
    refused = owner.post(f'{ROOT}/secrets', {})
    assert refused.status_code == 403 and 'Quota exceeded for secrets' in refused.json()['description']
    world.cloud.api_db.run(records.update, t.key_secrets, ident, {
        'expires_at': utils.utcnow() - datetime.timedelta(seconds=1)})
    assert (owner.get(path).status_code, payload(owner, path).status_code, owner.delete(path).status_code) == (404,) * 3
    assert owner.get(f'{ROOT}/secrets').json() == {'secrets': [], 'total': 0}
    assert owner.get(container).json()['secret_refs'] == []
    store(owner)
    with world.cloud.api_db.reader() as conn:
        assert conn.exec_driver_sql('SELECT id FROM key_secrets WHERE id = ?', (ident,)).first() is None


def test_list_has_filters_order_and_pages(world):
    owner = world.fresh()
    for number, (algorithm, bits) in enumerate((('aes', 128), ('aes', 256), ('rsa', 2048))):
        store(owner, name=f's{number}', algorithm=algorithm, bit_length=bits, mode='cbc' if number else None,
              secret_type='private' if algorithm == 'rsa' else 'symmetric',
              expiration='2049-01-01T00:00:00' if number == 2 else None)

    def names(query):
        answer = owner.get(f'{ROOT}/secrets?{query}')
        assert answer.status_code == 200, answer.text
        return [secret['name'] for secret in answer.json()['secrets']]
    assert [names(query) for query in (
        '', 'name=s1', 'alg=aes', 'bits=256', 'mode=cbc', 'secret_type=private', 'expiration=gt:2030-01-01T00:00:00',
        'created=lt:2020-01-01T00:00:00', 'updated=gt:2020-01-01T00:00:00', 'sort=name:desc', 'alg=aes&bits=128')] == [
            ['s0', 's1', 's2'], ['s1'], ['s0', 's1'], ['s1'], ['s1', 's2'], ['s2'], ['s2'], [], ['s0', 's1', 's2'],
            ['s2', 's1', 's0'], ['s0']]
    page = owner.get(f'{ROOT}/secrets?limit=1&offset=1&sort=name').json()
    assert [each['name'] for each in page['secrets']] == ['s1'] and page['total'] == 3
    following = owner.get(page['next'].removeprefix(world.cloud.url)).json()
    assert [each['name'] for each in following['secrets']] == ['s2'] and 'next' not in following
    assert '?limit=1&offset=0&sort=name' in page['previous']
    for query, why in (('unknown=1', 'unknown'), ('limit=0', 'limit'), ('created=xx:2020-01-01', 'ISO 8601'),
                       ('sort=nothing', 'Cannot sort by'), ('bits=x', 'bits')):
        answer = owner.get(f'{ROOT}/secrets?{query}')
        assert answer.status_code == 400 and why in answer.json()['description'], query


def test_deleted_secret_leaves_its_containers(world):
    path = store(world.owner)
    ref = {'name': 'x', 'secret_ref': world.owner.get(path).json()['secret_ref']}
    container = path_of(world.owner.post(f'{ROOT}/containers', {'type': 'generic', 'secret_refs': [ref]}), 'container')
    assert world.owner.get(container).json()['secret_refs'] == [ref]
    assert [world.owner.delete(path).status_code for _ in range(2)] == [204, 404]
    assert world.owner.get(container).json()['secret_refs'] == []


def test_metadata_of_a_secret_is_managed(world):
    path = store(world.owner) + '/metadata'
    call = world.owner.request
    assert call('PUT', path, {'metadata': {'k': 'v', 'Up': 'X'}}).status_code == 201
    assert call('GET', path).json() == {'metadata': {'k': 'v', 'up': 'X'}}
    item = {'key': 'n', 'value': 'w'}
    assert [call('POST', path, item).status_code for _ in range(2)] == [201, 409]
    assert call('PUT', path + '/n', {'key': 'n', 'value': 'w2'}).json() == {'key': 'n', 'value': 'w2'}
    assert call('GET', path + '/N').json() == {'key': 'n', 'value': 'w2'}
    assert call('PUT', path + '/n', {'key': 'm', 'value': 'w2'}).status_code == 409
    assert call('PUT', path + '/none', {'key': 'none', 'value': 'x'}).status_code == 404
    assert [call('DELETE', path + '/n').status_code for _ in range(2)] == [204, 404]
    for body in ({'metadata': {'a b': 'x'}}, {'metadata': {'k': 5}}, {}, {'metadata': {
            str(number): 'x' for number in range(101)}}):
        assert call('PUT', path, body).status_code == 400
    assert call('PUT', path, {'metadata': {str(number): 'x' for number in range(100)}}).status_code == 201
    full = call('POST', path, item)
    assert full.status_code == 400 and 'at most 100' in full.json()['description']


# ---- who may

def test_acl_shares_a_secret_with_a_user_of_another_project(world):
    path = store(world.owner)
    assert {world.stranger.get(path).status_code, payload(world.stranger, path).status_code} == {403}
    assert world.owner.get(path + '/acl').json() == {'read': {'project-access': True}}
    shared = world.owner.put(path + '/acl', {'read': {'users': [world.stranger.user_id]}})
    assert shared.json()['acl_ref'].endswith(path.removeprefix('/key-manager') + '/acl')
    assert payload(world.stranger, path).text == 'words' and world.stranger.get(path).status_code == 200
    listed = world.stranger.get(f'{ROOT}/secrets?acl_only=true').json()
    assert [each['secret_ref'] for each in listed['secrets']] == [world.owner.get(path).json()['secret_ref']]
    assert world.stranger.get(f'{ROOT}/secrets').json()['total'] == 0
    for method, below, body in (('DELETE', '', None), ('GET', '/acl', None), ('PUT', '/acl', {}),
                                ('DELETE', '/acl', None),
                                ('PUT', '/metadata', {'metadata': {}})):
        assert world.stranger.request(method, path + below, body).status_code == 403, (method, below)
    assert world.owner.delete(path + '/acl').status_code == 200
    assert payload(world.stranger, path).status_code == 403


def test_private_secret_is_for_its_creator_the_listed_users_and_administrators(world):
    path, acl = store(world.owner), {'read': {'project-access': False}}
    assert payload(world.member, path).text == 'words'
    assert world.owner.put(path + '/acl', acl).status_code == 200
    assert [payload(each, path).status_code for each in (world.owner, world.member, world.reader)] == [200, 403, 403]
    assert world.member.delete(path).status_code == 403
    assert payload(world.identity.in_project('home', 'admin'), path).status_code == 200
    changed = world.owner.request('PATCH', path + '/acl', {'read': {'users': [world.member.user_id]}})
    assert changed.status_code == 200 and payload(world.member, path).status_code == 200
    read = world.owner.get(path + '/acl').json()['read']
    assert (read['project-access'], read['users']) == (False, [world.member.user_id])
    assert world.owner.request('PATCH', path + '/acl', {'read': {'project-access': True}}).status_code == 200
    assert world.owner.get(path + '/acl').json()['read']['users'] == [world.member.user_id]
    for body in ({'write': {}}, {'read': {'users': 'x'}}, {'read': {'users': [5]}}, {'read': {'more': 1}},
                 {'read': {'users': [str(number) for number in range(256)]}}):
        assert world.owner.put(path + '/acl', body).status_code == 400


def test_administrator_of_another_project_sees_no_payload(world):
    """As in Barbican: the role admin shows and deletes a secret of any project, and does not open it."""
    path, elsewhere = store(world.owner), world.identity.in_project('away', 'admin')
    assert (elsewhere.get(path).status_code, payload(elsewhere, path).status_code) == (200, 403)
    assert elsewhere.put(path + '/acl', {'read': {'users': [elsewhere.user_id]}}).status_code == 403
    assert elsewhere.delete(path).status_code == 204


def test_reader_may_see_the_quotas_only(world):
    assert world.reader.get(f'{ROOT}/quotas').status_code == 200
    for path in ('secrets', 'containers', 'orders', 'project-quotas'):
        assert world.reader.get(f'{ROOT}/{path}').status_code == 403, path


# ---- containers, consumers, orders, quotas

def test_container_has_secrets_of_its_project_only(world):
    theirs = world.stranger.get(store(world.stranger)).json()['secret_ref']
    for ref, code in ((theirs, 404), (theirs[:-36] + MISSING, 404), ('nonsense', 400)):
        body = {'type': 'generic', 'secret_refs': [{'name': 'x', 'secret_ref': ref}]}
        assert world.owner.post(f'{ROOT}/containers', body).status_code == code


def test_secrets_of_a_generic_container_change(world):
    refs = [world.owner.get(store(world.owner)).json()['secret_ref'] for _ in range(2)]
    container = path_of(world.owner.post(f'{ROOT}/containers', {'type': 'generic', 'name': 'g'}), 'container')
    item = {'name': 't', 'secret_ref': refs[0]}
    call = world.owner.request
    assert [call('POST', container + '/secrets', item).status_code for _ in range(2)] == [201, 409]
    assert call('POST', container + '/secrets', {'name': 't', 'secret_ref': refs[1]}).status_code == 409
    assert world.owner.get(container).json()['secret_refs'] == [item]
    assert [call('DELETE', container + '/secrets', item).status_code for _ in range(2)] == [204, 404]
    pair = path_of(world.owner.post(f'{ROOT}/containers', {'type': 'rsa', 'secret_refs': [
        {'name': name, 'secret_ref': ref} for name, ref in zip(('public_key', 'private_key'), refs)]}), 'container')
    refused = call('DELETE', pair + '/secrets', {'name': 'public_key', 'secret_ref': refs[0]})
    assert refused.status_code == 400 and 'generic' in refused.json()['description']
    assert [world.owner.delete(pair).status_code for _ in range(2)] == [204, 404]
    assert world.owner.get(path_below(refs[0])).status_code == 200


def path_below(ref):
    return ROOT + ref.partition('/v1')[2]


def test_containers_are_listed_and_shared(world):
    owner = world.fresh()
    for kind in ('generic', 'rsa'):
        assert owner.post(f'{ROOT}/containers', {'type': kind, 'name': kind}).status_code == 201
    assert [each['type'] for each in owner.get(f'{ROOT}/containers?type=rsa').json()['containers']] == ['rsa']
    assert owner.get(f'{ROOT}/containers?limit=1&sort=name').json()['total'] == 2
    path = path_below(owner.get(f'{ROOT}/containers?name=generic').json()['containers'][0]['container_ref'])
    assert world.stranger.get(path).status_code == 403
    assert owner.put(path + '/acl', {'read': {'users': [world.stranger.user_id]}}).status_code == 200
    assert world.stranger.get(path).status_code == 200 and world.stranger.delete(path).status_code == 403


def test_users_of_an_acl_differ_in_more_than_case(world):
    path = store(world.owner) + '/acl'
    assert world.owner.put(path, {'read': {'users': ['kept']}}).status_code == 200
    refused = world.owner.put(path, {'read': {'users': ['alice', 'Alice']}})
    assert refused.status_code == 400 and 'upper and lower case' in refused.json()['description']
    assert world.owner.get(path).json()['read']['users'] == ['kept']


def test_consumer_is_not_added_to_a_secret_that_has_just_been_deleted(world):
    path, database = store(world.owner), world.cloud.api_db
    with database.reader() as conn:
        row = records.get(conn, t.key_secrets, path.rpartition('/')[2])
    assert world.owner.delete(path).status_code == 204
    assert not database.run(records.add_consumer, t.key_secrets, row, {'service': 'image'}, -1)
    with database.reader() as conn:
        assert records.consumers(conn, [row['id']]) == {row['id']: []}


def test_order_beyond_the_quota_generates_no_key(world, monkeypatch):
    owner, made = world.fresh(), []
    monkeypatch.setattr(generation, 'rsa_pair', made.append)
    path = f'{ROOT}/project-quotas/{owner.project_id}'
    assert world.admin.put(path, {'project_quotas': {'secrets': 1}}).status_code == 204
    pair = {'type': 'asymmetric', 'meta': {'algorithm': 'rsa', 'bit_length': 4096}}
    assert owner.post(f'{ROOT}/orders', pair).status_code == 403 and made == []


@pytest.mark.parametrize('kind, document, wrong', [
    ('secret', {'service': 'image', 'resource_type': 'image', 'resource_id': MISSING}, {'service': 'x'}),
    ('container', {'name': 'c', 'URL': 'https://c'}, {'name': 'c'})])
def test_consumers_are_added_and_removed(world, kind, document, wrong):
    path = store(world.owner) if kind == 'secret' else path_of(
        world.owner.post(f'{ROOT}/containers', {'type': 'generic'}), 'container')

    def call(method, body=None):
        return world.owner.request(method, path + '/consumers', body, headers=NEWEST)
    assert call('GET').json() == {'consumers': [], 'total': 0}
    assert [call('POST', document).json()['consumers'] for _ in range(2)] == [[document]] * 2
    assert call('POST', wrong).status_code == 400
    (found,) = call('GET').json()['consumers']
    assert document.items() <= found.items()
    assert call('DELETE', document).json()['consumers'] == [] and call('DELETE', document).status_code == 404


def test_order_of_a_key_stores_random_bytes(world):
    meta = {'name': 'o', 'algorithm': 'aes', 'bit_length': 256, 'mode': 'cbc', 'expiration': '2049-01-01T00:00:00'}
    answer = world.owner.post(f'{ROOT}/orders', {'type': 'key', 'meta': meta})
    assert answer.status_code == 202, answer.text
    order = world.owner.get(path_of(answer, 'order')).json()
    assert (order['status'], order['meta']['expiration']) == ('ACTIVE', '2049-01-01T00:00:00.000000')
    secret = path_below(order['secret_ref'])
    assert world.owner.get(secret).json()['secret_type'] == 'symmetric'
    assert len(payload(world.owner, secret).content) == 32
    assert world.stranger.get(path_below(order['order_ref'])).status_code == 404
    assert order in world.owner.get(f'{ROOT}/orders?limit=100').json()['orders']
    assert world.owner.delete(path_below(order['order_ref'])).status_code == 204
    assert world.owner.get(secret).status_code == 200


def test_order_of_a_key_pair_makes_a_container(world):
    answer = world.owner.post(f'{ROOT}/orders', {'type': 'asymmetric', 'meta': {
        'name': 'p', 'algorithm': 'rsa', 'bit_length': 2048}})
    order = world.owner.get(path_of(answer, 'order')).json()
    container = world.owner.get(path_below(order['container_ref'])).json()
    found = {each['name']: payload(world.owner, path_below(each['secret_ref'])).content
             for each in container['secret_refs']}
    assert container['type'] == 'rsa' and found.keys() == {'private_key', 'public_key'}
    assert found['private_key'].startswith(b'-----BEGIN PRIVATE KEY')


@pytest.mark.parametrize('body, why', [
    ({'type': 'certificate', 'meta': {}}, 'enum'), ({'type': 'key', 'meta': {'algorithm': 'aes'}}, 'required'),
    ({'type': 'key', 'meta': {'algorithm': 'aes', 'bit_length': 13}}, 'Supported lengths'),
    ({'type': 'asymmetric', 'meta': {'algorithm': 'rsa', 'bit_length': 2048, 'passphrase': 'x'}},
     'would show the passphrase')])
def test_order_that_cannot_be_carried_out_is_refused(world, body, why):
    answer = world.owner.post(f'{ROOT}/orders', body)
    assert answer.status_code == 400 and why in answer.json()['description'], answer.text


def test_project_quotas_are_set_and_reset(world):
    owner = world.fresh()
    path = f'{ROOT}/project-quotas/{owner.project_id}'
    default = {'secrets': 10000, 'containers': 10000, 'orders': 10000, 'consumers': 10000, 'cas': 0}
    assert owner.get(f'{ROOT}/quotas').json() == {'quotas': default}
    assert world.admin.get(path).status_code == 404
    assert world.admin.put(path, {'project_quotas': {'secrets': 2, 'orders': -1}}).status_code == 204
    own = {'secrets': 2, 'containers': None, 'orders': -1, 'consumers': None, 'cas': 0}
    assert world.admin.get(path).json() == {'project_quotas': own}
    assert {'project_id': owner.project_id, 'project_quotas': own} in world.admin.get(
        f'{ROOT}/project-quotas?limit=100').json()['project_quotas']
    assert owner.get(f'{ROOT}/quotas').json() == {'quotas': default | {'secrets': 2, 'orders': -1}}
    store(owner)
    pair = {'type': 'asymmetric', 'meta': {'algorithm': 'rsa', 'bit_length': 2048}}
    assert owner.post(f'{ROOT}/orders', pair).status_code == 403 and owner.get(f'{ROOT}/secrets').json()['total'] == 1
    assert owner.put(path, {'project_quotas': {}}).status_code == 403
    for body in ({'project_quotas': {'secrets': 'x'}}, {'project_quotas': {'unknown': 1}}, {},
                 {'project_quotas': {'cas': 5}}):
        assert world.admin.put(path, body).status_code == 400
    assert [world.admin.delete(path).status_code for _ in range(2)] == [204, 404]


def test_limits_of_servers_do_not_delete_those_of_secrets(world):
    owner = world.fresh()
    path = f'{ROOT}/project-quotas/{owner.project_id}'
    assert world.admin.put(path, {'project_quotas': {'secrets': 2}}).status_code == 204
    assert world.admin.delete(f'/os-quota-sets/{owner.project_id}').status_code == 202
    assert world.admin.get(path).json()['project_quotas']['secrets'] == 2


def test_writes_are_audited_without_payloads(world):
    path = store(world.owner, payload='audited words', name='audited name')
    (record,) = world.owner.get(f'/os-audit?target_id={path.rpartition("/")[2]}').json()['audit_records']
    assert (record['action'], record['user_id'], record['project_id'], record['code']) == (
        'key_manager:create_secret', world.owner.user_id, world.owner.project_id, 201)
    assert 'audited' not in str(record)


# ---- clients and users of the service

def test_openstacksdk_manages_secrets(world):
    auth = {'auth_url': world.cloud.url + '/identity/v3', 'token': world.owner.token,
            'project_id': world.owner.project_id}
    manager = openstack.connect(auth_type='token', auth=auth, region_name='RegionOne').key_manager
    made = manager.create_secret(name='sdk', payload='words', payload_content_type='text/plain')
    assert manager.get_secret(made.secret_id).payload == 'words'
    assert [each.name for each in manager.secrets(name='sdk')] == ['sdk']
    box = manager.create_container(name='box', type='generic', secret_refs=[
        {'name': 'x', 'secret_ref': made.secret_ref}])
    assert manager.get_container(box.container_id).secret_refs[0]['secret_ref'] == made.secret_ref
    order = manager.create_order(type='key', meta={'algorithm': 'aes', 'bit_length': 256})
    assert manager.get_order(order.order_id).status == 'ACTIVE'
    for delete, each in ((manager.delete_order, order.order_id), (manager.delete_container, box.container_id),
                         (manager.delete_secret, made.secret_id)):
        delete(each, ignore_missing=False)
    assert list(manager.secrets(name='sdk')) == []


def test_key_manager_client_stores_volume_keys_and_reads_certificates(world):
    """The client for a Key Manager service works with this one: [volume] encryption_key_backend = barbican."""
    client = barbican.Barbican(nova_conf.new(files=[], barbican__endpoint_override=world.cloud.url + '/key-manager'))
    caller = context.RequestContext(user_id=world.owner.user_id, project_id=world.owner.project_id, overwrite=False,
                                    auth_token=world.owner.token)
    encoded = {'payload_content_type': OCTETS, 'payload_content_encoding': 'base64'}
    key = store(world.owner, secret_type='symmetric', payload=base64.b64encode(KEY).decode(), **encoded)
    assert client.passphrase(caller, key.rpartition('/')[2]) == KEY.hex()
    certificate = store(world.owner, secret_type='certificate', payload=base64.b64encode(b'PEM').decode(), **encoded)
    assert client.certificate(caller, certificate.rpartition('/')[2]) == b'PEM'
    with pytest.raises(exception.InvalidVolume, match='not a LUKS key'):
        client.passphrase(caller, store(world.owner).rpartition('/')[2])
    other = context.RequestContext(user_id='u', project_id='p', overwrite=False, auth_token=world.stranger.token)
    with pytest.raises(exception.InvalidVolume, match='refuses access'):
        client.passphrase(other, key.rpartition('/')[2])


ACCOUNT = '''[volume]
encryption_key_backend = barbican
[barbican]
endpoint_override = {url}/key-manager
auth_type = password
auth_url = {url}/identity/v3
username = {auth[username]}
password = {auth[password]}
project_name = {auth[project_name]}
user_domain_id = default
project_domain_id = default
'''


def test_keys_of_encrypted_volumes_can_be_secrets_of_this_service(world, tmp_path):
    auth = yaml.safe_load(world.cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
    (tmp_path / 'nova.conf').write_text(ACCOUNT.format(url=world.cloud.url, auth=auth))
    conf = nova_conf.new(files=[str(tmp_path / 'nova.conf')], state_path=str(tmp_path), image__free_disk_reserve=0,
                         libvirt__sandbox_qemu_img=False)
    storage = embedded.EmbeddedVolumes(conf, world.cloud.api_db, None)
    alice = context.RequestContext(user_id='u', project_id='alice', roles=['member'], overwrite=False)
    kind = storage.types.create('with secrets', None, {})
    storage.types.set_encryption(kind['id'], {'provider': 'luks'}, new=True)
    ident = storage.create(alice, 1, volume_type='with secrets')['id']
    wait_for(lambda: storage.get(alice, ident)['status'] == 'available', 60, 'the volume')
    with world.cloud.api_db.reader() as conn:
        row = volume_keys.get(conn, volumes.get(conn, volume_tables.volumes, ident, 'alice')['key_id'])
    secret = f'{ROOT}/secrets/{row["encrypted_key"]}'
    assert payload(world.admin, secret).text == storage.passphrase(alice, ident)
    storage.delete(alice, ident)
    storage.jobs.delete_unused_keys()
    wait_for(lambda: world.admin.get(secret).status_code == 404, 30, 'the secret to go')
    storage.stop(5)


def test_disabled_key_manager_returns_404(tmp_path):
    with fixture.running(tmp_path, ['host1'], key_manager__enabled=False, ec2__enabled=False,
                         objectstore__enabled=True) as cloud:
        client = cloud.client()
        index = client.session.get(cloud.url).json()['services']
        assert set(index) == {'identity', 'image', 'network', 'volume', 'compute', 's3'}
        assert index['s3'] == cloud.url + '/objectstore'
        assert client.get('/key-manager/v1/secrets').status_code == 404
        catalog = client.get('/identity/v3/auth/catalog').json()['catalog']
        assert 'key-manager' not in {entry['type'] for entry in catalog}
        rules = {row['service'] for row in client.get('/os-permissions').json()['permissions']}
        assert 'network' in rules and policies.KEY_MANAGER.name not in rules


def test_first_secret_makes_no_key_file_in_place_of_the_lost_one_of_encrypted_volumes(tmp_path):
    with fixture.running(tmp_path, ['host1']) as cloud:
        admin = cloud.admin()
        kind = admin.post('/volume/v3/types', {'volume_type': {'name': 'secret'}}).json()['volume_type']['id']
        encrypted = {'encryption': {'provider': 'luks', 'control_location': 'front-end'}}
        assert admin.post(f'/volume/v3/types/{kind}/encryption', encrypted).status_code == 200
        made = admin.post('/volume/v3/volumes', {'volume': {'size': 1, 'volume_type': 'secret'}})
        assert made.status_code == 202, made.text
        volume = f'/volume/v3/volumes/{made.json()["volume"]["id"]}'
        wait_for(lambda: admin.get(volume).json()['volume']['status'] == 'available', 60, 'the volume')
        (tmp_path / 'disk-keys').rename(tmp_path / 'aside')
        refused = cloud.client().post(f'{ROOT}/secrets', {'payload': 'x', 'payload_content_type': 'text/plain'})
        assert refused.status_code == 503 and not (tmp_path / 'disk-keys').exists()


def test_secrets_outlive_a_restart(tmp_path):
    with fixture.running(tmp_path, ['host1']) as cloud:
        path = store(cloud.client())
    (tmp_path / 'disk-keys').rename(tmp_path / 'aside')
    with fixture.running(tmp_path, ['host1']) as cloud:
        answer = payload(cloud.client(), path)
        assert answer.status_code == 503 and 'disk_keys_file' in answer.json()['description'], answer.text
        refused = cloud.client().post(f'{ROOT}/secrets', {'payload': 'x', 'payload_content_type': 'text/plain'})
        assert refused.status_code == 503, 'a new key file would hide the loss of the old one'
        (tmp_path / 'aside').rename(tmp_path / 'disk-keys')
        assert payload(cloud.client(), path).text == 'words'
        assert cloud.client().get(path).json()['name'] == 's'
