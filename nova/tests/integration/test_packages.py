"""The Debian packages on blank machines of Debian's releases: build, install, a guest, upgrade, purge.

A part of long runs, on one release by turns; nightly runs take both. NOVA_TEST_PACKAGES names a directory with built
packages and bundles: <release>/*.deb, <release>/*.tar.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from nova import version
from nova.tests import long_runs
from nova.tests.integration import fresh_machine

# Of the environment, what lets pip reach its index.
PIP = {name: os.environ[name] for name in ('PIP_INDEX_URL', 'PIP_CERT', 'PIP_DEFAULT_TIMEOUT') if name in os.environ}
NAMES = ('solonova', 'solonova-common', 'solonova-compute')
APT = ('DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends '
       '-o Dpkg::Options::=--force-unsafe-io')         # the machine is thrown away
NEXT = '9.0.0'
INSTALL_S = 1800
GUEST = pathlib.Path(os.environ.get('NOVA_TEST_GUEST_DIR', '/nonexistent')) / 'guest.qcow2'
# Run by the Python of the packages: it creates a server from an image file or the image 'guest', and prints its status.
CLIENT = '''
import json, sys, time, urllib.request, yaml
auth = yaml.safe_load(open('/var/lib/nova/clouds.yaml'))['clouds']['nova-admin']['auth']
base = 'http://127.0.0.1:8774'
def call(method, path, body=None, kind='application/json', **headers):
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {'Content-Type': kind, **headers}, method=method)
    with urllib.request.urlopen(request, timeout=300) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None
user = {'name': auth['username'], 'password': auth['password'], 'domain': {'id': 'default'}}
scope = {'project': {'name': auth['project_name'], 'domain': {'id': 'default'}}}
headers, _ = call('POST', '/identity/v3/auth/tokens', {'auth': {
    'identity': {'methods': ['password'], 'password': {'user': user}}, 'scope': scope}})
token = {'X-Auth-Token': headers['X-Subject-Token']}
if sys.argv[1:]:
    image = {'name': 'guest', 'disk_format': 'qcow2', 'container_format': 'bare'}
    image = call('POST', '/image/v2/images', image, **token)[1]
    data = open(sys.argv[1], 'rb').read()
    call('PUT', f'/image/v2/images/{image["id"]}/file', data, 'application/octet-stream', **token)
else:
    image = call('GET', '/image/v2/images?name=guest', **token)[1]['images'][0]
flavor = call('GET', '/compute/v2.1/flavors?limit=1&sort_key=memory_mb', **token)[1]['flavors'][0]
server = call('POST', '/compute/v2.1/servers', {'server': {
    'name': 'first', 'imageRef': image['id'], 'flavorRef': flavor['id'], 'networks': 'auto'}},
    **token, **{'OpenStack-API-Version': 'compute 2.60'})[1]['server']
for _ in range(600):
    found = call('GET', f'/compute/v2.1/servers/{server["id"]}', **token)[1]['server']
    if found['status'] != 'BUILD':
        break
    time.sleep(0.5)
print(found['status'], found.get('fault', ''))
'''
READ = 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:8774/compute/", timeout=5).read().decode())'
# Files of the product on a machine, besides the clone of the tree.
LEFT = "find / -xdev \\( -path /root -o -path /proc -o -path /tmp \\) -prune -o -name '*nova*' -prune -print"

pytestmark = pytest.mark.timeout(7200)


def shell(machine, command, **options):
    return machine.run('sh', '-c', f'{command} 2>&1', seconds=INSTALL_S, env=PIP, **options)


@pytest.fixture(scope='module', params=fresh_machine.IN_TURN)
def release(request):
    return request.param


@pytest.fixture(scope='module')
def built(release, tmp_path_factory):
    """A directory with the packages and the bundle of a release of Debian. lintian finds no error in them."""
    if given := os.environ.get('NOVA_TEST_PACKAGES'):
        return pathlib.Path(given) / release
    directory = tmp_path_factory.mktemp('build')
    with fresh_machine.machine(release, directory) as machine:
        print(shell(machine, f'cd {fresh_machine.CLONE} && tools/release.sh packages /root/packages'))
        return pathlib.Path(shutil.copytree(machine.root / 'root/packages', directory / 'packages'))


def next_version(machine, file):
    """Write the package of a file again, as one of version NEXT."""
    name = file.partition('_')[0]
    commands = [
        f'rm -rf /root/again && dpkg-deb -R /root/one/{file} /root/again',
        f'sed -i "s/{re.escape(version.VERSION)}+/{NEXT}+/g" /root/again/DEBIAN/control',
        f"find /root/again -path '*/nova/version.py' -exec sed -i \"s/= '.*'/= '{NEXT}'/\" {{}} +",
        f'mkdir -p /root/two && dpkg-deb -Znone -b /root/again /root/two/{name}.deb']
    shell(machine, ' && '.join(commands))


def released(machine):
    """Return the version that the API shows, None while it does not serve."""
    text = machine.run('python3', '-c', READ, check=False)
    return json.loads(text)['release'] if text.startswith('{') else None


def guests(machine):
    """{name of a domain: process number of its QEMU}"""
    names = machine.run('virsh', 'list', '--name').split()
    return {name: machine.run('pgrep', '-f', f'guest={name}[,]').strip() for name in names}


@long_runs.only
def test_packages_install_upgrade_and_purge(release, built, tmp_path):
    files = sorted(file.name for file in built.glob('*.deb'))
    assert {name.partition('_')[0] for name in files} == set(NAMES) and len(files) == len(NAMES)
    assert all(f'_{version.VERSION}+deb{release.removeprefix("debian-")}_' in name for name in files)
    with fresh_machine.machine(release, tmp_path) as machine:
        shutil.copytree(built, machine.root / 'root/one', ignore=shutil.ignore_patterns('*.tar'))
        _install(machine)
        _conflict(machine)
        running = _boot(machine)
        _upgrade(machine, files, running)
        _purge(machine, running)


def _install(machine):
    shell(machine, f'apt-get -qq update && {APT} install /root/one/*.deb')
    assert machine.property('nova-all', 'UnitFileState') == 'enabled'
    machine.wait(lambda: released(machine) == version.VERSION)
    assert machine.run('nova-manage', '--version') == f'nova-manage {version.VERSION}\n'
    for unit in ('nova-compute', 'nova-api'):
        assert machine.property(unit, 'UnitFileState') == 'disabled'
        assert machine.property(unit, 'ActiveState') == 'inactive'
    assert machine.run('stat', '-c', '%a %U', '/etc/nova', '/var/lib/nova').splitlines() == ['750 root', '711 nova']
    assert shell(machine, 'find /usr/lib/solonova -user nova') == ''


def _conflict(machine):
    """apt replaces no part of ours by the reference implementation's: both cannot be installed."""
    assert 'Remv solonova-common' in shell(machine, 'apt-get -s install nova-common')


