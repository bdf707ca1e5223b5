"""What tests share with nova/tests/integration/test_clients.py."""
import json
import os
import pathlib
import re
import shutil
import sys
import time

import pytest

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.support import libvirt as test_libvirt

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / 'tools'))
import local_cloud

BIN = pathlib.Path(sys.executable).parent
BRIDGE, CIDR = 'br-novatest', '10.47.0.0/24'


class Rig:
    """A cloud in a process of its own, and the clients' commands."""

    def __init__(self, driver):
        options = ['[network]', f'bridge = {BRIDGE}', f'default_cidr = {CIDR}']
        if driver == 'fake':
            options += ['driver = fake']
        self.cloud = local_cloud.LocalCloud(driver, options)
        self.environ = {'PATH': f'{BIN}:{os.environ["PATH"]}', 'HOME': str(self.cloud.state), 'LANG': 'C.UTF-8',
                        'OS_CLOUD': 'nova-admin', 'OS_CLIENT_CONFIG_FILE': str(self.cloud.state / 'clouds.yaml')}

    def run(self, client, command, refused=False):
        """What a command printed.

        :param refused: it must fail, with a sentence
        """
        code, printed = warm_client.client(client).run(command.split(), self.environ)
        return self._judge(f'{client} {command}', code, printed, refused)

    def openstack(self, command, refused=False):
        return self.run('openstack', command, refused)

    def _judge(self, command, code, printed, refused):
        assert 'Traceback' not in printed, f'{command}:\n{printed}'
        assert (code != 0) == refused, f'{command}:\n{printed}\n{self.cloud.last_words(15)}'
        return printed

    def wait(self, command, pattern, seconds):
        deadline = time.monotonic() + seconds
        while not re.search(pattern, printed := self.openstack(command)):
            assert time.monotonic() < deadline, f'openstack {command} shows no {pattern!r}:\n{printed}'
            time.sleep(0.3)
        return printed

    def value(self, command):
        return json.loads(self.openstack(command + ' -f json'))


@pytest.fixture(scope='module')
def fake_rig():
    """For other modules: one all-in-one on the fake driver for all tests of a module."""
    made = Rig('fake')
    try:
        made.cloud.start()
        yield made
    finally:
        made.cloud.end()
        made.cloud.close()


@pytest.fixture(params=[pytest.param('fake', marks=long_runs.only), 'libvirt'])
def rig(request, tmp_path):
    if request.param == 'libvirt':
        reason = test_libvirt._REASON or (None if shutil.which('dnsmasq') else 'dnsmasq is not installed')
        if reason:
            pytest.skip(reason)
    made = Rig(request.param)
    try:
        made.cloud.start()
        yield made
    finally:
        made.cloud.end()
        if request.param == 'libvirt':
            made.cloud.remove_network()
        made.cloud.close()


def os_environment(rig):
    """What python-novaclient reads instead of clouds.yaml."""
    text = (rig.cloud.state / 'clouds.yaml').read_text()
    password = re.search(r'password:\s*[\'"]?([^\s\'"]+)', text).group(1)
    rig.environ.pop('OS_CLOUD', None)
    return {'OS_AUTH_URL': f'http://127.0.0.1:{rig.cloud.port}/identity/v3', 'OS_USERNAME': 'admin',
            'OS_PASSWORD': password, 'OS_PROJECT_NAME': 'admin', 'OS_USER_DOMAIN_ID': 'default',
            'OS_PROJECT_DOMAIN_ID': 'default'}
