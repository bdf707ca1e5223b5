"""Keys of encrypted volumes: random passphrases, stored encrypted in the API database or a Key Manager service.

A volume gets its key at creation. Its snapshots, backups and copies are copies of the same file and share the key. The
key is deleted with the last object that uses it.
"""
import collections.abc
import contextlib
import logging
import secrets
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db import encryption_keys
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.volumes import keys as db
from nova.runtime import secret_encryption
from nova.volume import key_manager
from nova.volume.store import types
from nova.volume.store.rows import Stored

LOG = logging.getLogger(__name__)

NO_ACCOUNT = '[barbican] has no account, which is required by [volume] encryption_key_backend'


class Keys:
    """Keys of volumes.

    :param conf: uses [volume] encryption_key_backend, [barbican], [conductor] disk_keys_file and state_path
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: Database) -> None:
        self._path, self._db = secret_encryption.path_of(conf), database
        self._external = conf.volume.encryption_key_backend == db.BARBICAN
        self._manager = key_manager.find(conf)
        # ids of keys that are in use soon, so not to be deleted; in memory, because no other process creates volumes
        self._reserved: set[str] = set()

    @contextlib.contextmanager
    def reserved(self, kind: types.Type | None) -> collections.abc.Iterator[str | None]:
        """Context manager: store a new volume's key before the transaction that calls ``make``, and yield the key's id.

        A transaction must not wait for a Key Manager service. Yields None if ``make`` creates the key, or no key is
        needed.

        :raises InvalidVolume, Unavailable: the key cannot be stored
        """
        if not self._external or kind is None or not kind['encryption']:
            yield None
            return
        if self._manager is None or not self._manager.has_account:
            raise exception.InvalidVolume(reason=f'its key cannot be stored: {NO_ACCOUNT}.')
        ident = str(uuid.uuid4())
        self._reserved.add(ident)
        try:
            self._db.run(db.insert, ident, kind['id'], db.BARBICAN, '')
            with _own_account():
                secret = self._manager.store(nova_context.admin_context(), _owner(ident),
                                             secrets.token_hex(secret_encryption.KEY_BYTES))
            self._db.run(db.set_secret, ident, secret)
            yield ident
        finally:
            self._reserved.discard(ident)

    def make(self, conn: Connection, kind: types.Type, reserved: str | None = None) -> str:
        """Create the key of a new volume in the transaction that creates the volume; return the key's id.

        :param reserved: result of ``reserved``
        :raises InvalidVolume: the key cannot be stored
        """
        if self._external:
            row = db.lock(conn, reserved) if reserved else None
            if row is None or row['encryption_key_id'] != db.BARBICAN or row['type_id'] != kind['id']:
                raise exception.InvalidVolume(reason='its type has just been changed. Retry the request.')
            return row['id']
        ident = str(uuid.uuid4())
        try:
            cipher = secret_encryption.usable(self._path, encryption_keys.used(conn))
        except secret_encryption.Unusable as error:
            raise exception.InvalidVolume(reason=f'its key cannot be stored: {error}.') from None
        passphrase = secrets.token_hex(secret_encryption.KEY_BYTES)
        db.insert(conn, ident, kind['id'], cipher.first, cipher.encrypt(passphrase, _owner(ident)))
        return ident

    def passphrase(self, key_id: str) -> str:
        """Return the passphrase of a key; raises InvalidVolume (the key is not available)."""
        with self._db.reader() as conn:
            row = db.get(conn, key_id)
        if row is None:
            raise exception.InvalidVolume(reason='its key is missing.')
        if row['encryption_key_id'] in db.OUTSIDE:
            if self._manager is None:
                raise exception.InvalidVolume(reason=f'its key cannot be read: {NO_ACCOUNT}.')
            with _own_account():
                return self._manager.passphrase(nova_context.admin_context(), row['encrypted_key'])
        try:
            return secret_encryption.read_cipher(self._path).decrypt(
                row['encryption_key_id'], row['encrypted_key'], _owner(key_id))
        except secret_encryption.Unusable as error:
            raise exception.InvalidVolume(reason=f'its key cannot be decrypted: {error}.') from None

    def of(self, row: Stored) -> str | None:
        """Return the passphrase of a volume, snapshot or backup (a row), or None if it is not encrypted."""
        return self.passphrase(row['key_id']) if row['key_id'] else None

    def kind(self, conn: Connection, key_id: str, sees: nova_context.Projects | str,
             lock: bool = False) -> types.Type:
        """Return the volume type that a key was created for.

        :param sees: project of the caller, or ALL_PROJECTS
        :param lock: lock the type until the transaction ends
        :raises InvalidVolume, VolumeTypeNotFound: key or type is missing
        """
        row = db.get(conn, key_id)
        if row is None:
            raise exception.InvalidVolume(reason='its key is missing.')
        return types.find(conn, row['type_id'], sees, lock)

    @staticmethod
    def delete_if_unused(conn: Connection, key_id: str | None) -> None:
        """Delete a key if no volume, snapshot or backup uses it."""
        if key_id is not None:
            db.forget_unused(conn, key_id)

    def delete_unused(self) -> None:
        """Delete all unused keys.

        ``delete_if_unused`` misses a key if two transactions concurrently delete the last two objects that use it.
        """
        self._db.run(db.forget_unused)

    @property
    def external(self) -> bool:
        """Whether keys may be stored outside the database."""
        return self._manager is not None and self._manager.has_account

    def delete_unused_secrets(self) -> None:
        """Delete unused keys in a Key Manager service. Failures are retried after the next deletion or start."""
        if self._manager is None or not self._manager.has_account:
            return
        with self._db.reader() as conn:
            unused = [ident for ident in db.unused_outside(conn) if ident not in self._reserved]
        ctx = nova_context.admin_context()
        for number, ident in enumerate(unused):
            row = self._db.run(db.give_up, ident)
            if row is None:
                continue
            try:
                # without a stored id, the response to the creation was lost: find the secrets by name
                known = row['encrypted_key']
                for secret in [known] if known else self._manager.named(ctx, _owner(ident)):
                    self._manager.destroy(ctx, secret)
            except exception.Unavailable as error:
                LOG.warning('Cannot delete up to %d secrets of deleted volumes in the Key Manager service. The next '
                            'deletion of a volume or start of this service retries: %s', len(unused) - number, error)
                return
            except exception.NovaException as error:         # the failure concerns only this secret
                LOG.warning('Cannot delete secret %s of a deleted volume in the Key Manager service. The next deletion '
                            'of a volume or start of this service retries: %s', _owner(ident), error)
                continue
            self._db.run(db.delete, ident)


@contextlib.contextmanager
def _own_account() -> collections.abc.Iterator[None]:
    """Context manager: if the service account is refused, raise Unavailable, because the caller is not at fault."""
    try:
        yield
    except (exception.Forbidden, exception.Unauthorized) as error:
        LOG.error('The Key Manager service refuses the account in [barbican]: %s', error)
        raise exception.Unavailable('The Key Manager service refuses the account of this service.') from None


def _owner(key_id: str) -> str:
    return f'volume key {key_id}'
