"""A real Keystone of a test's own, on a SQLite database and a free port of the loopback.

Its programs come from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import contextlib
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
def running():
    """(URL, password of the user admin in the project admin)."""
    place, password, port = programs(), secrets.token_hex(16), servers.free_port()
    url = f'http://127.0.0.1:{port}'
    with servers._directory() as directory:
        (directory / 'keystone.conf').write_text(SETTINGS.format(directory=directory))
        environ = {**os.environ, 'OS_KEYSTONE_CONFIG_DIR': str(directory), 'PORT': str(port)}

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
        command, log = [place / 'python', '-W', 'ignore', '-c', servers.WSGI.format('keystone')], directory / 'log'
        with servers._running(command, log, env=environ) as process:
            servers._wait(lambda: _answers(url), process, log)
            yield url, password


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/v3', timeout=60).status_code == 200
    return False
