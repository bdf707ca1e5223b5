#!/usr/bin/env python3
"""Run tempest's compute and scenario tests, unmodified from PyPI, against three libvirt hosts with real guests.

    tools/tempest_fleet.py DIRECTORY [--hosts N] [--only REGEX] [--keep] [--concurrency N] [--timeout SECONDS]
                           [--results FILE [--resume]] [--serve FILE | --at FILE]

DIRECTORY is that of tools/guest-image.sh. The hosts are network namespaces with a libvirt, a nova-compute and an agent
of the network service each, which know no database. Networks of projects are VXLAN between them; routers, floating
addresses, filters, DHCP and metadata are the embedded network service's, and volumes are the embedded block storage's,
which the hosts reach over NBD with TLS. Tempest logs into the guests (``run_validation``).

It needs root, RabbitMQ, libvirt, QEMU, e2fsprogs and tini. Everything is in a network namespace of its own, so that
nothing of it meets the networks of this machine, and ends with this process. Failed tests are compared with
tools/tempest-fleet-expected.tsv, as tools/tempest.py does.

The whole takes hours. ``--results`` adds what each test came to to a file of tab-separated lines, and ``--resume``
leaves out what that has already, so that a run goes on where another ended. ``--serve FILE`` brings the hosts up and
runs nothing; as long as the FILE is there, ``--at FILE`` runs tests on them.
"""
import argparse
import asyncio
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import local_cloud
import suites
import tempest

EXPECTED = HERE / 'tempest-fleet-expected.tsv'
TESTS = (r'^tempest\.(api\.compute|scenario\.test_(minimum_basic|server_|volume_|snapshot|shelve|stamp|network_|'
         r'security_groups|compute_|encrypted|unified|instances_with))')
