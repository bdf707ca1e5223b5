"""Neighbour discovery in fragments (RFC 6980): no guest says or hears it, and other fragments pass."""
import subprocess

import pytest

from nova.tests import long_runs
from nova.tests.support import network_overlay as overlay

pytestmark = overlay.pytestmark

SEND = '''
import ipaddress, socket, struct, sys
device, mac, source, target, target_mac = sys.argv[1:]
own, far = (ipaddress.ip_address(each).packed for each in (source, target))
FRAGMENT, OPTIONS, ICMP, UDP = 44, 60, 58, 17

def summed(upper, number):
    text = own + far + struct.pack('!IxxxB', len(upper), number) + upper
    total = sum(struct.unpack(f'!{len(text) // 2}H', text))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def icmp(number, body):
    empty = struct.pack('!BBH', number, 0, 0) + body
    return struct.pack('!BBH', number, 0, summed(empty, ICMP)) + body

advert = icmp(134, struct.pack('!BBHII', 64, 0, 1800, 0, 0))
solicit = icmp(135, bytes(4) + far)
udp = struct.pack('!HHHH', 9, 5353, 24, 0) + b'x' * 16
udp = udp[:6] + struct.pack('!H', summed(udp, UDP)) + udp[8:]
# of options that go on in the second fragment; of one message in two; of a datagram in two
kinds = [(OPTIONS, struct.pack('!BBBB', ICMP, 1, 1, 12) + bytes(12) + advert), (ICMP, solicit), (UDP, udp)]
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((device, 0))
ethernet = bytes.fromhex(target_mac.replace(':', '') + mac.replace(':', '')) + b'\\x86\\xdd'
for number, (following, payload) in enumerate(kinds):
    for offset in range(0, len(payload), 8):
        piece = payload[offset:offset + 8]
        fragment = struct.pack('!BBHI', following, 0, offset | (offset + 8 < len(payload)), number + 7)
        header = struct.pack('!IHBB', 6 << 28, len(piece) + 8, FRAGMENT, 255)
        link.send(ethernet + header + own + far + fragment + piece)
'''
# A host puts fragments together to look at them: they may arrive as they would have been without.
HEAR = '''
import ipaddress, socket, sys, time
mac, own = sys.argv[1], ipaddress.ip_address(sys.argv[2]).packed
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(0x86dd))
link.bind(('eth0', 0))
link.settimeout(0.3)
print('ready', flush=True)
end, kinds = time.monotonic() + 4, set()
while time.monotonic() < end:
    try:
        frame = link.recv(2000)
    except TimeoutError:
        continue
    if frame[6:12].hex(':') != mac:
        continue
    kind = frame[54] if frame[20] == 44 else frame[20]
    if kind in (17, 60) or kind == 58 and (frame[20] == 44 or frame[54] == 135 and frame[62:78] == own):
        kinds.add(kind)
print(*sorted(kinds))
'''


@pytest.mark.parametrize('secured', long_runs.rest([True, False]))
def test_neighbours_are_not_found_by_fragments(tmp_path, secured):
    world = overlay.World(tmp_path)
    try:
        network = world.network()
        world.make('demo', 'subnets', network_id=network, cidr='fd00:7::/64', ip_version=6, ipv6_ra_mode='slaac',
                   ipv6_address_mode='slaac')
        first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
        group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
        assert world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': group, 'direction': 'ingress', 'ethertype': 'IPv6'}}).status_code == 201
        if not secured:                                 # it may say what it likes: what the other one hears counts
            world.put('demo', f'ports/{first.port}', {'port': {'security_groups': [], 'port_security_enabled': False}})
        world.report()
        own, far = (next(ip['address'] for subnet in guest.vif['network']['subnets'] if subnet['version'] == 6
                         for ip in subnet['ips']) for guest in (first, second))
        listener = subprocess.Popen(['ip', 'netns', 'exec', second.space, 'python3', '-c', HEAR, first.mac, far],
                                    stdout=subprocess.PIPE, text=True)
        listener.stdout.readline()
        first('python3', '-c', SEND, 'eth0', first.mac, own, far, second.mac)
        assert listener.communicate()[0].split() == ['17']
    finally:
        world.close()
