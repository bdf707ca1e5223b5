"""Snapshots: copies of a guest's root disk, of one that runs while it goes on."""
from __future__ import annotations

from collections.abc import Callable
import contextlib
import logging
import os
import time
import typing
from typing import Any

from nova import exception
from nova import states
from nova.runtime import progress
from nova.virt import driver
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import xml
from nova.virt.libvirt.life import agent
from nova.virt.libvirt.local_disks import encrypted

if typing.TYPE_CHECKING:
    from nova.virt.libvirt.local_disks import base

LOG = logging.getLogger(__name__)

POLL = 0.2                               # seconds between two looks at a copy
REPORT_S = 1                             # between two questions to QEMU how far it is
COPIED = 50                              # hundredths of a snapshot that are done when its copy is, before the upload
OPERATION = 'make a snapshot'


class Snapshots(agent.Agent, driver.Snapshot):
    """A guest that runs is copied as it is at one moment, at which its agent, if it has one, has brought it to rest."""

    def snapshot(self, context: Any, instance: Any, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        guest = self.hands.known(instance.uuid)
        if guest.disks[0].secret:        # before a byte of it is written
            raise exception.VirtError(operation=OPERATION, reason=encrypted.NO_COPY)
        step(states.IMAGE_PENDING_UPLOAD)
        try:
            root = guest.disks[0]
            # of one that is off, what the copy takes is measured before it begins
            sources = [] if root.source or not self.is_active(guest.uuid) else [
                path for path in (root.file, root.backing_file) if path]
            with self.hands.storage.snapshot_path(instance.uuid, sources) as path:
                self._copy_root(instance, guest, path, progress.part(report, 0, COPIED))
                step(states.IMAGE_UPLOADING)
                sent = progress.of_bytes(progress.part(report, COPIED, 100), os.path.getsize(path))
                self.hands.images.upload(context, image_id, path, 'qcow2', moved=sent, give=True)
        except OSError as error:
            raise exception.VirtError(operation=OPERATION, reason=error.strerror) from error

    def _copy_root(self, instance: Any, guest: Any, path: str, copied: progress.Report) -> None:
        """The root disk as it is at this moment, as one qcow2 file."""
        root, *others = guest.disks
        if self.is_active(guest.uuid) and root.source:
            self._copy_in_pool(instance, guest, path, copied)
            return
        if self.is_active(guest.uuid):
            with self.quiet(instance, guest):
                begun = self._begin(guest.uuid, xml.backup(root, [*others, *guest.volumes], path))
            if begun and self._ends_well(guest.uuid, copied):
                self.hands.steps.let_read(path)
                return
            if self.is_active(guest.uuid):
                raise exception.VirtError(operation=OPERATION, reason='the copy of the disk failed')
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)          # the guest went off meanwhile: its disk rests now
        # what lies in a pool comes into a file that is not this one at first: nothing is known of that
        sources = [each for each in (root.file, root.backing_file) if each and not root.source]
        with progress.watched(path, sources, copied):
            self.hands.storage.of(root).copy(root, path)

    def _copy_in_pool(self, instance: Any, guest: Any, path: str, copied: progress.Report) -> None:
        """The same of a disk in a pool, by the pool's own snapshot. QEMU 7.2 cannot see the holes of a clone: its copy
        has the zeros of the whole disk.
        """
        root = guest.disks[0]
        place = typing.cast('base.Pool', self.hands.storage.of(root))
        with self.quiet(instance, guest):
            place.keep_moment(root)
        try:
            with progress.watched(path, [], copied):
                place.copy_moment(root, path)
        finally:
            place.forget_moment(root)

    def is_active(self, uuid: str) -> bool:
        try:
            return self.hands.hypervisor.power_state(uuid) in (states.RUNNING, states.POWER_PAUSED)
        except exception.GuestNotFound:
            return False

    def copy_running(self, uuid: str, text: str, begin: Callable[..., None],
                     begun: Callable[[], None] | None = None) -> bool:
        """True when QEMU has copied a disk while the guest went on.

        :param text: XML of the copy
        :param begin: of operations on a domain, which begins it
        :param begun: called when it has begun: the copy is of that moment
        """
        if not self._begin(uuid, text, begin):
            return False
        if begun is not None:
            begun()
        return self._ends_well(uuid)

    def _begin(self, uuid: str, text: str, begin: Callable[..., None] = guests.begin_backup) -> bool:
        """Whether QEMU copies the disk, as it is now, while the guest goes on."""
        try:
            self.hands.hypervisor.guest(OPERATION, uuid, begin, text)
        except exception.VirtError as error:
            LOG.warning('Copying the disk of %s did not begin: %s', uuid, error)
            return False
        return True

    def _ends_well(self, uuid: str, copied: progress.Report = progress.ignore) -> bool:
        hypervisor, deadline = self.hands.hypervisor, time.monotonic() + self.hands.copy_seconds
        report_at = time.monotonic() + REPORT_S
        try:
            while time.monotonic() < deadline:
                done = hypervisor.guest(OPERATION, uuid, guests.backup_done)
                if done is not None:
                    return bool(done)
                self.hands.storage.check_room()
                if time.monotonic() > report_at:
                    percent = hypervisor.guest(OPERATION, uuid, guests.backup_percent)
                    if percent is not None:
                        copied(percent)
                    report_at = time.monotonic() + REPORT_S
                time.sleep(POLL)
            hypervisor.guest(OPERATION, uuid, guests.abort_job)
        except exception.VirtError as error:
            LOG.warning('Copying the disk of %s failed: %s', uuid, error)
        except exception.NovaException:  # no room, or the server is not in this task's hands any more
            hypervisor.guest(OPERATION, uuid, guests.abort_job)
            raise
        return False
