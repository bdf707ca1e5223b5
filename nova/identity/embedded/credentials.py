"""Additional credentials of users: TOTP secrets and EC2 key pairs.

The database stores them encrypted with the keys that also encrypt tokens.
"""
import dataclasses
import hashlib
import logging
import secrets
import uuid
from collections.abc import Callable
from typing import TypedDict

import orjson

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityCredentialsRow
from nova.identity import tokens
from nova.identity import totp

LOG = logging.getLogger(__name__)

PAGE = 500                   # maximum rows re-encrypted in one transaction
KEY_LENGTH = 128             # characters of an access key or its secret
MIN_LENGTHS = {'access': 1, 'secret': 8}       # characters


class Credential(IdentityCredentialsRow):
    """A credential with its decrypted secret; ``blob`` is None if the key that encrypted it is missing."""

    blob: str | None


class Pair(TypedDict, total=False):
    """An EC2 key pair; empty if the blob of the credential is malformed."""

    access: str
    secret: str


class Changes(TypedDict, total=False):
    """Changed values of a credential."""

    blob: str
    project_id: str | None


class Credentials:
    """Credentials in the database, with their decrypted secrets.

    :param db: the API database
    :param keys: encrypt the secrets
    :ivar changes: number of updates and deletions in this process
    """

    def __init__(self, db: engine.Database, keys: tokens.KeyRing) -> None:
        self._db, self._keys, self.changes = db, keys, 0

    def create(self, user_id: str, kind: str, blob: str, project_id: str | None = None) -> Credential:
        """Create a credential.

        :param kind: of KINDS
        :raises BadRequest: malformed or too long secret, or missing project of an EC2 credential
        :raises Conflict: the access key is in use
        :raises IdentityNotFound: unknown user
        :raises Forbidden: the user has too many credentials
        """
        id_of = KINDS[kind].check(blob)
        if kind == EC2 and project_id is None:
            raise exception.BadRequest('A credential of type ec2 must have a project_id.')
        row: IdentityCredentialsRow = {
            'id': id_of, 'user_id': user_id, 'type': kind, 'project_id': project_id, 'created_at': utils.utcnow(),
            'encrypted_blob': self._encrypted(id_of, blob)}
        log.about(id_of)
        self._db.run(self._insert, row)
        return {**row, 'blob': blob}

    def create_ec2(self, user_id: str, project_id: str | None) -> Credential:
        """Create a new EC2 key pair.

        :raises IdentityNotFound, Forbidden: see ``create``
        """
        pair = {'access': uuid.uuid4().hex, 'secret': secrets.token_hex(20)}
        return self.create(user_id, EC2, orjson.dumps(pair).decode(), project_id)

    @staticmethod
    def _insert(conn: engine.Connection, row: IdentityCredentialsRow) -> None:
        if not queries.lock(conn, 'user', row['user_id']):          # lock, so that concurrent requests obey the limit
            raise exception.IdentityNotFound(noun='user', id=row['user_id'])
        most = KINDS[row['type']].most
        if len(queries.rows(conn, queries.CREDENTIAL, user_id=row['user_id'], type=row['type'])) >= most:
            raise exception.Forbidden(f'A user can have at most {most} credentials of this kind.')
        if queries.get(conn, queries.CREDENTIAL, id=row['id']):
            raise exception.Conflict('A credential with this access key already exists.')
        queries.create(conn, 'credential', row)

    def get(self, credential_id: str) -> Credential:
        with self._db.reader() as conn:
            row = queries.get(conn, queries.CREDENTIAL, id=credential_id)
        if row is None:
            raise exception.IdentityNotFound(noun='credential', id=credential_id)
        return self._with_blob(row)

    def find(self, credential_id: str, kind: str) -> Credential | None:
        """Return a credential of a kind, or None."""
        with self._db.reader() as conn:
            row = queries.get(conn, queries.CREDENTIAL, id=credential_id, type=kind)
        return None if row is None else self._with_blob(row)

    def list(self, **match: str) -> list[Credential]:
        with self._db.reader() as conn:
            rows = queries.rows(conn, queries.CREDENTIAL, **match)
        return [self._with_blob(row) for row in rows]

    def _encrypted(self, credential_id: str, blob: str) -> str:
        encrypted = self._keys.encrypt_secret(credential_id, blob)
        if len(encrypted) > tokens.MAX_LENGTH:        # the column has this length
            raise exception.BadRequest(f'The blob is too long: its encrypted text has {len(encrypted)} characters, and '
                                       f'at most {tokens.MAX_LENGTH} are supported. Use fewer non-ASCII characters.')
        return encrypted

    def _with_blob(self, row: IdentityCredentialsRow) -> Credential:
        blob = self._keys.decrypt_secret(row['id'], row['encrypted_blob'])
        if blob is None:
            LOG.error('Cannot decrypt credential %s of user %s: its token key is missing.', row['id'], row['user_id'])
        return {**row, 'blob': blob}

    def update(self, credential_id: str, changes: Changes) -> None:
        values: dict[str, str | None] = {'project_id': changes['project_id']} if 'project_id' in changes else {}
        if 'blob' in changes:
            kind = self.get(credential_id)['type']
            if KINDS[kind].check(changes['blob']) != credential_id and kind == EC2:
                raise exception.BadRequest('The access key of a credential cannot be changed.')
            values['encrypted_blob'] = self._encrypted(credential_id, changes['blob'])
        if values and not self._db.run(queries.update, 'credential', credential_id, values):
            raise exception.IdentityNotFound(noun='credential', id=credential_id)
        self.changes += 1

    def delete(self, credential_id: str) -> None:
        if not self._db.run(queries.delete, 'credential', credential_id):
            raise exception.IdentityNotFound(noun='credential', id=credential_id)
        self.changes += 1

    def take_code(self, user_id: str | None, code: str, now: float) -> bool:
        """Verify a one-time code and mark it as used: if two logins send the same code, only the first gets True.

        :param user_id: None for an unknown user
        :param now: seconds since the epoch
        """
        found = self.list(user_id=user_id or '', type=TOTP)
        step = totp.step_of([totp.secret_of(row['blob']) for row in found if row['blob']], code, now)
        if step is None or user_id is None:
            return False
        with log.recording(None):      # no audit record for the code: the login has a record
            return self._db.run(queries.use_totp_step, user_id, step)


