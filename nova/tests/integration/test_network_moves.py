"""Frames and connections of a guest that moves between hosts, during the copy and when it runs elsewhere.

Hosts and guests are those of test_network_overlay.py. Two namespaces with the same MAC and address stand for the guest:
the one at the destination is silent until the guest "runs" there, and then sends what QEMU sends (``announce-self``).
tools/bench/network/live_migration.py measures the same with QEMU's guests.
"""
import contextlib
import json
import re
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from nova.network.linux import runner
from nova.tests import machine
from nova.tests.support import network_overlay as overlays
from nova.tests.support.waiting import settled
from nova.tests.support.waiting import wait_for

pytestmark = overlays.pytestmark
run = runner.Runner()
COPY_S, PAUSE_S = 3, 0.1
ALLOWED_S = 0.5                 # beyond the pause, on a quiet machine; the median of many is a fifth of that
ANNOUNCE = '''
import socket, sys
mac = bytes.fromhex(sys.argv[1].replace(':', ''))
frame = bytes([255] * 6) + mac + bytes.fromhex('80350001080006040003') + mac + bytes(4) + mac + bytes(4)
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind(('eth0', 0))
sock.send(frame.ljust(60, bytes(1)))
'''


# answers the last who asked, every 50 ms
ANSWERS = '''
import socket, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(('172.24.4.1', 7000))
print(1, flush=True)
address = sock.recvfrom(99)[1]
while True:
    sock.sendto(b'x', address)
    time.sleep(0.05)
'''
# how many answers there are within 3 s
ASKS = '''
import socket, time
print(1, flush=True)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(('', 7001))
sock.settimeout(0.5)
for _ in range({count}):
    sock.sendto(b'x', ('172.24.4.1', 7000))
end, found = time.monotonic() + 3, 0
while time.monotonic() < end:
    try:
        found += len(sock.recv(99))
    except TimeoutError:
        pass
print(found)
'''

