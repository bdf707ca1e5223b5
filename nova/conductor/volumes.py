"""Volumes of servers: made, connected to a host and given back, step by step, each of which may be done again.

A compute host holds no account of the block storage; it asks for what it needs here, by the uuid of a block device
mapping, whose row says how far things are: a volume, an attachment, a connection.
"""
import contextlib
import json
import logging
import tempfile

from nova import context
from nova import exception
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.objects.instance import REIMAGE

LOG = logging.getLogger(__name__)

USABLE = ('available', 'in-use', 'reserved', 'attaching')
# action -> what takes it back
_GIVE_UP = {'attach_volume': 'volume_detached', 'detach_volume': 'volume_stays', 'swap_volume': 'volume_not_swapped'}
BROKEN = ('error', 'error_deleting', 'deleting')


class Volumes:
    """The part of the conductor's manager that works on volumes; mixed into it.

    Needs ``self._cell_db``, ``self._volumes`` (nova.volume.api.Volumes), image_grants.Granter and ``self._doubtful``: a
    deque of (uuid of a device, column of its row, ids of which the block storage has one too many).
    """

    # ---- all volumes of a server: builds and moves

    def prepare_volumes(self, ctx, instance_uuid, connector):
        """See interface.py."""
        with self._cell_db.reader() as conn:
            row = instances.get(conn, instance_uuid)
            devices = _volumes_of(conn, instance_uuid)
        if devices and connector is None:
            raise exception.BuildFailed(instance_id=instance_uuid, reason='the hypervisor cannot attach volumes')
        return [self._prepare(ctx, row, device, connector) for device in devices]

    def _prepare(self, ctx, row, device, connector):
        """One step, or all that are possible now; the device's row then."""
        system = _system(ctx)
        if device['volume_id'] is None:
            device = self._make(ctx, row, device)
        info = device['connection_info']
        if info is not None and info.get('host') == connector['host']:
            return device
        if info is not None:
            device = self._renew(system, row['uuid'], device)
        volume = self._volumes.get(system, device['volume_id'])
        if volume['status'] in BROKEN:
            raise exception.BuildFailed(instance_id=row['uuid'], reason=f'volume {volume["id"]} is in status '
                                                                        f'{volume["status"]}')
        if volume['status'] not in USABLE:
            return device
        if device['attachment_id'] is None:
            device = self._reserve(system, row['uuid'], device)
        return self._connect(system, device, connector)

    def _make(self, ctx, row, device):
        owner = context.RequestContext.from_dict({**ctx.to_dict(), 'overwrite': False})
        owner.project_id, owner.user_id, owner.is_admin = row['project_id'], row['user_id'], ctx.is_admin
        made = self._volumes.create(
            owner, device['volume_size'], image_id=device['image_id'], snapshot_id=device['snapshot_id'],
            volume_type=device['volume_type'], availability_zone=None)
        values = {'volume_id': made['id'], 'volume_size': made['size']}
        if not self._note(device, values, 'volume_id'):
            self._volumes.delete(_system(ctx), made['id'])
            raise exception.InstanceNotFound(instance_id=row['uuid'])
        return {**device, **values}

    def _reserve(self, system, instance_uuid, device):
        attachment_id = self._volumes.attach(system, device['volume_id'], instance_uuid)
        if not self._note(device, {'attachment_id': attachment_id}, 'attachment_id'):
            self._volumes.detach(system, attachment_id)
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        return {**device, 'attachment_id': attachment_id}

    def _note(self, device, values, column):
        """Write into a device's row what the block storage has made for it; False when the row is gone.

        Who is not told whether it was written asks for another one. Which of them is left over the row tells later.
        """
        try:
            return self._cell_db.run(block_devices.update, device['uuid'], values)
        except Exception:
            self._doubtful.append((device['uuid'], column, {values[column], device[column]} - {None}))
            raise

    def settle_volumes(self):
        """Give back the volumes and attachments whose devices, as it turned out, have others."""
        for _ in range(len(self._doubtful)):
            bdm_uuid, column, made = doubt = self._doubtful.popleft()
            try:
                for ident in self._cell_db.run(_left_over, bdm_uuid, column, made):
                    LOG.warning('Device %s does not have %s %s; it is given back.', bdm_uuid, column, ident)
                    self._give_back(column, ident)
            except Exception:
                self._doubtful.append(doubt)
                raise

    def _give_back(self, column, ident):
        remove = self._volumes.detach if column == 'attachment_id' else self._volumes.delete
        with contextlib.suppress(exception.NotFound, exception.Forbidden):
            remove(context.admin_context(), ident)

    def _connect(self, system, device, connector):
        info = self._volumes.connect(system, device['attachment_id'], connector, device['device_name'])
        self._cell_db.run(block_devices.update, device['uuid'], {'connection_info': info})
        return {**device, 'connection_info': info}

    def complete_volumes(self, ctx, instance_uuid):
        for device in self._cell_db.run(block_devices.show_volumes, instance_uuid):
            if device['attachment_id']:
                self._volumes.complete(_system(ctx), device['attachment_id'])

    def disconnect_volumes(self, ctx, instance_uuid):
        """Another attachment without a host takes the place of each: the volumes stay the server's all the time."""
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            devices = _volumes_of(conn, instance_uuid)
        for device in devices:
            if device['volume_id'] is not None and device['connection_info'] is not None:
                self._renew(system, instance_uuid, device)

    def _renew(self, system, instance_uuid, device):
        """A fresh attachment, without a host yet, in the place of the present one."""
        fresh = self._volumes.attach(system, device['volume_id'], instance_uuid)
        values = {'attachment_id': fresh, 'connection_info': None}
        if not self._note(device, values, 'attachment_id'):
            self._volumes.detach(system, fresh)
            raise exception.InstanceNotFound(instance_id=instance_uuid)
        self._volumes.detach(system, device['attachment_id'])
        return {**device, **values}

    def release_volumes(self, ctx, instance_uuid, row):
        """Give back the volumes of a server that ends, and delete those that are to go with it.

        :param row: of the server, None when it is gone
        :raises Unavailable: the block storage does not answer; what is left is given back when it is done again
        """
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            devices = _volumes_of(conn, instance_uuid) if row else []
        for device in devices:
            try:
                if device['attachment_id']:
                    self._volumes.detach(system, device['attachment_id'])
                    self._cell_db.run(block_devices.update, device['uuid'],
                                      {'attachment_id': None, 'connection_info': None})
                if device['volume_id'] and device['delete_on_termination']:
                    self._volumes.delete(system, device['volume_id'])
            except exception.Unavailable:
                raise
            except exception.NovaException as error:
                LOG.warning('Volume %s of server %s stays as it is: %s', device['volume_id'], instance_uuid,
                            error.message)
        if devices:
            self.release_attachments(ctx, instance_uuid)      # of a swap that was under way

    def give_up_volume(self, ctx, action):
        """Take back what an attach, a detach or a swap that its host never finished has begun."""
        method = _GIVE_UP.get(action['action'])
        if method is not None:
            try:
                getattr(self, method)(ctx, action['instance_uuid'], **(action['arguments'] or {}))
            except (exception.InstanceChanged, exception.InstanceNotFound) as error:
                LOG.info('Nothing is left of %s: %s', action['action'], error.message)

    def release_attachments(self, ctx, instance_uuid):
        """Give back what a server holds that was never stored."""
        for attachment_id in self._volumes.attachments_of(_system(ctx), instance_uuid):
            self._volumes.detach(_system(ctx), attachment_id)

    # ---- one volume

    def connect_volume(self, ctx, instance_uuid, bdm_uuid, connector):
        device = self._device(instance_uuid, bdm_uuid)
        if device['attachment_id'] is None:
            device = self._reserve(_system(ctx), instance_uuid, device)
        return self._connect(_system(ctx), device, connector)

    def volume_attached(self, ctx, instance_uuid, bdm_uuid):
        device = self._device(instance_uuid, bdm_uuid)
        self._volumes.complete(_system(ctx), device['attachment_id'])
        self._cell_db.run(block_devices.show_volumes, instance_uuid)

    def volume_detached(self, ctx, instance_uuid, bdm_uuid):
        try:
            device = self._device(instance_uuid, bdm_uuid)
        except exception.InstanceChanged:
            return
        if device['attachment_id']:
            self._volumes.detach(_system(ctx), device['attachment_id'])

        def forget(conn):
            block_devices.delete(conn, bdm_uuid)
            block_devices.show_volumes(conn, instance_uuid)
        self._cell_db.run(forget)

    def volume_stays(self, ctx, instance_uuid, bdm_uuid):
        device = self._device(instance_uuid, bdm_uuid)
        self._volumes.roll_detaching(_system(ctx), device['volume_id'])

    def get_volume_device(self, ctx, instance_uuid, bdm_uuid):
        return self._device(instance_uuid, bdm_uuid)

    def _device(self, instance_uuid, bdm_uuid):
        """:raises InstanceChanged: the mapping is gone"""
        with self._cell_db.reader() as conn:
            device = block_devices.get(conn, bdm_uuid)
        if device is None or device['instance_uuid'] != instance_uuid:
            raise exception.InstanceChanged(instance_id=instance_uuid)
        return device

    def refresh_volume(self, ctx, instance_uuid, bdm_uuid):
        device = self._device(instance_uuid, bdm_uuid)
        values = {'volume_size': self._volumes.get(_system(ctx), device['volume_id'])['size']}
        self._cell_db.run(block_devices.update, bdm_uuid, values)
        return {**device, **values}

    def volume_snapshot(self, snapshot_id):
        """A snapshot, as nova.volume.api.Volumes has it.

        :raises VolumeSnapshotNotFound:
        """
        return self._volumes.get_snapshot(context.admin_context(), snapshot_id)

    def volume_snapshot_status(self, ctx, snapshot_id, status, progress):
        self._volumes.update_snapshot_status(_system(ctx), snapshot_id, status, progress)

    # ---- one volume for another

    def connect_new_volume(self, ctx, attachment_id, connector, device_name):
        return self._volumes.connect(_system(ctx), attachment_id, connector, device_name)

    def volume_swapped(self, ctx, instance_uuid, bdm_uuid, new_volume_id, new_attachment_id, connection_info):
        system, device = _system(ctx), self._device(instance_uuid, bdm_uuid)
        if device['attachment_id'] == new_attachment_id:
            return                        # done before
        old = device['volume_id']
        self._volumes.complete(system, new_attachment_id)
        self._volumes.detach(system, device['attachment_id'])
        stays = self._volumes.complete_migration(system, old, new_volume_id, False)

        def write(conn):
            block_devices.update(conn, bdm_uuid, {
                'volume_id': stays, 'attachment_id': new_attachment_id, 'connection_info': connection_info})
            block_devices.show_volumes(conn, instance_uuid)
        self._cell_db.run(write)

    def volume_not_swapped(self, ctx, instance_uuid, bdm_uuid, new_volume_id, new_attachment_id):
        system, device = _system(ctx), self._device(instance_uuid, bdm_uuid)
        self._volumes.detach(system, new_attachment_id)
        self._volumes.roll_detaching(system, device['volume_id'])
        self._volumes.complete_migration(system, device['volume_id'], new_volume_id, True)

    def reimage_root(self, ctx, instance_uuid, image_id):
        system = _system(ctx)
        with self._cell_db.reader() as conn:
            root = next(row for row in _volumes_of(conn, instance_uuid) if row['boot_index'] == 0)
            if instances.get(conn, instance_uuid)['system_metadata'].get(REIMAGE) != image_id:
                raise exception.ImageNotFound(image_id=image_id)         # not what the rebuild was asked for
        if root['connection_info'] is not None:
            root = self._renew(system, instance_uuid, root)
        elif self._volumes.get(system, root['volume_id'])['status'] == 'downloading':
            return                        # it has begun already
        self._volumes.reimage(system, root['volume_id'], image_id)

    # ---- images of servers that boot from a volume

    def snapshot_volumes(self, ctx, instance_uuid, image_id):
        """Snapshots of all volumes; the image has no data of its own and names them."""
        system, made = _system(ctx), []
        with self._cell_db.reader() as conn:
            if image_id not in instance_actions.images_of_open(conn, instance_uuid):
                raise exception.ImageNotFound(image_id=image_id)
        images = self._images_of(ctx, instance_uuid, write=[image_id])
        image = images.show(image_id)
        if image['status'] == 'active':
            return                        # done before
        with self._cell_db.reader() as conn:
            row = instances.get(conn, instance_uuid)
            devices = [device for device in _volumes_of(conn, instance_uuid) if device['volume_id']]
        system.project_id, system.user_id = row['project_id'], row['user_id']
        try:
            mapping = []
            for device in devices:
                snapshot = self._volumes.create_snapshot(system, device['volume_id'],
                                                         f'snapshot for {row["display_name"]}'[:255])
                made.append(snapshot['id'])
                mapping.append(_mapping(device, snapshot))
            images.update(image_id, {'properties': {
                **image['properties'], 'bdm_v2': 'True', 'root_device_name': row['root_device_name'] or '/dev/vda',
                'block_device_mapping': json.dumps(mapping)}})
            with tempfile.NamedTemporaryFile(prefix='nova-empty-') as nothing:
                images.upload(image_id, nothing.name, 'raw')
        except Exception:
            for snapshot_id in made:
                self._volumes.delete_snapshot(system, snapshot_id)
            raise


