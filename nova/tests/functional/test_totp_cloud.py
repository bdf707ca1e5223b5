"""One-time codes on a whole cloud over HTTP: logins, receipts, records of the audit log, and the keys beneath."""
import base64
import json
import os
import threading
import time

import pytest
import requests
import sqlalchemy as sa

from nova.db.identity import directory as queries
from nova.identity import tokens
from nova.identity import totp
from nova.identity.embedded import credentials
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('totp')) as made:
        yield made


@pytest.fixture
def person(cloud):
    return Person(cloud)


class Person:
    """A user who needs a password and a code, and whose device is known here."""

    def __init__(self, cloud):
        admin = cloud.admin()
        identity = callers.Identity(admin)
        self.project = identity.project('guarded')
        self.url = cloud.url + '/identity/v3'
        _name, self.password, self.id = identity.user(f'/projects/{self.project}', 'member')
        self.blob = base64.b32encode(os.urandom(20)).decode()
        made = admin.post('/identity/v3/credentials', {'credential': {
            'type': 'totp', 'user_id': self.id, 'blob': self.blob}})
        assert made.status_code == 201, made.text
        self.credential = made.json()['credential']['id']
        changed = admin.request('PATCH', f'/identity/v3/users/{self.id}', {'user': {'options': {
            'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': [['password', 'totp']]}}})
        assert changed.status_code == 200, changed.text

    def code(self):
        return totp.code(totp.secret_of(self.blob), int(time.time() // totp.STEP_S))

    def login(self, *methods, code=None, receipt=None):
        proofs = {'password': {'user': {'id': self.id, 'password': self.password}},
                  'totp': {'user': {'id': self.id, 'passcode': code}}}
        return requests.post(self.url + '/auth/tokens', json={'auth': {
            'identity': {'methods': methods, **{name: proofs[name] for name in methods}},
            'scope': {'project': {'id': self.project}}}}, timeout=60,
            headers={'Openstack-Auth-Receipt': receipt} if receipt else {})


def test_a_login_needs_both(cloud, person):
    first = person.login('password')
    assert first.status_code == 401 and first.json()['required_auth_methods'] == [['password', 'totp']]
    code = person.code()
    second = person.login('totp', code=code, receipt=first.headers['Openstack-Auth-Receipt'])
    assert second.status_code == 201, second.text
    answer = requests.get(cloud.url + '/v2.1/servers', timeout=60,
                          headers={'X-Auth-Token': second.headers['X-Subject-Token']})
    assert answer.status_code == 200
    for receipt in (None, first.headers['Openstack-Auth-Receipt']):
        again = person.login('password', 'totp', code=code, receipt=receipt)
        assert again.status_code == 401 and 'receipt' not in again.json()
    assert requests.get(cloud.url + '/v2.1/servers', timeout=60, headers={
        'X-Auth-Token': first.headers['Openstack-Auth-Receipt']}).status_code == 401


def test_only_one_of_parallel_logins_with_the_same_code_succeeds(cloud, person):
    code, answers = person.code(), []
    threads = [threading.Thread(target=lambda: answers.append(person.login('password', 'totp', code=code)))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 7


def _records(cloud):
    with cloud.api_db.reader() as conn:
        return [dict(row) for row in conn.execute(sa.text('SELECT * FROM audit_records ORDER BY id')).mappings()]


def test_the_audit_log_knows_who_and_no_secret(cloud, person):
    code = person.code()
    refused = person.login('password')
    done = person.login('password', 'totp', code=code)
    assert (refused.status_code, done.status_code) == (401, 201)
    replayed = person.login('password', 'totp', code=code)
    assert replayed.status_code == 401
    records = _records(cloud)
    logins = [record for record in records if record['action'] == 'identity:login' and record['target_id'] == person.id]
    assert [(record['outcome'], record['code'], record['user_id']) for record in logins] == [
        ('denied', 401, None), ('accepted', 201, person.id), ('denied', 401, None)]
    made, = [record for record in records if record['target_id'] == person.credential]
    assert (made['action'], made['target_type']) == ('identity:create_user_credential', 'credentials')
    text = json.dumps(records, default=str)
    for secret in (person.blob, person.password, refused.headers['Openstack-Auth-Receipt'],
                   done.headers['X-Subject-Token']):
        assert secret not in text


def test_keys_are_retired_beside_a_cloud_that_runs(cloud, person):
    ring = tokens.KeyRing(os.path.dirname(cloud.identity.keys.path))
    old = cloud.identity.find('credential', id=person.credential)['encrypted_blob']
    ring.stage()
    ring.promote()
    assert ring.retire(reseal=lambda renewed: credentials.reseal(cloud.api_db, renewed)) == 1
    with cloud.api_db.reader() as conn:
        assert queries.get(conn, 'credential', id=person.credential)['encrypted_blob'] != old
    assert person.login('password', 'totp', code=person.code()).status_code == 201