def spawned(space, code):
    process = subprocess.Popen(['ip', 'netns', 'exec', space, 'python3', '-c', code], text=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


@pytest.fixture
def world(tmp_path):
    made, ended = overlays.World(tmp_path, agents=True, hosts=3), threading.Event()

    def report():                # a host that is silent for seven seconds loses its router
        while not ended.wait(1):
            made.report()
    reporter = threading.Thread(target=report)
    reporter.start()
    yield made
    ended.set()
    reporter.join()
    made.close()


def allowed():
    """Seconds beyond the pause, on this machine at this moment."""
    return ALLOWED_S * machine.slowness()


class Pings:
    """Echo requests every 10 ms from a namespace to an address, and when they were answered."""

    def __init__(self, space, address, stalls):
        self._stalls = stalls
        self._output = tempfile.TemporaryFile('w+')           # a pipe that is full would stop it
        self._process = subprocess.Popen(
            ['ip', 'netns', 'exec', space, 'ping', '-D', '-n', '-i', '0.01', '-W', '1', address], text=True,
            stdout=self._output, stderr=subprocess.STDOUT)

    def gaps(self):
        """[seconds between two answers without those of the machine itself], the longest first; ends it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(20)
        with self._output as printed:
            printed.seek(0)
            output = printed.read()
        times = [float(found) for found in re.findall(r'^\[([0-9.]+)\] .*bytes from', output, re.MULTILINE)]
        assert len(times) > 50, output[-500:]
        late = self._stalls.longest()
        return sorted((later - earlier - late for earlier, later in zip(times, times[1:])), reverse=True)

    def kill(self):
        self._process.kill()


@contextlib.contextmanager
def pings(*ways):
    stalls = machine.Stalls()
    found = [Pings(*way, stalls) for way in ways]
    try:
        yield found
    finally:
        stalls.end()
        for each in found:
            each.kill()


class Mover(overlays.Guest):
    """A guest that moves."""

    def __init__(self, world, *arguments):
        super().__init__(world, *arguments)
        self.world = world

    def expected_at(self, host):
        """It is prepared on a host: its device is there, and nothing sends."""
        vif, = host.client.prepare_for_instance(self.world.face.context, instance=self.instance, host=host.name)
        self.there = self.world.space('m' + self.port[:8])
        device = vif['devname']
        run('ip', '-n', host.space, 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.there)
        run('ip', '-n', self.there, 'link', 'set', 'eth0', 'address', self.mac, 'addrgenmode', 'none')
        run('ip', '-n', host.space, 'link', 'set', device, 'master', vif['network']['bridge'], 'up')
        self.inside(self.there, 'sysctl', '-qw', 'net.ipv4.conf.all.arp_notify=0')
        # as a tap that QEMU has opened: the bridge notices up to a second later that a device has its carrier
        run('ip', '-n', self.there, 'link', 'set', 'eth0', 'up')

    def inside(self, space, *words):
        return run('ip', 'netns', 'exec', space, *words)

    def not_expected_at(self, host):
        host.client.unprepare_for_instance(self.world.face.context, instance_uuid=self.instance.uuid, host=host.name)
        run('ip', '-n', host.space, 'link', 'del', self.vif['devname'])

    def runs_at(self, host):
        """What QEMU does: it stops here, and a moment later it runs there and announces itself."""
        neighbours = json.loads(self('ip', '-json', 'neighbour', 'show', 'dev', 'eth0'))
        self('ip', 'link', 'set', 'eth0', 'down')
        threading.Event().wait(PAUSE_S)
        # it knows its neighbours, as a guest does whose memory has come along
        run('ip', '-n', self.there, '-batch', '-', stdin='\n'.join([
            f'address add {self.address}/24 dev eth0', 'route add default via 10.0.0.1',
            *(f"neighbour replace {each['dst']} lladdr {each['lladdr']} dev eth0" for each in neighbours
              if 'lladdr' in each)]) + '\n')
        self.announce(self.there)
        self.host, self.space = host, self.there

    def announce(self, space):
        self.inside(space, 'python3', '-c', ANNOUNCE, self.mac)

    def has_moved_to(self, host):
        host.client.setup_for_instance(self.world.face.context, instance=self.instance, host=host.name)


def fdb(host, mover):
    """Hosts behind which a host's tunnel has the guest, and whether its bridge has it behind the tunnel."""
    device = 'vx' + mover.vif['network']['bridge'][2:]
    lines = [line for line in host.run('bridge', 'fdb', 'show', 'dev', device).splitlines()
             if line.startswith(mover.mac)]
    return sorted(re.findall(r'dst (\S+)', ' '.join(lines))), any('master' in line for line in lines)


def settles(mover, *tables):
    """Hosts, which are told over the bus, come to have a guest at these places.

    :param tables: (host, what fdb() returns)
    """
    def check():
        assert [fdb(host, mover) for host, _wanted in tables] == [wanted for _host, wanted in tables]
    settled(check)


def fleet(world):
    """A guest that moves from the first host to the second, and [(namespace, address)] to reach it by: from a guest on
    each host, and from outside by its floating address.
    """
    external, network = world.outside(), world.network()
    world.router(network, external=external)
    mover = Mover(world, world.hosts[0], network, 'mover', 'p1', None)
    others = [world.boot(number, network, f'guest{number}') for number in range(3)]
    for guest in (mover, *others):
        guest.dhcp()
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    answer = world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'}})
    assert answer.status_code == 201, answer.text
    floating = world.make('demo', 'floatingips', floating_network_id=external, port_id=mover.port)
    ways = [*((guest.space, mover.address) for guest in others), (world.outer, floating['floating_ip_address'])]
    world.report()
    wait_for(lambda: all(overlays.pings_from(*way) for way in ways), 20, 'the guest to be reached')
    return mover, ways


def test_frames_follow_a_guest_when_it_runs_elsewhere(world):
    """From its source, its destination and a third host they reached it no more as soon as the copy began."""
    mover, ways = fleet(world)
    source, dest, third = world.hosts
    with pings(*ways) as watched:
        mover.expected_at(dest)
        wait_for(lambda: '192.0.2.2' in str(third.run('bridge', 'fdb', 'show')), 10, 'the third host to expect it')
        threading.Event().wait(COPY_S)
        settles(mover, (third, (['192.0.2.1'], True)), (source, (['192.0.2.2'], False)))
        assert max(each.gaps()[0] for each in watched) < allowed()
    with pings(*ways) as watched:
        threading.Event().wait(0.5)
        began = time.monotonic()
        mover.runs_at(dest)
        paused = time.monotonic() - began
        settles(mover, (third, (['192.0.2.2'], True)), (source, (['192.0.2.2'], True)))
        for host in world.hosts:                 # a refresh undoes nothing
            host.manager.sync()
        mover.has_moved_to(dest)
        threading.Event().wait(1)
        gaps = [each.gaps()[:2] for each in watched]
    assert max(longest for longest, _next in gaps) < paused + allowed(), (gaps, paused)
    assert max(after for _longest, after in gaps) < allowed(), gaps
    settles(mover, (third, (['192.0.2.2'], True)), (dest, ([], False)))
    wait_for(lambda: not any(host.driver.linux.switchover.process.is_alive() for host in world.hosts), 10,
             'nothing to be expected')


def test_switches_of_a_vlan_learn_where_a_guest_runs(world):
    """What QEMU announces was dropped: they learned it from the next frame of the guest."""
    for name, value in (('manager', 'VlanManager'), ('vlan_ranges', ['wire:100:101'])):
        world.face.conf.set_override(name, value, group='network')
    mover, ways = fleet(world)
    _source, dest, _third = world.hosts
    with pings(*ways) as watched:
        mover.expected_at(dest)
        threading.Event().wait(COPY_S)
        assert max(each.gaps()[0] for each in watched) < allowed()
    with pings(*ways) as watched:
        threading.Event().wait(0.5)
        began = time.monotonic()
        mover.runs_at(dest)
        paused = time.monotonic() - began
        threading.Event().wait(1)
        assert max(each.gaps()[0] for each in watched) < paused + allowed()


def test_answers_to_what_a_guest_began_pass_the_filters_where_it_arrives(world):
    """No rule lets them in: they passed at the source because of a connection that the destination did not know."""
    mover, _ways = fleet(world)
    source, dest, _third = world.hosts
    answers = spawned(world.outer, ANSWERS)
    asks = spawned(mover.space, ASKS.format(count=1))
    assert int(asks.communicate(timeout=20)[0]) > 10
    mover.expected_at(dest)
    threading.Event().wait(COPY_S)
    hears = ASKS.format(count=0)                    # it sends nothing, so that nothing is begun there
    mover.runs_at(dest)
    heard = spawned(mover.space, hears)
    assert int(heard.communicate(timeout=20)[0]) > 10
    answers.kill()


def test_nothing_switches_for_a_migration_that_is_cancelled(world):
    mover, ways = fleet(world)
    source, dest, third = world.hosts
    with pings(*ways) as watched:
        mover.expected_at(dest)
        settles(mover, (third, (['192.0.2.1'], True)), (source, (['192.0.2.2'], False)))
        mover.announce(mover.space)              # the guest itself, where it runs: it is not let pass
        threading.Event().wait(1)
        assert fdb(third, mover) == (['192.0.2.1'], True) and fdb(source, mover) == (['192.0.2.2'], False)
        mover.not_expected_at(dest)
        threading.Event().wait(1)
        assert max(each.gaps()[0] for each in watched) < allowed()
    settles(mover, (third, (['192.0.2.1'], True)), (source, ([], False)))
