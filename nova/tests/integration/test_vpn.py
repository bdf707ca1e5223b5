"""A VPN instance of QEMU with Debian's OpenVPN, and clients with OpenVPN in network namespaces outside of the project.

Needs what test_libvirt.py does, Debian's package openvpn, and vpn.qcow2 of tools/vpn-image.sh beside the guest image.
"""
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

from nova.network.linux import driver
from nova.network.linux import runner
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.functional import cloud as whole
from nova.tests.support import certificates as test_certificates
from nova.tests.support import libvirt as base
from nova.tests.support import libvirt_walk as walk

IMAGE = base.GUEST / 'vpn.qcow2'
_MISSING = [command for command in (*driver.COMMANDS, 'openvpn', 'ping') if not shutil.which(command)]
pytestmark = [
    *(base.pytestmark if isinstance(base.pytestmark, list) else [base.pytestmark]),
    pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
    pytest.mark.skipif(bool(_MISSING), reason='not installed: ' + ', '.join(_MISSING)),
    pytest.mark.skipif(not IMAGE.exists(), reason=f'tools/vpn-image.sh has not made {IMAGE}'),
    long_runs.only]

run = runner.Runner()
BOOT_S, CONNECT_S = 240, 90         # of a guest without KVM, on a busy machine
CONFIG = '''client
dev tun
proto udp
remote {address} {port}
nobind
ca {path}/root.pem
cert {path}/user.pem
key {path}/user.key
remote-cert-tls server
verify-x509-name "O=nova, OU={project}, CN=vpn" subject
connect-retry-max 1
hand-window {seconds}
verb 3
'''


@pytest.fixture(scope='module')
def cloud():
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-vpn-', dir='/var/tmp'))
    path.chmod(0o711)
    octet, bridge = random.randrange(1, 250), 'nv' + uuid.uuid4().hex[:8]
    made = None
    try:
        with whole.running(path / 'state', compute_driver='libvirt', shutdown_timeout=1, network__driver='linux',
                           network__bridge=bridge, network__default_cidr=f'10.204.{octet}.0/24',
                           api__nova_network_resources=True) as made:
            yield made
    finally:
        walk._remove_guests(path)
        if made is not None:
            driver.LinuxDriver(made.conf).teardown()
        shutil.rmtree(path)


@pytest.fixture(scope='module')
def admin(cloud):
    return cloud.admin(version='2.91')


@pytest.fixture(scope='module')
def member(cloud):
    return callers.Identity(cloud.admin()).in_project('vpn', 'member')


@pytest.fixture(scope='module')
def vpn(cloud, admin, member):
    """The VPN instance of the project, as os-cloudpipe shows it, once its guest says that it is there."""
    flavor = admin.post('/flavors', {'flavor': {'name': 'vpn', 'id': 'vpn', 'vcpus': 1, 'ram': 160, 'disk': 1}})
    assert flavor.status_code == 200, flavor.text
    image = admin.upload_image(IMAGE.read_bytes(), 'vpn', disk_format='qcow2')
    set_ = admin.put('/os-instance-categories/vpn', {'instance_category': {
        'default_image': image, 'default_flavor': 'vpn'}})
    assert set_.status_code == 200, set_.text
    made = admin.post('/os-cloudpipe', {'cloudpipe': {'project_id': member.project_id}})
    assert made.status_code == 200, made.text
    server = made.json()['instance_id']
    admin.wait_for(server, timeout=BOOT_S)
    console(admin, server, 'vpn: port 1194')
    row, = admin.get('/os-cloudpipe').json()['cloudpipes']
    assert row['instance_id'] == server and row['state'] == 'running'
    return row


@pytest.fixture(scope='module')
def guest(admin, member, vpn):
    """The address of an ordinary server of the project."""
    image = admin.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2',
                               visibility='public')
    server = member.boot(image, flavor='vpn', networks='auto', version='2.91')['id']
    document = member.wait_for(server, timeout=BOOT_S)
    console(admin, server, 'guest ready')
    return next(iter(document['addresses'].values()))[0]['addr']


def console(admin, server, text):
    """Wait until the console of a guest says something."""
    def said():
        answer = admin.post(f'/servers/{server}/action', {'os-getConsoleOutput': {}})
        return answer.status_code == 200 and answer.json()['output']
    deadline = time.monotonic() + BOOT_S
    while text not in (output := said() or ''):
        assert time.monotonic() < deadline and 'vpn: ' not in output, output[-3000:]
        time.sleep(1)


