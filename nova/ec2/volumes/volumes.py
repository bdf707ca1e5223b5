"""EC2 operations on volumes."""
import datetime
from typing import Any

from nova.ec2 import client_tokens
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.volumes import deletion
from nova.ec2.volumes import types
from nova.json_types import JsonDocument

MAX_CLOCK_SKEW = datetime.timedelta(minutes=5)     # maximum difference to the clock of the Block Storage API
TOO_LARGE = 413                # HTTP status of the Block Storage API for an exceeded quota
TOKEN = tags.HIDDEN + 'client-token'          # key of the client token in a volume's metadata
# A volume that is being attached is shown as 'available': clients that wait for 'in-use' expect a usable volume.
STATES = {'available': 'available', 'reserved': 'available', 'attaching': 'available', 'in-use': 'in-use',
          'detaching': 'in-use', 'creating': 'creating', 'downloading': 'creating', 'deleting': 'deleting'}
ATTACHMENTS = {'detaching': 'detaching'}


def _attachment(req: operations.Request, volume: types.Volume, row: types.Attachment, names: dict[Any, Any],
                volumes: dict[Any, Any]) -> dict[str, Any]:
    return {'VolumeId': volumes[volume['id']], 'InstanceId': names[row['server_id']],
            'Device': row.get('device') or None, 'State': ATTACHMENTS.get(volume['status'], 'attached'),
            'AttachTime': protocol.time(at) if (at := row.get('attached_at')) else None}


def _volumes(req: operations.Request, rows: list[types.Volume]) -> list[dict[str, Any]]:
    names = req.ids.shown('i', {part['server_id'] for row in rows for part in row['attachments']})
    volumes = req.ids.shown('vol', [row['id'] for row in rows])
    snapshots = req.ids.shown('snap', {row.get('snapshot_id') for row in rows})
    kept, aliases = tags.of(req, 'vol', [row['id'] for row in rows]), types.aliases(req, rows)
    return [{
        'VolumeId': volumes[row['id']], 'Size': row['size'], 'State': STATES.get(row['status'], 'error'),
        'AvailabilityZone': row.get('availability_zone'), 'CreateTime': protocol.time(row['created_at']),
        'Encrypted': bool(row.get('encrypted')), 'SnapshotId': snapshots[row.get('snapshot_id')] or '',
        'VolumeType': aliases.get(row['id']) or row.get('volume_type'),
        **types.performance(aliases.get(row['id']), row['size']), 'MultiAttachEnabled': bool(row.get('multiattach')),
        'Attachments': [_attachment(req, row, part, names, volumes) for part in row['attachments']],
        'Tags': tags.merged(row['metadata'], kept[row['id']])} for row in rows]


FILTERS: dict[str, filters.Values] = {
    'volume-id': 'VolumeId', 'status': 'State', 'size': 'Size', 'availability-zone': 'AvailabilityZone',
    'availability-zone-id': 'AvailabilityZone', 'snapshot-id': 'SnapshotId', 'create-time': 'CreateTime',
    'encrypted': 'Encrypted', 'volume-type': 'VolumeType', 'multi-attach-enabled': 'MultiAttachEnabled',
    'attachment.instance-id': 'Attachments.InstanceId', 'attachment.device': 'Attachments.Device',
    'attachment.status': 'Attachments.State', 'attachment.attach-time': 'Attachments.AttachTime',
    **filters.fixed('false', 'fast-restored operator.managed'),
    **filters.unset('attachment.delete-on-termination operator.principal')}


def describe_volumes(req: operations.Request, given: operations.Given) -> JsonDocument:
    found = req.chosen('vol', given.get('VolumeIds'), 'volume', 'volumes')
    rows = deletion.present(found)
    if len(rows) < len(found):
        deletion.sweep(req)
    return filters.answer('Volumes', _volumes(req, rows), given, 'VolumeId', FILTERS, prefix='vol')


