"""Follow migrating guests: redirect their frames to the destination host, and copy their conntrack entries to it.

When a guest starts on the destination host (``announce-self``), QEMU broadcasts an announcement for each interface: a
RARP request with the MAC of the interface. It repeats the announcement four times in the next second. The filters of a
host let announcements pass only from devices of guests that migrate to the host. When an announcement arrives from the
tunnel of a network, this process changes both FDB entries of the MAC: the remote host in the tunnel's FDB, and the
tunnel port in the bridge's FDB.

The source host sends the conntrack entries of the guest's TCP and UDP connections to the destination host: every
second, and once more after the announcement. Without these entries, the filters of the destination host would drop
replies to the guest's connections. Each datagram is signed with a key that the network service gives both hosts for
this migration. The security groups of the guest also apply to these connections.

This process runs this file by its path, so the file imports no module of nova. The process exchanges JSON messages
with its parent over a socket:

* ``{'device', 'moving': [[MAC, address of the destination host]]}`` from the parent sets a tunnel's migrating MACs.
* ``[device, MAC, address]`` is sent to the parent before the process changes the FDB entries of the MAC.
* ``{'flows': [MigratingGuest as an object]}`` from the parent sets the guests of which connections are copied.

The process exits with its parent.
"""
import contextlib
import ctypes
import dataclasses
import hashlib
import hmac
import ipaddress
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

RARP, REQUEST = 0x8035, 3                     # RFC 903
MAX_MOVING = 1000  # maximum migrating MACs of a tunnel device; a later refresh sends the others
MESSAGE = 128 << 10                           # bytes of a message with MAX_MOVING entries
_ANNOUNCEMENT = struct.Struct('!6s6sHHHBBH6s')      # destination, source, type; hardware, protocol, sizes, operation
# linux/if_packet.h, linux/if_ether.h, linux/filter.h. _ALL: sockets of one protocol miss frames that a bridge takes.
_SOL_PACKET, _IGNORE_OUTGOING, _ALL, _ATTACH_FILTER = 263, 23, 3, 26
_ANNOUNCEMENTS = ((0x28, 0, 0, 12), (0x15, 0, 1, RARP), (6, 0, 0, 64), (6, 0, 0, 0))     # BPF: frames of type RARP
# linux/rtnetlink.h, linux/neighbour.h
_NEWNEIGH, _ERROR, _BRIDGE = 28, 2, 7
_REQUESTED = 0x1 | 0x4 | 0x100 | 0x400        # NLM_F_REQUEST, ACK, REPLACE, CREATE
_SELF, _MASTER = 0x02, 0x04                   # NTF_SELF: FDB of the tunnel; NTF_MASTER: FDB of the bridge
_STATIC, _PERMANENT = 0x42, 0xc0              # "static" and "permanent" of bridge(8)
_DESTINATION, _MAC = 1, 2                     # NDA_DST, NDA_LLADDR
PORT = 4788                                   # UDP port that receives connections of incoming guests
MAX_FLOWS = 4096                              # maximum connections of a guest that are copied
SEND_S = 1                                    # interval between two copies of a guest's connections
FLOWS_OF_MESSAGE = 12                         # connections in a datagram that fits into an Ethernet frame
DATAGRAM = 2048
# linux/netfilter/nfnetlink_conntrack.h
_GET_FLOW, _NEW_FLOW, _DONE = 0x101, 0x100, 3
_DUMP, _CREATE = 0x1 | 0x300, 0x1 | 0x4 | 0x400 | 0x200      # REQUEST and DUMP; REQUEST, ACK, CREATE and EXCL
_NESTED = 0x8000
_ORIGINAL, _REPLY, _STATUS, _STATE, _TIMEOUT, _ZONE, _FILTER = 1, 2, 3, 4, 7, 18, 25
_SEEN_REPLY, _ESTABLISHED = 0x2, 3
_KNOWN = 0x2 | 0x4 | 0x8                      # IPS_SEEN_REPLY, ASSURED, CONFIRMED
_LIBERAL = b'\x08\x08'                        # IP_CT_TCP_FLAG_BE_LIBERAL: accept unknown sequence numbers
_PROTOCOLS = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
_MAX_TIMEOUT_S = 5 * 86400


