"""Authentication of requests signed with EC2 keys."""
from __future__ import annotations

import collections
from collections.abc import Callable
import datetime
import threading
import time

from nova import exception
from nova import utils
from nova.identity import signatures
from nova.identity import tokens
from nova.identity.embedded import checks as secret_checks
from nova.identity.embedded import credentials as pairs
from nova.identity.embedded import token_service

MAX_KEY_PAIRS = 1000           # maximum number of cached key pairs, and of cached tokens
SHARED = datetime.timedelta(minutes=1)           # maximum time for which requests of a key pair reuse a token


class SignedRequests:
    """Authenticates signed requests.

    Multi-factor rules are not checked, because the owner has satisfied them to create the key pair.

    :param credentials: storage of the key pairs
    :param tokens_of: issues the tokens
    :param checks: counts failures
    :param lifetime: lifetime of a token, which background work of a request uses, such as an import of an image
    :param trust: seconds for which a key pair is cached
    """

    def __init__(self, credentials: pairs.Credentials, tokens_of: token_service.TokenService,
                 checks: secret_checks.Checks, lifetime: datetime.timedelta, trust: float) -> None:
        self._credentials, self._tokens, self._checks, self._trust = credentials, tokens_of, checks, trust
        self._lifetime, self._shared_for = lifetime, min(SHARED, lifetime / 4)
        # {(credential, user, project): (token, reused until)}
        self._last: collections.OrderedDict[
            tuple[str, str, str | None], tuple[str, datetime.datetime]] = collections.OrderedDict()
        # {access key: (row, secret, ``Credentials.changes`` at the read, cached until)}
        self._read: collections.OrderedDict[str, tuple[pairs.Credential, str, int, float]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def authenticate(self, signed: signatures.SignedRequest, address: str = '', shared: bool = False,
                     ) -> tuple[str, tokens.TokenData]:
        """Issue a token for a signed EC2 request.

        :param signed: see ``nova.identity.signatures``
        :param address: of the client
        :param shared: the token may be shared with other requests, because it is not given to clients
        :returns: (token, TokenData)
        :raises Unauthorized: the message does not reveal the reason
        :raises TooManyRequests: too many failures for these keys from this address
        """
        now, signed = utils.utcnow(), {'params': {}, 'headers': {}, 'body_hash': '', **signed}
        return self._by_pair(signed['access'], address, now, lambda secret: (
            signatures.is_recent(signed, now) and signatures.matches(secret, signed)), shared)

    def authenticate_text(self, access: str, text: str, signature: str, address: str = '', shared: bool = False,
                          ) -> tuple[str, tokens.TokenData]:
        """Issue a token for a signed S3 request; the object store has checked its time.

        :param text: see ``nova.identity.signatures.matches_text``
        """
        return self._by_pair(access, address, utils.utcnow(), lambda secret: signatures.matches_text(
            secret, text, signature), shared)

    def key_of_scope(self, access: str, scope: str) -> bytes | None:
        """Return the signing key for the chunks of an S3 request, valid for the day of the scope.

        Return None if the access key does not exist or the scope is malformed.
        """
        _owner, secret = self._pair(access)
        return signatures.key_of_scope(secret, scope) if secret else None

    def _pair(self, access: str) -> tuple[pairs.Credential | None, str | None]:
        """Return (row of the credential, its secret), cached for some seconds unless a credential changed in this
        process.
        """
        entry, changes = self._read.get(access), self._credentials.changes
        if entry is not None and entry[2] == changes and time.monotonic() < entry[3]:
            return entry[0], entry[1]
        row = self._credentials.find(pairs.id_of_access(access), pairs.EC2)
        secret = pairs.pair_of(row['blob']).get('secret') if row else None
        if row and secret and self._trust:
            with self._lock:
                self._read[access] = row, secret, changes, time.monotonic() + self._trust
                self._read.move_to_end(access)
                if len(self._read) > MAX_KEY_PAIRS:
                    self._read.popitem(last=False)
        return row, secret

    def _by_pair(self, access: str, address: str, now: datetime.datetime, matches: Callable[[str], bool], shared: bool,
                 ) -> tuple[str, tokens.TokenData]:
        row, secret = self._pair(access)
        # compute a signature for unknown keys too, so that the response time does not reveal them
        self._checks.check((f'ec2\0{access}', address), row['user_id'] if row else None,
                           lambda: matches(secret or '') and secret is not None)
        assert row is not None           # for an unknown key, check() has raised Unauthorized
        return self._again(row, now) if shared else self._issue(row, now)

    def _issue(self, row: pairs.Credential, now: datetime.datetime) -> tuple[str, tokens.TokenData]:
        return self._tokens.issue(tokens.Claims(
            row['user_id'], 'project', row['project_id'], ('ec2credential',), now, now + self._lifetime,
            (tokens.new_audit_id(),), None))

    def _again(self, row: pairs.Credential, now: datetime.datetime) -> tuple[str, tokens.TokenData]:
        """Return the recent token of the key pair, or a new token.

        A revoked token may be returned while its validation is cached ([identity] validation_cache_time).
        """
        owner = row['id'], row['user_id'], row['project_id']
        token, until = self._last.get(owner, ('', now))
        if now < until:
            try:
                return token, self._tokens.validate(token)
            except exception.Unauthorized:
                pass                     # the token was revoked: issue another, because the key pair is valid
        token, data = self._issue(row, now)
        with self._lock:
            self._last[owner] = token, now + self._shared_for
            self._last.move_to_end(owner)
            if len(self._last) > MAX_KEY_PAIRS:
                self._last.popitem(last=False)
        return token, data
