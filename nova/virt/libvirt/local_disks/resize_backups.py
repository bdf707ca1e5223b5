"""Backups of a resize: disks and record of a guest, kept until the resize is confirmed or reverted."""
from __future__ import annotations

import contextlib
import logging
import os
import shutil
from typing import TYPE_CHECKING

from nova import exception
from nova.disk_files import files
from nova.virt.libvirt.local_disks import records

if TYPE_CHECKING:
    from nova.virt.libvirt import xml
    from nova.virt.libvirt.local_disks.base import Pool
    from nova.virt.libvirt.local_disks.guest_files import GuestFiles

LOG = logging.getLogger(__name__)

KEPT = '_kept'                           # suffix of such a directory


class ResizeBackups:
    """Directories and pool snapshots of resize backups.

    :param stored: the guests
    :param pool, host: as in GuestFiles
    """

    def __init__(self, stored: GuestFiles, pool: Pool | None, host: str | None) -> None:
        self._storage, self._pool, self._host = stored, pool, host

    def path(self, uuid: str) -> str:
        """Return the directory of the backup of a guest."""
        return self._storage.path(uuid) + KEPT

    def load(self, uuid: str) -> xml.Guest | None:
        """Return the record of a backup, or None if there is none. Its paths are those of the guest's own directory."""
        return records.read(self.path(uuid))

    def guests(self) -> dict[str, xml.Guest | None]:
        """Return {uuid: record, or None if it is missing} of this host's backups; unreadable records are omitted."""
        stored, found = self._storage, {}
        for name in sorted(os.listdir(stored.directory)):
            uuid = name.removesuffix(KEPT)
            if not name.endswith(KEPT) or not records.UUID.match(uuid):
                continue
            guest = stored.readable(self.path(uuid), self.load, uuid)
            if self.path(uuid) not in stored.unreadable and (guest is None or stored.is_ours(guest)):
                found[uuid] = guest
        return found

    def uuids(self) -> list[str]:
        """Return the uuids of the guests with a backup on this host."""
        return list(self.guests())

    def forget(self, uuid: str) -> None:
        """Remove the backup of a guest; no error if there is none. A backup of another host is not removed."""
        kept, stored = self.load(uuid), self._storage
        if kept is not None and not stored.is_ours(kept):
            LOG.info('The resize backup of %s belongs to host %s and is not removed.', uuid, kept.ownership.host)
            return
        used = self._used(uuid)
        for disk in kept.disks if kept else ():
            if disk.source:
                stored.of(disk).release(disk) if disk.file in used else stored.of(disk).remove(disk.file)
        if self._pool is not None and kept is not None and not used and any(disk.source for disk in kept.disks):
            self._pool.erase(uuid)       # no other host has the guest
        for disk in records.elsewhere(kept):
            files.remove(disk.file)
        stored.owners.forget(uuid)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def _used(self, uuid: str) -> set[str]:
        """Return the paths of a guest's present disks, on this host or its destination."""
        guest = self._storage.load(uuid)
        if guest is not None:
            return {disk.file for disk in guest.disks}
        note = self._storage.owners.read(uuid)
        return {self._storage.path(uuid, name) for name in note.disks} if note and note.host != self._host else set()

    def restore(self, uuid: str) -> None:
        """Restore the disks that were set aside without a copy; the guest is off.

        :raises VirtError: another host owns the disks
        """
        kept, stored = self.load(uuid), self._storage
        pooled = [disk for disk in kept.disks if disk.source] if kept else []
        if pooled and stored.owners.are_others(uuid, stored.path(uuid)):
            raise exception.VirtError(operation='take the disks back', reason='another host has them still')
        for disk in kept.disks if kept else ():
            stored.of(disk).restore(disk)
        if kept is not None and pooled:  # remove new disks of the destination
            stored.clear_pool(kept)
