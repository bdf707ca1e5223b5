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

from nova.tests.integration import prepared
from nova.tests.integration import systemd_machine

CLIENT = {'OS_CLIENT_CONFIG_FILE': '/var/lib/nova/clouds.yaml', 'OS_CLOUD': 'nova-admin'}
# What systemd does by itself, soon enough for a test.
QUICK = '[Service]\nWatchdogSec=10\nRestartSec=0\n'
CONFIG = '''
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1/
state_path = /var/lib/nova
my_ip = 127.0.0.1
compute_driver = fake
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
CREATE DATABASE nova_api CHARACTER SET utf8mb4;
CREATE DATABASE nova_cell1 CHARACTER SET utf8mb4;
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
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt.libvirt import driver as libvirt_driver


class Images:
    def download(self, context, image_id, path):
        shutil.copyfile('/srv/empty.qcow2', path)

    def upload(self, context, image_id, path, disk_format):
        with open(path, 'rb') as file:
            assert file.read(4) == b'QFI\\xfb'


tried = libvirt_driver.LibvirtDriver(conf.new(files=[], state_path='/var/lib/nova'), 'tried', Images())
tried.init_host()
assert tried.resources()[0].hypervisor_type == 'QEMU'
instance = driver_contract.make_instance(memory_mb=64)
tried.spawn(None, instance, driver.SpawnRequest(
    image={'id': 'empty', 'disk_format': 'qcow2', 'properties': {}}, network_info=[]))
assert tried.power_state(instance) == states.RUNNING
tried.console_output(instance)
tried.snapshot(None, instance, 'running', lambda step: None)
tried.power_off(instance)
tried.snapshot(None, instance, 'off', lambda step: None)
tried.destroy(None, instance, [])
tried.stop()
print('all is well', flush=True)
'''
# daemon: whether it runs as root; nova-network has a child that does
DAEMONS = {'nova-conductor': False, 'nova-scheduler': False, 'nova-api': False, 'nova-api-metadata': False,
           'nova-network': False, 'nova-compute': True}
# unit: what ``systemd-analyze security`` may say of it at most, in tenths: 0 is locked up, 100 has all rights
EXPOSURE = {'nova-api': 15, 'nova-api-metadata': 15, 'nova-scheduler': 15, 'nova-conductor': 15,
            'nova-compute': 40, 'nova-network': 40, 'nova-all': 46}
SERVICES = {'nova-conductor', 'nova-scheduler', 'nova-network', 'nova-compute'}


@pytest.fixture(scope='module')
def machine(tmp_path_factory):
    """A Machine on which the units are installed and nothing runs yet."""
    with systemd_machine.machine(tmp_path_factory.mktemp('machine')) as made:
        source = f'{systemd_machine.SOURCE}/etc'
        made.run('rm', '-rf', '/var/lib/nova', '/var/log/nova', '/etc/nova')
        for command in (
                f'install -m 644 {source}/systemd/nova.sysusers /usr/lib/sysusers.d/nova.conf',
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


@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='systemd is not installed')
@pytest.mark.parametrize('unit', sorted(path.name for path in (systemd_machine.TREE / 'etc/systemd').glob('*.service')))
def test_units_have_no_more_rights_than_they_may(unit):
    done = subprocess.run(
        ['systemd-analyze', 'security', '--no-pager', '--offline=true',
         f'--threshold={EXPOSURE[unit.removesuffix(".service")]}', systemd_machine.TREE / 'etc/systemd' / unit],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert 'Overall exposure level' in done.stdout


def test_a_cloud_of_one_machine_with_a_real_guest(machine, tmp_path):
    guest = pathlib.Path(os.environ.get('NOVA_TEST_GUEST_DIR') or tmp_path)
    made = subprocess.run([systemd_machine.TREE / 'tools/guest-image.sh', guest], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f'no guest image: {made.stderr.strip()[-200:]}')
    (machine.root / 'srv/guest.qcow2').write_bytes((guest / 'guest.qcow2').read_bytes())
    machine.run('systemctl', 'start', 'virtlogd.socket', 'libvirtd.socket')
    machine.run('systemctl', 'start', 'nova-all', check=False)      # returns when the daemon says that it serves
    assert machine.property('nova-all', 'ActiveState') == 'active', machine.log('nova-all')

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


def test_the_daemons_of_a_controller_and_a_host(machine):
    machine.run('rm', '-rf', '/var/lib/nova')
    machine.run('systemd-tmpfiles', '--create', '/usr/lib/tmpfiles.d/nova.conf')
    machine.run('systemctl', 'start', 'mariadb', 'rabbitmq-server')
    machine.run('mariadb', '-e', STATEMENTS)
    for words in (('add_user', 'nova', 'secret'), ('set_permissions', 'nova', '.*', '.*', '.*')):
        machine.run('rabbitmqctl', *words)
    machine.write('/etc/nova/nova.conf', CONFIG)
    machine.write('/etc/nova/nova.conf.d/databases.conf', DATABASES)
    machine.run('sh', '-c', 'chown -R root:nova /etc/nova && chmod -R o= /etc/nova')
    for command in (('api_db', 'sync'), ('db', 'sync'), ('network', 'create')):
        machine.run('nova-manage', *command)
    machine.run('systemctl', 'start', *DAEMONS, check=False)
    for name in DAEMONS:
        assert machine.property(name, 'ActiveState') == 'active', machine.log(name)
    for name, root in DAEMONS.items():
        pid = machine.property(name, 'MainPID')
        status = dict(line.split(':\t', 1) for line in machine.run('cat', f'/proc/{pid}/status').splitlines()
                      if ':\t' in line)
        assert (status['Uid'].split()[0] == '0') == root and status['NoNewPrivs'] == '1', (name, status)
        assert root or int(status['CapEff'], 16) == 0, (name, status)
    pid = machine.property('nova-network', 'MainPID')
    helper = machine.run('cat', f'/proc/{pid}/task/{pid}/children').split()[0]
    status = machine.run('cat', f'/proc/{helper}/status')
    assert re.search(r'^Uid:\t0\t', status, re.M) and '\nNoNewPrivs:\t1\n' in status, status
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
