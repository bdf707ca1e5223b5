"""Rows that a caller may see: rows of the caller's project, or all rows for administrators.

The query functions return untyped dicts of columns. The functions here cast them to the type of the table.
"""
import datetime
from typing import cast, Literal, TypedDict, TypeVar

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Table
from nova.db.tables import rows as db_rows
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.volume.store import types

# rows of objects with a data file
Stored = db_rows.VolumesRow | db_rows.VolumeSnapshotsRow | db_rows.VolumeBackupsRow
_Row = TypeVar('_Row', db_rows.VolumesRow, db_rows.VolumeSnapshotsRow, db_rows.VolumeBackupsRow)


class Held(TypedDict):
    """An attachment of a volume."""

    id: str
    instance_uuid: str
    device: str | None
    host: str | None
    attached_at: datetime.datetime | None
    status: str


class Volume(db_rows.VolumesRow):
    """A volume's row with its attachments and the id of its type."""

    migration_status: Literal[None]
    volume_type_id: str | None
    encrypted: bool
    attachments: list[Held]


def find_volume(conn: Connection, volume_id: str, sees: nova_context.Projects | str = nova_context.ALL_PROJECTS,
                lock: bool = False) -> db_rows.VolumesRow | None:
    """Return a volume's row, or None if the project does not see it."""
    return cast('db_rows.VolumesRow | None', db.get(conn, t.volumes, volume_id, sees, lock))


def volume(conn: Connection, ctx: nova_context.RequestContext, volume_id: str,
           lock: bool = False) -> db_rows.VolumesRow:
    """Return a volume's row; raises VolumeNotFound (not visible)."""
    found = find_volume(conn, str(volume_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeNotFound(volume_id=str(volume_id)[:64])
    return found


def check_writable(row: db_rows.VolumesRow) -> None:
    """Check that a volume is not read-only; raises InvalidVolume."""
    if row['readonly']:
        raise exception.InvalidVolume(reason='it is read-only. Clear its read-only flag first.')


def find_snapshot(conn: Connection, snapshot_id: str, sees: nova_context.Projects | str = nova_context.ALL_PROJECTS,
                  lock: bool = False) -> db_rows.VolumeSnapshotsRow | None:
    """Return a snapshot's row, or None if the project does not see it."""
    return cast('db_rows.VolumeSnapshotsRow | None', db.get(conn, t.volume_snapshots, snapshot_id, sees, lock))


def snapshot(conn: Connection, ctx: nova_context.RequestContext, snapshot_id: str,
             lock: bool = False) -> db_rows.VolumeSnapshotsRow:
    """Return a snapshot's row; raises VolumeSnapshotNotFound (not visible)."""
    found = find_snapshot(conn, str(snapshot_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
    return found


def find_backup(conn: Connection, backup_id: str, sees: nova_context.Projects | str = nova_context.ALL_PROJECTS,
                lock: bool = False) -> db_rows.VolumeBackupsRow | None:
    """Return a backup's row, or None if the project does not see it."""
    return cast('db_rows.VolumeBackupsRow | None', db.get(conn, t.volume_backups, backup_id, sees, lock))


def backup(conn: Connection, ctx: nova_context.RequestContext, backup_id: str,
           lock: bool = False) -> db_rows.VolumeBackupsRow:
    """Return a backup's row; raises VolumeBackupNotFound (not visible)."""
    found = find_backup(conn, str(backup_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeBackupNotFound(backup_id=str(backup_id)[:64])
    return found


def transfer(conn: Connection, ctx: nova_context.RequestContext, transfer_id: str) -> db_rows.VolumeTransfersRow:
    """Return a transfer's row; raises VolumeTransferNotFound (not visible)."""
    found = db.get(conn, t.volume_transfers, str(transfer_id)[:64], ctx.sees, lock=True)
    if found is None:
        raise exception.VolumeTransferNotFound(transfer_id=str(transfer_id)[:64])
    return cast(db_rows.VolumeTransfersRow, found)


def attachment(conn: Connection, ctx: nova_context.RequestContext, attachment_id: str,
               lock: bool = False) -> db_rows.VolumeAttachmentsRow:
    """Return an attachment's row; ``lock`` locks its volume.

    :raises VolumeAttachmentNotFound: not visible
    """
    found = db.get(conn, t.volume_attachments, str(attachment_id)[:64], ctx.sees)
    if found is not None and lock:
        volume(conn, ctx, found['volume_id'], lock=True)
        found = db.get(conn, t.volume_attachments, str(attachment_id)[:64], nova_context.ALL_PROJECTS)
    if found is None:
        raise exception.VolumeAttachmentNotFound(attachment_id=str(attachment_id)[:64])
    return found


def change(conn: Connection, table: Table, row: _Row, values: JsonObject) -> _Row:
    """Write values to a row of a table; return the changed row."""
    db.update(conn, table, row['id'], values)
    return cast(_Row, {**row, **values})


def with_attachments(conn: Connection, rows: list[db_rows.VolumesRow]) -> list[Volume]:
    """Add attachments and type ids to rows of volumes."""
    kinds = types.ids(conn, {row['volume_type'] for row in rows})
    held: dict[str, list[db_rows.VolumeAttachmentsRow]] = {}
    for each in db.attachments(conn, volume_ids=[row['id'] for row in rows]):
        held.setdefault(each['volume_id'], []).append(each)
    return [{**row, 'migration_status': None, 'volume_type_id': kinds.get(row['volume_type']),
             'encrypted': row['key_id'] is not None,
             'attachments': [_held(each) for each in held.get(row['id'], ())]} for row in rows]


def _held(row: db_rows.VolumeAttachmentsRow) -> Held:
    return {'id': row['id'], 'instance_uuid': row['instance_uuid'], 'device': row['device'],
            'host': (row['connector'] or {}).get('host'), 'attached_at': row['attached_at'], 'status': row['status']}
