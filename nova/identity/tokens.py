"""Tokens: what one says, how it is sealed, and the keys that seal it.

A token is a Fernet message (AES-CBC and HMAC-SHA256) around a short JSON list: it carries who and for what,
never roles or a catalog, so that what a user may do is always read from the database.
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
from typing import Any

import orjson
from cryptography import fernet

from nova import exception
from nova.runtime import durable_files

Renewed = Callable[[str], str | None]

LOG = logging.getLogger(__name__)

# What a sealed text is: the first field in it. None is taken for another.
FORMAT, RECEIPT, SECRET = 1, 2, 3
MAX_LENGTH = 1024           # of a token that is worth looking at
KEY_FILE = 'token.keys'
STAGED = '.staged'         # behind that name: a key that opens tokens and seals none yet
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Claims:
    """What the token itself says.

    methods     how the user proved who he is: password, totp, token, application_credential
    scope       'project', 'domain', 'system' or None
    audit_ids   its own id and, for one got for another token, that one's
    """

    user_id: str
    scope: str | None
    scope_id: str | None
    methods: tuple[str, ...]
    issued_at: datetime.datetime
    expires_at: datetime.datetime
    audit_ids: tuple[str, ...]
    credential_id: str | None = None


def text_of(claims: Claims, roles: Iterable[str]) -> str:
    """What a token said, and the roles that it stood for, without the token: enough to see later whether that holds."""
    return orjson.dumps({'claims': claims, 'roles': sorted(roles)}).decode()


def of_text(text: str) -> tuple[Claims, frozenset[str]]:
    """(claims, roles) of a text of ``text_of``."""
    document = orjson.loads(text)
    given = document['claims']
    times = {name: datetime.datetime.fromisoformat(given[name]) for name in ('issued_at', 'expires_at')}
    return Claims(**{**given, **times, 'methods': tuple(given['methods']),
                     'audit_ids': tuple(given['audit_ids'])}), frozenset(document['roles'])


@dataclasses.dataclass(frozen=True, slots=True)
class Receipt:
    """What is given for a login that needs more methods: who has done which of them, and until when they count."""

    user_id: str
    methods: tuple[str, ...]
    issued_at: datetime.datetime
    expires_at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class TokenData:
    """A valid token and what it stands for at the moment.

    system_scope   'all' for a token of the system, else None
    roles       names of the effective roles, implied ones included
    role_rows   the same as ({'id', 'name'}, …)
    credential  {'id', 'name', 'restricted'} of the application credential that it was got with, or None
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
    role_rows: tuple[Any, ...] = ()
    credential: dict[str, Any] | None = None
    password_expires_at: datetime.datetime | None = None


def new_audit_id() -> str:
    return secrets.token_urlsafe(16)


def _is_canonical(text: str) -> bool:
    """Whether a text is the one form of what it stands for: Python's base64 passes over what does not belong there,
    and stops at the padding."""
    try:
        return base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)).decode() == text
    except ValueError:
        return False


