"""Tokens: their content (claims), encryption and keys.

A token is a Fernet message (AES-CBC and HMAC-SHA256) with a short JSON list. The list contains the user and scope, but
no roles and no catalog: each validation reads the roles from the database.
"""
import base64
import contextlib
import dataclasses
import datetime
import fcntl
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NotRequired, TypedDict

import orjson
from cryptography import fernet

from nova import exception
from nova.runtime import durable_files

Renewed = Callable[[str], str | None]

LOG = logging.getLogger(__name__)

# First field of an encrypted text: its kind (token, receipt or secret). A text of one kind is invalid as another kind.
FORMAT, RECEIPT, SECRET = 4, 2, 3
MAX_LENGTH = 1024           # longer texts are invalid
KEY_FILE = 'token.keys'
STAGED = '.staged'         # suffix of the file with the next key, which decrypts tokens but does not yet encrypt them
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Claims:
    """Content of a token.

    methods     how the user authenticated: password, totp, token, application_credential
    scope       'project', 'domain', 'system' or None
    audit_ids   audit ID and, if the token was issued for another token, the audit ID of that token
    trust_id    ID of a trust or None; user_id is the trustor if the trust impersonates, else the trustee
    """

    user_id: str
    scope: str | None
    scope_id: str | None
    methods: tuple[str, ...]
    issued_at: datetime.datetime
    expires_at: datetime.datetime
    audit_ids: tuple[str, ...]
    credential_id: str | None = None
    trust_id: str | None = None


def text_of(claims: Claims, roles: Iterable[str]) -> str:
    """Serialize claims and roles of a token, so that its validity can be checked later without the token."""
    return orjson.dumps({'claims': claims, 'roles': sorted(roles)}).decode()


def of_text(text: str) -> tuple[Claims, frozenset[str]]:
    """Parse the result of ``text_of`` into (claims, roles)."""
    document = orjson.loads(text)
    given = document['claims']
    times = {name: datetime.datetime.fromisoformat(given[name]) for name in ('issued_at', 'expires_at')}
    return Claims(**{**given, **times, 'methods': tuple(given['methods']),
                     'audit_ids': tuple(given['audit_ids'])}), frozenset(document['roles'])


@dataclasses.dataclass(frozen=True, slots=True)
class Receipt:
    """State of a login that needs more methods: user, completed methods, and expiry."""

    user_id: str
    methods: tuple[str, ...]
    issued_at: datetime.datetime
    expires_at: datetime.datetime


class Named(TypedDict):
    """Id and name of a role, project, domain or other resource."""

    id: str
    name: str


class AccessRule(TypedDict):
    """The requests that an access rule of an application credential allows."""

    id: str
    service: str
    method: str
    path: str


class BoundCredential(Named):
    """An application credential as tokens show it; without ``access_rules`` it allows all requests."""

    restricted: bool
    access_rules: NotRequired[list[AccessRule]]


class Trust(TypedDict):
    """A trust as tokens show it."""

    id: str
    impersonation: bool
    trustor_user: dict[str, str]            # {'id'}
    trustee_user: dict[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class TokenData:
    """A valid token and its current rights.

    system_scope   'all' for a system-scoped token, else None
    roles       names of the effective roles, including implied ones
    role_rows   rows of these roles, with their ids
    credential  application credential of the login
    """

    claims: Claims
    user_id: str
    user_name: str
    user_domain_id: str
    user_domain_name: str
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    project_domain_name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None
    system_scope: str | None = None
    roles: tuple[str, ...] = ()
    role_rows: tuple[Named, ...] = ()
    credential: BoundCredential | None = None
    password_expires_at: datetime.datetime | None = None
    trust: Trust | None = None


def new_audit_id() -> str:
    return secrets.token_urlsafe(16)


def _is_canonical(text: str) -> bool:
    """Return True for canonical base64; Python's decoder also accepts texts with other characters or a suffix."""
    try:
        return base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)).decode() == text
    except ValueError:
        return False


