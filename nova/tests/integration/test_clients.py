"""The main job with unmodified clients: a real guest asked for, reached, used and deleted.

On libvirt where this machine can run it, and the same commands on the fake driver everywhere.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.integration import test_libvirt

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / 'tools'))
import local_cloud

BIN = pathlib.Path(sys.executable).parent
BRIDGE, CIDR = 'br-novatest', '10.47.0.0/24'
BOOT_SECONDS = 300                           # emulated, on a busy machine

# Both ways in, as rows: what a command must print, of commands run in this order on one cloud.
READS = (
    ('token issue', 'project_id'),
    ('flavor list', 'm1.tiny'),
    ('flavor create --ram 128 --disk 1 --vcpus 1 tiny', 'tiny'),
    ('network list', 'private'),
    ('subnet list', r'\d+\.\d+\.\d+\.\d+/24'),
    ('image list', 'guest'),
    ('keypair list', 'mine'),
    ('hypervisor list', 'up'),
    ('compute service list', 'nova-compute'),
    ('availability zone list', 'nova'),
    ('catalog list', 'compute'),
    ('project list', 'demo'),
    ('user list', 'demo'),
    ('role assignment list --names', 'admin'),
    ('security group list', 'default'),
    ('quota show', 'instances'),
    ('limits show --absolute', 'instances'),
    ('server list', 'web'),
    ('server list --long --all-projects', 'ACTIVE'),
    ('server show web', 'ACTIVE'),
    ('port list', r'\d+\.\d+\.\d+\.\d+'),
    ('server event list web', 'create'),
    ('hypervisor show 1', None),             # an id that is none: refused with a sentence, not a trace
)
NOVA = (
    ('list', 'web'),
    ('show web', 'ACTIVE'),
    ('flavor-list', 'm1.tiny'),
    ('hypervisor-list', 'up'),
    ('service-list', 'nova-compute'),
    ('keypair-list', 'mine'),
    ('limits', 'Instances'),
    ('quota-show', 'instances'),
    ('availability-zone-list', 'nova-compute'),
    ('instance-action-list web', 'create'),
    ('version-list', '2.104'),
    ('stop web', 'accepted'),
)


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


def guest_image(rig):
    if rig.cloud.driver == 'libvirt':
        return test_libvirt.GUEST / 'guest.qcow2', 'qcow2'
    path = rig.cloud.state / 'empty.img'
    path.write_bytes(bytes(65536))
    return path, 'raw'


def reach(rig, address, key):
    """The guest has booted, has its key and its address, and answers."""
    line = rig.wait('console log show web', 'guest ready:.*', BOOT_SECONDS)
    line = re.search('guest ready:.*', line).group()
    assert f'address {address} ' in line and 'key yes' in line and 'metadata service' in line, line
    group = next(g['ID'] for g in rig.value('security group list') if g['Name'] == 'default')
    ping = ['ping', '-c', '1', '-W', '1', address]
    assert subprocess.run(ping, capture_output=True).returncode, 'a closed security group let a ping in'
    for rule in ('icmp', 'tcp --dst-port 22'):
        rig.openstack(f'security group rule create --ingress --protocol {rule} {group}')
    assert any(not subprocess.run(ping, capture_output=True).returncode for _ in range(10)), f'{address} is silent'
    ssh = ['ssh', '-i', key, '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null',
           '-o', 'BatchMode=yes', '-o', 'ConnectTimeout=120', f'root@{address}', 'hostname']
    assert subprocess.run(ssh, capture_output=True, text=True).stdout.strip() == 'web'


def test_the_main_job_with_unmodified_clients(rig):
    key = rig.cloud.state / 'mine'
    subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key], check=True)
    path, disk_format = guest_image(rig)
    rig.openstack(f'image create guest --public --disk-format {disk_format} --container-format bare --file {path}')
    rig.openstack(f'keypair create --public-key {key}.pub mine')
    rig.openstack('server create --image guest --flavor m1.nano --key-name mine --nic auto --wait web')
    for command, pattern in READS:
        printed = rig.openstack(command, refused=pattern is None)
        assert pattern is None or re.search(pattern, printed), f'openstack {command}:\n{printed}'
    address = next(iter(rig.value('server show web')['addresses'].values()))[0]
    if rig.cloud.driver == 'libvirt':
        reach(rig, address, key)

    rig.openstack('server stop web')
    rig.wait('server show web', 'SHUTOFF', 240)
    rig.openstack('server start web')
    rig.wait('server show web', 'ACTIVE', 240)
    rig.openstack('server reboot --hard --wait web')
    rig.openstack('server set --property colour=blue web')
    assert "colour='blue'" in rig.openstack('server show web')
    rig.openstack('server image create --name copy --wait web')
    assert rig.value('image show copy')['status'] == 'active'
    rig.openstack('server rebuild --wait web')
    rig.wait('server show web', 'ACTIVE', 240)
    assert next(iter(rig.value('server show web')['addresses'].values()))[0] == address

    rig.environ.update(os_environment(rig))
    for command, pattern in NOVA:
        printed = rig.run('nova', command)
        assert re.search(pattern, printed), f'nova {command}:\n{printed}'
    del rig.environ['OS_AUTH_URL']
    rig.environ['OS_CLOUD'] = 'nova-admin'
    rig.wait('server show web', 'SHUTOFF', 240)

    rig.openstack('server delete --wait web')
    assert 'web' not in rig.openstack('server list')
    assert not rig.value('port list --device-owner compute:nova')
    if rig.cloud.driver == 'libvirt':
        guests = subprocess.check_output(['virsh', '-c', test_libvirt.URI, 'list', '--all', '--name'], text=True)
        assert 'instance-' not in guests or not any(
            (rig.cloud.state / 'instances' / name.removeprefix('instance-')).exists() for name in guests.split())
        assert not [p for p in (rig.cloud.state / 'instances').iterdir() if len(p.name) == 36]


FIRST_TYPING_S = 120             # from the login, by a person who has never seen the page


@long_runs.only
@pytest.mark.parametrize('rig', ['libvirt'], indirect=True)
def test_from_the_login_to_a_guest_in_a_browser(rig, tmp_path):
    """A person logs in, makes a server, opens its console and types, all with a mouse and keys."""
    pytest.importorskip('selenium', reason='selenium is not installed')
    if not (shutil.which('chromium') and shutil.which('chromedriver')):
        pytest.skip('chromium and chromium-driver are not installed')
    from nova.tests.integration import browser as browsers

    path, disk_format = guest_image(rig)
    rig.openstack(f'image create guest --public --disk-format {disk_format} --container-format bare --file {path}')
    user = browsers.Browser(f'http://127.0.0.1:{rig.cloud.port}', tmp_path / 'profile')
    try:
        begun = time.monotonic()
        user.login(*rig.cloud.account('nova-demo'))
        user.go('/create', 'Create a server')
        user.type('Name', 'by-hand')
        user.choose('Flavor', 'm1.nano')
        user.choose('Image', 'guest')
        user.press('Create the server')
        user.heading('by-hand')
        user.until(lambda: user.css('.page-head .badge.good'), 'it does not become active', BOOT_SECONDS)
        user.press('Open console')
        user.choose('Console', 'Serial line')
        user.press('Open console', within='//dialog[@open]')
        link = user.until(lambda: user.one("//dialog//a[normalize-space()='Open the console']"), 'no console is given')
        user.driver.get(link.get_attribute('href'))
        shown = """const buffer = window.terminal.buffer.active;
            return [...Array(buffer.length).keys()].map(at => buffer.getLine(at).translateToString(true)).join('\\n')"""

        def typed():
            user.keys('echo by hand $((6 * 7))\n')
            time.sleep(1)
            return 'by hand 42' in user.driver.execute_script(shown)
        user.until(typed, 'the guest does not answer what is typed', BOOT_SECONDS)
        took = time.monotonic() - begun
        print(f'from the login to an answer of the guest: {took:.1f} s')
        assert took < FIRST_TYPING_S
    finally:
        user.quit()
        rig.openstack('server delete --all-projects --wait by-hand')


def os_environment(rig):
    """What python-novaclient reads instead of clouds.yaml."""
    text = (rig.cloud.state / 'clouds.yaml').read_text()
    password = re.search(r'password:\s*[\'"]?([^\s\'"]+)', text).group(1)
    rig.environ.pop('OS_CLOUD', None)
    return {'OS_AUTH_URL': f'http://127.0.0.1:{rig.cloud.port}/identity/v3', 'OS_USERNAME': 'admin',
            'OS_PASSWORD': password, 'OS_PROJECT_NAME': 'admin', 'OS_USER_DOMAIN_ID': 'default',
            'OS_PROJECT_DOMAIN_ID': 'default'}
