"""The embedded block storage: its rules and its rows. The HTTP face and the rest of the system call this.

A caller sees its own project's volumes, an administrator all; everything else does not exist for it. The status of
a volume follows from its attachments, and a transaction that changes them holds the volume's row.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
import uuid
from typing import Any

from oslo_config.cfg import ConfigOpts
from sqlalchemy import Connection

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.projects import quotas
from nova.db.projects import storage_quotas
from nova.db.tables.volume import volume_attachments
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume import api

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeAttachmentsRow, VolumeSnapshotsRow

MAX_SIZE = 65536                                  # GiB of one volume
GIB = 2 ** 30
TYPES = (
    {'id': '0e3b6d3e-5b1d-4f0f-9a27-1f6f1d7c9c11', 'name': '__DEFAULT__', 'description': 'The default type',
     'extra_specs': {}},
    {'id': '5d0f8c52-93b4-4c0e-8f3a-6a7f2f0d1b42', 'name': 'multiattach',
     'description': 'Volumes that several servers may have at once', 'extra_specs': {'multiattach': '<is> True'}},
)
DELETABLE = ('available', 'error', 'error_restoring', 'error_extending')
HELD = ('reserved', 'attaching', 'in-use')
_TOO_MANY = {'volumes': exception.VolumeLimitExceeded, 'snapshots': exception.SnapshotLimitExceeded}


class EmbeddedVolumes(api.Volumes):
    """
    :param conf: uses [volume] and default_availability_zone
    :param database: the API database
    :param images: nova.image.api.Images
    """

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Any, images: Any) -> EmbeddedVolumes:
        return cls(conf, api_db, images)

    def __init__(self, conf: ConfigOpts, database: Any, images: Any) -> None:
        self.conf, self.db, self.images = conf, database, images

    # ---- volumes

    def get(self, ctx: nova_context.RequestContext, volume_id: str) -> Any:
        with self.db.reader() as conn:
            row = self.row(conn, ctx, volume_id)
            return self.views(conn, [row])[0]

    def row(self, conn: Connection, ctx: nova_context.RequestContext, volume_id: str, lock: bool = False) -> Any:
        """:raises VolumeNotFound: there is none, or it is another project's"""
        found = db.get(conn, volumes, str(volume_id)[:64], ctx.sees, lock)
        if found is None:
            raise exception.VolumeNotFound(volume_id=str(volume_id)[:64])
        return found

    def views(self, conn: Connection, rows: Any) -> Any:
        """Volumes of rows, with their attachments."""
        held = {}
        for attachment in db.attachments(conn, volume_ids=[row['id'] for row in rows]):
            held.setdefault(attachment['volume_id'], []).append(attachment)
        return [{**row, 'migration_status': None,
                 'attachments': [_attachment(each) for each in held.get(row['id'], ())]} for row in rows]

    def create(self, ctx: nova_context.RequestContext, size: int, *, name: str = '', description: str = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: Any = None,
               availability_zone: Any = None, source_volume_id: Any = None, multiattach: bool = False,
               metadata: Any = None) -> Any:
        kind = self.check_type(ctx, volume_type)
        values = {'id': str(uuid.uuid4()), 'user_id': ctx.user_id, 'project_id': ctx.project_id, 'size': size,
                  'name': name or '', 'description': description, 'status': 'available', 'bootable': False,
                  'multiattach': multiattach or 'multiattach' in kind['extra_specs'], 'volume_type': kind['name'],
                  'availability_zone': availability_zone or self.conf.default_availability_zone,
                  'image_id': image_id, 'snapshot_id': snapshot_id, 'source_volume_id': source_volume_id,
                  'metadata': metadata or {}, 'image_metadata': {}}
        if image_id:
            values.update(self._from_image(ctx, image_id, size))

        def write(conn: Connection) -> Any:
            if snapshot_id:
                source = db.get(conn, volume_snapshots, snapshot_id, ctx.sees, lock=True)
                if source is None:
                    raise exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
                _inherit(values, source, 'the snapshot')
            elif source_volume_id:
                _inherit(values, self.row(conn, ctx, source_volume_id, lock=True), 'the source volume')
            _check_size(values['size'])
            self._use(conn, ctx.project_id, 'volumes', values['size'], values['size'])
            row = db.insert(conn, volumes, values)
            return self.views(conn, [row])[0]
        log.about(values['id'])
        return self.db.run(write)

    def _from_image(self, ctx: nova_context.RequestContext, image_id: str, size: int) -> dict[str, Any]:
        image = self.images.show(ctx, image_id)
        if image['status'] != 'active':
            raise exception.ImageInactive(image_id=image_id)
        needed = max(image.get('min_disk') or 0, -(-(image.get('virtual_size') or image.get('size') or 0) // GIB))
        if size is not None and size < needed:
            raise exception.InvalidInput(reason=f'Size of specified image {needed}GB is larger than volume size '
                                                f'{size}GB.')
        kept = {key: value for key, value in image['properties'].items() if value is not None}
        facts = {key: str(image[key]) for key in ('container_format', 'disk_format', 'min_disk', 'min_ram', 'size',
                                                  'checksum') if image.get(key) is not None}
        return {'bootable': True, 'image_metadata': {
            **kept, **facts, 'image_id': image_id, 'image_name': image['name'] or ''}}

    def delete(self, ctx: nova_context.RequestContext, volume_id: str, cascade: bool = False) -> None:
        """See api.Volumes; ``cascade`` removes its snapshots, too."""
        def write(conn: Connection) -> None:
            row = self.row(conn, ctx, volume_id, lock=True)
            if db.attachments(conn, volume_ids=[row['id']]) or row['status'] not in DELETABLE:
                raise exception.InvalidVolume(reason='Volume status must be available or error, and it must not be '
                                                     f'attached; it is {row["status"]}.')
            if cascade:
                db.delete_snapshots(conn, row['id'])
            if db.has_snapshots(conn, row['id']):
                raise exception.InvalidVolume(reason=f'Volume {row["id"]} still has dependent snapshots.')
            db.delete(conn, volumes, row['id'])
        self.db.run(write)

    def update(self, ctx: nova_context.RequestContext, volume_id: str,
               change: Callable[..., Any]) -> dict[Any, str | None]:
        """Write what ``change(row)`` gives, in the transaction that reads the row; the volume then."""
        def write(conn: Connection) -> Any:
            row = self.row(conn, ctx, volume_id, lock=True)
            values = change(row)
            db.update(conn, volumes, row['id'], values)
            return self.views(conn, [{**row, **values, 'updated_at': utils.utcnow()}])[0]
        return self.db.run(write)

    def extend(self, ctx: nova_context.RequestContext, volume_id: str, size: int) -> None:
        """:raises InvalidVolume, BadRequest: it is in use, or would not grow"""
        def write(conn: Connection) -> None:
            row = self.row(conn, ctx, volume_id, lock=True)
            if row['status'] != 'available':
                raise exception.InvalidVolume(reason=f'Volume status must be available, but it is {row["status"]}.')
            if size <= row['size']:
                raise exception.InvalidInput(reason='New size for extend must be greater than current size.')
            _check_size(size)
            self._use(conn, row['project_id'], None, size - row['size'], size)
            db.update(conn, volumes, row['id'], {'size': size})
        self.db.run(write)

    def reimage(self, ctx: nova_context.RequestContext, volume_id: str, image_id: str) -> None:
        with self.db.reader() as conn:
            size = self.row(conn, ctx, volume_id)['size']
        values = {**self._from_image(ctx, image_id, size), 'image_id': image_id}
        self.update(ctx, volume_id, lambda row: values)

    def types(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All types."""
        return TYPES

    def check_type(self, ctx: nova_context.RequestContext, name: str) -> Any:
        for found in TYPES:
            if not name or name in (found['id'], found['name']):
                return found
        raise exception.VolumeTypeNotFound(name=str(name)[:255])

    def limits(self, conn: Connection, project_id: Any) -> Any:
        """{resource: limit} of storage_quotas.VOLUMES: what a project may have; -1: no limit."""
        limits = storage_quotas.of_project(conn, self.conf, project_id)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def default_limits(self, conn: Connection) -> dict[str, int]:
        """The same of a project that has none of its own."""
        limits = storage_quotas.defaults(conn, self.conf)
        return {name: limits[name] for name in storage_quotas.VOLUMES}

    def set_limits(self, project_id: str, limits: dict[str, int], below_usage: bool = True) -> dict[str, int]:
        """Give a project limits of its own; all of them then.

        :param below_usage: whether a limit may be less than the project has
        :raises BadRequest: it may not, and is
        """
        def write(conn: Connection) -> Any:
            quotas.lock(conn, project_id)
            used = db.used(conn, project_id)
            for name, limit in limits.items():
                if not below_usage and 0 <= limit < used.get(name, 0):
                    raise exception.BadRequest(f'Quota limit {limit} for {name} is less than the {used[name]} that are '
                                               'used.')
            quotas.set_limits(conn, project_id, limits)
            return self.limits(conn, project_id)
        return self.db.run(write)

    def delete_limits(self, project_id: str) -> None:
        """Let a project have the defaults again."""
        self.db.run(quotas.delete_limits, project_id, resources=storage_quotas.VOLUMES)

    def _use(self, conn: Connection, project_id: Any, noun: str, adding: int, size: int = 0) -> None:
        """Refuse what would exceed the quota of a project.

        :param noun: 'volumes' or 'snapshots', of which there is to be one more; None: of neither
        :param adding: GiB
        :param size: GiB of one volume
        :raises VolumeLimitExceeded, SnapshotLimitExceeded, VolumeSizeExceedsLimit, VolumeSizeExceedsAvailableQuota:
        """
        db.lock_project(conn, project_id)
        used, limits = db.used(conn, project_id), self.limits(conn, project_id)
        if 0 <= limits['per_volume_gigabytes'] < size:
            raise exception.VolumeSizeExceedsLimit(size=size, limit=limits['per_volume_gigabytes'])
        for name, more, error in ((noun, 1, _TOO_MANY.get(noun)),
                                  ('gigabytes', adding, exception.VolumeSizeExceedsAvailableQuota)):
            if name and 0 <= limits[name] < used[name] + more:
                raise error(resource=name, requested=more, used=used[name], limit=limits[name])

    # ---- attachments

    def attach(self, ctx: nova_context.RequestContext, volume_id: str, instance_uuid: str) -> str:
        def write(conn: Connection) -> Any:
            row = self.row(conn, ctx, volume_id, lock=True)
            held = db.attachments(conn, volume_ids=[row['id']])
            same = bool(held) and all(each['instance_uuid'] == instance_uuid for each in held)
            if row['status'] != 'available' and not (row['status'] in HELD and row['multiattach']) and not (
                    same and row['status'] in (*HELD, 'detaching')):
                raise exception.InvalidVolume(
                    reason=f"volume '{row['id']}' status must be 'available'. Currently in '{row['status']}'")
            made = db.insert(conn, volume_attachments, {
                'id': str(uuid.uuid4()), 'volume_id': row['id'], 'instance_uuid': instance_uuid,
                'project_id': row['project_id'], 'status': 'reserved'})
            self._settle(conn, row['id'])
            return made['id']
        return self.db.run(write)

    def connect(self, ctx: nova_context.RequestContext, attachment_id: str, connector: dict[str, str],
                device: str | None) -> dict[str, Any]:
        def write(conn: Connection) -> Any:
            attachment = self.attachment(conn, ctx, attachment_id, lock=True)
            status = 'attached' if attachment['status'] == 'attached' else 'attaching'
            db.update(conn, volume_attachments, attachment_id, {
                'connector': connector, 'device': device, 'status': status})
            self._settle(conn, attachment['volume_id'])
            return {'driver_volume_type': 'local', 'data': {'volume_id': attachment['volume_id']},
                    'host': connector.get('host')}
        return self.db.run(write)

    def attachment(self, conn: Connection, ctx: nova_context.RequestContext, attachment_id: str,
                   lock: bool = False) -> VolumeAttachmentsRow:
        """The row of an attachment; ``lock`` locks its volume.

        :raises VolumeAttachmentNotFound: there is none, or it is another project's
        """
        found = db.get(conn, volume_attachments, str(attachment_id)[:64], ctx.sees)
        if found is not None and lock:
            self.row(conn, ctx, found['volume_id'], lock=True)
            found = db.get(conn, volume_attachments, str(attachment_id)[:64], nova_context.ALL_PROJECTS)
        if found is None:
            raise exception.VolumeAttachmentNotFound(attachment_id=str(attachment_id)[:64])
        return found

    def complete(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def write(conn: Connection) -> None:
            attachment = self.attachment(conn, ctx, attachment_id, lock=True)
            db.update(conn, volume_attachments, attachment_id, {
                'status': 'attached', 'attached_at': attachment['attached_at'] or utils.utcnow()})
            self._settle(conn, attachment['volume_id'])
        self.db.run(write)

    def detach(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        def write(conn: Connection) -> None:
            try:
                attachment = self.attachment(conn, ctx, attachment_id, lock=True)
            except exception.NotFound:
                return
            db.delete(conn, volume_attachments, attachment_id)
            self._settle(conn, attachment['volume_id'])
        self.db.run(write)

    def begin_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = self.row(conn, ctx, volume_id, lock=True)
            if row['status'] != 'in-use':
                raise exception.InvalidVolume(
                    reason=f"Unable to detach volume. Volume status must be 'in-use'. Currently in "
                           f"'{row['status']}'")
            db.update(conn, volumes, row['id'], {'status': 'detaching'})
        self.db.run(write)

    def roll_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        def write(conn: Connection) -> None:
            row = self.row(conn, ctx, volume_id, lock=True)
            if row['status'] == 'detaching':
                self._settle(conn, row['id'])
        self.db.run(write)

    def attachments_of(self, ctx: nova_context.RequestContext, instance_uuid: str) -> list[str]:
        with self.db.reader() as conn:
            return [row['id'] for row in db.attachments(conn, instance_uuid=instance_uuid)
                    if nova_context.covers(ctx.sees, row['project_id'])]

    def _settle(self, conn: Connection, volume_id: str) -> None:
        """The status that the attachments of a volume make."""
        found = {row['status'] for row in db.attachments(conn, volume_ids=[volume_id])}
        status = next((shown for held, shown in (('attached', 'in-use'), ('attaching', 'attaching'),
                                                 ('reserved', 'reserved')) if held in found), 'available')
        db.update(conn, volumes, volume_id, {'status': status})

    # ---- snapshots

    def get_snapshot(self, ctx: nova_context.RequestContext, snapshot_id: str) -> VolumeSnapshotsRow:
        with self.db.reader() as conn:
            found = db.get(conn, volume_snapshots, str(snapshot_id)[:64], ctx.sees)
        if found is None:
            raise exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
        return found

    def create_snapshot(self, ctx: nova_context.RequestContext, volume_id: str, name: str | None,
                        description: str | None = '', force: bool = True,
                        metadata: dict[str, Any] | None = None) -> VolumeSnapshotsRow:
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> Any:
            row = self.row(conn, ctx, volume_id, lock=True)
            if row['status'] not in (('available', 'in-use') if force else ('available',)):
                raise exception.InvalidVolume(
                    reason=f'Volume {row["id"]} status must be available, but current status is: {row["status"]}.')
            self._use(conn, row['project_id'], 'snapshots', row['size'])
            log.about(ident)
            return db.insert(conn, volume_snapshots, {
                'id': ident, 'volume_id': row['id'], 'project_id': row['project_id'],
                'user_id': ctx.user_id or row['user_id'], 'name': name, 'description': description,
                'size': row['size'], 'status': 'available', 'bootable': row['bootable'], 'metadata': metadata or {},
                'image_metadata': row['image_metadata']})
        return self.db.run(write)

    def delete_snapshot(self, ctx: nova_context.RequestContext, snapshot_id: str) -> None:
        try:
            self.get_snapshot(ctx, snapshot_id)
        except exception.NotFound:
            return
        self.db.run(db.delete, volume_snapshots, snapshot_id)


def _attachment(row: VolumeAttachmentsRow) -> dict[str, str | None]:
    return {'id': row['id'], 'instance_uuid': row['instance_uuid'], 'device': row['device'],
            'host': (row['connector'] or {}).get('host'), 'attached_at': row['attached_at'], 'status': row['status']}


def _inherit(values: dict[str, Any], source: dict[str, Any], noun: str) -> None:
    """What a copy takes over; its size is that of its source unless it is larger."""
    if values['size'] is not None and values['size'] < source['size']:
        raise exception.InvalidInput(reason=f"Volume size '{values['size']}'GB cannot be smaller than {noun} size "
                                            f'{source["size"]}GB.')
    values.update(size=values['size'] or source['size'], bootable=source['bootable'],
                  image_metadata=source['image_metadata'])


def _check_size(size: int) -> None:
    if size is None or not 0 < size <= MAX_SIZE:
        raise exception.InvalidInput(reason=f"Volume size '{size}' must be an integer of 1 to {MAX_SIZE} GB.")