class KeyRing:
    """Fernet keys in a file with one key on each line, newest first. A missing file is created, and a changed file is
    reloaded.

    Key rotation on hosts with copies of the file has three steps. Staging creates a new key, which hosts use only to
    decrypt tokens. Promotion lets the new key encrypt tokens. Retirement deletes old keys after their tokens have
    expired. During the rotation all hosts accept all valid tokens.

    :param directory: directory of the file, created with mode 0700. Hosts that share tokens share the file.
    :raises NovaException: the file is readable by others
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, KEY_FILE)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if not os.path.exists(self.path):
            self._write([fernet.Fernet.generate_key()], replace=False)
        self._stamp: list[tuple[str, int, int]] | None = None
        self._load()

    def _load(self) -> None:
        stamp = self._now()
        staged = self._keys_in(self.path + STAGED)  # read before the other file: a promotion may move the key there
        self._cipher = fernet.MultiFernet([fernet.Fernet(key) for key in (*self._keys_in(self.path), *staged)])
        self._stamp = stamp

    @staticmethod
    def _keys_in(path: str) -> Sequence[bytes]:
        """Read the keys of a file; () if the file of the staged key does not exist."""
        try:
            with open(path, 'rb') as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise exception.NovaException(f'The token keys are readable by other users. Run: chmod 600 {path}')
                return file.read().split()
        except FileNotFoundError:
            if path.endswith(STAGED):
                return ()
            raise

    def _now(self) -> list[tuple[str, int, int]]:
        """Return a value that changes when the files change."""
        found = []
        for path in (self.path, self.path + STAGED):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                found.append((path, status.st_mtime_ns, status.st_ino))
        return found

    def _current(self) -> fernet.MultiFernet:
        if self._now() != self._stamp:
            self._load()
        return self._cipher

    def _write(self, keys: Sequence[bytes], replace: bool, path: str | None = None) -> None:
        """Write a file atomically. Without ``replace``, do nothing if another process has already created the file."""
        path, content = path or self.path, b'\n'.join(keys) + b'\n'
        # if root writes the file, its owner remains the user of the service
        owner = durable_files.owner_of(self.path) if os.path.exists(self.path) else None
        if replace:
            durable_files.replace(path, content, owner=owner)
        elif not durable_files.create(path, content, owner=owner):
            LOG.debug('Another process made the token keys first.')

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Context manager: exclusive lock, so that other commands do not change the keys concurrently."""
        handle = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            while True:
                try:  # not blocking: the holder may be a green thread of this process
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)

    def stage(self) -> str:
        """Create the next key, which only decrypts tokens until it is promoted.

        :returns: the path of its file
        :raises Conflict: a key is already staged
        """
        with self._alone():
            if self._keys_in(self.path + STAGED):
                raise exception.Conflict('A key is already staged: promote it first.')
            self._write([fernet.Fernet.generate_key()], replace=True, path=self.path + STAGED)
        self._load()
        return self.path + STAGED

    def promote(self) -> None:
        """Encrypt with the staged key from now on. The other keys still decrypt.

        :raises Conflict: no key is staged
        """
        with self._alone():
            staged = self._keys_in(self.path + STAGED)
            if not staged:
                raise exception.Conflict('No key is staged.')
            keys = [key for key in self._keys_in(self.path) if key not in staged]
            self._write([*staged, *keys], replace=True)
            os.unlink(self.path + STAGED)
        self._load()

    def retire(self, older_than_s: int = 0, reseal: Callable[[Renewed], None] | None = None) -> int:
        """Delete all keys except the encrypting key. Texts encrypted with a deleted key become invalid.

        :param older_than_s: minimum age of the encrypting key in seconds
        :param reseal: function that re-encrypts stored secrets with its argument ``renewed``. ``renewed(sealed)``
         returns the new text, or None if ``sealed`` is encrypted with the current key or an unknown one
        :returns: number of deleted keys
        :raises Conflict: the encrypting key is too young
        """
        with self._alone():
            keys = self._keys_in(self.path)
            left = older_than_s - (time.time() - os.stat(self.path).st_mtime)
            if len(keys) > 1 and left > 0:
                raise exception.Conflict(f'Cannot retire keys: older tokens are valid for up to {math.ceil(left)} s '
                                         'more.')
            if len(keys) > 1:
                renewed = _renewer(keys)
                if reseal is not None:
                    reseal(renewed)                      # before the keys are deleted: stored secrets may need them
                self._write(keys[:1], replace=True)
                if reseal is not None:
                    reseal(renewed)  # again: meanwhile, other processes may have encrypted secrets with the old key
        self._load()
        return len(keys) - 1

    def _opened(self, text: str, kind: int) -> list[Any] | None:
        """Return the fields after the kind in an encrypted text, or None if the text is invalid or of another kind."""
        if len(text) > MAX_LENGTH or not _is_canonical(text):
            return None
        try:
            found, *fields = orjson.loads(self._current().decrypt(text.encode()))
        except (fernet.InvalidToken, orjson.JSONDecodeError):
            return None
        return fields if found == kind else None

    def _sealed(self, *fields: object) -> str:
        # keep the base64 padding: HTTP headers may contain '='
        return self._current().encrypt(orjson.dumps(fields)).decode()

    def seal_receipt(self, receipt: Receipt) -> str:
        return self._sealed(RECEIPT, receipt.user_id, receipt.methods, _ticks(receipt.issued_at),
                            _ticks(receipt.expires_at))

    def open_receipt(self, text: str) -> Receipt | None:
        """Decrypt a receipt, which may have expired; None if the text is invalid."""
        fields = self._opened(text, RECEIPT)
        if fields is None:
            return None
        user_id, methods, issued, expires = fields
        return Receipt(user_id, tuple(methods), EPOCH + issued * MICROSECOND, EPOCH + expires * MICROSECOND)

    def encrypt_secret(self, owner: str, secret: str) -> str:
        """Encrypt a secret for storage.

        :param owner: ID of the secret's row; the result is invalid in other rows
        """
        return self._sealed(SECRET, owner, secret)

    def decrypt_secret(self, owner: str, sealed: str) -> str | None:
        """Decrypt a stored secret; None if no key decrypts it, or it belongs to another row."""
        fields = self._opened(sealed, SECRET)
        return fields[1] if fields is not None and fields[0] == owner else None

    def seal(self, claims: Claims) -> str:
        """Create the token of these claims."""
        return self._sealed(FORMAT, claims.user_id, claims.scope, claims.scope_id, claims.methods,
                            _ticks(claims.issued_at), _ticks(claims.expires_at), claims.audit_ids,
                            claims.credential_id, claims.trust_id)

    def open(self, token: str) -> Claims | None:
        """Return the claims of a token, which may have expired; None if the token is invalid."""
        fields = self._opened(token, FORMAT)
        if fields is None:
            return None
        user_id, scope, scope_id, methods, issued, expires, audit_ids, credential_id, trust_id = fields
        return Claims(user_id, scope, scope_id, tuple(methods), EPOCH + issued * MICROSECOND,
                      EPOCH + expires * MICROSECOND, tuple(audit_ids), credential_id, trust_id)


def _ticks(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def _renewer(keys: Sequence[bytes]) -> Renewed:
    """Return a function that re-encrypts a text with the first key; see ``KeyRing.retire``."""
    newest, cipher = fernet.Fernet(keys[0]), fernet.MultiFernet([fernet.Fernet(key) for key in keys])

    def renewed(sealed: str) -> str | None:
        try:
            newest.decrypt(sealed)
        except fernet.InvalidToken:
            try:
                return cipher.rotate(sealed).decode()
            except fernet.InvalidToken:
                return None
        return None
    return renewed
