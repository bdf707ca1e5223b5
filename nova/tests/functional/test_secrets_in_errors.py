"""Every statement that carries a secret fails once, and the error is told to nobody with the secret in it."""
import base64
import io
import logging
import time

import sqlalchemy as sa
from oslo_db import exception as db_exc
import pytest

from nova.db import engine
from nova.db import errors
from nova.tests import db_faults
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.functional import test_keypairs
from nova.tests.functional import test_secrets

log_file = test_secrets.log_file
# Where the statements that failed must have been, so that a walk that misses them is noticed.
TABLES = {'instances', 'request_specs', 'key_pairs', 'console_auth_tokens', 'block_device_mappings',
          'identity_users', 'identity_application_credentials'}
AGAIN = 30                  # times that a request may fail: each failure is another statement


def encoded(word):
    return base64.b64encode(word.encode()).decode()


class Walk:
    """What a user and an administrator do with secrets, each step again until it goes well.

    :param made: the Cloud
    """

    def __init__(self, made):
        self.admin, self.demo = made.admin('2.90'), made.client(version='2.52')
        self.secrets, self.texts = test_secrets.Canaries(), []

    def words_in(self, text):
        """The secrets in a text, as they are or in base64, in the form in which they are there."""
        return [form for word in self.secrets.values() for form in (word, encoded(word).rstrip('=')[:-1])
                if form in text]

    def again(self, function, done=lambda answer: answer.status_code < 400):
        for _ in range(AGAIN):
            answer = function()
            self.texts.append(answer.text)
            if done(answer):
                return answer
            assert answer.status_code >= 500, answer.text
        raise AssertionError(f'it fails for ever: {answer.text}')

    def do(self):
        secrets, demo = self.secrets, self.demo
        self.again(lambda: self.admin.post('/identity/v3/users', {'user': {'name': 'n', 'password': 'x' * 8}}))
        credentials = f'/identity/v3/users/{demo.user_id}/application_credentials'
        made = self.again(lambda: demo.post(credentials, {'application_credential': {
            'name': 'c', 'secret': secrets['credential']}}))
        assert made.json()['application_credential']['secret'] == secrets['credential']
        key = test_keypairs.ED25519.split()[:2]
        self.again(lambda: demo.post('/os-keypairs', {'keypair': {
            'name': 'k', 'public_key': ' '.join([*key, secrets['key']])}}))
        image, server_id = demo.upload_image(), None
        for _ in range(AGAIN):
            server_id = self.again(lambda: demo.post('/servers', version='2.52', body={'server': {
                'name': 's', 'imageRef': image, 'flavorRef': '42', 'networks': 'none', 'key_name': 'k',
                'adminPass': secrets['admin_pass'], 'user_data': encoded(secrets['user_data']),
                'config_drive': True,
                'personality': [{'path': '/etc/x', 'contents': encoded(secrets['file'])}]}})).json()['server']['id']
            if self.settled(server_id) == 'ACTIVE':
                break
        volume = demo.post('/volume/v3/volumes', {'volume': {'size': 1}}).json()['volume']['id']
        self.until_it_holds(server_id, lambda: demo.post(f'/servers/{server_id}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': volume}}), lambda: demo.get(f'/volume/v3/volumes/{volume}').json()[
                'volume']['status'] == 'in-use')
        self.again(lambda: demo.post(f'/servers/{server_id}/remote-consoles', {
            'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}))
        for status, action in (('RESCUE', {'rescue': {'adminPass': secrets['rescue_pass']}}),
                               ('ACTIVE', {'unrescue': None}),
                               ('ACTIVE', {'rebuild': {'imageRef': image, 'adminPass': secrets['rebuild_pass']}})):
            self.until_it_holds(server_id, lambda: demo.post(f'/servers/{server_id}/action', action),
                                lambda: self.settled(server_id) == status)
        for client in (demo, self.admin):
            self.texts += [str(client.get(f'/servers/{server_id}/os-instance-actions').json())]
            for row in client.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']:
                self.texts.append(client.get(f'/servers/{server_id}/os-instance-actions/{row["request_id"]}').text)

    def until_it_holds(self, server_id, ask, holds):
        for _ in range(AGAIN):
            answer = ask()
            self.texts.append(answer.text if answer.status_code >= 400 else '')        # a good one shows the password
            deadline = time.monotonic() + (3 if answer.status_code < 400 else 0)
            while not holds():
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            else:
                return
            self.settled(server_id)
            self.admin.post(f'/servers/{server_id}/action', {'os-resetState': {'state': 'active'}})
        raise AssertionError(f'it does not come to hold: {answer.text}')

    def settled(self, server_id):
        """The status of a server that nothing is done with, or that has hung for a while; its fault is looked at."""
        deadline = time.monotonic() + 15
        while True:
            shown = self.admin.get(f'/servers/{server_id}').json()['server']
            if (shown['OS-EXT-STS:task_state'] is None and shown['status'] != 'BUILD') or time.monotonic() > deadline:
                self.texts += [str(shown.get('fault')), str(self.demo.get(f'/servers/{server_id}').json())
                               if shown['status'] == 'ERROR' else '']
                return shown['status']
            time.sleep(0.02)


def check(directory, log_path, **overrides):
    """Let everything that carries a secret fail in a cloud; assert that it was looked for where it was, and found
    nowhere else."""
    with cloud_fixture.running(directory, **overrides) as made:
        walk = Walk(made)
        with db_faults.SecretInjector([made.api_db, made.cell_db], walk.words_in) as injector:
            walk.do()
        missing = TABLES - injector.tables
        assert not missing, f'no statement about {missing} was made to fail'
    log = log_path.read_text()
    assert 'hide_parameters' in log                     # there are errors of the database in it
    told = ' '.join(walk.texts)
    shown = {walk.secrets['credential'], walk.secrets['key'], walk.secrets['admin_pass']}     # where they are answered
    for word in (*injector.secrets, *walk.words_in(log)):
        assert word not in log, next(line for line in log.splitlines() if word in line)[:500]
    for word in (*injector.secrets, *walk.words_in(told)):
        if word not in shown:
            assert word not in told, told[max(0, told.index(word) - 300):told.index(word) + 100]


def test_no_error_tells_a_secret(tmp_path, log_file):
    check(tmp_path / 'state', log_file)


# ---- what the servers say themselves: shown here without them

MYSQL = [
    ((1062, "Duplicate entry 'ca'na\nry' for key 'uniq_x'"), "Duplicate entry '***' for key 'uniq_x'"),
    ((1366, "Incorrect string value: 'canary' for column `a`.`b` at row 1"), 'Incorrect string value: ***'),
    ((1064, "You have an error near 'canary'"), 'You have an error near ***'),
    ((1292, "Truncated incorrect DOUBLE value: 'canary'"), 'Truncated incorrect DOUBLE value: ***'),
    ((1146, "Table 'nova.x' doesn't exist"), "Table 'nova.x' doesn't exist"),
    ((1114, "The table 'instances' is full"), "The table 'instances' is full"),
    ((1021, "Disk full (/tmp/#sql-1.MAI); waiting for someone to free some space... (errno: 28 \"No space left\")"),
     "Disk full (/tmp/#sql-1.MAI); waiting for someone to free some space... (errno: 28 \"No space left\")"),
    ((2003, "Can't connect to MySQL server on 'db1'"), "Can't connect to MySQL server on 'db1'"),
]


@pytest.mark.parametrize('given, told', MYSQL)
def test_the_words_of_mysql(given, told):
    assert errors._mysql(*given) == told and 'canary' not in told


POSTGRESQL = [
    (('23505', 'duplicate key value violates unique constraint "u"\nDETAIL:  Key (a, b)=(x, canary) already exists.\n'),
     'duplicate key value violates unique constraint "u"\nDETAIL:  Key (a, b)=(***) already exists.\n'),
    (('23502', 'null value in column "a" of relation "t"\nDETAIL:  Failing row contains (canary, null).\n'),
     'null value in column "a" of relation "t"'),
    (('42P01', 'relation "t" does not exist\nLINE 1: SELECT FROM t WHERE a = \'canary\'\n'),
     'relation "t" does not exist'),
    (('22P02', 'ungültige Eingabesyntax für Typ integer: »canary«\n'), 'ungültige Eingabesyntax für Typ integer: ***'),
    (('42601', 'syntax error at or near "canary"\n'), 'syntax error at or near ***'),
    ((None, 'can\'t adapt type "canary"'), 'can***'),
]


@pytest.mark.parametrize('given, told', POSTGRESQL)
def test_the_words_of_postgresql(given, told):
    assert errors._postgresql(given[0], False, given[1]) == told and 'canary' not in told


SECRET = 'never told'


def test_a_lost_connection_and_a_missing_table_tell_no_value(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite')
    stream = io.StringIO()
    handler, log = logging.StreamHandler(stream), logging.getLogger('of_this_test')
    log.addHandler(handler)

    def lose(conn):
        conn.connection.dbapi_connection.close()
        conn.execute(sa.text('INSERT INTO t (a) VALUES (:a)'), {'a': SECRET})
    for fail in (lose, lambda conn: conn.execute(sa.text('INSERT INTO t (a) VALUES (:a)'), {'a': SECRET})):
        try:
            db.run(fail)
        except (sa.exc.DBAPIError, db_exc.DBError) as error:
            log.exception('It failed: %s', error)
        else:
            raise AssertionError('it went well')
    log.removeHandler(handler)
    assert stream.getvalue().count('hide_parameters') >= 2, stream.getvalue()
    assert SECRET not in stream.getvalue()
    db.dispose()
