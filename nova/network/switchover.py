"""Forward frames for a guest that moves to the host where it runs, at the moment when it starts there.

QEMU announces each interface of a guest that has arrived: a broadcast RARP request with the interface's MAC, sent when
the guest starts to run (``announce-self``), and four more in the next second. The filters let this frame pass only from
the devices of guests that arrive on a host. When it comes out of the tunnel of a network, this process changes the two
entries for that MAC: the one of the tunnel (behind which host) and the one of the bridge (behind the tunnel).

This file is also the program of that process. It imports nothing of this product, because it is run by its path. It has
a socket to its parent: JSON messages ``{'device', 'moving': [[MAC, address of the host that expects it]]}`` set what is
expected behind a device, in place of the last such message; an answer ``[device, MAC, address]`` goes before each
change. It ends when its parent does.
"""
from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import json
import select
import socket
import struct
import sys
from typing import Any

RARP, REQUEST = 0x8035, 3                     # RFC 903
MAX_MOVING = 1000                             # MACs of one device; others follow with the next look of the service
MESSAGE = 128 << 10                           # bytes of a message, which holds MAX_MOVING
_ANNOUNCEMENT = struct.Struct('!6s6sHHHBBH6s')      # destination, source, type; hardware, protocol, sizes, operation
# linux/if_packet.h, linux/if_ether.h, linux/filter.h. A socket for one protocol gets nothing of what a bridge takes.
_SOL_PACKET, _IGNORE_OUTGOING, _ALL, _ATTACH_FILTER = 263, 23, 3, 26
_ANNOUNCEMENTS = ((0x28, 0, 0, 12), (0x15, 0, 1, RARP), (6, 0, 0, 64), (6, 0, 0, 0))     # frames whose type is RARP
# linux/rtnetlink.h, linux/neighbour.h
_NEWNEIGH, _ERROR, _BRIDGE = 28, 2, 7
_REQUESTED = 0x1 | 0x4 | 0x100 | 0x400        # NLM_F_REQUEST, ACK, REPLACE, CREATE
_SELF, _MASTER = 0x02, 0x04                   # NTF_SELF: the tunnel's own table; NTF_MASTER: that of its bridge
_STATIC, _PERMANENT = 0x42, 0xc0              # as "static" and "permanent" of bridge(8)
_DESTINATION, _MAC = 1, 2                     # NDA_DST, NDA_LLADDR


def announced(frame: bytes) -> str | None:
    """The MAC that an announcement is about, or None for any other frame."""
    if len(frame) < _ANNOUNCEMENT.size:
        return None
    _all, source, kind, _hardware, _protocol, _sizes, _size, operation, sender = _ANNOUNCEMENT.unpack_from(frame)
    if kind != RARP or operation != REQUEST or source != sender:
        return None
    return ':'.join(f'{byte:02x}' for byte in source)


def requests(index: int, mac: str, address: str) -> list[bytes]:
    """Messages of rtnetlink by which frames for a MAC go through a tunnel to a host.

    :param index: of the tunnel's device
    """
    hardware = bytes.fromhex(mac.replace(':', ''))
    found = []
    for flags, state, more in ((_SELF, _PERMANENT, _attribute(_DESTINATION, ipaddress.ip_address(address).packed)),
                               (_MASTER, _STATIC, b'')):
        body = struct.pack('=BBHiHBB', _BRIDGE, 0, 0, index, state, flags, 0) + _attribute(_MAC, hardware) + more
        found.append(struct.pack('=IHHII', 16 + len(body), _NEWNEIGH, _REQUESTED, 1, 0) + body)
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack('=HH', 4 + len(value), kind) + value + bytes(-len(value) % 4)


def listener(device: str) -> socket.socket:
    """What gets the announcements that come out of a tunnel.

    :raises OSError: there is no such device
    """
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        program = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *each) for each in _ANNOUNCEMENTS))
        made.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER,
                        struct.pack('HP', len(_ANNOUNCEMENTS), ctypes.addressof(program)))
        made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        made.setblocking(False)
        made.bind((device, _ALL))
    except OSError:
        made.close()
        raise
    return made


class Switchover:
    """The state of the process.

    :param control: socket to the parent
    :param kernel: socket of rtnetlink
    """

    def __init__(self, control: socket.socket, kernel: socket.socket) -> None:
        self._control, self._kernel = control, kernel
        self._moving: dict[str, dict[str, str]] = {}
        self._listeners: dict[socket.socket, str] = {}

    def run(self) -> None:
        """Switch until the parent has closed its end."""
        while True:
            ready, _, _ = select.select([self._control, *self._listeners], [], [])
            for each in ready:
                if each is not self._control:
                    self._hear(each)
            if self._control in ready:
                text = self._control.recv(MESSAGE)
                if not text:
                    return
                message = json.loads(text)
                self._expect(message['device'], dict(message['moving']))

    def _expect(self, device: str, moving: dict[str, str]) -> None:
        self._moving[device] = moving
        for each in [each for each, name in self._listeners.items() if name == device]:
            del self._listeners[each]
            each.close()
        if moving:
            try:
                self._listeners[listener(device)] = device
            except OSError as error:
                _complain(f'No guest that moves is followed on {device}: {error}')

    def _hear(self, ready: socket.socket) -> None:
        device, frame = self._listeners[ready], b''
        with contextlib.suppress(OSError):               # the device is gone
            frame = ready.recv(64)
        mac = announced(frame)
        address = self._moving[device].pop(mac, None) if mac else None
        if mac and address:
            # first: what the parent reads after it has seen the change
            self._control.send(json.dumps([device, mac, address]).encode())
            _switch(self._kernel, device, mac, address)


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _switch(kernel: socket.socket, device: str, mac: str, address: str) -> None:
    """Change both entries; the parent repairs what fails here with its next look."""
    try:
        for request in requests(socket.if_nametoindex(device), mac, address):
            kernel.send(request)
            answer = kernel.recv(4096)
            kind, = struct.unpack_from('=H', answer, 4)
            number = -struct.unpack_from('=i', answer, 16)[0] if kind == _ERROR else 0
            if number:
                _complain(f'Cannot forward {mac} on {device} to {address}: error {number}')
    except OSError as error:
        _complain(f'Cannot forward {mac} on {device} to {address}: {error}')


def main(arguments: list[Any]) -> None:
    """:param arguments: the number of the socket to the parent"""
    with (socket.socket(fileno=int(arguments[0])) as control,
          socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel):
        kernel.settimeout(1)
        Switchover(control, kernel).run()


if __name__ == '__main__':
    main(sys.argv[1:])
