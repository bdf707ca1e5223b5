"""Backups: whole copies of volumes in a directory of their own. They outlive their volume, and go onto any other."""
from __future__ import annotations

from collections.abc import Callable
import typing
import uuid

from nova import context as nova_context
from nova import exception
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.store import contents
from nova.volume.store import files as volume_files
from nova.volume.store import keys as volume_keys
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows

Row = dict[str, typing.Any]
Context = nova_context.RequestContext


class Backups:
    """
    :param database: the API database
    :param snapshot: a function of a context, the id of a volume and a name: makes a snapshot, of one in use, too
    :param keys: of encrypted volumes
    """

    def __init__(self, database: typing.Any, files: volume_files.VolumeFiles, made: contents.Contents,
                 limits: volume_limits.Limits, snapshot: Callable[[Context, str, str], Row],
                 keys: volume_keys.Keys) -> None:
        self._db, self._files, self._contents, self._limits = database, files, made, limits
        self._snapshot, self._keys = snapshot, keys

    def get(self, ctx: Context, backup_id: str) -> Row:
        """:raises VolumeBackupNotFound: there is none, or it is another project's"""
        with self._db.reader() as conn:
            return rows.backup(conn, ctx, backup_id)

    def create(self, ctx: Context, volume_id: str, snapshot_id: str | None = None, **values: typing.Any) -> Row:
        """Begin a backup of a volume, or of one of its snapshots. One of a volume in use is of one moment: of a
        snapshot that is made for it, and goes afterwards.

        :param values: name, description, metadata
        :raises InvalidVolume, VolumeNotFound, VolumeSnapshotNotFound, QuotaExceeded:
        """
        ident, temporary = str(uuid.uuid4()), False
        with self._db.reader() as conn:
            volume = rows.volume(conn, ctx, volume_id)
        if snapshot_id is None and volume['status'] == 'in-use':
            # before its row: what a crash leaves between them is a snapshot that its owner sees
            snapshot_id, temporary = self._snapshot(ctx, volume['id'], f'for backup {ident}')['id'], True

        def write(conn: Connection) -> Row:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            source = row
            if snapshot_id is not None:
                source = rows.snapshot(conn, ctx, snapshot_id, lock=True)
                if source['volume_id'] != row['id'] or source['status'] not in (contents.AVAILABLE, contents.CREATING):
                    raise exception.InvalidVolume(reason='the snapshot is of another volume, or not complete.')
            elif row['status'] != contents.AVAILABLE:
                raise exception.InvalidVolume(reason=f'a volume in status {row["status"]} has no backup made.')
            self._limits.use(conn, row['project_id'], 'backups', source['size'])
            return db.insert(conn, volume_backups, {
                'id': ident, 'volume_id': row['id'], 'snapshot_id': snapshot_id, 'temporary': temporary,
                'project_id': row['project_id'], 'user_id': ctx.user_id, 'size': source['size'],
                'status': contents.CREATING, 'bootable': source['bootable'],
                'image_metadata': source['image_metadata'], 'key_id': source['key_id'], **values})
        log.about(ident)
        try:
            row = self._db.run(write)
        except exception.NovaException:
            if temporary and snapshot_id is not None:
                self._contents.end_snapshot(snapshot_id)
            raise
        self._contents.make_backup(row)
        return self.get(ctx, ident)

    @staticmethod
    def begin_restore(conn: Connection, ctx: Context, backup_id: str) -> Row:
        """Keep a backup while a volume is made of it; its row.

        :raises InvalidVolume, VolumeBackupNotFound:
        """
        backup = rows.backup(conn, ctx, backup_id, lock=True)
        if backup['status'] not in (contents.AVAILABLE, contents.RESTORING_FROM):
            raise exception.InvalidVolume(reason=f'the backup is in status {backup["status"]}.')
        db.update(conn, volume_backups, backup['id'], {'status': contents.RESTORING_FROM})
        return backup

    def restore(self, ctx: Context, backup_id: str, volume_id: str) -> Row:
        """Begin to put a backup onto a volume; the volume.

        :raises InvalidVolume, VolumeNotFound, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> Row:
            backup = self.begin_restore(conn, ctx, backup_id)
            volume = rows.volume(conn, ctx, volume_id, lock=True)
            if volume['status'] != contents.AVAILABLE or volume['size'] < backup['size']:
                raise exception.InvalidVolume(
                    reason=f'the volume has {volume["size"]} GiB and is in status {volume["status"]}; it has to be '
                           f'available, of {backup["size"]} GiB at least.')
            rows.check_writable(volume)
            if volume['key_id'] != backup['key_id']:
                raise exception.InvalidVolume(reason='the two are not encrypted with one key. The backup can be '
                                                     'restored to a new volume.')
            if db.being_copied(conn, volume['id']):
                raise exception.InvalidVolume(reason='a copy of the volume is being made.')
            values = {'status': contents.RESTORING, 'backup_id': backup['id'], 'bootable': backup['bootable'],
                      'image_metadata': backup['image_metadata']}
            db.update(conn, volumes, volume['id'], values)
            return {**volume, **values}
        row = self._db.run(write)
        self._contents.restore_volume(row)
        return row

    def update(self, ctx: Context, backup_id: str, values: Row) -> Row:
        """Write a backup's name, description or metadata; the row then."""
        def write(conn: Connection) -> Row:
            row = rows.backup(conn, ctx, backup_id, lock=True)
            db.update(conn, volume_backups, row['id'], values)
            return {**row, **values}
        return typing.cast(Row, self._db.run(write))

    def reset(self, ctx: Context, backup_id: str, status: str) -> None:
        """Write another status.

        :raises InvalidVolume, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> None:
            row = rows.backup(conn, ctx, backup_id, lock=True)
            self._check_idle(conn, row)
            db.update(conn, volume_backups, row['id'], {'status': status})
        self._db.run(write)

    def _check_idle(self, conn: Connection, row: Row) -> None:
        """:raises InvalidVolume: it is being made, or restored"""
        waits = row['status'] == contents.CREATING and row['snapshot_id'] and db.unfinished(
            conn, volume_snapshots, {'id': row['snapshot_id']})             # for its own snapshot, of a volume in use
        if waits or self._contents.works_on(row['id']) or db.is_restored(conn, row['id']):
            raise exception.InvalidVolume(reason=f'the backup is in status {row["status"]}, and that goes on.')

    def delete(self, ctx: Context, backup_id: str, force: bool = False) -> None:
        """
        :param force: in any status, unless it is being made or restored
        :raises InvalidVolume, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> str:
            row = rows.backup(conn, ctx, backup_id, lock=True)
            if force:
                self._check_idle(conn, row)
            elif row['status'] not in (contents.AVAILABLE, contents.ERROR):
                raise exception.InvalidVolume(reason=f'the backup is in status {row["status"]}.')
            db.delete(conn, volume_backups, row['id'])
            self._keys.forget(conn, row['key_id'])
            return self._files.backup(row['id'])
        self._contents.discard(self._db.run(write))
