#!/usr/bin/env python3
"""Measure for how long a guest of a project network is not reached while it is migrated live.

    tools/bench/network/live_migration.py DIRECTORY [--times N] [--bandwidth MIB] [--load] [--json]

DIRECTORY is that of tools/guest-image.sh. The hosts are those of tools/tempest_fleet.py: three, with libvirt, QEMU, a
nova-compute and an agent of the network service each. A guest is migrated between the first two of them. Meanwhile echo
requests go to it every 10 ms: from a neighbour on each host, and from outside to its floating address by a router.
A neighbour is the port of a server that is off, with a network namespace behind its device.

For each migration and way: the longest time between two answers, less the pause that QEMU's events STOP at the source
and RESUME at the destination show. ``--load``: a second guest computes without end on the first host. It needs what
tools/tempest_fleet.py needs, without tempest. Exit code 1: the bounds that MEDIAN_S and WORST_S say are exceeded.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOOLS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOOLS), str(TOOLS.parent)]
import tempest
import tempest_fleet

OWN_NAMESPACE = 'NOVA_LIVE_MIGRATION_INSIDE'
SOURCE, DEST, THIRD = 'compute1', 'compute2', 'compute3'
MEDIAN_S, WORST_S = 0.2, 0.5            # beyond the pause
SETTLES_S = 2
ANSWER = re.compile(r'^\[([0-9.]+)\] .*bytes from', re.MULTILINE)
EVENT = re.compile(r'event (STOP|RESUME) at ([0-9.]+) for')
Event = collections.namedtuple('Event', 'kind host at')


class Pings:
    """Echo requests from a namespace to an address, every 10 ms; None: from where this process is."""

    def __init__(self, space, address):
        inside = ['ip', 'netns', 'exec', space] if space else []
        self.space, self.address = space, address
        self._output = tempfile.TemporaryFile('w+')           # a pipe that is full would stop it
        self._process = subprocess.Popen([*inside, 'ping', '-D', '-n', '-i', '0.01', '-W', '1', address], text=True,
                                         stdout=self._output, stderr=subprocess.STDOUT)

    def times(self):
        """When answers came, seconds since the epoch; ends it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        with self._output as output:
            output.seek(0)
            return [float(found) for found in ANSWER.findall(output.read())]


