"""Orphaned guest directories, unknown to the hypervisor. The caller compares them with the servers."""
from __future__ import annotations

import collections.abc
import os

from nova import exception
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import transfer_progress


def find(stored: storage.Storage, host: str, known: collections.abc.Container[str]) -> dict[str, bool]:
    """Return {uuid: whether ``host`` owns the directory according to the record of the guest or of its transfer}.

    Directories of another host, or kept for one, are omitted. A directory without a record may be a new one of another
    host that shares the parent directory.
    :param known: guests of the hypervisor
    """
    found = {}
    for uuid in sorted(os.listdir(stored.directory)):
        if not records.UUID.match(uuid) or uuid in known or not stored.exists(uuid):
            continue
        try:
            guest = stored.load(uuid)
            owner = transfer_progress.host_of(stored.path(uuid)) if guest is None else guest.ownership.host
        except (OSError, exception.NovaException):       # the record does not name the owner
            guest = owner = None
        if owner in (None, host) and shared_storage.may_remove(guest, host):
            found[uuid] = owner is not None
    return found