def _left_over(conn, bdm_uuid, column, made):
    """Those of the ids that the row of a device does not name. A volume that somebody may have used is none of them:
    the server had it, and is deleted or has another one in its place.
    """
    device = block_devices.lock(conn, bdm_uuid)
    if column == 'volume_id' and (device is None or any(
            each['action'] == 'swap_volume' for each in instance_actions.by_instance(conn, device['instance_uuid']))):
        return set()
    return made - {device and device[column]}


def _volumes_of(conn, instance_uuid):
    return [row for row in block_devices.by_instance(conn, instance_uuid) if row['destination_type'] == 'volume']


def _system(ctx):
    """The deployment itself, in the name of the same request: a user's token may have run out by now."""
    return context.admin_context(ctx.request_id)


def _mapping(device, snapshot):
    """What a server made of the image gets for this device."""
    return {'source_type': 'snapshot', 'destination_type': 'volume', 'snapshot_id': snapshot['id'],
            'volume_size': snapshot['size'], 'boot_index': device['boot_index'], 'device_name': device['device_name'],
            'device_type': device['device_type'], 'disk_bus': device['disk_bus'], 'tag': device['tag'],
            'guest_format': None, 'image_id': None, 'volume_id': None, 'no_device': None,
            'delete_on_termination': device['delete_on_termination'], 'volume_type': None}
