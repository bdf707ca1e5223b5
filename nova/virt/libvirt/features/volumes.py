"""Attach, detach, swap, extend and copy volumes of running and stopped guests."""
import contextlib
import dataclasses
import os
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
            volume.iothread = disk.quietest(volume, present)
            guest.volumes = [*before, volume]
            self._storage.save(guest)         # save first, so that the record has the volume after a crash
            try:
                if self._guests.is_active(instance.uuid):
                    probe.check([volume])
                self._connections.define_secrets([volume])
                self._connections.define_keys(instance.uuid, [volume])
                with contextlib.suppress(exception.GuestNotFound), self._opening_volume(instance.uuid, volume):
                    self._hypervisor.guest('attach the volume', instance.uuid, calls.plug,
                                          xml.volume(volume, guest), volume.path)
            except exception.NovaException:
                if not known:        # if the guest may have the disk, the record keeps it for a later detach_volume
                    with contextlib.suppress(exception.NovaException):
                        self.detach_volume(context, instance, device)
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
            guest.volumes = [each for each in guest.volumes if each not in found]
            if found:        # if it remains connected, the record keeps it for a repeated call
                self._connections.disconnect(guest.uuid, found, lambda: self._storage.save(guest))

    def swap_volume(self, context: RequestContext, instance: Instance, old: VolumeDevice, new: VolumeDevice) -> None:
        uuid, operation = instance.uuid, 'swap the volume'
        with self._guests.operation(uuid):
            guest = self._guests.record(uuid)
            volume = guest.volume(old['volume_id']) or guest.volume(new['volume_id'])
            if volume is None:
                raise exception.VirtError(operation=operation, reason='the guest does not have it')
            if old['volume_id'] == new['volume_id']:     # a repeated call: the swap is complete
                return
            left = volume
            if volume.volume_id == old['volume_id']:
                fresh = self._connections.connect(instance, {**new, 'device_name': volume.target},
                                                  guest.hardware.machine, set())
                fresh.target, fresh.bus, fresh.boot_order = volume.target, volume.bus, volume.boot_order
                try:
                    if volume.source.get('luks') or fresh.source.get('luks'):
                        raise exception.VirtError(operation=operation, reason=NO_COPY)
                    if fresh.source.get('backing_files'):
                        raise exception.VirtError(operation=operation, reason=NO_CHAIN)
                    self._give(guest, operation, fresh)
                except exception.NovaException:
                    if not self._may_use(guest, operation, fresh):
                        self._connections.take_back(uuid, [fresh])
                    raise
                guest.volumes = [fresh if each is volume else each for each in guest.volumes]
                self._storage.save(guest)
            else:                                # a repeated call after a crash: the record has the new volume
                left = dataclasses.replace(volume, volume_id=old['volume_id'], source={
                    'type': 'block', 'connection': old['connection_info']})
            self._hypervisor.run(operation, calls.define, uuid, self._guests.domain_xml(guest))
            self._connections.take_back(uuid, [left])        # the guest has the new volume, also after an error

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            volume = guest.volume(volume_id)
            if volume is not None:
                volume.volume_id = stays
                self._storage.save(guest)
                self._hypervisor.run('rename the volume', calls.define, guest.uuid, self._guests.domain_xml(guest))

    def _may_use(self, guest: xml.Guest, operation: str, fresh: disk.Volume) -> bool:
        """Return whether the guest uses a volume at its target, or libvirt does not tell."""
        try:
            return self._hypervisor.guest(operation, guest.uuid, operations.uses, fresh.target,
                                          xml.volume(fresh, guest))
        except exception.VirtError as error:
            return not isinstance(error, exception.GuestNotFound)

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
            guest = self._guests.record(instance.uuid)
            volume = guest.volume(device['volume_id'])
            if volume is None:
                return
            if volume.source.get('luks'):
                raise exception.VirtError(operation='extend the volume', reason='it is encrypted; the guest sees its '
                                          'new size after a stop and a start')
            if volume.source.get('connection'):
                self._connectors.extend(volume.source['connection'])
            size = device['volume_size'] * GIB
            if self._is_open(guest, volume):
                self._hypervisor.guest('extend the volume', instance.uuid, operations.resize, volume.target, size)
            elif _is_raw_file(volume):           # Block Storage leaves it to QEMU, or to this host if no QEMU has it
                _extend(volume.source['path'], size)

    def _is_open(self, guest: xml.Guest, volume: disk.Volume) -> bool:
        """Return whether QEMU has the volume open. In a classic rescue, its target is the name of another disk."""
        return self._guests.is_active(guest.uuid) and volume in guest.booted().volumes

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
            if self._is_open(guest, volume):
                others = [each.target for each in guest.devices() if each.target != volume.target]
                text = disk.copy_of(volume.target, path, others, secret)
                self._connections.define_keys(instance.uuid, [volume])     # libvirt loses keys when it restarts
                if not self._backups.copy(instance.uuid, text, begun):
                    raise exception.VirtError(operation=operation, reason='the copy failed')
            elif _is_raw_file(volume):
                _copy(operation, volume.source['path'], path, 'raw' if secret else 'qcow2',
                      self._conf.libvirt.qemu_img_timeout)
            else:
                raise exception.VirtError(operation=operation, reason='no running guest has it')


def _is_raw_file(volume: disk.Volume) -> bool:
    return volume.source['type'] == 'file' and not volume.source.get('format')


def _extend(path: str, size: int) -> None:
    """Extend a smaller file to ``size`` bytes.

    :raises VirtError: the file is missing, or belongs to another user
    """
    try:
        if os.path.getsize(path) < size:
            os.truncate(path, size)
    except OSError as error:
        raise exception.VirtError(operation='extend the volume', reason=error.strerror) from error


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
