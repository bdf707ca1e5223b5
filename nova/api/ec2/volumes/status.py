"""EC2 operations on the status, attributes and modifications of volumes."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2.volumes import volumes

GROWING = ('extending', 'retyping')                # statuses of a volume that is being modified


def _rows(req: operations.Request, given: operations.Given) -> list[dict[str, Any]]:
    """Return volumes with their VolumeId: the requested volumes, or all.

    :raises Ec2Error: a volume does not exist
    """
    rows = req.chosen('vol', given.get('VolumeIds'), 'volume', 'volumes')
    names = req.ids.shown('vol', [row['id'] for row in rows])
    return filters.choose([{**row, 'VolumeId': names[row['id']]} for row in rows], 'VolumeId', given.get('VolumeIds'),
                          'vol')


def describe_volume_status(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    shown = []
    for row in _rows(req, given):
        status = 'impaired' if row['status'].startswith('error') else 'ok'
        if row['status'] in ('creating', 'downloading'):
            status = 'insufficient-data'
        shown.append({'VolumeId': row['VolumeId'], 'AvailabilityZone': row.get('availability_zone'),
                      'VolumeStatus': {'Status': status}})
    shown = filters.apply(shown, given.get('Filters'), {
        'availability-zone': lambda row: row['AvailabilityZone'],
        'volume-status.status': lambda row: row['VolumeStatus']['Status']})
    page, token = filters.page(shown, given, 'VolumeId')
    return {'VolumeStatuses': page, 'NextToken': token}


def describe_volume_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    volumes.find_volume(req, given['VolumeId'])
    if given['Attribute'] == 'autoEnableIO':
        return {'VolumeId': given['VolumeId'], 'AutoEnableIO': {'Value': False}}
    if given['Attribute'] == 'productCodes':
        return {'VolumeId': given['VolumeId'], 'ProductCodes': []}                 # not supported
    raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not supported.')


def describe_volumes_modifications(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Show volumes that grow, and requested ones. There is no history of changes."""
    shown = [{'VolumeId': row['VolumeId'], 'TargetSize': row['size'],
              'ModificationState': _modification(row['status'])}
             for row in _rows(req, given) if given.get('VolumeIds') or row['status'] in GROWING]
    shown = filters.apply(shown, given.get('Filters'), {
        'volume-id': lambda row: row['VolumeId'], 'modification-state': lambda row: row['ModificationState'],
        'target-size': lambda row: row['TargetSize']})
    page, token = filters.page(shown, given, 'VolumeId')
    return {'VolumesModifications': page, 'NextToken': token}


def _modification(status: str) -> str:
    if status in GROWING:
        return 'modifying'
    return 'failed' if status == 'error_extending' else 'completed'


OPERATIONS = [
    operations.row('DescribeVolumeStatus', describe_volume_status, 'VolumeIds' + operations.PAGED),
    operations.row('DescribeVolumeAttribute', describe_volume_attribute, 'VolumeId Attribute'),
    operations.row('DescribeVolumesModifications', describe_volumes_modifications, 'VolumeIds' + operations.PAGED),
]
