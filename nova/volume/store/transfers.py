"""Transfers of volumes to another project: the owner creates a transfer and passes its key to the new owner."""
import hashlib
import hmac
import secrets
from typing import cast
import uuid

from nova import context as nova_context
from nova import exception
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables.rows import VolumeTransfersRow
from nova.db.tables import volume as t
from nova.db.tables.rows import VolumesRow
from nova.db.volumes import volumes as db
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows
from nova.volume.store import types

Context = nova_context.RequestContext
AWAITING, AVAILABLE = 'awaiting-transfer', 'available'
KEY_BYTES = 16


class Offer(VolumeTransfersRow):
    """A new transfer with its key."""

    auth_key: str


class Transfers:
    """Volume transfers.

    :param database: the API database
    """

    def __init__(self, database: Database, limits: volume_limits.Limits) -> None:
        self._db, self._limits = database, limits

    def get(self, ctx: Context, transfer_id: str) -> VolumeTransfersRow:
        """Return a transfer; raises VolumeTransferNotFound (not visible)."""
        with self._db.reader() as conn:
            return rows.transfer(conn, ctx, transfer_id)

    def create(self, ctx: Context, volume_id: str, name: str | None, no_snapshots: bool = False) -> Offer:
        """Create a transfer of a volume with its snapshots; return the row with 'auth_key', which is shown only once.

        :param no_snapshots: refuse a volume with snapshots: they cannot stay in the project without the volume
        :raises InvalidVolume, VolumeNotFound:
        """
        ident, key = str(uuid.uuid4()), secrets.token_hex(KEY_BYTES)

        def write(conn: Connection) -> VolumeTransfersRow:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] != AVAILABLE or db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason='the volume must be available and no copy of it in progress; its '
                                                     f'status is {row["status"]}.')
            if row['key_id']:
                raise exception.InvalidVolume(reason='it is encrypted and its key belongs to this project. Copy the '
                                                     'data to a volume of the other project.')
            snapshots = [ident for ident, _size in db.snapshots(conn, row['id'])]
            if snapshots and no_snapshots:
                raise exception.InvalidVolume(reason='it has snapshots, which cannot stay in this project without the '
                                                     'volume. Omit no_snapshots to transfer them, or delete them.')
            if db.copied_from(conn, snapshots):
                raise exception.InvalidVolume(reason='a volume or backup is being created from one of its snapshots.')
            db.delete_transfer(conn, row['id'])  # a transfer may remain after a reset of the volume's status
            db.update(conn, t.volumes, row['id'], {'status': AWAITING})
            return cast(VolumeTransfersRow, db.insert(conn, t.volume_transfers, {
                'id': ident, 'volume_id': row['id'], 'project_id': row['project_id'], 'name': name,
                'key_hash': _hash(key)}))
        log.about(ident)
        return {**self._db.run(write), 'auth_key': key}

    def accept(self, ctx: Context, transfer_id: str, key: str) -> VolumeTransfersRow:
        """Move an offered volume and its snapshots to the caller's project.

        :raises VolumeTransferNotFound: no such transfer, or a wrong key for a transfer of another project
        :raises InvalidVolume: wrong key for the project's own transfer, or the volume is no longer offered
        :raises QuotaExceeded:
        """
        def write(conn: Connection) -> VolumeTransfersRow:
            row = db.get(conn, t.volume_transfers, transfer_id[:64], nova_context.ALL_PROJECTS, lock=True)
            matches = row is not None and hmac.compare_digest(row['key_hash'], _hash(key))
            if row is None or not matches and row['project_id'] != ctx.project_id:
                raise exception.VolumeTransferNotFound(transfer_id=transfer_id[:64])
            if not matches:
                raise exception.InvalidVolume(reason='the auth_key is wrong.')
            volume = rows.find_volume(conn, row['volume_id'], lock=True)
            if volume is None or volume['status'] != AWAITING:
                raise exception.InvalidVolume(reason='it is no longer offered.')
            _check_type(conn, volume, ctx)
            project_id = nova_context.the_project(ctx.project_id)
            sizes = [size for _ident, size in db.snapshots(conn, volume['id'])]
            for noun, number in (('volumes', 1), ('snapshots', len(sizes))):
                if number:
                    self._limits.check(conn, project_id, noun, volume['size'] + sum(sizes), volume['size'],
                                       volume['volume_type'], number)
            db.update(conn, t.volumes, volume['id'], {
                'project_id': project_id, 'user_id': ctx.user_id, 'status': AVAILABLE})
            db.give_snapshots(conn, volume['id'], project_id, ctx.user_id)
            db.delete(conn, t.volume_transfers, row['id'])
            return cast(VolumeTransfersRow, row)
        return self._db.run(write)

    def delete(self, ctx: Context, transfer_id: str) -> None:
        """Delete a transfer; raises VolumeTransferNotFound."""
        def write(conn: Connection) -> None:
            row = rows.transfer(conn, ctx, transfer_id)
            db.delete(conn, t.volume_transfers, row['id'])
            db.update(conn, t.volumes, row['volume_id'], {'status': AVAILABLE}, statuses=[AWAITING])
        self._db.run(write)


def _check_type(conn: Connection, volume: VolumesRow, ctx: Context) -> None:
    try:
        types.find(conn, volume['volume_type'], ctx.sees, lock=True)
    except exception.VolumeTypeNotFound:
        raise exception.InvalidVolume(reason='its type is private and not accessible to this project.') from None


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors='replace')).hexdigest()
