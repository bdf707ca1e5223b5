"""Session tokens of the metadata service, as EC2 documents them for its version 2.

A token proves that its bearer can send a PUT with a header of its own: what a server-side request forgery in a guest
cannot. It names nothing; it is good for one guest until it expires, at every process of the deployment.
"""
from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova import objects

REQUIRED = 'required'
PROPERTY = 'metadata_tokens'     # of an image, or in the metadata of a server
FLAVOR = 'metadata:tokens'       # extra spec
HOPS = 'metadata_hop_limit'      # in the metadata of a server: how many hops an answer with a token may go to it
MAX_HOPS = 64
TTL = 'X-aws-ec2-metadata-token-ttl-seconds'
TOKEN = 'X-aws-ec2-metadata-token'
MAX_TTL = 21600                  # seconds
_BODY = struct.Struct('>Q7s')    # when it expires, and what makes it different from the others
_MAC = 24                        # bytes


class Tokens:
    """
    :param key: gives the key of the deployment; called once
    :param clock: seconds since the epoch
    """

    def __init__(self, key: Callable[[], bytes], clock: Callable[[], float] = time.time) -> None:
        self._obtain, self._clock = key, clock
        self._key: bytes | None = None

    def make(self, uuid: str, ttl: int) -> str:
        """A token for a guest, good for so many seconds."""
        body = _BODY.pack(int(self._clock()) + ttl, secrets.token_bytes(7))
        return base64.urlsafe_b64encode(body + self._mac(uuid, body)).decode()

    def check(self, uuid: str, token: str) -> None:
        """:raises Unauthorized: it is none of this guest, or has expired"""
        try:
            raw = base64.b64decode(token.encode('ascii'), altchars=b'-_', validate=True)
            if base64.urlsafe_b64encode(raw).decode() != token:          # a token has one spelling
                raw = b''
        except (binascii.Error, UnicodeError, ValueError):
            raw = b''
        body, mac = raw[:_BODY.size], raw[_BODY.size:]
        if len(raw) != _BODY.size + _MAC or not hmac.compare_digest(mac, self._mac(uuid, body)) or (
                _BODY.unpack(body)[0] <= self._clock()):
            raise exception.Unauthorized('The session token is not valid.')

    def _mac(self, uuid: str, body: bytes) -> bytes:
        if self._key is None:
            self._key = self._obtain()
        return hmac.new(self._key, uuid.encode() + body, hashlib.sha256).digest()[:_MAC]


def ttl(text: str) -> int:
    """The seconds that a request for a token gives in the header TTL.

    :raises BadRequest: it says none, or too many
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_TTL):
        raise exception.BadRequest(f'{TTL} must be 1 to {MAX_TTL}.')
    return int(text)


def hops_of(instance: objects.Instance) -> int | None:
    """How many hops an answer with a token may go to a server; None: as far as any."""
    text = instance.metadata.get(HOPS)
    return None if text is None else hops(text)


def hops(text: str) -> int:
    """The number of an item HOPS; what is none of 1 to MAX_HOPS is 1."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 2 else 1
    return number if 1 <= number <= MAX_HOPS else 1


def required_of(instance: objects.Instance) -> bool:
    """Whether a server reads its metadata with a token alone: by its own metadata, its image or its flavor."""
    return REQUIRED in (instance.metadata.get(PROPERTY), instance.image_properties.get(PROPERTY),
                        (instance.flavor.get('extra_specs') or {}).get(FLAVOR))
