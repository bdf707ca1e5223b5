"""VLAN devices where the kernel has none (8021q): a pair of devices, and a process that puts tags on frames.

What is on the wire is the same as with the kernel's own. The process fills in checksums of UDP and TCP that the sender
has left to its card. Packets larger than the MTU, which the sender's card would divide, are lost.
"""
import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
import uuid

from nova.network.linux import runner

OPENED = """
import contextlib, select, socket, struct, sys
def opened(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((name, 0))
    sock.setsockopt(263, 8, 1)                     # SOL_PACKET, PACKET_AUXDATA: the tag, which the kernel takes off
    sock.setsockopt(263, 1, struct.pack('iHH8s', socket.if_nametoindex(name), 1, 0, b''))      # PACKET_MR_PROMISC
    return sock
def finished(frame):
    kind, protocol, start = frame[12:14], frame[23], 14 + (frame[14] & 15) * 4
    if kind != b'\\x08\\x00' or protocol not in (6, 17):
        return frame
    end, where = 14 + int.from_bytes(frame[16:18], 'big'), start + (6 if protocol == 17 else 16)
    data = frame[start:where] + bytes(2) + frame[where + 2:end]
    data = frame[26:34] + struct.pack('!BBH', 0, protocol, len(data)) + data + bytes(len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return frame[:where] + struct.pack('!H', ~total & 0xffff or 0xffff) + frame[where + 2:]
def received(sock):
    frame, more, _flags, address = sock.recvmsg(1 << 16, 128)
    for level, kind, data in more:
        if (level, kind) == (263, 8):
            status, _length, _kept, _mac, _net, tag, _kind = struct.unpack('IIIHHHH', data[:20])
            if status & 8:                         # TP_STATUS_CSUMNOTREADY
                frame = finished(frame)
            return frame, tag & 4095 if status & 16 else None, address[2] == 4
"""
DEVICE = OPENED + """
trunk, inner, vlan = opened(sys.argv[1]), opened(sys.argv[2]), int(sys.argv[3])
print(1, flush=True)
while True:
    for sock in select.select([trunk, inner], [], [])[0]:
        frame, tag, own = received(sock)
        with contextlib.suppress(OSError if len(frame) > 1514 else ()):
            if own:
                continue
            if sock is inner:
                trunk.send(frame[:12] + struct.pack('!HH', 0x8100, vlan) + frame[12:])
            elif tag == vlan:
                inner.send(frame)
"""
TAGS = OPENED + """
sock = opened(sys.argv[1])
print(1, flush=True)
while True:
    frame, tag, own = received(sock)
    if tag:
        print(tag, flush=True)
"""


@functools.cache
def in_kernel():
    """Whether this kernel has VLAN devices."""
    space, run = 'nv8021q' + uuid.uuid4().hex[:6], runner.Runner()
    run('ip', 'netns', 'add', space)
    try:
        run('ip', '-n', space, 'link', 'add', 'wire', 'type', 'bridge')
        return not subprocess.run(['ip', '-n', space, 'link', 'add', 'link', 'wire', 'name', 'tagged', 'type', 'vlan',
                                   'id', '7'], capture_output=True).returncode
    finally:
        run('ip', 'netns', 'del', space)


class Runner(runner.Runner):
    """Runs commands on a host; those that make and show VLAN devices by the process, where the kernel does not."""

    def __init__(self, prefix=()):
        super().__init__(prefix)
        self._made = {}                             # {name: (trunk, VLAN)}

    def __call__(self, *words, **more):
        if words[:4] == ('ip', 'link', 'add', 'link') and 'vlan' in words and not in_kernel():
            return self._make(trunk=words[4], name=words[6], mtu=words[8], vlan=words[-1])
        if words[-2:] == ('type', 'vlan') and not in_kernel():
            return json.dumps([{'ifname': name, 'link': trunk} for name, (trunk, _vlan) in self._made.items()
                               if self.link(name) is not None])
        printed = super().__call__(*words, **more)
        name = words[-1] if words[:2] == ('ip', '-json') and 'show' in words else None
        if name in self._made and printed:
            trunk, vlan = self._made[name]
            link, = json.loads(printed)
            printed = json.dumps([{**link, 'link': trunk, 'linkinfo': {'info_data': {'id': vlan}}}])
        return printed

    def _make(self, trunk, name, mtu, vlan):
        peer = 'vp' + name[2:]
        super().__call__('ip', 'link', 'add', 'name', name, 'mtu', mtu, 'type', 'veth', 'peer', 'name', peer)
        super().__call__('ip', 'link', 'set', 'dev', peer, 'addrgenmode', 'none', 'up')
        self._made[name] = (trunk, int(vlan))
        # it ends when its devices are gone: by itself, with an error of its socket
        process = subprocess.Popen([*self.prefix, sys.executable, '-c', DEVICE, trunk, peer, vlan],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        threading.Thread(target=process.wait, daemon=True).start()
        return ''


@contextlib.contextmanager
def tags(space, device):
    """A set of the VLANs of frames that pass a device during the block."""
    found = set()
    process = subprocess.Popen(['ip', 'netns', 'exec', space, sys.executable, '-u', '-c', TAGS, device],
                               stdout=subprocess.PIPE, env=os.environ)
    process.stdout.readline()
    yield found
    process.terminate()
    found.update(int(line) for line in process.stdout.read().split())
    process.wait()
