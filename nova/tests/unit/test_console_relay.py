"""One session of a console: what of it waits is bounded, whatever a side does. And the greetings of VNC and SPICE."""
import contextlib
import selectors
import socket
import struct
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
import pytest
from websockets import frames
from websockets import protocol
from websockets import server

from nova.console import relay
from nova.console import rfb
from nova.console import spice
from nova.console import streams
from nova.runtime.http import channel

READ = selectors.EVENT_READ


class Rig:
    """A session, and the sockets of both sides."""

    def __init__(self, greeting=None, idle_s=3600):
        self.client, ours = socket.socketpair()
        self.host, theirs = socket.socketpair()
        for side in (self.client, self.host):
            side.setblocking(False)
        self.ended = []
        self.session = relay.Session(
            server.ServerProtocol(state=protocol.OPEN, max_size=relay.FRAME),
            streams.Stream(theirs, time.monotonic() + 9), greeting, idle_s,
            lambda _session, reason: self.ended.append(reason))
        self.session.begin(channel.Channel(ours), b'')

    def hears(self, side):
        return bool(self.session.interest()[side] & READ)

    def send(self, opcode, data):
        """A frame of the client, as far as the socket takes it; whether it did."""
        try:
            return self.client.send(frames.Frame(opcode, data).serialize(mask=True)) > 0
        except BlockingIOError:
            return False

    def close(self):
        self.session.end('')
        self.client.close()
        self.host.close()


@pytest.fixture
def rig():
    made = Rig()
    yield made
    made.close()


def test_pings_of_a_client_that_does_not_read_are_bounded(rig):
    turns = 0
    while rig.hears(0):
        turns += 1
        assert turns < 200000, 'it is heard for ever'
        rig.send(frames.Opcode.PING, b'x' * 125)
        rig.session.client_can(READ)
    assert rig.session._client_size < relay.MAX_BUFFERED + 2 * streams.PIECE
    rig.session.look(time.monotonic() + relay.STALL_S + 1)
    assert rig.session.over and rig.ended == ['the client does not read']


def test_data_for_a_guest_that_does_not_read_is_bounded(rig):
    turns = 0
    while rig.hears(0):
        turns += 1
        assert turns < 100000
        rig.send(frames.Opcode.BINARY, b'x' * 10000)
        rig.session.client_can(READ)
    assert len(rig.session._to_host) < relay.MAX_BUFFERED + 2 * relay.FRAME
    rig.session.look(time.monotonic() + relay.STALL_S + 1)
    assert rig.ended == ['the guest does not read']


def test_data_for_a_slow_client_is_bounded(rig):
    turns = 0
    while rig.hears(1):
        turns += 1
        assert turns < 100000
        with contextlib.suppress(BlockingIOError):
            rig.host.send(b'x' * 65536)
        rig.session.host_can(READ)
    assert rig.session._client_size < relay.MAX_BUFFERED + 2 * streams.PIECE


def test_idle_console_session_is_closed():
    rig = Rig(idle_s=5)
    rig.session.look(time.monotonic() + 4)
    assert not rig.ended
    rig.session.look(time.monotonic() + 6)
    assert rig.ended == ['idle timeout']
    rig.close()


def test_close_reason_is_cut_at_a_character_within_its_bytes(rig):
    rig.session.finish(relay.INTERNAL, 'x' + 'ü' * 119)
    assert rig.client.recv(200)[2:] == struct.pack('>H', relay.INTERNAL) + ('x' + 'ü' * 61).encode()
    assert rig.ended == ['x' + 'ü' * 119]


def test_data_before_a_close_frame_reaches_the_guest(rig):
    """Both came at once, and the last words were lost."""
    rig.client.send(frames.Frame(frames.Opcode.BINARY, b'exit').serialize(mask=True)
                    + frames.Frame(frames.Opcode.CLOSE, b'\x03\xe8').serialize(mask=True))
    rig.session.client_can(READ)
    assert rig.host.recv(100) == b'exit' and rig.ended == ['the client closed it']


def test_session_ends_if_the_browser_leaves_during_the_handshake():
    rig = Rig(rfb.greet())
    rig.client.send(frames.Frame(frames.Opcode.BINARY, rfb.VERSION).serialize(mask=True)
                    + frames.Frame(frames.Opcode.CLOSE, b'\x03\xe8').serialize(mask=True))
    rig.session.client_can(READ)
    assert rig.ended == ['the client closed it']
    rig.close()


@pytest.mark.parametrize('said', [b'RFB 003.003\n', b'GET / HTTP/1'])
def test_browser_with_an_unsupported_rfb_version_is_refused(said):
    rig = Rig(rfb.greet())
    rig.send(frames.Opcode.BINARY, said)
    rig.session.client_can(READ)
    assert rig.ended and 'unsupported RFB version' in rig.ended[0]
    rig.close()


def test_vnc_response_uses_the_first_8_characters_of_the_password():
    """Eight characters count; the QEMU of integration/test_console_tls.py is the proof that the bits are right."""
    assert rfb.response('password', bytes(range(16))) == rfb.response('password and more', bytes(range(16)))
    assert rfb.response('password', bytes(16)) != rfb.response('passwore', bytes(16))
    assert len(rfb.response('', bytes(16))) == 16


def spoken(greeting, *answers):
    """The steps of a greeting whose wishes are answered by these."""
    steps = [next(greeting)]
    for answer in answers:
        try:
            steps.append(greeting.send(answer))
        except StopIteration as last:
            steps.append(last.value)
    return steps


def test_the_password_of_spice_is_the_proxys():
    key = rsa.generate_private_key(65537, 1024)
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert len(public) == 162
    body = struct.pack('<IBBIII', 0, 1, 0, 1, 0, 18) + struct.pack('<I', 0b1011)
    head = struct.pack('<4sIII', b'REDQ', 2, 2, len(body))
    reply = bytes(4) + public + struct.pack('<III', 1, 0, 178) + struct.pack('<I', 0b1011)
    head_of_reply = struct.pack('<4sIII', b'REDQ', 2, 2, len(reply))
    steps = spoken(spice.link('secret12'), head, body, head_of_reply, reply, struct.pack('<I', 1) + bytes(128))
    assert [(step.of_client, step.of_host) for step in steps] == [
        (16, 0), (len(body), 0), (0, 16), (0, len(reply)), (132, 0), (0, 0)]
    assert steps[2].to_host == head + body and steps[4].to_client == head_of_reply + reply
    chosen, encrypted = steps[5].to_host[:4], steps[5].to_host[4:]
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    assert chosen == struct.pack('<I', 1) and key.decrypt(encrypted, oaep) == b'secret12\0'


@pytest.mark.parametrize('said', [b'RFB 003.008\nxxxx', struct.pack('<4sIII', b'REDQ', 2, 2, 1 << 30),
                                  struct.pack('<4sIII', b'REDQ', 2, 2, 0)])
def test_invalid_console_handshake_is_refused(said):
    with pytest.raises(ValueError):
        spoken(spice.link('x'), said)
