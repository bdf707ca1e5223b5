"""The keys of the encrypted disks of servers: each server has one, from its first disk until it is deleted.

A key is a random passphrase. The database has it sealed (AES-256-GCM, bound to the server's id) with a key of the
deployment, which is in a file of the conductors: who has the database alone, or a copy of it, opens no disk. Or it is
in a Key Manager service, and the database has its id. Hosts get the keys of their own servers, when they need them, and
keep them in memory.
"""
import base64
import binascii
import collections.abc
import contextlib
import hashlib
import logging
import os
import secrets

from cryptography import exceptions
from cryptography.hazmat.primitives.ciphers import aead
from oslo_config.cfg import ConfigOpts
from oslo_db import exception as db_exc

from nova import context
from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.db.servers import disk_keys
from nova.db.servers import instances
from nova.hardware import guest_options
from nova.runtime import host_identity
from nova.volume import barbican

LOG = logging.getLogger(__name__)

FILE = 'disk-keys'
BARBICAN = 'barbican'                    # in the place of a key's name: it is there
KEY_BYTES, NONCE_BYTES = 32, 12
MOST_BYTES = 65536                       # of the file


class Unusable(Exception):
    """The file of the deployment cannot be used; the argument says why."""


class Sealer:
    """Seals keys with the first key of a file, and opens what any of them has sealed.

    :param keys: of the file, in its order
    :raises Unusable:
    """

    def __init__(self, keys: list[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise Unusable(f'the file of [conductor] disk_keys_file has no lines of base64 with {KEY_BYTES} bytes each')
        self._keys = {name_of(key): aead.AESGCM(key) for key in keys}
        self.first = name_of(keys[0])

    @property
    def names(self) -> set[str]:
        return set(self._keys)

    def seal(self, text: str, owner: str) -> str:
        """
        :param owner: what it is for, which has to be named again to open it
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._keys[self.first].encrypt(nonce, text.encode(), owner.encode())
        return base64.b64encode(nonce + sealed).decode()

    def open(self, name: str, sealed: str, owner: str) -> str:
        """
        :raises Unusable: it was sealed with another key, or for another server
        """
        if name not in self._keys:
            raise Unusable('it was sealed with a key that the file of [conductor] disk_keys_file does not have')
        try:
            found = base64.b64decode(sealed, validate=True)
            return self._keys[name].decrypt(found[:NONCE_BYTES], found[NONCE_BYTES:], owner.encode()).decode()
        except (exceptions.InvalidTag, ValueError):
            raise Unusable('what the database has of it was changed, or is of another server') from None


def _system(ctx: Context) -> Context:
    return context.admin_context(ctx.request_id)


def name_of(key: bytes) -> str:
    """What distinguishes keys and reveals none of them."""
    return hashlib.sha256(b'name of ' + key).hexdigest()[:16]


def path_of(conf: ConfigOpts) -> str:
    return conf.conductor.disk_keys_file or os.path.join(host_identity.state_path(conf), FILE)


def read(path: str) -> list[bytes] | None:
    """The keys of a file; None: there is no file.

    :raises Unusable: it cannot be read, others may read it, or it holds something else
    """
    try:
        with open(path, 'rb') as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Unusable(f'others than its owner may use {path}')
            lines = file.read(MOST_BYTES).split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f'{path}: {error.strerror}') from None
    try:
        return [base64.b64decode(line, validate=True) for line in lines]
    except binascii.Error:
        raise Unusable(f'{path} holds something else than keys') from None


def make(path: str) -> None:
    """Make a file with one key; one that another process has made meanwhile stays.

    :raises Unusable:
    """
    part = f'{path}.{secrets.token_hex(8)}'
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, 'wb') as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b'\n')
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)          # unlike a rename it replaces nothing
        except FileExistsError:
            pass
        finally:
            os.unlink(part)
        _keep(os.path.dirname(path))
    except OSError as error:
        raise Unusable(f'{path}: {error.strerror}') from None
    LOG.warning('%s was made. Encrypted disks of servers cannot be opened without it: keep a copy, away from the '
                "copies of the database, and give it to this deployment's other conductors.", path)


def _keep(directory: str) -> None:
    """Let the file be there after a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DiskKeys:
    """Gives hosts the keys of their servers; see interface.py."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db, self._path = services.cell_db, path_of(services.conf)
        self._in_barbican = services.conf.conductor.disk_keys == BARBICAN
        self._barbican = barbican.Barbican(services.conf)

    def get_disk_key(self, ctx: Context, instance_uuid: str) -> str:
        try:
            return self._found(ctx, instance_uuid) or self._made(ctx, instance_uuid)
        except Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None

    @property
    def outside(self) -> bool:
        """Whether keys may be elsewhere than in the database."""
        return bool(self._barbican.has_account)

    def destroy_disk_key(self, ctx: Context, instance_uuid: str) -> None:
        """Before the row of a server that ends: what is not in the database goes.

        :raises Unavailable: the Key Manager service does not answer
        """
        if not self.outside:
            return
        with self._cell_db.reader() as conn:
            row = disk_keys.get(conn, instance_uuid)
        if row is not None and row['sealed_with'] == BARBICAN:
            self._barbican.destroy(_system(ctx), row['sealed'])

    def _found(self, ctx: Context, instance_uuid: str) -> str | None:
        with self._cell_db.reader() as conn:
            row = disk_keys.get(conn, instance_uuid)
        if row is None:
            return None
        if row['sealed_with'] != BARBICAN:
            return self._sealer().open(row['sealed_with'], row['sealed'], instance_uuid)
        try:
            return self._barbican.passphrase(_system(ctx), row['sealed'])
        except exception.InvalidVolume:
            raise Unusable('the Key Manager service does not have it, or does not give it to this system') from None

    def _made(self, ctx: Context, instance_uuid: str) -> str:
        with self._cell_db.reader() as conn:
            server, used = instances.get(conn, instance_uuid), disk_keys.sealed_with(conn, BARBICAN)
        if not guest_options.encrypted(server['flavor'], server['image_properties']):
            raise Unusable('neither its flavor nor its image asks for encrypted disks')
        key = secrets.token_hex(KEY_BYTES)
        kept = self._stored(ctx, instance_uuid, key) if self._in_barbican else self._sealed(used, instance_uuid, key)
        try:
            self._cell_db.run(disk_keys.insert, instance_uuid, *kept)
        except db_exc.DBDuplicateEntry:
            if self._in_barbican:
                self._barbican.destroy(_system(ctx), kept[1])
            return self._found(ctx, instance_uuid) or self._made(ctx, instance_uuid)
        return key

    def _sealed(self, used: set[str], instance_uuid: str, key: str) -> tuple[str, str]:
        sealer = self._usable(used)
        return sealer.first, sealer.seal(key, instance_uuid)

    def _stored(self, ctx: Context, instance_uuid: str, key: str) -> tuple[str, str]:
        if not self._barbican.has_account:
            raise Unusable('[barbican] names no account, which keys of disks need ([conductor] disk_keys)')
        return BARBICAN, self._barbican.store(_system(ctx), f'disks of server {instance_uuid}', key)

    # ---- volumes

    def get_volume_key(self, ctx: Context, instance_uuid: str, volume_id: str) -> str:
        """See interface.py."""
        try:
            with self._cell_db.reader() as conn:
                row = disk_keys.of_volume(conn, instance_uuid, volume_id)
            if row is None:
                raise Unusable(f'there is none of volume {volume_id[:36]}')
            return self._sealer().open(row['sealed_with'], row['sealed'], f'{instance_uuid} {volume_id}')
        except Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None

    def keep_volume_key(self, instance_uuid: str, volume_id: str, find: collections.abc.Callable[[], str]) -> None:
        """Keep the passphrase of an encrypted volume as long as the server has the volume: its hosts need it when no
        token of its owner is there any more.

        :param find: gives it; not called when it is here
        """
        with self._cell_db.reader() as conn:
            if disk_keys.of_volume(conn, instance_uuid, volume_id) is not None:
                return
            used = disk_keys.sealed_with(conn, BARBICAN)
        key = find()
        try:
            sealer = self._usable(used)
        except Unusable as error:
            raise exception.DiskKeyUnavailable(instance_id=instance_uuid, reason=str(error)) from None
        with contextlib.suppress(db_exc.DBDuplicateEntry):
            self._cell_db.run(disk_keys.insert_of_volume, instance_uuid, volume_id, sealer.first,
                              sealer.seal(key, f'{instance_uuid} {volume_id}'))

    def forget_volume_keys(self, instance_uuid: str) -> None:
        self._cell_db.run(disk_keys.delete_of_volumes, instance_uuid)

    def forget_volume_key(self, instance_uuid: str, volume_id: str) -> None:
        self._cell_db.run(disk_keys.delete_of_volume, instance_uuid, volume_id)

    # ---- the file

    def _usable(self, used: set[str]) -> Sealer:
        """What new keys may be sealed with."""
        sealer = self._sealer(used)
        if not used <= sealer.names:
            raise Unusable('other keys of this deployment were sealed with a file that this conductor does not have')
        return sealer

    def _sealer(self, used: set[str] | None = None) -> Sealer:
        """As the file is now.

        :param used: keys that rows were sealed with; with none it may be made now. None: there are some
        """
        keys = read(self._path)
        if keys is None and used is not None and not used:
            make(self._path)
            keys = read(self._path)
        if keys is None:
            raise Unusable(f'there is no file {self._path} on this conductor')
        return Sealer(keys)
