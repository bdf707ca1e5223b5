"""Create the data of volumes, snapshots and backups in the background, and record the result in their rows.

A status such as 'creating' or 'downloading' shows unfinished work. After a crash, jobs restart, but
unfinished snapshots fail.
"""
from collections.abc import Callable, Iterator
from concurrent import futures
import contextlib
import dataclasses
import datetime
import functools
import logging
import threading
from typing import cast, TypeVar

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.engine import CommitUnanswered
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.engine import Table
from nova.db.tables import rows as db_rows
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.runtime import concurrency
from nova.runtime import fairness
from nova.runtime import queues
from nova.volume import api
from nova.volume.store import attachments
from nova.volume.store import files as volume_files
from nova.volume.store import keys as volume_keys
from nova.volume.store import rows

LOG = logging.getLogger(__name__)

GIB = 2 ** 30
WORKERS = 5  # concurrent jobs, at most four for one project; further jobs would only wait for the disk
MAX_WAIT_S = 0.25                        # seconds that a request waits for its job, so that most clients need not poll
CREATING, DOWNLOADING, AVAILABLE, ERROR = 'creating', attachments.DOWNLOADING, 'available', 'error'
RESTORING, ERROR_RESTORING = 'restoring-backup', 'error_restoring'       # status of a volume
RESTORING_FROM = 'restoring'                                             # status of the backup
_Result = TypeVar('_Result')
RESUME_S = 120                           # age of a row in seconds after which its request has started its job
HAS_FILE = (AVAILABLE, RESTORING_FROM)                                   # statuses of a complete backup


@dataclasses.dataclass(frozen=True)
class _Work:
    ident: str                           # id of the resource; only one job for an id runs at a time
    job: Callable[[], None]