def _boot(machine):
    if not GUEST.exists():
        pytest.skip('NOVA_TEST_GUEST_DIR names no guest')
    shutil.copy(GUEST, machine.root / 'root/guest.qcow2')
    (machine.root / 'root/client.py').write_text(CLIENT)
    assert shell(machine, '/usr/lib/solonova/bin/python3 /root/client.py /root/guest.qcow2').split()[0] == 'ACTIVE'
    found = guests(machine)
    assert len(found) == 1
    return found


def _upgrade(machine, files, running):
    for file in files:
        next_version(machine, file)
    shell(machine, f'{APT} install /root/two/*.deb')
    machine.wait(lambda: released(machine) == NEXT)
    assert guests(machine) == running


def _purge(machine, running):
    shell(machine, f'{APT} purge {" ".join(NAMES)}')
    assert machine.property('nova-all', 'LoadState') == 'not-found'
    assert shell(machine, 'ls /usr/bin/nova-* /usr/lib/solonova /var/log/nova', check=False).count('No such file') == 3
    assert (machine.root / 'var/lib/nova/api.sqlite').exists(), 'the data are not deleted'
    assert shell(machine, LEFT).splitlines() == ['/var/lib/nova'], 'the data are all that is left'
    assert guests(machine) == running, 'the guests of users go on'


@long_runs.only
def test_bundle_installs_without_network(release, built, tmp_path):
    bundle, = built.glob('*.tar')
    assert bundle.name == f'solonova-{version.VERSION}+deb{release.removeprefix("debian-")}.tar'
    with fresh_machine.machine(release, tmp_path) as machine:
        subprocess.run(['nsenter', '--target', str(machine.leader), '--net', 'ip', 'link', 'delete', 'up0'], check=True)
        shell(machine, 'rm -rf /var/lib/apt/lists/* /etc/apt/sources.list')
        subprocess.run(['tar', '-x', '-f', bundle, '-C', machine.root / 'opt'], check=True)
        print(shell(machine, f'/opt/solonova-{version.VERSION}/install.sh'))
        assert released(machine) == version.VERSION
        (machine.root / 'root/client.py').write_text(CLIENT)
        assert shell(machine, '/usr/lib/solonova/bin/python3 /root/client.py').split()[0] == 'ACTIVE'
        assert len(guests(machine)) == 1
