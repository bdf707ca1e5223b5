"""The keys of encrypted volumes: random passphrases, which the API database has sealed (nova.runtime.sealing), or a Key
Manager service has.

A volume gets one when it is made. What is copied from it is the same file, so its snapshots, backups and copies have
its key, which is destroyed with the last of them.
"""
from __future__ import annotations

import collections.abc
import contextlib
import logging
import secrets
import typing
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.volumes import keys as db
from nova.runtime import sealing
from nova.volume import key_manager
from nova.volume.store import types

LOG = logging.getLogger(__name__)

Row = dict[str, typing.Any]
NO_ACCOUNT = '[barbican] names no account, which keys of volumes need ([volume] encryption_keys)'


class Keys:
    """
    :param conf: uses [volume] encryption_keys, [barbican], [conductor] disk_keys_file and state_path
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: typing.Any) -> None:
        self._path, self._db = sealing.path_of(conf), database
        self._outside = conf.volume.encryption_keys == db.BARBICAN
        self._manager = key_manager.find(conf)
        self._reserved: set[str] = set()                 # by requests of this process, the only one that has the files

    @contextlib.contextmanager
    def reserved(self, kind: types.Type | None) -> collections.abc.Iterator[str | None]:
        """While the block runs, there is a key for a new volume of a type, which ``make`` gives to it. A Key Manager
        service is not waited for in a transaction. None: the key is made in that transaction, or none is needed.

        :raises InvalidVolume, Unavailable: none can be kept
        """
        if not self._outside or kind is None or not kind['encryption']:
            yield None
            return
        if self._manager is None or not self._manager.has_account:
            raise exception.InvalidVolume(reason=f'its key cannot be kept: {NO_ACCOUNT}.')
        ident = str(uuid.uuid4())
        self._reserved.add(ident)
        try:
            self._db.run(db.insert, ident, kind['id'], db.BARBICAN, '')
            with _own_account():
                secret = self._manager.store(nova_context.admin_context(), _owner(ident),
                                             secrets.token_hex(sealing.KEY_BYTES))
            self._db.run(db.set_secret, ident, secret)
            yield ident
        finally:
            self._reserved.discard(ident)

    def make(self, conn: Connection, kind: types.Type, reserved: str | None = None) -> str:
        """Make the key of a new volume of a type, in the transaction that makes the volume; the key's id.

        :param reserved: what ``reserved`` gave
        :raises InvalidVolume: none can be kept
        """
        if self._outside:
            row = db.lock(conn, reserved) if reserved else None
            if row is None or row['sealed_with'] != db.BARBICAN or row['type_id'] != kind['id']:
                raise exception.InvalidVolume(reason='its type has just been changed. Try it again.')
            return row['id']
        ident = str(uuid.uuid4())
        try:
            sealer = sealing.usable(self._path, db.sealed_with(conn))
        except sealing.Unusable as error:
            raise exception.InvalidVolume(reason=f'its key cannot be kept: {error}.') from None
        passphrase = secrets.token_hex(sealing.KEY_BYTES)
        db.insert(conn, ident, kind['id'], sealer.first, sealer.seal(passphrase, _owner(ident)))
        return ident

    def passphrase(self, key_id: str) -> str:
        """
        :raises InvalidVolume: it cannot be had
        """
        with self._db.reader() as conn:
            row = db.get(conn, key_id)
        if row is None:
            raise exception.InvalidVolume(reason='its key is gone.')
        if row['sealed_with'] in db.OUTSIDE:
            if self._manager is None:
                raise exception.InvalidVolume(reason=f'its key cannot be had: {NO_ACCOUNT}.')
            with _own_account():
                return self._manager.passphrase(nova_context.admin_context(), row['sealed'])
        try:
            return sealing.read_sealer(self._path).open(row['sealed_with'], row['sealed'], _owner(key_id))
        except sealing.Unusable as error:
            raise exception.InvalidVolume(reason=f'its key cannot be opened: {error}.') from None

    def of(self, row: Row) -> str | None:
        """The passphrase of what a row of a volume, a snapshot or a backup is about; None: it is not encrypted."""
        return self.passphrase(row['key_id']) if row['key_id'] else None

    def kind(self, conn: Connection, key_id: str, sees: nova_context.Projects | str,
             lock: bool = False) -> types.Type:
        """The type whose encryption a key is used with.

        :param sees: who uses it; ALL_PROJECTS: every project
        :param lock: no other transaction changes it until the transaction ends
        :raises InvalidVolume, VolumeTypeNotFound: it is gone
        """
        row = db.get(conn, key_id)
        if row is None:
            raise exception.InvalidVolume(reason='its key is gone.')
        return types.find(conn, row['type_id'], sees, lock)

    @staticmethod
    def forget(conn: Connection, key_id: str | None) -> None:
        """What had a key is deleted: destroy it, if nothing else has it."""
        if key_id is not None:
            db.forget_unused(conn, key_id)

    def forget_unused(self) -> None:
        """Of two deletions at once each may have seen the other's row."""
        self._db.run(db.forget_unused)

    @property
    def outside(self) -> bool:
        """Whether keys may be elsewhere than in the database."""
        return self._manager is not None and self._manager.has_account

    def destroy_unused(self) -> None:
        """Destroy what a Key Manager service has and nothing names any more. What it does not do now is done by the
        next call: after the next deletion, and at the next start."""
        if self._manager is None or not self._manager.has_account:
            return
        with self._db.reader() as conn:
            unused = db.unused_outside(conn)
        ctx = nova_context.admin_context()
        for ident in unused:
            row = None if ident in self._reserved else self._db.run(db.give_up, ident)
            if row is None:
                continue
            try:
                # without its id the answer to its making was lost
                for secret in [row['sealed']] if row['sealed'] else self._manager.named(ctx, _owner(ident)):
                    self._manager.destroy(ctx, secret)
            except exception.Unavailable as error:
                LOG.warning('%d secrets of deleted volumes stay in the Key Manager service until the next volume is '
                            'deleted or this service starts: %s', len(unused), error)
                return
            except exception.NovaException as error:         # of this one
                LOG.warning('The secret %s of a deleted volume stays in the Key Manager service until the next volume '
                            'is deleted or this service starts: %s', _owner(ident), error)
                continue
            self._db.run(db.delete, ident)


@contextlib.contextmanager
def _own_account() -> collections.abc.Iterator[None]:
    """What is refused to the account of the system is nothing that the caller may not do."""
    try:
        yield
    except (exception.Forbidden, exception.Unauthorized) as error:
        LOG.error('The Key Manager service refuses the account of [barbican]: %s', error)
        raise exception.Unavailable('The Key Manager service does not let this service keep keys.') from None


def _owner(key_id: str) -> str:
    return f'volume key {key_id}'
