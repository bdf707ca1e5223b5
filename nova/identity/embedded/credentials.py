"""The secrets of devices that make one-time codes. They are stored sealed with the keys of the tokens."""
import logging
import uuid
from collections.abc import Callable

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.identity import tokens
from nova.identity import totp

LOG = logging.getLogger(__name__)

MOST = 8                     # of a user: each is one more code that a guess may hit
PAGE = 500                   # that are sealed again in one transaction
TYPE = 'totp'


class Credentials:
    """Rows with their secret as ``blob``.

    :param db: the API database
    :param keys: that seal
    """

    def __init__(self, db: engine.Database, keys: tokens.KeyRing):
        self._db, self._keys = db, keys

    def create(self, user_id: str, blob: str, project_id: str | None = None) -> dict:
        """
        :raises BadRequest: the secret is none
        :raises IdentityNotFound: there is no such user
        :raises Forbidden: the user has as many as there may be
        """
        _check(blob)
        row = {'id': uuid.uuid4().hex, 'user_id': user_id, 'type': TYPE, 'project_id': project_id,
               'created_at': utils.utcnow()}
        row['sealed_blob'] = self._keys.seal_secret(row['id'], blob)
        log.about(row['id'])
        self._db.run(self._insert, row)
        return row | {'blob': blob}

    @staticmethod
    def _insert(conn, row):
        if not queries.lock_user(conn, row['user_id']):          # two concurrent requests do not pass the limit
            raise exception.IdentityNotFound(noun='user', id=row['user_id'])
        if len(queries.rows(conn, 'credential', user_id=row['user_id'])) >= MOST:
            raise exception.Forbidden(f'A user can have {MOST} credentials of this kind.')
        queries.create(conn, 'credential', row)

    def get(self, credential_id: str) -> dict:
        with self._db.reader() as conn:
            row = queries.get(conn, 'credential', id=credential_id)
        if row is None:
            raise exception.IdentityNotFound(noun='credential', id=credential_id)
        return self._with_blob(row)

    def list(self, **match) -> list[dict]:
        with self._db.reader() as conn:
            rows = queries.rows(conn, 'credential', **match)
        return [self._with_blob(row) for row in rows]

    def _with_blob(self, row):
        blob = self._keys.open_secret(row['id'], row['sealed_blob'])
        if blob is None:
            LOG.error('No token key opens credential %s of user %s.', row['id'], row['user_id'])
        return row | {'blob': blob}

    def update(self, credential_id: str, values: dict) -> None:
        """:param values: ``blob`` or ``project_id``, or both"""
        values = dict(values)
        if 'blob' in values:
            _check(values['blob'])
            values['sealed_blob'] = self._keys.seal_secret(credential_id, values.pop('blob'))
        if values and not self._db.run(queries.update, 'credential', credential_id, values):
            raise exception.IdentityNotFound(noun='credential', id=credential_id)

    def delete(self, credential_id: str) -> None:
        if not self._db.run(queries.delete_credential, credential_id):
            raise exception.IdentityNotFound(noun='credential', id=credential_id)

    def take_code(self, user_id: str | None, code: str, now: float) -> bool:
        """Whether a one-time code is right and unused: of two logins with one code, one gets True.

        :param user_id: None for an unknown user
        :param now: seconds since the epoch
        """
        found = self.list(user_id=user_id or '', type=TYPE)
        step = totp.step_of([totp.secret_of(row['blob']) for row in found if row['blob']], code, now)
        if step is None:
            return False
        with log.recording(None):      # the record is of the login, which ends later
            return self._db.run(queries.use_totp_step, user_id, step)


def _check(blob):
    try:
        totp.secret_of(blob)
    except ValueError:
        raise exception.BadRequest(f'The blob of a credential of type totp is a secret in base32, of {totp.MIN_BYTES} '
                                   f'to {totp.MAX_BYTES} bytes.') from None


def reseal(db: engine.Database, renewed: Callable[[str], str | None]) -> None:
    """Seal the secrets again, for ``KeyRing.retire``."""
    def page(conn, after):
        found = queries.sealed_blobs(conn, after, PAGE)
        for credential_id, sealed in found:
            new = renewed(sealed)
            if new is not None:
                queries.replace_blob(conn, credential_id, sealed, new)
        return found[-1][0] if found else None
    after = ''
    while after is not None:
        after = db.run(page, after)
