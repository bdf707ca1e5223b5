"""Record of the Ceph clients with which a server's guest has opened its disks and volumes.

An evacuation blocks these clients (ADR 0014). Ceph forgets a client 30 seconds after a connection loss, and has no lock
for a disk that was never written. Therefore the host records the addresses before the guest starts. The server's
system metadata has the record under the key KEY::

    {'host': the guest's host, 'images': {pool/image: [address, ...]}, 'fenced': host or None}

The value of an image is None if its clients are unknown. ``fenced`` is a former host that was blocked and has no image
open. If the server returns to this host, the host first removes the record.
"""
import dataclasses
import re
import typing

from nova.json_types import Json
from nova.json_types import JsonObject

KEY = 'disk_clients'
TWO_WRITERS = 'two-writers'  # name of the risk that an operator can accept if a former host cannot be blocked
# pattern of a Ceph client: address, port 0, random number; address ranges and daemons do not match
ADDRESS = re.compile(r'(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]{2,45}\]):0/\d{1,20}\Z')
IMAGE = re.compile(r'[^\s/@]{1,255}(/[^\s/@]{1,255}){1,2}\Z')          # pool/image or pool/namespace/image
MAX_IMAGES, MAX_ADDRESSES = 64, 64  # limits of a record: a guest has at most 26 disks on a bus, with one client each

Images = dict[str, list[str] | None]


@dataclasses.dataclass(frozen=True)
class Record:
    """Clients of a server's disks.

    host     the guest's host
    images   {pool/image: addresses of the clients, or None if unknown}
    fenced   former host that was blocked and has no image open
    """

    host: str
    images: Images
    fenced: str | None = None

    def clients_of(self, host: str) -> Images | None:
        """Return the clients of the guest on ``host``, or None if they are not recorded.

        If the record's host is fenced, the result is empty for every host: no host has run the guest since the fencing.
        """
        if self.host == self.fenced:
            return {}
        return self.images if self.host == host else None

    def values(self) -> JsonObject:
        """Return the record as a value of the system metadata."""
        return dataclasses.asdict(self)


def problem(values: Json) -> str | None:
    """Return the reason why a value is not a record, or None."""
    if not isinstance(values, dict) or values.keys() != {'host', 'images', 'fenced'}:
        return 'it is not a record of clients'
    images = values['images']
    if not isinstance(values['host'], str) or not isinstance(values['fenced'], str | None):
        return 'its hosts are not names'
    if not isinstance(images, dict) or len(images) > MAX_IMAGES:
        return f'it has more than {MAX_IMAGES} images'
    for name, addresses in images.items():
        if not isinstance(name, str) or not IMAGE.match(name):
            return 'one of its images is not named pool/image'
        if addresses is None:
            continue
        if not isinstance(addresses, list) or len(addresses) > MAX_ADDRESSES or not all(
                isinstance(each, str) and ADDRESS.match(each) for each in addresses):
            return 'one of its addresses is not that of a Ceph client'
    return None


def read(metadata: JsonObject | None) -> Record | None:
    """Return the Record in a server's system metadata, or None if it is missing or malformed."""
    values = (metadata or {}).get(KEY)
    return None if problem(values) else Record(**typing.cast('dict[str, typing.Any]', values))