class VolumeJobs:
    """Background jobs on volumes.

    :param database: the API database
    :param keys: keys of encrypted volumes
    """

    def __init__(self, database: Database, files: volume_files.VolumeFiles, images: api.Images,
                 keys: volume_keys.Keys) -> None:
        self._db, self._files, self._images, self._keys = database, files, images, keys
        self._executor = fairness.FairExecutor(queues.VOLUMES, 'volumes', WORKERS)
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._requeued: dict[str, _Work] = {}        # {ident: next job, after the current job of this id}

    def make_volume(self, ctx: nova_context.RequestContext, row: db_rows.VolumesRow) -> None:
        """Start creating the data of a volume with status 'creating'."""
        self.work(row, functools.partial(self._volume, ctx, row['id']))

    def fill_volume(self, ctx: nova_context.RequestContext, row: db_rows.VolumesRow) -> None:
        """Start writing an image to a volume with status 'downloading'; the row names the image."""
        self.work(row, functools.partial(self._fill, ctx, row['id']))

    def make_snapshot(self, row: db_rows.VolumeSnapshotsRow) -> None:
        """Start the copy for a snapshot with status 'creating'; its volume is not in use."""
        self.work(row, functools.partial(self._snapshot, row['id']))

    def copy_snapshot(self, row: db_rows.VolumeSnapshotsRow, write: Callable[[str], None]) -> None:
        """Start the copy for a snapshot of an exported volume; ``write(path)`` writes the copy to a qcow2 file."""
        self.work(row, functools.partial(self._snapshot, row['id'], write))

    def start_copy(self, row: db_rows.VolumeSnapshotsRow, begin: Callable[[str], None]) -> None:
        """Start the copy for a snapshot of an encrypted volume in use; the guest's QEMU makes the copy.

        ``begin(path)`` starts the copy to a file; ``finish_snapshot`` ends it. This is a job, because creating the
        LUKS file takes seconds of CPU time.
        """
        self.work(row, functools.partial(self._start, row['id'], begin))

    def make_backup(self, row: db_rows.VolumeBackupsRow) -> None:
        """Start the copy for a backup with status 'creating', after its snapshot is complete."""
        self.work(row, functools.partial(self._backup, row['id']))

    def restore_volume(self, row: db_rows.VolumesRow) -> None:
        """Start restoring a backup to a volume with status 'restoring-backup'; the row names the backup."""
        self.work(row, functools.partial(self._restore, row['id'], row['backup_id'] or ''))

    def start_after(self, write: Callable[[Connection], _Result], start: Callable[[_Result], None]) -> _Result:
        """Run a transaction, call ``start`` with its result, which starts a job, and return the result.

        The job also starts if the answer to the commit is lost. If the commit was not made, the job finds no row with
        its status and ends. If the database is still away then, ``resume`` starts the job again.
        """
        made: list[_Result] = []

        def noted(conn: Connection) -> None:
            made[:] = [write(conn)]
        try:
            self._db.run(noted)
        except CommitUnanswered:
            with contextlib.suppress(db_exc.DBError):
                self._db.run(lambda conn: None)          # waits until the database answers again
            start(made[0])
            raise
        start(made[0])
        return made[0]

    def work(self, row: rows.Stored, job: Callable[[], None]) -> None:
        """Start a job on a volume, snapshot or backup, scheduled fairly between projects."""
        self._submit(row['id'], job, row['project_id'])

    def is_busy(self, ident: str) -> bool:
        """Return whether a job on a volume, snapshot or backup is running or queued."""
        return ident in self._busy

    def is_abandoned(self, row: rows.Stored, age_s: float) -> bool:
        """Return whether a row has no job and was not written for so many seconds."""
        return row['updated_at'] < utils.utcnow() - datetime.timedelta(seconds=age_s) and not self.is_busy(row['id'])

    def discard(self, *paths: str) -> None:
        """Move files to the trash, which is emptied in the background."""
        for path in paths:
            self._files.discard(path)
        if paths:
            self._submit('trash', self._files.empty_trash)
            self.delete_unused_keys()

    @contextlib.contextmanager
    def deleting_unused_keys(self) -> Iterator[None]:
        """Context manager: if the block fails, delete unused keys, such as a key that the block has created."""
        try:
            yield
        except BaseException:
            self.delete_unused_keys()
            raise

    def delete_unused_keys(self) -> None:
        """Start deleting unused keys in the Key Manager service."""
        if self._keys.external:
            self._submit('keys', self._keys.delete_unused_secrets)

    def stop(self, timeout: float) -> bool:
        """Start no further jobs; ``recover`` restarts unfinished jobs when the service starts again."""
        return self._executor.stop(timeout)

    # ---- jobs

    def _submit(self, ident: str, job: Callable[[], None], owner: str = '') -> None:
        work = _Work(ident, concurrency.with_context(job))
        with self._lock:
            if ident in self._busy:
                self._requeued[ident] = work            # start it after the running job, which may have read old rows
                return
            self._busy.add(ident)
        try:
            future = self._executor.submit(owner, self._run, work)
        except RuntimeError:                         # the process is stopping; ``recover`` restarts the job
            with self._lock:
                self._busy.discard(ident)
                self._requeued.pop(ident, None)
            return
        if not self._executor.waiting:
            with contextlib.suppress(futures.TimeoutError, futures.CancelledError):
                future.result(MAX_WAIT_S)

    def _run(self, work: _Work) -> None:
        following: _Work | None = work
        while following is not None:                 # a requeued job runs on the same thread
            try:
                following.job()
            except BaseException:                    # go on: otherwise no later job of this id would run
                LOG.exception('Work on %s failed.', work.ident)
            with self._lock:
                following = self._requeued.pop(work.ident, None)
                if following is None:
                    self._busy.discard(work.ident)

    def _volume(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        with self._db.reader() as conn:
            row = rows.find_volume(conn, volume_id)
            if row is None or row['status'] != CREATING or _waits(conn, row['snapshot_id']):
                return
        path, size = self._files.volume(volume_id), row['size'] * GIB
        with self._failed_status(t.volumes, volume_id, CREATING):
            if self._files.size(path) is not None:
                pass   # an existing file is complete: keep it; if the status was reset to CREATING, it has user data
            elif row['snapshot_id']:
                self._copy(self._files.snapshot(row['snapshot_id']), path, row)
            elif row['source_volume_id']:
                self._copy(self._files.volume(row['source_volume_id']), path, row)
            elif row['image_id']:
                self._image(ctx, row, path, size)
            else:
                self._files.create_empty(path, size, self._keys.of(row))
            if not self._db.run(_mark_available, volume_id, CREATING):
                self._discard_deleted(volume_id)
        self._end_temporary(row['snapshot_id'])

    def _fill(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        row = self._read(volume_id)
        if row is None or row['status'] != DOWNLOADING:
            return
        with self._failed_status(t.volumes, volume_id, DOWNLOADING):
            self._image(ctx, row, self._files.volume(volume_id), row['size'] * GIB)
            if not self._db.run(_mark_available, volume_id, DOWNLOADING):
                self._discard_deleted(volume_id)

    def _discard_deleted(self, volume_id: str) -> None:
        """Discard the data of a volume that was deleted during the job."""
        if self._read(volume_id) is None:
            self.discard(self._files.volume(volume_id))

    def _image(self, ctx: nova_context.RequestContext, row: db_rows.VolumesRow, path: str, size: int) -> None:
        image_id = row['image_id'] or ''
        image = self._images.show(ctx, image_id)
        self._files.image(path, size, image['disk_format'] or '',
                          lambda target, group: self._images.readable(ctx, image_id, target, group),
                          self._keys.of(row), 0 if self._images.in_place else image.get('size') or 0)

    def _copy(self, source: str, path: str, row: rows.Stored) -> None:
        """Copy a file; source and copy have the same encryption."""
        self._files.copy(source, path, self._files.room(source, row['size'] * GIB, row['key_id']))

    def _read(self, volume_id: str) -> db_rows.VolumesRow | None:
        with self._db.reader() as conn:
            return rows.find_volume(conn, volume_id)

    def _snapshot(self, snapshot_id: str, write: Callable[[str], None] | None = None) -> None:
        row = self._unfinished(snapshot_id)
        if row is None:
            return
        with self._failed_status(t.volume_snapshots, snapshot_id, CREATING):
            source, path = self._files.volume(row['volume_id']), self._files.snapshot(snapshot_id)
            if write is None:
                self._copy(source, path, row)
            else:
                room = self._files.room(source, row['size'] * GIB, row['key_id'])
                try:
                    write(self._files.prepare_copy(path, room, source))
                    self._files.finish_copy(path, room, self._images.check_header)
                except BaseException:
                    self._files.discard_copy(path)
                    raise
            self.snapshot_ended(snapshot_id, AVAILABLE)

    def _start(self, snapshot_id: str, begin: Callable[[str], None]) -> None:
        row = self._unfinished(snapshot_id)
        if row is None:
            return
        with self._failed_status(t.volume_snapshots, snapshot_id, CREATING):
            path = self._files.snapshot(snapshot_id)
            try:
                begin(self._files.prepare_copy(path, row['size'] * GIB, self._files.volume(row['volume_id']),
                                               self._keys.of(row)))
            except BaseException:
                self._files.discard_copy(path)
                raise

    def _unfinished(self, snapshot_id: str) -> db_rows.VolumeSnapshotsRow | None:
        with self._db.reader() as conn:
            row = rows.find_snapshot(conn, snapshot_id)
        return row if row is not None and row['status'] == CREATING else None

    def finish_snapshot(self, snapshot_id: str) -> None:
        """Finish a snapshot with status 'creating' after the guest's QEMU has copied the volume."""
        with self._db.reader() as conn:
            row = rows.find_snapshot(conn, snapshot_id)
        if row is not None:
            self.work(row, functools.partial(self._finish, row['id']))

    def _finish(self, snapshot_id: str) -> None:
        row = self._unfinished(snapshot_id)
        if row is None:
            return
        with self._failed_status(t.volume_snapshots, snapshot_id, CREATING):
            self._files.finish_copy(self._files.snapshot(snapshot_id), row['size'] * GIB, self._images.check_header,
                                    bool(row['key_id']))
            self.snapshot_ended(snapshot_id, AVAILABLE)

    def snapshot_ended(self, snapshot_id: str, status: str) -> None:
        """Record the result of a snapshot and start jobs that wait for it."""
        if not self._db.run(db.update, t.volume_snapshots, snapshot_id, {'status': status}, statuses=[CREATING]):
            with self._db.reader() as conn:
                known = rows.find_snapshot(conn, snapshot_id)
            if known is None:
                self.discard(self._files.snapshot(snapshot_id))
            return
        with self._db.reader() as conn:
            waiting = cast('list[db_rows.VolumesRow]', db.unfinished(conn, t.volumes, {'snapshot_id': snapshot_id}))
            backups = cast('list[db_rows.VolumeBackupsRow]', db.unfinished(
                conn, t.volume_backups, {'snapshot_id': snapshot_id}))
        for backup in backups:  # if the snapshot failed, the job sets the backup's status to 'error'
            self.make_backup(backup)
        for volume in waiting:
            if status == AVAILABLE:
                self.make_volume(_owner(volume), volume)
            else:
                self._db.run(db.update, t.volumes, volume['id'], {'status': ERROR}, statuses=[CREATING])

    def _backup(self, backup_id: str) -> None:
        with self._db.reader() as conn:
            row = rows.find_backup(conn, backup_id)
            if row is None or row['status'] != CREATING or _waits(conn, row['snapshot_id']):
                return
        with self._failed_status(t.volume_backups, backup_id, CREATING):
            self._copy(self._files.snapshot(row['snapshot_id']) if row['snapshot_id'] else
                       self._files.volume(row['volume_id']), self._files.backup(backup_id), row)
            self._db.run(db.update, t.volume_backups, backup_id, {'status': AVAILABLE}, statuses=[CREATING])
        self._end_temporary(row['snapshot_id'])

    def _end_temporary(self, snapshot_id: str | None) -> None:
        """Delete the source of an ended copy, if it is the temporary snapshot of any backup."""
        if snapshot_id is not None:
            with self._db.reader() as conn:
                found = db.is_temporary(conn, snapshot_id)
            if found:
                self.end_snapshot(snapshot_id)

    def end_snapshot(self, snapshot_id: str) -> None:
        """Delete the temporary snapshot of a backup, unless a volume or backup is being created from the snapshot."""
        def write(conn: Connection) -> bool:
            row = db.get(conn, t.volume_snapshots, snapshot_id, nova_context.ALL_PROJECTS, lock=True)
            if db.copied_from(conn, [snapshot_id]):
                return False
            db.delete(conn, t.volume_snapshots, snapshot_id)
            self._keys.delete_if_unused(conn, row['key_id'] if row else None)
            return True
        if self._db.run(write):
            self.discard(self._files.snapshot(snapshot_id))

    def _restore(self, volume_id: str, backup_id: str) -> None:
        row = self._read(volume_id)
        if row is not None and row['status'] == RESTORING:  # not if the volume was deleted or its status reset
            with self._failed_status(t.volumes, volume_id, RESTORING, ERROR_RESTORING):
                self._copy(self._files.backup(backup_id), self._files.volume(volume_id), row)
                if not self._db.run(db.update, t.volumes, volume_id, {'status': AVAILABLE}, statuses=[RESTORING]):
                    self._discard_deleted(volume_id)
        self._db.run(self._restored, backup_id)

    @staticmethod
    def _restored(conn: Connection, backup_id: str) -> None:
        if not db.is_restored(conn, backup_id):
            db.update(conn, t.volume_backups, backup_id, {'status': AVAILABLE}, statuses=[RESTORING_FROM])

    @contextlib.contextmanager
    def _failed_status(self, table: Table, ident: str, status: str, failed: str = ERROR) -> Iterator[None]:
        """Context manager: if the block fails, set a row's status to ``failed``."""
        try:
            yield
        except Exception as error:
            known = isinstance(error, exception.NovaException)
            LOG.warning('%s %s is in error: %s', table.name, ident, error, exc_info=not known)
            if table is t.volume_snapshots:
                self.snapshot_ended(ident, ERROR)
            else:
                self._db.run(db.update, table, ident, {'status': failed}, statuses=[status])

    def resume(self) -> None:
        """Start unfinished work again that has no job: the database was away at the start or end of its job.

        The age of a row shows that its request has started its job.
        """
        with self._db.reader() as conn:
            volumes = db.in_statuses(conn, t.volumes, (CREATING, DOWNLOADING, RESTORING))
            backups = db.in_statuses(conn, t.volume_backups, (CREATING, RESTORING_FROM))
        for volume in cast('list[db_rows.VolumesRow]', volumes):
            if self.is_abandoned(volume, RESUME_S):
                self._recover_volume(volume)
        for backup in cast('list[db_rows.VolumeBackupsRow]', backups):
            if self.is_abandoned(backup, RESUME_S):
                self._recover_backup(backup)

    # ---- after a start

    def recover(self) -> None:
        """Compare files with rows: restart interrupted jobs, log lost files and files without a row."""
        with self._db.reader() as conn:
            every = [db.every(conn, table) for table in (t.volumes, t.volume_snapshots, t.volume_backups)]
        all_volumes, all_snapshots = cast('list[db_rows.VolumesRow]', every[0]), every[1]
        all_backups = cast('list[db_rows.VolumeBackupsRow]', every[2])
        for path in self._files.delete_incomplete(*({row['id'] for row in found} for found in every)):
            LOG.error('%s belongs to no volume, snapshot or backup. It is kept, because the database may have been '
                      'restored from a backup. Delete it if it is not needed.', path)
        for volume in all_volumes:
            self._recover_volume(volume)
        for row in all_snapshots:
            if row['status'] == CREATING:   # its incomplete file was deleted above; a host's later report has no effect
                self.snapshot_ended(row['id'], ERROR)
            elif row['status'] == AVAILABLE and self._files.size(self._files.snapshot(row['id'])) is None:
                LOG.error('The file of snapshot %s is missing.', row['id'])
                self._db.run(db.update, t.volume_snapshots, row['id'], {'status': ERROR}, statuses=[AVAILABLE])

        for backup in all_backups:
            self._recover_backup(backup)

    def _recover_backup(self, row: db_rows.VolumeBackupsRow) -> None:
        if row['status'] == CREATING:
            self.make_backup(row)
        elif row['status'] in HAS_FILE and self._files.size(self._files.backup(row['id'])) is None:
            LOG.error('The file of backup %s is missing.', row['id'])
            self._db.run(db.update, t.volume_backups, row['id'], {'status': ERROR}, statuses=HAS_FILE)
        elif row['status'] == RESTORING_FROM:
            self._db.run(self._restored, row['id'])

    def _recover_volume(self, row: db_rows.VolumesRow) -> None:
        if row['status'] == CREATING:
            self.make_volume(_owner(row), row)
        elif row['status'] == DOWNLOADING:
            self.fill_volume(_owner(row), row)
        elif row['status'] == RESTORING:
            self.restore_volume(row)
        elif row['status'] not in (ERROR, ERROR_RESTORING):
            path = self._files.volume(row['id'])
            size = self._files.size(path)
            if size is None:
                LOG.error('The file of volume %s is missing.', row['id'])
                self._db.run(db.update, t.volumes, row['id'], {'status': ERROR}, statuses=[AVAILABLE])
            elif row['status'] == AVAILABLE:
                self._files.complete_extension(row['id'], row['size'], bool(row['key_id']))


def _waits(conn: Connection, snapshot_id: str | None) -> bool:
    """Return whether a job must wait until its source snapshot is created; ``snapshot_ended`` then starts the job."""
    source = rows.find_snapshot(conn, snapshot_id) if snapshot_id else None
    return source is not None and source['status'] == CREATING


def _mark_available(conn: Connection, volume_id: str, status: str) -> bool:
    """Record that a volume is complete. Return False if the volume is gone or no longer has this status."""
    found = db.update(conn, t.volumes, volume_id, {'status': AVAILABLE}, statuses=[status])
    if found:
        attachments.update_status(conn, volume_id)   # a server may have reserved the volume, or use it after a reset
    return found


def _owner(row: db_rows.VolumesRow) -> nova_context.RequestContext:
    """Return a context of the volume's owner, for jobs after the end of the owner's request."""
    ctx = nova_context.admin_context()
    ctx.project_id, ctx.user_id = row['project_id'], row['user_id']
    return ctx
