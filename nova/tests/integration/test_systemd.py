"""The units of etc/systemd under a living systemd, installed as doc/source/admin/install-fleet.rst says."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from nova.network.linux import remote as network_remote
from nova.tests import long_runs
from nova.tests.integration import prepared
from nova.tests.integration import systemd_machine
from nova.tests.support import systemd as units
from nova.virt.libvirt.privileged import remote as guest_remote

CLIENT = {'OS_CLIENT_CONFIG_FILE': '/var/lib/nova/clouds.yaml', 'OS_CLOUD': 'nova-admin'}
# What systemd does by itself, soon enough for a test.
QUICK = '[Service]\nWatchdogSec=10\nRestartSec=0\n'
CONFIG = '''
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1/
state_path = /var/lib/nova
my_ip = 127.0.0.1
compute_driver = fake
[messages]
signatures = accept
[network]
driver = linux
[identity]
password_hash_rounds = 4
''' + prepared.NO_IMAGES
DATABASES = '''
[metadata]
shared_secret = of-a-test
[api_database]
connection = mysql+pymysql://nova:secret@127.0.0.1/nova_api
[database]
connection = mysql+pymysql://nova:secret@127.0.0.1/nova_cell1
'''
STATEMENTS = '''
CREATE DATABASE nova_api CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE DATABASE nova_cell1 CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE USER nova@'127.0.0.1' IDENTIFIED BY 'secret';
GRANT ALL ON nova_api.* TO nova@'127.0.0.1';
GRANT ALL ON nova_cell1.* TO nova@'127.0.0.1';
'''
# The driver with a guest, in the place of nova-compute.
DRIVER = '''
import logging
import shutil
import sys

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
from nova import conf
from nova import states
from nova.cmd import compute
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt.libvirt import driver as libvirt_driver


class Images:
    def download(self, context, image_id, path, moved=None):
        shutil.copyfile('/srv/empty.qcow2', path)

    def upload(self, context, image_id, path, disk_format, moved=None, give=False):
        with open(path, 'rb') as file:
            assert file.read(4) == b'QFI\\xfb'


settings = conf.new(files=[], state_path='/var/lib/nova')
helper = compute.split(settings)
with open('/proc/self/status') as status:
    print(*(line.strip() for line in status if line.startswith(('Uid', 'CapEff', 'CapPrm'))))
tried = libvirt_driver.LibvirtDriver(settings, 'tried', Images(), helper=helper)
tried.init_host()
assert tried.resources()[0].hypervisor_type == 'QEMU'
instance = driver_contract.make_instance(memory_mb=64)
tried.spawn(None, instance, driver.SpawnRequest(
    image={'id': 'empty', 'disk_format': 'qcow2', 'properties': {}}, network_info=[]))
assert tried.power_state(instance) == states.RUNNING
tried.console_output(instance)
tried.features[driver.Snapshot].snapshot(None, instance, 'running', lambda step: None)
tried.power_off(instance)
tried.features[driver.Snapshot].snapshot(None, instance, 'off', lambda step: None)
tried.features[driver.Resize].send_guest(None, instance, 'tried', [], 0)
instance.root_gb += 1
tried.features[driver.Resize].finish_migration(None, instance, None, driver.SpawnRequest(
    image={'id': 'empty', 'disk_format': 'qcow2', 'properties': {}}, network_info=[]), True)
assert tried.power_state(instance) == states.RUNNING
tried.destroy(None, instance, [])
tried.stop()
helper.stop()
print('all is well', flush=True)
'''
DAEMONS = ('nova-conductor', 'nova-scheduler', 'nova-api', 'nova-api-metadata', 'nova-network', 'nova-compute')
# What a user does with a guest that runs, 'web', and with another one.
STEPS = '''
import time

import openstack

compute = openstack.connect().compute


def becomes(server, status):
    return compute.wait_for_server(server, status, wait=120)


def image_of(server, name):
    image = compute.create_server_image(server, name, wait=True, timeout=120)
    assert image.status == 'active' and image.size > 1 << 20, image
    return image


web = compute.find_server('web')
deadline = time.monotonic() + 60                 # it has just begun to boot
while compute.get_server_console_output(web)['output'].count(chr(10)) <= 5:
    assert time.monotonic() < deadline
    time.sleep(0.5)
image_of(web, 'of-a-guest-that-runs')
compute.stop_server(web)
becomes(web, 'SHUTOFF')
image = image_of(web, 'of-one-that-is-off')
compute.start_server(web)
becomes(web, 'ACTIVE')
other = compute.create_server(name='next', image_id=image.id, flavor_id=compute.find_flavor('m1.tiny').id,
                              networks='auto')
becomes(other, 'ACTIVE')
for step, status in ((compute.pause_server, 'PAUSED'), (compute.unpause_server, 'ACTIVE'),
                     (compute.suspend_server, 'SUSPENDED'), (compute.resume_server, 'ACTIVE')):
    step(other)
    becomes(other, status)
compute.reboot_server(other, 'HARD')
becomes(other, 'ACTIVE')
compute.delete_server(other)
compute.wait_for_delete(other)
print('all is well')
'''
# What a privileged part may have at most, as the kernel writes it.
NETWORK_RIGHTS = sum(1 << number for number in network_remote.CAPABILITIES)
GUEST_RIGHTS = sum(1 << number for number in guest_remote.CAPABILITIES)
# unit: what ``systemd-analyze security`` may say of it at most, in tenths: 0 is locked up, 100 has all rights
EXPOSURE = {name: round(most * 10) for name, most in units.DAEMONS.items()}
SERVICES = {'nova-conductor', 'nova-scheduler', 'nova-network', 'nova-compute'}


@pytest.fixture(scope='module')
def machine(tmp_path_factory):
    """A Machine on which the units are installed and nothing runs yet."""
    with systemd_machine.machine(tmp_path_factory.mktemp('machine')) as made:
        source = f'{systemd_machine.SOURCE}/etc'
        made.run('rm', '-rf', '/var/lib/nova', '/var/log/nova', '/etc/nova')
        for command in (
                f'install -m 644 {source}/systemd/nova.sysusers /usr/lib/sysusers.d/nova.conf',
                f'install -m 644 {source}/systemd/nova-guests.sysusers /usr/lib/sysusers.d/nova-guests.conf',
                f'install -m 644 {source}/systemd/nova.tmpfiles /usr/lib/tmpfiles.d/nova.conf',
                f'install -m 644 {source}/systemd/nova-*.service /etc/systemd/system/',
                'systemd-sysusers', 'systemd-tmpfiles --create /usr/lib/tmpfiles.d/nova.conf',
                f'install -m 640 -g nova {source}/nova/api-paste.ini /etc/nova/'):
            made.run('sh', '-c', command)
        for name in ('nova-all', 'nova-conductor'):
            made.write(f'/etc/systemd/system/{name}.service.d/quick.conf', QUICK)
        made.run('systemctl', 'daemon-reload')
        yield made


def _wait(condition, what, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def _restarted(machine, unit, number):
    """Send a signal to the daemon; systemd starts another one."""
    before = machine.property(unit, 'MainPID')
    machine.run('systemctl', 'kill', '--kill-whom=main', f'--signal={number}', unit)
    _wait(lambda: machine.property(unit, 'MainPID') not in (before, '0')
          and machine.property(unit, 'ActiveState') == 'active', lambda: machine.log(unit))


def _status(machine, pid):
    """{field: text} of a process."""
    lines = machine.run('cat', f'/proc/{pid}/status').splitlines()
    return dict(line.split(':\t', 1) for line in lines if ':\t' in line)


def _check_rights(machine, unit, *helpers):
    """A daemon is an ordinary user without a capability; its privileged parts have a few.

    :param helpers: a mask for each: the capabilities that it may have at most
    """
    pid = machine.property(unit, 'MainPID')
    nova = machine.run('id', '-u', 'nova').strip()
    main = _status(machine, pid)
    assert main['Uid'].split() == [nova] * 4 and main['NoNewPrivs'] == '1', (unit, main)
    assert not any(int(main[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb')), (unit, main)
    children = [_status(machine, child) for child in machine.run('cat', f'/proc/{pid}/task/{pid}/children').split()]
    found = [child for child in children if child['Uid'].split()[0] == '0']
    assert len(found) == len(helpers), children
    for child, mask in zip(found, helpers, strict=True):
        assert child['NoNewPrivs'] == '1' and not any(
            int(child[name], 16) & ~mask for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')), child


@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='systemd is not installed')
@pytest.mark.parametrize('unit', sorted(path.name for path in (systemd_machine.TREE / 'etc/systemd').glob('*.service')))
def test_units_have_no_more_rights_than_they_may(unit):
    done = subprocess.run(
        ['systemd-analyze', 'security', '--no-pager', '--offline=true',
         f'--threshold={EXPOSURE[unit.removesuffix(".service")]}', systemd_machine.TREE / 'etc/systemd' / unit],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert 'Overall exposure level' in done.stdout


@long_runs.only
def test_all_in_one_unit_runs_a_real_guest(machine, tmp_path):
    guest = pathlib.Path(os.environ.get('NOVA_TEST_GUEST_DIR') or tmp_path)
    made = subprocess.run([systemd_machine.TREE / 'tools/guest-image.sh', guest], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f'no guest image: {made.stderr.strip()[-200:]}')
    (machine.root / 'srv/guest.qcow2').write_bytes((guest / 'guest.qcow2').read_bytes())
    machine.run('systemctl', 'start', 'virtlogd.socket', 'libvirtd.socket')
    # As a release before it left everything: root's.
    machine.run('rm', '-r', '/var/lib/nova')
    machine.run('mkdir', '/var/lib/nova')
    machine.write('/etc/nova/nova.conf', '[privileges]\nuser =\n')
    machine.run('systemctl', 'start', 'nova-all', check=False)      # returns when the daemon says that it serves
    assert machine.property('nova-all', 'ActiveState') == 'active', machine.log('nova-all')
    assert _status(machine, machine.property('nova-all', 'MainPID'))['Uid'].startswith('0')

    def openstack(*words):
        return json.loads(machine.run('openstack', *words, '-f', 'json', env=CLIENT))
    openstack('image', 'create', 'guest', '--disk-format', 'qcow2', '--container-format', 'bare', '--public',
              '--file', '/srv/guest.qcow2')
    server = openstack('server', 'create', 'web', '--image', 'guest', '--flavor', 'm1.tiny', '--wait')
    assert server['status'] == 'ACTIVE', machine.log('nova-all')
    domain = server['OS-EXT-SRV-ATTR:instance_name']

    def running():
        return re.search(rf'^ *(\d+) +{domain} +running', machine.run('virsh', 'list'), re.M).group(1)
    first = running()
    assert server['addresses']
    machine.run('rm', '/etc/nova/nova.conf')
    machine.run('systemctl', 'restart', 'nova-all', check=False)
    assert machine.property('nova-all', 'ActiveState') == 'active', machine.log('nova-all')
    _check_rights(machine, 'nova-all', NETWORK_RIGHTS, GUEST_RIGHTS)
    assert running() == first
    assert machine.run('find', '/var/lib/nova', '-user', 'root', '-not', '-name', 'console.log*') == ''
    log = machine.log('nova-all')
    assert 'qemu-img runs in a sandbox: user, as nova-image' in log, log
    machine.write('/srv/steps.py', STEPS)
    machine.write('/usr/local/bin/steps', systemd_machine.PROGRAM.format(what='/srv/steps.py'), mode=0o755)
    said = machine.run('sh', '-c', 'steps 2>&1', check=False, env=CLIENT)
    assert 'all is well' in said, said[-3000:] + machine.log('nova-all')
    assert machine.run('find', '/var/lib/nova', '-user', 'root', '-not', '-name', 'console.log*') == ''
    _check_rules_of_polkit(machine, domain)
    first = running()

    pid = machine.property('nova-all', 'MainPID')
    machine.run('systemctl', 'reload', 'nova-all')
    assert machine.property('nova-all', 'ActiveState') == 'active'
    for number in (signal.SIGKILL, signal.SIGSTOP):                 # it dies; it stands still, and the watchdog ends it
        _restarted(machine, 'nova-all', number.name)
        assert running() == first
    assert machine.property('nova-all', 'MainPID') != pid
    machine.run('systemctl', 'stop', 'nova-all')
    assert machine.property('nova-all', 'Result') == 'success', machine.log('nova-all')
    assert running() == first                                       # a guest outlives the daemon
    machine.run('systemctl', 'start', 'nova-all')
    machine.run('openstack', 'server', 'delete', 'web', '--wait', env=CLIENT)
    assert domain not in machine.run('virsh', 'list', '--all')
    machine.run('systemctl', 'stop', 'nova-all')


def _check_rules_of_polkit(machine, domain):
    """The sample of rules is enough for guests, and ends what else the group libvirt may do."""
    machine.run('install', '-m', '644', f'{systemd_machine.SOURCE}/etc/polkit/50-nova-guests.rules',
                '/etc/polkit-1/rules.d/')
    with open(machine.root / 'etc/libvirt/libvirtd.conf', 'a') as file:
        file.write('access_drivers = [ "polkit" ]\n')
    machine.run('systemctl', 'restart', 'polkit', 'libvirtd')
    said = machine.run('sh', '-c', 'steps 2>&1', check=False, env=CLIENT)
    assert 'all is well' in said, said[-3000:] + machine.log('nova-all')
    machine.write('/srv/other.xml', '<domain type="qemu"><name>other</name><memory>65536</memory>'
                                    '<os><type>hvm</type></os></domain>')
    machine.write('/srv/pool.xml', '<pool type="dir"><name>etc</name><target><path>/etc</path></target></pool>')
    machine.write('/srv/net.xml', '<network><name>other</name></network>')
    for command, allowed in ((f'suspend {domain}', True), (f'resume {domain}', True), ('define /srv/other.xml', False),
                             ('pool-define /srv/pool.xml', False), ('net-create /srv/net.xml', False),
                             (f'dump {domain} /var/tmp/dump', False), (f'screenshot {domain} /var/tmp/s', False),
                             (f'send-key {domain} KEY_A', False)):
        said = machine.run('sh', '-c', f'runuser -u nova -- virsh -c qemu:///system {command} 2>&1', check=False)
        assert ('error:' not in said) == allowed and ('denied' in said) != allowed, (command, said)


def _check_rights_of_compute(machine):
    """What the unit of nova-compute allows is enough for a real guest, its snapshot and the sandbox of qemu-img."""
    machine.run('qemu-img', 'create', '-f', 'qcow2', '/srv/empty.qcow2', '64M')
    machine.run('systemctl', 'start', 'virtlogd.socket', 'libvirtd.socket')
    unit = (systemd_machine.TREE / 'etc/systemd/nova-compute.service').read_text()
    for before, after in (('Type=notify', 'Type=oneshot'), ('Restart=on-failure\n', ''),
                          ('/usr/bin/env nova-compute', '/usr/local/bin/driver')):
        assert before in unit
        unit = unit.replace(before, after)
    machine.write('/etc/systemd/system/driver.service', unit)
    machine.write('/srv/driver.py', DRIVER)
    machine.write('/usr/local/bin/driver', systemd_machine.PROGRAM.format(what='/srv/driver.py'), mode=0o755)
    machine.run('systemctl', 'daemon-reload')
    machine.run('systemctl', 'start', 'driver', check=False)
    said = machine.log('driver')
    assert 'qemu-img runs in a sandbox: user, as nova-image' in said and 'all is well' in said, said
    assert re.search(r'Uid:\s+[1-9].*CapPrm:\s+0+ CapEff:\s+0+$', said, re.M), said


def test_units_of_controller_and_host_run_a_server(machine):
    machine.run('rm', '-rf', '/var/lib/nova')
    machine.run('systemd-tmpfiles', '--create', '/usr/lib/tmpfiles.d/nova.conf')
    machine.run('systemctl', 'start', 'mariadb', 'rabbitmq-server')
    machine.run('mariadb', '-e', STATEMENTS)
    for words in (('add_user', 'nova', 'secret'), ('set_permissions', 'nova', '.*', '.*', '.*')):
        machine.run('rabbitmqctl', *words)
    machine.write('/etc/nova/nova.conf', CONFIG)
    machine.write('/etc/nova/nova.conf.d/databases.conf', DATABASES)
    machine.run('sh', '-c', 'chown -R root:nova /etc/nova && chmod -R o= /etc/nova')
    for command in (('api_db', 'sync'), ('db', 'sync'), ('network', 'create', '--default')):
        machine.run('nova-manage', *command)
    machine.run('systemctl', 'start', *DAEMONS, check=False)
    for name in DAEMONS:
        assert machine.property(name, 'ActiveState') == 'active', machine.log(name)
    for name in DAEMONS:                 # the guests of nova-compute are simulated: there is nothing to touch
        _check_rights(machine, name, *([NETWORK_RIGHTS] if name == 'nova-network' else []))
    assert 'table inet nova_' in machine.run('nft', 'list', 'tables')
    _wait(lambda: {line.split()[0] for line in machine.run('nova-manage', 'service', 'list').splitlines()[1:]
                   if ' up ' in line} == SERVICES, lambda: machine.log('nova-conductor'))
    for number in (signal.SIGKILL, signal.SIGSTOP):
        _restarted(machine, 'nova-conductor', number.name)
    _check_rights_of_compute(machine)
    machine.run('systemctl', 'reload', *DAEMONS)
    machine.run('systemctl', 'stop', *DAEMONS)
    for name in DAEMONS:
        assert machine.property(name, 'Result') == 'success', machine.log(name)
