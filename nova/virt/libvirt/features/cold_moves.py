"""Cold migration: the source renames the guest's directory to a backup, and the destination copies its files.

The nova-compute of the source only describes the files, so it does not wait for the destination, and both services can
restart. If the destination repeats finish_migration, it resumes the copies that moves/transfer_progress.py recorded, or
starts with an empty directory.
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

BASE_IMAGE = 'disk.base'                 # copy of the root disk's backing image, used if this host's cache lacks it


class SentGuest(typing.TypedDict, total=False):
    """Data with which the source describes a guest to the destination: record, and location of the files."""

    guest: dict[str, Any]
    source: driver.GuestLocation


class ColdMoves:
    """Transfer of guests between hosts, used by Resize.

    :param host: name of this host
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, guests: Guests, platform: Platform,
                 addresses: disk_transfer.LibvirtAddresses) -> None:
        self._conf, self._host, self._platform, self._addresses = conf, host, platform, addresses
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor

    def sent(self, uuid: str) -> SentGuest:
        """At the source: return the description of a guest that send_guest has stored as a backup."""
        guest, kept = self._storage.load_backup(uuid), self._storage.backup_path(uuid)
        if guest is None:
            raise exception.GuestNotFound(instance_id=uuid)
        guest.ownership.source_directory = None          # otherwise has_come() would return True after a revert
        records.write(kept, guest)
        return {'guest': transferred_record.packed(guest, kept),
                'source': {'address': self._addresses.own, 'directory': kept}}

    def has_come(self, uuid: str) -> bool:
        """Return whether the present guest came to this host by a cold migration."""
        guest = self._storage.load(uuid)
        return guest is not None and guest.ownership.source_directory is not None

    def is_arriving(self, uuid: str) -> bool:
        """Return whether an incomplete cold migration has copied files, but has not created the guest."""
        return self._storage.load(uuid) is None and transfer_progress.is_there(self._storage.path(uuid))

    def finish_arrival(self, context: RequestContext, instance: Instance, sent: SentGuest,
                       request: driver.SpawnRequest, power_on: bool) -> None:
        """At the destination: run ``finish_migration`` for a guest with files that must be copied from the source."""
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
                    copies.end()              # the record exists, so the copies are complete
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
        """Return the copies of an interrupted attempt. If they are unusable, remove them and begin new copies.

        :param pooled: whether the disks are in the pool; such disks are not resumed but created again
        """
        uuid, directory = instance.uuid, self._storage.path(instance.uuid)
        # do not resume copies for another flavor, because disks that were enlarged cannot shrink
        move: transfer_progress.Move = {'source': source, 'sizes': new_disks.flavor_sizes(instance)}
        if self.is_arriving(uuid) and not pooled:
            found = transfer_progress.IncomingTransfer.interrupted(directory, move, self._host)
            if found is not None:
                LOG.info('Resuming the copies of the disks of %s; %d bytes are already copied.',
                         uuid, found.bytes_here())
                return found
        self._guests.remove(uuid)
        self._storage.make_directory(uuid)
        if pooled:
            return None
        begun = transfer_progress.IncomingTransfer(directory, move, self._host)
        begun.begin()
        return begun

    def bring_tpm(self, guest: xml.Guest, sent: SentGuest) -> None:
        """Copy the TPM state of a guest from the source to this host. The record of the guest must exist.

        :param sent: result of ``sent`` on the source; empty if the guest stays on this host
        """
        kind = tpm_state.version(guest.hardware.settings)
        if not sent or kind is None or tpm_state.version(sent['guest']['settings']) != kind:
            return
        source = sent['source']
        if source['address'] == self._addresses.own:
            return
        path = tpm_state.fetch(self._addresses.uri_of(source['address']), guest.uuid, kind,
                               self._storage.path(guest.uuid), self._conf.libvirt.qemu_img_timeout)
        # start the guest, because swtpm then creates its files; the guest is paused before its first instruction
        self._guests.start_paused(guest)
        self._hypervisor.guest('take in the TPM', guest.uuid, calls.stop)
        self._hypervisor.run('take in the TPM', tpm_state.put, guest.uuid, kind, tpm_state.read(path))
        os.unlink(path)

    def _fetch(self, context: RequestContext, instance: Instance, moved: xml.Guest, source: driver.GuestLocation,
               taken: set[str],
               copies: transfer_progress.IncomingTransfer | None) -> tuple[list[xml.Disk], dict[str, str]]:
        """Copy the guest's files to this host, and enlarge its disks to the flavor. Return (disks, boot files).

        :param taken: last letters of the device names of the guest's volumes
        :param copies: files that were copied already
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
        """Rebase a copied disk on the image in the cache of this host, or on a copy of the source's image."""
        if not self._storage.cache.has(context, disk.backing_file or ''):
            name = os.path.basename(disk.backing_file or '')
            address, there = transferred_record.place(source, uuid)
            images = os.path.join(os.path.dirname(there), storage.BASE)
            # an image that an earlier migration copied is in the guest's directory on the source, not in the cache
            disk_transfer.fetch(self._addresses.uri_of(address), there if name == BASE_IMAGE else images, [name],
                                self._storage.path(uuid), self._conf.libvirt.qemu_img_timeout,
                                reserve=self._storage.reserve)
            transferred_record.check_image(self._storage.path(uuid, name), disk.backing_format)
            disk.backing_file = self._storage.path(uuid, BASE_IMAGE)
            os.rename(self._storage.path(uuid, name), disk.backing_file)
            image_cache.protect(disk.backing_file)        # so that QEMU can read but not write the file
        self._storage.backends.of(disk).rebase(disk)
