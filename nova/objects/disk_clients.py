"""Record of the Ceph clients that a server's guest has opened its disks and volumes with.

An evacuation shuts these clients out (ADR 0051). Ceph forgets a client that was cut off for 30 seconds, and knows no
lock of a disk that was never written, so the host records the addresses before the guest runs its first instruction.
The record is the key KEY of the server's system metadata::

    {'host': the host that the guest runs on, 'images': {pool/image: [address, ...]}, 'fenced': host or None}

An image whose clients could not be found out has None instead of a list. ``fenced`` names a former host that has
nothing of the server open any more. A host that finds itself there takes the record away before it works on the server.
"""
from __future__ import annotations

import dataclasses
import re
import typing

KEY = 'disk_clients'
TWO_WRITERS = 'two-writers'              # the risk that an operator accepts where a former host cannot be shut out
# of a client of Ceph: address, port 0, random number. An address of a range, or of a daemon, is none.
ADDRESS = re.compile(r'(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]{2,45}\]):0/\d{1,20}\Z')
IMAGE = re.compile(r'[^\s/@]{1,255}(/[^\s/@]{1,255}){1,2}\Z')          # there may be a namespace between the two
MAX_IMAGES, MAX_ADDRESSES = 64, 64       # a guest has 26 disks of a bus at most, and each has one client

Images = dict[str, list[str] | None]


@dataclasses.dataclass(frozen=True)
class Record:
    """
    host     the host that the guest runs on
    images   {pool/image: addresses of the clients, None: unknown}
    fenced   former host that has nothing open any more
    """

    host: str
    images: Images
    fenced: str | None = None

    def clients_of(self, host: str) -> Images | None:
        """The clients that a host's guest has; None: that host has recorded none.

        Where the host of the record is shut out, no other one has run the guest since.
        """
        if self.host == self.fenced:
            return {}
        return self.images if self.host == host else None

    def values(self) -> dict[str, typing.Any]:
        """The record as the system metadata hold it."""
        return dataclasses.asdict(self)


def problem(values: object) -> str | None:
    """Why a value is no record; None: it is one."""
    if not isinstance(values, dict) or values.keys() != {'host', 'images', 'fenced'}:
        return 'it is no record of clients'
    images = values['images']
    if not isinstance(values['host'], str) or not isinstance(values['fenced'], str | None):
        return 'its hosts are no names'
    if not isinstance(images, dict) or len(images) > MAX_IMAGES:
        return f'it has more than {MAX_IMAGES} images'
    for name, addresses in images.items():
        if not isinstance(name, str) or not IMAGE.match(name):
            return 'an image of it is not called pool/image'
        if addresses is None:
            continue
        if not isinstance(addresses, list) or len(addresses) > MAX_ADDRESSES or not all(
                isinstance(each, str) and ADDRESS.match(each) for each in addresses):
            return 'an address of it is not that of a client of Ceph'
    return None


def read(metadata: dict[str, typing.Any] | None) -> Record | None:
    """The Record in a server's system metadata; None: there is none, or it is not understood."""
    values = (metadata or {}).get(KEY)
    return None if problem(values) else Record(**typing.cast('dict[str, typing.Any]', values))
