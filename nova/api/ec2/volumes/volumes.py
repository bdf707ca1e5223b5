"""EC2 operations on volumes."""
from __future__ import annotations

import datetime
from typing import Any

from nova.api.ec2 import client_tokens
from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import protocol
from nova.api.ec2 import tags
from nova.api.ec2.instances import run_parameters

CLOCKS_DIFFER = datetime.timedelta(minutes=5)      # clock skew of the block storage service
TOKEN = tags.HIDDEN + 'client-token'          # key in a volume's metadata
# A volume that is being attached is 'available': it becomes 'in-use' when waiting clients may use it.
STATES = {'available': 'available', 'reserved': 'available', 'attaching': 'available', 'in-use': 'in-use',
          'detaching': 'in-use', 'creating': 'creating', 'downloading': 'creating', 'deleting': 'deleting'}
ATTACHMENTS = {'detaching': 'detaching'}


def _attachment(req: operations.Request, volume: dict[str, Any], row: dict[str, Any], names: dict[Any, Any],
                volumes: dict[Any, Any]) -> dict[str, Any]:
    return {'VolumeId': volumes[volume['id']], 'InstanceId': names[row['server_id']],
            'Device': row.get('device') or None, 'State': ATTACHMENTS.get(volume['status'], 'attached'),
            'AttachTime': protocol.time(row['attached_at']) if row.get('attached_at') else None}


def _volumes(req: operations.Request, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = req.ids.shown('i', {part['server_id'] for row in rows for part in row['attachments']})
    volumes = req.ids.shown('vol', [row['id'] for row in rows])
    snapshots = req.ids.shown('snap', {row.get('snapshot_id') for row in rows})
    return [{
        'VolumeId': volumes[row['id']], 'Size': row['size'], 'State': STATES.get(row['status'], 'error'),
        'AvailabilityZone': row.get('availability_zone'), 'CreateTime': protocol.time(row['created_at']),
        'Encrypted': bool(row.get('encrypted')), 'SnapshotId': snapshots[row.get('snapshot_id')] or '',
        'VolumeType': row.get('volume_type'), 'MultiAttachEnabled': bool(row.get('multiattach')),
        'Attachments': [_attachment(req, row, part, names, volumes) for part in row['attachments']],
        'Tags': tags.shown(row['metadata'])} for row in rows]


def describe_volumes(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rows = req.chosen('vol', given.get('VolumeIds'), 'volume', 'volumes')
    shown = filters.choose(_volumes(req, rows), 'VolumeId', given.get('VolumeIds'), 'vol')
    shown = filters.apply(shown, given.get('Filters'), {
        'volume-id': lambda row: row['VolumeId'], 'status': lambda row: row['State'], 'size': lambda row: row['Size'],
        'availability-zone': lambda row: row['AvailabilityZone'], 'snapshot-id': lambda row: row['SnapshotId'],
        'create-time': lambda row: row['CreateTime'], 'encrypted': lambda row: row['Encrypted'],
        'volume-type': lambda row: row['VolumeType'],
        'attachment.instance-id': lambda row: [part['InstanceId'] for part in row['Attachments']],
        'attachment.device': lambda row: [part['Device'] for part in row['Attachments']],
        'attachment.status': lambda row: [part['State'] for part in row['Attachments']]})
    page, token = filters.page(shown, given, 'VolumeId')
    return {'Volumes': page, 'NextToken': token}


def create_volume(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    for name in ('Encrypted', 'MultiAttachEnabled'):              # false is the only supported value
        if given.get(name):
            raise errors.unsupported(f'The parameter {name} of CreateVolume is not supported.')
    found, token = tags.given(given.get('TagSpecifications'), 'volume'), given.get('ClientToken')
    if not given.get('SnapshotId') and not given.get('Size'):
        raise errors.missing('Size')

    def make() -> str:
        body: dict[str, Any] = {'size': given.get('Size'), 'availability_zone': given.get('AvailabilityZone'),
                                'volume_type': run_parameters.volume_type(given), 'name': found.get('Name'),
                                'metadata': {**found, **({TOKEN: token} if token else {})}}
        if given.get('SnapshotId'):
            body['snapshot_id'] = req.find(
                'snap', given['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']['id']
        made = req.call('volume', 'POST', '/volumes', {'volume': {
            name: value for name, value in body.items() if value is not None}})['volume']
        return str(made['id'])
    if req.caller.dry and given.get('SnapshotId'):
        req.find('snap', given['SnapshotId'], 'volume', '/snapshots/{}')
    uuid = client_tokens.once(req, 'CreateVolume', given, lambda since: _made_before(req, token, since), make)
    try:
        row = req.call('volume', 'GET', f'/volumes/{uuid}')['volume']
    except errors.ServiceRefused as refused:
        if refused.status == 404:
            raise errors.not_found('vol', req.ids.one('vol', uuid)) from None
        raise
    return _volumes(req, [row])[0]


def _made_before(req: operations.Request, token: str | None, since: datetime.datetime | None) -> str | None:
    """Return the volume of an interrupted attempt with this token.

    :param since: start of that attempt; older volumes, which are later in the list, are not read. None: no attempt
    """
    if since is None:
        return None
    oldest = (since - CLOCKS_DIFFER).isoformat()
    rows = req.pages('volume', '/volumes/detail', 'volumes', {'sort': 'created_at:desc'},
                     lambda row: row['created_at'] < oldest)
    return next((str(row['id']) for row in rows if row['metadata'].get(TOKEN) == token), None)


def find_volume(req: operations.Request, shown: str) -> dict[str, Any]:
    return dict(req.find('vol', shown, 'volume', '/volumes/{}')['volume'])


def delete_volume(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    volume = find_volume(req, given['VolumeId'])
    if volume['attachments']:
        raise errors.Ec2Error('VolumeInUse', f'The volume {given["VolumeId"]} is attached to an instance.')
    req.call('volume', 'DELETE', f'/volumes/{volume["id"]}')
    return {}


def modify_volume(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    volume = find_volume(req, given['VolumeId'])
    size = given.get('Size')
    if not size:
        raise errors.unsupported('Only the Size of a volume can be modified.')
    req.call('volume', 'POST', f'/volumes/{volume["id"]}/action', {'os-extend': {'new_size': size}})
    return {'VolumeModification': {'VolumeId': req.ids.one('vol', volume['id']), 'ModificationState': 'modifying',
                                   'OriginalSize': volume['size'], 'TargetSize': size}}


OPERATIONS = [
    operations.row('DescribeVolumes', describe_volumes, 'VolumeIds' + operations.PAGED),
    operations.row('CreateVolume', create_volume,
                   'Size SnapshotId AvailabilityZone VolumeType TagSpecifications ClientToken Encrypted '
                   'MultiAttachEnabled',
                   makes='volume'),
    operations.row('DeleteVolume', delete_volume, 'VolumeId'),
    operations.row('ModifyVolume', modify_volume, 'VolumeId Size'),
]
