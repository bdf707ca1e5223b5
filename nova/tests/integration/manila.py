"""A real Manila of a test's own, behind a Keystone, with the back end that Manila has for tests of its API.

Its programs come from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import contextlib
import os
import pathlib
import subprocess

import pytest
import requests

from nova.tests.support import waiting
from nova.tests.integration import servers

VERSION = {'X-OpenStack-Manila-API-Version': '2.82'}
SETTINGS = '''[DEFAULT]
auth_strategy = keystone
state_path = {directory}
host = manila
my_ip = 127.0.0.1
api_paste_config = {place}/../etc/manila/api-paste.ini
transport_url = {broker}
enabled_share_backends = dummy
enabled_share_protocols = NFS
default_share_type = plain
storage_availability_zone = nova
[dummy]
share_driver = manila.tests.share.drivers.dummy.DummyDriver
share_backend_name = dummy
driver_handles_share_servers = false
dummy_driver_default_driver_method_delay = 0
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}
[coordination]
backend_url = file://{directory}
[keystone_authtoken]
auth_type = password
auth_url = {identity}/v3
www_authenticate_uri = {identity}/v3
username = admin
password = {password}
project_name = admin
user_domain_id = default
project_domain_id = default
'''


def programs():
    """The directory of Manila's programs; the test is skipped, with the reason, where there is none."""
    place = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin'
    if not (place / 'manila-manage').exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with Manila')
    return place


class Manila:
    """Its API, as the client of a project uses it.

    :param client: with a token of Keystone (see nova.tests.functional.callers)
    """

    def __init__(self, url, client):
        self.url, self._client = url, client

    def ask(self, method, path, document=None):
        answer = requests.request(method, self.url + path, json=document, timeout=60,
                                  headers={'X-Auth-Token': self._client.token, **VERSION})
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    def type(self, name):
        self.ask('POST', '/types', {'share_type': {
            'name': name, 'extra_specs': {'driver_handles_share_servers': 'False'},
            'share_type_access:is_public': True}})

    def share(self, name):
        """The id of a new share of the client's project that is there."""
        made = self.ask('POST', '/shares', {'share': {'share_proto': 'NFS', 'size': 1, 'name': name}})['share']['id']

        def status():
            return self.ask('GET', f'/shares/{made}')['share']['status']
        found = waiting.wait_for(lambda: (now := status()) != 'creating' and now, 60, f'share {name} to be made')
        assert found == 'available', found
        return made

    def rules(self, share_id):
        return self.ask('GET', f'/share-access-rules?share_id={share_id}')['access_list']


@contextlib.contextmanager
def running(broker, identity, password, port):
    """The URL of a Manila at a port.

    :param broker: URL of its messages
    :param identity: that of a Keystone whose user admin has ``password``
    """
    place, url = programs(), f'http://127.0.0.1:{port}/v2'
    with servers.SHARED['mariadb']() as new_database, servers._directory() as directory, \
            contextlib.ExitStack() as stack:
        database = new_database('manila')     # green threads that wait for a lock of SQLite stop their process
        settings = directory / 'manila.conf'
        settings.write_text(SETTINGS.format(directory=directory, place=place, port=port, broker=broker,
                                            database=database, identity=identity, password=password))
        done = subprocess.run([place / 'manila-manage', '--config-file', settings, 'db', 'sync'],
                              capture_output=True, text=True, timeout=servers.START_S)
        assert done.returncode == 0, done.stderr[-2000:]
        for name in ('scheduler', 'share'):
            stack.enter_context(servers._running([place / f'manila-{name}', '--config-file', settings],
                                                 directory / f'{name}.log'))
        log = directory / 'log'
        command = [place / 'python', '-W', 'ignore', '-c', servers.WSGI.format('manila'), '--config-file', settings]
        process = stack.enter_context(servers._running(command, log, env={**os.environ, 'PORT': str(port)}))
        servers._wait(lambda: _answers(url), process, log)
        yield url


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/shares', timeout=60).status_code == 401             # it wants a token
    return False
