"""Who has sent a message: a signature in its context, made and checked where messages leave and arrive.

Signed are the topic, the server, the method with its version and arguments as they travel, the context, the time and a
number used once. The services of the control plane sign with the key of the deployment, each host with its own. See
doc/source/adr/0013-signed-messages.rst for what that holds against, and what not.
"""
from __future__ import annotations

import base64
from collections.abc import Callable
import dataclasses
import functools
import hashlib
import logging
import os
import re
import time
from typing import Any
import urllib.parse

import orjson
from cryptography import exceptions as crypto_exceptions
from cryptography.hazmat.primitives.asymmetric import ed25519

from nova import exception
from nova.rpc import replays
from nova.rpc import serializer
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)

OFF, ACCEPT, REQUIRE = MODES = ('off', 'accept', 'require')
FIELD = 'signature'          # in a context
SIGNED_BY = 'signed_by'      # in the context of a checked message: the id of its key; None: not signed

SKEW_S = 120                 # so much may the clocks of two hosts differ
# A cast waits in its queue for a service that is down, and is good when it comes; the caller of a call does not
# wait longer than the call's timeout.
CAST_S = 24 * 3600

FOLLOW_S = 60                # between two looks whether the deployment has a new key

NUMBER, KEY_ID = re.compile(r'[0-9a-f]{24}\Z'), re.compile(r'[0-9a-f]{40}\Z')

_SIGNED = ('method', 'version', 'namespace', 'args')
_TRANSPORT = frozenset({FIELD, 'client_timeout', 'msg_id', 'reply_q'})      # of a context, and not of its sender
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def fingerprint(public: Any) -> Any:
    """The id of a key: of the 32 bytes of its public half."""
    return hashlib.sha256(public).hexdigest()[:40]


class Key:
    """An Ed25519 key pair.

    id      its fingerprint
    public  its public half, 32 bytes
    """

    def __init__(self, private: bytes | None = None) -> None:
        """:param private: 32 bytes; None: a new one"""
        self._private = (ed25519.Ed25519PrivateKey.generate() if private is None
                         else ed25519.Ed25519PrivateKey.from_private_bytes(private))
        self.public = self._private.public_key().public_bytes_raw()
        self.id = fingerprint(self.public)

    def private_bytes(self) -> Any:
        return self._private.private_bytes_raw()

    def sign(self, content: Any) -> Any:
        return self._private.sign(content)


_loaded = functools.lru_cache(10_000)(ed25519.Ed25519PublicKey.from_public_bytes)


def is_signed_by(public: Any, signature: Any, content: Any) -> bool:
    """Whether the key with this public half (32 bytes) has signed it."""
    try:
        _loaded(public).verify(signature, content)
    except (crypto_exceptions.InvalidSignature, ValueError):
        return False
    return True


def content(topic: str, ctxt: dict[str, Any], message: dict[str, Any], head: Any) -> Any:
    """What is signed, as bytes: the same at both ends.

    :param ctxt: of the message, a dictionary; what the transport adds to it does not count
    :param head: [time, number used once, key id, name of the server that it is for or '' for any of the topic]
    """
    return orjson.dumps([topic, {name: message.get(name) for name in _SIGNED}, {
        name: value for name, value in ctxt.items() if name not in _TRANSPORT}, head], option=_OPTIONS)


@dataclasses.dataclass(frozen=True)
class Trusted:
    """A key whose messages are taken.

    host    the compute host that has it; None: the control plane
    public  32 bytes
    """

    host: str | None
    public: bytes


