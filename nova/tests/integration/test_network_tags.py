"""Frames with tags of VLANs from a guest without port security, in namespaces: the kernel's own view of them."""
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

import pytest

from nova.network import relay
from nova.network.host import state
from nova.network.linux import frames

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, ('ip', 'nft'))),
                                reason='needs root, iproute2 and nftables')
GUEST, ROUTER = 'fa:16:3e:00:00:01', 'fa:16:3e:00:00:02'
OWN, ANOTHER = '10.7.0.77', '10.0.0.5'
TAGS = {'none': b'', '802.1Q': b'\x81\0\0\0', '802.1ad': b'\x88\xa8\0\0', 'both': b'\x88\xa8\0\0\x81\0\0\0'}
# in the guest: sends a SYN under an address, in a frame with a tag, and says whether it is answered
SEND = """
import select, socket, sys, time
frame, end = bytes.fromhex(sys.argv[1]), time.monotonic() + float(sys.argv[2])
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.bind(('eth0', 0))
sock.send(frame)
while time.monotonic() < end:
    if select.select([sock], [], [], 0.1)[0]:
        got = sock.recv(2000)
        if got[12:14] == b'\\x08\\0' and got[23] == 6 and got[30:34] == frame[-28:-24] and got[47] == 0x12:
            sys.exit('answered')
"""


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def _sum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def syn(source, tag):
    """A frame with the begin of a connection to the metadata service."""
    ends = socket.inet_aton(source) + socket.inet_aton(relay.ADDRESS)
    tcp = struct.pack('!HHIIBBHHH', 40000, 80, 1000, 0, 5 << 4, 2, 65000, 0, 0)
    tcp = tcp[:16] + struct.pack('!H', _sum(ends + struct.pack('!BBH', 0, 6, len(tcp)) + tcp)) + tcp[18:]
    head = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + ends
    head = head[:10] + struct.pack('!H', _sum(head)) + head[12:]
    macs = bytes.fromhex((ROUTER + GUEST).replace(':', ''))
    return macs + tag + b'\x08\0' + head + tcp


@pytest.fixture
def places():
    """Namespaces of a host with the filter, of its guest, and of a router whose routes lead answers to the guest."""
    names = [f'nova-tags-{os.getpid()}-{each}' for each in ('host', 'guest', 'router')]
    host, guest, router = names
    with contextlib.ExitStack() as stack:
        for name in names:
            run('ip', 'netns', 'add', name)
            stack.callback(run, 'ip', 'netns', 'del', name)
        run('ip', '-n', host, '-batch', '-', input=f"""
link add br0 type bridge stp_state 0 forward_delay 0
link set br0 up
link add tap0 type veth peer name eth0 address {GUEST} netns {guest}
link add nr0 type veth peer name nr0 address {ROUTER} netns {router}
link set tap0 master br0 up
link set nr0 master br0 up
""")
        run('ip', '-n', guest, 'link', 'set', 'eth0', 'up')
        run('ip', '-n', router, '-batch', '-', input=f"""
link set lo up
link set nr0 up
address add 10.7.0.1/24 dev nr0
address add {relay.ADDRESS}/32 dev lo
neighbour add {OWN} lladdr {GUEST} dev nr0
route add {ANOTHER}/32 via {OWN}
""")
        port = state.Port('p', 'tap0', GUEST, 'br0', [OWN], [], port_security=False)
        rules = '\n'.join(frames.from_guest(port))
        run('ip', 'netns', 'exec', host, 'nft', '-f', '-', input=(
            f'table bridge t {{\nchain c {{\n{rules}\n}}\nchain p {{\ntype filter hook prerouting priority -300\n'
            'iifname "tap0" jump c\n}\n}\n'))
        listener = stack.enter_context(subprocess.Popen(
            ['ip', 'netns', 'exec', router, sys.executable, '-c', 'import socket, time\n'
             f's = socket.create_server(({relay.ADDRESS!r}, 80))\nprint("up", flush=True)\ntime.sleep(60)'],
            stdout=subprocess.PIPE, text=True))
        stack.callback(listener.kill)
        assert listener.stdout.readline() == 'up\n'
        yield guest


def answered(guest, source, tag, seconds=0.5):
    done = subprocess.run(['ip', 'netns', 'exec', guest, sys.executable, '-c', SEND, syn(source, tag).hex(),
                           str(seconds)], capture_output=True, text=True)
    return 'answered' in done.stderr


def test_no_tag_hides_who_asks_for_metadata(places):
    """With the tag 0 of 802.1ad a guest got the metadata of the server whose address it sent from."""
    deadline = time.monotonic() + 120
    while not answered(places, OWN, b''):
        assert time.monotonic() < deadline
    assert {name: answered(places, ANOTHER, tag) for name, tag in TAGS.items()} == dict.fromkeys(TAGS, False)