class KeyRing:
    """The keys in a file of one key a line, newest first; made when missing, read again when it changes.

    A new key comes in steps where several hosts have copies of the file: staged, when it opens tokens everywhere and
    seals none; promoted, when it seals; and the ones before it are retired when what they sealed has expired. No valid
    token is refused by anybody in between.

    :param directory: where the file lies; made with mode 0700. Hosts that share tokens share the file.
    :raises NovaException: others than the owner may read the file
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
        staged = self._keys_in(self.path + STAGED)       # first: it goes when it has come into the other one
        self._cipher = fernet.MultiFernet([fernet.Fernet(key) for key in (*self._keys_in(self.path), *staged)])
        self._stamp = stamp

    @staticmethod
    def _keys_in(path: str) -> Sequence[bytes]:
        """The keys of a file; () of the staged one where there is none."""
        try:
            with open(path, 'rb') as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise exception.NovaException(f'Others may read the token keys: chmod 600 {path}')
                return file.read().split()
        except FileNotFoundError:
            if path.endswith(STAGED):
                return ()
            raise

    def _now(self) -> list[tuple[str, int, int]]:
        """A value that changes when the files change."""
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
        """Write the file in one step; without ``replace`` the first of several processes wins."""
        path, content = path or self.path, b'\n'.join(keys) + b'\n'
        # root may do it for the user of the service
        owner = durable_files.owner_of(self.path) if os.path.exists(self.path) else None
        if replace:
            durable_files.replace(path, content, owner=owner)
        elif not durable_files.create(path, content, owner=owner):
            LOG.debug('Another process made the token keys first.')

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """A block that no other command is in."""
        handle = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            while True:
                try:                                     # blocking in C would stop the green thread that has the lock
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)

    def stage(self) -> str:
        """Make the next key: it opens tokens, and seals none before it is promoted.

        :returns: the path of its file
        :raises Conflict: one is staged already
        """
        with self._alone():
            if self._keys_in(self.path + STAGED):
                raise exception.Conflict('A key is staged already: promote it.')
            self._write([fernet.Fernet.generate_key()], replace=True, path=self.path + STAGED)
        self._load()
        return self.path + STAGED

    def promote(self) -> None:
        """Seal with the staged key from now on; all others go on opening.

        :raises Conflict: none is staged
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
        """Keep the key alone that seals: what the others sealed is void.

        :param older_than_s: seconds for which it must have been the one that seals
        :param reseal: ``reseal(renewed)`` keeps the secrets that are stored: each is to be replaced by what
            ``renewed(sealed)`` gives, None for one that the key which stays has sealed, or that no key opens
        :returns: how many keys are gone
        :raises Conflict: it has not been for so long
        """
        with self._alone():
            keys = self._keys_in(self.path)
            left = older_than_s - (time.time() - os.stat(self.path).st_mtime)
            if len(keys) > 1 and left > 0:
                raise exception.Conflict(f'Tokens that older keys have sealed are valid for up to {math.ceil(left)} s '
                                         'more.')
            if len(keys) > 1:
                renewed = _renewer(keys)
                if reseal is not None:
                    reseal(renewed)                      # first: who is stopped here has lost nothing
                self._write(keys[:1], replace=True)
                if reseal is not None:
                    reseal(renewed)                      # what a process sealed meanwhile that knew the old keys alone
        self._load()
        return len(keys) - 1

    def _opened(self, text: str, kind: int) -> list[Any] | None:
        """The fields behind the first one of what ``_sealed`` made of this kind; None for anything else."""
        if len(text) > MAX_LENGTH or not _is_canonical(text):
            return None
        try:
            found, *fields = orjson.loads(self._current().decrypt(text.encode()))
        except (fernet.InvalidToken, orjson.JSONDecodeError):
            return None
        return fields if found == kind else None

    def _sealed(self, *fields: Any) -> str:
        # Fernet's own base64 padding is kept: '=' is safe in a header.
        return self._current().encrypt(orjson.dumps(fields)).decode()

    def seal_receipt(self, receipt: Receipt) -> str:
        return self._sealed(RECEIPT, receipt.user_id, receipt.methods, _ticks(receipt.issued_at),
                            _ticks(receipt.expires_at))

    def open_receipt(self, text: str) -> Receipt | None:
        """The receipt that one of the keys sealed, expired or not; None for anything else."""
        fields = self._opened(text, RECEIPT)
        if fields is None:
            return None
        user_id, methods, issued, expires = fields
        return Receipt(user_id, tuple(methods), EPOCH + issued * MICROSECOND, EPOCH + expires * MICROSECOND)

    def seal_secret(self, owner: str, secret: str) -> str:
        """A secret as it is stored.

        :param owner: the id of the row that has it: in another row it opens to nothing
        """
        return self._sealed(SECRET, owner, secret)

    def open_secret(self, owner: str, sealed: str) -> str | None:
        """The secret; None where no key opens it, or where it is another row's."""
        fields = self._opened(sealed, SECRET)
        return fields[1] if fields is not None and fields[0] == owner else None

    def seal(self, claims: Claims) -> str:
        """The token of these claims."""
        return self._sealed(FORMAT, claims.user_id, claims.scope, claims.scope_id, claims.methods,
                            _ticks(claims.issued_at), _ticks(claims.expires_at), claims.audit_ids,
                            claims.credential_id)

    def open(self, token: str) -> Claims | None:
        """The claims of a token that one of the keys sealed, expired or not; None for anything else."""
        fields = self._opened(token, FORMAT)
        if fields is None:
            return None
        user_id, scope, scope_id, methods, issued, expires, audit_ids, credential_id = fields
        return Claims(user_id, scope, scope_id, tuple(methods), EPOCH + issued * MICROSECOND,
                      EPOCH + expires * MICROSECOND, tuple(audit_ids), credential_id)


def _ticks(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def _renewer(keys: Sequence[bytes]) -> Renewed:
    """A function that gives what a sealed text is to be replaced by: the same, sealed with the first of the keys."""
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