class Events:
    """STOP and RESUME of the guests of some hosts, as QEMU says them."""

    def __init__(self, fleet, names):
        self.found, self._processes = [], []
        for name in names:
            process = subprocess.Popen(
                ['virsh', '-c', fleet.cluster.hosts.uri(name), 'qemu-monitor-event', '--loop', '--regex', '--event',
                 '^(STOP|RESUME)$'], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            threading.Thread(target=self._read, args=(name, process), daemon=True).start()
            self._processes.append(process)

    def _read(self, name, process):
        for line in process.stdout:
            if found := EVENT.search(line):
                self.found.append(Event(found[1], name, float(found[2])))

    def close(self):
        for process in self._processes:
            process.kill()


LISTENER = '''
import select, sys, time
from nova.network import switchover
sock = switchover.listener(sys.argv[1])
while True:
    select.select([sock], [], [])
    print(time.time() if switchover.announced_mac(sock.recv(64)) == sys.argv[2] else 0, flush=True)
'''


class Announcements:
    """When the guest was announced on a host that has a tunnel to it."""

    def __init__(self, space, device, mac):
        self._process = subprocess.Popen(['ip', 'netns', 'exec', space, sys.executable, '-c', LISTENER, device, mac],
                                         text=True, stdout=subprocess.PIPE)

    def times(self):
        """Seconds since the epoch; ends it."""
        self._process.kill()
        return [float(line) for line in self._process.communicate()[0].split()]


class Bench:
    """A fleet with a guest that moves, and neighbours."""

    def __init__(self, fleet, bandwidth, load):
        self.fleet, self.bandwidth = fleet, bandwidth
        place = tempest_fleet.Place(os.getpid(), '', str(fleet.directory), fleet.cloud.url)
        self.cloud, self.spaces = place.cloud(), []
        outside = tempest.make_outside(self.cloud, tempest_fleet.WIRE)
        self.network = self.net('POST', 'networks', {'network': {'name': 'moves'}})['network']['id']
        subnet = self.net('POST', 'subnets', {'subnet': {
            'network_id': self.network, 'cidr': '10.7.0.0/24', 'ip_version': 4}})['subnet']['id']
        router = self.net('POST', 'routers', {'router': {
            'name': 'moves', 'external_gateway_info': {'network_id': outside}}})['router']['id']
        self.net('PUT', f'routers/{router}/add_router_interface', {'subnet_id': subnet})
        group = self.net('POST', 'security-groups', {'security_group': {'name': 'pinged'}})['security_group']['id']
        self.net('POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'}})
        self.group = group
        self.mover = self.boot(SOURCE)
        port, address = self.port(self.mover)
        self.mac = port['mac_address']
        floating = self.net('POST', 'floatingips', {'floatingip': {
            'floating_network_id': outside, 'port_id': port['id']}})['floatingip']['floating_ip_address']
        self.ways = {f'neighbour on {name}': (self.neighbour(name), address) for name in (SOURCE, DEST, THIRD)}
        self.ways['outside, floating address'] = (None, floating)
        if load:
            busy = self.boot(SOURCE)
            fleet.booted_on(SOURCE, busy)
            fleet.tell(SOURCE, busy, '(while :; do :; done) & echo busy-$((40+2))', 'busy-42')
        fleet.booted_on(SOURCE, self.mover)
        for space, goal in self.ways.values():
            self.reached(space, goal)

    def net(self, method, path, body=None):
        return self.cloud.json(method, f'/v2.0/{path}', body, service='network')

    def port(self, server):
        found, = self.net('GET', f'ports?device_id={server}')['ports']
        return found, found['fixed_ips'][0]['ip_address']

    def boot(self, host):
        """The id of a server that runs on a host."""
        port = self.net('POST', 'ports', {'port': {
            'network_id': self.network, 'security_groups': [self.group]}})['port']['id']
        return self.fleet.boot(host, networks=[{'port': port}], booted=False)['id']

    def neighbour(self, host):
        """The namespace of one on a host."""
        server = self.boot(host)
        self.fleet.act(server, 'os-stop')
        self.fleet.user_server(server, 'SHUTOFF')
        port, address = self.port(server)
        space, device = f'moves-{secrets.token_hex(3)}', 'tap' + port['id'][:11]
        bridge = json.loads(self.run('ip', '-n', self.fleet.namespace(host), '-json', 'link', 'show', 'type',
                                     'vxlan'))
        self.device = bridge[0]['ifname']
        self.run('ip', 'netns', 'add', space)
        self.spaces.append(space)
        outer = self.fleet.namespace(host)
        for words in ((outer, 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space),
                      (outer, 'link', 'set', device, 'master', bridge[0]['master'], 'up'),
                      (space, 'link', 'set', 'eth0', 'address', port['mac_address'], 'mtu', '1450', 'up'),
                      (space, 'address', 'add', f'{address}/24', 'dev', 'eth0')):
            self.run('ip', '-n', *words)
        return space

    def run(self, *words):
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout

    def reached(self, space, address):
        inside = ['ip', 'netns', 'exec', space] if space else []
        deadline = time.monotonic() + 300
        while subprocess.run([*inside, 'ping', '-c', '3', '-i', '0.2', '-W', '1', address],
                             stdout=subprocess.DEVNULL).returncode:
            assert time.monotonic() < deadline, f'{address} is not reached from {space or "outside"}'

    def slow(self, name):
        """A copy that takes long enough to be seen."""
        return self.fleet.slow(name, f'{self.bandwidth * 8}mbit') if self.bandwidth else contextlib.nullcontext()

    def migrate(self, source, dest):
        """Seconds of a migration: {'copy', 'pause', 'whole', 'announced', 'beyond': {way: beyond the pause}}."""
        events = Events(self.fleet, (source, dest))
        heard = Announcements(self.fleet.namespace(THIRD), self.device, self.mac)
        watched = {name: Pings(*way) for name, way in self.ways.items()}
        time.sleep(SETTLES_S)
        began = time.time()
        with self.slow(source):
            self.fleet.migrate_live(self.mover, dest)
            self.fleet.migrated(self.mover)
        ended = time.time()
        time.sleep(SETTLES_S)
        times = {name: each.times() for name, each in watched.items()}
        events.close()
        stop = max(each.at for each in events.found if each.kind == 'STOP' and each.host == source)
        resume = min(each.at for each in events.found if each.kind == 'RESUME' and each.host == dest)
        gaps = {name: max(later - earlier for earlier, later in zip(found, found[1:]))
                for name, found in times.items()}
        announced = min((at for at in heard.times() if at), default=0.0)
        return {'copy': stop - began, 'pause': resume - stop, 'whole': ended - began, 'announced': announced - resume,
                'beyond': {name: gap - (resume - stop) for name, gap in gaps.items()}}

    def close(self):
        for space in self.spaces:
            subprocess.run(['ip', 'netns', 'del', space])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('guest', type=pathlib.Path, help='directory of tools/guest-image.sh')
    parser.add_argument('--times', type=int, default=10, help='migrations (%(default)s)')
    parser.add_argument('--bandwidth', type=int, default=0, metavar='MIB',
                        help='MiB/s that the source may send; 0: as fast as it can (%(default)s)')
    parser.add_argument('--load', action='store_true', help='a second guest that computes without end')
    parser.add_argument('--json', action='store_true', help='print the figures of each migration as a line of JSON')
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error('It has network namespaces and guests of QEMU: run it as root.')
    if OWN_NAMESPACE not in os.environ:
        os.environ[OWN_NAMESPACE] = '1'
        command = ['unshare', *tempest_fleet.NAMESPACE, 'tini', '-s', '--', sys.executable, *sys.argv]
        os.execvp(command[0], command)
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    os.environ['NOVA_TEST_GUEST_DIR'] = str(given.guest.resolve())
    from nova.tests.integration import moving_cloud
    with moving_cloud.fleet(3, kind=tempest_fleet._fleet_kind(), **tempest_fleet.OPTIONS) as fleet:
        bench = Bench(fleet, given.bandwidth, given.load)
        try:
            found = []
            for number in range(given.times):
                found.append(bench.migrate(*((SOURCE, DEST) if number % 2 == 0 else (DEST, SOURCE))))
                print(json.dumps(found[-1]) if given.json else _line(found[-1]), flush=True)
        finally:
            bench.close()
    return report(found)


def _line(figures):
    beyond = ', '.join(f'{name} {seconds:.3f}' for name, seconds in figures['beyond'].items())
    copy, pause, announced = (figures[name] for name in ('copy', 'pause', 'announced'))
    return f'copy {copy:.1f} s, pause {pause:.3f} s, announced {announced:.3f} s later; beyond: {beyond}'


def report(found):
    """Print medians and worst of each way; the exit code."""
    good = True
    for name in found[0]['beyond']:
        values = [figures['beyond'][name] for figures in found]
        median, worst = statistics.median(values), max(values)
        good = good and median <= MEDIAN_S and worst <= WORST_S
        print(f'{name}: median {median:.3f} s, worst {worst:.3f} s beyond the pause of {len(values)} migrations')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
