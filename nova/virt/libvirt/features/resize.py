"""Resize of guests on one host, with a backup until the resize is confirmed or reverted.

    <instances>/<uuid>_kept/            backup: disks and record of the guest before the resize

The resized guest gets copies of the disks. A revert restores the unchanged old disks.
"""
import os
import shutil
import typing

from nova import exception
from nova.context import RequestContext
from nova.hardware import guest_options
from nova.json_types import JsonObject
from nova.objects.block_device import BlockDevice
from nova.objects.flavor import Flavor
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.features.cold_moves import BASE_IMAGE
from nova.virt.libvirt.features.cold_moves import ColdMoves
from nova.virt.libvirt.features.cold_moves import SentGuest
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import resize_backups
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.privileged.remote import HostSteps
from nova.virt.libvirt.volumes.connections import VolumeConnections


class Resize:
    """Feature Resize on this host, and with ColdMoves between hosts.

    :param host: name of this host
    """

    def __init__(self, host: str, guests: Guests, steps: HostSteps, connections: VolumeConnections,
                 cold_moves: ColdMoves) -> None:
        self._host, self._guests, self._storage, self._steps = host, guests, guests.storage, steps
        self._connections, self._cold_moves = connections, cold_moves

    def accept_guest(self, context: RequestContext, instance: Instance, flavor: Flavor) -> None:
        """Check that the disks permit the resize; the resource claim has already checked that the flavor fits.

        :raises VirtError: the guest's disks are in the pool but its record is on another host, or disk space is low
        """
        stored = self._storage
        stored.check_reach(instance.uuid)
        if stored.load(instance.uuid) is None:               # the guest is on another host or in a backup
            stored.check_free()

    def send_guest(self, context: RequestContext, instance: Instance, dest_host: str | None,
                   network_info: driver.NetworkInfo, timeout: int) -> JsonObject:
        uuid, stored = instance.uuid, self._storage
        kept = stored.backup_path(uuid)
        if dest_host != self._host and records.elsewhere(stored.load(uuid)):
            raise exception.VirtError(operation='move the guest', reason=shared_storage.ELSEWHERE)
        with self._guests.operation(uuid):
            guest = stored.load(uuid)
            if guest is not None:        # create the backup, which replaces an older backup
                self._guests.power_off(uuid, timeout)
                self._guests.remove(uuid, keep_disks=True)
                self._connections.disconnect(uuid, guest.volumes)     # finish_migration connects the volumes again
                shutil.rmtree(kept, ignore_errors=True)
                stored.backends.release(guest)           # remove snapshots of earlier attempts
                variables = stored.path(uuid, spec.NVRAM)
                if os.path.exists(variables):
                    self._steps.let_read(variables)
                os.rename(stored.path(uuid), kept)
            if not os.path.isdir(kept):
                raise exception.GuestNotFound(instance_id=uuid)
        # an adopted guest with disks outside of its directory stays on this host, which finds their paths in the backup
        elsewhere = records.elsewhere(stored.load_backup(uuid))
        return {} if elsewhere else typing.cast(JsonObject, self._cold_moves.sent(uuid))

    def finish_migration(self, context: RequestContext, instance: Instance, guest: JsonObject,
                         request: driver.SpawnRequest, power_on: bool) -> None:
        uuid, stored, sent = instance.uuid, self._storage, typing.cast(SentGuest, guest)
        old = stored.load_backup(uuid)
        if old is None:
            return self._cold_moves.finish_arrival(context, instance, sent, request, power_on)
        with self._guests.operation(uuid):
            self._guests.remove(uuid)
            try:
                disks, boot_files = _copies(stored, instance, old)
                made = self._guests.describe(instance, request, disks, boot_files, old.volumes)
                stored.save(made)
                self._cold_moves.bring_tpm(made, sent)
                self._bring_up(made, power_on)
            except Exception as error:
                self._guests.undo(uuid)
                if isinstance(error, OSError):
                    raise exception.VirtError(operation='resize the guest', reason=error.strerror) from error
                raise

    def drop_migrated(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            if self._cold_moves.has_come(instance.uuid):
                self._storage.owners.give_back(instance.uuid)
            # if there is no backup and no guest from another host, the revert was already done: keep the guest
            if (self._storage.load_backup(instance.uuid) is not None or self._cold_moves.has_come(instance.uuid)
                    or self._cold_moves.is_arriving(instance.uuid)):
                self._guests.remove(instance.uuid)
                self._connections.disconnect(instance.uuid, guest.volumes if guest is not None else ())

    def finish_revert_migration(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
                                block_devices: list[BlockDevice], power_on: bool) -> None:
        uuid, stored = instance.uuid, self._storage
        kept = stored.backup_path(uuid)
        with self._guests.operation(uuid):
            if os.path.isdir(kept):
                self._guests.remove(uuid)
                resize_backups.restore(stored, uuid)
                os.rename(kept, stored.path(uuid))
            guest = self._guests.refresh(uuid, network_info)
            # the address of a volume may change when the volume is connected again
            guest.volumes = self._connections.connect_all(instance, block_devices, guest.hardware.machine, guest.disks,
                                                          guest.volumes)
            stored.backends.release(guest)        # after the rename: until then, a repeated call needs the snapshots
            stored.save(guest)
            self._bring_up(guest, power_on)

    def confirm_migration(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        resize_backups.forget(self._storage, instance.uuid)
        guest = self._storage.load(instance.uuid)
        if guest is None or guest.ownership.host not in (None, self._host):
            self._guests.remove(instance.uuid)             # the guest is on another host; remove its TPM state here

    def resize_backups(self) -> list[str]:
        return list(self._storage.backups())

    def _bring_up(self, guest: xml.Guest, power_on: bool) -> None:
        (self._guests.start if power_on else self._guests.define)(guest)


def _copies(stored: storage.Storage, instance: Instance, old: xml.Guest) -> tuple[list[xml.Disk], dict[str, str]]:
    """Copy files from the backup to a new directory, and enlarge disks to the flavor. Return (disks, boot files)."""
    uuid, source = instance.uuid, stored.backup_path(instance.uuid)
    stored.make_directory(uuid)
    below = stored.path(uuid, BASE_IMAGE)
    if any(disk.backing_file == below for disk in old.disks):
        local_files.copy(os.path.join(source, BASE_IMAGE), below)
        image_cache.protect(below)
    sizes = new_disks.flavor_sizes(instance)
    boot_files: dict[str, str] = {}
    disks: list[xml.Disk] = []
    for disk in old.disks:
        name = os.path.basename(disk.file)
        if name == 'disk.swap' and not sizes[name]:
            continue
        taken_from = os.path.join(source, name)
        if disk.file in old.adopted:             # copy the disk from its directory into the guest's directory
            name = f'disk.own{len(disks)}' if disks else 'disk'
            taken_from, disk.file = disk.file, stored.path(uuid, name)
        stored.backends.of(disk).renew(disk, taken_from)
        stored.backends.of(disk).grow(disk, sizes.get(name, 0))
        disks.append(disk)
    blanks = {name: size for name, size in sizes.items() if name != 'disk'}
    disks += new_disks.blanks(stored, uuid, blanks, disks, old.volumes, encrypted=guest_options.encrypts(instance))
    if old.boot.nvram and os.path.exists(os.path.join(source, spec.NVRAM)):
        local_files.copy(os.path.join(source, spec.NVRAM), old.boot.nvram)
    for part in ('kernel', 'ramdisk'):
        if path := getattr(old.boot, part):
            local_files.copy(os.path.join(source, part), path)
            boot_files[part] = path
    return disks, boot_files
