"""Attachments of volumes. Attachments determine the volume's status; each change locks the volume's row.

The volume host opens the volume files directly. Other hosts get an export, which is opened after the row of the
attachment is written and closed before the row is deleted. So no export is open when another server gets the volume.
"""
import contextlib
import uuid

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables import volume as t
from nova.db.tables.rows import VolumeAttachmentsRow
from nova.db.tables.rows import VolumesRow
from nova.db.volumes import volumes as db
from nova.volume import api
from nova.volume.store import rows
from nova.volume.store.attach_backend import CLOSING
from nova.volume.store.attach_backend import EmbeddedAttachBackend
from nova.volume.store.attach_backend import PREVIOUS_HOST


ATTACHED_STATUSES = ('reserved', 'attaching', 'in-use')
DOWNLOADING = 'downloading'              # status of a volume to which a job writes an image


class Attachments:
    """Attachments of all volumes.

    :param database: the API database
    :param backend: access of hosts to volumes
    """

    def __init__(self, database: Database, backend: EmbeddedAttachBackend) -> None:
        self._db, self._backend = database, backend

    def attach(self, ctx: nova_context.RequestContext, volume_id: str, instance_uuid: str,
               device: str | None = None, reserved: bool = True) -> str:
        """Create an attachment and return its id.

        :param device: name of the device in the guest
        :param reserved: False: the volume is in use immediately, also after a call of ``reserve``
        :raises VolumeNotFound, InvalidVolume:
        """
        def write(conn: Connection) -> str:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            held = db.attachments(conn, volume_ids=[row['id']])
            same = bool(held) and all(each['instance_uuid'] == instance_uuid for each in held)
            is_shared = row['status'] in ATTACHED_STATUSES and row['multiattach']
            is_repeated = reserved and same and row['status'] in (*ATTACHED_STATUSES, 'detaching')
            is_taken = not reserved and not held and row['status'] == 'attaching'
            if row['status'] != 'available' and not is_shared and not is_repeated and not is_taken:
                raise exception.InvalidVolume(
                    reason=f"volume '{row['id']}' status must be 'available'. Currently in '{row['status']}'")
            if row['status'] == 'available' and db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason=f"volume '{row['id']}' is being copied")
            ident = str(uuid.uuid4())
            db.insert(conn, t.volume_attachments, {
                'id': ident, 'volume_id': row['id'], 'instance_uuid': instance_uuid,
                'project_id': row['project_id'], 'device': device,
                'status': 'reserved' if reserved else 'attached', 'attached_at': None if reserved else utils.utcnow()})
            update_status(conn, row['id'])
            return ident
        return self._db.run(write)

    def connect(self, ctx: nova_context.RequestContext, attachment_id: str, connector: api.Connector,
                device: str | None) -> api.Connection:
        self._backend.check(connector)
        connector = {name: value for name, value in connector.items() if name != PREVIOUS_HOST}

        def write(conn: Connection) -> tuple[VolumesRow, str, api.Connector | None]:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            row, ident = _check_open(conn, ctx, attachment), attachment['id']
            status = 'attached' if attachment['status'] == 'attached' else 'attaching'
            before: api.Connector | None = attachment['connector']
            leaves = before if before and before.get('host') != connector.get('host') and self._backend.is_export(
                before) else None
            known = {**connector, PREVIOUS_HOST: leaves['host']} if leaves else connector
            db.update(conn, t.volume_attachments, ident, {'connector': known, 'device': device, 'status': status})
            update_status(conn, attachment['volume_id'])
            return row, ident, leaves
        row, attachment_id, left = self._db.run(write)     # the id as stored, because MariaDB's comparison ignores case
        if left:
            self._backend.close(attachment_id, left)
            self._db.run(db.update, t.volume_attachments, attachment_id, {'connector': connector})
        return {**self._backend.open(row, attachment_id, connector), 'host': connector.get('host')}

    def complete(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def write(conn: Connection) -> None:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            _check_open(conn, ctx, attachment)
            db.update(conn, t.volume_attachments, attachment_id, {
                'status': 'attached', 'attached_at': attachment['attached_at'] or utils.utcnow()})
            update_status(conn, attachment['volume_id'])
        self._db.run(write)

    def detach(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def begin(conn: Connection) -> tuple[str, api.Connector] | None:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            if self._backend.is_export(attachment['connector']):
                db.update(conn, t.volume_attachments, attachment['id'], {'status': CLOSING})
                return attachment['id'], attachment['connector']
            remove(conn)
            return None

        def remove(conn: Connection) -> None:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            db.delete(conn, t.volume_attachments, attachment_id)
            if update_status(conn, attachment['volume_id']) == 'available':
                self._backend.complete_extension(rows.volume(conn, ctx, attachment['volume_id']))
        with contextlib.suppress(exception.NotFound):
            exported = self._db.run(begin)
            if exported is not None:
                self._backend.close(*exported)
                self._db.run(remove)

    def recover(self) -> None:
        """Delete attachments with the status 'closing': the end of the process has interrupted their deletion."""
        with self._db.reader() as conn:
            closing = [row for row in db.every(conn, t.volume_attachments) if row['status'] == CLOSING]
        for row in closing:
            self.detach(nova_context.admin_context(), row['id'])

    def reserve(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        """Mark an available volume as attaching, without an attachment; raises VolumeNotFound, InvalidVolume."""
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] != 'available' or db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason=f"volume '{row['id']}' must be available and not being copied. "
                                                     f"Its status is '{row['status']}'.")
            db.update(conn, t.volumes, row['id'], {'status': 'attaching'})
        self._db.run(write)

    def unreserve(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        """Undo ``reserve``: set the status that follows from the attachments. Raises VolumeNotFound."""
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] == 'attaching':
                update_status(conn, row['id'])
        self._db.run(write)

    def begin_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] != 'in-use':
                raise exception.InvalidVolume(
                    reason=f"Unable to detach volume. Volume status must be 'in-use'. Currently in "
                           f"'{row['status']}'")
            db.update(conn, t.volumes, row['id'], {'status': 'detaching'})
        self._db.run(write)

    def roll_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] == 'detaching':
                update_status(conn, row['id'])
        self._db.run(write)

    def of_server(self, ctx: nova_context.RequestContext, instance_uuid: str, volume_id: str | None) -> list[str]:
        volume_ids = None if volume_id is None else [volume_id]
        with self._db.reader() as conn:
            return [row['id'] for row in db.attachments(conn, volume_ids=volume_ids, instance_uuid=instance_uuid)
                    if nova_context.covers(ctx.sees, row['project_id'])]


def _check_open(conn: Connection, ctx: nova_context.RequestContext, attachment: VolumeAttachmentsRow) -> VolumesRow:
    """Check that a server may use its attachment now, and return the volume's row; raises InvalidVolume."""
    row = rows.volume(conn, ctx, attachment['volume_id'])
    if attachment['status'] == CLOSING:
        raise exception.InvalidVolume(reason='the attachment is being removed.')
    if row['status'] == DOWNLOADING:
        raise exception.InvalidVolume(reason=f"an image is being written to volume '{row['id']}'.")
    return row


def update_status(conn: Connection, volume_id: str) -> str:
    """Set a volume's status according to its attachments, and return the status.

    While a job writes an image to the volume, the status stays 'downloading': the job replaces the volume's file.
    """
    row = rows.find_volume(conn, volume_id)
    if row is not None and row['status'] == DOWNLOADING:
        return DOWNLOADING
    found = {row['status'] for row in db.attachments(conn, volume_ids=[volume_id])}
    status = next((shown for held, shown in (
        ('attached', 'in-use'), ('attaching', 'attaching'), ('reserved', 'reserved'), (CLOSING, 'in-use'))
        if held in found), 'available')
    db.update(conn, t.volumes, volume_id, {'status': status})
    return status
