"""The embedded block storage, used by the HTTP API and the rest of the system.

Users see the volumes of their project, and administrators all volumes. Rows are in the API database, and data is in
files of the host that serves the API. Modules of nova/volume/store implement the operations.
"""
from __future__ import annotations

import builtins
from collections.abc import Callable
import logging
import os
from typing import Any, cast
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.engine import Table
from nova.db.placement import aggregates
from nova.db.tables import rows as db_rows
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.disk_files import qemu_img
from nova.hardware import disks
from nova.json_types import JsonObject
from nova.objects.image import Image
from nova.runtime import disk_space
from nova.runtime import host_identity
from nova.volume import api
from nova.volume.store import attachments
from nova.volume.store import backups as volume_backups
from nova.volume.store import jobs
from nova.volume.store import files as volume_files
from nova.volume.store import guests as volume_guests
from nova.volume.store import keys as volume_keys
from nova.volume.store import limits as volume_limits
from nova.volume.store import managed as volume_managed
from nova.volume.store import qos as volume_qos
from nova.volume.store import retypes
from nova.volume.store import rows
from nova.volume.store import services as volume_services
from nova.volume.store import snapshots
from nova.volume.store import transfers as volume_transfers
from nova.volume.store import type_access
from nova.volume.store import types as volume_types
from nova.volume.store import uploads as volume_uploads
from nova.volume.store import attach_backend
from nova.web import json_text

LOG = logging.getLogger(__name__)

GIB = jobs.GIB
REIMAGED = ('available', 'error')
# image attributes that a volume stores in image_metadata, in addition to the image properties
_FACTS = ('container_format', 'disk_format', 'min_disk', 'min_ram', 'size', 'checksum')
# The job of a volume in status 'downloading' discards the data of a volume that was deleted.
DELETABLE = ('available', 'error', 'error_restoring', 'error_extending', jobs.DOWNLOADING)


