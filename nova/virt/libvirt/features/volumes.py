"""Attach, detach, swap, extend and copy volumes of running and stopped guests."""
import contextlib
import subprocess
import time
from collections.abc import Callable

from oslo_config import cfg

from nova import exception
from nova.context import RequestContext
from nova.disk_files import qemu_img
from nova.json_types import JsonObject
from nova.objects.block_device import AttachedVolume
from nova.objects.block_device import VolumeDevice
from nova.objects.instance import Instance
from nova.virt.libvirt import calls
from nova.virt.libvirt import xml
from nova.virt.libvirt.disk_backups import DiskBackups
from nova.virt.libvirt.disk_clients import DiskClients
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.volumes import operations
from nova.virt.libvirt.volumes import probe
from nova.virt.libvirt.volumes.connections import VolumeConnections
from nova.virt.libvirt.volumes.connectors import Connectors

GIB = 2 ** 30
POLL_INTERVAL_S = 0.2
NO_CHAIN = 'the new volume has snapshots: holes in the copy would show the data of its backing files'
NO_COPY = 'it is encrypted, and QEMU would copy its data without encryption'


class Volumes:
    """Features Volumes, ExtendVolume and VolumeCopies.

    :param host: name of this host
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, guests: Guests, connectors: Connectors,
                 connections: VolumeConnections, clients: DiskClients, backups: DiskBackups) -> None:
        self._conf, self._host = conf, host
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._connectors, self._connections, self._clients, self._backups = connectors, connections, clients, backups

    def attached_volumes(self) -> dict[str, dict[str, AttachedVolume]]:
        return {guest.uuid: {volume.volume_id: {'attachment_id': _attachment_of(volume),
                                                'device_name': f'/dev/{volume.target}'} for volume in guest.volumes}
                for guest in self._storage.guests() if guest.volumes}

    def volume_connector(self) -> JsonObject:
        address = self._conf.my_ip
        return {'platform': 'x86_64', 'os_type': 'linux', **self._connectors.facts(address), 'host': self._host,
                'ip': address}

    def attach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            before = [each for each in guest.volumes if each.volume_id != device['volume_id']]
            known = [each for each in guest.volumes if each.volume_id == device['volume_id']]
            wanted: VolumeDevice = {**device, 'boot_index': None,
                      'device_name': known[0].target if known else device.get('device_name')}
            present: list[disk.Disk | disk.Volume] = [*guest.disks, *before]
            volume = self._connections.connect(instance, wanted, guest.hardware.machine,
                                               {each.target for each in present})
            if self._guests.is_active(instance.uuid):
                probe.check([volume])
            volume.iothread = disk.quietest(volume, present)
            self._connections.define_secrets([volume])
            self._connections.define_keys(instance.uuid, [volume])
            guest.volumes = [*before, volume]
            self._storage.save(guest)         # save first, so that the record has the volume after a crash
            try:
                with contextlib.suppress(exception.GuestNotFound), self._opening_volume(instance.uuid, volume):
                    self._hypervisor.guest('attach the volume', instance.uuid, calls.plug,
                                          xml.volume(volume, guest), volume.path)
            except exception.VirtError:
                if not known:
                    guest.volumes = before
                    self._storage.save(guest)
                raise

    def _opening_volume(self, uuid: str, volume: disk.Volume) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that records the Ceph clients of a volume, if the guest runs."""
        return self._clients.plugging(uuid, volume) if self._guests.is_active(uuid) else contextlib.nullcontext()

    def detach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if guest is None:
                return
            found = [each for each in guest.volumes if each.volume_id == device['volume_id']]
            for volume in found:
                with contextlib.suppress(exception.GuestNotFound):
                    self._guests.unplug('detach the volume', guest.uuid, xml.volume(volume, guest), volume.path)
                guest.volumes = [each for each in guest.volumes if each is not volume]
                self._storage.save(guest)
            self._connections.disconnect(found)

    def swap_volume(self, context: RequestContext, instance: Instance, old: VolumeDevice, new: VolumeDevice) -> None:
        uuid, operation = instance.uuid, 'swap the volume'
        with self._guests.operation(uuid):
            guest = self._guests.record(uuid)
            volume = guest.volume(old['volume_id']) or guest.volume(new['volume_id'])
            if volume is None:
                raise exception.VirtError(operation=operation, reason='the guest does not have it')
            if old['volume_id'] == new['volume_id']:     # a repeated call: the swap is complete
                return
            if volume.volume_id == old['volume_id']:
                fresh = self._connections.connect(instance, {**new, 'device_name': volume.target},
                                                  guest.hardware.machine, set())
                fresh.target, fresh.bus, fresh.boot_order = volume.target, volume.bus, volume.boot_order
                if volume.source.get('luks') or fresh.source.get('luks'):
                    raise exception.VirtError(operation=operation, reason=NO_COPY)
                if fresh.source.get('backing_files'):
                    raise exception.VirtError(operation=operation, reason=NO_CHAIN)
                self._give(guest, operation, fresh)
                guest.volumes = [fresh if each is volume else each for each in guest.volumes]
                self._storage.save(guest)
            # a repeated call after a crash continues here, because the record has the new volume
            self._hypervisor.run(operation, calls.define, uuid, self._guests.domain_xml(guest))
            if old.get('connection_info'):
                self._connectors.disconnect(old['connection_info'])

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            volume = guest.volume(volume_id)
            if volume is not None:
                volume.volume_id = stays
                self._storage.save(guest)
                self._hypervisor.run('rename the volume', calls.define, guest.uuid, self._guests.domain_xml(guest))

    def _give(self, guest: xml.Guest, operation: str, fresh: disk.Volume) -> None:
        """Copy the old volume to ``fresh`` and switch the guest, unless the guest already uses ``fresh``.

        After a crash during an earlier call, the guest may use ``fresh``; a new copy would overwrite its later writes.

        :raises VirtError: the guest still uses the old volume
        """
        uuid, text = guest.uuid, xml.volume(fresh, guest)
        if self._hypervisor.guest(operation, uuid, operations.uses, fresh.target, text):
            return
        if not self._guests.is_active(uuid):
            raise exception.VirtError(operation=operation, reason='the guest does not run')
        probe.check([fresh])
        self._connections.define_secrets([fresh])
        with self._clients.plugging(uuid, fresh):
            self._mirror(uuid, operation, fresh, text)

    def _mirror(self, uuid: str, operation: str, fresh: disk.Volume, text: str) -> None:
        deadline = time.monotonic() + self._conf.libvirt.qemu_img_timeout
        self._hypervisor.guest(operation, uuid, operations.begin_swap, fresh.target, text)
        try:
            while (ready := self._hypervisor.guest(operation, uuid, operations.swap_ready, fresh.target)) is None:
                if time.monotonic() > deadline:
                    raise exception.VirtError(operation=operation, reason='the copy takes too long')
                time.sleep(POLL_INTERVAL_S)
            if not ready:
                raise exception.VirtError(operation=operation, reason='the copy failed')
            self._hypervisor.guest(operation, uuid, operations.end_swap, fresh.target)
        except exception.VirtError:
            self._hypervisor.guest(operation, uuid, operations.abort_swap, fresh.target)
            raise

    def extend_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self._guests.operation(instance.uuid), contextlib.suppress(exception.GuestNotFound):
            volume = self._guests.record(instance.uuid).volume(device['volume_id'])
            if volume is not None and volume.source.get('luks'):
                raise exception.VirtError(operation='extend the volume', reason='it is encrypted; the guest sees its '
                                          'new size after a stop and a start')
            if volume is not None and volume.source.get('connection'):
                self._connectors.extend(volume.source['connection'])
            if volume is not None:
                self._hypervisor.guest('extend the volume', instance.uuid, operations.resize, volume.target,
                                      device['volume_size'] * GIB)

    # ---- full copies, if Block Storage cannot create a snapshot of a volume

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, str],
                    begun: Callable[[], None] | None = None) -> None:
        operation = 'copy the volume'
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            volume = guest.volume(volume_id)
            if volume is None:
                raise exception.VirtError(operation=operation, reason='the guest does not have it')
            secret = volume.source.get('luks')
            if bool(secret) != bool(create_info.get('encrypted')):
                raise exception.VirtError(operation=operation, reason=NO_COPY)
            path = create_info['new_file']
            if self._guests.is_active(instance.uuid):
                others = [each.target for each in guest.devices() if each.target != volume.target]
                text = disk.copy_of(volume.target, path, others, secret)
                self._connections.define_keys(instance.uuid, [volume])     # libvirt loses keys when it restarts
                if not self._backups.copy(instance.uuid, text, begun):
                    raise exception.VirtError(operation=operation, reason='the copy failed')
            elif volume.source['type'] == 'file' and not volume.source.get('format'):
                _copy(operation, volume.source['path'], path, 'raw' if secret else 'qcow2',
                      self._conf.libvirt.qemu_img_timeout)
            else:
                raise exception.VirtError(operation=operation, reason='the guest does not run')


def _copy(operation: str, source: str, target: str, form: str, timeout: float) -> None:
    """Copy a volume into an existing file. The owner of the file does not change.

    qemu-img reads plain and encrypted sources as raw data, so that qemu-img never interprets data of the guest.

    :param timeout: seconds
    :raises VirtError: the copy failed or took too long
    """
    try:
        done = subprocess.run(['qemu-img', 'convert', '-n', '-f', 'raw', '-O', form, source, target],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise exception.VirtError(operation=operation, reason=f'it took more than {timeout} seconds') from None
    if done.returncode:
        raise exception.VirtError(operation=operation, reason=qemu_img.reason(done.stderr, done.returncode))


def _attachment_of(volume: disk.Volume) -> str | None:
    """Return the attachment id of a volume, which is the export name of an NBD source, or None for other sources."""
    return volume.source.get('name') if volume.source.get('protocol') == 'nbd' else None
