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


def is_record(values: Json) -> bool:
    """Return whether a value is a record within the limits."""
    if not isinstance(values, dict) or values.keys() != {'host', 'images', 'fenced'}:
        return False
    images = values['images']
    return (isinstance(values['host'], str) and isinstance(values['fenced'], str | None) and isinstance(images, dict)
            and len(images) <= MAX_IMAGES and all(_is_image(name, clients) for name, clients in images.items()))


def _is_image(name: object, clients: Json) -> bool:
    return isinstance(name, str) and bool(IMAGE.match(name)) and (
        clients is None or isinstance(clients, list) and len(clients) <= MAX_ADDRESSES
        and all(isinstance(each, str) and ADDRESS.match(each) for each in clients))


def read(metadata: JsonObject | None) -> Record | None:
    """Return the Record in a server's system metadata, or None if it is missing or malformed."""
    values = (metadata or {}).get(KEY)
    return Record(**typing.cast('dict[str, typing.Any]', values)) if is_record(values) else None
