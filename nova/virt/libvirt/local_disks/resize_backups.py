"""Backups of a resize: disks and record of a guest, kept until the resize is confirmed or reverted."""
import contextlib
import logging
import shutil

from nova import exception
from nova.disk_files import files
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks.storage import Storage

LOG = logging.getLogger(__name__)


def forget(stored: Storage, uuid: str) -> None:
    """Remove the backup of a guest; no error if there is none. A backup of another host is not removed."""
    kept = stored.load_backup(uuid)
    if kept is not None and not stored.is_ours(kept):
        LOG.info('The resize backup of %s belongs to host %s and is not removed.', uuid, kept.ownership.host)
        return
    used, backends = _used(stored, uuid), stored.backends
    for disk in kept.disks if kept else ():
        if disk.source:
            backends.of(disk).release(disk) if disk.file in used else backends.of(disk).remove(disk.file)
    if backends.pool is not None and kept is not None and not used and any(disk.source for disk in kept.disks):
        backends.pool.erase(uuid)        # no guest uses the disks in the pool
    for disk in records.elsewhere(kept):
        files.remove(disk.file)
    stored.owners.forget(uuid)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(stored.backup_path(uuid))


def _used(stored: Storage, uuid: str) -> set[str]:
    """Return the paths of the disks that a guest has now, on this host or on the destination of the resize."""
    guest = stored.load(uuid)
    if guest is not None:
        return {disk.file for disk in guest.disks}
    note = stored.owners.read(uuid)
    return {stored.path(uuid, name) for name in note.disks} if note and note.host != stored.host else set()


def restore(stored: Storage, uuid: str) -> None:
    """Roll the pool disks of a guest back to the snapshots before the resize; the guest must be off.

    :raises VirtError: another host owns the disks
    """
    kept = stored.load_backup(uuid)
    pooled = [disk for disk in kept.disks if disk.source] if kept else []
    if pooled and stored.owners.are_others(uuid, stored.path(uuid)):
        raise exception.VirtError(operation='take the disks back', reason='another host still owns them')
    for disk in kept.disks if kept else ():
        stored.backends.of(disk).restore(disk)
    if kept is not None and pooled:      # remove new disks of the destination
        stored.backends.clear_pool(kept)
