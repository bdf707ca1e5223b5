"""Directories of guests that the hypervisor does not have: to be compared with the servers by who calls this."""
from __future__ import annotations

import collections.abc
import os

from nova import exception
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import transfer_progress
from nova.virt.libvirt.moves import shared_storage


def find(stored: storage.Storage, host: str, known: collections.abc.Container[str]) -> dict[str, bool]:
    """{uuid: whether the directory is ``host``'s alone, by its record or by that of its arrival}.

    What is another host's, or is kept for one, is not among them. A directory without either record may be of a host
    that shares the directory of all guests, and has just begun.
    :param known: guests of the hypervisor
    """
    found = {}
    for uuid in sorted(os.listdir(stored.directory)):
        if not records.UUID.match(uuid) or uuid in known or not stored.exists(uuid):
            continue
        try:
            guest = stored.load(uuid)
            owner = transfer_progress.host_of(stored.path(uuid)) if guest is None else guest.host
        except (OSError, exception.NovaException):       # the record does not name the owner
            guest = owner = None
        if owner in (None, host) and shared_storage.may_remove(guest, host):
            found[uuid] = owner is not None
    return found
