"""After a restore of the database: make attachments in the embedded block storage match the volumes of the guests."""
import uuid as uuidlib

import sqlalchemy as sa

from nova import context as nova_context
from nova.db import statements
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.objects.block_device import AttachedVolume
from nova.objects.block_device import KnownAttachment


class Held(Exception):
    """A volume of the guest is attached to another server or belongs to another project."""


def follow(conn: sa.Connection, uuid: str, project_id: str | None, found: dict[str, AttachedVolume],
           dropped: list[str]) -> dict[str, KnownAttachment]:
    """Replace the attachments of a server by attachments of the volumes that its guest has.

    :param project_id: project of the server; volumes of other projects are refused
    :param found: {volume id: volume} of the guest
    :param dropped: ids of volumes that the guest no longer has
    :returns: {volume id: attachment} of the volumes in the embedded block storage
    :raises Held: another server or project has one of the volumes; the caller must roll back
    """
    attached: dict[str, KnownAttachment] = {}
    for volume_id, guest in sorted(found.items()):
        volume = db.get(conn, volumes, volume_id, nova_context.ALL_PROJECTS, lock=True)
        if volume is None:                       # the volume is in another block storage, or was lost with the database
            continue
        if volume['project_id'] != project_id:
            raise Held(f'volume {volume_id} belongs to another project')
        rows = db.attachments(conn, volume_ids=[volume_id])
        others = [row['instance_uuid'] for row in rows if row['instance_uuid'] != uuid]
        if others and not volume['multiattach']:
            raise Held(f'volume {volume_id} is attached to server {others[0]}, too')
        own = {row['id'] for row in rows if row['instance_uuid'] == uuid}
        ident = guest.get('attachment_id') or next(iter(sorted(own)), None) or str(uuidlib.uuid4())
        if ident not in own:
            db.insert(conn, volume_attachments, {
                'id': ident, 'volume_id': volume_id, 'instance_uuid': uuid, 'project_id': volume['project_id'],
                'status': 'attached', 'device': guest.get('device_name')})
        db.update(conn, volumes, volume_id, {'status': 'in-use'})
        attached[volume_id] = {'attachment_id': ident, 'volume_size': volume['size']}
        for other in own - {ident}:
            db.delete(conn, volume_attachments, other)
    for volume_id in dropped:
        statements.delete(conn, volume_attachments, volume_id=volume_id, instance_uuid=uuid)
        if db.get(conn, volumes, volume_id, nova_context.ALL_PROJECTS, lock=True) is not None and not db.attachments(
                conn, volume_ids=[volume_id]):
            db.update(conn, volumes, volume_id, {'status': 'available'})
    return attached
