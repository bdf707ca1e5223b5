"""Ranges of addresses that a port may send from, against guests that tell one packet from another by its MAC.

One host: its bridge and filters in a network namespace, guests in others. ``closed`` has an address of the range of
``wide``, and lets nothing in. ``sender`` works together with ``wide`` against it.
"""
import contextlib
import dataclasses
import subprocess
import uuid

import pytest

from nova.network.host import state as host_state
from nova.network.linux import rules

BRIDGE, RANGE = 'br' + '0' * 12, '10.0.0.0/24'
GUESTS = {'wide': ('fa:16:3e:00:00:06', '10.0.0.6'), 'closed': ('fa:16:3e:00:00:07', '10.0.0.7'),
          'sender': ('fa:16:3e:00:00:09', '10.0.0.9')}
MACS, ADDRESSES = ({name: both[number] for name, both in GUESTS.items()} for number in (0, 1))
HEARS = """
import socket, time
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
heard.settimeout(0.5)
print("ready", flush=True)
input()
while True:
    try:
        data = heard.recv(200)
    except TimeoutError:
        break
    if data[23] == 17:
        print(data[42:].rstrip(b"\\0").decode())
"""
SENDS = """
import socket, sys
source, sport, to, port, text = sys.argv[1:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((source, int(sport)))
s.sendto(text.encode(), (to, int(port)))
"""


def run(*command, given=None):
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=30).stdout


def row(direction):
    return {'direction': direction, 'ethertype': 'IPv4', 'protocol': None, 'port_range_min': None,
            'port_range_max': None, 'remote_ip_prefix': None, 'remote_group_id': None}


class World:
    """
    :param spaces: {'host' or name of a guest: its namespace}
    """

    def __init__(self, spaces):
        self._spaces = spaces
        host = spaces['host']
        run('ip', '-n', host, 'link', 'add', BRIDGE, 'type', 'bridge', 'forward_delay', '0', 'nf_call_iptables', '1',
            'nf_call_ip6tables', '1')
        run('ip', '-n', host, 'link', 'set', BRIDGE, 'up')
        for name, (mac, address) in GUESTS.items():
            run('ip', '-n', host, 'link', 'add', 'tap' + name, 'type', 'veth', 'peer', 'name', 'eth0', 'address', mac,
                'netns', spaces[name])
            run('ip', '-n', host, 'link', 'set', 'tap' + name, 'master', BRIDGE, 'up')
            run('bridge', '-n', host, 'fdb', 'add', mac, 'dev', 'tap' + name, 'master', 'static')    # as if it had sent
            run('ip', '-n', spaces[name], 'address', 'add', address + '/24', 'dev', 'eth0')
            run('ip', '-n', spaces[name], 'link', 'set', 'eth0', 'up')
            for other in GUESTS:
                self.believes(name, other, MACS[other])

    def believes(self, name, other, mac):
        """Let a guest send to a MAC what is for the address of another one."""
        if name != other:
            run('ip', '-n', self._spaces[name], 'neigh', 'replace', ADDRESSES[other], 'lladdr', mac, 'dev', 'eth0',
                'nud', 'permanent')

    def filters(self, group, pair_mac=None):
        """Load the filters of this host; ``wide`` has its range and the group, ``sender`` lets everything pass.

        :param pair_mac: with which ``wide`` may send from the range; None: its own
        """
        ports = [host_state.Port(
            name, 'tap' + name, mac, BRIDGE, [address], [{'wide': group, 'closed': 'closed', 'sender': 'open'}[name]],
            [{'ip_address': RANGE, 'mac_address': pair_mac}] if name == 'wide' else [])
            for name, (mac, address) in GUESTS.items()]
        overlay = host_state.Overlay('network', BRIDGE, 1, 1450, 'fa:16:3e:00:00:01', [
            host_state.OverlaySubnet(RANGE, '10.0.0.1', '10.0.0.2', [], [], None)], [], [])
        state = dataclasses.replace(host_state.HostState(
            networks=[], ports=ports, members={}, rules={
                'open': [row('egress'), row('ingress')], 'closed': [], 'sends': [row('egress')]}),
            overlays=[overlay], tunnel='')
        run('ip', 'netns', 'exec', self._spaces['host'], 'nft', '-f', '-', given=rules.script('ranges', state, {}))

    def send(self, name, text, to, source=None, ports=(4444, 53)):
        run('ip', 'netns', 'exec', self._spaces[name], 'python3', '-c', SENDS, source or ADDRESSES[name],
            str(ports[0]), ADDRESSES[to], str(ports[1]), text)

    @contextlib.contextmanager
    def heard(self, name):
        """A list that has, after the block, the texts of the datagrams that come to a guest's device meanwhile."""
        found = []
        with subprocess.Popen(['ip', 'netns', 'exec', self._spaces[name], 'python3', '-c', HEARS], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout.readline() == 'ready\n'
                yield found
                found += process.communicate('\n', timeout=30)[0].splitlines()
            finally:
                process.kill()

    def has(self, name, address):
        """Give a guest one more address."""
        run('ip', '-n', self._spaces[name], 'address', 'add', address + '/32', 'dev', 'eth0')


@pytest.fixture
def world():
    prefix = 'range' + uuid.uuid4().hex[:6]
    spaces = {name: prefix + name for name in ('host', *GUESTS)}
    with contextlib.ExitStack() as stack:
        for space in spaces.values():
            try:
                run('ip', 'netns', 'add', space)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f'no network namespaces: {error}')
            stack.callback(run, 'ip', 'netns', 'del', space)
        yield World(spaces)


