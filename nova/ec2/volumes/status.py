"""EC2 operations on the status, attributes and modifications of volumes."""
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2.volumes import deletion
from nova.ec2.volumes import volumes
from nova.json_types import JsonDocument

GROWING = ('extending', 'retyping')                # statuses of a volume that is being modified


def _rows(req: operations.Request, given: operations.Given) -> list[dict[str, Any]]:
    """Return the requested volumes, or all volumes, with their VolumeId.

    :raises Ec2Error: a volume does not exist
    """
    rows = deletion.present(req.chosen('vol', given.get('VolumeIds'), 'volume', 'volumes'))
    names = req.ids.shown('vol', [row['id'] for row in rows])
    return filters.choose([{**row, 'VolumeId': names[row['id']]} for row in rows], 'VolumeId', given.get('VolumeIds'),
                          'vol')


def describe_volume_status(req: operations.Request, given: operations.Given) -> JsonDocument:
    shown = []
    for row in _rows(req, given):
        status = 'impaired' if row['status'].startswith('error') else 'ok'
        if row['status'] in ('creating', 'downloading'):
            status = 'insufficient-data'
        shown.append({'VolumeId': row['VolumeId'], 'AvailabilityZone': row.get('availability_zone'),
                      'VolumeStatus': {'Status': status}})
    return filters.answer('VolumeStatuses', shown, given, 'VolumeId', {
        'availability-zone': 'AvailabilityZone', 'availability-zone-id': 'AvailabilityZone',
        'volume-status.status': 'VolumeStatus.Status', **filters.unset(
            'action.code action.description action.event-id attachment-status.instance-id '
            'attachment-status.io-performance event.description event.event-id event.event-type event.not-after '
            'event.not-before volume-status.details-name volume-status.details-status')})


def describe_volume_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    volumes.find_volume(req, given['VolumeId'])
    if given['Attribute'] == 'autoEnableIO':
        return {'VolumeId': given['VolumeId'], 'AutoEnableIO': {'Value': False}}
    if given['Attribute'] == 'productCodes':
        return {'VolumeId': given['VolumeId'], 'ProductCodes': []}                 # not supported
    raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not supported.')


def describe_volumes_modifications(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Show the requested volumes, or all volumes that are being modified. Past modifications are not stored."""
    shown = [{'VolumeId': row['VolumeId'], 'TargetSize': row['size'],
              'ModificationState': _modification(row['status'])}
             for row in _rows(req, given) if given.get('VolumeIds') or row['status'] in GROWING]
    return filters.answer('VolumesModifications', shown, given, 'VolumeId', {
        'volume-id': 'VolumeId', 'modification-state': 'ModificationState', 'target-size': 'TargetSize',
        **filters.unset(
            'original-iops original-size original-volume-type originalMultiAttachEnabled start-time target-iops '
            'target-volume-type targetMultiAttachEnabled')})


def _modification(status: str) -> str:
    if status in GROWING:
        return 'modifying'
    return 'failed' if status == 'error_extending' else 'completed'


OPERATIONS = [
    operations.row('DescribeVolumeStatus', describe_volume_status, 'VolumeIds' + operations.PAGED),
    operations.row('DescribeVolumeAttribute', describe_volume_attribute, 'VolumeId Attribute'),
    operations.row('DescribeVolumesModifications', describe_volumes_modifications, 'VolumeIds' + operations.PAGED),
]
