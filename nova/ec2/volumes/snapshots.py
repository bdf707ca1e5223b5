"""EC2 operations on volume snapshots."""
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.volumes import deletion
from nova.ec2.volumes import types
from nova.ec2.volumes import volumes
from nova.json_types import JsonDocument

SNAPSHOT_STATES = {'available': 'completed', 'creating': 'pending', 'deleting': 'completed'}


def _volumes_of(req: operations.Request, rows: list[dict[str, Any]]) -> list[types.Volume]:
    """Return the volumes of snapshots; volumes that the caller does not see are missing."""
    uuids = {row['volume_id'] for row in rows}
    if len(uuids) > operations.MAX_SINGLE_READS:
        return req.pages('volume', '/volumes/detail', 'volumes')
    found = []
    for uuid in uuids:
        with errors.ignored(404):
            found.append(req.call('volume', 'GET', f'/volumes/{uuid}')['volume'])
    return found


def _snapshots(req: operations.Request, rows: list[dict[str, Any]],
               sources: list[types.Volume]) -> list[dict[str, Any]]:
    """Return the views of snapshots of the volumes ``sources``. A snapshot is encrypted as its volume is."""
    encrypted = {volume['id'] for volume in sources if volume.get('encrypted')}
    names = req.ids.shown('snap', [row['id'] for row in rows])
    of = req.ids.shown('vol', {row['volume_id'] for row in rows})
    kept = tags.of(req, 'snap', [row['id'] for row in rows])
    return [{
        'SnapshotId': names[row['id']], 'VolumeId': of[row['volume_id']], 'VolumeSize': row['size'],
        'State': SNAPSHOT_STATES.get(row['status'], 'error'), 'StartTime': protocol.time(row['created_at']),
        'Description': row.get('description') or '', 'OwnerId': req.project_id,
        'Progress': '100%' if row['status'] == 'available' else None,
        'Encrypted': row['volume_id'] in encrypted, 'StorageTier': 'standard',
        'Tags': tags.merged(row.get('metadata'), kept[row['id']])} for row in rows]


def describe_snapshots(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = req.chosen('snap', given.get('SnapshotIds'), 'volume', 'snapshots')
    shown = filters.choose(_snapshots(req, rows, _volumes_of(req, rows)), 'SnapshotId', given.get('SnapshotIds'),
                           'snap')
    owners = given.get('OwnerIds')
    if owners and not {'self', req.project_id} & set(owners):
        shown = []
    return filters.answer('Snapshots', shown, given, 'SnapshotId', {
        'snapshot-id': 'SnapshotId', 'volume-id': 'VolumeId', 'status': 'State', 'description': 'Description',
        'volume-size': 'VolumeSize', 'owner-id': 'OwnerId', 'start-time': 'StartTime', 'encrypted': 'Encrypted',
        'progress': 'Progress', 'storage-tier': 'StorageTier', **filters.unset('owner-alias transfer-type')})


def describe_snapshot_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Show the permissions of a snapshot: an empty list, because snapshots are never shared."""
    if given['Attribute'] != 'createVolumePermission':
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not supported.')
    req.find('snap', given['SnapshotId'], 'volume', '/snapshots/{}')
    return {'SnapshotId': given['SnapshotId'], 'CreateVolumePermissions': []}


def create_snapshot(req: operations.Request, given: operations.Given) -> JsonDocument:
    volume = volumes.find_volume(req, given['VolumeId'])
    found = tags.given(given.get('TagSpecifications'), 'snapshot')
    items, rows = tags.divided('snap', found)
    made = req.call('volume', 'POST', '/snapshots', {'snapshot': {
        'volume_id': volume['id'], 'description': given.get('Description'), 'force': True, 'metadata': items,
        **({'name': found['Name']} if 'Name' in found else {})}})
    tags.put(req, 'snap', made['snapshot']['id'], rows)
    return _snapshots(req, [made['snapshot']], [volume])[0]


def delete_snapshot(req: operations.Request, given: operations.Given) -> JsonDocument:
    deletion.delete_snapshot(req, req.find('snap', given['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']['id'])
    return {}


OPERATIONS = [
    operations.row('DescribeSnapshots', describe_snapshots, 'SnapshotIds OwnerIds' + operations.PAGED),
    operations.row('DescribeSnapshotAttribute', describe_snapshot_attribute, 'SnapshotId Attribute'),
    operations.row('CreateSnapshot', create_snapshot, 'VolumeId Description TagSpecifications', makes='snapshot'),
    operations.row('DeleteSnapshot', delete_snapshot, 'SnapshotId'),
]
