"""The main job with unmodified clients: a real guest asked for, reached, used and deleted.

On libvirt where this machine can run it, and the same commands on the fake driver everywhere.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / 'tools'))
from nova.tests.support import clients
from nova.tests.support.clients import os_environment

rig = clients.rig


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


def test_unmodified_clients_boot_and_manage_a_server(rig):
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
def test_browser_user_creates_a_server_and_types_at_its_console(rig, tmp_path):
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
        user.go('/create', 'Create server')
        user.type('Name', 'by-hand')
        user.choose('Flavor', 'm1.nano')
        user.choose('Image', 'guest')
        user.press('Create server', within='//main')
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

