"""Who had the disks and volumes of a guest open in Ceph writes nothing more there, before another host uses them.

A host that counts as dead may only have lost its nova-compute, or its network to the conductors: its QEMU runs, and
Ceph would let two of them write in turn. Ceph's blocklist takes the addresses of the clients of that one guest. Other
guests of that host go on, and a new QEMU there is a new client: nothing has to be taken back (ADR 0051).
"""
from __future__ import annotations

import logging
import typing

from nova import exception
from nova.virt.libvirt import storage

LOG = logging.getLogger(__name__)

RBD = 'rbd'


def fence(stored: storage.Storage, uuid: str, block_devices: typing.Iterable[dict[str, typing.Any]]) -> None:
    """Shut out every client that has the guest's disks or volumes open; the guest runs nowhere on this host.

    :param block_devices: how this host reaches its volumes
    :raises VirtError: of a disk it cannot be done; of a volume a warning is logged, as of volumes that are not in Ceph
    """
    stored.fence(uuid)
    for device in block_devices:
        info = device.get('connection_info') or {}
        if info.get('driver_volume_type') != RBD:
            continue
        if info.get('multiattach') or info['data'].get('multiattach'):
            LOG.warning('Volume %s of server %s is for several servers: clients that have it open go on.',
                        device['volume_id'], uuid)
            continue
        try:
            stored.fence_volume(info['data']['name'])
        except exception.VirtError as error:
            LOG.warning('No client was shut out of volume %s of server %s: %s', device['volume_id'], uuid,
                        error.message)
