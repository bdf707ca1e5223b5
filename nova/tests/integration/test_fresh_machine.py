"""The README's first command on blank machines of Debian's releases: install, reboot, upgrade below it, remove.

A run takes one release, by turns; nightly runs take both. Parts of the list of long tests have the upgrade from one to
the other and interrupted installations.
"""
import json
import os
import re
import time

import pytest

from nova import version
from nova.tests import long_runs
from nova.tests.integration import fresh_machine
from nova.tests.older_release import next_version

RELEASES = sorted(fresh_machine.RELEASES)
RECEIVED_MB = 216
SERVING_S = 120                          # after a reboot; 20 on a machine that does nothing else
INSTALL_S = 900
AWAY_S, RESTARTS = 5, 2                  # downtime of an upgrade; on a busy machine in restarts of the daemon
CLIENT = {'OS_CLIENT_CONFIG_FILE': '/var/lib/nova/clouds.yaml', 'OS_CLOUD': 'nova-admin'}
STATE, OWN = '/var/lib/nova', '/var/lib/nova-quickstart'
# Of the environment, what lets pip reach its index.
PIP = {name: os.environ[name] for name in ('PIP_INDEX_URL', 'PIP_CERT', 'PIP_DEFAULT_TIMEOUT') if name in os.environ}
COMPILERS = ('gcc', 'cc', 'g++', 'clang', 'ld')

pytestmark = pytest.mark.timeout(3600)


def quickstart(machine, words='', umask='022', **options):
    """Run the command as a user would; what it prints."""
    return machine.run('sh', '-c', f'umask {umask}; cd {fresh_machine.CLONE} && ./tools/quickstart.sh {words} 2>&1',
                       seconds=INSTALL_S, env=PIP, **options)


def packages(machine):
    return set(machine.run('dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n').splitlines())


def openstack(machine, *words):
    text = machine.run('openstack', *words, '-f', 'json', env=CLIENT)
    return json.loads(text) if text.strip() else None


def ping(machine, address):
    return machine.run('sh', '-c', f'ping -c 1 -W 2 {address} >/dev/null && echo yes || echo no').strip() == 'yes'


def guests(machine):
    """{name of a domain: process number of its QEMU}"""
    names = machine.run('virsh', 'list', '--name').split()
    return {name: machine.run('pgrep', '-f', f'guest={name}[,]').strip() for name in names}


def serving(machine):
    return 'The cloud serves' in quickstart(machine, 'status', check=False)


@pytest.mark.parametrize('release', fresh_machine.IN_TURN)
def test_a_blank_machine_has_a_cloud_that_stays_and_can_be_removed(release, tmp_path):
    with fresh_machine.machine(release, tmp_path) as machine:
        blank = packages(machine)
        _install(machine)
        addresses = _use(machine)
        _reboot(machine, addresses, machine.power_off)
        _reinstall_what_it_stands_on(machine, addresses)
        _remove(machine, blank)


def _install(machine):
    """A restrictive umask of the caller changes no mode that others depend on."""
    assert not _compilers(machine)
    begin = time.monotonic()
    printed = quickstart(machine, umask='077')
    print(printed, f'{time.monotonic() - begin:.0f} s')
    assert 'as unit nova-all of systemd' in printed and "'first' at 10.44.0." in printed
    received = int(re.search(r'serving after [\d.]+ s, (\d+) MB received', printed)[1])
    assert 20 < received <= RECEIVED_MB
    last = printed.partition("'first' at ")[2].splitlines()[1:]
    assert len([line for line in last if line.strip()]) <= 6
    assert not _compilers(machine), 'a compiler was installed'
    headers = [row for row in packages(machine) if row.split()[0].endswith('-dev') and row.endswith(' installed')]
    assert headers == []
    assert machine.property('nova-all', 'UnitFileState') == 'enabled'
    modes = _modes(machine, '/run/libvirt/qemu', '/usr/local/bin', '/opt/nova-quickstart')
    assert [mode.split()[0] for mode in modes] == ['755'] * 3
    assert _modes(machine, OWN, f'{OWN}/environment', f'{OWN}/first_key', f'{STATE}/clouds.yaml') == [
        '700 root', '600 root', '600 root', '600 nova']
    assert 'nova-all' in quickstart(machine, 'logs')
    assert machine.run('journalctl', '--unit', 'nova-all', '--grep', 'The cloud serves', '--no-pager')
    begin = time.monotonic()
    again = quickstart(machine)
    print(again, f'{time.monotonic() - begin:.0f} s')
    assert 'is running already' in again and 'serving after' in again
    assert int(re.search(r', (\d+) MB received', again)[1]) == 0


