"""Deletion of volumes with snapshots: in EC2 snapshots outlive their volume.

The Block Storage API refuses to delete a volume with snapshots. The EC2 API marks it with a metadata item, hides it and
deletes it after its last snapshot. If that snapshot is deleted slowly, or through the Block Storage API, one of these
requests deletes the volume: DescribeVolumes, the deletion of another snapshot, or a creation that reaches a quota.
"""
import contextlib
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.volumes.types import Volume

SWEPT = ('available', 'error')                           # volumes that a later request deletes


def is_deleted(volume: Volume) -> bool:
    """Return whether a volume was deleted in the EC2 API."""
    return tags.DELETED in volume['metadata']


def present(volumes: list[Volume]) -> list[Volume]:
    """Return the volumes that are not marked as deleted."""
    return [volume for volume in volumes if not is_deleted(volume)]


def _snapshots(req: operations.Request, volume: str) -> list[dict[str, Any]]:
    return req.pages('volume', '/snapshots', 'snapshots', {'volume_id': volume})


def delete(req: operations.Request, volume: str) -> None:
    """Delete a volume, or hide it until its last snapshot is deleted.

    :param volume: UUID
    """
    if hide(req, volume) and _snapshots(req, volume):         # the last snapshot may have been deleted meanwhile
        return
    req.call('volume', 'DELETE', f'/volumes/{volume}')


def hide(req: operations.Request, volume: str) -> bool:
    """Mark a volume with snapshots as deleted; return whether it has snapshots.

    :param volume: UUID
    """
    if not _snapshots(req, volume):
        return False
    req.call('volume', 'POST', f'/volumes/{volume}/metadata', {'metadata': {tags.DELETED: 'true'}})
    return True


def delete_snapshot(req: operations.Request, snapshot: str) -> None:
    """Delete a snapshot, and its volume if the volume was deleted before and has no other snapshots.

    :param snapshot: UUID
    """
    req.call('volume', 'DELETE', f'/snapshots/{snapshot}')
    sweep(req, snapshot)


def sweep(req: operations.Request, gone: str | None = None) -> None:
    """Delete the hidden volumes of the project that have no snapshots any more.

    A deletion may be refused, for example if the caller may only read. A later request repeats it.

    :param gone: UUID of a snapshot whose deletion was accepted
    """
    with contextlib.suppress(errors.ServiceRefused):
        hidden = [row['id'] for row in req.pages('volume', '/volumes/detail', 'volumes', {
            'metadata': str({tags.DELETED: 'true'})}) if is_deleted(row) and row['status'] in SWEPT]
        held = {row['volume_id'] for row in req.pages('volume', '/snapshots', 'snapshots')
                if row['id'] != gone} if hidden else set()
        for volume in hidden:
            if volume not in held:
                with contextlib.suppress(errors.ServiceRefused):
                    req.call('volume', 'DELETE', f'/volumes/{volume}')
