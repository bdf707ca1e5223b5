"""Volumes of servers: create, connect and release them in repeatable steps.

A compute host has no account at the block storage: it sends the conductor the uuid of a block device mapping. The row
of the mapping stores the result of each step: volume, attachment, connection. A repeated call skips stored steps.
"""
import collections
import contextlib
import json
import logging
import os
import tempfile
import typing

from nova import actions
from nova import context
from nova.db.tables.rows import InstancesRow
from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.servers.disk_keys import DiskKeys
from nova.conductor.servers.image_grants import ImageGrants
from nova.db import errors
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.hardware import disks
from nova.json_types import JsonObject
from nova.objects.instance import REIMAGE
from nova.virt.driver import VolumeFile
from nova.volume import api as volume_api

LOG = logging.getLogger(__name__)

USABLE = ('available', 'in-use', 'reserved', 'attaching')
BROKEN = ('error', 'error_deleting', 'deleting')
_IMAGE_TASKS = actions.ACTIONS['createImage'].tasks


class Volumes:
    """Manages volumes of servers; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, grants: ImageGrants, keys: DiskKeys) -> None:
        self._cell_db, self._storage, self._grants = services.cell_db, services.volumes, grants
        self._keys = keys
        # ids to check: (uuid of a device, column, ids in the block storage); ids that the row does not have are orphans
        self._doubtful: collections.deque[tuple[str, str, set[str]]] = collections.deque()
        self._unmarked: dict[str, None] = {}            # attachments to mark as in use, the next one first
        # background action -> its rollback
        self._take_back: dict[str, collections.abc.Callable[..., None]] = {
            'attach_volume': self._give_up_attachment, 'detach_volume': self.volume_detach_failed,
            'swap_volume': self._give_up_swap}

    # ---- all volumes of a server: builds and moves

    def prepare_volumes(self, ctx: Context, instance_uuid: str, connector: JsonObject | None) -> list[Row]:
        """See interface.py."""
        with self._cell_db.reader() as conn:
            row = instances.get(conn, instance_uuid)
            devices = _volumes_of(conn, instance_uuid)
        if not devices:
            return []
        if connector is None:
            raise exception.BuildFailed(instance_id=instance_uuid, reason='the hypervisor cannot attach volumes')
        return [self._prepare(ctx, row, device, connector) for device in devices]

    def _prepare(self, ctx: Context, row: Row, device: Row, connector: JsonObject) -> Row:
        """Run all steps that are possible now; return the new row of the device."""
        system = _system(ctx)
        if device['volume_id'] is None:
            device = self._make(ctx, row, device)
        info = device['connection_info']
        if info is not None and info.get('host') == connector['host']:
            return device
        if info is not None:
            device = self._renew(system, row['uuid'], device)
        volume = self._storage.get(system, device['volume_id'])
        if volume['status'] in BROKEN:
            raise exception.BuildFailed(instance_id=row['uuid'], reason=f'volume {volume["id"]} is in status '
                                                                        f'{volume["status"]}')
        if volume['status'] not in USABLE:
            return device
        if device['attachment_id'] is None:
            device = self._reserve(system, row['uuid'], device)
        return self._connect(ctx, device, connector)

    def _make(self, ctx: Context, row: Row, device: Row) -> Row:
        owner = context.RequestContext.from_dict({**ctx.to_dict(), 'overwrite': False})
        owner.project_id, owner.user_id, owner.is_admin = row['project_id'], row['user_id'], ctx.is_admin
        made = self._storage.create(
            owner, device['volume_size'], image_id=device['image_id'], snapshot_id=device['snapshot_id'],
            volume_type=device['volume_type'], availability_zone=None)
        values = {'volume_id': made['id'], 'volume_size': made['size']}
        if not self._note(device, values, 'volume_id'):
            self._storage.delete(_system(ctx), made['id'])
            raise exception.InstanceNotFound(instance_id=row['uuid'])
        return {**device, **values}

    def _reserve(self, system: Context, instance_uuid: str, device: Row) -> Row:
        attachment_id = self._storage.attach(system, device['volume_id'], instance_uuid)
        if not self._note(device, {'attachment_id': attachment_id}, 'attachment_id'):
            self.release_attachment(system, device['uuid'], attachment_id)
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        return {**device, 'attachment_id': attachment_id}

    def _note(self, device: Row, values: dict[str, typing.Any], column: str) -> bool:
        """Store the result of a step in a device's row; return False if the row is gone.

        After an error it is unknown whether the result was stored. A repeated step may create a second volume or
        attachment; ``settle_volumes`` releases the one that the row does not name.
        """
        try:
            return self._cell_db.run(block_devices.update, device['uuid'], values)
        except Exception:
            self._doubtful.append((device['uuid'], column, {values[column], device[column]} - {None}))
            raise

    def release_attachment(self, system: Context, bdm_uuid: str, attachment_id: str) -> None:
        """Release an attachment that no row of a device names; after an error, ``settle_volumes`` repeats it."""
        try:
            self._storage.detach(system, attachment_id)
        except Exception:
            self.doubt_attachment(bdm_uuid, attachment_id)
            raise

    def doubt_attachment(self, bdm_uuid: str, attachment_id: str) -> None:
        """Let ``settle_volumes`` release an attachment if neither the device nor an open live migration names it."""
        self._doubtful.append((bdm_uuid, 'attachment_id', {attachment_id}))

    def settle_volumes(self) -> None:
        """Release orphaned volumes and attachments of devices; mark volumes as in use that a call could not mark."""
        try:
            self._mark_as_used()
        finally:
            self._release_orphans()

    def _mark_as_used(self) -> None:
        for attachment_id in list(self._unmarked):
            self._unmarked.pop(attachment_id, None)
            try:
                self._storage.complete(context.admin_context(), attachment_id)
            except Exception as error:
                if not isinstance(error, exception.NovaException) or isinstance(error, exception.Unavailable):
                    self._unmarked[attachment_id] = None         # the last one at the next try
                    raise
                LOG.info('Attachment %s is not marked as in use: %s', attachment_id, error)  # such as one that is gone

    def _release_orphans(self) -> None:
        for _ in range(len(self._doubtful)):
            bdm_uuid, column, made = doubt = self._doubtful.popleft()
            try:
                for ident in self._cell_db.run(_left_over, bdm_uuid, column, made):
                    LOG.warning('Releasing an orphan: device %s does not have %s %s.', bdm_uuid, column, ident)
                    _give_back(self._storage, column, ident)
            except Exception as error:
                if not isinstance(error, exception.NovaException) or isinstance(error, exception.Unavailable):
                    self._doubtful.append(doubt)             # the last one at the next try
                    raise
                LOG.warning('The orphan of device %s is not released: %s', bdm_uuid, error)

    def _connect(self, ctx: Context, device: Row, connector: JsonObject) -> Row:
        info = self._storage.connect(_system(ctx), device['attachment_id'], connector, device['device_name'])
        self._keep_key(ctx, device['instance_uuid'], device['volume_id'], info)
        if not self._cell_db.run(block_devices.update, device['uuid'], {'connection_info': info}):
            # the row is gone: the attach was rolled back before the key was stored
            self._keys.forget_volume_key(device['instance_uuid'], device['volume_id'])
            raise exception.InstanceChanged(instance_id=device['instance_uuid'])
        return {**device, 'connection_info': info}

    def _keep_key(self, ctx: Context, instance_uuid: str, volume_id: str, info: Row) -> None:
        """Read the passphrase of an encrypted volume with the token of the owner's request, and store it."""
        if info['data'].get('encrypted'):
            self._keys.keep_volume_key(instance_uuid, volume_id, lambda: self._storage.passphrase(ctx, volume_id))

    def complete_volumes(self, ctx: Context, instance_uuid: str) -> None:
        """Mark all volumes of a server as in use.

        :raises NovaException: the first error; the other volumes are marked. If the block storage does not answer,
            ``settle_volumes`` repeats it
        """
        failed: list[exception.NovaException] = []
        for device in self._cell_db.run(block_devices.show_volumes, instance_uuid):
            try:
                if device['attachment_id']:
                    self._storage.complete(_system(ctx), device['attachment_id'])
            except exception.NovaException as error:
                failed.append(error)
                if device['attachment_id'] and isinstance(error, exception.Unavailable):
                    self._unmarked[device['attachment_id']] = None
        if failed:
            raise failed[0]

    def disconnect_volumes(self, ctx: Context, instance_uuid: str) -> None:
        """Replace the attachments by attachments without a host, so that the server keeps its volumes.

        :raises Unavailable: the block storage does not answer; repeat the call for the rest
        :raises NovaException: the first refusal; the other volumes are disconnected
        """
        system, refused = _system(ctx), list[exception.NovaException]()
        with self._cell_db.reader() as conn:
            devices = _volumes_of(conn, instance_uuid)
        for device in devices:
            try:
                if device['volume_id'] is not None and device['connection_info'] is not None:
                    self._renew(system, instance_uuid, device)
            except exception.Unavailable:
                raise
            except exception.NovaException as error:
                LOG.warning('Cannot disconnect volume %s of server %s: %s', device['volume_id'], instance_uuid,
                            error.message)
                refused.append(error)
        if refused:
            raise refused[0]

    def _renew(self, system: Context, instance_uuid: str, device: Row) -> Row:
        """Replace the attachment by an attachment without a host; return the new row of the device."""
        fresh = self._storage.renew(system, device['volume_id'], instance_uuid, device['attachment_id'])
        values = {'attachment_id': fresh, 'connection_info': None}
        if not self._note(device, values, 'attachment_id'):
            self.release_attachment(system, device['uuid'], fresh)
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        self.release_attachment(system, device['uuid'], device['attachment_id'])
        return {**device, **values}

    def are_connected(self, instance_uuid: str) -> bool:
        """Return whether a host has connected a volume of a server, so that a guest may use the volume."""
        with self._cell_db.reader() as conn:
            return any(device['connection_info'] is not None for device in _volumes_of(conn, instance_uuid))

    def release_volumes(self, ctx: Context, instance_uuid: str, row: InstancesRow | None) -> None:
        """Release the volumes of a server that is being deleted; delete those with ``delete_on_termination``.

        :param row: the server's row, or None if the server is gone
        :raises Unavailable: the block storage does not answer; repeat the call to release the rest
        """
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            devices = _volumes_of(conn, instance_uuid) if row else []
        for device in devices:
            try:
                if device['attachment_id']:
                    self._storage.detach(system, device['attachment_id'])
                    self._cell_db.run(block_devices.update, device['uuid'],
                                      {'attachment_id': None, 'connection_info': None})
                if device['volume_id'] and device['delete_on_termination']:
                    self._delete(system, device['volume_id'], row)
            except exception.Unavailable:
                raise
            except exception.NovaException as error:
                LOG.warning('Cannot release volume %s of server %s: %s', device['volume_id'], instance_uuid,
                            error.message)
        if devices:
            self.release_attachments(ctx, instance_uuid)      # an interrupted swap leaves a second attachment
            self._keys.forget_volume_keys(instance_uuid)

    def _delete(self, system: Context, volume_id: str, row: InstancesRow | None) -> None:
        """Delete a volume of a server that is being deleted, if the server's project owns the volume.

        After a failed build, the volume is not attached to the server, so another project may own the volume by now.

        :raises VolumeNotFound: there is no such volume, or another project owns it
        """
        if row is None or self._storage.get(system, volume_id)['project_id'] not in (None, row['project_id']):
            raise exception.VolumeNotFound(volume_id=volume_id)
        self._storage.delete(system, volume_id)

    def give_up_volume(self, ctx: Context, action: Row) -> None:
        """Roll back an attach, a detach or a swap that the host did not finish in time.

        :raises VolumeConnected: the host has connected the new volume, so the guest may use it
        """
        take_back = self._take_back.get(action['action'])
        if take_back is not None:
            try:
                take_back(ctx, action['instance_uuid'], **(action['arguments'] or {}))
            except (exception.InstanceChanged, exception.InstanceNotFound) as error:
                LOG.info('No rollback needed for %s: %s', action['action'], error.message)

    def _give_up_attachment(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> None:
        def forget(conn: Connection) -> str | None:
            device = block_devices.lock(conn, bdm_uuid)
            if device is None or device['instance_uuid'] != instance_uuid:
                raise exception.InstanceChanged(instance_id=instance_uuid)
            if device['connection_info'] is not None:
                raise exception.VolumeConnected(volume_id=device['volume_id'])
            block_devices.delete(conn, bdm_uuid)
            block_devices.show_volumes(conn, instance_uuid)
            return device['attachment_id']
        made = self._cell_db.run(forget)         # without the row, no host can connect the volume
        if made:
            self.doubt_attachment(bdm_uuid, made)
            self.settle_volumes()

    def _give_up_swap(self, ctx: Context, instance_uuid: str, bdm_uuid: str, new_volume_id: str,
                      new_attachment_id: str) -> None:
        with contextlib.suppress(exception.VolumeNotFound):
            if self._storage.get(_system(ctx), new_volume_id)['status'] in ('attaching', 'in-use'):
                raise exception.VolumeConnected(volume_id=new_volume_id)
        self.volume_swap_failed(ctx, instance_uuid, bdm_uuid, new_volume_id, new_attachment_id)

    def release_attachments(self, ctx: Context, instance_uuid: str) -> None:
        """Release all remaining attachments of a server, also those that no row of a device names.

        :raises Unavailable: the block storage does not answer; repeat the call to release the rest
        """
        for attachment_id in self._storage.attachments_of(_system(ctx), instance_uuid):
            try:
                self._storage.detach(_system(ctx), attachment_id)
            except exception.Unavailable:
                raise
            except exception.NovaException as error:
                LOG.warning('Cannot release attachment %s of server %s: %s', attachment_id, instance_uuid,
                            error.message)

    # ---- one volume

    def connect_volume(self, ctx: Context, instance_uuid: str, bdm_uuid: str, connector: JsonObject) -> Row:
        device = self._device(instance_uuid, bdm_uuid)
        if device['attachment_id'] is None:
            device = self._reserve(_system(ctx), instance_uuid, device)
        return self._connect(ctx, device, connector)

    def volume_attached(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> None:
        device = self._device(instance_uuid, bdm_uuid)
        self._storage.complete(_system(ctx), device['attachment_id'])
        self._cell_db.run(block_devices.show_volumes, instance_uuid)

    def volume_detached(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> None:
        try:
            device = self._device(instance_uuid, bdm_uuid)
        except exception.InstanceChanged:
            return
        if device['attachment_id']:
            self._storage.detach(_system(ctx), device['attachment_id'])

        def forget(conn: Connection) -> None:
            block_devices.delete(conn, bdm_uuid)
            block_devices.show_volumes(conn, instance_uuid)
        self._cell_db.run(forget)
        self._keys.forget_volume_key(instance_uuid, device['volume_id'])

    def volume_detach_failed(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> None:
        device = self._device(instance_uuid, bdm_uuid)
        self._storage.roll_detaching(_system(ctx), device['volume_id'])

    def get_volume_device(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> Row:
        return self._device(instance_uuid, bdm_uuid)

    def _device(self, instance_uuid: str, bdm_uuid: str) -> Row:
        """Return the row of a block device.

        :raises InstanceChanged: the mapping is gone
        """
        with self._cell_db.reader() as conn:
            device = block_devices.get(conn, bdm_uuid)
        if device is None or device['instance_uuid'] != instance_uuid:
            raise exception.InstanceChanged(instance_id=instance_uuid)
        return device

    def refresh_volume(self, ctx: Context, instance_uuid: str, bdm_uuid: str) -> Row:
        device = self._device(instance_uuid, bdm_uuid)
        values = {'volume_size': self._storage.get(_system(ctx), device['volume_id'])['size']}
        self._cell_db.run(block_devices.update, bdm_uuid, values)
        return {**device, **values}

    def volume_snapshot_status(self, ctx: Context, snapshot_id: str, status: str, progress: str) -> None:
        self._storage.update_snapshot_status(_system(ctx), snapshot_id, status, progress)

    def volume_file_changed(self, ctx: Context, instance_uuid: str, volume_id: str, file: VolumeFile) -> None:
        """Record the new file of a volume.

        :raises InvalidVolume: the name is not a valid file name in the present directory
        """
        name, form = file.get('name'), file.get('format')
        if not isinstance(name, str) or not disks.FILE_NAME.match(name) or form not in (disks.QCOW2, disks.RAW):
            raise exception.InvalidVolume(reason='its new file has no valid name or format.')

        def write(conn: Connection) -> None:
            for device in _volumes_of(conn, instance_uuid):
                info = device['connection_info']
                if device['volume_id'] == volume_id and info is not None:
                    data = {**info['data'], 'format': form}
                    key = 'device_path' if 'device_path' in data else 'name'
                    data[key] = os.path.join(os.path.dirname(data.get(key) or ''), name)
                    block_devices.update(conn, device['uuid'], {'connection_info': {**info, 'data': data}})
        self._cell_db.run(write)

    # ---- swap of volumes

    def connect_new_volume(self, ctx: Context, attachment_id: str, connector: JsonObject,
                           device_name: str | None) -> volume_api.Connection:
        return self._storage.connect(_system(ctx), attachment_id, connector, device_name)

    def volume_swapped(self, ctx: Context, instance_uuid: str, bdm_uuid: str, new_volume_id: str,
                       new_attachment_id: str, connection_info: volume_api.Connection) -> str:
        system, device = _system(ctx), self._device(instance_uuid, bdm_uuid)
        if device['attachment_id'] == new_attachment_id:
            return str(device['volume_id'])          # a repeated call
        old = device['volume_id']
        self._storage.complete(system, new_attachment_id)
        self._storage.detach(system, device['attachment_id'])
        stays = self._storage.complete_migration(system, old, new_volume_id, False)

        def write(conn: Connection) -> None:
            block_devices.update(conn, bdm_uuid, {
                'volume_id': stays, 'attachment_id': new_attachment_id, 'connection_info': connection_info})
            block_devices.show_volumes(conn, instance_uuid)
        self._cell_db.run(write)
        return stays

    def volume_swap_failed(self, ctx: Context, instance_uuid: str, bdm_uuid: str, new_volume_id: str,
                           new_attachment_id: str) -> None:
        system, device = _system(ctx), self._device(instance_uuid, bdm_uuid)
        self._storage.detach(system, new_attachment_id)
        self._storage.roll_detaching(system, device['volume_id'])
        self._storage.complete_migration(system, device['volume_id'], new_volume_id, True)

    def reimage_root(self, ctx: Context, instance_uuid: str, image_id: str) -> None:
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            root = next(row for row in _volumes_of(conn, instance_uuid) if row['boot_index'] == 0)
            if instances.get(conn, instance_uuid)['system_metadata'].get(REIMAGE) != image_id:
                raise exception.ImageNotFound(image_id=image_id)         # the server's rebuild uses another image
        if root['connection_info'] is not None:
            root = self._renew(system, instance_uuid, root)
        elif self._storage.get(system, root['volume_id'])['status'] == 'downloading':
            return                        # a repeated call: the image is already being written to the volume
        self._storage.reimage(system, root['volume_id'], image_id)

    # ---- images of servers that boot from a volume

    def snapshot_volumes(self, ctx: Context, instance_uuid: str, image_id: str, wait: bool = False,
                         list_incomplete: bool = False) -> bool | list[str]:
        """Create snapshots of all volumes and upload an empty image, with properties that name the snapshots.

        :param wait: leave the image unchanged until the snapshots are complete; callers repeat the call until then
        :param list_incomplete: return the ids of the incomplete snapshots instead of a bool
        :raises InvalidVolume: a snapshot failed; all of them are deleted
        :raises InstanceChanged: the image is no longer the server's task, e.g. the server is deleted; likewise
        :raises Unavailable: a service does not answer; a repeated call continues with the snapshots
        """
        incomplete = self._snapshot_volumes(ctx, instance_uuid, image_id, wait)
        return incomplete if list_incomplete else not incomplete

    def _snapshot_volumes(self, ctx: Context, instance_uuid: str, image_id: str, wait: bool) -> list[str]:
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            if image_id not in instance_actions.images_of_open(conn, instance_uuid):
                raise exception.ImageNotFound(image_id=image_id)
            row = instances.get(conn, instance_uuid)
            devices = [device for device in _volumes_of(conn, instance_uuid) if device['volume_id']]
        images = self._grants.images_of(ctx, instance_uuid, write=[image_id])
        image = images.show(image_id)
        if image['status'] == 'active':
            return []                     # a repeated call
        asks = ctx if ctx.auth_token else _system(ctx)
        if asks is not ctx:
            asks.project_id, asks.user_id = row['project_id'], row['user_id']
        made = self._snapshots_of(system, image, {device['volume_id'] for device in devices})
        named = bool(made)
        try:
            if row['task_state'] not in _IMAGE_TASKS:
                raise exception.InstanceChanged(instance_id=instance_uuid)
            if not made:
                mapping = []
                for device in devices:
                    snapshot = self._storage.create_snapshot(asks, device['volume_id'],
                                                             f'snapshot for {row["display_name"]}'[:255])
                    made.append(snapshot['id'])
                    mapping.append(_mapping(device, snapshot))
                images.update(image_id, {'properties': {
                    **image['properties'], 'bdm_v2': 'True', 'root_device_name': row['root_device_name'] or '/dev/vda',
                    disks.MAPPING: json.dumps(mapping)}})
                named = True
            incomplete = self._incomplete(system, made) if wait else []
            if incomplete:
                return incomplete
            with tempfile.NamedTemporaryFile(prefix='nova-empty-') as nothing:
                images.upload(image_id, nothing.name, 'raw')
            return []
        except Exception as error:
            if named and isinstance(error, (exception.Unavailable, *errors.UNAVAILABLE)):
                raise                     # a repeated call finds the snapshots in the properties of the image
            for snapshot_id in made:
                try:
                    self._storage.delete_snapshot(system, snapshot_id)
                except exception.NovaException as left:
                    LOG.warning('Cannot delete snapshot %s of server %s: %s', snapshot_id, instance_uuid, left.message)
            raise

    def _snapshots_of(self, system: Context, image: Row, volume_ids: set[str]) -> list[str]:
        """Return the snapshots that an earlier call created for an image, one of each volume.

        The properties of the image name the snapshots. The image's owner may change the properties, so the list is
        empty unless the properties name exactly one snapshot of each volume.
        """
        try:
            mapping = json.loads(image['properties'].get(disks.MAPPING, '[]'))
            snapshot_ids = [str(device['snapshot_id']) for device in mapping]
            if len(snapshot_ids) != len(volume_ids):
                return []
            found = [self._storage.get_snapshot(system, ident) for ident in snapshot_ids]
        except (ValueError, TypeError, KeyError, exception.VolumeSnapshotNotFound):
            return []
        is_usable = all(snapshot['status'] != 'deleting' for snapshot in found)
        return snapshot_ids if is_usable and {snapshot['volume_id'] for snapshot in found} == volume_ids else []

    def _incomplete(self, system: Context, snapshot_ids: list[str]) -> list[str]:
        """Return the ids of the snapshots that are not available yet.

        :raises InvalidVolume: a snapshot failed
        """
        found = {ident: self._storage.get_snapshot(system, ident)['status'] for ident in snapshot_ids}
        if 'error' in found.values():
            raise exception.InvalidVolume(reason='a snapshot of a volume of the server failed.')
        return [ident for ident, status in found.items() if status != 'available']


def _give_back(storage: volume_api.BlockStorage, column: str, ident: str) -> None:
    remove = storage.detach if column == 'attachment_id' else storage.delete
    with contextlib.suppress(exception.NotFound, exception.Forbidden):
        remove(context.admin_context(), ident)


def _left_over(conn: Connection, bdm_uuid: str, column: str, made: set[str]) -> set[str]:
    """Return the orphans: those ids of ``made`` that neither the row of the device nor an open live migration names.

    No volumes are returned if the row is gone or the server's volumes were swapped, because the server may have written
    to the volumes.
    """
    device: Row | None = block_devices.lock(conn, bdm_uuid)
    if device is None:
        return set() if column == 'volume_id' else made
    if column == 'volume_id' and any(
            each['action'] == 'swap_volume' for each in instance_actions.by_instance(conn, device['instance_uuid'])):
        return set()
    migration = live_migrations.open_of(conn, device['instance_uuid'], server_migrations.LIVE_MIGRATION)
    coming = ((migration and migration['arguments'].get('volumes')) or {}).get(bdm_uuid, {})
    return made - {device[column], coming.get(column)}


def _volumes_of(conn: Connection, instance_uuid: str) -> list[Row]:
    return [row for row in block_devices.by_instance(conn, instance_uuid) if row['destination_type'] == 'volume']


def _system(ctx: Context) -> Context:
    """Return a system context with the same request id: a user's token may have expired."""
    return context.admin_context(ctx.request_id)


def _mapping(device: Row, snapshot: Row) -> Row:
    """Return the entry of the image's block device mapping that creates this device from its snapshot."""
    return {'source_type': 'snapshot', 'destination_type': 'volume', 'snapshot_id': snapshot['id'],
            'volume_size': snapshot['size'], 'boot_index': device['boot_index'], 'device_name': device['device_name'],
            'device_type': device['device_type'], 'disk_bus': device['disk_bus'], 'tag': device['tag'],
            'guest_format': None, 'image_id': None, 'volume_id': None, 'no_device': None,
            'delete_on_termination': device['delete_on_termination'], 'volume_type': None}
