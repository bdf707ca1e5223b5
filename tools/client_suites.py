#!/usr/bin/env python3
"""Run the functional tests that python-openstackclient, python-novaclient and openstacksdk bring along, unmodified
from PyPI, against an all-in-one with the fake driver.

    tools/client_suites.py [--keep] [--suite NAME] [--only EXPRESSION]

``openstackclient``, ``novaclient`` and ``openstacksdk`` are their tests of the Compute API. The suites that begin with
``sdk-`` are openstacksdk's tests of other APIs, those that begin with ``osc-`` are openstackclient's. The suites of the
Networking API have a cloud where projects make networks between hosts.
What does not pass is compared with tools/client-suites-expected.tsv, where the name of a test begins with that of its
suite: a failure that is not in that list, or a listed test that passes, makes the exit code 1.
"""
import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import local_cloud
import suites

WARM = pathlib.Path(__file__).with_name('warm_openstack.py')
WARM_S = 120                 # seconds that its start may take on a busy machine
EXPECTED = pathlib.Path(__file__).with_name('client-suites-expected.tsv')
DIRECTORY = pathlib.Path.home() / '.cache/nova-clients'
PACKAGES = ('python-openstackclient==10.5.0', 'python-novaclient==18.13.1', 'openstacksdk==4.22.0', 'tempest==47.0.0',
            'pytest', 'pytest-timeout', 'testtools', 'fixtures', 'oslotest', 'requests-mock', 'ddt')
SUITES = {
    'openstackclient': 'openstackclient.tests.functional.compute.v2',
    'novaclient': 'novaclient.tests.functional',
    'openstacksdk': 'openstack.tests.functional.compute.v2',
    'sdk-block-storage': 'openstack.tests.functional.block_storage.v3',
    'sdk-image': 'openstack.tests.functional.image.v2',
    'sdk-identity': 'openstack.tests.functional.identity.v3',
    'osc-image': 'openstackclient.tests.functional.image.v2',
    'osc-volume': 'openstackclient.tests.functional.volume.v3',
    'osc-identity': 'openstackclient.tests.functional.identity.v3',
    'sdk-network': 'openstack.tests.functional.network.v2',
    'osc-network': 'openstackclient.tests.functional.network.v2',
}
# one host: a suite asks for hypervisors by a part of their name, and expects one
CLOUD = ['[quota]', 'instances = 100', 'cores = 200', 'ram = 409600', '[network]', 'driver = fake']
RANGES = {'sdk-network': [], 'osc-network': []}          # suite: more options of [network]
DEFAULT_TYPE = 'lvmdriver-1'                             # as in DevStack
FLAT = ['project_ranges = 0.0.0.0/0']
TEST_S = 300                 # seconds that one test may take


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--keep', action='store_true', help='leave logs and results in their directory')
    parser.add_argument('--suite', choices=list(SUITES), help='only this one')
    parser.add_argument('--only', metavar='EXPRESSION', help='tests to run, as for pytest -k')
    parser.add_argument('--install', type=pathlib.Path, default=DIRECTORY,
                        help="directory of the clients' environment (%(default)s)")
    given = parser.parse_args()
    directory = suites.install(given.install, PACKAGES)
    results = {}
    for names in [[given.suite]] if given.suite else [[name for name in SUITES if name not in RANGES], list(RANGES)]:
        home = pathlib.Path(tempfile.mkdtemp(prefix='nova-clients.'))
        cloud = local_cloud.LocalCloud('fake', [*CLOUD, *RANGES.get(names[0], FLAT)])
        try:
            print(f'The cloud serves after {cloud.start():.1f} s; logs are in {home} and {cloud.state}.', flush=True)
            environ = configure(cloud, home, directory, names[0] in RANGES)
            with warm(home, directory, environ):
                for name in names:
                    results.update(run(name, directory, home, environ, given.only))
        finally:
            cloud.close(keep=given.keep)
    return suites.report(results, EXPECTED, complete=not (given.suite or given.only))