def _compilers(machine):
    return [name for name in COMPILERS if machine.run('sh', '-c', f'command -v {name} || true')]


def _modes(machine, *paths):
    return machine.run('stat', '-c', '%a %U', *paths).splitlines()


def _use(machine):
    """A guest with a TPM, a volume and a floating address; the addresses that answer."""
    machine.run('sh', '-c', 'apt-get -qq -y --no-install-recommends install swtpm swtpm-tools >/dev/null', seconds=300)
    quickstart(machine, 'stop')
    assert quickstart(machine, 'status', check=False) == 'The cloud is stopped; tools/quickstart.sh start starts it.\n'
    quickstart(machine, 'start')
    openstack(machine, 'flavor', 'create', 'tpm', '--vcpus', '1', '--ram', '128', '--disk', '1', '--property',
              'hw:tpm_version=2.0', '--property', 'hw:tpm_model=tpm-crb')
    server = openstack(machine, 'server', 'create', 'sealed', '--image', 'guest', '--flavor', 'tpm', '--wait')
    assert server['status'] == 'ACTIVE', machine.log('nova-all')
    openstack(machine, 'volume', 'create', 'data', '--size', '1')
    machine.wait(lambda: openstack(machine, 'volume', 'show', 'data')['status'] == 'available', 60)
    machine.run('openstack', 'server', 'add', 'volume', 'first', 'data', env=CLIENT)
    openstack(machine, 'network', 'create', 'mine')
    openstack(machine, 'subnet', 'create', 'mine', '--network', 'mine', '--subnet-range', '192.168.50.0/24')
    openstack(machine, 'router', 'create', 'mine', '--external-gateway', 'public')
    machine.run('openstack', 'router', 'add', 'subnet', 'mine', 'mine', env=CLIENT)
    _create(machine, 'inside', 'mine')
    floating = openstack(machine, 'floating', 'ip', 'create', 'public')['floating_ip_address']
    machine.run('openstack', 'server', 'add', 'floating', 'ip', 'inside', floating, env=CLIENT)
    found = openstack(machine, 'server', 'show', 'first')['addresses']
    addresses = [next(iter(found.values()))[0], floating]
    for address in addresses:
        machine.wait(lambda address=address: ping(machine, address))
    return addresses


def _create(machine, name, network):
    words = ('--image', 'guest', '--flavor', 'm1.tiny', '--network', network, '--wait')
    server = openstack(machine, 'server', 'create', name, *words)
    assert server['status'] == 'ACTIVE', machine.log('nova-all')


def _reboot(machine, addresses, off):
    before = set(guests(machine))
    assert len(before) == 3
    off()
    begin = time.monotonic()
    machine.power_on()
    machine.wait(lambda: serving(machine), SERVING_S)
    print(f'serving {time.monotonic() - begin:.1f} s after the start of the machine')
    machine.wait(lambda: set(guests(machine)) == before)
    for address in addresses:
        machine.wait(lambda address=address: ping(machine, address))
    assert {row['Status'] for row in openstack(machine, 'server', 'list')} == {'ACTIVE'}
    assert openstack(machine, 'volume', 'show', 'data')['status'] == 'in-use'
    for name in before:
        assert ('/volumes/' in machine.run('virsh', 'domblklist', name)) == (name == _domain(machine, 'first'))


def _domain(machine, name):
    return openstack(machine, 'server', 'show', name)['OS-EXT-SRV-ATTR:instance_name']


