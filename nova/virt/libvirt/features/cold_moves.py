"""Cold migration between hosts: the destination fetches the files of the guest's backup from the source.

The source only describes the files. So no task of the source waits for the destination, and either nova-compute can
restart. A repeated destination step resumes the copies that moves/transfer_progress.py recorded, or starts with an
empty directory.
"""
import logging
import os
import typing
from typing import Any

from oslo_config import cfg

from nova import exception
from nova.context import RequestContext
from nova.hardware import guest_options
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import transferred_record
from nova.virt.libvirt.moves import transfer_progress
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import tpm_state
from nova.virt.libvirt.platform import Platform

LOG = logging.getLogger(__name__)

BASE_IMAGE = 'disk.base'                 # image below the root disk, if this host has no other access to it


class SentGuest(typing.TypedDict, total=False):
    """A guest that a host sends to another: its record, and the place of its files."""

    guest: dict[str, Any]
    source: driver.GuestLocation


class ColdMoves:
    """The part of a resize that moves a guest between hosts; used by Resize.

    :param host: name of this host
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, guests: Guests, platform: Platform,
                 addresses: disk_transfer.LibvirtAddresses) -> None:
        self._conf, self._host, self._platform, self._addresses = conf, host, platform, addresses
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def sent(self, uuid: str) -> SentGuest:
        """Return the data that the destination needs of a guest set aside here."""
        guest, kept = self._storage.load_backup(uuid), self._storage.backup_path(uuid)
        if guest is None:
            raise exception.GuestNotFound(instance_id=uuid)
        guest.ownership.source_directory = None          # a reverted guest has not arrived from another host
        records.write(kept, guest)
        return {'guest': transferred_record.packed(guest, kept),
                'source': {'address': self._addresses.own, 'directory': kept}}

    def has_come(self, uuid: str) -> bool:
        """Return whether the guest arrived by a cold migration and has not been set aside since."""
        guest = self._storage.load(uuid)
        return guest is not None and guest.ownership.source_directory is not None

    def is_arriving(self, uuid: str) -> bool:
        """Return whether an incomplete cold migration left copies of the guest's files but no guest."""
        return self._storage.load(uuid) is None and transfer_progress.is_there(self._storage.path(uuid))

    def finish_arrival(self, context: RequestContext, instance: Instance, sent: SentGuest,
                       request: driver.SpawnRequest, power_on: bool) -> None:
        """Run ``finish_migration`` for a guest of another host that shares no disks with this one."""
        uuid = instance.uuid
        if 'guest' not in sent:
            raise exception.GuestNotFound(instance_id=uuid)
        moved = transferred_record.unpacked(sent['guest'], uuid, self._storage, self._platform.virt_type,
                                            request.network_info)
        pooled = any(disk.source for disk in moved.disks)
        if pooled and self._storage.owners.read(uuid) is None:
            raise exception.VirtError(operation='move the guest', reason=shared_storage.RECORD_NEEDED)
        with self._guests.operation(uuid):
            try:
                copies = self._interrupted_transfer(instance, sent['source'], pooled)
                self._storage.backends.clear_pool(moved)
                disks, boot_files = self._fetch(context, instance, moved, sent['source'],
                                                new_disks.volume_letters(request.block_devices), copies)
                made = self._guests.describe(instance, request, disks, boot_files)
                made.ownership.source_directory = sent['source']['directory']
                self._storage.save(made)
                if copies is not None:
                    copies.end()              # copies of a recorded guest are not resumed
                self.bring_tpm(made, sent)
                (self._guests.start if power_on else self._guests.define)(made)
                if pooled:
                    owners.mark_in_migration(self._storage.path(uuid), False)
                    self._storage.save(made)
            except Exception as error:
                self._guests.undo(uuid)
                if isinstance(error, OSError):
                    raise exception.VirtError(operation='move the guest', reason=error.strerror) from error
                raise

    def _interrupted_transfer(self, instance: Instance, source: driver.GuestLocation,
                              pooled: bool) -> transfer_progress.IncomingTransfer | None:
        """Return the copies of an interrupted attempt. Unusable copies are removed for a new attempt in an empty
        directory.

        :param pooled: the disks are in the pool; they are created again instead of resumed
        """
        uuid, directory = instance.uuid, self._storage.path(instance.uuid)
        # copies for another flavor are not resumed: a disk that has grown cannot shrink
        move: transfer_progress.Move = {'source': source, 'sizes': new_disks.flavor_sizes(instance)}
        if self.is_arriving(uuid) and not pooled:
            found = transfer_progress.IncomingTransfer.interrupted(directory, move, self._host)
            if found is not None:
                LOG.info('Resuming the copies of the disks of %s; %d bytes are here.', uuid, found.bytes_here())
                return found
        self._guests.remove(uuid)
        self._storage.make_directory(uuid)
        if pooled:
            return None
        begun = transfer_progress.IncomingTransfer(directory, move, self._host)
        begun.begin()
        return begun

    def bring_tpm(self, guest: xml.Guest, sent: SentGuest) -> None:
        """Give the TPM of a guest that is recorded here its state from another host.

        :param sent: result of ``sent`` on that host; empty if the guest stays on this host
        """
        kind = tpm_state.version(guest.hardware.settings)
        if not sent or kind is None or tpm_state.version(sent['guest']['settings']) != kind:
            return
        source = sent['source']
        if source['address'] == self._addresses.own:
            return
        path = tpm_state.fetch(self._addresses.uri_of(source['address']), guest.uuid, kind,
                               self._storage.path(guest.uuid), self._conf.libvirt.qemu_img_timeout)
        # swtpm creates its files when a guest starts; the guest starts paused, so it runs no instruction
        self._guests.start_paused(guest)
        self._hypervisor.guest('take in the TPM', guest.uuid, calls.stop)
        self._hypervisor.run('take in the TPM', tpm_state.put, guest.uuid, kind, tpm_state.read(path))
        os.unlink(path)

    def _fetch(self, context: RequestContext, instance: Instance, moved: xml.Guest, source: driver.GuestLocation,
               taken: set[str],
               copies: transfer_progress.IncomingTransfer | None) -> tuple[list[xml.Disk], dict[str, str]]:
        """Move the guest's files into its directory, grow its disks to the flavor, and return (disks, boot files).

        :param taken: letters of the names of its volumes
        :param copies: copies of an earlier attempt
        """
        uuid, timeout = instance.uuid, self._conf.libvirt.qemu_img_timeout
        address, there = transferred_record.place(source, uuid)
        directory, sizes = self._storage.path(uuid), new_disks.flavor_sizes(instance)
        disks = [disk for disk in moved.disks if sizes['disk.swap'] or os.path.basename(disk.file) != 'disk.swap']
        boot_files = {part: path for part in transferred_record.BOOT_FILES if (path := getattr(moved.boot, part))}
        variables = [spec.NVRAM] if moved.hardware.settings.get('firmware_type') == 'uefi' else []
        if any(disk.source for disk in disks):
            owners.mark_in_migration(directory, True)
        names = [os.path.basename(disk.file) for disk in disks if not disk.source]
        disk_transfer.fetch(self._addresses.uri_of(address), there, [*names, *boot_files, *variables], directory,
                            timeout, copies, self._storage.reserve)
        for disk in disks:
            if disk.source:
                self._storage.backends.of(disk).renew(disk, disk.file)
            else:
                transferred_record.check_disk(disk)
            if disk.backing_file:
                self._put_image_below(context, uuid, disk, source)
            self._storage.backends.of(disk).grow(disk, sizes.get(os.path.basename(disk.file), 0))
        return disks + new_disks.blanks(
            self._storage, uuid, {name: size for name, size in sizes.items() if name != 'disk'}, disks, taken=taken,
            encrypted=guest_options.encrypts(instance)), boot_files

    def _put_image_below(self, context: RequestContext, uuid: str, disk: xml.Disk,
                         source: driver.GuestLocation) -> None:
        """Rebase a received disk on this host's copy of its image, or on a copy fetched with it."""
        if not self._storage.cache.has(context, disk.backing_file or ''):
            name = os.path.basename(disk.backing_file or '')
            address, there = transferred_record.place(source, uuid)
            images = os.path.join(os.path.dirname(there), storage.BASE)
            # an image copied by an earlier migration lies next to the disk
            disk_transfer.fetch(self._addresses.uri_of(address), there if name == BASE_IMAGE else images, [name],
                                self._storage.path(uuid), self._conf.libvirt.qemu_img_timeout,
                                reserve=self._storage.reserve)
            transferred_record.check_image(self._storage.path(uuid, name), disk.backing_format)
            disk.backing_file = self._storage.path(uuid, BASE_IMAGE)
            os.rename(self._storage.path(uuid, name), disk.backing_file)
            image_cache.protect(disk.backing_file)        # QEMU reads the unchanged file, and no process writes it
        self._storage.backends.of(disk).rebase(disk)
