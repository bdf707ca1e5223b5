"""Who holds a volume. The status of a volume follows from its attachments; what changes them holds the volume's row."""
from __future__ import annotations

import typing
import uuid

from sqlalchemy import Connection

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.store import rows

HELD = ('reserved', 'attaching', 'in-use')


class Attachments:
    """
    :param database: the API database
    :param connection: a function of a volume's row and a host's connector: {'driver_volume_type', 'data'}
    """

    def __init__(self, database: typing.Any, connection: typing.Callable[..., dict[str, typing.Any]]) -> None:
        self._db, self._connection = database, connection

    def attach(self, ctx: nova_context.RequestContext, volume_id: str, instance_uuid: str) -> typing.Any:
        def write(conn: Connection) -> typing.Any:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            held = db.attachments(conn, volume_ids=[row['id']])
            same = bool(held) and all(each['instance_uuid'] == instance_uuid for each in held)
            if row['status'] != 'available' and not (row['status'] in HELD and row['multiattach']) and not (
                    same and row['status'] in (*HELD, 'detaching')):
                raise exception.InvalidVolume(
                    reason=f"volume '{row['id']}' status must be 'available'. Currently in '{row['status']}'")
            if row['status'] == 'available' and db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason=f"a copy of volume '{row['id']}' is being made")
            made = db.insert(conn, volume_attachments, {
                'id': str(uuid.uuid4()), 'volume_id': row['id'], 'instance_uuid': instance_uuid,
                'project_id': row['project_id'], 'status': 'reserved'})
            settle(conn, row['id'])
            return made['id']
        return self._db.run(write)

    def connect(self, ctx: nova_context.RequestContext, attachment_id: str, connector: dict[str, typing.Any],
                device: str | None) -> dict[str, typing.Any]:
        def write(conn: Connection) -> typing.Any:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            row = rows.volume(conn, ctx, attachment['volume_id'])
            info = self._connection(row, connector)
            status = 'attached' if attachment['status'] == 'attached' else 'attaching'
            db.update(conn, volume_attachments, attachment_id, {
                'connector': connector, 'device': device, 'status': status})
            settle(conn, attachment['volume_id'])
            return {**info, 'host': connector.get('host')}
        return self._db.run(write)

    def complete(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def write(conn: Connection) -> None:
            attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            db.update(conn, volume_attachments, attachment_id, {
                'status': 'attached', 'attached_at': attachment['attached_at'] or utils.utcnow()})
            settle(conn, attachment['volume_id'])
        self._db.run(write)

    def detach(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def write(conn: Connection) -> None:
            try:
                attachment = rows.attachment(conn, ctx, attachment_id, lock=True)
            except exception.NotFound:
                return
            db.delete(conn, volume_attachments, attachment_id)
            settle(conn, attachment['volume_id'])
        self._db.run(write)

    def begin_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] != 'in-use':
                raise exception.InvalidVolume(
                    reason=f"Unable to detach volume. Volume status must be 'in-use'. Currently in "
                           f"'{row['status']}'")
            db.update(conn, volumes, row['id'], {'status': 'detaching'})
        self._db.run(write)

    def roll_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] == 'detaching':
                settle(conn, row['id'])
        self._db.run(write)

    def of_server(self, ctx: nova_context.RequestContext, instance_uuid: str) -> list[str]:
        with self._db.reader() as conn:
            return [row['id'] for row in db.attachments(conn, instance_uuid=instance_uuid)
                    if nova_context.covers(ctx.sees, row['project_id'])]


def settle(conn: Connection, volume_id: str) -> None:
    """Write the status that the attachments of a volume make."""
    found = {row['status'] for row in db.attachments(conn, volume_ids=[volume_id])}
    status = next((shown for held, shown in (('attached', 'in-use'), ('attaching', 'attaching'),
                                             ('reserved', 'reserved')) if held in found), 'available')
    db.update(conn, volumes, volume_id, {'status': status})