def announced_mac(frame: bytes) -> str | None:
    """Return the MAC in an announcement, or None for another frame."""
    if len(frame) < _ANNOUNCEMENT.size:
        return None
    _all, source, kind, _hardware, _protocol, _sizes, _size, operation, sender = _ANNOUNCEMENT.unpack_from(frame)
    if kind != RARP or operation != REQUEST or source != sender:
        return None
    return ':'.join(f'{byte:02x}' for byte in source)


def requests(index: int, mac: str, address: str) -> list[bytes]:
    """Return rtnetlink messages that forward frames for a MAC through a tunnel to a host.

    :param index: index of the tunnel's device
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


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from('=HH', data, at)
        if length < 4:
            break
        found[kind & 0x3fff] = data[at + 4:at + length]
        at += (length + 3) & ~3
    return found


# ---- connections -------------------------------------------------------------------

@dataclasses.dataclass
class MigratingGuest:
    """A migrating guest; its connections are copied to the destination host.

    own, peer  address of this host, and of the other host of the migration
    incoming   whether the guest migrates to this host
    key        signing key, hexadecimal digits
    zone       conntrack zone of the guest's network
    addresses  IP addresses of the guest
    device     tunnel device from which the announcement of ``mac`` arrives
    """

    own: str
    peer: str
    incoming: bool
    key: str
    zone: int
    addresses: list[str]
    device: str
    mac: str


def signed(key: str, flows: list[list[Any]]) -> bytes:
    """Return a signed datagram with connections."""
    text = json.dumps(flows, separators=(',', ':')).encode()
    return hmac.new(bytes.fromhex(key), text, hashlib.sha256).digest() + text


def verified(key: str, datagram: bytes) -> list[Any]:
    """Return the connections in a datagram, or none if the signature is wrong."""
    signature, text = datagram[:32], datagram[32:]
    if not hmac.compare_digest(signature, hmac.new(bytes.fromhex(key), text, hashlib.sha256).digest()):
        return []
    found = json.loads(text)
    return found[:FLOWS_OF_MESSAGE] if isinstance(found, list) else []


def dump_requests(addresses: list[str]) -> list[bytes]:
    """Return the conntrack dump requests for addresses. The replies may also have entries of other addresses.

    IPv6 connections are requested without a filter: kernels compare IPv6 addresses wrongly
    (ctnetlink_filter_match_tuple).
    """
    found = []
    for address in addresses:
        ip = ipaddress.ip_address(address)
        for end in (0, 1) if ip.version == 4 else ():        # request connections from the address, then to it
            body = _attribute(_ORIGINAL | _NESTED, _attribute(1 | _NESTED, _attribute(1 + end, ip.packed)))
            body += _attribute(_FILTER | _NESTED, _attribute(1, struct.pack('=I', 1 << end)) + _attribute(2, bytes(4)))
            found.append(_netfilter(_GET_FLOW, _DUMP, 4, body))
    return [*found, *([_netfilter(_GET_FLOW, _DUMP, 6, b'')] if any(':' in each for each in addresses) else [])]


def _netfilter(kind: int, flags: int, version: int, body: bytes) -> bytes:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return struct.pack('=IHHIIBBH', 20 + len(body), kind, flags, 1, 0, family, 0, 0) + body


def flow_of(message: bytes, zone: int) -> list[Any] | None:
    """Return [protocol, source, destination, their ports, timeout in s] of an established connection, or None."""
    found = _attributes(message)
    if int.from_bytes(found.get(_ZONE, b''), 'big') != zone:
        return None
    if not int.from_bytes(found.get(_STATUS, b''), 'big') & _SEEN_REPLY:
        return None
    first, back = (_tuple(found.get(kind, b'')) for kind in (_ORIGINAL, _REPLY))
    if first is None or back != (first[0], first[2], first[1], first[4], first[3]):
        return None                                        # NAT: only the translating host can use the entry
    if first[0] == socket.IPPROTO_TCP and _attributes(_attributes(found.get(_STATE, b'')).get(1, b'')).get(
            1) != bytes([_ESTABLISHED]):
        return None
    return [*first, int.from_bytes(found.get(_TIMEOUT, b''), 'big')]


def _tuple(data: bytes) -> tuple[int, str, str, int, int] | None:
    found = _attributes(data)
    ip, protocol = _attributes(found.get(1, b'')), _attributes(found.get(2, b''))
    ends = [ip.get(four, ip.get(six, b'')) for four, six in ((1, 3), (2, 4))]
    number = protocol.get(1, b'\0')[0]
    if number not in _PROTOCOLS or not all(ends):
        return None
    source, destination = (str(ipaddress.ip_address(each)) for each in ends)
    return number, source, destination, *(int.from_bytes(protocol.get(kind, b''), 'big')       # type: ignore[return-value]
                                          for kind in (2, 3))


def new_flow(flow: list[Any], zone: int, own: list[str]) -> bytes | None:
    """Return the message that creates a conntrack entry, or None if the flow is malformed or not of this guest.

    :param flow: as in flow_of; another host sent it, and its values are not checked yet
    :param own: addresses of the guest
    """
    try:
        protocol, source, destination, from_port, to_port, seconds = flow
        ends = ipaddress.ip_address(source), ipaddress.ip_address(destination)
        ports = [number.to_bytes(2, 'big') for number in (from_port, to_port)]
        timeout = min(max(int(seconds), 1), _MAX_TIMEOUT_S).to_bytes(4, 'big')
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    if protocol not in _PROTOCOLS or ends[0].version != ends[1].version or not {str(each) for each in ends} & set(own):
        return None
    body = b''
    for kind, (first, second), numbers in ((_ORIGINAL, ends, ports), (_REPLY, ends[::-1], ports[::-1])):
        names = (1, 2) if first.version == 4 else (3, 4)
        body += _attribute(kind | _NESTED, _attribute(1 | _NESTED, _attribute(names[0], first.packed) + _attribute(
            names[1], second.packed)) + _attribute(2 | _NESTED, _attribute(1, bytes([protocol])) + _attribute(
                2, numbers[0]) + _attribute(3, numbers[1])))
    body += _attribute(_STATUS, _KNOWN.to_bytes(4, 'big')) + _attribute(_TIMEOUT, timeout)
    body += _attribute(_ZONE, zone.to_bytes(2, 'big'))
    if protocol == socket.IPPROTO_TCP:
        body += _attribute(_STATE | _NESTED, _attribute(1 | _NESTED, _attribute(1, bytes([_ESTABLISHED])) + _attribute(
            4, _LIBERAL) + _attribute(5, _LIBERAL)))
    return _netfilter(_NEW_FLOW, _CREATE, ends[0].version, body)


class Connections:
    """Sends and receives conntrack entries for the connections of migrating guests."""

    def __init__(self) -> None:
        self._all: list[MigratingGuest] = []
        self.incoming: dict[socket.socket, MigratingGuest] = {}
        self._next = 0.0

    @property
    def due_s(self) -> float | None:
        """Return the seconds until connections are sent again, or None if no guest is leaving."""
        leaving = any(not each.incoming for each in self._all)
        return max(0.0, self._next - time.monotonic()) if leaving else None

    def follow(self, all_of_them: list[MigratingGuest]) -> None:
        for each in self.incoming:
            each.close()
        self._all, self.incoming = all_of_them, {}
        for address in sorted({each.own for each in all_of_them if each.incoming}):
            made = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
            try:
                made.bind((address, PORT))
            except OSError as error:
                made.close()
                _log_error(f'Cannot receive connections of incoming guests at {address}: {error}')
                continue
            made.setblocking(False)
            self.incoming[made] = next(each for each in all_of_them if each.own == address)

    def take(self, ready: socket.socket) -> None:
        """Create the conntrack entries that a received datagram names."""
        try:
            datagram, (sender, *_rest) = ready.recvfrom(DATAGRAM)
        except OSError:
            return
        for each in self._all:
            if each.incoming and each.peer == sender:
                found = [message for flow in verified(each.key, datagram)
                         if (message := new_flow(flow, each.zone, each.addresses)) is not None]
                with contextlib.suppress(OSError), _netlink() as kernel:  # after an error, the source host sends again
                    for message in found:
                        kernel.send(message)
                        kernel.recv(4096)        # the kernel refuses an existing entry

    def send(self, device: str | None = None, mac: str | None = None) -> None:
        """Send the connections of all leaving guests when they are due, or of one guest now."""
        if mac is None:
            if self.due_s is None or self.due_s > 0:
                return
            self._next = time.monotonic() + SEND_S
        for each in self._all:
            if not each.incoming and (mac is None or (each.device, each.mac) == (device, mac)):
                try:
                    self._send(each)
                except OSError as error:
                    _log_error(f'Cannot send the connections of {each.mac} to {each.peer}: {error}')

    def _send(self, each: MigratingGuest) -> None:
        found = [flow for request in dump_requests(each.addresses) for message in _dump(request)
                 if (flow := flow_of(message, each.zone)) is not None and {flow[1], flow[2]} & set(each.addresses)]
        with socket.socket(socket.AF_INET6 if ':' in each.peer else socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((each.own, 0))
            for at in range(0, min(len(found), MAX_FLOWS), FLOWS_OF_MESSAGE):
                sender.sendto(signed(each.key, found[at:at + FLOWS_OF_MESSAGE]), (each.peer, PORT))


def _netlink() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)               # NETLINK_NETFILTER
    made.settimeout(1)
    return made


def _dump(request: bytes) -> Iterator[bytes]:
    """Yield the attributes of each connection in the reply to a dump request.

    :raises OSError: the kernel refuses the request
    """
    with _netlink() as kernel:
        kernel.send(request)
        while True:
            answer, at = kernel.recv(1 << 16), 0
            while at + 16 <= len(answer):
                length, kind = struct.unpack_from('=IH', answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from('=i', answer, at + 16)[0], 'conntrack')
                yield answer[at + 20:at + length]
                at += (length + 3) & ~3


def listener(device: str) -> socket.socket:
    """Return a socket that receives announcements from a tunnel.

    :raises OSError: no such device
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
    """Main loop of the process.

    :param control: socket to the parent
    :param kernel: rtnetlink socket
    """

    def __init__(self, control: socket.socket, kernel: socket.socket) -> None:
        self._control, self._kernel = control, kernel
        self._moving: dict[str, dict[str, str]] = {}
        self._listeners: dict[socket.socket, str] = {}
        self._connections = Connections()

    def run(self) -> None:
        """Run until the parent closes its end of the socket."""
        while True:
            incoming = self._connections.incoming
            ready, _, _ = select.select([self._control, *self._listeners, *incoming], [], [], self._connections.due_s)
            for each in ready:
                if each in self._listeners:
                    self._receive(each)
                elif each in incoming:
                    self._connections.take(each)
            self._connections.send()
            if self._control in ready:
                text = self._control.recv(MESSAGE)
                if not text:
                    return
                message = json.loads(text)
                if 'flows' in message:
                    self._connections.follow([MigratingGuest(**each) for each in message['flows']])
                else:
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
                _log_error(f'Cannot follow migrating guests on {device}: {error}')

    def _receive(self, ready: socket.socket) -> None:
        device, frame = self._listeners[ready], b''
        with contextlib.suppress(OSError):               # the device was removed
            frame = ready.recv(64)
        mac = announced_mac(frame)
        address = self._moving[device].pop(mac, None) if mac else None
        if mac and address:
            # report first, so that a parent that sees the change can already read the report
            self._control.send(json.dumps([device, mac, address]).encode())
            _switch(self._kernel, device, mac, address)
            self._connections.send(device, mac)


def _log_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _switch(kernel: socket.socket, device: str, mac: str, address: str) -> None:
    """Change both FDB entries of a MAC. After a failure, the parent's next refresh changes the entries."""
    try:
        for request in requests(socket.if_nametoindex(device), mac, address):
            kernel.send(request)
            answer = kernel.recv(4096)
            kind, = struct.unpack_from('=H', answer, 4)
            number = -struct.unpack_from('=i', answer, 16)[0] if kind == _ERROR else 0
            if number:
                _log_error(f'Cannot forward {mac} on {device} to {address}: error {number}')
    except OSError as error:
        _log_error(f'Cannot forward {mac} on {device} to {address}: {error}')


def main(arguments: list[Any]) -> None:
    """Run the process.

    :param arguments: [number of the socket to the parent]
    """
    with (socket.socket(fileno=int(arguments[0])) as control,
          socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel):
        kernel.settimeout(1)
        Switchover(control, kernel).run()


if __name__ == '__main__':
    main(sys.argv[1:])
