"""Deletion of volumes with snapshots: in EC2 snapshots outlive their volume.

The Block Storage API refuses to delete such a volume. It stays there with a metadata item, is hidden from the EC2 API,
and is deleted with its last snapshot.
"""
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags

DELETED = tags.HIDDEN + 'delete-with-snapshots'          # metadata item of a volume


def is_deleted(volume: dict[str, Any]) -> bool:
    """Return whether a volume was deleted in the EC2 API."""
    return DELETED in volume['metadata']


def present(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
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


def delete_snapshot(req: operations.Request, snapshot: dict[str, Any]) -> None:
    """Delete a snapshot, and its volume if the volume was deleted before and has no other snapshots."""
    volume = snapshot['volume_id']
    req.call('volume', 'DELETE', f'/snapshots/{snapshot["id"]}')
    try:
        if not is_deleted(req.call('volume', 'GET', f'/volumes/{volume}')['volume']):
            return
        if all(row['id'] == snapshot['id'] for row in _snapshots(req, volume)):
            req.call('volume', 'DELETE', f'/volumes/{volume}')
    except errors.ServiceRefused as refused:
        if refused.status >= 500:
            raise
