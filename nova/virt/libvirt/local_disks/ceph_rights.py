"""Permissions of a host's Ceph user for fencing: without them, evacuations to this host fail."""
from __future__ import annotations

import collections.abc
import typing

from nova import exception

if typing.TYPE_CHECKING:
    from nova.virt.libvirt.local_disks import pool as pools

# A documentation address (RFC 5737) with a client number. The test blocks it for one second, so no real client.
NOBODY, NOBODY_S = '192.0.2.1:0/1', 1


def missing(ceph: pools.Pool, images: collections.abc.Iterable[str]) -> list[str]:
    """Return sentences on missing permissions.

    :param ceph: Ceph access of the host, for any pool
    :param images: pool/image of servers' disks and volumes; one of each pool is checked
    """
    found = []
    try:
        ceph.shut_out(NOBODY, NOBODY_S)
    except exception.VirtError as error:
        found.append('The Ceph user of this host cannot shut clients out, which needs the right "profile rbd" for mon: '
                     f'{error.kwargs.get("reason", error)}')
    for image in {image.rpartition('/')[0]: image for image in sorted(images)}.values():
        try:
            ceph.clients(image)
        except exception.VirtError as error:
            found.append(f'The Ceph user of this host cannot look at {image}, which needs the right "profile '
                         'rbd-read-only" for osd in its pool and in the pool of the image that it is a clone of: '
                         f'{error.kwargs.get("reason", error)}')
    return found
