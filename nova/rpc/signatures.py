"""Message signatures: the sender puts a signature into the message's context, and the receiver verifies it.

A signature covers the topic, the server, the method with its version and serialized arguments, the context, the time
and a nonce. Services of the control plane sign with the key of the deployment, and each compute host signs with its own
key. ADR 0013 describes the threats.
"""
import base64
from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import re
import time
import urllib.parse

import orjson
import oslo_messaging
from cryptography import exceptions as crypto_exceptions
from cryptography.hazmat.primitives.asymmetric import ed25519

from nova import exception
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.rpc import replays
from nova.rpc import serializer
from nova.rpc.interface import Interface
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)

OFF, ACCEPT, REQUIRE = MODES = ('off', 'accept', 'require')
FIELD = 'signature'          # context key of the signature
SIGNED_BY = 'signed_by'      # context key with the id of the verified signing key; missing in unsigned messages

SKEW_S = 120                 # maximum clock difference between sender and receiver
# Seconds for which a cast is valid: it waits in its queue while a service is down. A call is valid until its timeout.
CAST_S = 24 * 3600

MAX_NOTED = 1000             # maximum warnings that are remembered, to log each only once
KEY_CHECK_INTERVAL_S = 60                # seconds between two checks for a new key of the deployment

NUMBER, KEY_ID = re.compile(r'[0-9a-f]{24}\Z'), re.compile(r'[0-9a-f]{40}\Z')

_SIGNED = ('method', 'version', 'namespace', 'args')
_TRANSPORT = frozenset({FIELD, 'client_timeout', 'msg_id', 'reply_q'})  # context keys that a signature omits
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def fingerprint(public: bytes) -> str:
    """Return the id of a key, computed from its public key (32 bytes)."""
    return hashlib.sha256(public).hexdigest()[:40]


class Key:
    """An Ed25519 key pair.

    id      its fingerprint
    public  public key, 32 bytes
    """

    def __init__(self, private: bytes | None = None) -> None:
        """Load a key pair from the 32 bytes of its private key, or make a new one for None."""
        self._private = (ed25519.Ed25519PrivateKey.generate() if private is None
                         else ed25519.Ed25519PrivateKey.from_private_bytes(private))
        self.public = self._private.public_key().public_bytes_raw()
        self.id = fingerprint(self.public)

    def private_bytes(self) -> bytes:
        return self._private.private_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


_loaded = functools.lru_cache(10_000)(ed25519.Ed25519PublicKey.from_public_bytes)


def is_signed_by(public: bytes, signature: bytes, content: bytes) -> bool:
    """Return whether the key with this public key (32 bytes) has signed the content."""
    try:
        _loaded(public).verify(signature, content)
    except (crypto_exceptions.InvalidSignature, ValueError):
        return False
    return True


def content(topic: str, ctxt: JsonObject, message: JsonObject, head: Sequence[Json]) -> bytes:
    """Return the bytes that a signature covers; sender and receiver compute the same bytes.

    :param ctxt: context of the message, a dictionary; keys of the transport are ignored
    :param head: [time, nonce, key id, name of the receiving server or '' for any of the topic]
    """
    return orjson.dumps([topic, {name: message.get(name) for name in _SIGNED}, {
        name: value for name, value in ctxt.items() if name not in _TRANSPORT}, head], option=_OPTIONS)


@dataclasses.dataclass(frozen=True)
class Trusted:
    """A trusted key.

    host    the compute host that owns the key; None: the control plane
    public  the public key, 32 bytes
    """

    host: str | None
    public: bytes


