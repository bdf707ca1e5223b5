"""Key pairs."""
import threading
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography import x509

from nova import exception
from nova.objects import keypair
from nova.tests.functional import base
from nova.tests.support.keypairs import ED25519
from nova.tests.support.keypairs import _public


# a key whose fingerprint another tool (ssh-keygen -l -E md5) has told
KNOWN = ('ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl github',
         '65:96:2d:fc:e8:d5:a9:11:64:0c:0f:ea:00:6e:5b:bd')


def _import(client, name, key=ED25519, version='2.10', **values):
    return client.post('/os-keypairs', {'keypair': {'name': name, 'public_key': key, **values}}, version=version)


def _names(client, query='', version='2.35'):
    answer = client.get('/os-keypairs' + query, version=version)
    return [entry['keypair']['name'] for entry in answer.json['keypairs']]


def test_import_show_list_delete(api):
    client = api.client()
    made = _import(client, 'mine')
    assert made.status == 201
    assert made.json['keypair'] == {'name': 'mine', 'public_key': ED25519, 'type': 'ssh', 'user_id': base.USER,
                                    'fingerprint': keypair.fingerprint(ED25519)}
    shown = client.get('/os-keypairs/mine', version='2.2').json['keypair']
    assert shown['deleted'] is False and shown['updated_at'] is None and isinstance(shown['id'], int)
    assert _names(client) == ['mine']
    assert client.delete('/os-keypairs/mine', version='2.2').status == 204
    assert client.delete('/os-keypairs/mine', version='2.2').status == 404
    assert client.get('/os-keypairs/mine').status == 404


def test_first_version_has_its_own_success_codes(api):
    client = api.client()
    assert _import(client, 'mine', version='2.1').status == 200
    assert client.delete('/os-keypairs/mine', version='2.1').status == 202


@pytest.mark.parametrize('key', [
    ED25519, _public(ec.generate_private_key(ec.SECP384R1())), _public(rsa.generate_private_key(65537, 3072)),
    KNOWN[0]])
def test_all_kinds_of_ssh_keys_are_imported(api, key):
    assert _import(api.client(), 'k', key).status == 201


def test_fingerprint_is_what_other_tools_tell():
    assert keypair.fingerprint(KNOWN[0]) == KNOWN[1]


@pytest.mark.parametrize('key', [
    '', 'ssh-rsa', 'ssh-rsa !!!', 'ssh-rsa AAAA', 'nonsense AAAA x', 'ssh-rsa ' + ED25519.split()[1],
    ED25519.replace('AAAAC3', 'AAAAC4'), ED25519[:40], ED25519 + '\n' + ED25519,
    '-----BEGIN RSA PRIVATE KEY-----', 'ssh-rsa AAAA' + 'A' * 200000,
    _public(rsa.generate_private_key(65537, 1024)).replace('ssh-rsa', 'ssh-rsb')])
def test_invalid_public_keys_return_400(api, key):
    assert _import(api.client(), 'bad', key).fault[:2] == ('badRequest', 400)
    assert _names(api.client()) == []


def test_generated_ssh_key_pair_is_returned(api):
    made = api.client().post('/os-keypairs', {'keypair': {'name': 'new'}}, version='2.91').json['keypair']
    private = serialization.load_pem_private_key(made['private_key'].encode(), None)
    assert _public(private) == ' '.join(made['public_key'].split()[:2])
    assert 'private_key' not in api.client().get('/os-keypairs/new').json['keypair']
    with api.api_db.reader() as conn:
        assert 'PRIVATE' not in str(conn.exec_driver_sql('SELECT * FROM key_pairs').all())


def test_generated_certificate_is_returned(api):
    body = {'keypair': {'name': 'win', 'type': 'x509'}}
    made = api.client().post('/os-keypairs', body, version='2.2').json['keypair']
    certificate = x509.load_pem_x509_certificate(made['public_key'].encode())
    private = serialization.load_pem_private_key(made['private_key'].encode(), None)
    assert certificate.public_key() == private.public_key()
    extensions = certificate.extensions
    assert x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH in extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    principal, = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert principal.type_id.dotted_string == '1.3.6.1.4.1.311.20.2.3'
    assert principal.value == b'\x0c' + bytes([len(base.USER) + 10]) + f'{base.USER}@localhost'.encode()
    again = {'keypair': {'name': 'win2', 'type': 'x509', 'public_key': made['public_key']}}
    assert api.client().post('/os-keypairs', again, version='2.2').json['keypair']['fingerprint'] == (
        made['fingerprint'])
    assert _import(api.client(), 'win3', ED25519, type='x509').status == 400


def test_key_pairs_are_only_imported_since_2_92(api):
    body = {'keypair': {'name': 'new'}}
    assert api.client().post('/os-keypairs', body, version='2.92').status == 400
    assert _import(api.client(), 'me@host.test', version='2.91').status == 400
    assert _import(api.client(), 'me@host.test', version='2.92').status == 201


