"""Deletion of volumes with snapshots: in EC2 snapshots outlive their volume.

The Block Storage API refuses to delete such a volume. It stays there with a metadata item, is hidden from the EC2 API,
and is deleted with its last snapshot. The Block Storage service may delete that snapshot slowly, or for a client of its
own API: then DescribeVolumes, the deletion of another snapshot, or a creation that reaches a quota deletes the volume.
"""
import contextlib
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.volumes.types import Volume

DELETED = tags.HIDDEN + 'delete-with-snapshots'          # metadata item of a volume
SWEPT = ('available', 'error')                           # a volume in another state is in use, or is deleted already


def is_deleted(volume: Volume) -> bool:
    """Return whether a volume was deleted in the EC2 API."""
    return DELETED in volume['metadata']


def present(volumes: list[Volume]) -> list[Volume]:
    """Return the volumes without the deleted ones."""
    return [volume for volume in volumes if not is_deleted(volume)]


def _snapshots(req: operations.Request, volume: str) -> list[dict[str, Any]]:
    return req.pages('volume', '/snapshots', 'snapshots', {'volume_id': volume})


def delete(req: operations.Request, volume: str) -> None:
    """Delete a volume, or hide it until its last snapshot is deleted.

    :param volume: UUID
    """
    if hide(req, volume) and _snapshots(req, volume):         # the last one may have been deleted meanwhile
        return
    req.call('volume', 'DELETE', f'/volumes/{volume}')


def hide(req: operations.Request, volume: str) -> bool:
    """Mark a volume with snapshots as deleted; return whether it has snapshots.

    :param volume: UUID
    """
    if not _snapshots(req, volume):
        return False
    req.call('volume', 'POST', f'/volumes/{volume}/metadata', {'metadata': {DELETED: 'true'}})
    return True


def delete_snapshot(req: operations.Request, snapshot: str) -> None:
    """Delete a snapshot, and its volume if the volume was deleted before and has no other snapshots.

    :param snapshot: UUID
    """
    req.call('volume', 'DELETE', f'/snapshots/{snapshot}')
    sweep(req, snapshot)


def sweep(req: operations.Request, gone: str | None = None) -> None:
    """Delete the hidden volumes of the project that have no snapshots any more.

    A refusal leaves the volume to a later request: the caller may only read, or a snapshot is still being deleted.

    :param gone: UUID of a snapshot whose deletion was accepted
    """
    with contextlib.suppress(errors.ServiceRefused):
        hidden = [row['id'] for row in req.pages('volume', '/volumes/detail', 'volumes', {
            'metadata': str({DELETED: 'true'})}) if is_deleted(row) and row['status'] in SWEPT]
        held = {row['volume_id'] for row in req.pages('volume', '/snapshots', 'snapshots')
                if row['id'] != gone} if hidden else set()
        for volume in hidden:
            if volume not in held:
                with contextlib.suppress(errors.ServiceRefused):
                    req.call('volume', 'DELETE', f'/volumes/{volume}')
