"""Guests with disks in a pool, on hosts that share the pool but no directory.

The guest's entry in local_disks/owners.py is sufficient for an evacuation.
"""
from __future__ import annotations

import os

from nova import exception
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import guest_files
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import transferred_record
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import tpm_state


def take(stored: storage.Storage, uuid: str, source: str, virt_type: str) -> None:
    """Record a guest of the failed host ``source`` here from the pool, as if both hosts shared the directory.

    Does nothing if there is a record, or if the pool has no guest of that host.

    :raises VirtError: required data is only on that host
    """
    note = stored.owners.read(uuid) if stored.load(uuid) is None else None
    if note is None or note.host != source:
        return
    known = transferred_record.known(note.guest)    # the host may run a newer release
    guest = transferred_record.unpacked({**known, 'owner': '', 'console_log': ''}, uuid, stored, virt_type, [])
    if guest.boot.kernel or guest.boot.ramdisk:
        raise _refusal('its kernel is a file of the host that is down')
    if tpm_state.version(guest.hardware.settings) is not None:
        raise _refusal('the state of its TPM is on the host that is down')
    if any(disk.source is None for disk in guest.disks):
        raise _refusal(shared_storage.MIXED)
    stored.clear_pool(guest)             # left by a rescue
    guest.ownership.host = source
    os.makedirs(stored.path(uuid), exist_ok=True)
    os.chmod(stored.path(uuid), guest_files.DIRECTORY_MODE)
    stored.record(guest)


def check_leaving(stored: storage.Storage, guest: xml.Guest, seen: str | None) -> bool:
    """Return whether all disks of a guest are in a pool that both hosts use; False if they are files.

    :param seen: ``digest`` of the other host
    :raises MigrationPreCheckError: the guest can migrate neither with nor without its disks
    """
    pooled = [bool(disk.source) for disk in guest.disks]
    if not any(pooled):
        return False
    if not all(pooled):
        raise exception.MigrationPreCheckError(reason=shared_storage.MIXED)
    if seen is None or seen != digest(stored, guest.uuid):
        raise exception.MigrationPreCheckError(reason=shared_storage.RECORD_NEEDED)
    return True


def digest(stored: storage.Storage, uuid: str) -> str | None:
    """Return a value that is equal on two hosts only in the same pool; None if the pool has no such guest."""
    note = stored.owners.read(uuid)
    return None if note is None else note.digest


def mark_in_migration(stored: storage.Storage, uuid: str, marked: bool) -> None:
    owners.mark_in_migration(stored.path(uuid), marked)


def _refusal(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='take the guest over', reason=reason)
