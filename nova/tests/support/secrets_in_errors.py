"""What tests share with nova/tests/functional/test_secrets_in_errors.py."""
import base64
import time

from nova.tests import db_faults
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import keypairs as test_keypairs
from nova.tests.support import secrets as test_secrets

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