class Signatures:
    """The keys of a process, and its policy for unsigned messages.

    :param mode: one of MODES
    :param directory: directory that keeps received message numbers for the next process; None: in memory only
    :param undecided: True if the configuration names no mode; ``decide`` sets the mode later
    :ivar key: Key of this process; None: no signatures
    :ivar trusted: function(key id) -> Trusted, or None for an unknown key
    """

    def __init__(self, mode: str, undecided: bool = False, directory: str | None = None) -> None:
        self.mode, self.undecided, self._directory = mode, undecided, directory
        self.key: Key | None = None
        self.trusted: Callable[[str], Trusted | None] = lambda key_id: None
        self.enrolling: str | None = None            # name of the method that registers a key
        self._replays: dict[tuple[str, str], replays.Replays] = {}       # {(topic, server): replays}
        self._noted: set[tuple[str, str, str]] = set()
        self._look: Callable[[], Key] | None = None
        self._due = 0.0

    def decide(self, required: bool) -> None:
        """Set the mode; called only if the configuration names no mode.

        :param required: the deployment, or the host, was made by a release that requires signatures
        """
        self.mode, self.undecided = REQUIRE if required else ACCEPT, False
        self.warn()

    def warn(self) -> None:
        """Warn at the start of a daemon if it accepts unsigned messages."""
        if self.mode == ACCEPT and not self.undecided:
            LOG.warning('Messages without a signature are accepted: [messages] signatures is accept, or not set in a '
                        'deployment that an older release has made. Approve every host that "nova-manage host keys" '
                        'lists, then set require, on conductors last.')

    # ---- the sender

    def follow(self, look: Callable[[], Key]) -> None:
        """Sign with the key that ``look()`` returns; call ``look`` now, and again every KEY_CHECK_INTERVAL_S."""
        self.key, self._look = look(), look
        self._due = time.monotonic() + KEY_CHECK_INTERVAL_S

    def _follow(self, look: Callable[[], Key]) -> None:
        try:
            found = look()
        except Exception as error:           # e.g. the database is unavailable: keep the old key, which is still valid
            LOG.warning('Cannot look up the key that signs messages: %s', error)
            return
        if self.key is None or found.id != self.key.id:
            LOG.warning('Messages are signed with the new key %s.', found.id)
            self.key = found

    def signed(self, topic: str, server: str | None, ctxt: JsonObject, message: JsonObject) -> JsonObject:
        """Return the context with the signature of the message, or the unchanged context if there is no key."""
        if self.mode == OFF or self.key is None:
            return ctxt
        if self._look is not None and time.monotonic() > self._due:
            self._due = time.monotonic() + KEY_CHECK_INTERVAL_S
            concurrency.try_spawn('message-key', self._follow, self._look)
        key = self.key                       # read the attribute once: another thread may replace the key
        head: list[Json] = [int(time.time()), os.urandom(12).hex(), key.id, server or '']
        made = key.sign(content(topic, ctxt, message, head))
        return {**ctxt, FIELD: [*head, base64.b64encode(made).decode()]}

    # ---- the receiver

    def check(self, topic: str, server: str, interface: Interface, ctxt: JsonObject, message: JsonObject) -> None:
        """Verify the signature of a message, and replace the sender in its context by the verified sender.

        :raises MessageRefused: the message's signature is invalid or missing
        :raises MessageRepeated: the message is a repetition; its sender gets the answer to the first copy
        :raises Exception: the key cannot be looked up now; the context has the signature again, for a further check
        """
        signature = ctxt.pop(FIELD, None)
        ctxt.pop(SIGNED_BY, None)
        if self.mode == OFF:
            return
        try:
            found = self._verified(topic, server, interface, ctxt, message, signature)
        except exception.MessageRepeated:
            metrics.RPC_SIGNATURES.labels(topic, 'repeated').inc()
            raise
        except exception.MessageRefused as error:
            metrics.RPC_SIGNATURES.labels(topic, 'refused').inc()
            self._note(f'The message {str(message.get("method"))[:40]}', ctxt, error.message)
            raise
        except Exception:
            ctxt[FIELD] = signature
            raise
        metrics.RPC_SIGNATURES.labels(topic, 'ok' if found else 'unsigned').inc()
        if found is not None and found.host is not None:
            ctxt[serializer.SENDER_HOST] = found.host

    def _verified(self, topic: str, server: str, interface: Interface, ctxt: JsonObject, message: JsonObject,
                  signature: Json) -> Trusted | None:
        if signature is None:
            if self.mode == REQUIRE:
                raise exception.MessageRefused(reason='it is not signed')
            self._note('A message', ctxt, 'messages without a signature are accepted: [messages] signatures is accept')
            return None
        at, number, key_id, to, made = _parsed(signature)
        trusted = self.trusted(key_id)
        applies = trusted is None and message.get('method') == self.enrolling
        found = _applicant(ctxt, message, key_id) if applies else trusted
        if found is None:
            if self.mode == ACCEPT:
                return None                  # a message with an unapproved key counts as unsigned
            raise exception.MessageRefused(reason=f'not approved: key {key_id[:40]}')
        if not is_signed_by(found.public, made, content(topic, ctxt, message, [at, number, key_id, to])):
            raise exception.MessageRefused(reason=f'the signature of key {key_id[:40]} is invalid')
        if to not in ('', server):
            raise exception.MessageRefused(reason=f'it is for {topic} {to[:60]}')
        now = time.time()
        row = interface.methods.get(str(message.get('method')))
        if at > now + SKEW_S or at < now - SKEW_S - (row.timeout if row is not None and row.call else CAST_S):
            raise exception.MessageRefused(reason='its time has expired or is in the future')
        if not applies:                      # a repeated registration is harmless, and anybody can make keys
            self._replays_of(topic, server).check(key_id, number, at)
        ctxt[SIGNED_BY] = key_id
        return found

    def _replays_of(self, topic: str, server: str) -> replays.Replays:
        found = self._replays.get((topic, server))
        if found is None:
            name = urllib.parse.quote(f'message-numbers.{topic}.{server}', safe='')
            path = None if self._directory is None else os.path.join(self._directory, name)
            found = self._replays.setdefault((topic, server), replays.Replays(path, CAST_S + SKEW_S))
        return found

    def _note(self, what: str, ctxt: JsonObject, reason: str) -> None:
        """Log a warning about a message, once for each sender, reason and ``what``; the metric counts all messages.

        :param what: beginning of the sentence
        """
        host = ctxt.get(serializer.SENDER_HOST)
        sender = 'that names no host' if host is None else f'that names host {str(host)[:60]}'    # not verified
        key = (what, sender, reason[:60])
        first = key not in self._noted
        if len(self._noted) >= MAX_NOTED:
            self._noted.clear()
        self._noted.add(key)
        LOG.log(logging.WARNING if first else logging.DEBUG, '%s %s: %s', what, sender, reason)