@pytest.mark.parametrize('name', ['', ' lead', 'trail ', 'a/b', 'ключ', 'n' * 256, 'a\tb'])
def test_invalid_key_pair_names_return_400(api, name):
    assert _import(api.client(), name).status == 400


def test_taken_key_pair_name_returns_409(api):
    assert _import(api.client(), 'mine').status == 201
    assert _import(api.client(), 'mine').fault[:2] == ('conflictingRequest', 409)
    assert _import(api.client(user='other'), 'mine').status == 201


def test_users_do_not_see_each_other(api):
    _import(api.client(), 'mine')
    other = api.client(user='other')
    assert _names(other) == []
    assert other.get('/os-keypairs/mine').status == 404
    assert other.delete('/os-keypairs/mine').status == 404
    assert other.get(f'/os-keypairs/mine?user_id={base.USER}', version='2.10').status == 403
    assert other.get(f'/os-keypairs?user_id={base.USER}', version='2.10').status == 403
    assert other.delete(f'/os-keypairs/mine?user_id={base.USER}', version='2.10').status == 403
    assert _import(other, 'forged', user_id=base.USER).status == 403
    assert _names(api.client()) == ['mine']


def test_administrators_act_for_users(api):
    admin = api.admin()
    assert _import(admin, 'given', user_id=base.USER).json['keypair']['user_id'] == base.USER
    assert _names(api.client()) == ['given']
    assert _names(admin, f'?user_id={base.USER}') == ['given'] and _names(admin) == []
    assert admin.get(f'/os-keypairs/given?user_id={base.USER}', version='2.9').status == 404, 'ignored before 2.10'
    assert admin.delete(f'/os-keypairs/given?user_id={base.USER}', version='2.10').status == 204


def test_key_pairs_are_paged_since_2_35(api):
    client = api.client()
    for name in ('c', 'a', 'b'):
        _import(client, name)
    body = client.get('/os-keypairs?limit=2', version='2.35').json
    assert [entry['keypair']['name'] for entry in body['keypairs']] == ['a', 'b']
    assert body['keypairs_links'][0]['href'].endswith('/os-keypairs?limit=2&marker=b')
    assert _names(client, '?limit=2&marker=b') == ['c']
    assert client.get('/os-keypairs?marker=x', version='2.35').status == 400
    assert _names(client, '?limit=2', version='2.34') == ['a', 'b', 'c']


@pytest.mark.threads
def test_quota_limits_key_pairs(tmp_path):
    api = base.ApiFixture(tmp_path, quota__key_pairs=2)
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(_import(api.client(), f'k{n}').status))
               for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 201, 403, 403, 403, 403]
    assert _import(api.client(user='other'), 'k').status == 201
    assert _import(api.client(), 'k9').fault == (
        'forbidden', 403, 'Quota exceeded, too many key pairs: at most 2 are allowed.')
    api.close()


def test_no_key_is_made_that_will_not_be_kept(tmp_path):
    fixture = base.ApiFixture(tmp_path, quota__key_pairs=1)
    client = fixture.client()
    assert client.post('/os-keypairs', {'keypair': {'name': 'first'}}).status == 200

    def seconds(code, **values):
        """Of this process's time on a processor, the least of 20: a full machine makes some longer."""
        found = []
        for _ in range(20):
            began = time.process_time()
            assert client.post('/os-keypairs', {'keypair': values}, version='2.2').status == code
            found.append(time.process_time() - began)
        return min(found)
    imported = seconds(403, name='more', public_key=ED25519)
    assert seconds(403, name='more') < 4 * imported           # a key takes as long as ten such requests and more
    assert seconds(403, name='more', type='x509') < 4 * imported
    fixture.admin().put(f'/os-quota-sets/{base.PROJECT}', {'quota_set': {'key_pairs': 9}})
    assert seconds(409, name='first') < 4 * imported
    fixture.close()


@pytest.mark.threads
def test_few_keys_are_made_at_once():
    generator, barrier = keypair.Generator(at_once=1, waiting=3, of_one=2), threading.Barrier(9)
    made, refused = [], []

    def generate(user):
        barrier.wait()
        try:
            made.append((user, generator.generate('ssh', user)[1]))
        except exception.TooManyRequests as error:
            refused.append((user, error.kwargs['retry_after']))
    threads = [threading.Thread(target=generate, args=(user,)) for user in ['greedy'] * 8 + ['other']]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 'other' in {user for user, _key in made} and ('greedy', 1) in refused
    assert len({key for _user, key in made}) == len(made) and len(made) + len(refused) == 9
    assert generator.generate('ssh', 'greedy')[1].startswith('ssh-rsa ')          # all places are free again
