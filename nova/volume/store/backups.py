"""Backups: full copies of volumes in a separate directory. They remain if the volume is deleted."""
from collections.abc import Callable
import contextlib
from typing import cast
import uuid

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables import rows as db_rows
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.volume.store import jobs
from nova.volume.store import files as volume_files
from nova.volume.store import keys as volume_keys
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows

Context = nova_context.RequestContext


class Backups:
    """Backups of volumes.

    :param database: the API database
    :param snapshot: function(context, volume id, name) that creates a snapshot, also of a volume in use
    :param keys: keys of encrypted volumes
    """

    def __init__(self, database: Database, files: volume_files.VolumeFiles, volume_jobs: jobs.VolumeJobs,
                 limits: volume_limits.Limits, snapshot: Callable[[Context, str, str], db_rows.VolumeSnapshotsRow],
                 keys: volume_keys.Keys) -> None:
        self._db, self._files, self._jobs, self._limits = database, files, volume_jobs, limits
        self._snapshot, self._keys = snapshot, keys

    def get(self, ctx: Context, backup_id: str) -> db_rows.VolumeBackupsRow:
        """Return a backup; raises VolumeBackupNotFound (no such backup in the project)."""
        with self._db.reader() as conn:
            return rows.backup(conn, ctx, backup_id)

    def create(self, ctx: Context, volume_id: str, snapshot_id: str | None = None, *, name: str | None = None,
               description: str | None = None, metadata: dict[str, str] | None = None,
               force: bool = True) -> db_rows.VolumeBackupsRow:
        """Start a backup of a volume or snapshot. A volume in use is backed up from a temporary snapshot.

        :param force: permit a volume in use
        :raises InvalidVolume, VolumeNotFound, VolumeSnapshotNotFound, QuotaExceeded:
        """
        ident, temporary = str(uuid.uuid4()), False
        with self._db.reader() as conn:
            volume = rows.volume(conn, ctx, volume_id)
        if snapshot_id is None and volume['status'] == 'in-use':
            if not force:
                raise exception.InvalidVolume(reason='a backup of a volume in use needs force.')
            # snapshot before the backup's row: after a crash in between, the owner sees the snapshot and can delete it
            snapshot_id, temporary = self._snapshot(ctx, volume['id'], f'for backup {ident}')['id'], True

        def write(conn: Connection) -> db_rows.VolumeBackupsRow:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            source: db_rows.VolumesRow | db_rows.VolumeSnapshotsRow = row
            if snapshot_id is not None:
                source = found = rows.snapshot(conn, ctx, snapshot_id, lock=True)
                if found['volume_id'] != row['id'] or found['status'] not in (jobs.AVAILABLE, jobs.CREATING):
                    raise exception.InvalidVolume(reason='the snapshot belongs to another volume or is not complete.')
            elif row['status'] != jobs.AVAILABLE:
                raise exception.InvalidVolume(reason=f'a volume in status {row["status"]} cannot be backed up.')
            self._limits.check(conn, row['project_id'], 'backups', source['size'])
            return cast('db_rows.VolumeBackupsRow', db.insert(conn, t.volume_backups, {
                'id': ident, 'volume_id': row['id'], 'snapshot_id': snapshot_id, 'temporary': temporary,
                'project_id': row['project_id'], 'user_id': ctx.user_id, 'size': source['size'],
                'status': jobs.CREATING, 'bootable': source['bootable'],
                'image_metadata': source['image_metadata'], 'key_id': source['key_id'], 'name': name,
                'description': description, 'metadata': metadata or {}}))
        log.about(ident)
        try:
            self._jobs.start_after(write, self._jobs.make_backup)
        except (exception.NovaException, db_exc.DBError):
            if temporary and snapshot_id is not None:
                with contextlib.suppress(db_exc.DBError, OSError):
                    self._jobs.end_snapshot(snapshot_id)
            raise
        return self.get(ctx, ident)

    @staticmethod
    def begin_restore(conn: Connection, ctx: Context, backup_id: str) -> db_rows.VolumeBackupsRow:
        """Mark a backup as being restored and return its row.

        :raises InvalidVolume, VolumeBackupNotFound:
        """
        backup = rows.backup(conn, ctx, backup_id, lock=True)
        if backup['status'] not in (jobs.AVAILABLE, jobs.RESTORING_FROM):
            raise exception.InvalidVolume(reason=f'the backup has status {backup["status"]}.')
        db.update(conn, t.volume_backups, backup['id'], {'status': jobs.RESTORING_FROM})
        return backup

    def restore(self, ctx: Context, backup_id: str, volume_id: str) -> db_rows.VolumesRow:
        """Start restoring a backup to a volume; return the volume.

        :raises InvalidVolume, VolumeNotFound, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> db_rows.VolumesRow:
            backup = self.begin_restore(conn, ctx, backup_id)
            volume = rows.volume(conn, ctx, volume_id, lock=True)
            if volume['status'] != jobs.AVAILABLE or volume['size'] < backup['size']:
                raise exception.InvalidVolume(
                    reason=f'the volume has {volume["size"]} GiB and status {volume["status"]}. It must be available, '
                           f'with at least {backup["size"]} GiB.')
            rows.check_writable(volume)
            if volume['key_id'] != backup['key_id']:
                raise exception.InvalidVolume(reason='volume and backup have different encryption keys. Restore the '
                                                     'backup to a new volume.')
            if db.being_copied(conn, volume['id']):
                raise exception.InvalidVolume(reason='the volume is being copied.')
            return rows.change(conn, t.volumes, volume, {
                'status': jobs.RESTORING, 'backup_id': backup['id'], 'bootable': backup['bootable'],
                'image_metadata': backup['image_metadata']})
        return self._jobs.start_after(write, self._jobs.restore_volume)

    def update(self, ctx: Context, backup_id: str, values: JsonObject) -> db_rows.VolumeBackupsRow:
        """Update a backup's name, description or metadata; return the row."""
        return self._db.run(lambda conn: rows.change(
            conn, t.volume_backups, rows.backup(conn, ctx, backup_id, lock=True), values))

    def reset(self, ctx: Context, backup_id: str, status: str) -> None:
        """Set a backup's status for an administrator.

        :raises InvalidVolume, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> None:
            row = rows.backup(conn, ctx, backup_id, lock=True)
            self._check_idle(conn, row)
            db.update(conn, t.volume_backups, row['id'], {'status': status})
        self._db.run(write)

    def _check_idle(self, conn: Connection, row: db_rows.VolumeBackupsRow) -> None:
        """Check that no job creates or restores a backup; raises InvalidVolume."""
        waits = row['status'] == jobs.CREATING and row['snapshot_id'] and db.unfinished(
            conn, t.volume_snapshots, {'id': row['snapshot_id']})  # the job starts when the snapshot is complete
        if waits or self._jobs.is_busy(row['id']) or db.is_restored(conn, row['id']):
            raise exception.InvalidVolume(reason=f'the backup has status {row["status"]} and a job is in progress.')

    def delete(self, ctx: Context, backup_id: str, force: bool = False) -> None:
        """Delete a backup.

        :param force: delete the backup in any status, unless a job creates or restores the backup
        :raises InvalidVolume, VolumeBackupNotFound:
        """
        def write(conn: Connection) -> str:
            row = rows.backup(conn, ctx, backup_id, lock=True)
            if force:
                self._check_idle(conn, row)
            elif row['status'] not in (jobs.AVAILABLE, jobs.ERROR):
                raise exception.InvalidVolume(reason=f'the backup has status {row["status"]}.')
            db.delete(conn, t.volume_backups, row['id'])
            self._keys.delete_if_unused(conn, row['key_id'])
            return self._files.backup(row['id'])
        self._jobs.discard(self._db.run(write))
