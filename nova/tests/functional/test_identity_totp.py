"""One-time codes as a second factor: credentials, logins, rules, receipts, and what an attacker tries with them."""
import base64
import datetime
import json
import logging
import re
import secrets
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.identity import directory as queries
from nova.db.tables import identity as tables
from nova.identity import tokens
from nova.identity import totp
from nova.identity.embedded import credentials
from nova.tests import identity_fixture

PASSWORD = 'pw-of-somebody'
BOTH = [['password', 'totp']]


class Clock:
    """Seconds since the epoch, in the middle of a step."""

    def __init__(self):
        self.now = 1_800_000_000 + totp.STEP_S / 2

    def __call__(self):
        return self.now

    def step(self, steps=1):
        self.now += steps * totp.STEP_S


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cloud(tmp_path, clock):
    return identity_fixture.IdentityCloud(tmp_path, clock=clock)


def new_secret():
    return base64.b32encode(secrets.token_bytes(20)).decode()


class Person:
    """A user with a role in the project demo, and maybe with a device."""

    def __init__(self, cloud, name, rules=None, device=True):
        self.cloud, self.name, self.blob = cloud, name, new_secret()
        service = cloud.service
        self.id = service.create_user(name, PASSWORD, default_project_id=cloud.id_of('project', 'demo'))['id']
        service.assign_role(self.id, cloud.id_of('role', 'member'), 'project', cloud.id_of('project', 'demo'))
        if device:
            self.credential = service.credentials.create(self.id, 'totp', self.blob)['id']
        self.address = '192.0.2.1'
        if rules is not None:
            self.require(rules)

    def require(self, rules, enabled=True):
        reply = self.cloud.call('PATCH', f'/v3/users/{self.id}', {'user': {'options': {
            'multi_factor_auth_enabled': enabled, 'multi_factor_auth_rules': rules}}}, token=self.cloud.token())
        assert reply.status_int == 200, reply.text
        return reply.json['user']['options']

    def code(self, steps=0):
        return totp.code(totp.secret_of(self.blob), int(self.cloud.clock() // totp.STEP_S) + steps)

    def login(self, *methods, code=None, password=PASSWORD, receipt=None, scope=None, address=None, **more):
        proofs = {'password': {'user': {'id': self.id, 'password': password}},
                  'totp': {'user': {'id': self.id, 'passcode': code or self.code()}}} | more
        body = {'auth': {'identity': {'methods': list(methods), **{name: proofs[name] for name in methods}}}}
        if scope:
            body['auth']['scope'] = scope
        headers = {'Openstack_Auth_Receipt': receipt} if receipt is not None else {}
        return self.cloud.call('POST', '/v3/auth/tokens', body, address=address or self.address, **headers)

    def token(self, *methods):
        reply = self.login(*methods)
        assert reply.status_int == 201, reply.text
        return reply.headers['X-Subject-Token']


def is_plain_refusal(reply):
    return reply.status_int == 401 and 'Openstack-Auth-Receipt' not in reply.headers and 'receipt' not in reply.json


# ---- codes

def test_a_code_is_good_in_its_step_and_the_next(cloud, clock):
    """Clock skew: one step late is taken, two are not, and nothing of the future."""
    person = Person(cloud, 'p', BOTH)
    for steps, status in ((1, 401), (2, 401), (-2, 401), (-3, 401), (-1, 201), (0, 201)):
        assert person.login('password', 'totp', code=person.code(steps)).status_int == status, steps
    clock.step(2)
    assert person.login('password', 'totp').status_int == 201


def test_a_code_is_used_once(cloud, clock):
    person = Person(cloud, 'p', BOTH)
    code = person.code()
    assert person.login('password', 'totp', code=code).status_int == 201
    assert is_plain_refusal(person.login('password', 'totp', code=code))
    assert is_plain_refusal(person.login('totp', code=code))
    assert is_plain_refusal(person.login('password', 'totp', code=person.code(-1)))     # older than the one used
    clock.step()
    assert is_plain_refusal(person.login('password', 'totp', code=code))
    assert person.login('password', 'totp').status_int == 201
    sibling = cloud.sibling()                                     # another process knows it, too
    with pytest.raises(exception.Unauthorized):
        sibling.logins.authenticate({'identity': {'methods': ['totp'], 'totp': {'user': {
            'id': person.id, 'passcode': person.code()}}}})


def test_a_code_is_used_once_whichever_credential_it_is_of(cloud):
    """The same secret twice, and a secret that was removed and stored again."""
    person = Person(cloud, 'p', BOTH)
    twin = cloud.service.credentials.create(person.id, 'totp', person.blob)['id']
    assert person.login('password', 'totp').status_int == 201
    assert is_plain_refusal(person.login('password', 'totp'))
    for credential_id in (twin, person.credential):
        cloud.service.credentials.delete(credential_id)
    cloud.service.credentials.create(person.id, 'totp', person.blob)
    assert is_plain_refusal(person.login('password', 'totp'))


def test_only_one_of_parallel_logins_with_the_same_code_succeeds(cloud, clock):
    person = Person(cloud, 'p', BOTH)
    for _ in range(3):
        code, statuses = person.code(), []
        # each from its own address: the delays are not what refuses
        threads = [threading.Thread(target=lambda number=number, code=code: statuses.append(person.login(
            'password', 'totp', code=code, address=f'192.0.2.{number + 1}').status_int)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [201] + [401] * 7
        clock.step()


def test_a_wrong_password_does_not_use_the_code_up(cloud):
    person = Person(cloud, 'p', BOTH)
    assert is_plain_refusal(person.login('totp', 'password', password='wrong'))
    assert person.login('totp', 'password').status_int == 201


@pytest.mark.parametrize('code', ['', ' ', '0', '12345', '1234567', '١٢٣٤٥٦', 'None', '\udc80', '*', '000000\n'])
def test_malformed_totp_code_is_refused(cloud, code):
    person = Person(cloud, 'p', BOTH)
    reply = person.login('password', 'totp', code=code or '\t')
    assert reply.status_int in (400, 401) and 'X-Subject-Token' not in reply.headers


def test_no_code_for_who_has_no_device_or_does_not_exist(cloud):
    person, stranger = Person(cloud, 'p'), Person(cloud, 's', device=False)
    replies = []
    for user in ({'id': stranger.id}, {'id': 'nobody'}, {'name': 'nobody', 'domain': {'id': 'default'}}, {'name': 'p'}):
        user['passcode'] = person.code()
        replies.append(cloud.call('POST', '/v3/auth/tokens', {'auth': {'identity': {
            'methods': ['totp'], 'totp': {'user': user}}}}))
    assert {(reply.status_int, reply.body) for reply in replies} == {(401, replies[0].body)}
    by_name = {'name': 'P', 'domain': {'name': 'default'}, 'passcode': person.code()}
    by_name['name'] = 'p'
    assert person.login('totp', totp={'user': by_name}).json['token']['methods'] == ['totp']


def test_a_disabled_user_gets_neither_token_nor_receipt(cloud):
    person = Person(cloud, 'p', BOTH)
    cloud.service.update_user(person.id, enabled=False)
    assert is_plain_refusal(person.login('password'))
    assert is_plain_refusal(person.login('password', 'totp'))


# ---- delays

def test_wrong_codes_make_wait(tmp_path, clock):
    """Who knows the password cannot make the failures forgotten with it."""
    cloud = identity_fixture.IdentityCloud(tmp_path, clock=clock, elapsed=clock, max_login_failures=3)
    person = Person(cloud, 'p', BOTH)
    receipt = person.login('password').headers['Openstack-Auth-Receipt']
    wrong = '000000' if person.code() != '000000' != person.code(-1) else '000001'
    for attempt in range(3):
        assert person.login('password').status_int == 401            # right, and more is needed
        how = ('totp',) if attempt else ('password', 'totp')
        assert person.login(*how, code=wrong, receipt=receipt).status_int == 401
    cloud.call('POST', f'/v3/users/{person.id}/password', {'user': {'original_password': PASSWORD,
                                                                    'password': PASSWORD}})
    reply = person.login('password', 'totp')                         # the right code
    assert reply.status_int == 429 and int(reply.headers['Retry-After']) >= 1
    assert person.login('password', 'totp', address='192.0.2.77').status_int == 201          # others do not wait


# ---- rules

def test_rules_are_options_of_a_user(cloud):
    person = Person(cloud, 'p')
    assert person.require(BOTH) == {'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': BOTH}
    path, admin = f'/v3/users/{person.id}', cloud.token()

    def change(**options):
        return cloud.call('PATCH', path, {'user': {'options': options}}, token=admin)
    assert change(multi_factor_auth_enabled=False).json['user']['options']['multi_factor_auth_rules'] == BOTH
    assert person.login('password').status_int == 201                # not enabled
    assert change(multi_factor_auth_enabled=True).status_int == 200
    assert person.login('password').status_int == 401
    assert change(multi_factor_auth_rules=None).json['user']['options'] == {'multi_factor_auth_enabled': True}
    assert person.login('password').status_int == 201
    assert change().json['user']['options'] == {'multi_factor_auth_enabled': True}
    assert cloud.call('GET', path, token=admin).json['user']['options'] == {'multi_factor_auth_enabled': True}
    made = cloud.call('POST', '/v3/users', {'user': {'name': 'new', 'options': {
        'multi_factor_auth_rules': BOTH, 'multi_factor_auth_enabled': None}}}, token=admin)
    assert made.json['user']['options'] == {'multi_factor_auth_rules': BOTH}
    for bad in ({'multi_factor_auth_rules': [[]]}, {'multi_factor_auth_rules': ['password']},
                {'multi_factor_auth_rules': [['password', '']]}, {'multi_factor_auth_rules': [['password'] * 2]},
                {'multi_factor_auth_rules': [['password']] * 2}, {'multi_factor_auth_enabled': 'yes'},
                {'lock_password': True}):
        assert change(**bad).status_int == 400, bad
    own = person.token('password')
    reply = cloud.call('PATCH', path, {'user': {'options': {'multi_factor_auth_enabled': None}}}, token=own)
    assert reply.status_int == 403


def test_no_login_satisfies_a_rule_with_an_unknown_method(cloud):
    person = Person(cloud, 'p')
    rules = [['password', 'custom-auth-method']]
    assert person.require(rules) == {'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': rules}
    assert person.login('password').status_int == 401
    person.require([*rules, ['password']])
    assert person.login('password').status_int == 201


def test_mfa_rules_require_all_methods(cloud, clock):
    person = Person(cloud, 'p', BOTH)
    both = person.login('password', 'totp')
    assert both.json['token']['methods'] == ['password', 'totp']
    clock.step()
    assert person.login('totp').json['required_auth_methods'] == BOTH
    clock.step()
    person.require([['totp'], ['password', 'token']])
    assert person.login('password').json['required_auth_methods'] == [['password', 'token']]
    assert person.login('totp').status_int == 201
    person.require([['token', 'application_credential']])
    assert is_plain_refusal(person.login('password'))                # part of no rule


def test_another_scope_needs_no_factor_again(cloud):
    person = Person(cloud, 'p')
    weak = person.token('password')
    person.require(BOTH)
    strong = person.token('password', 'totp')
    scope = {'project': {'id': cloud.id_of('project', 'demo')}}
    again = person.login('token', token={'id': strong}, scope=scope)
    assert again.status_int == 201 and set(again.json['token']['methods']) == {'token', 'password', 'totp'}
    assert person.login('token', token={'id': again.headers['X-Subject-Token']}, scope=scope).status_int == 201
    # a token from before the rules gives no new one, and no receipt that would outlive it
    assert is_plain_refusal(person.login('token', token={'id': weak}, scope=scope))
    assert is_plain_refusal(person.login('token', 'password', token={'id': weak}))


def test_application_credentials_go_on(cloud):
    person = Person(cloud, 'p', BOTH)
    token = person.token('password', 'totp')
    made = cloud.call('POST', f'/v3/users/{person.id}/application_credentials', {'application_credential': {
        'name': 'script'}}, token=token).json['application_credential']
    proof = {'id': made['id'], 'secret': made['secret']}
    reply = person.login('application_credential', application_credential=proof)
    assert reply.status_int == 201
    by_script = reply.headers['X-Subject-Token']
    assert person.login('token', token={'id': by_script}).status_int == 201
    # it must not get at the second factor of its owner
    path = f'/v3/credentials/{person.credential}'
    create = {'credential': {'type': 'totp', 'user_id': person.id, 'blob': new_secret()}}
    for method, where, body in (('GET', '/v3/credentials', None), ('GET', path, None), ('DELETE', path, None),
                                ('PATCH', path, {'credential': {'blob': new_secret()}}),
                                ('POST', '/v3/credentials', create)):
        reply = cloud.call(method, where, body, token=by_script)
        assert reply.status_int == 403 and person.blob not in reply.text, method


# ---- receipts

def test_login_in_two_steps_uses_a_receipt(cloud):
    person = Person(cloud, 'p', BOTH)
    first = person.login('password')
    receipt = first.headers['Openstack-Auth-Receipt']
    assert first.status_int == 401 and 'Keystone uri=' in first.headers['WWW-Authenticate']
    assert 'X-Subject-Token' not in first.headers and receipt not in first.text
    shown = first.json
    assert set(shown) == {'receipt', 'required_auth_methods'} and shown['required_auth_methods'] == BOTH
    assert set(shown['receipt']) == {'methods', 'user', 'issued_at', 'expires_at'}
    assert shown['receipt']['methods'] == ['password']
    assert shown['receipt']['user'] == {'id': person.id, 'name': 'p', 'domain': {'id': 'default', 'name': 'Default'}}
    second = person.login('totp', receipt=receipt)
    assert second.status_int == 201 and second.json['token']['methods'] == ['totp', 'password']
    assert cloud.call('GET', '/v3/auth/projects', token=second.headers['X-Subject-Token']).status_int == 200


def test_a_receipt_is_no_token_and_a_token_no_receipt(cloud, clock):
    person = Person(cloud, 'p', BOTH)
    receipt, token = person.login('password').headers['Openstack-Auth-Receipt'], person.token('password', 'totp')
    clock.step()
    assert cloud.call('GET', '/v3/auth/tokens', token=receipt, X_Subject_Token=receipt).status_int == 401
    assert is_plain_refusal(person.login('token', token={'id': receipt}))
    assert is_plain_refusal(person.login('totp', receipt=token))
    row = cloud.service.find('credential', id=person.credential)
    assert is_plain_refusal(person.login('totp', receipt=row['encrypted_blob']))
    assert cloud.service.keys.open(row['encrypted_blob']) is cloud.service.keys.open(receipt) is None


def test_receipts_that_do_not_count(cloud, clock):
    """Of another user, expired, forged, of before the password was changed; none of them uses the code up."""
    person, other = Person(cloud, 'p', BOTH), Person(cloud, 'o', BOTH)
    theirs, mine = (who.login('password').headers['Openstack-Auth-Receipt'] for who in (other, person))
    now, ring = utils.utcnow(), cloud.service.keys
    expired = ring.seal_receipt(tokens.Receipt(person.id, ('password',), now - datetime.timedelta(minutes=6), now))
    foreign = tokens.KeyRing(str(cloud.path / 'foreign')).seal_receipt(
        tokens.Receipt(person.id, ('password',), now, now + datetime.timedelta(minutes=5)))
    for bad in (expired, foreign, mine + mine, mine[:-1], f'"{mine}"', 'x', '', mine.swapcase()):
        assert is_plain_refusal(person.login('totp', receipt=bad)), bad
        assert is_plain_refusal(person.login('password', 'totp', receipt=bad)), bad       # it is not passed over
    assert is_plain_refusal(person.login('totp', receipt=theirs))
    clock.step()
    assert person.login('totp', receipt=mine).status_int == 201
    clock.step()
    cloud.service.update_user(person.id, password=PASSWORD)
    assert is_plain_refusal(person.login('totp', receipt=mine))


def test_a_receipt_lasts_minutes_and_is_not_prolonged(cloud, clock):
    person = Person(cloud, 'p', [['password', 'totp', 'token']])

    def end(reply):
        return datetime.datetime.strptime(reply.json['receipt']['expires_at'], '%Y-%m-%dT%H:%M:%S.%fZ')
    first = person.login('password')
    assert datetime.timedelta(minutes=4) < end(first) - utils.utcnow() <= datetime.timedelta(minutes=5)
    second = person.login('totp', receipt=first.headers['Openstack-Auth-Receipt'])
    assert set(second.json['receipt']['methods']) == {'password', 'totp'} and end(second) == end(first)


# ---- credentials

def test_credentials_are_kept_for_their_user(cloud):
    person = Person(cloud, 'p', device=False)
    token, blob = person.token('password'), new_secret()
    made = cloud.call('POST', '/v3/credentials', {'credential': {
        'type': 'totp', 'blob': blob, 'user_id': person.id}}, token=token)
    assert made.status_int == 201
    shown = made.json['credential']
    path = f'/v3/credentials/{shown["id"]}'
    assert shown == {'id': shown['id'], 'type': 'totp', 'blob': blob, 'user_id': person.id, 'project_id': None,
                     'links': {'self': 'http://cloud.example/identity' + path}}
    assert cloud.call('GET', path, token=token).json['credential'] == shown
    assert cloud.call('GET', '/v3/credentials', token=token).json['credentials'] == [shown]
    assert cloud.call('GET', '/v3/credentials?type=ec2', token=token).json['credentials'] == []
    person.blob = blob
    assert person.login('totp').status_int == 201
    project = cloud.id_of('project', 'demo')
    person.blob = new_secret()
    changed = cloud.call('PATCH', path, {'credential': {'blob': person.blob, 'project_id': project}}, token=token)
    assert changed.json['credential'] == shown | {'blob': person.blob, 'project_id': project}
    assert cloud.call('GET', path, token=cloud.token()).json['credential'] == changed.json['credential']
    cloud.clock.step()
    assert person.login('totp').status_int == 201
    cloud.service.delete_project(project)                # what is the user's own stays
    assert cloud.service.credentials.get(shown['id'])['project_id'] is None
    admin = cloud.token()
    assert cloud.call('DELETE', path, token=admin).status_int == 204
    assert cloud.call('DELETE', path, token=admin).status_int == 404
    cloud.clock.step()
    assert person.login('totp').status_int == 401


def test_credentials_of_others_are_not_there(cloud):
    person, other = Person(cloud, 'p'), Person(cloud, 'o')
    token, path = other.token('password'), f'/v3/credentials/{person.credential}'
    missing = cloud.call('GET', '/v3/credentials/' + 'f' * 32, token=token)
    assert missing.status_int == 404
    for method, body in (('GET', None), ('DELETE', None), ('PATCH', {'credential': {'blob': new_secret()}})):
        reply = cloud.call(method, path, body, token=token)
        assert reply.status_int == 404, method
        assert reply.text.replace(person.credential, 'f' * 32) == missing.text
    assert cloud.call('GET', f'/v3/credentials?user_id={person.id}', token=token).status_int == 403
    own = cloud.call('GET', '/v3/credentials', token=token).json['credentials']
    assert [row['user_id'] for row in own] == [other.id]
    body = {'credential': {'type': 'totp', 'blob': new_secret(), 'user_id': person.id}}
    assert cloud.call('POST', '/v3/credentials', body, token=token).status_int == 403
    own = {'credential': {'user_id': person.id}}
    assert cloud.call('PATCH', f'/v3/credentials/{other.credential}', own, token=token).status_int == 403
    assert cloud.call('GET', path, token=cloud.token('nova')).status_int == 404          # a service is nobody special
    both = cloud.call('GET', '/v3/credentials', token=cloud.token()).json['credentials']
    assert {row['user_id'] for row in both} == {person.id, other.id}
    assert person.login('totp').status_int == 201


@pytest.mark.parametrize('change', [
    {'blob': 'GEZDGNBV'}, {'blob': '1' * 32}, {'blob': 'A' * 120}, {'blob': 'A' * 5000}, {'blob': ''}, {'blob': None},
    {'blob': 'A' * 31 + '\0'}, {'blob': 'A' * 31 + 'é'}, {'type': 'ec2'}, {'type': None}, {'user_id': None},
    {'user_id': 7}])
def test_invalid_totp_credentials_are_refused(cloud, change):
    admin = cloud.token()
    body = {'type': 'totp', 'blob': new_secret(), 'user_id': cloud.id_of('user', 'demo')} | change
    reply = cloud.call('POST', '/v3/credentials', {'credential': body}, token=admin)
    assert reply.status_int == 400
    assert not change.get('blob') or change['blob'] not in reply.text
    assert cloud.service.credentials.list() == []


def test_blob_with_a_too_long_encrypted_text_is_refused(cloud):
    """The bound of 384 characters allows more bytes than the column and the decryption do."""
    person, project, admin = Person(cloud, 'p'), cloud.id_of('project', 'demo'), cloud.token()
    cloud.service.assign_role(person.id, cloud.id_of('role', 'member'), 'project', project)

    def blob(secret, **more):
        return json.dumps({'access': 'key', 'secret': secret, **more}, ensure_ascii=False)

    def post(text):
        return cloud.call('POST', '/v3/credentials', {'credential': {
            'type': 'ec2', 'blob': text, 'user_id': person.id, 'project_id': project}}, token=admin)
    for text in (blob('\U0001f600' * 128, more='\U0001f600' * 60), blob('\\' * 128)[:-1] + '\n' * 90 + '}'):
        refused = post(text)
        assert refused.status_int == 400 and 'The blob is too long' in refused.text, text
    made = post(blob('\U0001f600' * 100))                 # 400 bytes
    assert made.status_int == 201
    path = f'/v3/credentials/{made.json["credential"]["id"]}'
    changed = cloud.call('PATCH', path, {'credential': {'blob': blob('\U0001f600' * 128, more='\U0001f600' * 60)}},
                         token=admin)
    assert changed.status_int == 400 and 'The blob is too long' in changed.text
    assert cloud.call('GET', path, token=admin).json['credential']['blob'] == blob('\U0001f600' * 100)


def test_references_of_a_credential_are_looked_up(cloud):
    person, admin = Person(cloud, 'p'), cloud.token()
    body = {'type': 'totp', 'blob': new_secret(), 'user_id': person.id}
    for change in ({'user_id': 'nobody'}, {'project_id': 'nowhere'}, {'project_id': cloud.id_of('project', 'admin')}):
        reply = cloud.call('POST', '/v3/credentials', {'credential': body | change}, token=admin)
        assert reply.status_int == 404, change


def test_there_are_so_many_of_a_user_and_they_go_with_the_user(cloud):
    person = Person(cloud, 'p')
    token, statuses = person.token('password'), []
    body = {'credential': {'type': 'totp', 'blob': new_secret(), 'user_id': person.id}}
    threads = [threading.Thread(target=lambda: statuses.append(cloud.call(
        'POST', '/v3/credentials', body, token=token).status_int)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    most = credentials.KINDS['totp'].most
    assert sorted(statuses) == [201] * (most - 1) + [403] * (13 - most)
    cloud.service.delete_user(person.id)
    assert cloud.service.credentials.list() == []


# ---- secrets at rest

def test_secrets_are_sealed_and_told_to_nobody(cloud, caplog):
    caplog.set_level(logging.DEBUG)
    person = Person(cloud, 'p', BOTH)
    token = person.token('password', 'totp')
    cloud.call('PATCH', f'/v3/credentials/{person.credential}', {'credential': {'blob': person.blob}}, token=token)
    person.login('password', 'totp')
    with cloud.db.reader() as conn:
        stored = json.dumps([[str(value) for value in row] for table in tables.identity_users.metadata.sorted_tables
                             for row in conn.execute(sa.select(table))])
    assert person.credential in stored
    assert person.blob not in stored and person.blob not in caplog.text
    assert not re.search(rf'(?<![0-9a-f]){person.code()}(?![0-9a-f])', caplog.text)      # not as a part of an id


def test_a_secret_in_another_row_is_none(cloud):
    """Who may write the table, and has no key, does not give a user a device that he has himself."""
    person, other = Person(cloud, 'p', BOTH), Person(cloud, 'o')
    sealed = cloud.service.find('credential', id=other.credential)['encrypted_blob']
    cloud.db.run(queries.update, 'credential', person.credential, {'encrypted_blob': sealed})
    assert is_plain_refusal(person.login('password', 'totp', code=other.code()))
    assert cloud.service.credentials.get(person.credential)['blob'] is None


def test_keys_go_and_secrets_stay(cloud, clock):
    person = Person(cloud, 'p', BOTH)
    ring, service = cloud.service.keys, cloud.service
    old = service.find('credential', id=person.credential)['encrypted_blob']
    late = Person(cloud, 'late', BOTH)
    stale = service.find('credential', id=late.credential)['encrypted_blob']
    for _ in range(4):
        ring.stage()
        ring.promote()
    passes = []

    def reseal(renewed):
        """As retire_keys does it; between its two passes somebody stores what an old key has sealed."""
        credentials.reseal(cloud.db, renewed)
        if not passes:
            cloud.db.run(queries.update, 'credential', late.credential, {'encrypted_blob': stale})
        passes.append(renewed)
    assert ring.retire(reseal=reseal) == 4 and len(passes) == 2
    assert ring.decrypt_secret(person.credential, old) is None          # the old key is gone
    assert service.credentials.get(person.credential)['blob'] == person.blob
    for who in (person, late):
        assert who.login('password', 'totp').status_int == 201
    clock.step()
    sibling = cloud.sibling()
    assert sibling.logins.authenticate({'identity': {'methods': ['totp', 'password'], 'totp': {'user': {
        'id': person.id, 'passcode': person.code()}}, 'password': {'user': {'id': person.id, 'password': PASSWORD}}}})


def test_a_secret_that_no_key_opens_is_said_to_the_operator_and_no_code(cloud, caplog):
    person = Person(cloud, 'p', BOTH)
    ring = cloud.service.keys
    ring.stage()
    ring.promote()
    ring.retire()
    assert is_plain_refusal(person.login('password', 'totp'))
    assert f'Cannot decrypt credential {person.credential}' in caplog.text
