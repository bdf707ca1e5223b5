"""Images registered from snapshots. They have no data, only block devices."""
import json
import re
from typing import Any

from nova import utils
from nova.api.servers import devices
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.instances import run_parameters
from nova.ec2.volumes import types
from nova.hardware import disks
from nova.web import json_text

MAX_DEVICES = 32                           # maximum number of devices in an image
ROOT = '/dev/vda'
BOOT_MODES = {'legacy-bios': 'bios', 'uefi': 'uefi'}              # {EC2: image property}
TYPES = 'ec2_volume_types'                 # image property: aliases of volume types, see ``volumes.types``
ENA, SRIOV = 'ec2_ena_support', 'ec2_sriov_net_support'            # image properties: drivers of the image
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
             TYPES: types.text_of({mapping.get('DeviceName') or '': (mapping.get('Ebs') or {}).get('VolumeType')
                                   for mapping in given['BlockDeviceMappings']}) or None,
             **_declared(given), disks.MAPPING: json.dumps(_devices(req, given['BlockDeviceMappings'], root))}
    made = str(req.call('image', 'POST', '/images', {
        name: value for name, value in facts.items() if value is not None})['id'])
    try:
        req.call('image', 'PUT', f'/images/{made}/file', calls.Body(iter(()), 0))
    except BaseException:
        req.call('image', 'DELETE', f'/images/{made}')
        raise
    tags.put(req, 'ami', made, named)
    return req.ids.one('ami', made)


def _declared(given: operations.Given) -> dict[str, str]:
    """Return the image properties for parameters that describe the operating system: firmware, drivers and similar.

    :raises Ec2Error: an unsupported value
    """
    found = {}
    if mode := given.get('BootMode'):
        if mode not in BOOT_MODES:
            raise errors.unsupported(f'The only supported boot modes are {", ".join(BOOT_MODES)}.')
        found['hw_firmware_type'] = BOOT_MODES[mode]
    if given.get('EnaSupport') is not None:
        found[ENA] = str(given['EnaSupport']).lower()
    if given.get('SriovNetSupport'):
        if given['SriovNetSupport'] != 'simple':
            raise errors.invalid('SriovNetSupport', given['SriovNetSupport'])
        found[SRIOV] = given['SriovNetSupport']
    return found


def root_of(image: dict[str, Any]) -> str:
    """Return the name of an image's root device. RegisterImage can set it, for example to ``/dev/sda1``."""
    for mapping in _mappings(image):
        if mapping.get('boot_index') == 0 and mapping.get('device_name'):
            return str(mapping['device_name'])[:255]
    return devices.root_device(image)


def _mappings(image: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the block device mappings of an image; [] if they are malformed, because its owner can change them."""
    try:
        return [dict(mapping) for mapping in json_text.parse(image.get(disks.MAPPING) or '[]')[:MAX_DEVICES]]
    except (ValueError, TypeError):
        return []


def shown(image: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of an image. The owner can name any snapshots, so these get no rows in the table of IDs."""
    aliases = types.of_text(image.get(TYPES))
    try:
        mappings = _mappings(image)
        if not all(_UUID.fullmatch(mapping['snapshot_id']) for mapping in mappings):
            return []
        return [{'DeviceName': str(mapping['device_name'])[:255], 'Ebs': {
            'SnapshotId': utils.ec2_id(mapping['snapshot_id'], 'snap'), 'VolumeSize': int(mapping['volume_size']),
            'VolumeType': mapping.get('volume_type') or aliases.get(mapping['device_name'], types.DEFAULT),
            'Encrypted': bool(mapping.get('encrypted')),
            'DeleteOnTermination': bool(mapping.get('delete_on_termination'))}} for mapping in mappings]
    except (ValueError, TypeError, LookupError, AttributeError):
        return []


def _devices(req: operations.Request, mappings: list[dict[str, Any]], root: str) -> list[dict[str, Any]]:
    """Return the devices in the format of the compute API."""
    run_parameters.check_devices(mappings)
    names = [mapping.get('DeviceName') for mapping in mappings]
    if len(names) > MAX_DEVICES or len(set(names)) < len(names) or None in names:
        raise errors.Ec2Error('InvalidBlockDeviceMapping', f'An image can have at most {MAX_DEVICES} devices, '
                                                           'with different names.')
    found = []
    for mapping in mappings:
        ebs = mapping['Ebs']
        if not ebs.get('SnapshotId') or ebs.get('VolumeType') not in (None, *types.ALIASES):
            raise errors.unsupported('Each device of an image must have a SnapshotId. Its VolumeType may be gp2, gp3 '
                                     'or standard, which all mean the default volume type of the cloud.')
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
