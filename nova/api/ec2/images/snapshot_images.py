"""Images registered from snapshots. They have no data, only block devices."""
from __future__ import annotations

import json
import re
from typing import Any

from nova import utils
from nova.api.ec2 import calls
from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2.instances import run_parameters
from nova.hardware import disks
from nova.web import json_text

MOST = 32                                  # devices of an image
ROOT = '/dev/vda'
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


def register(req: operations.Request, given: operations.Given, architecture: str | None) -> str:
    """Register an image and return its ID.

    :param architecture: name in the image service
    :param given: parameters of RegisterImage
    :raises Ec2Error: a device is invalid, or a snapshot is not visible to the caller
    """
    root = given.get('RootDeviceName') or ROOT
    named = tags.given(given.get('TagSpecifications'), 'image')
    facts = {'name': given['Name'], 'disk_format': 'raw', 'container_format': 'bare', 'bdm_v2': 'True',
             'architecture': architecture, 'root_device_name': root, 'description': given.get('Description'),
             disks.MAPPING: json.dumps(_devices(req, given['BlockDeviceMappings'], root))}
    made = str(req.call('image', 'POST', '/images', {
        name: value for name, value in facts.items() if value is not None})['id'])
    try:
        req.call('image', 'PUT', f'/images/{made}/file', calls.Body(iter(()), 0))
    except BaseException:
        req.call('image', 'DELETE', f'/images/{made}')
        raise
    tags.put(req, 'ami', made, named)
    return req.ids.one('ami', made)


def shown(image: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of an image. Its owner controls them, so they are not added to the table of IDs."""
    try:
        mappings = json_text.parse(image.get(disks.MAPPING) or '[]')[:MOST]
        if not all(_UUID.fullmatch(mapping['snapshot_id']) for mapping in mappings):
            return []
        return [{'DeviceName': str(mapping['device_name'])[:255], 'Ebs': {
            'SnapshotId': utils.ec2_id(mapping['snapshot_id'], 'snap'), 'VolumeSize': int(mapping['volume_size']),
            'DeleteOnTermination': bool(mapping.get('delete_on_termination'))}} for mapping in mappings]
    except (ValueError, TypeError, LookupError, AttributeError):
        return []


def _devices(req: operations.Request, mappings: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    """Return the devices in the format of the compute API."""
    run_parameters.check_devices(mappings)
    names = [mapping.get('DeviceName') for mapping in mappings]
    if len(names) > MOST or len(set(names)) < len(names) or None in names:
        raise errors.Ec2Error('InvalidBlockDeviceMapping', f'An image can have at most {MOST} devices with different '
                                                           'names.')
    found = []
    for mapping in mappings:
        ebs = mapping['Ebs']
        if not ebs.get('SnapshotId') or run_parameters.volume_type(ebs):
            raise errors.unsupported('Each device of an image must have a SnapshotId and no VolumeType.')
        snapshot = req.find('snap', ebs['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']
        size = ebs.get('VolumeSize') or snapshot['size']
        if size < snapshot['size']:
            raise errors.Ec2Error('InvalidBlockDeviceMapping', f'The snapshot {ebs["SnapshotId"]} needs '
                                                               f'{snapshot["size"]} GiB.')
        found.append({'source_type': 'snapshot', 'destination_type': 'volume', 'snapshot_id': snapshot['id'],
                      'volume_size': size, 'device_name': mapping['DeviceName'],
                      'boot_index': 0 if mapping['DeviceName'] == root else -1,
                      'delete_on_termination': ebs.get('DeleteOnTermination', True)})
    if root not in names:
        raise errors.Ec2Error('InvalidBlockDeviceMapping', f'BlockDeviceMappings lacks the root device {root[:64]}.')
    return found