def create_volume(req: operations.Request, given: operations.Given) -> JsonDocument:
    found, token = tags.given(given.get('TagSpecifications'), 'volume'), given.get('ClientToken')
    items, rows = tags.divided('vol', found)
    if not given.get('SnapshotId') and not given.get('Size'):
        raise errors.missing('Size')

    def make() -> str:
        kind, alias = types.resolved(req, given.get('VolumeType'))
        body: dict[str, Any] = {'size': given.get('Size'), 'volume_type': kind, 'name': found.get('Name'),
                                'availability_zone': given.get('AvailabilityZone') or given.get('AvailabilityZoneId'),
                                'metadata': {**items, **({TOKEN: token} if token else {}),
                                             **({types.NAME: alias} if alias else {})}}
        if given.get('SnapshotId'):
            body['snapshot_id'] = req.find(
                'snap', given['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']['id']
        return str(_created(req, {name: value for name, value in body.items() if value is not None})['id'])
    if req.caller.dry and given.get('SnapshotId'):
        req.find('snap', given['SnapshotId'], 'volume', '/snapshots/{}')
    uuid = client_tokens.once(req, 'CreateVolume', given, lambda since: _made_before(req, token, since), make,
                              lambda made: tags.put(req, 'vol', made, rows))
    with errors.OnStatus(404, lambda _refused: errors.not_found('vol', req.ids.one('vol', uuid))):
        row = req.call('volume', 'GET', f'/volumes/{uuid}')['volume']
    return _volumes(req, [row])[0]


def _created(req: operations.Request, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return req.call('volume', 'POST', '/volumes', {'volume': body})['volume']
    except errors.ServiceRefused as refused:
        if refused.status != TOO_LARGE:
            raise
    deletion.sweep(req)                          # delete hidden volumes, which count against the quota, and retry
    return req.call('volume', 'POST', '/volumes', {'volume': body})['volume']


def _made_before(req: operations.Request, token: str | None, since: datetime.datetime | None) -> str | None:
    """Return the UUID of the volume that an interrupted attempt with this token created, or None.

    :param since: start of that attempt; older volumes, which are later in the list, are not read. None: no attempt
    """
    if since is None:
        return None
    oldest = (since - MAX_CLOCK_SKEW).isoformat()
    rows = req.pages('volume', '/volumes/detail', 'volumes', {'sort': 'created_at:desc'},
                     lambda row: row['created_at'] < oldest)
    return next((str(row['id']) for row in rows if row['metadata'].get(TOKEN) == token), None)


def find_volume(req: operations.Request, shown: str) -> types.Volume:
    volume: types.Volume = req.find('vol', shown, 'volume', '/volumes/{}')['volume']
    if deletion.is_deleted(volume):
        raise errors.not_found('vol', shown)
    return volume


def delete_volume(req: operations.Request, given: operations.Given) -> JsonDocument:
    volume = find_volume(req, given['VolumeId'])
    if volume['attachments']:
        raise errors.Ec2Error('VolumeInUse', f'The volume {given["VolumeId"]} is attached to an instance.')
    deletion.delete(req, volume['id'])
    return {}


def modify_volume(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Extend a volume, or replace its alias of the default volume type by another alias."""
    volume = find_volume(req, given['VolumeId'])
    size, kind = given.get('Size') or volume['size'], given.get('VolumeType')
    before = types.aliases(req, [volume]).get(volume['id'])
    if not given.get('Size') and not kind and not given.keys() - {'VolumeId'}:
        raise errors.Ec2Error('InvalidParameterCombination', 'The request must contain the parameter Size or '
                                                             'VolumeType.')
    is_renamed = kind and kind not in (before, volume.get('volume_type'))
    if is_renamed and (types.resolved(req, kind)[0] or not (before or _is_default(req, volume))):
        raise errors.unsupported('The type of a volume can only change between gp2, gp3 and standard, which all mean '
                                 'the default volume type. Use a retype of the Block Storage API.')
    if size != volume['size']:
        req.call('volume', 'POST', f'/volumes/{volume["id"]}/action', {'os-extend': {'new_size': size}})
    if is_renamed:           # last, because the extension may be refused
        req.call('volume', 'POST', f'/volumes/{volume["id"]}/metadata', {'metadata': {types.NAME: kind}})
    old, new = before or volume.get('volume_type'), kind or before or volume.get('volume_type')
    return {'VolumeModification': {
        'VolumeId': req.ids.one('vol', volume['id']), 'OriginalSize': volume['size'], 'TargetSize': size,
        'ModificationState': 'completed' if size == volume['size'] else 'modifying', 'OriginalVolumeType': old,
        'TargetVolumeType': new}}


def _is_default(req: operations.Request, volume: types.Volume) -> bool:
    found = req.call('volume', 'GET', '/types/default')['volume_type']
    return bool(found['name'] == volume.get('volume_type'))


OPERATIONS = [
    operations.row('DescribeVolumes', describe_volumes, 'VolumeIds' + operations.PAGED),
    operations.row('CreateVolume', create_volume,
                   'Size SnapshotId AvailabilityZone AvailabilityZoneId VolumeType TagSpecifications ClientToken',
                   makes='volume'),
    operations.row('DeleteVolume', delete_volume, 'VolumeId'),
    operations.row('ModifyVolume', modify_volume, 'VolumeId Size VolumeType'),
]
