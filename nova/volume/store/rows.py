"""Rows visible to a caller: its own project's, or all for administrators."""
from __future__ import annotations

import typing

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volume_transfers
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.store import types

if typing.TYPE_CHECKING:
    from nova.db.tables.rows import VolumeAttachmentsRow


def volume(conn: Connection, ctx: nova_context.RequestContext, volume_id: str, lock: bool = False) -> typing.Any:
    """Return a volume's row; raises VolumeNotFound (not visible)."""
    found = db.get(conn, volumes, str(volume_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeNotFound(volume_id=str(volume_id)[:64])
    return found


def check_writable(row: typing.Any) -> None:
    """Check that a volume is not read-only; raises InvalidVolume."""
    if row['readonly']:
        raise exception.InvalidVolume(reason='it is read-only. Clear its read-only flag first.')


def snapshot(conn: Connection, ctx: nova_context.RequestContext, snapshot_id: str, lock: bool = False) -> typing.Any:
    """Return a snapshot's row; raises VolumeSnapshotNotFound (not visible)."""
    found = db.get(conn, volume_snapshots, str(snapshot_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
    return found


def backup(conn: Connection, ctx: nova_context.RequestContext, backup_id: str, lock: bool = False) -> typing.Any:
    """Return a backup's row; raises VolumeBackupNotFound (not visible)."""
    found = db.get(conn, volume_backups, str(backup_id)[:64], ctx.sees, lock)
    if found is None:
        raise exception.VolumeBackupNotFound(backup_id=str(backup_id)[:64])
    return found


def transfer(conn: Connection, ctx: nova_context.RequestContext, transfer_id: str) -> typing.Any:
    """Return a transfer's row; raises VolumeTransferNotFound (not visible)."""
    found = db.get(conn, volume_transfers, str(transfer_id)[:64], ctx.sees, lock=True)
    if found is None:
        raise exception.VolumeTransferNotFound(transfer_id=str(transfer_id)[:64])
    return found


def attachment(conn: Connection, ctx: nova_context.RequestContext, attachment_id: str,
               lock: bool = False) -> VolumeAttachmentsRow:
    """Return an attachment's row; ``lock`` locks its volume.

    :raises VolumeAttachmentNotFound: not visible
    """
    found = db.get(conn, volume_attachments, str(attachment_id)[:64], ctx.sees)
    if found is not None and lock:
        volume(conn, ctx, found['volume_id'], lock=True)
        found = db.get(conn, volume_attachments, str(attachment_id)[:64], nova_context.ALL_PROJECTS)
    if found is None:
        raise exception.VolumeAttachmentNotFound(attachment_id=str(attachment_id)[:64])
    return typing.cast('VolumeAttachmentsRow', found)


def with_attachments(conn: Connection, rows: typing.Any) -> list[dict[str, typing.Any]]:
    """Add attachments and type ids to rows of volumes."""
    kinds = types.ids(conn, {row['volume_type'] for row in rows})
    held: dict[str, list[typing.Any]] = {}
    for each in db.attachments(conn, volume_ids=[row['id'] for row in rows]):
        held.setdefault(each['volume_id'], []).append(each)
    return [{**row, 'migration_status': None, 'volume_type_id': kinds.get(row['volume_type']),
             'encrypted': row['key_id'] is not None,
             'attachments': [_held(each) for each in held.get(row['id'], ())]} for row in rows]


def _held(row: typing.Any) -> dict[str, typing.Any]:
    return {'id': row['id'], 'instance_uuid': row['instance_uuid'], 'device': row['device'],
            'host': (row['connector'] or {}).get('host'), 'attached_at': row['attached_at'], 'status': row['status']}
