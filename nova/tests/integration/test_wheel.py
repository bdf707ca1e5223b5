"""The wheel runs without the tree: files, programs, a server over HTTP, the dashboard."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request

import openstack
import pytest

from nova import version
from nova.tests.integration import servers

TREE = pathlib.Path(__file__).resolve().parents[3]
BUILD = 'import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))'
START_S = 300
# Installations of this tree in the environment of the tests, which a blank environment does not have.
OWN = re.compile(r'__editable__|__pycache__|(solo)?nova(-|$)')


def ordinary_environ():
    return {name: value for name, value in os.environ.items() if not name.startswith(('PYTHON', 'OS_', 'NOVA_'))}


def copy_of_the_tree(directory):
    """Copy what git has of this tree, with local changes, without tests."""
    names = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=TREE,
                           check=True, capture_output=True, text=True).stdout.split('\0')
    for name in filter(None, names):
        if not name.startswith('nova/tests/') and (TREE / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / name, directory / name)
    return directory


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    """Build the wheel from the source distribution, and that from the tree. Return the Path of the wheel."""
    directory = tmp_path_factory.mktemp('built')

    def build(tree, kind):
        done = subprocess.run([sys.executable, '-c', BUILD, f'build_{kind}', directory], cwd=tree, check=True,
                              capture_output=True, text=True, env=ordinary_environ())
        return directory / done.stdout.split()[-1]
    source = build(copy_of_the_tree(tmp_path_factory.mktemp('tree')), 'sdist')
    assert source.name == f'solonova-{version.VERSION}.tar.gz'
    shutil.unpack_archive(source, directory, filter='data')
    return build(directory / source.name.removesuffix('.tar.gz'), 'wheel')


@pytest.fixture(scope='module')
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel and the dependencies of the tests, without installations of the tree."""
    directory = tmp_path_factory.mktemp('venv')
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', directory], check=True)
    subprocess.run([sys.executable, '-m', 'pip', '--python', directory / 'bin/python', 'install', '--quiet',
                    '--no-deps', '--no-index', '--disable-pip-version-check', wheel], check=True,
                   env=ordinary_environ())
    others = tmp_path_factory.mktemp('dependencies')
    for file in pathlib.Path(sysconfig.get_path('purelib')).iterdir():
        if not OWN.match(file.name):
            (others / file.name).symlink_to(file)
    site = next((directory / 'lib').glob('python3*/site-packages'))
    (site / 'dependencies.pth').write_text(f'{others}\n')
    return directory


def test_environment_imports_the_wheel_alone(environment, tmp_path):
    done = subprocess.run([environment / 'bin/python', '-c', 'import nova; print(nova.__file__)'], cwd=tmp_path,
                          check=True, capture_output=True, text=True, env=ordinary_environ())
    assert done.stdout.startswith(f'{environment}/lib/')


def test_files_of_the_distribution_are_inside(environment):
    share, site = environment / 'share/nova', next((environment / 'lib').glob('python3*/site-packages'))
    files = [
        share / 'systemd/nova-all.service', share / 'systemd/nova.sysusers', share / 'samples/nova.conf.sample',
        share / 'samples/policy.yaml.sample', environment / 'etc/nova/api-paste.ini',
        environment / 'etc/nova/rootwrap.d/compute.filters', site / 'nova/locale/de/LC_MESSAGES/nova.mo',
        site / f'solonova-{version.VERSION}.dist-info/licenses/LICENSE',
        site / f'solonova-{version.VERSION}.dist-info/licenses/nova/console/static/spice/copyright']
    assert [file for file in files if not file.is_file()] == []
    assert not (site / 'nova/tests').exists()


def test_no_file_of_the_tree_is_missing(environment):
    site = next((environment / 'lib').glob('python3*/site-packages'))
    tracked = subprocess.run(['git', 'ls-files', 'nova'], cwd=TREE, check=True, capture_output=True, text=True).stdout
    sources = ('.po', '.pot')            # of the catalogues in nova/locale
    wanted = [name for name in tracked.split() if not name.startswith('nova/tests/') and not name.endswith(sources)
              and (TREE / name).exists()]
    assert [name for name in wanted if not (site / name).is_file()] == []


@pytest.mark.parametrize('name', ['nova-all', 'nova-api', 'nova-dhcpbridge', 'nova-manage', 'nova-novncproxy'])
def test_installed_program_prints_its_version(environment, tmp_path, name):
    done = subprocess.run([environment / 'bin' / name, '--version'], cwd=tmp_path, check=True, capture_output=True,
                          text=True, env=ordinary_environ())
    assert done.stdout == f'{name} {version.VERSION}\n'


def test_missing_libvirt_module_ends_with_one_sentence(environment, tmp_path):
    code = ('import sys; from nova.runtime import system_modules; sys.meta_path = sys.meta_path[:2]; '
            'sys.meta_path.append(system_modules.Finder(sys.argv[1])); import libvirt')
    done = subprocess.run([environment / 'bin/python', '-c', code, tmp_path], cwd=tmp_path, capture_output=True,
                          text=True, env=ordinary_environ())
    assert done.stderr.splitlines()[-1] == ("ModuleNotFoundError: No module named 'libvirt': run apt install "
                                            'python3-libvirt')


@pytest.fixture(scope='module')
def cloud(environment, tmp_path_factory):
    """(Connection of openstacksdk, URL) of a cloud that the wheel runs with the fake driver."""
    state, elsewhere = tmp_path_factory.mktemp('state'), tmp_path_factory.mktemp('elsewhere')
    port = servers.free_port()
    output = open(elsewhere / 'output', 'w+')
    process = subprocess.Popen(
        [environment / 'bin/nova-all', '--driver', 'fake', '--state-path', state, '--port', str(port)], cwd=elsewhere,
        env=ordinary_environ(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_S
        while 'The cloud serves' not in (text := (elsewhere / 'output').read_text()):
            assert process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.2)
        config = openstack.config.OpenStackConfig(config_files=[str(state / 'clouds.yaml')]).get_one('nova-admin')
        yield openstack.connection.Connection(config=config), f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        process.wait(60)
        output.close()


def read(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=30) as answer:
        return answer.read().decode()


def test_server_boots(cloud):
    connection, _url = cloud
    image = connection.create_image('guest', data=bytes(1 << 20), disk_format='raw', container_format='bare',
                                    wait=True, validate_checksum=False)
    server = connection.create_server('first', image=image, flavor='m1.tiny', wait=True, timeout=60)
    assert server.status == 'ACTIVE'


def test_root_document_and_dashboard_show_the_version(cloud):
    _connection, url = cloud
    assert json.loads(read(f'{url}/compute/'))['release'] == version.VERSION
    page, config = read(f'{url}/dashboard/'), json.loads(read(f'{url}/dashboard/config.json'))
    assert config['release'] == version.VERSION
    assert 'import' in read(f'{url}/dashboard/v/{config["version"]}/main.js') and 'id="app"' in page