@contextlib.contextmanager
def warm(home, directory, environ):
    """Provide the command ``openstack`` of tools/warm_openstack.py: a command takes seconds otherwise."""
    place = home / 'bin'
    place.mkdir()
    # where it looks for clouds.yaml is decided when it is loaded
    server = subprocess.Popen([directory / 'python', '-W', 'ignore', WARM, place], env=environ, cwd=home)
    try:
        end = time.monotonic() + WARM_S
        while not (place / 'openstack').exists():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f'{WARM} does not serve.')
            time.sleep(0.1)
        yield
    finally:
        server.kill()
        server.wait()


def configure(cloud, home, directory, routed):
    """What the suites expect of a cloud, and the environment in which they find it.

    :param routed: the network ``public`` is one to the outside
    """
    (home / 'CONTRIBUTING.rst').write_text('of no use\n')      # a suite uploads it as an image
    disk = home / 'disk.raw'
    disk.write_bytes(b'\0' * 1048576)
    cloud.add_image('cirros-test-disk', disk, 'raw')
    prefix = '' if cloud.endpoints['network'].rstrip('/').endswith('/v2.0') else '/v2.0'
    network = cloud.json('POST', prefix + '/networks', {'network': {
        'name': 'public', **({'router:external': True} if routed else {})}}, service='network')['network']
    cloud.json('POST', prefix + '/subnets', {'subnet': {
        'network_id': network['id'], 'cidr': '172.24.4.0/24', 'enable_dhcp': not routed}},
               service='network')
    known = {flavor['name'] for flavor in cloud.json('GET', '/flavors')['flavors']}
    for name, memory in (('m1.nano', 64), ('m1.micro', 128)):
        if name not in known:
            cloud.json('POST', '/flavors', {'flavor': {'name': name, 'ram': memory, 'vcpus': 1, 'disk': 1}})
    kind = cloud.json('POST', '/types', {'volume_type': {'name': DEFAULT_TYPE}}, service='block-storage')
    cloud.json('PUT', f'/default-types/{cloud.project_id}', {'default_type': {
        'volume_type': kind['volume_type']['id']}}, version='3.62', service='block-storage')
    clouds = json.loads(subprocess.run(
        [sys.executable, '-c', 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))',
         cloud.state / 'clouds.yaml'], stdout=subprocess.PIPE, check=True).stdout)['clouds']
    admin, demo = clouds['nova-admin'], clouds['nova-demo']
    system = {**admin, 'auth': {name: value for name, value in admin['auth'].items() if 'project' not in name}}
    system['auth']['system_scope'] = 'all'
    (home / 'clouds.yaml').write_text(json.dumps({'clouds': {
        'devstack-admin': admin, 'functional_admin': admin, 'devstack': demo, 'devstack-alt': demo,
        'devstack-system-admin': system}}))
    environ = suites.environ(
        directory, HOME=str(home), OS_CLIENT_CONFIG_FILE=str(home / 'clouds.yaml'), OS_CLOUD='devstack-admin',
        OS_ADMIN_CLOUD='devstack-admin', OPENSTACKSDK_IMAGE='cirros-test-disk', OPENSTACKSDK_FLAVOR='m1.nano',
        OS_TEST_TIMEOUT=str(TEST_S), TOX_ENV_DIR=str(directory.parent), OS_NOVACLIENT_NETWORK='private',
        OS_NOVACLIENT_EXEC_DIR=str(directory))
    return environ | {'PATH': f'{home / "bin"}:{environ["PATH"]}'}


def run(name, directory, home, environ, only):
    """{suite and test: Result} of one suite; see suites.junit."""
    found = home / f'{name}.xml'
    command = [directory / 'python', '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--timeout', str(TEST_S),
               '--junitxml', found, '--tb', 'short', '--pyargs', SUITES[name]]
    if only:
        command += ['-k', only]
    print(f'\n==== {name}', flush=True)
    with open(home / f'{name}.log', 'wb') as log:
        subprocess.run(command, env=environ, cwd=home, stdout=log, stderr=log)
    last = (home / f'{name}.log').read_text(errors='replace').strip().splitlines()[-1:]
    print(re.sub(r'=+', '', ''.join(last)).strip(), flush=True)
    results = suites.junit(found.read_text()) if found.exists() else {}
    return {f'{name} {test}': result for test, result in results.items()}


if __name__ == '__main__':
    sys.exit(main())