def _reinstall_what_it_stands_on(machine, addresses):
    """As an unattended upgrade: the maintainer scripts of these packages run."""
    before = guests(machine)
    names = ('libvirt-daemon libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils openssl dnsmasq-base '
             'python3 nftables')
    machine.run('sh', '-c', f'DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --reinstall {names} >/dev/null '
                            f'2>&1',
                seconds=600)
    assert guests(machine) == before, 'guests were started anew'
    assert serving(machine)
    assert all(ping(machine, address) for address in addresses)
    machine.run('openstack', 'server', 'reboot', '--hard', '--wait', 'inside', env=CLIENT)
    _create(machine, 'after', 'private')
    machine.run('openstack', 'server', 'delete', '--wait', 'after', env=CLIENT)


def _remove(machine, blank):
    """The data stay for a later run; with --data nothing is left."""
    print(quickstart(machine, 'remove'))
    left = packages(machine)
    installed = {row for row in left if row.endswith(' installed')}
    # swtpm and what it needs were the test's own
    extra = {row.split()[0] for row in installed - blank}
    assert not extra & {'libvirt-daemon-system', 'qemu-system-x86', 'nftables', 'python3-venv', 'dnsmasq-base'}, extra
    assert blank <= left
    assert machine.run('ls', '/opt', '/usr/local/bin').split() == ['/opt:', '/usr/local/bin:']
    assert 'br-nova' not in os.listdir(f'/proc/{machine.leader}/root/sys/class/net')
    programs = set(machine.run('sh', '-c', 'cat /proc/[0-9]*/comm').splitlines())
    assert 'systemd' in programs and not programs & {'qemu-system-x86', 'dnsmasq', 'nova-all', 'libvirtd'}
    assert 'No cloud is installed' in quickstart(machine, 'status', check=False)
    printed = quickstart(machine, f'--no-server --listen {machine.address}')
    assert f'Dashboard      https://{machine.address}:8774/dashboard/' in printed
    assert 'copy /var/lib/nova/tls/ca.pem' in printed
    assert serving(machine)
    machine.wait(lambda: {row['Status'] for row in openstack(machine, 'server', 'list')} == {'ACTIVE'})
    machine.wait(lambda: len(guests(machine)) == 3)
    print(quickstart(machine, 'remove --data'))
    assert machine.run('sh', '-c', f'ls -d {STATE} {OWN} /etc/nova 2>/dev/null || true') == ''
    assert machine.run('sh', '-c', 'getent passwd nova nova-image || true') == ''
    assert quickstart(machine, 'remove --data') == f'No cloud is installed with state in {STATE}.\n'


@long_runs.only
@pytest.mark.parametrize('release', fresh_machine.IN_TURN)
def test_an_interrupted_installation_is_continued(release, tmp_path):
    """The n-th second of a run is as good a moment as any other."""
    with fresh_machine.machine(release, tmp_path) as machine:
        for seconds in (5, 20, 45, 70):
            machine.run('sh', '-c', f'cd {fresh_machine.CLONE} && timeout --signal=INT {seconds} '
                                    f'./tools/quickstart.sh; true',
                        seconds=INSTALL_S, env=PIP)
            machine.wait(lambda: not machine.run('sh', '-c', 'pgrep -x "apt-get|dpkg|uv" || true'), 120)
        printed = quickstart(machine)
        assert "'first' at 10.44.0." in printed


@long_runs.only
def test_second_parallel_installation_is_refused(tmp_path):
    with fresh_machine.machine(RELEASES[0], tmp_path) as machine:
        first = machine.popen('sh', '-c', f'cd {fresh_machine.CLONE} && ./tools/quickstart.sh --driver fake', env=PIP)
        machine.wait(lambda: (machine.root / f'{OWN}/quickstart.lock'.lstrip('/')).exists(), 60)
        second = quickstart(machine, '--driver fake', check=False)
        assert 'Another run of tools/quickstart.sh is under way here' in second
        assert first.wait(INSTALL_S) == 0