class EmbeddedVolumes(api.BlockStorage):
    """Backend of embedded volumes. Attributes for groups of operations:

    limits                      quotas of projects
    attachments, attach_backend attachments to servers; access of hosts
    snapshots, backups          snapshots; full copies
    uploads                     images created from volumes
    transfers, retypes          changes of the project or type of a volume
    types, type_access, keys    volume types, access to private types, keys of encrypted volumes
    services                    list of services with their status

    :param conf: uses [volume], [image] and [libvirt], host, my_ip, state_path and default_availability_zone
    :param database: the API database
    :param cells: Cells, to list services and notify the hosts of guests; None: neither
    """

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Database, images: api.Images,
            cells: db_cells.Cells | None = None) -> EmbeddedVolumes:
        return cls(conf, api_db, images, cells)

    def __init__(self, conf: ConfigOpts, database: Database, images: api.Images,
                 cells: db_cells.Cells | None = None) -> None:
        guests = volume_guests.Guests(cells) if cells else None
        self.conf, self.db, self.images, self._guests = conf, database, images, guests
        self.files = volume_files.VolumeFiles(
            os.path.join(os.path.realpath(host_identity.state_path(conf)), 'volumes'),
            disk_space.reserve_of(conf),
            qemu_img.QemuImg(conf.libvirt.qemu_img_timeout, conf.libvirt.sandbox_qemu_img),
            conf.volume.backup_directory)
        self.keys = volume_keys.Keys(conf, database)
        self.jobs = jobs.VolumeJobs(database, self.files, images, self.keys)
        self.limits = volume_limits.Limits(conf, database)
        self.types, self.type_access = volume_types.Types(database), type_access.TypeAccess(database)
        self.qos = volume_qos.QosSpecs(database)
        self.managed = volume_managed.Managed(database, self.files, self.limits)
        self.attach_backend = attach_backend.EmbeddedAttachBackend(conf, database, self.files)
        self.snapshots = snapshots.Snapshots(database, self.files, self.jobs, self.limits, self.attach_backend,
                                             guests, self.keys)
        self.backups = volume_backups.Backups(database, self.files, self.jobs, self.limits, self.snapshots.create,
                                              self.keys)
        self.transfers, self.retypes = volume_transfers.Transfers(database, self.limits), retypes.Retypes(
            database, self.limits)
        self.uploads = volume_uploads.Uploads(database, self.files, self.jobs, images)
        self.attachments = attachments.Attachments(database, self.attach_backend)
        self.services = volume_services.Services(conf, cells)

    def recover(self) -> None:
        """Resume interrupted work. The process that owns the files calls this once, when it starts.

        :raises InvalidInput: a configured file is not usable
        """
        self.attach_backend.check_credentials()
        self.jobs.recover()
        self.uploads.recover()
        self.keys.delete_unused()
        self.jobs.delete_unused_keys()
        self.attachments.recover()
        self.attach_backend.exports.watch(self.snapshots.end_lost, self.jobs.resume, self.uploads.resume)

    def stop(self, timeout: float) -> bool:
        return all([self.attach_backend.exports.stop(timeout), self.jobs.stop(timeout)])

    # ---- volumes

    def get(self, ctx: nova_context.RequestContext, volume_id: str) -> rows.Volume:
        with self.db.reader() as conn:
            row = rows.volume(conn, ctx, volume_id)
            return rows.with_attachments(conn, [row])[0]

    def list(self, ctx: nova_context.RequestContext, limit: int, offset: int = 0) -> builtins.list[rows.Volume]:
        with self.db.reader() as conn:
            found = cast('builtins.list[db_rows.VolumesRow]', _page(conn, ctx, t.volumes, limit, offset))
            return rows.with_attachments(conn, found)

    def create(self, ctx: nova_context.RequestContext, size: int | None, *, name: str | None = '',
               description: str | None = '', image_id: str | None = None, snapshot_id: str | None = None,
               volume_type: str | None = None, availability_zone: str | None = None,
               source_volume_id: str | None = None, backup_id: str | None = None, multiattach: bool = False,
               metadata: dict[str, str] | None = None, of_server_images: bool = True,
               may_share: bool = True) -> rows.Volume:
        """Create a volume as described in api.BlockStorage. A copy of a volume or snapshot has the volume's type by
        default.

        :param of_server_images: use the snapshot that an image without data names; False: refuse such an image
        :param may_share: whether the caller may create volumes that support multiattach
        """
        image = self._active_image(ctx, image_id) if image_id else None
        if image and not image.get('size') and image['properties'].get(disks.MAPPING):
            if not of_server_images:
                raise exception.BadRequest(f'Image {image_id} has no data. Creating volumes from the snapshot that it '
                                           'names requires microversion 3.46.')
            snapshot_id = _root_snapshot(image)
            image = image_id = None
        if not (volume_type or snapshot_id or source_volume_id or backup_id):        # write() chooses a copy's type
            volume_type = self.types.of_new(None, ctx)['id']
        ident = str(uuid.uuid4())
        values: JsonObject = {
            'id': ident, 'user_id': ctx.user_id, 'project_id': ctx.project_id, 'name': name or '',
            'description': description, 'status': jobs.RESTORING if backup_id else jobs.CREATING, 'bootable': False,
            'image_id': image_id, 'snapshot_id': snapshot_id, 'source_volume_id': source_volume_id,
            'backup_id': backup_id, 'metadata': {**(metadata or {})}, 'image_metadata': {}, 'readonly': False}
        if image:
            values.update(_from_image(image, size))

        def write(conn: Connection) -> tuple[str, db_rows.VolumesRow]:
            source: rows.Stored | None = None
            original: db_rows.VolumesRow | None = None       # the volume whose data is copied
            noun, wanted = '', size
            if snapshot_id:
                source = snapshot = rows.snapshot(conn, ctx, snapshot_id, lock=True)
                noun, original = 'the snapshot', rows.find_volume(conn, snapshot['volume_id'])
                if source['status'] not in (jobs.AVAILABLE, jobs.CREATING):
                    raise exception.InvalidVolume(reason=f'the snapshot has status {source["status"]}.')
            elif source_volume_id:
                source = original = rows.volume(conn, ctx, source_volume_id, lock=True)
                noun = 'the source volume'
                if source['status'] != jobs.AVAILABLE:
                    raise exception.InvalidVolume(reason=f'the source volume has status {source["status"]}. Create a '
                                                         'snapshot of a volume in use instead.')
            elif backup_id:
                source, noun = self.backups.begin_restore(conn, ctx, backup_id), 'the backup'
            if source is not None:
                wanted = _size_from(source, size, noun)
                values.update(bootable=source['bootable'], image_metadata=source['image_metadata'])
            kind = self._kind(conn, ctx, volume_type, original['volume_type'] if original else None, source)
            volume_types.check_backend(kind)
            zone = volume_types.zone_of(kind, availability_zone, self.conf.default_availability_zone)
            if zone not in self.zones(conn):
                raise exception.InvalidInput(reason=f"Availability zone '{zone}' is invalid.")
            shared = multiattach or volume_types.is_multiattach(kind)
            if shared and not may_share:
                raise exception.PolicyDenied(rule=volume_types.MULTIATTACH)
            key = self._key(conn, kind, source, shared, key_id) if kind['encryption'] else None
            checked = volume_limits.check_size(wanted)
            self.limits.check(conn, nova_context.the_project(ctx.project_id), 'volumes', checked, checked,
                              kind['name'])
            return kind['id'], cast('db_rows.VolumesRow', db.insert(conn, t.volumes, {
                **values, 'availability_zone': zone, 'size': checked, 'volume_type': kind['name'],
                'multiattach': shared, 'key_id': key}))

        def start(made: tuple[str, db_rows.VolumesRow]) -> None:
            if backup_id:
                self.jobs.restore_volume(made[1])
            else:
                self.jobs.make_volume(ctx, made[1])
        log.about(ident)
        copied = snapshot_id or source_volume_id or backup_id        # a copy uses the key of its source
        with self.jobs.deleting_unused_keys(), self.keys.reserved(
                None if copied else self._encrypted_type(ctx, volume_type)) as key_id:
            type_id, row = self.jobs.start_after(write, start)
        return {**row, 'volume_type_id': type_id, 'encrypted': row['key_id'] is not None, 'migration_status': None,
                'attachments': [], 'status': self._status(ident)}

    def _encrypted_type(self, ctx: nova_context.RequestContext, name: str | None) -> volume_types.Type | None:
        """Return the type of a new volume if the Key Manager service is to store the volume's key, else None."""
        if not self.keys.external:
            return None
        with self.db.reader() as conn:
            return volume_types.find(conn, name, ctx.sees)

    def _kind(self, conn: Connection, ctx: nova_context.RequestContext, name: str | None, inherited: str | None,
              source: rows.Stored | None) -> volume_types.Type:
        """Return the type of a new volume. Its encryption must match the source's, because data is copied unchanged.

        :param name: type that the request names; the project must have access to it
        :param inherited: type of the volume that is copied; access is only needed if it is encrypted
        :raises VolumeTypeNotFound, InvalidVolume:
        """
        if not name and not inherited and source is not None and source['key_id']:
            return self.keys.kind(conn, source['key_id'], ctx.sees, lock=True)
        free = not name and source is not None and not source['key_id']
        kind = volume_types.find(conn, name or inherited, nova_context.ALL_PROJECTS if free else ctx.sees, lock=True)
        if source is not None and bool(source['key_id']) != bool(kind['encryption']):
            raise exception.InvalidVolume(reason='the source and the volume type differ in encryption. Omit the volume '
                                                 'type.')
        return kind

    def _key(self, conn: Connection, kind: volume_types.Type, source: rows.Stored | None, multiattach: bool,
             reserved: str | None) -> str:
        """Return the key id of a new volume of an encrypted type.

        :raises InvalidVolume: the volume cannot be encrypted
        """
        if multiattach:
            raise exception.InvalidVolume(reason='encrypted volumes do not support multiattach.')
        if (kind['encryption'] or {}).get('control_location') == volume_types.BACK_END:
            raise exception.InvalidVolume(reason='this service does not encrypt volumes on the volume host: use a type '
                                                 f'with the control location {volume_types.FRONT_END}.')
        if not self.files.has_tools:
            raise exception.InvalidVolume(reason='qemu-img is needed for encrypted volumes, and is not installed on '
                                                 'the volume host.')
        return str(source['key_id']) if source is not None else self.keys.make(conn, kind, reserved)

    def zones(self, conn: Connection) -> builtins.list[str]:
        """Return the names of all availability zones; servers in any of them can use a volume."""
        return sorted({self.conf.default_availability_zone, *aggregates.zone_names(conn)})

    def _status(self, volume_id: str) -> str:
        with self.db.reader() as conn:
            found = rows.find_volume(conn, volume_id)
        return found['status'] if found else jobs.ERROR

    def _active_image(self, ctx: nova_context.RequestContext, image_id: str) -> Image:
        image = self.images.show(ctx, image_id)
        disks.check_data(image)
        self.images.check_download(ctx, image)
        return image

    def delete(self, ctx: nova_context.RequestContext, volume_id: str, cascade: bool = False,
               force: bool = False) -> None:
        """See api.BlockStorage. ``cascade``: also delete snapshots; ``force``: delete the volume in any status."""
        def write(conn: Connection) -> builtins.list[str]:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if db.attachments(conn, volume_ids=[row['id']]) or not force and row['status'] not in DELETABLE:
                raise exception.InvalidVolume(reason=f'Volume status must be one of {", ".join(DELETABLE)}, and the '
                                                     f'volume must not be attached; its status is {row["status"]}.')
            if db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason='the volume is being copied.')
            gone = db.delete_snapshots(conn, row['id']) if cascade else []       # snapshots share the volume's key
            if db.copied_from(conn, gone):
                raise exception.InvalidVolume(reason='a volume or backup is being created from one of its snapshots.')
            if db.has_snapshots(conn, row['id']):
                raise exception.InvalidVolume(reason=f'Volume {row["id"]} still has dependent snapshots.')
            db.delete_transfer(conn, row['id'])
            db.delete(conn, t.volumes, row['id'])
            self.keys.delete_if_unused(conn, row['key_id'])
            return [self.files.volume(row['id']), *map(self.files.snapshot, gone)]
        self.jobs.discard(*self.db.run(write))

    def update(self, ctx: nova_context.RequestContext, volume_id: str,
               change: Callable[[db_rows.VolumesRow], JsonObject]) -> rows.Volume:
        """Write the values that ``change(row)`` returns, in the transaction that reads the row; return the volume."""
        def write(conn: Connection) -> rows.Volume:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            row = {**rows.change(conn, t.volumes, row, change(row)), 'updated_at': utils.utcnow()}
            return rows.with_attachments(conn, [row])[0]
        return self.db.run(write)

    def extend(self, ctx: nova_context.RequestContext, volume_id: str, size: int, online: bool = False) -> None:
        """Extend a volume.

        :param online: also a volume in use; its guest is notified
        :raises InvalidVolume, BadRequest: the volume is in use, or the size is not larger
        """
        allowed = ('available', 'in-use') if online else ('available',)

        def write(conn: Connection) -> tuple[str, set[str]]:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] not in allowed:
                raise exception.InvalidVolume(reason=f'Volume status must be {" or ".join(allowed)}, but it is '
                                                     f'{row["status"]}.')
            if size <= row['size']:
                raise exception.InvalidInput(reason='New size for extend must be greater than current size.')
            self.limits.check(conn, row['project_id'], None, size - row['size'], size, row['volume_type'])
            held = db.attachments(conn, volume_ids=[row['id']])
            if held and row['key_id']:
                raise exception.InvalidVolume(reason='it is encrypted and attached. Detach it first.')
            if any(self.attach_backend.is_export(each['connector']) for each in held):
                raise exception.InvalidVolume(reason='it is exported to another host, which does not support extending '
                                                     'it online.')
            db.update(conn, t.volumes, row['id'], {'size': size})
            if not held:                             # the host of the guest extends the file of an attached volume
                path = self.files.volume(row['id'])
                self.files.extend(path, self.files.room(path, size * GIB, row['key_id']))
            return row['id'], {each['instance_uuid'] for each in held}
        ident, holders = self.db.run(write)
        if self._guests is None:
            return
        missed = []
        for instance_uuid in holders:
            try:
                self._guests.extended(nova_context.admin_context(ctx.request_id), instance_uuid, volume_id)
            except exception.Unavailable as error:
                LOG.warning('Cannot notify server %s of the new size of volume %s: %s', instance_uuid, ident, error)
                missed.append(instance_uuid)
        if not missed:
            return
        if self.files.complete_extension(ident, size):                   # else the last detachment extends the file
            LOG.warning('Servers see the new size of volume %s after their next start: %s', ident, ', '.join(missed))

    def reimage(self, ctx: nova_context.RequestContext, volume_id: str, image_id: str, reserved: bool = True) -> None:
        """Write an image to a volume that is not in use.

        :param reserved: also to a volume that a server under rebuild has reserved
        :raises InvalidVolume: the volume is in use or being copied
        """
        with self.db.reader() as conn:
            size = rows.volume(conn, ctx, volume_id)['size']
        values: JsonObject = {**_from_image(self._active_image(ctx, image_id), size), 'image_id': image_id,
                  'status': jobs.DOWNLOADING}
        statuses = (*REIMAGED, 'reserved') if reserved else REIMAGED

        def write(conn: Connection) -> db_rows.VolumesRow:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] not in statuses:
                raise exception.InvalidVolume(reason=f'Volume status must be {" or ".join(statuses)}, but it is '
                                                     f'{row["status"]}.')
            rows.check_writable(row)
            if not reserved and db.attachments(conn, volume_ids=[row['id']]):
                raise exception.InvalidVolume(reason='it is attached to a server.')
            if db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason='the volume is being copied.')
            return rows.change(conn, t.volumes, row, values)
        self.jobs.start_after(write, lambda row: self.jobs.fill_volume(ctx, row))

    def encryption(self, ctx: nova_context.RequestContext, volume_id: str) -> JsonObject:
        """Return 'encryption_key_id' and the encryption that a volume's type defines; {} for an unencrypted volume.

        :raises VolumeNotFound:
        """
        with self.db.reader() as conn:
            key_id = rows.volume(conn, ctx, volume_id)['key_id']
            if not key_id:
                return {}
            kind = self.keys.kind(conn, key_id, nova_context.ALL_PROJECTS)
            return {**(kind['encryption'] or {}), 'encryption_key_id': key_id}

    def passphrase(self, ctx: nova_context.RequestContext, volume_id: str) -> str:
        with self.db.reader() as conn:
            key_id = rows.volume(conn, ctx, volume_id)['key_id']
        if key_id is None:
            raise exception.InvalidVolume(reason='it is not encrypted.')
        return self.keys.passphrase(key_id)

    def check_type(self, ctx: nova_context.RequestContext, name: str | None) -> None:
        self.types.find(name, ctx.sees)

    # ---- attachments

    def attach(self, ctx: nova_context.RequestContext, volume_id: str, instance_uuid: str) -> str:
        return self.attachments.attach(ctx, volume_id, instance_uuid)

    def connect(self, ctx: nova_context.RequestContext, attachment_id: str, connector: api.Connector,
                device: str | None) -> api.Connection:
        return self.attachments.connect(ctx, attachment_id, connector, device)

    def complete(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        self.attachments.complete(ctx, attachment_id)

    def detach(self, ctx: nova_context.RequestContext, attachment_id: str) -> None:
        self.attachments.detach(ctx, attachment_id)

    def begin_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        self.attachments.begin_detaching(ctx, volume_id)

    def roll_detaching(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        self.attachments.roll_detaching(ctx, volume_id)

    def attachments_of(self, ctx: nova_context.RequestContext, instance_uuid: str,
                       volume_id: str | None = None) -> builtins.list[str]:
        return self.attachments.of_server(ctx, instance_uuid, volume_id)

    # ---- snapshots

    def get_snapshot(self, ctx: nova_context.RequestContext, snapshot_id: str) -> db_rows.VolumeSnapshotsRow:
        return self.snapshots.get(ctx, snapshot_id)

    def list_snapshots(self, ctx: nova_context.RequestContext, limit: int,
                       offset: int = 0) -> builtins.list[db_rows.VolumeSnapshotsRow]:
        with self.db.reader() as conn:
            return cast('builtins.list[db_rows.VolumeSnapshotsRow]', _page(
                conn, ctx, t.volume_snapshots, limit, offset))

    def create_snapshot(self, ctx: nova_context.RequestContext, volume_id: str, name: str | None,
                        description: str | None = '') -> db_rows.VolumeSnapshotsRow:
        return self.snapshots.create(ctx, volume_id, name, description)

    def update_snapshot_status(self, ctx: nova_context.RequestContext, snapshot_id: str, status: str,
                               progress: str | None) -> None:
        self.snapshots.copied(snapshot_id, status)

    def delete_snapshot(self, ctx: nova_context.RequestContext, snapshot_id: str) -> None:
        self.snapshots.delete(ctx, snapshot_id)


def _from_image(image: Image, size: int | None) -> JsonObject:
    """Return the columns of a volume that depend on its image."""
    needed = max(image.get('min_disk') or 0, -(-(image.get('virtual_size') or image.get('size') or 0) // GIB))
    if size is not None and size < needed:
        raise exception.InvalidInput(reason=f'Size of specified image {needed}GB is larger than volume size '
                                            f'{size}GB.')
    kept = {key: value for key, value in image['properties'].items() if value is not None}
    facts = {key: str(value) for key, value in image.items() if key in _FACTS and value is not None}
    return {'bootable': True, 'image_metadata': {
        **kept, **facts, 'image_id': image['id'], 'image_name': image['name'] or ''}}


def _root_snapshot(image: Image) -> str:
    """Return the id of the root disk's snapshot from the image of a volume-backed server.

    The image's owner may write any id, so the caller must check the access to the snapshot.

    :raises BadRequest: the image names no snapshot
    """
    try:
        return next(str(each['snapshot_id']) for each in json_text.parse(image['properties'][disks.MAPPING])
                    if each.get('boot_index') == 0)
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration):
        raise exception.BadRequest(f'Image {image["id"]} has no data, and its block_device_mapping has no snapshot for '
                                   'a root disk.') from None


def _size_from(source: rows.Stored, size: int | None, noun: str) -> int:
    """Return the size of a copy in GiB: ``size``, or the size of the source if ``size`` is missing."""
    if size is not None and size < source['size']:
        raise exception.InvalidInput(reason=f"Volume size '{size}'GB cannot be smaller than {noun} size "
                                            f'{source["size"]}GB.')
    return size or source['size']


def _page(conn: Connection, ctx: nova_context.RequestContext, table: Table, limit: int,
          offset: int) -> list[dict[str, Any]]:
    """Return rows of the caller's project. Only administrators see volumes of servers that are hidden from users."""
    ctx.require_project()
    return db.page(conn, table, ctx.project_id or '', {}, administrative=bool(ctx.is_admin), limit=limit, offset=offset)
