"""SPICE authentication by the proxy, which replaces the browser's password with the guest's.

Each SPICE channel is a connection. The connection starts with a link message of the client, a reply with a public key,
and the password encrypted for this key (https://www.spice-space.org/spice-protocol.html, "link stage").
"""
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa

from nova.console.relay import Greeting
from nova.console.relay import Step

MAGIC = b'REDQ'
_HEADER = struct.Struct('<4sIII')        # magic, major and minor version, size of the rest
_CAPABILITIES = struct.Struct('<III')    # link message: numbers of common and of channel capabilities, their offset
KEY = slice(4, 4 + 162)                  # position of the public key in the reply, after the error code
TICKET = 128
MAX_MESSAGE = 4096                       # bytes of a message; usually about 200
AUTH_SELECTION, AUTH_SPICE = 1, 1        # mask of a common capability; type of password authentication
_SHA1 = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)     # required by the protocol


def link(password: str) -> Greeting:
    """Perform the link stage of one channel.

    :raises ValueError: one side does not speak SPICE
    """
    head = yield Step(of_client=_HEADER.size)
    request = yield Step(of_client=_size(head))
    if len(request) < 18:
        raise ValueError('link message is too short')
    head_of_reply = yield Step(to_host=head + request, of_host=_HEADER.size)
    reply = yield Step(of_host=_size(head_of_reply))
    selects = _selects(request)
    ticket = yield Step(to_client=head_of_reply + reply, of_client=TICKET + (4 if selects else 0))
    key = serialization.load_der_public_key(reply[KEY])
    if not isinstance(key, rsa.RSAPublicKey):
        raise ValueError('key is not RSA')
    encrypted = key.encrypt(password.encode() + b'\0', _SHA1)
    chosen = struct.pack('<I', AUTH_SPICE) if selects else b''
    if ticket[:len(chosen)] != chosen:
        raise ValueError('authentication type that was not offered')
    return Step(to_host=chosen + encrypted)


def _size(head: bytes) -> int:
    magic, _major, _minor, size = _HEADER.unpack(head)
    if magic != MAGIC or not 0 < size <= MAX_MESSAGE:
        raise ValueError('not SPICE')
    return int(size)


def _selects(request: bytes) -> bool:
    """Return True if the client sends the authentication type before the ticket."""
    common, _channel, offset = _CAPABILITIES.unpack_from(request, 6)
    return bool(common) and offset + 4 <= len(request) and bool(request[offset] & AUTH_SELECTION)
