"""Keys of encrypted disks: one key for each server, from its first disk until the server is deleted.

A key is a random passphrase. The database stores it encrypted (AES-256-GCM, bound to the server's id) with a key from a
file on the conductors. So a copy of the database is not sufficient to open a disk. Alternatively a Key Manager service
stores the key, and the database stores its id. Hosts request the keys of their servers when they need them, and keep
them in memory only.
"""
import collections.abc
import contextlib
import logging
import secrets
from oslo_db import exception as db_exc

from nova import context
from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.db.servers import disk_keys
from nova.db.servers import instances
from nova.hardware import guest_options
from nova.runtime import secret_encryption
from nova.volume import key_manager

LOG = logging.getLogger(__name__)

BARBICAN = 'barbican'                    # encryption_key_id in the rows of keys in the Key Manager service
NO_ACCOUNT = '[conductor] disk_key_backend = barbican requires an account in [barbican]'


def _system(ctx: Context) -> Context:
    return context.admin_context(ctx.request_id)


class DiskKeys:
    """Gives hosts the keys of their servers; see interface.py."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db, self._path = services.cell_db, secret_encryption.path_of(services.conf)
        self._in_barbican = services.conf.conductor.disk_key_backend == BARBICAN
        self._barbican = key_manager.find(services.conf)

    def get_disk_key(self, ctx: Context, instance_uuid: str) -> str:
        try:
            return self._found(ctx, instance_uuid) or self._made(ctx, instance_uuid)
        except secret_encryption.Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None

    def destroy_disk_key(self, ctx: Context, instance_uuid: str) -> None:
        """Delete a server's key in the Key Manager service, before the row that names the key is deleted.

        :raises Unavailable: the Key Manager service does not answer
        """
        with self._cell_db.reader() as conn:
            row = disk_keys.get(conn, instance_uuid)
        if row is None or row['encryption_key_id'] != BARBICAN:
            return
        if self._barbican is None or not self._barbican.has_account:
            LOG.warning('The key of server %s stays in the Key Manager service as secret %s: [barbican] has no '
                        'account to delete it.', instance_uuid, row['encrypted_key'])
            return
        self._barbican.destroy(_system(ctx), row['encrypted_key'])

    def _found(self, ctx: Context, instance_uuid: str) -> str | None:
        with self._cell_db.reader() as conn:
            row = disk_keys.get(conn, instance_uuid)
        if row is None:
            return None
        if row['encryption_key_id'] != BARBICAN:
            return secret_encryption.read_cipher(self._path).decrypt(
                row['encryption_key_id'], row['encrypted_key'], instance_uuid)
        if self._barbican is None:
            raise secret_encryption.Unusable(NO_ACCOUNT)
        try:
            return self._barbican.passphrase(_system(ctx), row['encrypted_key'])
        except exception.InvalidVolume:
            raise secret_encryption.Unusable('the Key Manager service does not have the key, or does not let '
                                             'the account in [barbican] read it') from None

    def _made(self, ctx: Context, instance_uuid: str) -> str:
        with self._cell_db.reader() as conn:
            server, used = instances.get(conn, instance_uuid), disk_keys.encryption_key_ids(conn, BARBICAN)
        if not guest_options.encrypted(server['flavor'], server['image_properties']):
            raise secret_encryption.Unusable('neither its flavor nor its image requests encrypted disks')
        key = secrets.token_hex(secret_encryption.KEY_BYTES)
        kept = self._stored(ctx, instance_uuid, key) if self._in_barbican else self._encrypted(used, instance_uuid, key)
        try:
            self._cell_db.run(disk_keys.insert, instance_uuid, *kept)
        except db_exc.DBDuplicateEntry:
            if kept[0] == BARBICAN and self._barbican is not None:
                self._barbican.destroy(_system(ctx), kept[1])
            return self._found(ctx, instance_uuid) or self._made(ctx, instance_uuid)
        return key

    def _encrypted(self, used: set[str], instance_uuid: str, key: str) -> tuple[str, str]:
        cipher = secret_encryption.usable(self._path, used)
        return cipher.first, cipher.encrypt(key, instance_uuid)

    def _stored(self, ctx: Context, instance_uuid: str, key: str) -> tuple[str, str]:
        if self._barbican is None or not self._barbican.has_account:
            raise secret_encryption.Unusable(NO_ACCOUNT)
        return BARBICAN, self._barbican.store(_system(ctx), f'disks of server {instance_uuid}', key)

    # ---- volumes

    def get_volume_key(self, ctx: Context, instance_uuid: str, volume_id: str) -> str:
        """See interface.py."""
        try:
            with self._cell_db.reader() as conn:
                row = disk_keys.of_volume(conn, instance_uuid, volume_id)
            if row is None:
                raise secret_encryption.Unusable(f'the database has no key of volume {volume_id[:36]}')
            return secret_encryption.read_cipher(self._path).decrypt(row['encryption_key_id'], row['encrypted_key'],
                                                        f'{instance_uuid} {volume_id}')
        except secret_encryption.Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None

    def keep_volume_key(self, instance_uuid: str, volume_id: str, find: collections.abc.Callable[[], str]) -> None:
        """Store the passphrase of an encrypted volume until the volume is detached.

        Hosts also need the passphrase after the owner's token, with which it is read, has expired.

        :param find: function that returns the passphrase; not called if it is stored already
        """
        with self._cell_db.reader() as conn:
            if disk_keys.of_volume(conn, instance_uuid, volume_id) is not None:
                return
            used = disk_keys.encryption_key_ids(conn, BARBICAN)
        key = find()
        try:
            cipher = secret_encryption.usable(self._path, used)
        except secret_encryption.Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None
        with contextlib.suppress(db_exc.DBDuplicateEntry):
            self._cell_db.run(disk_keys.insert_of_volume, instance_uuid, volume_id, cipher.first,
                              cipher.encrypt(key, f'{instance_uuid} {volume_id}'))

    def forget_volume_keys(self, instance_uuid: str) -> None:
        self._cell_db.run(disk_keys.delete_of_volumes, instance_uuid)

    def forget_volume_key(self, instance_uuid: str, volume_id: str) -> None:
        self._cell_db.run(disk_keys.delete_of_volume, instance_uuid, volume_id)
