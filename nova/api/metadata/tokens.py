"""Session tokens of the metadata service, as in version 2 of EC2's instance metadata service.

A token proves that the client can send a PUT with a custom header, which a server-side request forgery in a guest
cannot do. A token is valid for one guest until it expires, in every process of the deployment.
"""
import base64
import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable

from nova import exception
from nova import objects

REQUIRED = 'required'
PROPERTY = 'metadata_tokens'     # name of an image property, and of a key in a server's metadata
FLAVOR = 'metadata:tokens'       # extra spec
HOPS = 'metadata_hop_limit'      # key in a server's metadata: hop limit of responses to requests with a token
MAX_HOPS = 64
TTL = 'X-aws-ec2-metadata-token-ttl-seconds'
TOKEN = 'X-aws-ec2-metadata-token'
MAX_TTL = 21600                  # seconds
_BODY = struct.Struct('>Q7s')    # expiry time, and a nonce
_MAC = 24                        # bytes


class Tokens:
    """Signs and verifies session tokens.

    :param key: returns the key of the deployment; called once
    :param clock: seconds since the epoch
    """

    def __init__(self, key: Callable[[], bytes], clock: Callable[[], float] = time.time) -> None:
        self._obtain, self._clock = key, clock
        self._key: bytes | None = None

    def make(self, uuid: str, ttl: int) -> str:
        """Create a token for a guest; the token expires after ``ttl`` seconds."""
        body = _BODY.pack(int(self._clock()) + ttl, secrets.token_bytes(7))
        return base64.urlsafe_b64encode(body + self._mac(uuid, body)).decode()

    def check(self, uuid: str, token: str) -> None:
        """Verify a token.

        :raises Unauthorized: the token is invalid for this guest, or has expired
        """
        try:
            raw = base64.b64decode(token.encode('ascii'), altchars=b'-_', validate=True)
            if base64.urlsafe_b64encode(raw).decode() != token:          # accept only the canonical encoding
                raw = b''
        except (binascii.Error, UnicodeError, ValueError):
            raw = b''
        body, mac = raw[:_BODY.size], raw[_BODY.size:]
        if len(raw) != _BODY.size + _MAC or not hmac.compare_digest(mac, self._mac(uuid, body)) or (
                _BODY.unpack(body)[0] <= self._clock()):
            raise exception.Unauthorized('The session token is invalid or has expired.')

    def _mac(self, uuid: str, body: bytes) -> bytes:
        if self._key is None:
            self._key = self._obtain()
        return hmac.new(self._key, uuid.encode() + body, hashlib.sha256).digest()[:_MAC]


def ttl(text: str) -> int:
    """Parse the header TTL of a token request into seconds.

    :raises BadRequest: the value is missing or out of range
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_TTL):
        raise exception.BadRequest(f'{TTL} must be 1 to {MAX_TTL}.')
    return int(text)


def hops_of(instance: objects.Instance) -> int | None:
    """Return the hop limit of a server's responses with a token; None: unlimited."""
    text = instance.metadata.get(HOPS)
    return None if text is None else hops(text)


def hops(text: str) -> int:
    """Parse a hop limit; an invalid value means 1."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 2 else 1
    return number if 1 <= number <= MAX_HOPS else 1


def required_of(instance: objects.Instance) -> bool:
    """Return True if the server's metadata, image or flavor requires session tokens."""
    return REQUIRED in (instance.metadata.get(PROPERTY), instance.image_properties.get(PROPERTY),
                        (instance.flavor.get('extra_specs') or {}).get(FLAVOR))
