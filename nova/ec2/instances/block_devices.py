"""Block device mappings of RunInstances, converted for the compute API."""
from typing import Any, TypedDict

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2.images import snapshot_images
from nova.ec2.volumes import types
from nova.hardware import disks
from nova.web import json_text

GIB = 1 << 30
Device = dict[str, Any]


class Source(TypedDict, total=False):
    """The boot source and the block devices in the body of POST /servers."""

    imageRef: str
    block_device_mapping_v2: list[Device]


def source_of(req: operations.Request, given: operations.Given) -> tuple[Source, dict[str, str]]:
    """Return (source, metadata items of the server).

    If a mapping names the root device, a root volume of the given size is created from the image.

    :raises Ec2Error: the image or a snapshot is not visible to the caller
    """
    mappings = given.get('BlockDeviceMappings') or ()
    if not given.get('ImageId'):
        if mappings or not given.get(protocol.CATEGORY):        # a category has a default image
            raise errors.missing('ImageId')
        return {}, {}
    source: Source = {'imageRef': req.uuid('ami', given['ImageId'])}
    if not mappings:
        return source, {}
    image = req.find('ami', given['ImageId'], 'image', '/images/{}')
    root_name = snapshot_images.root_of(image)
    root: Device = {'boot_index': 0, 'source_type': 'image', 'destination_type': 'local', 'uuid': image['id'],
                    'delete_on_termination': True}
    others = []
    names = [_path(mapping['DeviceName']) for mapping in mappings if mapping.get('DeviceName')]
    if len(set(names)) < len(names):
        raise errors.Ec2Error('InvalidBlockDeviceMapping', 'Two block device mappings have the same DeviceName.')
    aliases: dict[str, str | None] = {}
    for mapping in mappings:
        name = _path(mapping.get('DeviceName'))
        kind, alias = types.resolved(req, mapping['Ebs'].get('VolumeType'))
        if name:
            aliases[name] = alias
        if name == root_name:
            root = _root(req, mapping['Ebs'], image, root_name, kind) or root
        else:
            others.append(_other(req, mapping, kind))
    text = types.text_of(aliases)
    return {**source, 'block_device_mapping_v2': [root, *others]}, {types.DEVICES: text} if text else {}


def count_volumes(source: Source) -> int:
    """Return the number of volumes that a server gets."""
    return sum(each['destination_type'] == 'volume' for each in source.get('block_device_mapping_v2') or ())


def _path(name: str | None) -> str | None:
    return f'/dev/{name}' if name and not name.startswith('/') else name


def _other(req: operations.Request, mapping: dict[str, Any], kind: str | None) -> Device:
    """Return the block device for a mapping of a device other than the root device."""
    ebs = mapping['Ebs']
    made = {'source_type': 'blank'}
    if ebs.get('SnapshotId'):
        made = {'source_type': 'snapshot', 'uuid': _snapshot(req, ebs)}
    return {**_volume(ebs, ebs.get('VolumeSize'), mapping.get('DeviceName'), kind), 'boot_index': -1, **made}


def _root(req: operations.Request, ebs: dict[str, Any], image: dict[str, Any], name: str,
          kind: str | None) -> Device | None:
    """Return the root volume for a mapping of the root device, or None if the default root disk satisfies it."""
    own = _own_root(image, name)
    if ebs.get('SnapshotId'):
        return {**_volume(ebs, ebs.get('VolumeSize'), name, kind), 'boot_index': 0, 'source_type': 'snapshot',
                'uuid': _snapshot(req, ebs)}
    if own is not None:
        return {**_volume({'DeleteOnTermination': bool(own.get('delete_on_termination')), **ebs},
                          ebs.get('VolumeSize') or own.get('volume_size'), name, kind),
                'boot_index': 0, 'source_type': 'snapshot', 'uuid': own['snapshot_id']}
    if not ebs.get('VolumeSize') and ebs.get('VolumeType') in (None, types.DEFAULT) and ebs.get(
            'DeleteOnTermination', True):
        return None
    return {**_volume(ebs, ebs.get('VolumeSize') or _size_of(image), name, kind), 'boot_index': 0,
            'source_type': 'image', 'uuid': image['id']}


def _volume(ebs: dict[str, Any], size: int | None, name: str | None, kind: str | None) -> Device:
    found = {'destination_type': 'volume', 'device_name': name, 'volume_size': size,
             'volume_type': kind, 'delete_on_termination': ebs.get('DeleteOnTermination', True)}
    return {key: value for key, value in found.items() if value is not None}


def _snapshot(req: operations.Request, ebs: dict[str, Any]) -> str:
    return str(req.find('snap', ebs['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']['id'])


def _own_root(image: dict[str, Any], name: str) -> Device | None:
    """Return the root device in an image's mappings; None if the device is missing or the mappings are malformed."""
    try:
        listed = json_text.parse(image.get(disks.MAPPING) or '[]')
        return next((dict(each) for each in listed
                     if each.get('device_name') == name and each.get('snapshot_id')), None)
    except (ValueError, TypeError, AttributeError):
        return None


def _size_of(image: dict[str, Any]) -> int:
    """Return the minimum size of a disk for an image, in GiB."""
    size = max(image.get('size') or 0, image.get('virtual_size') or 0)
    return max(1, image.get('min_disk') or 0, -(-size // GIB))