OWN_NAMESPACE = 'NOVA_TEMPEST_FLEET_INSIDE'     # set where the namespace is already this run's own
# networks of its own, and whatever this run has started ends with it
NAMESPACE = ('unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc')
METADATA_PORT = 8775
INTERRUPTED = 'KeyboardInterrupt'        # in what a test says that ran when the time was over
WIRE, OUTSIDE_BRIDGE = 'wire', 'br-wire'
OUTSIDE_ADDRESS = '172.24.4.1/24'        # of the way out, where tempest runs
PLUMBED = '''
[network]
driver = linux
agent = true
tunnel_address = {address}
metadata_host = {controller}
physical_networks = wire:br-wire
'''
AGENT = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = {host}
my_ip = {address}
report_interval = 1
service_down_time = 6
[messages]
signatures = accept
[network]
bridge = {bridge}
[monitoring]
port = 0
'''
# more of tempest's configuration: the hosts that a test of moves begins and ends at, and times of
# guests that share two cores which emulate all of them. The test of a changed password does not wait for the guest,
# whose agent sets it, and takes the floating address from the server of the tests after it.
MORE = '''
[compute]
build_timeout = 480
migration_source_host = {0}
migration_dest_host = {1}
[compute-feature-enabled]
change_password = false
[network-feature-enabled]
api_extensions = {extensions}
[validation]
ping_timeout = 300
ssh_timeout = 420
'''
OPTIONS = {'network__routers': False, 'network__physical_networks': {WIRE: OUTSIDE_BRIDGE},
           'quota__instances': 50, 'quota__cores': 100, 'quota__ram': 204800}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('guest', type=pathlib.Path, help='directory of tools/guest-image.sh')
    parser.add_argument('--hosts', type=int, default=3, choices=range(2, 10), metavar='N',
                        help='number of hosts (%(default)s)')
    parser.add_argument('--keep', action='store_true', help='leave logs and results in their directory')
    parser.add_argument('--concurrency', type=int, default=2, help='workers of tempest (%(default)s)')
    parser.add_argument('--only', default=TESTS, help='regular expression of the tests to run (%(default)s)')
    parser.add_argument('--timeout', type=int, metavar='SECONDS',
                        help='when tests that run are interrupted, and no others begin')
    parser.add_argument('--results', type=pathlib.Path, metavar='FILE',
                        help='file that takes what each test came to, its seconds and why it did not pass')
    parser.add_argument('--resume', action='store_true', help='leave out the tests that the file of --results has')
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument('--serve', type=pathlib.Path, metavar='FILE',
                          help='run no test, and keep the hosts until this file is removed, which says where they are')
    standing.add_argument('--at', type=pathlib.Path, metavar='FILE', help='run on the hosts of --serve FILE')
    parser.add_argument('--install', type=pathlib.Path, default=tempest.DIRECTORY,
                        help="directory of tempest's environment (%(default)s)")
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error('It has network namespaces and guests of QEMU: run it as root.')
    if given.resume and not given.results:
        parser.error('--resume needs --results')
    if OWN_NAMESPACE not in os.environ:
        suites.install(given.install, tempest.PACKAGES)          # while there is a way to the package index
        os.environ[OWN_NAMESPACE] = str(os.getpid())
        again = ['tini', '-s', '--', sys.executable, *sys.argv]
        os.execvp(*enter(given.at, again) if given.at else ('unshare', [*NAMESPACE, *again]))
    if given.at:
        return run_tests(given, Place(**json.loads(given.at.read_text())))
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    os.environ['NOVA_TEST_GUEST_DIR'] = str(given.guest.resolve())
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-tempest.'))
    from nova.tests.integration import moving_cloud
    with moving_cloud.fleet(given.hosts, kind=_fleet_kind(), **OPTIONS) as fleet:
        print(f'{len(fleet.names)} hosts serve; logs are in {home} and {fleet.directory}.', flush=True)
        place = Place(int(os.environ[OWN_NAMESPACE]), str(home), str(fleet.directory), fleet.cloud.url)
        cloud = place.cloud()
        try:
            extensions = [each['alias'] for each in cloud.json('GET', '/v2.0/extensions',
                                                               service='network')['extensions']]
            tempest.configure(cloud, home, given.guest, tempest.make_outside(cloud, WIRE), given.hosts,
                              MORE.format(*fleet.names, extensions=','.join(extensions)))
            if not given.serve:
                return run_tests(given, place)
            given.serve.write_text(json.dumps(place._asdict()))
            while given.serve.exists():
                time.sleep(1)
            return 0
        finally:
            tempest.remove_servers(cloud)
            if given.keep:
                for log in fleet.directory.glob('*.log'):
                    shutil.copy(log, home)


class Place(typing.NamedTuple):
    """Location of a fleet.

    :ivar process: of unshare, which began its namespaces
    :ivar home: directory of tempest's workspace
    :ivar directory: of the hosts
    """

    process: int
    home: str
    directory: str
    url: str

    def cloud(self):
        return Served(pathlib.Path(self.directory) / 'cloud', self.url)


def enter(file, command):
    """(program, words) of a command in the namespaces of a fleet that serves."""
    process = json.loads(file.read_text())['process']
    first = pathlib.Path(f'/proc/{process}/task/{process}/children').read_text().split()[0]
    return 'nsenter', ['nsenter', '--target', first, '--net', '--pid', '--mount', f'--wd={os.getcwd()}',
                       *command]


def run_tests(given, place):
    """Run tests on a fleet and say what happened; the exit code."""
    home, directory = pathlib.Path(place.home), given.install / 'bin'
    before = read_results(given.results) if given.results and given.results.exists() else {}
    output = home / f'tempest-{time.strftime("%H%M%S")}.out'         # with all requests of what failed
    try:
        with open(output, 'wb') as given.output:
            results = tempest.run(directory, home, given, before if given.resume else ())
        results = results or tempest.printed_results(output.read_text(errors='replace'))
    finally:
        if given.at:
            tempest.remove_servers(place.cloud())
    for name in [name for name, result in results.items() if INTERRUPTED in result.text]:
        print(f'not ended in time: {name}')
        del results[name]
    if given.results:
        every = tempest.names(directory, home, TESTS)
        before |= of_tests(results, every)
        write_results(given.results, before)
        print(f'{len(before)} of {len(every)} tests are in {given.results}.')
    return suites.report(results, EXPECTED, complete=given.only == TESTS and not (given.timeout or given.resume))


def of_tests(results, every):
    """The results of tests: what befell a class as a whole, such as a reason to skip it, befell each of its tests.

    :param every: names of tests
    """
    found = {}
    for name, result in results.items():
        whole = re.match(r'(?:setUp|tearDown)Class \((.*)\)', name)
        if whole is None:
            found[name] = result
        elif name.startswith('setUp'):
            found |= {each: result for each in every if each.rpartition('.')[0] == whole[1]}
    return found


def read_results(file):
    with open(file, newline='') as lines:
        rows = [row for row in csv.reader(lines, delimiter='\t') if not row[0].startswith('#')]
    return {name: suites.Result(outcome, text, float(seconds)) for name, outcome, seconds, text in rows}


def write_results(file, results):
    with open(file, 'w', newline='') as lines:
        writer = csv.writer(lines, delimiter='\t', lineterminator='\n')
        writer.writerow(('# test', 'outcome', 'seconds', 'why'))
        for name, result in sorted(results.items()):
            writer.writerow((name, result.outcome, f'{result.seconds:.1f}', suites.last_line(result.text)))


class Served(local_cloud.LocalCloud):
    """A client of a cloud that another part of this process serves.

    :param state: directory of its clouds.yaml
    """

    def __init__(self, state, url):
        self.state, self.port, self.process = state, int(url.rpartition(':')[2]), None
        self.local = threading.local()
        self.login()


def _fleet_kind():
    """The hosts of moving_cloud.py with real networks."""
    from nova.cloud import assembly
    from nova.tests.integration import moving_cloud
    from nova.tests.integration import prepared

    class Fleet(moving_cloud.Fleet):
        """
        :ivar agents: {host: its nova-network}
        """

        def begin(self, stack):
            self.agents, self.ways = {}, asyncio.new_event_loop()
            subprocess.run(['ip', 'link', 'add', 'ext', 'type', 'bridge'], check=True)
            subprocess.run(['ip', 'address', 'add', OUTSIDE_ADDRESS, 'dev', 'ext'], check=True)
            subprocess.run(['ip', 'link', 'set', 'ext', 'up'], check=True)
            stack.callback(self.end_agents)
            super().begin(stack)

        def start(self, name, extra=''):
            if not self.agents:
                self.serve_hosts()
            plumbed = PLUMBED.format(address=self.address(name), controller=self.cluster.settings.ADDRESS)
            if name not in self.agents:
                self.start_agent(name, plumbed)
            super().start(name, plumbed + extra)

        def serve_hosts(self):
            """Forward the broker and the metadata service of the controller to agents."""
            address, port = self.cluster.settings.ADDRESS, int(self.url.rpartition(':')[2].partition('/')[0])
            threading.Thread(target=_forward, args=(address, port), daemon=True).start()
            self.metadata = assembly.metadata_server(self.cloud.conf, self.cloud.api_db, self.cloud.cells, address,
                                                     METADATA_PORT)
            self.metadata.start()

        def start_agent(self, name, plumbed):
            inner = 'ext0'
            for words in (('ip', 'link', 'add', f'ext-{name}', 'type', 'veth', 'peer', 'name', inner, 'netns',
                           self.namespace(name)), ('ip', 'link', 'set', f'ext-{name}', 'master', 'ext', 'up')):
                subprocess.run(words, check=True)
            for words in (('link', 'add', OUTSIDE_BRIDGE, 'type', 'bridge'),
                          ('link', 'set', inner, 'master', OUTSIDE_BRIDGE, 'up'),
                          ('link', 'set', OUTSIDE_BRIDGE, 'up')):
                self.inside(name, 'ip', *words)
            state = self.directory / name            # a host has one key, whichever of its services asks
            state.mkdir(mode=0o711, exist_ok=True)
            file = self.directory / f'{name}-network.conf'
            file.write_text(AGENT.format(
                url=self.url.replace('127.0.0.1', self.cluster.settings.ADDRESS), state=state, host=name,
                address=self.address(name), bridge=moving_cloud.BRIDGE) + plumbed)
            with open(self.directory / f'{name}-network.log', 'ab') as log:
                self.agents[name] = subprocess.Popen(
                    ['ip', 'netns', 'exec', self.namespace(name), *map(str, self.cluster.hosts.in_namespace(
                        name, prepared.BIN / 'nova-network', '--config-file', file))],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment())

        def end_agents(self):
            for process in self.agents.values():
                process.terminate()
            for process in self.agents.values():
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()

    return Fleet


def _forward(address, port):
    """Lead connections to an address of the hosts' network to the same port of loopback, for ever."""
    async def copy(source, target):
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def accepted(reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection('127.0.0.1', port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async def serve():
        async with await asyncio.start_server(accepted, address, port) as server:
            await server.serve_forever()

    asyncio.run(serve())


if __name__ == '__main__':
    sys.exit(main())
