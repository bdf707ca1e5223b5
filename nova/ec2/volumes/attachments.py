"""EC2 operations that attach and detach volumes."""

from nova.api import shapes
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import waits
from nova.ec2.volumes import volumes
from nova.json_types import JsonDocument


def _server(req: operations.Request, shown: str) -> str:
    """Return the UUID of an instance that is visible to the caller."""
    return str(req.find('i', shown, 'compute', '/servers/{}')['server']['id'])


def attach_volume(req: operations.Request, given: operations.Given) -> JsonDocument:
    volume, server = volumes.find_volume(req, given['VolumeId']), _server(req, given['InstanceId'])
    if volume['status'] != 'available' and not volume.get('multiattach'):
        raise errors.Ec2Error('IncorrectState', f'The volume {given["VolumeId"]} is {volume["status"]}.')
    body = {'volumeId': volume['id']}
    if given.get('Device'):
        body['device'] = given['Device']
    made = waits.when_idle(req, server, lambda: req.call(
        'compute', 'POST', f'/servers/{server}/os-volume_attachments', {'volumeAttachment': body},
        headers={shapes.DEVICE_NAME: 'label'}))
    return {'VolumeId': req.ids.one('vol', volume['id']), 'InstanceId': req.ids.one('i', server),
            'Device': made['volumeAttachment'].get('device'), 'State': 'attaching'}


def detach_volume(req: operations.Request, given: operations.Given) -> JsonDocument:
    volume = volumes.find_volume(req, given['VolumeId'])
    wanted = _server(req, given['InstanceId']) if given.get('InstanceId') else None
    found = [part for part in volume['attachments'] if wanted in (None, part['server_id'])]
    if not found:
        raise errors.Ec2Error('IncorrectState', f'The volume {given["VolumeId"]} is not attached there.')
    server = found[0]['server_id']
    waits.when_idle(req, server, lambda: req.call(
        'compute', 'DELETE', f'/servers/{server}/os-volume_attachments/{volume["id"]}'))
    return {'VolumeId': req.ids.one('vol', volume['id']), 'InstanceId': req.ids.one('i', server), 'State': 'detaching',
            'Device': found[0].get('device')}


OPERATIONS = [
    operations.row('AttachVolume', attach_volume, 'VolumeId InstanceId Device'),
    operations.row('DetachVolume', detach_volume, 'VolumeId InstanceId', 'Device'),
]
