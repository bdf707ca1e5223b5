"""Snapshots: copies of the root disk of a running or stopped guest."""
import os
import typing
from collections.abc import Callable

from nova import exception
from nova import states
from nova.context import RequestContext
from nova.disk_files import files
from nova.objects.instance import Instance
from nova.runtime import progress
from nova.virt.driver import ImageSource
from nova.virt.libvirt import xml
from nova.virt.libvirt.disk_backups import DiskBackups
from nova.virt.libvirt.disk_backups import OPERATION
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.features.agent import Agent
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.local_disks import base
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.privileged.remote import HostSteps

COPIED = 50                              # progress in percent after the copy of the disk and before the upload


class Snapshots:
    """Feature Snapshot. The copy has the content of one point in time; a guest with an agent is quiesced."""

    def __init__(self, guests: Guests, steps: HostSteps, images: ImageSource, agent: Agent,
                 backups: DiskBackups) -> None:
        self._guests, self._storage, self._steps, self._images = guests, guests.storage, steps, images
        self._agent, self._backups = agent, backups

    def snapshot(self, context: RequestContext, instance: Instance, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        guest = self._guests.record(instance.uuid)
        if guest.disks[0].secret:
            raise exception.VirtError(operation=OPERATION, reason=local_files.NO_COPY)
        step(states.IMAGE_PENDING_UPLOAD)
        try:
            root = guest.disks[0]
            # reserve space for the copy of a running guest; the copy of a stopped guest reserves space later
            sources = [] if root.source or not self._guests.is_active(guest.uuid) else [
                path for path in (root.file, root.backing_file) if path]
            with self._storage.snapshot_path(instance.uuid, sources) as path:
                self._copy_root(instance, guest, path, progress.part(report, 0, COPIED))
                step(states.IMAGE_UPLOADING)
                sent = progress.of_bytes(progress.part(report, COPIED, 100), os.path.getsize(path))
                self._images.upload(context, image_id, path, 'qcow2', moved=sent, give=True)
        except OSError as error:
            raise exception.VirtError(operation=OPERATION, reason=error.strerror) from error

    def _copy_root(self, instance: Instance, guest: xml.Guest, path: str, copied: progress.Report) -> None:
        """Copy the root disk into one qcow2 file."""
        root = guest.disks[0]
        if self._guests.is_active(guest.uuid) and root.source:
            self._copy_in_pool(instance, guest, path, copied)
            return
        if self._guests.is_active(guest.uuid):
            with self._agent.quiet(instance, guest):
                others = [device.target for device in guest.devices()[1:]]
                begun = self._backups.begin(guest.uuid, volume_disks.copy_of(root.target, path, others))
            if begun and self._backups.wait(guest.uuid, copied):
                self._steps.let_read(path)
                return
            if self._guests.is_active(guest.uuid):
                raise exception.VirtError(operation=OPERATION, reason='the copy of the disk failed')
            files.remove(path)           # the guest stopped during the copy: copy the disk of the stopped guest
        # the progress of a copy from a pool is unknown, because the disk is first copied to another file
        sources = [each for each in (root.file, root.backing_file) if each and not root.source]
        with progress.watched(path, sources, copied):
            self._storage.backends.of(root).copy(root, path)

    def _copy_in_pool(self, instance: Instance, guest: xml.Guest, path: str, copied: progress.Report) -> None:
        """Copy a disk in a pool by a snapshot of the pool, not by QEMU.

        QEMU 7.2 does not detect the holes of a clone, so its copy would be as large as the virtual disk.
        """
        root = guest.disks[0]
        place = typing.cast('base.SharedPlace', self._storage.backends.of(root))
        with self._agent.quiet(instance, guest):
            place.keep_moment(root)
        try:
            with progress.watched(path, [], copied):
                place.copy_moment(root, path)
        finally:
            place.forget_moment(root)
