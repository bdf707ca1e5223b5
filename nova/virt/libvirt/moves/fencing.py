"""Fencing of a server on a failed host: stop writes to its disks and volumes there before another host starts it.

A host that seems to have failed may have lost only nova-compute or its connection to the conductors. Then QEMU still
runs there, and Ceph would let both QEMUs write in turn. So the client addresses of that server are added to Ceph's
blocklist; other guests of the host continue (ADR 0014).

* ``gather`` finds the disks and volumes with their clients
* ``decide`` selects the clients to fence (a pure function)
* ``fence`` adds them to the blocklist
"""
import collections.abc
import dataclasses
import logging

from nova import exception
from nova.objects.block_device import BlockDevice
from nova.objects import disk_clients
from nova.virt.driver import FormerHost
from nova.virt.libvirt.local_disks import pool as pools
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import shared_storage

LOG = logging.getLogger(__name__)

RBD, NBD = 'rbd', 'nbd'
# values of Part.kind for parts that can be fenced; any other value is the reason why a part cannot be fenced
CEPH, CLOSED = 'ceph', 'closed'
UNKNOWN = 'there is no record of the Ceph clients with which the guest opened it'


@dataclasses.dataclass(frozen=True)
class Part:
    """Disk or volume that the guest on the failed host may have open.

    name      name for log and error messages
    kind      CEPH: an image; CLOSED: an export that the block storage closes before it exports to the new host;
              otherwise the reason why the part cannot be fenced
    image     pool/image in Ceph
    shared    whether other servers may also have the image open
    seen      addresses of the clients that Ceph reports
    problem   why the clients are unknown: Ceph is unavailable, or the image is in another cluster
    volume    whether the part is a volume
    """

    name: str
    kind: str
    image: str = ''
    shared: bool = False
    seen: frozenset[str] = frozenset()
    problem: str | None = None
    volume: bool = False


@dataclasses.dataclass(frozen=True)
class Decision:
    """Clients to fence and parts that cannot be fenced.

    addresses   clients of Ceph to fence
    unfenced    [(name of a part, why it cannot be fenced)]
    """

    addresses: tuple[str, ...]
    unfenced: tuple[tuple[str, str], ...]


def decide(parts: collections.abc.Iterable[Part], recorded: disk_clients.Images | None, off: bool) -> Decision:
    """Return the clients to fence and the parts that cannot be fenced.

    :param recorded: clients that the failed host has recorded; None: no record
    :param off: the guest was powered off there and no start was in progress, so the guest has no disk open
    """
    addresses: set[str] = set()
    unfenced: dict[str, str] = {}
    images = {part.image for part in parts if part.kind == CEPH}
    for part in parts:
        # a disk without an entry was never opened by the guest; the clients of a volume without an entry are unknown
        known = (recorded or {}).get(part.image, None if part.volume and recorded else [])
        if not part.shared:
            addresses |= part.seen
        if part.kind == CLOSED or off and part.kind != CEPH:
            continue
        if part.kind != CEPH:
            unfenced[part.name] = part.kind
        elif part.problem:
            unfenced[part.name] = part.problem
        elif not off and (recorded is None or known is None):
            unfenced[part.name] = UNKNOWN
    for image, found in (recorded or {}).items():
        addresses.update(found or ())
        if found is None and image not in images and not off:
            unfenced[f'image {image}'] = UNKNOWN
    return Decision(tuple(sorted(addresses)), tuple(sorted(unfenced.items())))


def gather(stored: storage.Storage, ceph: pools.Pool, uuid: str, former: FormerHost) -> list[Part]:
    """Return the Parts of a server: disks that both hosts can access, and volumes.

    :param ceph: Ceph access of this host, for any pool
    """
    try:
        parts = [_in_ceph(ceph, f'its disk {image}', image, False) for image in stored.backends.images_of(uuid)]
    except exception.VirtError as error:
        parts = [Part('its disks', CEPH, problem=_reason(error))]
    guest = stored.load(uuid)
    if shared_storage.was_taken_over(guest, former.host, stored.host or '') and guest is not None and any(
            disk.source is None and not disk.readonly for disk in guest.disks):
        parts.append(Part('its disks', 'they are files in a shared directory, which cannot be fenced'))
    for device in former.block_devices:
        if device.get('destination_type') == 'volume' and device.get('volume_id'):
            parts.append(_of_volume(ceph, device))
    return parts