@long_runs.only
def test_cloud_returns_after_a_power_cut(tmp_path):
    with fresh_machine.machine(RELEASES[-1], tmp_path) as machine:
        quickstart(machine)
        address = machine.run('cat', f'{OWN}/first-server.done').strip()
        machine.cut_power()
        machine.power_on()
        machine.wait(lambda: serving(machine), SERVING_S)
        machine.wait(lambda: ping(machine, address))


@long_runs.only
def test_an_upgrade_of_the_release_keeps_cloud_data_and_disks(tmp_path):
    """Debian 12 becomes Debian 13 below a cloud; the environment is made anew for the new Python."""
    with fresh_machine.machine('debian-12', tmp_path) as machine:
        quickstart(machine)
        address = machine.run('cat', f'{OWN}/first-server.done').strip()
        key = f'ssh -o StrictHostKeyChecking=no -i {OWN}/first_key root@{address}'
        write = f'{key} "echo kept >/root/note; sync; cat /root/note"'
        machine.wait(lambda: 'kept' in machine.run('sh', '-c', write, check=False))
        machine.run('sh', '-c', 'sed -i s/bookworm/trixie/g /etc/apt/sources.list && apt-get -qq update && '
                                'DEBIAN_FRONTEND='
                    'noninteractive apt-get -qq -y -o Dpkg::Options::=--force-confold full-upgrade', seconds=1800)
        machine.power_off()
        machine.power_on()
        machine.wait(lambda: serving(machine), 600)
        assert 'VERSION_ID="13"' in machine.run('cat', '/etc/os-release')
        version = 'import libvirt, sys; print(*sys.version_info[:2])'
        assert machine.run('/opt/nova-quickstart/current/venv/bin/python', '-c', version) == '3 13\n'
        machine.wait(lambda: ping(machine, address))
        machine.wait(lambda: 'kept' in machine.run('sh', '-c', f'{key} cat /root/note', check=False))
        _create(machine, 'after', 'private')


@long_runs.only
@pytest.mark.parametrize('release', fresh_machine.IN_TURN)
def test_an_upgrade_keeps_guests_and_a_release_that_does_not_start_is_not_kept(release, tmp_path):
    with fresh_machine.machine(release, tmp_path) as machine:
        quickstart(machine)
        running, address = guests(machine), machine.run('cat', f'{OWN}/first-server.done').strip()
        machine.wait(lambda: ping(machine, address))
        next_version.tree(machine.root / 'root/fails', 'Change of the release')
        printed = _upgrade(machine, 'fails')
        assert f'Release {version.VERSION} serves as before' in printed
        _still(machine, running, address)
        assert machine.run('nova-manage', '--version') == f'nova-manage {version.VERSION}\n'
        next_version.tree(machine.root / 'root/next')
        printed = _upgrade(machine, 'next')
        assert f'Release {next_version.NEXT} serves.' in printed
        begin = time.monotonic()
        machine.run('systemctl', 'restart', 'nova-all')
        restart_s = time.monotonic() - begin
        assert float(re.search(r'the API was away for ([\d.]+) s', printed)[1]) <= max(AWAY_S, RESTARTS * restart_s)
        _still(machine, running, address)
        assert machine.run('nova-manage', '--version') == f'nova-manage {next_version.NEXT}\n'
        _create(machine, 'after', 'private')
        _reboot_once(machine, address)


def _upgrade(machine, name):
    printed = machine.run('sh', '-c', f'/root/{name}/tools/quickstart.sh upgrade 2>&1', seconds=INSTALL_S, env=PIP,
                          check=False)
    print(printed)
    return printed


def _still(machine, running, address):
    """The guests run in the same processes, and the cloud knows them."""
    assert guests(machine) == running and ping(machine, address)
    assert {row['Status'] for row in openstack(machine, 'server', 'list')} == {'ACTIVE'}


def _reboot_once(machine, address):
    machine.power_off()
    machine.power_on()
    machine.wait(lambda: serving(machine), SERVING_S)
    machine.wait(lambda: ping(machine, address))
