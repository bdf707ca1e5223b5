"""Pinned versions, cached builds, clouds and results that the scripts of this directory share."""
import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import local_cloud
import suites

EXPECTED = HERE / 'expected.tsv'
VERSIONS = HERE / 'versions.tsv'
CACHE = pathlib.Path.home() / '.cache/nova-client-builds'
BUILD_S = 3600               # seconds that a build may take: the Terraform provider needs minutes of two processors
MEBIBYTE = 1048576


class Missing(Exception):
    """A program that a client needs is not installed, or a registry does not have a package."""


class Pin(typing.NamedTuple):
    """A package that a client is made of.

    :ivar registry: go, pypi or terraform
    """

    client: str
    registry: str
    package: str
    version: str


def pins(client, registry):
    """The packages of a client in one registry."""
    with open(VERSIONS, newline='') as file:
        rows = [Pin(*row) for row in csv.reader(file, delimiter='\t') if row and not row[0].startswith('#')]
    return [row for row in rows if (row.client, row.registry) == (client, registry)]


def requirements(client):
    """The requirements of a client's Python environment."""
    return [f'{pin.package}=={pin.version}' if pin.version else pin.package for pin in pins(client, 'pypi')]


def environment(client, cached=False):
    """The bin directory of a client's Python environment, which is installed once.

    :raises Missing: it is not installed, and ``cached`` does not allow to do so
    """
    if cached and not suites.is_installed(CACHE / client, requirements(client)):
        raise Missing(f'{client} is not installed in {CACHE}')
    return suites.install(CACHE / client, requirements(client))


def require(program):
    """Raise Missing unless a program is installed."""
    if shutil.which(program) is None:
        raise Missing(f'{program} is not installed')


def source(pin, cached=False):
    """The directory of a Go module's source.

    :param cached: fetch nothing
    :raises Missing: Go is not installed, or neither its cache nor the module proxy has the module
    """
    require('go')
    done = subprocess.run(['go', 'mod', 'download', '-json', f'{pin.package}@{pin.version}'], cwd=tempfile.gettempdir(),
                          capture_output=True, text=True, timeout=BUILD_S,
                          env={**os.environ, **({'GOPROXY': 'off'} if cached else {})})
    if done.returncode:
        raise Missing(f'{pin.package}@{pin.version} cannot be fetched: {done.stdout[-300:]}{done.stderr[-300:]}')
    return pathlib.Path(json.loads(done.stdout)['Dir'])


def built(name, pin, build, cached=False):
    """A file in the cache, made once for each version.

    :param build: called with the path to write
    :raises Missing: it is not there, and ``cached`` does not allow to build it
    """
    path = CACHE / f'{pin.client}-{pin.version}' / name
    if cached and not path.exists():
        raise Missing(f'{path} is not built')
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        partial = path.with_name(f'{path.name}.partial')
        build(partial)
        partial.rename(path)
        print(f'Built {name} {pin.version} in {time.perf_counter() - begin:.0f} s.', flush=True)
    return path


def compile_go(directory, *arguments):
    """Run the Go compiler in a directory.

    :raises RuntimeError: with the compiler's messages
    """
    require('go')
    done = subprocess.run(['go', *arguments], cwd=directory, capture_output=True, text=True, timeout=BUILD_S,
                          env={**os.environ, 'GOFLAGS': '-buildvcs=false'})
    if done.returncode:
        raise RuntimeError(f'go {" ".join(map(str, arguments))}:\n{done.stderr[-6000:]}')


def parser(documentation):
    """Options of all scripts."""
    made = argparse.ArgumentParser(description=documentation.partition('\n\n')[0])
    made.add_argument('--keep', action='store_true', help='leave logs and results in their directory')
    made.add_argument('--only', metavar='REGEX', default='', help='run only tests whose name matches')
    made.add_argument('--short', action='store_true', help='run only a part, within seconds')
    made.add_argument('--cached', action='store_true', help='do not run if something must be built or installed first')
    return made


class Cloud:
    """An all-in-one with what the clients expect: a public network, an image, two small flavors.

    :ivar home: directory for the files of a client
    """

    def __init__(self, options=(), keep=False):
        self.keep, self.home = keep, pathlib.Path(tempfile.mkdtemp(prefix='nova-client.'))
        self.local = local_cloud.LocalCloud('fake', [*OPTIONS, *options])
        self.ids = {}

    def __enter__(self):
        seconds = self.local.start()
        print(f'The cloud serves after {seconds:.1f} s; logs are in {self.home} and {self.local.state}.', flush=True)
        self._add_resources()
        return self

    def __exit__(self, *_error):
        self.local.close(keep=self.keep)
        if not self.keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def _add_resources(self):
        (self.home / 'disk.raw').write_bytes(b'\0' * MEBIBYTE)
        self.ids['image'] = self.local.add_image('cirros-test-disk', self.home / 'disk.raw', 'raw')
        public = self.network('networks', {'network': {'name': 'public', 'router:external': True}})['network']['id']
        self.network('subnets', {'subnet': {'network_id': public, 'cidr': '172.24.4.0/22', 'ip_version': 4,
                                            'enable_dhcp': False}})
        self.ids['public'] = public
        flavors = {flavor['name']: flavor['id'] for flavor in self.local.json('GET', '/flavors')['flavors']}
        for name, memory, ephemeral in FLAVORS:
            self.ids[name] = flavors.get(name) or self.local.json(
                'POST', '/flavors', {'flavor': {'name': name, 'ram': memory, 'vcpus': 1, 'disk': 1,
                                                'OS-FLV-EXT-DATA:ephemeral': ephemeral}})['flavor']['id']

    def path(self, service, version, path):
        """A path below the endpoint of a service, which may or may not end with the API's version."""
        return path if self.local.endpoints[service].rstrip('/').endswith(version) else version + path

    def network(self, path, body):
        """POST to the Networking API."""
        return self.local.json('POST', self.path('network', '/v2.0', f'/{path}'), body, service='network')

    def environ(self, account='nova-admin', **more):
        """Environment variables of a client that logs in as an account of clouds.yaml."""
        user, password = self.local.account(account)
        kept = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
        return {**kept, 'HOME': str(self.home), 'OS_AUTH_URL': f'http://127.0.0.1:{self.local.port}/identity/v3',
                'OS_USERNAME': user, 'OS_PASSWORD': password, 'OS_PROJECT_NAME': user, 'OS_REGION_NAME': 'RegionOne',
                'OS_IDENTITY_API_VERSION': '3', **more}


# name, MiB of memory, GiB of ephemeral disks
FLAVORS = (('m1.nano', 64, 0), ('m1.micro', 128, 0), ('ephemeral.small', 64, 4), ('ephemeral.large', 128, 4))
OPTIONS = ['[quota]', 'instances = 200', 'cores = 400', 'ram = 819200', '[network]', 'driver = fake']


def wait(condition, seconds=60):
    """Wait until a condition holds.

    :raises RuntimeError: it does not hold in time
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f'not after {seconds} s: {condition}')
        time.sleep(0.2)


def figures(client, results, seconds, complete):
    """Print the figures of a run and its exceptions; the exit code.

    :param results: {test: suites.Result}
    :param complete: all tests were run
    """
    for name, result in sorted(results.items()):
        if result.outcome == 'skipped':
            print(f'skipped: {name}: {suites.last_line(result.text)}')
    code = suites.report(results, EXPECTED, complete, client)
    print(f'{client}: {seconds:.0f} s')
    return code


def run(main):
    """The exit code of a script: 77 when a program or package is missing."""
    try:
        return main()
    except Missing as error:
        print(f'not run: {error}')
        return 77
