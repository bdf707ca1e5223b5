"""Ownership of a guest's directory, if several hosts share the directory of all guests.

The record names the guest's host and, during a live migration on shared disks, its destination. The record determines
which host may remove the files:

* a host removes a directory only if the record names this host and no successor;
* a directory with another host's record belongs to that host, or is on storage that both hosts share.

To detect shared storage, both hosts read the record and compare its fingerprint; no host writes.

The destination connects the guest's volumes before it owns the record. Until then it stores its version of the guest in
``coming.<destination>.json``, next to the record.
"""
import collections.abc
import dataclasses
import hashlib
import os

from nova import exception
from nova.disk_files import files
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import tpm_state
from nova.virt.libvirt.moves import transfer_progress
from nova.virt.libvirt.moves import transferred_record

RECORD_NEEDED = ('its disks are in a Ceph pool, and the other host neither finds its record there nor shares the '
                 'directory of the guests')
# reason why an adopted guest (features/adoption.py) cannot leave its host
ELSEWHERE = ('it was adopted, and its disks are outside of the directory of the guests; a resize on its host copies '
             'them into that directory')
MIXED = ('some of its disks are in a Ceph pool and others are files of its host, which does not share the '
         'directory of the guests')


def record_fingerprint(stored: storage.Storage, uuid: str) -> list[str | int] | None:
    """Return values that are equal on two hosts only if both read the same file; None if there is no file."""
    try:
        with open(stored.path(uuid, records.RECORD), 'rb') as file:
            status, data = os.fstat(file.fileno()), file.read()
    except FileNotFoundError:
        return None
    return [status.st_ino, status.st_mtime_ns, hashlib.sha256(data).hexdigest()]


def _coming(stored: storage.Storage, uuid: str, host: str) -> str:
    return stored.path(uuid, f'coming.{host}.json')


def note_incoming(stored: storage.Storage, guest: xml.Guest, host: str) -> None:
    """Store the guest as it will run on ``host`` after a migration on shared disks."""
    records.write_file(_coming(stored, guest.uuid, host), guest)


def incoming(stored: storage.Storage, uuid: str, host: str) -> xml.Guest | None:
    """Return the guest stored by ``note_incoming``."""
    return records.read_file(_coming(stored, uuid, host))


def forget_incoming(stored: storage.Storage, uuid: str, host: str) -> None:
    files.remove(_coming(stored, uuid, host))


def list_incoming(stored: storage.Storage, host: str) -> list[str]:
    """Return uuids of the guests that ``note_incoming`` has stored for ``host``."""
    return [uuid for uuid in sorted(os.listdir(stored.directory))
            if records.UUID.match(uuid) and os.path.exists(_coming(stored, uuid, host))]


def incoming_guests(stored: storage.Storage, host: str) -> list[xml.Guest]:
    """Return the guests that ``note_incoming`` has stored for ``host``. An unreadable record is logged and omitted."""
    found = [stored.readable(_coming(stored, uuid, host), lambda each: incoming(stored, each, host), uuid)
             for uuid in list_incoming(stored, host)]
    return [guest for guest in found if guest is not None]


def may_remove(guest: xml.Guest | None, host: str) -> bool:
    """Return whether a host may remove the files of a guest, according to the guest's record."""
    return guest is None or guest.ownership.host in (None, host) and guest.ownership.successor is None


def hand_over(stored: storage.Storage, guest: xml.Guest, successor: str | None) -> None:
    """Record ``successor``, the host that will own the disks after a live migration; None removes the entry."""
    if guest.ownership.successor != successor:
        stored.save(dataclasses.replace(guest, ownership=dataclasses.replace(guest.ownership, successor=successor)))


def was_taken_over(guest: xml.Guest | None, owner: str, host: str) -> bool:
    """Return whether ``host`` reads the record that ``owner`` wrote: if so, both hosts share the guest's disks.

    The record names ``owner`` as the host or, after an interrupted takeover by ``host``, as the previous host. A stale
    record on ``host`` does not name ``owner``.
    """
    if guest is None:
        return False
    if guest.ownership.host == host:
        return guest.ownership.previous_host == owner
    return guest.ownership.host == owner


def leftovers(stored: storage.Storage, host: str, known: collections.abc.Container[str]) -> dict[str, bool]:
    """Return {uuid: whether a record names ``host`` as the owner} of directories without a guest in the hypervisor.

    While files are copied to a directory, the record of the transfer (``transfer_progress``) names the owner.
    Directories that belong to another host, now or after a migration, are omitted. The value of a directory without a
    record is False, because another host that shares the parent directory may be creating it.
    :param known: guests of the hypervisor
    """
    found = {}
    for uuid in sorted(os.listdir(stored.directory)):
        if not records.UUID.match(uuid) or uuid in known or not stored.exists(uuid):
            continue
        try:
            guest = stored.load(uuid)
            owner = transfer_progress.host_of(stored.path(uuid)) if guest is None else guest.ownership.host
        except (OSError, exception.NovaException):       # the owner is unknown
            guest = owner = None
        if owner in (None, host) and may_remove(guest, host):
            found[uuid] = owner is not None
    return found


# ---- guests with disks in a pool, on hosts that share the pool but no directory. An evacuation reads only the
# PoolRecord (owners.py).

def take_from_pool(stored: storage.Storage, uuid: str, source: str, virt_type: str) -> None:
    """Write the record of a guest of the failed host ``source`` from its record in the pool.

    Does nothing if there is a record, or if the pool has no guest of that host.

    :raises VirtError: required data is only on that host
    """
    note = stored.owners.read(uuid) if stored.load(uuid) is None else None
    if note is None or note.host != source:
        return
    known = transferred_record.known(note.guest)    # known fields only: the failed host may have a newer release
    guest = transferred_record.unpacked({**known, 'owner': '', 'console_log': ''}, uuid, stored, virt_type, [])
    if guest.boot.kernel or guest.boot.ramdisk:
        raise _refusal('its kernel is a file of the host that is down')
    if tpm_state.version(guest.hardware.settings) is not None:
        raise _refusal('the state of its TPM is on the host that is down')
    if any(disk.source is None for disk in guest.disks):
        raise _refusal(MIXED)
    stored.backends.clear_pool(guest)             # delete pool disks that the record lacks, such as disks of a rescue
    guest.ownership.host = source
    stored.make_directory(uuid, exist_ok=True)
    stored.record(guest)


def check_pool_disks(stored: storage.Storage, guest: xml.Guest, seen: str | None) -> bool:
    """Return whether all disks of a guest are in a pool that both hosts use; False if they are files.

    :param seen: ``pool_digest`` of the other host
    :raises MigrationPreCheckError: the guest can migrate neither with nor without its disks
    """
    pooled = [bool(disk.source) for disk in guest.disks]
    if not any(pooled):
        return False
    if not all(pooled):
        raise exception.MigrationPreCheckError(reason=MIXED)
    if seen is None or seen != pool_digest(stored, guest.uuid):
        raise exception.MigrationPreCheckError(reason=RECORD_NEEDED)
    return True


def pool_digest(stored: storage.Storage, uuid: str) -> str | None:
    """Return a hash that is equal on two hosts only if they use the same pool; None: the pool lacks the guest."""
    note = stored.owners.read(uuid)
    return None if note is None else note.digest


def _refusal(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='take the guest over', reason=reason)
