"""Snapshots: point-in-time copies of volumes, including volumes in use."""
from collections.abc import Callable
import functools
import logging
from typing import cast
import uuid

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables import rows as db_rows
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.volume.store import jobs
from nova.volume.store import files as volume_files
from nova.volume.store import guests as volume_guests
from nova.volume.store import keys as volume_keys
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows
from nova.volume.store import attach_backend

LOG = logging.getLogger(__name__)

Context = nova_context.RequestContext
REPORT_S = 48 * 3600     # maximum seconds until a host reports a copy: it may wait, and then take up to 24 hours


class Snapshots:
    """Snapshots of volumes.

    :param database: the API database
    :param volume_jobs: creates the copies
    :param backend: access of hosts to volumes; its exporter copies exported volumes
    :param guests: store.guests.Guests, to notify hosts of guests; None: not possible
    :param keys: keys of encrypted volumes
    """

    def __init__(self, database: Database, files: volume_files.VolumeFiles, volume_jobs: jobs.VolumeJobs,
                 limits: volume_limits.Limits, backend: attach_backend.EmbeddedAttachBackend,
                 guests: volume_guests.Guests | None, keys: volume_keys.Keys) -> None:
        self._db, self._files, self._jobs, self._limits = database, files, volume_jobs, limits
        self._backend, self._guests, self._keys = backend, guests, keys

    def get(self, ctx: Context, snapshot_id: str) -> db_rows.VolumeSnapshotsRow:
        """Return a snapshot; raises VolumeSnapshotNotFound (not visible)."""
        with self._db.reader() as conn:
            return rows.snapshot(conn, ctx, snapshot_id)

    def create(self, ctx: Context, volume_id: str, name: str | None, description: str | None = '',
               force: bool = True, metadata: dict[str, str] | None = None) -> db_rows.VolumeSnapshotsRow:
        """Start a snapshot.

        :param force: permit a volume in use
        :raises InvalidVolume, VolumeNotFound, QuotaExceeded:
        """
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> tuple[db_rows.VolumeSnapshotsRow, list[db_rows.VolumeAttachmentsRow]]:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] not in (('available', 'in-use') if force else ('available',)):
                raise exception.InvalidVolume(
                    reason=f'Volume {row["id"]} status must be available, but current status is: {row["status"]}.')
            self._limits.check(conn, row['project_id'], 'snapshots', row['size'], volume_type=row['volume_type'])
            log.about(ident)
            made = cast('db_rows.VolumeSnapshotsRow', db.insert(conn, t.volume_snapshots, {
                'id': ident, 'volume_id': row['id'], 'project_id': row['project_id'],
                'user_id': ctx.user_id or row['user_id'], 'name': name, 'description': description,
                'size': row['size'], 'status': jobs.CREATING, 'bootable': row['bootable'],
                'metadata': metadata or {}, 'image_metadata': row['image_metadata'], 'key_id': row['key_id']}))
            held = [each for each in db.attachments(conn, volume_ids=[row['id']]) if each['connector'] is not None]
            return made, held
        with engine.undone_if_unanswered(lambda: self._db.run(db.delete, t.volume_snapshots, ident)):
            made, held = self._db.run(write)
        try:
            self._copy(ctx, made, held)
        except Exception:
            self._db.run(self._forget, made)
            self._jobs.discard(self._files.snapshot(ident))
            raise
        return self.get(ctx, ident)

    def _forget(self, conn: Connection, row: db_rows.VolumeSnapshotsRow) -> None:
        db.delete(conn, t.volume_snapshots, row['id'])
        self._keys.delete_if_unused(conn, row['key_id'])

    def update(self, ctx: Context, snapshot_id: str,
               change: Callable[[db_rows.VolumeSnapshotsRow], JsonObject]) -> db_rows.VolumeSnapshotsRow:
        """Write the values of ``change(row)`` in the transaction that reads the row; return the snapshot."""
        def write(conn: Connection) -> db_rows.VolumeSnapshotsRow:
            row = rows.snapshot(conn, ctx, snapshot_id, lock=True)
            return rows.change(conn, t.volume_snapshots, row, change(row))
        return self._db.run(write)

    def _copy(self, ctx: Context, made: db_rows.VolumeSnapshotsRow, held: list[db_rows.VolumeAttachmentsRow]) -> None:
        """Start the copy for a snapshot. A volume in use is copied by a reflink, the guest's QEMU or the exporter."""
        files = self._files
        source, target = files.volume(made['volume_id']), files.snapshot(made['id'])
        if not held:
            self._jobs.make_snapshot(made)
        elif files.size(source) is None:
            raise exception.InvalidVolume(reason='the file of the volume is missing.')
        elif files.clone(source, target, size := files.room(source, made['size'] * jobs.GIB, made['key_id'])):
            self._jobs.snapshot_ended(made['id'], jobs.AVAILABLE)
        elif not files.has_tools:
            raise exception.InvalidVolume(reason='it is attached, this file system does not support reflinks, and '
                                                 'qemu-img is not installed on the volume host.')
        elif len({each['instance_uuid'] for each in held}) > 1 or (
                len(held) > 1 and any(self._backend.is_export(each['connector']) for each in held)):
            raise exception.InvalidVolume(reason='several servers or hosts write to it, and this file system does not '
                                                 'support reflinks.')
        elif self._backend.is_export(held[0]['connector']):
            attachment_id, connector = held[0]['id'], held[0]['connector']
            self._jobs.copy_snapshot(made, lambda path: self._backend.copy(attachment_id, connector, path))
        elif self._guests is None:
            raise exception.InvalidVolume(reason='it is attached, and this service cannot notify its host to copy it.')
        else:
            begin = functools.partial(self._guests.copy, nova_context.admin_context(ctx.request_id),
                                      held[0]['instance_uuid'], made['volume_id'], made['id'], bool(made['key_id']))
            if made['key_id']:
                self._jobs.start_copy(made, begin)
            else:
                begin(files.prepare_copy(target, size, source))

    def copied(self, snapshot_id: str, status: str) -> None:
        """Handle a compute host's report on a copy: 'creating' means that it is complete, 'error' that it failed.

        Administrators may report 'available' for a snapshot if its status was reset to 'creating'.

        :raises InvalidVolume: 'available' for a snapshot that is being copied or has another status
        """
        if status == jobs.AVAILABLE:
            with self._db.reader() as conn:
                row = rows.find_snapshot(conn, snapshot_id)
                if row is None or row['status'] != jobs.CREATING or self._is_made(conn, row):
                    raise exception.InvalidVolume(reason='the snapshot is being copied, or its status is not creating.')
            self._jobs.snapshot_ended(snapshot_id, jobs.AVAILABLE)
        elif status == jobs.CREATING:
            self._jobs.finish_snapshot(snapshot_id)
        elif status == jobs.ERROR:
            self._files.discard_copy(self._files.snapshot(snapshot_id))
            self._jobs.snapshot_ended(snapshot_id, jobs.ERROR)

    def end_lost(self) -> None:
        """End snapshots that nobody makes any more.

        Without a copy to finish, the database was away at the end of the job, so the file shows the result. With one,
        a guest's host has not reported for REPORT_S: the host crashed, or its report was lost.
        """
        with self._db.reader() as conn:
            found = cast('list[db_rows.VolumeSnapshotsRow]', db.unfinished(conn, t.volume_snapshots, {}))
        for row in found:
            path = self._files.snapshot(row['id'])
            if self._jobs.is_abandoned(row, jobs.RESUME_S) and not self._files.has_copy(path):
                complete = self._files.size(path) is not None
                LOG.warning('Snapshot %s was %s, but its status was not recorded.', row['id'],
                            'complete' if complete else 'not made')
                self._jobs.snapshot_ended(row['id'], jobs.AVAILABLE if complete else jobs.ERROR)
            elif self._jobs.is_abandoned(row, REPORT_S):
                LOG.warning('Snapshot %s is in error: its host has not reported the copy for %s hours.', row['id'],
                            REPORT_S // 3600)
                self.copied(row['id'], jobs.ERROR)

    def _is_made(self, conn: Connection, row: db_rows.VolumeSnapshotsRow) -> bool:
        """Return whether a copy may be in progress. QEMU of a guest copies only while the volume is attached."""
        return row['status'] == jobs.CREATING and bool(
            self._jobs.is_busy(row['id']) or db.attachments(conn, volume_ids=[row['volume_id']]))

    def delete(self, ctx: Context, snapshot_id: str) -> None:
        """Delete a snapshot; idempotent.

        :raises InvalidVolume: the snapshot is being created, or used as a source
        """
        def write(conn: Connection) -> str:
            row = rows.snapshot(conn, ctx, snapshot_id, lock=True)
            if self._is_made(conn, row) or any(db.unfinished(conn, table, {
                    'snapshot_id': row['id']}) for table in (t.volumes, t.volume_backups)):
                raise exception.InvalidVolume(reason='the snapshot is being created or copied.')
            self._forget(conn, row)
            return self._files.snapshot(row['id'])
        try:
            path = self._db.run(write)
        except exception.NotFound:
            return
        self._jobs.discard(path)
