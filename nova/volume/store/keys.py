"""The keys of encrypted volumes: random passphrases, which the API database has sealed (nova.runtime.sealing).

A volume gets one when it is made. What is copied from it is the same file, so its snapshots, backups and copies have
its key, which is destroyed with the last of them.
"""
from __future__ import annotations

import secrets
import typing
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.volumes import keys as db
from nova.runtime import sealing
from nova.volume.store import types

Row = dict[str, typing.Any]


class Keys:
    """
    :param conf: uses [conductor] disk_keys_file and state_path
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: typing.Any) -> None:
        self._path, self._db = sealing.path_of(conf), database

    def make(self, conn: Connection, kind: types.Type) -> str:
        """Make the key of a new volume of a type, in the transaction that makes the volume; the key's id.

        :raises InvalidVolume: none can be kept
        """
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

        :param sees: who uses it; ALL_PROJECTS: whoever
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


def _owner(key_id: str) -> str:
    return f'volume key {key_id}'
