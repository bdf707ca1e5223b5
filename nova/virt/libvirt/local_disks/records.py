"""The record of a guest: a file in its directory that describes its disks."""
import os
import re

from nova import exception
from nova.json_types import JsonObject
from nova.objects import pci
from nova.runtime import versioned_records
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import rescued
from nova.virt.libvirt.domain import volume_disks

RECORD = 'guest.json'
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')

FORMAT = versioned_records.RecordFormat[JsonObject](
    name='record of a guest',
    fields=xml.FIELDS,
    required=frozenset({'uuid', 'name', 'owner', 'virt_type', 'vcpus', 'memory_mb', 'console_log', 'disks',
                        'interfaces'}),
    parts={'disks': versioned_records.fields_of(xml.Disk),
           'interfaces': versioned_records.fields_of(xml.Interface),
           'interfaces.port': versioned_records.fields_of(vifs.Port),
           'hostdevs': versioned_records.fields_of(pci.Device),
           'volumes': versioned_records.fields_of(volume_disks.Volume),
           'rescued': versioned_records.fields_of(rescued.Rescued)})


Stamp = tuple[int, int, int]             # inode, modification time in nanoseconds, size


def stamp(directory: str) -> Stamp | None:
    """Return a value that changes with each write of the record, or None if there is no record."""
    try:
        status = os.stat(os.path.join(directory, RECORD))
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read(directory: str) -> xml.Guest | None:
    """Return the recorded Guest, or None if there is no record.

    :raises VirtError: the record is damaged, or an unsupported release has written it
    """
    return read_file(os.path.join(directory, RECORD))


def read_file(path: str) -> xml.Guest | None:
    """Like ``read``, but read the record from the file ``path``."""
    try:
        return FORMAT.read_as(path, xml.Guest.from_dict)
    except exception.RecordUnreadable as error:
        raise exception.VirtError(operation='read the record of the guest', reason=error.message) from None


def write(directory: str, guest: xml.Guest) -> None:
    write_file(os.path.join(directory, RECORD), guest)


def write_file(path: str, guest: xml.Guest) -> None:
    """Like ``write``, but write the record to the file ``path``."""
    FORMAT.write(path, guest.to_record())


def elsewhere(guest: xml.Guest | None) -> list[xml.Disk]:
    """Return an adopted guest's disks outside of its directory; [] if ``guest`` is None."""
    return [disk for disk in guest.disks if disk.file in guest.adopted] if guest else []
