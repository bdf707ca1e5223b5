"""A real Keystone of a test's own, on a SQLite database and a free port of the loopback.

Its programs come from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import contextlib
import itertools
import os
import pathlib
import secrets
import subprocess

import pytest
import requests
from cryptography import fernet

from nova.tests.integration import servers

ADMIN = 'admin'
SETTINGS = '''[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{directory}/keystone.sqlite
sqlite_synchronous = false
[token]
provider = fernet
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[identity]
password_hash_rounds = 4
[credential]
key_repository = {directory}/credential
[cache]
enabled = true
backend = dogpile.cache.memory
[oslo_policy]
enforce_scope = true
enforce_new_defaults = true
'''


def programs():
    """The directory of Keystone's programs; the test is skipped, with the reason, where there is none."""
    place = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin'
    if not (place / 'keystone-manage').exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with Keystone')
    return place


@contextlib.contextmanager
def running(settings='', program=None, **variables):
    """(URL, password of the user admin in the project admin).

    :param settings: further text of keystone.conf
    :param program: file that serves Keystone's application; None: one that serves it alone
    :param variables: environment variables of the program
    """
    place, password, port = programs(), secrets.token_hex(16), servers.free_port()
    url = f'http://127.0.0.1:{port}'
    with servers._directory() as directory:
        (directory / 'keystone.conf').write_text(SETTINGS.format(directory=directory) + settings)
        (directory / '.keystone').symlink_to(directory)              # where its middleware for CORS looks
        environ = {**os.environ, 'HOME': str(directory), 'OS_KEYSTONE_CONFIG_DIR': str(directory), 'PORT': str(port),
                   **variables}

        def manage(*arguments):
            done = subprocess.run([place / 'keystone-manage', '--config-file', directory / 'keystone.conf', *arguments],
                                  env=environ, capture_output=True, text=True, timeout=servers.START_S)
            assert done.returncode == 0, done.stderr[-2000:]
        manage('db_sync')
        for kind in ('fernet', 'credential'):            # as fernet_setup and credential_setup, of 5 s each, leave them
            (directory / kind).mkdir(mode=0o700)
            for number in range(2):
                (directory / kind / str(number)).write_bytes(fernet.Fernet.generate_key())
        manage('bootstrap', '--bootstrap-password', password, *(word for kind in ('public', 'internal', 'admin')
               for word in (f'--bootstrap-{kind}-url', url + '/v3')),
               '--bootstrap-region-id', 'RegionOne')
        served = ['-P', program] if program else ['-c', servers.WSGI.format('keystone')]
        command, log = [place / 'python', '-W', 'ignore', *served], directory / 'log'
        with servers._running(command, log, env=environ) as process:
            servers._wait(lambda: _answers(url), process, log)
            yield url, password


@contextlib.contextmanager
def trusted(url, password, groups=('KEYSTONE_AUTHTOKEN',)):
    """Make clouds of this process ask this Keystone until the end, as its administrator.

    :param groups: of the options with the account
    """
    account = {'auth_type': 'password', 'auth_url': url + '/v3', 'username': ADMIN, 'password': password,
               'project_name': 'admin', 'user_domain_id': 'default', 'project_domain_id': 'default'}
    with pytest.MonkeyPatch.context() as patch:
        for group, (name, value) in itertools.product(groups, account.items()):
            patch.setenv(f'OS_{group}__{name.upper()}', value)
        patch.setenv('OS_KEYSTONE_AUTHTOKEN__WWW_AUTHENTICATE_URI', url + '/v3')
        yield


def publish(admin, rows):
    """Put services into the catalog.

    :param admin: Caller of the administrator
    :param rows: (type, name, URL) of each
    """
    for kind, name, url in rows:
        made = admin.post('/identity/v3/services', {'service': {'type': kind, 'name': name}})
        assert made.status_code == 201, made.text
        for interface in ('public', 'internal'):
            endpoint = admin.post('/identity/v3/endpoints', {'endpoint': {
                'service_id': made.json()['service']['id'], 'interface': interface, 'url': url,
                'region': 'RegionOne'}})
            assert endpoint.status_code == 201, endpoint.text


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/v3', timeout=60).status_code == 200
    return False