def _parsed(signature: Json) -> tuple[int, str, str, str, bytes]:
    """Return time, nonce, key id, receiver and signature.

    :raises MessageRefused:
    """
    match signature:
        case [int(at), str(number), str(key_id), str(to), str(made)] if NUMBER.match(number) and KEY_ID.match(key_id):
            with contextlib.suppress(ValueError):
                return at, number, key_id, to, base64.b64decode(made, validate=True)
    raise exception.MessageRefused(reason='its signature is malformed')


def _applicant(ctxt: JsonObject, message: JsonObject, key_id: str) -> Trusted | None:
    """Return the unapproved key in a registration by a host, or None; the key may sign only the registration."""
    args, host = message.get('args'), ctxt.get(serializer.SENDER_HOST)
    public = args.get('public') if isinstance(args, dict) else None
    if not (isinstance(public, str) and isinstance(host, str) and host):
        return None
    try:
        key = base64.b64decode(public, validate=True)
    except ValueError:
        return None
    return Trusted(host, key) if fingerprint(key) == key_id else None


def signed_transport(of: oslo_messaging.Transport, signatures: Signatures) -> messaging_hooks.Transport:
    """Return an RPC transport that signs messages."""
    return messaging_hooks.Transport(of, lambda target, ctxt, message: signatures.signed(
        target.topic, target.server, ctxt, message))