def test_traffic_to_an_address_range_does_not_open_a_guest_with_an_address_in_it(world):
    """The same five facts of a connection, to the MAC of the port with the range first."""
    world.filters('open')
    with world.heard('closed') as closed, world.heard('wide') as wide:
        world.send('sender', 'refused', 'closed')
        world.believes('sender', 'closed', MACS['wide'])
        world.send('sender', 'of the range', 'closed')
        world.believes('sender', 'closed', MACS['closed'])
        world.send('sender', 'refused again', 'closed')
    assert closed == [] and wide == ['of the range']


def test_traffic_from_a_range_does_not_open_replies_to_another_guest(world):
    world.filters('open')
    world.has('wide', ADDRESSES['closed'])
    with world.heard('closed') as closed, world.heard('sender') as sender:
        world.send('wide', 'from the range', 'sender', source=ADDRESSES['closed'], ports=(53, 4444))
        world.send('sender', 'no reply', 'closed')
    assert closed == [] and sender == ['from the range']


@pytest.mark.parametrize('pair, to', [(None, 'fa:16:3e:00:00:77'), ('fa:16:3e:00:00:66', MACS['wide'])])
def test_traffic_to_a_range_by_another_mac_does_not_open_replies_from_a_guest(world, pair, to):
    """A MAC that nobody has, whose frames the bridge gives to all, and one that the port has without the range."""
    world.filters('open', pair)
    world.believes('sender', 'closed', to)
    with world.heard('sender') as sender:
        world.send('sender', 'for the range', 'closed')
        world.send('closed', 'no reply', 'sender', ports=(53, 4444))
    assert sender == []


def test_a_port_with_a_range_is_answered_at_its_own_address_and_at_those_of_the_range(world):
    """Its own address is in the range, and its group lets nothing in but replies."""
    world.filters('sends')
    world.has('wide', '10.0.0.66')
    world.believes('sender', 'closed', MACS['wide'])
    with world.heard('wide') as wide:
        world.send('sender', 'refused', 'wide')
        world.send('wide', 'question', 'sender', ports=(53, 4444))
        world.send('sender', 'reply', 'wide')
        world.has('wide', ADDRESSES['closed'])
        world.send('wide', 'question', 'sender', source=ADDRESSES['closed'], ports=(53, 4444))
        world.send('sender', 'reply to the range', 'closed')
    assert wide == ['reply', 'reply to the range']