def _check_totp(blob: str) -> str:
    """Validate a TOTP secret and return a new ID.

    :raises BadRequest: malformed secret
    """
    try:
        totp.secret_of(blob)
    except ValueError:
        raise exception.BadRequest(f'The blob of a totp credential must be a secret in base32 of {totp.MIN_BYTES} '
                                   f'to {totp.MAX_BYTES} bytes.') from None
    return uuid.uuid4().hex


def _check_ec2(blob: str) -> str:
    """Validate a key pair and return the ID derived from its access key.

    :raises BadRequest: malformed key pair
    """
    pair = pair_of(blob)
    if not pair:
        raise exception.BadRequest(f'The blob of an ec2 credential must be JSON with access and secret, strings of at '
                                   f'most {KEY_LENGTH} characters. The secret must have at least '
                                   f'{MIN_LENGTHS["secret"]}.')
    return id_of_access(pair['access'])


def pair_of(blob: str | None) -> Pair:
    """Parse a blob."""
    try:
        found = orjson.loads(blob or '')
    except ValueError:
        return {}
    fits = isinstance(found, dict) and all(
        isinstance(found.get(name), str) and least <= len(found[name]) <= KEY_LENGTH
        for name, least in MIN_LENGTHS.items())
    return {'access': found['access'], 'secret': found['secret']} if fits else {}


def id_of_access(access: str) -> str:
    """Return the ID of the credential with an access key, as in Keystone."""
    return hashlib.sha256(access.encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of credential.

    check   callable(blob) -> ID of a new credential; raises BadRequest
    most    maximum number of these credentials of a user
    """

    check: Callable[[str], str]
    most: int


TOTP, EC2 = 'totp', 'ec2'
KINDS = {
    TOTP: Kind(_check_totp, 8),           # few: each secret makes it likelier that a guessed code is right
    EC2: Kind(_check_ec2, 32),
}


def reseal(db: engine.Database, renewed: Callable[[str], str | None]) -> None:
    """Re-encrypt the stored secrets, for ``KeyRing.retire``."""
    def page(conn: engine.Connection, after: str) -> str | None:
        found = queries.encrypted_blobs(conn, after, PAGE)
        for credential_id, sealed in found:
            new = renewed(sealed)
            if new is not None:
                queries.replace_blob(conn, credential_id, sealed, new)
        return found[-1][0] if found else None
    after: str | None = ''
    while after is not None:
        after = db.run(page, after)