class Signatures:
    """The keys of a process, and what it does with messages that have no signature.

    :param mode: one of MODES
    :param directory: where the numbers of messages that came are kept for the next process; None: nowhere
    :param undecided: the configuration names no mode: ``decide`` does, and ``mode`` holds until then
    :ivar key: Key of this process; None: no signatures
    :ivar trusted: function(key id) -> Trusted or None
    """

    def __init__(self, mode: Any, undecided: bool = False, directory: str | None = None) -> None:
        self.mode, self.undecided, self._directory = mode, undecided, directory
        self.key: Any = None
        self.trusted: Callable[[str], Any] = lambda key_id: None
        self.enrolling = None            # name of the method that makes a key known
        self._replays: dict[tuple[str, str], replays.Replays] = {}       # by topic and server
        self._noted: set[tuple[str, str, str]] = set()
        self._look: Any = None
        self._due = 0.0

    def decide(self, required: bool) -> None:
        """Choose the mode where the configuration names none.

        :param required: the deployment, or the host, was made by a release that requires signatures
        """
        self.mode, self.undecided = REQUIRE if required else ACCEPT, False
        self.warn()

    def warn(self) -> None:
        """Log, at the start of a daemon, that it takes messages of anybody; nothing where a signature is needed."""
        if self.mode == ACCEPT and not self.undecided:
            LOG.warning('Messages without a signature are taken: [messages] signatures is accept, or is not set in a '
                        'deployment that an older release has made. Approve every host that "nova-manage host keys" '
                        'lists, then set require, on conductors last.')

    # ---- the sender

    def follow(self, look: Any) -> None:
        """Sign with the key that this gives, now and from time to time: it may be another one then.

        :param look: function() -> Key
        """
        self.key, self._look = look(), look
        self._due = time.monotonic() + FOLLOW_S

    def _follow(self) -> None:
        try:
            found = self._look()
        except Exception as error:           # the database is away; the key is good for a while yet
            LOG.warning('The key that messages are signed with was not looked up: %s', error)
            return
        if found.id != self.key.id:
            LOG.warning('Messages are signed with the new key %s.', found.id)
            self.key = found

    def signed(self, topic: str, server: Any, ctxt: dict[str, Any], message: dict[str, Any]) -> Any:
        """The context of a message, with its signature; as it was where there is no key."""
        if self.mode == OFF or self.key is None:
            return ctxt
        if self._look is not None and time.monotonic() > self._due:
            self._due = time.monotonic() + FOLLOW_S
            concurrency.spawn('message-key', self._follow)
        key = self.key                       # another thread may renew it
        head = [int(time.time()), os.urandom(12).hex(), key.id, server or '']
        made = key.sign(content(topic, ctxt, message, head))
        return {**ctxt, FIELD: [*head, base64.b64encode(made).decode()]}

    # ---- the receiver

    def check(self, topic: str, server: Any, interface: Any, ctxt: dict[str, Any], message: dict[str, Any]) -> None:
        """Put into the context what is known of its sender, in the place of what was said.

        :raises MessageRefused: its signature is not good, or it has none and needs one
        :raises MessageRepeated: it came before: its sender gets the answer to the first one
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
            self._note(str(message.get('method'))[:40], str(ctxt.get(serializer.SENDER_HOST))[:60], error.message)
            raise
        metrics.RPC_SIGNATURES.labels(topic, 'ok' if found else 'unsigned').inc()
        if found is not None and found.host is not None:
            ctxt[serializer.SENDER_HOST] = found.host

    def _verified(self, topic: str, server: Any, interface: Any, ctxt: dict[str, Any], message: dict[str, Any],
                  signature: Any) -> Any:
        if signature is None:
            if self.mode == REQUIRE:
                raise exception.MessageRefused(reason='it is not signed')
            self._note('', str(ctxt.get(serializer.SENDER_HOST))[:60], 'messages without a signature are taken: '
                       '[messages] signatures is accept')
            return None
        try:
            at, number, key_id, to, made = signature
            made = base64.b64decode(made, validate=True)
            formed = isinstance(at, int) and NUMBER.match(number) and KEY_ID.match(key_id) and isinstance(to, str)
        except (TypeError, ValueError):
            formed = False
        if not formed:
            raise exception.MessageRefused(reason='its signature has no such form')
        found = self.trusted(key_id)
        if found is None and message.get('method') == self.enrolling:
            found = _applicant(ctxt, message, key_id)
        if found is None:
            if self.mode == ACCEPT:
                return None                  # a key without approval does not count
            raise exception.MessageRefused(reason=f'not approved: key {key_id[:40]}')
        if not is_signed_by(found.public, made, content(topic, ctxt, message, [at, number, key_id, to])):
            raise exception.MessageRefused(reason=f'it is not what key {key_id[:40]} has signed')
        if to not in ('', server):
            raise exception.MessageRefused(reason=f'it is for {topic} {to[:60]}')
        now = time.time()
        row = interface.methods.get(message.get('method'))
        if at > now + SKEW_S or at < now - SKEW_S - (row.timeout if row is not None and row.call else CAST_S):
            raise exception.MessageRefused(reason='its time has passed, or is not yet')
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

    def _note(self, method: str, host: str, reason: str) -> None:
        """Once for each; a flood of them is a number of the metric."""
        key = (method, host, reason[:60])
        LOG.log(logging.DEBUG if key in self._noted else logging.WARNING, 'Message %s of host %s: %s', method, host,
                reason)
        if len(self._noted) < 1000:
            self._noted.add(key)


def _applicant(ctxt: dict[str, Any], message: dict[str, Any], key_id: str) -> Any:
    """Check a host that makes its key known, by that key; all that it may do is enroll."""
    try:
        public = base64.b64decode(message['args']['public'], validate=True)
    except (KeyError, TypeError, ValueError):
        return None
    host = ctxt.get(serializer.SENDER_HOST)
    return Trusted(host, public) if host and fingerprint(public) == key_id else None


def signed_transport(of: Any, signatures: Signatures) -> messaging_hooks.Transport:
    """An RPC transport whose messages are signed."""
    return messaging_hooks.Transport(of, lambda target, ctxt, message: signatures.signed(
        target.topic, target.server, ctxt, message))