class Outside:
    """A machine outside: a namespace that reaches the host, and by it the bridge of the cloud."""

    def __init__(self, octet):
        self.name, self.device = 'nvpn' + uuid.uuid4().hex[:6], 'nvpn' + uuid.uuid4().hex[:6]
        run('ip', 'netns', 'add', self.name)
        run('ip', 'link', 'add', self.device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.name)
        run('ip', 'address', 'add', f'198.18.{octet}.1/24', 'dev', self.device)
        run('ip', 'link', 'set', self.device, 'up')
        for words in (('address', 'add', f'198.18.{octet}.2/24', 'dev', 'eth0'), ('link', 'set', 'lo', 'up'),
                      ('link', 'set', 'eth0', 'up'), ('route', 'add', 'default', 'via', f'198.18.{octet}.1')):
            run('ip', '-n', self.name, *words)
        self.clients = []

    def inside(self, *words):
        return subprocess.run(['ip', 'netns', 'exec', self.name, *words], capture_output=True, text=True, check=False)

    def connect(self, path, seconds=CONNECT_S):
        """Whether OpenVPN with the configuration in a directory gets in; what it said."""
        with open(path / 'log', 'w+') as log:
            client = subprocess.Popen(['ip', 'netns', 'exec', self.name, 'openvpn', '--config', path / 'client.conf'],
                                      stdout=log, stderr=log, cwd=path)
            self.clients.append(client)
            waiting.wait_for(lambda: 'Initialization Sequence Completed' in (path / 'log').read_text()
                             or client.poll() is not None, seconds + 30, 'an answer of OpenVPN')
        return client.poll() is None, (path / 'log').read_text()

    def leave(self):
        for client in self.clients:
            client.kill()
            client.wait()
        self.clients = []

    def close(self):
        self.leave()
        run('ip', 'netns', 'del', self.name, check=False)
        run('ip', 'link', 'del', self.device, check=False)


@pytest.fixture
def outside(vpn):
    made = Outside(random.randrange(1, 250))
    yield made
    made.close()


def certified(client, path, vpn, seconds=CONNECT_S, project=None):
    """A directory with what a user of a project needs to get in."""
    path.mkdir()
    made = client.post('/os-certificates', {}).json()['certificate']
    (path / 'user.pem').write_text(made['data'])
    (path / 'user.key').write_text(made['private_key'])
    (path / 'root.pem').write_text(client.get('/os-certificates/root').json()['certificate']['data'])
    (path / 'client.conf').write_text(CONFIG.format(
        address=vpn['public_ip'], port=vpn['public_port'], path=path, project=project or vpn['project_id'],
        seconds=seconds))
    return path


def test_a_user_reaches_the_network_of_the_project(member, vpn, guest, outside, tmp_path):
    """And does not without the VPN instance: the project lets nobody in from there."""
    assert outside.inside('ping', '-c', '1', '-W', '3', guest).returncode
    there, log = outside.connect(certified(member, tmp_path / 'mine', vpn))
    assert there, log
    done = outside.inside('ping', '-c', '3', '-W', '10', guest)
    assert not done.returncode, done.stdout + log
    assert 'dev tun' in outside.inside('ip', 'route', 'get', guest).stdout
    outside.leave()
    assert outside.inside('ping', '-c', '1', '-W', '3', guest).returncode


def test_it_is_there_again_after_a_reboot(admin, member, vpn, outside, tmp_path):
    server = vpn['instance_id']
    assert admin.post(f'/servers/{server}/action', {'reboot': {'type': 'HARD'}}).status_code == 202
    time.sleep(1)
    admin.wait_for(server, timeout=BOOT_S)
    path = certified(member, tmp_path / 'again', vpn)
    deadline = time.monotonic() + BOOT_S
    while not outside.connect(path)[0]:
        assert time.monotonic() < deadline
        outside.leave()


def test_vpn_rejects_certificates_of_another_project(cloud, vpn, outside, tmp_path):
    """By a certificate of the same authority."""
    other = callers.Identity(cloud.admin()).in_project('elsewhere', 'member')
    there, log = outside.connect(certified(other, tmp_path / 'theirs', vpn, 15))
    assert not there and 'TLS key negotiation failed' in log, log


def test_a_client_sees_whose_vpn_instance_it_is(member, vpn, outside, tmp_path):
    there, log = outside.connect(certified(member, tmp_path / 'mistaken', vpn, 15, project='e' * 32))
    assert not there and 'VERIFY X509NAME ERROR' in log, log


def test_vpn_rejects_revoked_certificates(cloud, admin, member, vpn, outside, tmp_path, capsys):
    """The last one here: from a new VPN instance on, as the page says."""
    path = certified(member, tmp_path / 'revoked', vpn, 15)
    assert outside.connect(path)[0]
    outside.leave()
    config = cloud.state_path / 'manage.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n')
    assert not test_certificates.manage.main(['--config-file', str(config), 'cert', 'revoke', '--user', member.user_id])
    admin.delete(f'/servers/{vpn["instance_id"]}')
    admin.wait_for(vpn['instance_id'], 'DELETED')
    again = admin.post('/os-cloudpipe', {'cloudpipe': {'project_id': member.project_id}}).json()['instance_id']
    admin.wait_for(again, timeout=BOOT_S)
    console(admin, again, 'vpn: port 1194')
    row, = admin.get('/os-cloudpipe').json()['cloudpipes']
    (path / 'client.conf').write_text((path / 'client.conf').read_text().replace(vpn['public_ip'], row['public_ip']))
    there, log = outside.connect(path)
    assert not there and 'TLS key negotiation failed' in log, log
    (tmp_path / 'fresh').mkdir()
    assert outside.connect(certified(member, tmp_path / 'fresh' / 'x', row))[0]