def _of_volume(ceph: pools.Pool, device: BlockDevice) -> Part:
    name, info = f'volume {device["volume_id"]}', device.get('connection_info')
    if info is None:
        return Part(name, 'its connection to the former host is unknown', volume=True)
    kind, data = info.get('driver_volume_type'), info.get('data') or {}
    shared = bool(info.get('multiattach') or data.get('multiattach'))
    if kind == NBD and data.get('export') and data['export'] == device.get('attachment_id') and not data.get('socket'):
        return Part(name, CLOSED, volume=True)
    if kind != RBD:
        return Part(name, f'volumes of kind {str(kind)[:20]} cannot be fenced', shared=shared, volume=True)
    image = str(data.get('name'))
    return dataclasses.replace(_in_ceph(ceph, name, image, shared, data.get('hosts') or ()), volume=True)


def _in_ceph(ceph: pools.Pool, name: str, image: str, shared: bool,
             monitors: collections.abc.Collection[str] = ()) -> Part:
    try:
        if not ceph.is_monitored_by(monitors):
            return Part(name, CEPH, image, shared, problem='it is not in the Ceph cluster of this host')
        return Part(name, CEPH, image, shared, frozenset(ceph.clients(image)))
    except exception.VirtError as error:
        return Part(name, CEPH, image, shared, problem=_reason(error))


def _reason(error: exception.VirtError) -> str:
    return str(error.kwargs.get('reason') or error.message)


def fence(stored: storage.Storage, ceph: pools.Pool, uuid: str, former: FormerHost) -> bool:
    """Fence all storage clients that a guest has on a failed host, before the guest starts on this host.

    :returns: whether all are fenced; False: an operator has accepted the risk
    :raises NotFenced: a client remains and no operator has accepted the risk
    """
    parts = gather(stored, ceph, uuid, former)
    decision = decide(parts, former.clients, former.off)
    _check(uuid, former, decision.unfenced)
    failed = []
    for address in decision.addresses:
        try:
            ceph.shut_out(address)
        except exception.VirtError as error:
            failed.append((f'the client {address} of Ceph', _reason(error)))
    _check(uuid, former, failed)
    if decision.addresses:
        LOG.info('Server %s: %d clients of host %s were added to the blocklist of Ceph.',
                 uuid, len(decision.addresses), former.host)
    return not decision.unfenced and not failed


def _check(uuid: str, former: FormerHost, unfenced: collections.abc.Sequence[tuple[str, str]]) -> None:
    """Check the parts that cannot be fenced.

    :raises NotFenced: a part cannot be fenced, and no operator has accepted the risk
    """
    if not unfenced:
        return
    text = '; '.join(f'{name}: {reason}' for name, reason in unfenced)
    if former.accepts_two_writers:
        LOG.warning('TWO WRITERS: an operator lets server %s start although host %s may still write: %s', uuid,
                    former.host, text)
        return
    LOG.warning('Server %s is not evacuated, because host %s may still write: %s', uuid, former.host, text)
    more = f' (and {len(unfenced) - 1} more)' if len(unfenced) > 1 else ''
    raise exception.NotFenced(part=unfenced[0][0], reason=unfenced[0][1], more=more, details=text)


# Address that ``missing_rights`` blocks for one second as a test; RFC 5737 reserves it, so no client has it.
PROBE_CLIENT, PROBE_S = '192.0.2.1:0/1', 1


def missing_rights(ceph: pools.Pool, images: collections.abc.Iterable[str]) -> list[str]:
    """Return sentences on permissions that the Ceph user of this host lacks for fencing.

    :param ceph: Ceph access of the host, for any pool
    :param images: pool/image of servers' disks and volumes; one of each pool is checked
    """
    found = []
    try:
        ceph.shut_out(PROBE_CLIENT, PROBE_S)
    except exception.VirtError as error:
        found.append('The Ceph user of this host cannot block clients. Grant it "profile rbd" for mon: '
                     f'{error.kwargs.get("reason", error)}')
    for image in {image.rpartition('/')[0]: image for image in sorted(images)}.values():
        try:
            ceph.clients(image)
        except exception.VirtError as error:
            found.append(f'The Ceph user of this host cannot read {image}. Grant it "profile '
                         'rbd-read-only" for osd in the pool of this image and in the pool of its parent image: '
                         f'{error.kwargs.get("reason", error)}')
    return found
