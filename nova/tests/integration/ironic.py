"""A real Ironic of a test's own, alone and without tokens, with nodes of its fake hardware.

Its programs come from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import contextlib
import os
import pathlib
import subprocess
import time

import pytest
import requests

from nova.tests.integration import servers

VERSION = '1.82'
SETTINGS = '''[DEFAULT]
auth_strategy = noauth
state_path = {directory}
tempdir = {directory}
host = ironic
my_ip = 127.0.0.1
rpc_transport = none
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = fake
enabled_deploy_interfaces = fake
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = fake
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[database]
connection = sqlite:///{directory}/ironic.sqlite
sqlite_synchronous = false
[api]
host_ip = 127.0.0.1
port = {port}
api_workers = 1
[conductor]
automated_clean = false
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:{port}
'''


def programs():
    """The directory of Ironic's programs; the test is skipped, with the reason, where there is none."""
    place = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin'
    if not (place / 'ironic-dbsync').exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with Ironic')
    return place


class Ironic:
    """Its API, as an operator uses it."""

    def __init__(self, url):
        self.url = url

    def ask(self, method, path, document=None):
        answer = requests.request(method, self.url + '/v1' + path, json=document, timeout=60,
                                  headers={'X-OpenStack-Ironic-API-Version': VERSION})
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    def node(self, uuid):
        return self.ask('GET', f'/nodes/{uuid}')

    def enroll(self, name, **fields):
        """The uuid of a new node that is available."""
        uuid = self.ask('POST', '/nodes', {'driver': 'fake-hardware', 'name': name, 'properties': {
            'cpus': 8, 'memory_mb': '16384', 'local_gb': 100, 'cpu_arch': 'x86_64'}, **fields})['uuid']
        for target, state in (('manage', 'manageable'), ('provide', 'available')):
            self.provision(uuid, target, state)
        return uuid

    def provision(self, uuid, target, state, seconds=60):
        self.ask('PUT', f'/nodes/{uuid}/states/provision', {'target': target})
        deadline = time.monotonic() + seconds
        while (node := self.node(uuid))['provision_state'] != state:
            assert time.monotonic() < deadline, node['last_error']
            time.sleep(0.1)

    def maintenance(self, uuid, on):
        self.ask('PUT' if on else 'DELETE', f'/nodes/{uuid}/maintenance', {'reason': 'a test'} if on else None)


@contextlib.contextmanager
def running():
    place, port = programs(), servers.free_port()
    url = f'http://127.0.0.1:{port}'
    with servers._directory() as directory:
        settings = directory / 'ironic.conf'
        settings.write_text(SETTINGS.format(directory=directory, port=port))
        done = subprocess.run([place / 'ironic-dbsync', '--config-file', settings, 'create_schema'],
                              capture_output=True, text=True, timeout=servers.START_S)
        assert done.returncode == 0, done.stderr[-2000:]
        log = directory / 'log'
        with servers._running([place / 'ironic', '--config-file', settings], log) as process:
            servers._wait(lambda: _answers(url), process, log)
            yield Ironic(url)


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/v1/drivers/fake-hardware', timeout=60).status_code == 200
    return False
